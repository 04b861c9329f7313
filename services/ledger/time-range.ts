// The range of a tenant's log between two times, as conditions of a statement.

/** A span of time, milliseconds since the Unix epoch. */
export interface TimeRange {
  /** Inclusive. */
  startMs?: bigint | undefined;
  /** Exclusive. */
  endMs?: bigint | undefined;
}

/** A statement's values, each named as it is added. $1 is the tenant. */
export class QueryParameters {
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
function firstAt(query: QueryParameters, timeMs: bigint): string {
  const time = `to_timestamp(${query.value(Number(timeMs))}::float8 / 1000.0)`;
  const early = `(select l.created_at < ${time} from log l where l.tenant_id = $1 and l.sequence = (low + high) / 2)`;
  // offset 0: else the look-up is written out where it is used, and done twice.
  return `(with recursive search (low, high) as (
      select 1::bigint, coalesce((select sequence + 1 from heads where tenant_id = $1), 1)
      union all
      select case when early then (low + high) / 2 + 1 else low end, case when early then high else (low + high) / 2 end
      from (select low, high, ${early} as early from search where low < high offset 0) as step)
    select low from search where low = high)`;
}

/** A range of the log: where it begins and ends, and how a statement says so. */
export interface LogRange {
  /** The first lines of the statement, `with …`; both places are looked for once. */
  with: string;
  /** Conditions that keep a column of places within. */
  keep: (sequence: string) => string[];
}

/** The range of the log that a span covers, before a place where one is given. */
export function logRangeOf(query: QueryParameters, { startMs, endMs }: TimeRange, before?: bigint): LogRange {
  const low = startMs === undefined ? '1' : firstAt(query, startMs);
  const high = endMs === undefined ? '1' : firstAt(query, endMs);
  const most = before === undefined ? '' : query.value(before);
  return {
    with: `with bounds as materialized (select ${low} as low, ${high} as high)`,
    keep: (sequence) => [
      ...(most === '' ? [] : [`${sequence} < ${most}`]),
      ...(startMs === undefined ? [] : [`${sequence} >= (select low from bounds)`]),
      ...(endMs === undefined ? [] : [`${sequence} < (select high from bounds)`]),
    ],
  };
}
