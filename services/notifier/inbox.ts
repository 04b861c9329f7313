// Which events of each tenant's log are consumed: an offset that only rises, gaps below it, and late events that came for them.
import type { Event, LogImported } from '../../proto/gen/ledger/v1/events_pb.js';
import { derivedEventCount } from '../platform/derived-events.ts';
import { toId } from '../platform/ids.ts';
import { bigintArray, plainArray, uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';

/** A position in a tenant's log: the sequence, and the part among the events of one row of the log. */
export interface LogPosition {
  sequence: bigint;
  part: number;
}

/** A position in the log of a tenant (UUID). */
export interface TenantPosition extends LogPosition {
  tenant: string;
}

/** Consumed events of a log: everything after `after` up to `through`. */
export interface SequenceRange {
  after: bigint;
  through: bigint;
  /** When the last of them was made, milliseconds since the Unix epoch; null: unknown. */
  createdMs: bigint | null;
}

function compare(a: LogPosition, b: LogPosition): number {
  return a.sequence === b.sequence ? a.part - b.part : a.sequence < b.sequence ? -1 : 1;
}

const keyOf = ({ sequence, part }: LogPosition) => `${sequence}.${part}`;

/** After every part of a row of the log. */
const lastPart = 0x7fffffff;

/** A tenant's consumed offset and what is missing below it, changed in memory until it is written. */
export class TenantInbox {
  readonly tenant: string;
  offset: LogPosition;
  /** Parts of the offset's sequence after part 0; null: unknown. */
  parts: number | null;
  /** When the event at the offset was made, milliseconds since the Unix epoch; null: unknown. */
  createdMs: bigint | null;
  /** Events consumed at positions that older events had. */
  reissued = 0;
  /** Gaps found since it was read, both ends exclusive. */
  readonly gaps: { after: LogPosition; before: LogPosition }[] = [];
  /** Late events consumed since it was read. */
  readonly late: LogPosition[] = [];
  private readonly missing: Set<string>;
  private readonly lateKeys = new Set<string>();

  /** `missing`: those of the requested positions that lie in a gap and were not consumed. */
  constructor(tenant: string, { offset, parts, createdMs }: Pick<TenantInbox, 'offset' | 'parts' | 'createdMs'>, missing: LogPosition[]) {
    this.tenant = tenant;
    this.offset = offset;
    this.parts = parts;
    this.createdMs = createdMs;
    this.missing = new Set(missing.map(keyOf));
  }

  /** Consumes an event's position; false if it was consumed before. */
  consume(event: Event): boolean {
    const { sequence, part, createdMs } = event;
    const position = { sequence, part };
    const parts = part === 0 ? derivedEventCount(event) : null;
    if (compare(position, this.offset) <= 0) return this.consumeLate(position) || this.consumeReissued(position, createdMs, parts);
    if (!this.isNext(position)) this.gaps.push({ after: this.offset, before: position });
    if (parts !== null) this.parts = parts;
    else if (sequence !== this.offset.sequence) this.parts = null;
    this.offset = position;
    this.createdMs = createdMs;
    if (event.data.case === 'logImported' && sequence === 1n) this.passImported(event.data.value);
    return true;
  }

  // What was imported is not published.
  private passImported({ size }: LogImported): void {
    this.offset = { sequence: 1n + size, part: lastPart };
    this.parts = null;
  }

  /** Consumes a whole range without its events. */
  pass({ after, through, createdMs }: SequenceRange): void {
    if (after >= through || through < this.offset.sequence) return;
    // Events before the range were not consumed: whole ones, or the rest of a row's.
    const isNext = after < this.offset.sequence || (after === this.offset.sequence && this.isWhole);
    if (!isNext) this.gaps.push({ after: this.offset, before: { sequence: after + 1n, part: 0 } });
    this.offset = { sequence: through, part: lastPart };
    this.parts = null;
    // Unknown: no event of this log is a minute younger, but those of a ledger that is restored later may be.
    this.createdMs = createdMs ?? BigInt(Date.now() + 60_000);
  }

  private consumeLate(position: LogPosition): boolean {
    const key = keyOf(position);
    const isMissing =
      this.missing.has(key) || this.gaps.some(({ after, before }) => compare(after, position) < 0 && compare(position, before) < 0);
    if (!isMissing || this.lateKeys.has(key)) return false;
    this.lateKeys.add(key);
    this.late.push(position);
    return true;
  }

  // Times of a log never go back. A younger event at a consumed position is of a ledger that was restored and assigns its sequences again.
  // The payloads' primary key skips it when it is a repetition.
  private consumeReissued({ sequence }: LogPosition, createdMs: bigint, parts: number | null): boolean {
    if (this.createdMs === null || createdMs <= this.createdMs) return false;
    // The row that now has the offset's sequence may have more parts than the one before.
    if (sequence === this.offset.sequence && parts !== null) this.parts = Math.max(parts, this.offset.part);
    this.reissued++;
    return true;
  }

  private isNext({ sequence, part }: LogPosition): boolean {
    if (sequence === this.offset.sequence) return part === this.offset.part + 1;
    return sequence === this.offset.sequence + 1n && part === 0 && this.isWhole;
  }

  // True if all parts of the offset's sequence have come, as far as is known.
  private get isWhole(): boolean {
    return this.parts === null || this.parts === this.offset.part;
  }
}

const lock = {
  name: 'inbox_lock',
  text: 'select tenant_id, sequence, part, parts, created_ms from inbox where tenant_id = any ($1::uuid[]) order by tenant_id for update',
};

const create = {
  name: 'inbox_create',
  text: `insert into inbox (tenant_id, sequence, part, parts) select t, 0, 0, 0 from unnest($1::uuid[]) as t
    where not exists (select from deleted_tenants where tenant_id = t) order by t on conflict do nothing`,
};

// Gaps do not overlap and are never deleted, so only the first one that ends after a position can hold it. `offset 0` keeps the planner from
// walking the whole table, which it prefers if the table was empty at its last ANALYZE.
const selectMissing = {
  name: 'inbox_missing',
  text: `select e.tenant_id, e.sequence, e.part from unnest($1::uuid[], $2::int8[], $3::int[]) as e (tenant_id, sequence, part)
    cross join lateral (
      select after_sequence, after_part from gaps g
      where g.tenant_id = e.tenant_id and (g.before_sequence, g.before_part) > (e.sequence, e.part)
      order by g.before_sequence, g.before_part limit 1
    ) as g
    where (g.after_sequence, g.after_part) < (e.sequence, e.part)
      and not exists (select from late l where l.tenant_id = e.tenant_id and l.sequence = e.sequence and l.part = e.part offset 0)`,
};

/**
 * Locks the inboxes of tenants (UUIDs), creates absent ones but those of deleted tenants, and looks up which of the positions are missing. Sends its
 * first statement at once.
 */
export async function readInbox(client: Client, tenants: string[], positions: TenantPosition[]): Promise<Map<string, TenantInbox>> {
  interface Row extends LogPosition, Pick<TenantInbox, 'parts'> {
    tenant_id: string;
    created_ms: bigint | null;
  }
  const values = [uuidArray(tenants)];
  let { rows } = await client.query<Row>({ ...lock, values });
  if (rows.length < tenants.length) {
    await client.query({ ...create, values });
    ({ rows } = await client.query<Row>({ ...lock, values }));
  }
  const offsets = new Map(rows.map((row) => [row.tenant_id, row]));
  const below = positions.filter((position) => compare(position, offsets.get(position.tenant) ?? position) <= 0);
  const missing = below.length > 0 ? await readMissing(client, below) : [];
  return new Map(
    rows.map(({ tenant_id: tenant, sequence, part, parts, created_ms: createdMs }) => {
      const missingOfTenant = missing.filter((each) => each.tenant_id === tenant);
      return [tenant, new TenantInbox(tenant, { offset: { sequence, part }, parts, createdMs }, missingOfTenant)];
    }),
  );
}

async function readMissing(client: Client, positions: TenantPosition[]): Promise<(LogPosition & { tenant_id: string })[]> {
  const values = positionArrays(positions);
  return (await client.query<LogPosition & { tenant_id: string }>({ ...selectMissing, values })).rows;
}

function positionArrays(positions: TenantPosition[]): (string | Buffer)[] {
  return [
    uuidArray(positions.map(({ tenant }) => tenant)),
    bigintArray(positions.map(({ sequence }) => sequence)),
    plainArray(positions.map(({ part }) => part)),
  ];
}

/** Writes inboxes with the gaps and late events found; sends its statements at once. */
export async function writeInbox(client: Client, inboxes: TenantInbox[]): Promise<void> {
  const gaps = inboxes.flatMap(({ tenant, gaps: found }) => found.map(({ after, before }) => ({ tenant, after, before })));
  const late = inboxes.flatMap(({ tenant, late: found }) => found.map((position) => ({ tenant, ...position })));
  const offsets = inboxes.map(({ tenant, offset }) => ({ tenant, ...offset }));
  const statements = [
    client.query({
      name: 'inbox_write',
      text: `insert into inbox (tenant_id, sequence, part, parts, created_ms)
        select * from unnest($1::uuid[], $2::int8[], $3::int[], $4::int[], $5::int8[])
        on conflict (tenant_id) do update set sequence = excluded.sequence, part = excluded.part, parts = excluded.parts,
          created_ms = excluded.created_ms
        where (inbox.sequence, inbox.part) < (excluded.sequence, excluded.part)
          or ((inbox.sequence, inbox.part) = (excluded.sequence, excluded.part) and inbox.parts is distinct from excluded.parts)`,
      values: [
        ...positionArrays(offsets),
        plainArray(inboxes.map(({ parts }) => parts)),
        plainArray(inboxes.map(({ createdMs }) => createdMs)),
      ],
    }),
  ];
  if (gaps.length > 0) {
    const [, ...ends] = positionArrays(gaps.map(({ tenant, before }) => ({ tenant, ...before })));
    const text = `insert into gaps (tenant_id, after_sequence, after_part, before_sequence, before_part, found_at)
      select *, now() from unnest($1::uuid[], $2::int8[], $3::int[], $4::int8[], $5::int[]) on conflict do nothing`;
    statements.push(client.query(text, [...positionArrays(gaps.map(({ tenant, after }) => ({ tenant, ...after }))), ...ends]));
  }
  if (late.length > 0) {
    const text = 'insert into late (tenant_id, sequence, part) select * from unnest($1::uuid[], $2::int8[], $3::int[])';
    statements.push(client.query(text, positionArrays(late)));
  }
  await allSettledOrThrow(statements);
}

/** Fields of a log line for each gap found. */
export function gapFields(inboxes: TenantInbox[]): Record<string, string>[] {
  return inboxes.flatMap(({ tenant, gaps }) =>
    gaps.map(({ after, before }) => ({ tenant: toId('tenant', tenant), after: keyOf(after), before: keyOf(before) })),
  );
}

/** The statement whose plan a test checks. */
export const statements = { inbox_missing: { ...selectMissing, types: ['uuid[]', 'int8[]', 'int[]'] } };
