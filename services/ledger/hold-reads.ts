// Reads of holds: one by its id, and the filtered list.
import type { HoldRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { cutPage, encodeCursor, sequencePosition, type CursorScope } from '../platform/cursor.ts';
import { readTenant, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { currentColumns, joinNewest } from './hold-queries.ts';
import { currentHold, type HoldRow } from './holds.ts';
import { countFitting, positionOf, type Page } from './page.ts';
import { QueryParameters, logRangeOf, type LogRange, type TimeRange } from './time-range.ts';

/** The refusal of a request whose hold is unknown. */
export function unknownHold(): Refusal {
  return new Refusal('hold_not_found', 'hold not found');
}

/** One hold by its UUID. Throws {@link Refusal}: `hold_not_found`. */
export async function getHold(pool: Connections, tenant: string, id: string): Promise<HoldRecord> {
  const [rows] = await readTenant<[HoldRow[]]>(pool, tenant, {
    name: 'get_hold',
    text: `select ${currentColumns} from (select * from holds where tenant_id = $1 and id = $2 offset 0) h ${joinNewest}`,
    values: [tenant, id],
  });
  if (!rows[0]) throw unknownHold();
  return currentHold(rows[0]).record;
}

/** Which holds are listed; what is undefined does not filter. */
export interface HoldFilter extends TimeRange {
  status?: string | undefined;
  accountCode?: string | undefined;
  currency?: string | undefined;
  reference?: string | undefined;
  idempotencyKey?: string | undefined;
  /** Milliseconds since the Unix epoch, exclusive. */
  expiresBeforeMs?: bigint | undefined;
}

interface Rows {
  rows: HoldRow[];
  /** The position before which nothing was examined; null at the end. */
  nextBefore: bigint | null;
}

// Holds that a page examines at a time, and how often, where no index knows all filters.
const examined = 500;
const maxTurns = 8;

/**
 * A page of holds, newest first. It is shorter than its limit, or empty, though more follow, where holds are large or few match the filters.
 * Throws {@link Refusal} for a bad cursor. An unknown account has no holds.
 */
export async function listHolds(
  pool: Connections,
  tenant: string,
  filter: HoldFilter,
  { limit, cursor }: Page,
): Promise<{ holds: HoldRecord[]; nextCursor: string }> {
  const scope: CursorScope = ['holds', tenant, filter];
  const position = positionOf(scope, cursor, sequencePosition);
  const rows: HoldRow[] = [];
  let nextBefore = position === null ? undefined : BigInt(position);
  for (let turn = 0; turn < maxTurns; turn++) {
    const read = await readRows(pool, tenant, filter, nextBefore, limit + 1);
    rows.push(...read.rows);
    nextBefore = read.nextBefore ?? undefined;
    if (nextBefore === undefined || rows.length > countFitting(rows, limit)) break;
  }
  const page = cutPage(rows, countFitting(rows, limit), scope, (row) => row.sequence.toString());
  const isCut = page.nextCursor !== '' || nextBefore === undefined;
  return {
    holds: page.rows.map((row) => currentHold(row).record),
    nextCursor: isCut ? page.nextCursor : encodeCursor(scope, nextBefore?.toString() ?? ''),
  };
}

async function readRows(pool: Connections, tenant: string, filter: HoldFilter, before: bigint | undefined, wanted: number): Promise<Rows> {
  const query = new QueryParameters(tenant);
  const range = logRangeOf(query, filter, before);
  const { positions, conditions } = searchOf(query, filter, range);
  const count = conditions.length === 0 ? wanted : examined;
  const [answers] = await readTenant<[({ examined_to: bigint | null } & (HoldRow | { sequence: null }))[]]>(pool, tenant, {
    // The page first, then its records one by one, as transactions are listed.
    text: `${range.with}, positions as materialized (${positions} limit ${count}),
      page as materialized (
        select h.sequence from positions cross join lateral (
          select * from holds where tenant_id = $1 and sequence = positions.sequence offset 0) h
        where ${['true', ...conditions].join(' and ')} order by h.sequence desc limit ${wanted})
      select examined.last as examined_to, record.*
      from (select (select min(sequence) from positions having count(*) = ${count}) as last) as examined
      left join (page cross join lateral (
        select ${currentColumns} from (
          select * from holds where tenant_id = $1 and sequence = page.sequence offset 0) h ${joinNewest}) as record) on true
      order by record.sequence desc`,
    values: query.values,
  });
  const rows = answers.filter((row) => row.sequence !== null);
  return { rows, nextBefore: (rows.length < wanted ? answers[0]?.examined_to : rows.at(-1)?.sequence) ?? null };
}

/** A statement that reads the newest positions by one index, and the conditions for a hold `h` that the index does not know. */
function searchOf(query: QueryParameters, filter: HoldFilter, range: LogRange): { positions: string; conditions: string[] } {
  const { status, accountCode, currency, reference, idempotencyKey, expiresBeforeMs } = filter;
  const own = [
    ...(status === undefined ? [] : [`h.status = ${query.value(status)}`]),
    ...(reference === undefined ? [] : [`h.reference = ${query.value(reference)}`]),
    ...(idempotencyKey === undefined
      ? []
      : [`h.sequence = (select sequence from holds where tenant_id = $1 and idempotency_key = ${query.value(idempotencyKey)})`]),
  ];
  const conditions =
    expiresBeforeMs === undefined ? [] : [`h.expires_at < to_timestamp(${query.value(Number(expiresBeforeMs))}::float8 / 1000.0)`];
  const line = [
    ...(accountCode === undefined
      ? []
      : [`e.account_id = (select id from accounts where tenant_id = $1 and code = ${query.value(accountCode)})`]),
    ...(currency === undefined ? [] : [`e.currency = ${query.value(currency)}`]),
  ];
  if (accountCode !== undefined && idempotencyKey === undefined && reference === undefined) {
    const kept = ['e.tenant_id = $1', ...line, ...range.keep('e.hold_sequence')].join(' and ');
    const positions = `select distinct e.hold_sequence as sequence from hold_entries e where ${kept} order by e.hold_sequence desc`;
    return { positions, conditions: [...own, ...conditions] };
  }
  if (line.length > 0) {
    conditions.push(
      `exists (select from hold_entries e where e.tenant_id = $1 and e.hold_sequence = h.sequence and ${line.join(' and ')})`,
    );
  }
  const kept = ['h.tenant_id = $1', ...own, ...range.keep('h.sequence')].join(' and ');
  return { positions: `select h.sequence from holds h where ${kept} order by h.sequence desc`, conditions };
}
