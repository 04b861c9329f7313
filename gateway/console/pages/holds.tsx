// Money that is reserved: a list by state.
import type { ReactElement } from 'react';
import type { Hold } from '../../clients/typescript/ledger.ts';
import { texts } from '../page-words.ts';
import { Button } from '../parts/button.tsx';
import { AccountFilter, SearchField } from '../parts/filter.tsx';
import { SelectField } from '../parts/form.tsx';
import { useFilters } from '../parts/links.ts';
import { Badge, Page } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/problem.tsx';
import { Table, type ColumnOf } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { usePages } from '../tenant.tsx';
import { Total } from './transactions.tsx';

const words = texts.holds;
const { common } = texts;

const tones = { pending: 'warn', captured: 'good', voided: 'plain', expired: 'plain' } as const;

/** The state of a hold. */
export function HoldState({ status }: Pick<Hold, 'status'>): ReactElement {
  return <Badge tone={tones[status]}>{words.statuses[status]}</Badge>;
}

const columns: ColumnOf<Hold>[] = [
  { id: 'at', label: common.created, width: 184, isOptional: true, cell: ({ created_at: at }) => <Time time={at} /> },
  {
    id: 'description',
    label: common.description,
    width: '2fr',
    isRowHeader: true,
    cell: ({ description }) => description || <span className="nothing">{common.noDescription}</span>,
  },
  { id: 'reference', label: common.reference, width: '1fr', isOptional: true, cell: ({ reference }) => reference },
  { id: 'status', label: common.status, width: 110, cell: (hold) => <HoldState {...hold} /> },
  {
    id: 'expires',
    label: words.expires,
    width: 184,
    isOptional: true,
    cell: ({ expires_at: at }) => (at === null ? common.never : <Time time={at} />),
  },
  { id: 'amount', label: common.amount, width: 160, isNumber: true, cell: (hold) => <Total transaction={hold} /> },
];

const names = ['status', 'account_code', 'reference'] as const;

/** The page. */
export function HoldsPage(): ReactElement {
  const [filters, set] = useFilters(names);
  const pages = usePages(
    ['holds', filters],
    (ledger, options) => ledger.holds.list({ ...(filters as object), ...options }),
    ({ holds }) => holds,
    { everyMs: 10_000 },
  );
  const isFiltered = Object.keys(filters).length > 0;
  const clear = () => set({ status: '', account_code: '', reference: '' });
  const statuses = Object.entries(words.statuses).map(([id, label]) => ({ id, label }));
  return (
    <Page title={words.title} lead={words.lead}>
      <div className="filters" role="search" aria-label={words.title}>
        <SelectField
          label={common.status}
          name="status"
          value={filters.status ?? 'all'}
          onChange={(status) => set({ status: status === 'all' ? '' : status })}
          options={[{ id: 'all', label: common.all }, ...statuses]}
        />
        <AccountFilter label={common.account} value={filters.account_code ?? ''} onChange={(code) => set({ account_code: code })} />
        <SearchField
          label={common.reference}
          name="reference"
          value={filters.reference ?? ''}
          onChange={(reference) => set({ reference })}
        />
        {isFiltered && (
          <Button kind="quiet" onPress={clear}>
            {common.clearFilters}
          </Button>
        )}
      </div>
      <Loaded query={pages.query} lines={10}>
        {() => (
          <Table
            label={words.title}
            columns={columns}
            items={pages.items}
            idOf={({ hold_id: id }) => id}
            hrefOf={({ hold_id: id }) => `/holds/${id}`}
            more={pages.more}
            isLoadingMore={pages.isLoadingMore}
            empty={isFiltered ? <Empty title={common.nothingFound} /> : <Empty title={words.empty}>{words.emptyText}</Empty>}
          />
        )}
      </Loaded>
    </Page>
  );
}
