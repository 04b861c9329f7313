// A report as a table: what the formats CSV, XLSX and PDF are made from.

/** How a column's cells are read: amounts are decimal strings. */
export type ColumnType = 'text' | 'amount' | 'number' | 'boolean';

/** A column of a table. */
export interface TableColumn {
  /** Header of CSV and XLSX: the name in JSON, amounts `<key>.<name>`. */
  name: string;
  /** Header of PDF; absent: PDF has no such column. */
  label?: string;
  /** Stands above the label in PDF, once over neighbours that share it. */
  over?: string;
  type: ColumnType;
  /** Points of PDF; absent: what the others leave. Amounts have 78. */
  width?: number;
  /** PDF indents it by the row's depth. */
  isIndented?: boolean;
  /** Only PDF has it. */
  isPrintOnly?: boolean;
}

/** One cell; an amount is a decimal string. */
export type Cell = string | number | boolean | null;

/** A row of a table. */
export interface TableRow {
  /** CSV has lines and groups only: its rows add up by `is_group` and `folded`. */
  kind: 'heading' | 'line' | 'group' | 'total';
  /** In the order of the columns; of a heading its text only. */
  cells: Cell[];
  /** Levels by which PDF indents, from 0. A heading of level 0 is repeated on the next page. */
  depth: number;
}

/** A report as a table. */
export interface Table {
  /** `Balance sheet`. */
  title: string;
  /** `As of 2026-01-31`, `2026-01-01 to 2026-01-31`. */
  period: string;
  /** Facts under the title of PDF and on the second sheet of XLSX, such as parameters. */
  facts: [name: string, value: string][];
  /** The log as the report has read it. */
  asRecorded: { sequence: string; hash: string; at: string };
  columns: TableColumn[];
  /** Reads the rows once more. */
  rows: () => AsyncIterable<TableRow> | Iterable<TableRow>;
}
