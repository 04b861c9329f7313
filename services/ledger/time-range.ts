// The part of a tenant's log between two times, as SQL conditions.

/** A range of time, milliseconds since the Unix epoch. */
export interface TimeRange {
  /** Inclusive. */
  startMs?: bigint | undefined;
  /** Exclusive. */
  endMs?: bigint | undefined;
  /** Only later positions of the log. */
  afterSequence?: bigint | undefined;
}

/** Parameters of a statement under construction. $1 is the tenant. */
export class QueryParameters {
  readonly values: unknown[];

  constructor(tenant: string) {
    this.values = [tenant];
  }

  /** Adds a value and returns its parameter, `$2`. */
  value(value: unknown): string {
    return `$${this.values.push(value)}`;
  }
}

/**
 * The first sequence at or after a time, by binary search over the primary key: times never go back along the log. An index of times
 * would cost every posting.
 */
function firstAt(query: QueryParameters, timeMs: bigint): string {
  return firstAtTime(`to_timestamp(${query.value(Number(timeMs))}::float8 / 1000.0)`);
}

/** The same for a time in SQL. */
export function firstAtTime(time: string): string {
  const early = `(select l.created_at < ${time} from log l where l.tenant_id = $1 and l.sequence = (low + high) / 2)`;
  // `offset 0`: otherwise the look-up is inlined and done twice.
  return `(with recursive search (low, high) as (
      select 1::bigint, coalesce((select sequence + 1 from heads where tenant_id = $1), 1)
      union all
      select case when early then (low + high) / 2 + 1 else low end, case when early then high else (low + high) / 2 end
      from (select low, high, ${early} as early from search where low < high offset 0) as step)
    select low from search where low = high)`;
}

/** A range of the log as parts of a statement. */
export interface LogRange {
  /** The first clause of the statement, `with …`, which finds both ends once. */
  with: string;
  /** Conditions that keep a column of sequences within the range. */
  keep: (sequence: string) => string[];
  /** The first sequence, and the one behind the last, as SQL. */
  low: string;
  end: string;
}

/** The range of the log that a time range covers, before a sequence if one is given. */
export function logRangeOf(query: QueryParameters, { startMs, endMs, afterSequence }: TimeRange, before?: bigint): LogRange {
  const low = startMs === undefined ? '1' : firstAt(query, startMs);
  const high = endMs === undefined ? '1' : firstAt(query, endMs);
  const last = before === undefined ? '' : query.value(before);
  const first = afterSequence === undefined ? '0' : `${query.value(afterSequence)}::bigint`;
  const ends = [...(last === '' ? [] : [last]), ...(endMs === undefined ? [] : ['(select high from bounds)'])];
  return {
    low: `greatest(${first} + 1, ${startMs === undefined ? '1' : '(select low from bounds)'})`,
    end: `least(${[...ends, 'coalesce((select sequence + 1 from heads where tenant_id = $1), 1)'].join()})`,
    with: `with bounds as materialized (select ${low} as low, ${high} as high)`,
    keep: (sequence) => [
      ...(afterSequence === undefined ? [] : [`${sequence} > ${first}`]),
      ...(last === '' ? [] : [`${sequence} < ${last}`]),
      ...(startMs === undefined ? [] : [`${sequence} >= (select low from bounds)`]),
      ...(endMs === undefined ? [] : [`${sequence} < (select high from bounds)`]),
    ],
  };
}
