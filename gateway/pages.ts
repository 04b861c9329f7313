// Pagination, ids in paths, and date filters.
import { toUuid } from '../services/platform/ids.ts';
import { ApiError, validationError } from './errors.ts';
import { fieldMessage, echo } from './validation-messages.ts';

/** `data.pagination`. */
export function pageOf(limit: number, nextCursor: string): { limit: number; next_cursor: string | null; has_more: boolean } {
  return { limit, next_cursor: nextCursor === '' ? null : nextCursor, has_more: nextCursor !== '' };
}

export const examplePagination = { limit: 50, next_cursor: null, has_more: false };

// Path parameters that are ids, with their prefixes.
const prefixes = {
  transaction_id: 'txn',
  hold_id: 'hold',
  key_id: 'key',
  limit_id: 'limit',
  job_id: 'job',
  delivery_id: 'wh_delivery',
  user_id: 'user',
  invitation_id: 'inv',
} as const;
const idFields = Object.keys(prefixes) as (keyof typeof prefixes)[];

/** Whether a path has a word instead of an id, such as `/transactions/refund`: a text without the id's prefix. */
export function hasWordInsteadOfId(params: unknown): boolean {
  const values = params as Partial<Record<string, string>>;
  return idFields.some((field) => values[field] !== undefined && !values[field].startsWith(`${prefixes[field]}_`));
}

/** The id of a path. Throws a validation error where it is malformed. */
export function pathId(field: Exclude<keyof typeof prefixes, 'delivery_id'>, params: unknown): string {
  const id = (params as Record<string, string>)[field] ?? '';
  if (toUuid(prefixes[field], id) !== null) return id;
  throw validationError([{ field, tag: 'id', value: echo(id), message: fieldMessage(field, 'id', {}, id) }]);
}

/** The position of an event in a path. Throws a validation error where it is none. */
export function pathSequence(params: unknown): bigint {
  const { sequence = '' } = params as Record<string, string>;
  if (/^[1-9][0-9]{0,14}$/.test(sequence)) return BigInt(sequence);
  throw validationError([{ field: 'sequence', tag: 'min', value: echo(sequence), message: 'sequence must be a whole number from 1 on' }]);
}

/** The delivery id of a path. Throws `invalid_delivery_id` where it is malformed. */
export function pathDelivery(params: unknown): string {
  const { delivery_id: id = '' } = params as Record<string, string>;
  if (toUuid(prefixes.delivery_id, id) === null) throw new ApiError('invalid_delivery_id');
  return id;
}

/** `start_date` and `end_date` as the services take them: the start of these days in UTC, milliseconds. */
export function periodOf(query: { start_date?: string | null; end_date?: string | null }): {
  startMs: bigint | undefined;
  endMs: bigint | undefined;
} {
  return { startMs: dayStart(query.start_date), endMs: dayStart(query.end_date) };
}

// Earlier days count as 1970-01-01: the services reject negative times.
function dayStart(date: string | null | undefined): bigint | undefined {
  return date == null ? undefined : BigInt(Math.max(0, Date.parse(`${date}T00:00:00Z`)));
}
