// A stretch of a tenant's log between two times, as conditions of a statement.

/** A span of time, milliseconds since the Unix epoch. */
export interface Span {
  /** Inclusive. */
  startMs?: bigint | undefined;
  /** Exclusive. */
  endMs?: bigint | undefined;
}

/** A statement's values, each named as it is added. $1 is the tenant. */
export class Query {
  readonly values: unknown[];

  constructor(tenant: string) {
    this.values = [tenant];
  }

  /** Adds a value and answers its name. */
  value(value: unknown): string {
    return `$${this.values.push(value)}`;
  }
}

/**
 * The first place in the log at or after a time. Times never go back along the log and its places have no gap, so that a binary search
 * over the primary key finds it in some twenty look-ups, where an index of times would cost every posting.
 */
function firstAt(query: Query, timeMs: bigint): string {
  const time = `to_timestamp(${query.value(Number(timeMs))}::float8 / 1000.0)`;
  const early = `(select l.created_at < ${time} from log l where l.tenant_id = $1 and l.sequence = (low + high) / 2)`;
  return `(with recursive search (low, high) as (
      select 1::bigint, coalesce((select sequence + 1 from heads where tenant_id = $1), 1)
      union all
      select case when early then (low + high) / 2 + 1 else low end, case when early then high else (low + high) / 2 end
      from (select low, high, ${early} as early from search where low < high) as step)
    select low from search where low = high)`;
}

/** Conditions that keep a column of places in the log within a span. */
export function spanOf(query: Query, { startMs, endMs }: Span, sequence: string): string[] {
  return [
    ...(startMs === undefined ? [] : [`${sequence} >= ${firstAt(query, startMs)}`]),
    ...(endMs === undefined ? [] : [`${sequence} < ${firstAt(query, endMs)}`]),
  ];
}

/** Milliseconds since the Unix epoch of a column of times. */
export const ms = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::float8`;
