// Opaque cursors of lists: a position, with a checksum that binds it to the list, its owner and its filters.
import { sha256 } from './digest.ts';

const checkLength = 6;

/** What a cursor is good for: the list's name, whose list it is, and its filters. */
export type CursorScope = readonly [list: string, owner: string, filter?: object];

/** Positions in lists that are ordered by a UUID, or by the position in a tenant's log. */
export const [uuidPosition, sequencePosition] = [/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, /^[0-9]{1,18}$/];

/** The cursor at which a list continues after a position. */
export function encodeCursor(scope: CursorScope, position: string): string {
  const text = JSON.stringify([scope, position], (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value));
  return Buffer.concat([sha256(text).subarray(0, checkLength), Buffer.from(position)]).toString('base64url');
}

/** The position of a cursor, or null where it is not one of this scope or its position does not match. */
export function decodeCursor(scope: CursorScope, cursor: string, pattern: RegExp): string | null {
  const position = Buffer.from(cursor, 'base64url').toString('latin1', checkLength);
  return pattern.test(position) && encodeCursor(scope, position) === cursor ? position : null;
}

/** Why a cursor is refused, behind the field's name. */
export const cursorRule = 'must be the next_cursor of a page of this list with the same filters';

/** One page of a list. */
export interface Page<Row> {
  rows: Row[];
  /** Empty on the last page. */
  nextCursor: string;
}

/** Removes the row that was read beyond the page, and returns the page. */
export function cutPage<Row>(rows: Row[], limit: number, scope: CursorScope, position: (row: Row) => string): Page<Row> {
  const last = rows[limit - 1];
  return { rows: rows.slice(0, limit), nextCursor: rows.length > limit && last !== undefined ? encodeCursor(scope, position(last)) : '' };
}
