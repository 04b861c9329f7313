// Tables: of any length, where only the rows in view are in the document, and short ones that print.
import type { ReactElement, ReactNode } from 'react';
import {
  Cell,
  Collection,
  Column,
  Row,
  Table as AriaTable,
  TableBody,
  TableHeader,
  TableLayout,
  TableLoadMoreItem,
  Virtualizer,
} from 'react-aria-components';
import { useIsNarrow } from './media.ts';
import { words } from '../words.ts';

/** A column. */
export interface ColumnOf<Item> {
  id: string;
  label: string;
  cell: (item: Item) => ReactNode;
  /** Names the row for screen readers; the first column by default. */
  isRowHeader?: boolean;
  /** Right-aligned figures. */
  isNumber?: boolean;
  /** Pixels, or a share such as `2fr`. */
  width?: number | `${number}fr`;
  minWidth?: number;
  /** Left out where the window is narrow. */
  isOptional?: boolean;
}

interface TableProps<Item> {
  label: string;
  columns: ColumnOf<Item>[];
  items: Item[];
  idOf: (item: Item) => string;
  /** Where a row leads. */
  hrefOf?: (item: Item) => string;
  /** Reads the next page when the end comes into view. */
  more?: (() => void) | undefined;
  isLoadingMore?: boolean;
  empty?: ReactElement;
}

const [rowHeight, headHeight] = [36, 32];

/** A table of any length. Arrow keys move, Enter follows the row's link. It fills the height that is left, up to its rows. */
export function Table<Item extends object>({
  label,
  columns,
  items,
  idOf,
  hrefOf,
  more,
  isLoadingMore = false,
  empty,
}: TableProps<Item>): ReactElement {
  const isNarrow = useIsNarrow();
  if (items.length === 0 && empty && !isLoadingMore) return empty;
  const shown = columns.filter(({ isOptional = false }) => !isNarrow || !isOptional);
  const header = shown.find(({ isRowHeader = false }) => isRowHeader) ?? shown[0];
  const classOf = ({ isNumber = false }: ColumnOf<Item>): string => (isNumber ? 'cell number' : 'cell');
  return (
    <div className="table-frame" style={{ height: Math.min(items.length, 400) * rowHeight + headHeight + 2 }}>
      <Virtualizer layout={TableLayout} layoutOptions={{ rowHeight, headingHeight: headHeight }}>
        <AriaTable aria-label={label} className="table">
          <TableHeader columns={shown} className="table-head">
            {(column) => (
              <Column
                id={column.id}
                isRowHeader={column === header}
                width={column.width}
                minWidth={column.minWidth ?? 60}
                className={classOf(column)}
              >
                {column.label}
              </Column>
            )}
          </TableHeader>
          <TableBody>
            <Collection items={items} dependencies={[shown]}>
              {(item) => (
                <Row id={idOf(item)} columns={shown} href={hrefOf?.(item)} className={hrefOf ? 'row link' : 'row'}>
                  {(column) => <Cell className={classOf(column)}>{column.cell(item)}</Cell>}
                </Row>
              )}
            </Collection>
            <TableLoadMoreItem onLoadMore={more} isLoading={isLoadingMore} className="more">
              {words.loading}
            </TableLoadMoreItem>
          </TableBody>
        </AriaTable>
      </Virtualizer>
    </div>
  );
}

/** A short table, whole in the document: for reports, statements and print. `total`: cells of a last row, ruled off as in a book. */
export function Sheet<Item>({
  label,
  columns,
  items,
  idOf,
  total,
}: {
  label: string;
  columns: ColumnOf<Item>[];
  items: Item[];
  idOf: (item: Item) => string;
  total?: Partial<Record<string, ReactNode>>;
}): ReactElement {
  const classOf = ({ isNumber = false, isOptional = false }: ColumnOf<Item>): string =>
    `${isNumber ? 'number' : ''}${isOptional ? ' optional' : ''}`;
  const header = columns.find(({ isRowHeader = false }) => isRowHeader) ?? columns[0];
  return (
    // It can be scrolled by keyboard where it is wider than the window.
    <div className="sheet-frame" role="region" aria-label={label} tabIndex={0}>
      <table className="sheet">
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id} scope="col" className={classOf(column)}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={idOf(item)}>
              {columns.map((column) =>
                column === header ? (
                  <th key={column.id} scope="row" className={classOf(column)}>
                    {column.cell(item)}
                  </th>
                ) : (
                  <td key={column.id} className={classOf(column)}>
                    {column.cell(item)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
        {total && (
          <tfoot>
            <tr>
              {columns.map((column) => (
                <td key={column.id} className={classOf(column)}>
                  {total[column.id]}
                </td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}
