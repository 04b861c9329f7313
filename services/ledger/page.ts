// Pages of a list: their limit, the cursor at which one begins, and how many bytes one has.
import { cursorRule, decodeCursor, type CursorScope } from '../platform/cursor.ts';
import { invalid } from './fields.ts';

/** A requested page. */
export interface Page {
  /** 1 to 100. */
  limit: number;
  /** From the page before; empty for the first. */
  cursor: string;
}

/** The requested limit, 50 by default. Throws {@link Refusal}. */
export function checkedLimit(limit: number): number {
  if (limit < 0) throw invalid('limit', 'min', String(limit), 'limit must be from 1 to 100');
  if (limit > 100) throw invalid('limit', 'max', String(limit), 'limit must be from 1 to 100');
  return limit === 0 ? 50 : limit;
}

/** The requested page. Throws {@link Refusal}. */
export function pageOf(request: { limit: number; cursor: string }): Page {
  return { limit: checkedLimit(request.limit), cursor: request.cursor };
}

/** The position of a cursor, null for the first page. Throws {@link Refusal} for any text that is no cursor of this list. */
export function positionOf(scope: CursorScope, cursor: string, pattern: RegExp): string | null {
  if (cursor === '') return null;
  const position = decodeCursor(scope, cursor, pattern);
  if (position === null) throw invalid('cursor', 'cursor', cursor, `cursor ${cursorRule}`);
  return position;
}

// A hundred of the largest transactions would be 5 MB and delay all other clients.
const maxPageBytes = 1024 * 1024;

/** How many rows fit into one answer by the size of their payloads: at least one, at most `limit`. */
export function countFitting(rows: { payload: Uint8Array }[], limit: number): number {
  let bytes = 0;
  const beyond = rows.findIndex((row) => (bytes += row.payload.length) > maxPageBytes);
  return Math.min(limit, beyond < 0 ? limit : Math.max(beyond, 1));
}
