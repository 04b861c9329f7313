// Rows of tables as the replay makes them, and how it reads and writes their values.

/** A row of a table by its columns' names, values as PostgreSQL reads them from JSON. */
export type Row = Record<string, string | number | boolean | null>;

/** Rows that later events don't change, by table; of holds those that have ended. */
export type AddedRows = Record<(typeof addedTables)[number], Row[]>;

const addedTables = [
  ...(['transactions', 'entries', 'holds', 'hold_entries', 'parts'] as const),
  ...(['shifted_transactions', 'shifted_entries', 'transaction_metadata', 'transaction_texts'] as const),
  ...(['subject_transactions', 'erased_subjects'] as const),
] as const;

/** No rows yet. */
export function noRows(): AddedRows {
  return Object.fromEntries(addedTables.map((table) => [table, []])) as unknown as AddedRows;
}

/** All rows that several events add, by table. */
export function joined(added: AddedRows[]): AddedRows {
  return Object.fromEntries(addedTables.map((table) => [table, added.flatMap((rows) => rows[table])])) as AddedRows;
}

/** Takes what is wrong with an event, a text that follows `event 7`. */
export type Report = (problem: string) => void;

/** A time in the log that is outside the calendar. */
export class InvalidTime extends Error {}

/** Bytes as PostgreSQL reads them. */
export function bytea(bytes: Uint8Array): string {
  return `\\x${Buffer.from(bytes).toString('hex')}`;
}

/** Milliseconds since the Unix epoch as text. Throws {@link InvalidTime}. */
export function time(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) throw new InvalidTime(`${ms} ms after 1970 is no time`);
  return date.toISOString();
}

/** Minor units of a decimal text as events have it. Throws where it is none. */
export function minorUnits(text: string): bigint {
  if (!/^-?[0-9]+\.[0-9]{2}$/.test(text)) throw new Error(`${text} is no amount`);
  return BigInt(text.replace('.', ''));
}
