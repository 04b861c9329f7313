// Pages of a list: their limit and the opaque cursor at which the next one begins.
import { decodeCursor, encodeCursor } from '../platform/cursor.ts';
import { Refusal } from './accounting.ts';

/** A requested page. */
export interface Page {
  /** 1 to 100. */
  limit: number;
  /** From the page before; empty for the first. */
  cursor: string;
}

/** Lists with cursors. A cursor is valid for its own list only. */
export type List = 'accounts' | 'transactions' | 'history';

// An account's position is its UUID as a number; the others are sequences and positions of entries.
const largest: Record<List, bigint> = { accounts: 2n ** 128n - 1n, transactions: 2n ** 63n - 1n, history: 2n ** 63n - 1n };

/** The requested limit, 50 by default. Throws {@link Refusal}. */
export function checkedLimit(limit: number): number {
  const refuse = (tag: string) =>
    new Refusal('validation_failed', 'limit must be from 1 to 100', { field: 'limit', tag, value: String(limit) });
  if (limit < 0) throw refuse('min');
  if (limit > 100) throw refuse('max');
  return limit === 0 ? 50 : limit;
}

/** A cursor for a position, which is one or more whole numbers. */
export function cursorAt(list: List, position: bigint[]): string {
  return encodeCursor(list, Buffer.from(position.join(' ')));
}

/** The position of a cursor, null for the first page. Throws {@link Refusal} for any text that is no cursor of this list. */
export function positionOf(list: List, cursor: string, numbers: number): bigint[] | null {
  if (cursor === '') return null;
  const text = (cursor.length < 100 && decodeCursor(list, cursor)?.toString('latin1')) || '';
  const position = /^[0-9]{1,39}( [0-9]{1,39})*$/.test(text) ? text.split(' ').map(BigInt) : [];
  if (position.length !== numbers || position.some((number) => number > largest[list])) {
    throw new Refusal('validation_failed', 'cursor is not one of this list', { field: 'cursor', tag: 'id', value: cursor.slice(0, 255) });
  }
  return position;
}

/** Removes the row that was read beyond the page, and returns the cursor of the next page. */
export function cutPage<Row>(
  rows: Row[],
  limit: number,
  list: List,
  position: (row: Row) => bigint[],
): { page: Row[]; nextCursor: string } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: rows.length > limit && last !== undefined ? cursorAt(list, position(last)) : '' };
}

// A hundred of the largest transactions would be 5 MB and delay all other clients.
const maxPageBytes = 1024 * 1024;

/** How many rows fit into one answer by the size of their payloads: at least one, at most `limit`. */
export function countFitting(rows: { payload: Uint8Array }[], limit: number): number {
  let bytes = 0;
  const beyond = rows.findIndex((row) => (bytes += row.payload.length) > maxPageBytes);
  return Math.min(limit, beyond < 0 ? limit : Math.max(beyond, 1));
}
