// Pages of a list: how many, and the opaque cursor that says where the next one begins.
import { decodeCursor, encodeCursor } from '../platform/cursor.ts';
import { Refusal } from './accounting.ts';

/** The page that a caller asks for. */
export interface Page {
  /** 1 to 100. */
  limit: number;
  /** From the page before; empty for the first. */
  cursor: string;
}

/** Lists that have cursors; one list's cursor is not another's. */
export type List = 'accounts' | 'transactions' | 'history';

// An account's place is its UUID as a number, the others are sequences and positions.
const largest: Record<List, bigint> = { accounts: 2n ** 128n - 1n, transactions: 2n ** 63n - 1n, history: 2n ** 63n - 1n };

/** The limit that was asked for: 50 unless given. Throws {@link Refusal}. */
export function checkedLimit(limit: number): number {
  const refuse = (tag: string) =>
    new Refusal('validation_failed', 'limit must be from 1 to 100', { field: 'limit', tag, value: String(limit) });
  if (limit < 0) throw refuse('min');
  if (limit > 100) throw refuse('max');
  return limit === 0 ? 50 : limit;
}

/** A cursor that stands at a place, which is one or more whole numbers. */
export function cursorAt(list: List, place: bigint[]): string {
  return encodeCursor(list, Buffer.from(place.join(' ')));
}

/** The place of a cursor, null for the first page. Throws {@link Refusal} for anything that this list did not hand out. */
export function positionOf(list: List, cursor: string, numbers: number): bigint[] | null {
  if (cursor === '') return null;
  const text = (cursor.length < 100 && decodeCursor(list, cursor)?.toString('latin1')) || '';
  const place = /^[0-9]{1,39}( [0-9]{1,39})*$/.test(text) ? text.split(' ').map(BigInt) : [];
  if (place.length !== numbers || place.some((number) => number > largest[list])) {
    throw new Refusal('validation_failed', 'cursor is not one of this list', { field: 'cursor', tag: 'id', value: cursor.slice(0, 255) });
  }
  return place;
}

/** Cuts the row that was read beyond the page and says where the next page begins. */
export function cutPage<Row>(rows: Row[], limit: number, list: List, place: (row: Row) => bigint[]): { page: Row[]; nextCursor: string } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: rows.length > limit && last !== undefined ? cursorAt(list, place(last)) : '' };
}

// What one answer may weigh: a hundred of the largest transactions are 5 MB, and a few readers of those would hold up everybody else.
const mostPageBytes = 1024 * 1024;

/** How many of the rows, one at least and `limit` at most, fit into one answer by the size of their payloads. */
export function countFitting(rows: { payload: Uint8Array }[], limit: number): number {
  let bytes = 0;
  const beyond = rows.findIndex((row) => (bytes += row.payload.length) > mostPageBytes);
  return Math.min(limit, beyond < 0 ? limit : Math.max(beyond, 1));
}
