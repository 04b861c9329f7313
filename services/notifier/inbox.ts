// What has been taken of each tenant's log: a mark that only rises, the gaps below it, and what has arrived in them since.
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../platform/ids.ts';
import { bigintArray, plainArray, uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import { balanceEventCount } from '../platform/balance-events.ts';

/** A place in a tenant's log: the sequence, and the part among the events of one posting. */
export interface Place {
  sequence: bigint;
  part: number;
}

/** Places that were passed over, both ends exclusive. */
export interface Gap {
  after: Place;
  before: Place;
}

function compare(a: Place, b: Place): number {
  return a.sequence === b.sequence ? a.part - b.part : a.sequence < b.sequence ? -1 : 1;
}

/** Behind every part of a posting. */
const lastPart = 0x7fffffff;

/** A tenant's place in its log, changed in memory until it is written. */
export class Mark {
  readonly tenant: string;
  place: Place;
  /** Parts that the sequence of the mark has beside part 0; null: not known. */
  parts: number | null;
  /** When the event at the mark was made, milliseconds since the Unix epoch; null: not known. */
  createdMs: bigint | null;
  /** Events that were taken although others had their places. */
  reissued = 0;
  readonly found: Gap[] = [];
  readonly arrived: Place[] = [];
  private readonly gaps: Gap[];
  private readonly late: Set<string>;

  constructor(tenant: string, { place, parts, createdMs }: Pick<Mark, 'place' | 'parts' | 'createdMs'>, gaps: Gap[], late: Place[]) {
    this.tenant = tenant;
    this.place = place;
    this.parts = parts;
    this.createdMs = createdMs;
    this.gaps = gaps;
    this.late = new Set(late.map(({ sequence, part }) => `${sequence}.${part}`));
  }

  /** Takes an event's place; false where it was taken before. */
  take(event: Event): boolean {
    return this.takePlace(event, event.part, event.data.case === 'transactionPosted' ? balanceEventCount(event) : null);
  }

  /** Takes the place of an event that is derived from a posting; false where it was taken before. */
  takeUpdate(posting: Event, part: number): boolean {
    return this.takePlace(posting, part, null);
  }

  // `parts`: those of a posting beside part 0; null: it is not the posting.
  private takePlace({ sequence, createdMs }: Event, part: number, parts: number | null): boolean {
    const place = { sequence, part };
    if (compare(place, this.place) <= 0) return this.takeLate(place) || this.takeReissued(place, createdMs, parts);
    if (!this.isNext(place)) this.note(place);
    if (parts !== null) this.parts = parts;
    else if (sequence !== this.place.sequence) this.parts = part === 0 ? 0 : null;
    this.place = place;
    this.createdMs = createdMs;
    return true;
  }

  /**
   * Takes everything to the end of a stretch of the log that begins behind `after`, without its events; `createdMs`: as that of the mark, null from a
   * ledger that is older than this, whose events are not of a minute later, but may be of a ledger that is restored then.
   */
  pass({ after, through, createdMs }: { after: bigint; through: bigint; createdMs: bigint | null }): void {
    if (after >= through || through < this.place.sequence) return;
    // What lies before the stretch has not come, be it the rest of a posting.
    if (after > this.place.sequence || (after === this.place.sequence && !this.isWhole)) this.note({ sequence: after + 1n, part: 0 });
    this.place = { sequence: through, part: lastPart };
    this.parts = null;
    this.createdMs = createdMs ?? BigInt(Date.now() + 60_000);
  }

  private note(before: Place): void {
    const gap = { after: this.place, before };
    this.found.push(gap);
    this.gaps.push(gap);
  }

  private takeLate(place: Place): boolean {
    const key = `${place.sequence}.${place.part}`;
    if (this.late.has(key)) return false;
    if (!this.gaps.some(({ after, before }) => compare(after, place) < 0 && compare(place, before) < 0)) return false;
    this.late.add(key);
    this.arrived.push(place);
    return true;
  }

  // The time of a log never goes back: an event that is younger than the mark, but not behind it, is of a ledger that was restored to an earlier
  // state and gives the same places again. Whether it has come before its payload tells, which the insert of deliveries looks for.
  private takeReissued({ sequence }: Place, createdMs: bigint, parts: number | null): boolean {
    if (this.createdMs === null || createdMs <= this.createdMs) return false;
    // The posting that now has the mark's sequence may have more parts than the one before.
    if (sequence === this.place.sequence && parts !== null) this.parts = Math.max(parts, this.place.part);
    this.reissued++;
    return true;
  }

  private isNext(place: Place): boolean {
    if (place.sequence === this.place.sequence) return place.part === this.place.part + 1;
    return place.sequence === this.place.sequence + 1n && place.part === 0 && this.isWhole;
  }

  // Whether all parts of the mark's sequence have come, as far as is known.
  private get isWhole(): boolean {
    return this.parts === null || this.parts === this.place.part;
  }
}

interface MarkRow {
  tenant_id: string;
  sequence: bigint;
  part: number;
  parts: number | null;
  created_ms: bigint | null;
}

const lock = {
  name: 'inbox_lock',
  text: 'select tenant_id, sequence, part, parts, created_ms from inbox where tenant_id = any ($1::uuid[]) order by tenant_id for update',
};

// Neither gaps nor what arrived in them is ever deleted: whether a gap is filled can't be told, because only a posting's first event says how
// many parts it has, and some are never filled. So a batch reads what its own events might lie in, which is nothing where all are new.
// `offset 0` keeps the planner from walking a whole table, which it takes to be the way where it was empty at its last analysis.
const gapsBelow = {
  name: 'inbox_gaps',
  text: `select g.* from (
      select tenant_id, min(sequence) as least, max(sequence) as greatest
      from unnest($1::uuid[], $2::bigint[]) as e (tenant_id, sequence) group by tenant_id
    ) as b cross join lateral (
      select tenant_id, after_sequence, after_part, before_sequence, before_part from gaps
      where tenant_id = b.tenant_id and before_sequence >= b.least and after_sequence <= b.greatest offset 0
    ) as g`,
};

// By single places: between an event that comes after a year and one of today lies all that has ever arrived late.
const lateBelow = {
  name: 'inbox_late',
  text: `select e.* from unnest($1::uuid[], $2::bigint[], $3::int[]) as e (tenant_id, sequence, part)
    where exists (select from late l where l.tenant_id = e.tenant_id and l.sequence = e.sequence and l.part = e.part offset 0)`,
};

const make = {
  name: 'inbox_make',
  text: `insert into inbox (tenant_id, sequence, part, parts) select t, 0, 0, 0 from unnest($1::uuid[]) as t order by t on conflict do nothing`,
};

interface GapRow {
  tenant_id: string;
  after_sequence: bigint;
  after_part: number;
  before_sequence: bigint;
  before_part: number;
}

interface LateRow extends Place {
  tenant_id: string;
}

/** An event's place in the log of its tenant (UUID). */
export interface PlaceOfTenant extends Place {
  tenant: string;
}

/**
 * Locks the marks of tenants (UUIDs), making those that are missing, and reads what lies below them as far as it concerns the places that are
 * about to be taken; its first statement is sent at once.
 */
export async function readInbox(client: Client, tenants: string[], places: PlaceOfTenant[]): Promise<Map<string, Mark>> {
  const values = [uuidArray(tenants)];
  const read = () => client.query<MarkRow>({ ...lock, values });
  let { rows } = await read();
  if (rows.length < tenants.length) {
    await client.query({ ...make, values });
    ({ rows } = await read());
  }
  const marks = new Map(rows.map((row) => [row.tenant_id, row]));
  const below = places.filter((place) => compare(place, marks.get(place.tenant) ?? place) <= 0);
  // Mostly all is new.
  const [gaps, late] = below.length === 0 ? [[], []] : await readBelow(client, below);
  return new Map(
    rows.map((row) => {
      const own = (each: { tenant_id: string }) => each.tenant_id === row.tenant_id;
      const gapsOfTenant = gaps.filter(own).map((gap) => ({
        after: { sequence: gap.after_sequence, part: gap.after_part },
        before: { sequence: gap.before_sequence, part: gap.before_part },
      }));
      const { tenant_id: tenant, sequence, part, parts, created_ms: createdMs } = row;
      return [tenant, new Mark(tenant, { place: { sequence, part }, parts, createdMs }, gapsOfTenant, late.filter(own))];
    }),
  );
}

// In statements after the lock, which another replica may have held.
async function readBelow(client: Client, places: PlaceOfTenant[]): Promise<[GapRow[], LateRow[]]> {
  const sequences = [uuidArray(places.map(({ tenant }) => tenant)), bigintArray(places.map(({ sequence }) => sequence))];
  const parts = plainArray(places.map(({ part }) => part));
  const [gaps, late] = await allSettledOrThrow([
    client.query<GapRow>({ ...gapsBelow, values: sequences }),
    client.query<LateRow>({ ...lateBelow, values: [...sequences, parts] }),
  ]);
  return [gaps.rows, late.rows];
}

/** Writes the marks and what was found and arrived below them, in statements that are sent at once. */
export function writeInbox(client: Client, marks: Mark[]): Promise<unknown> {
  const statements: Promise<unknown>[] = [];
  const found = marks.flatMap((mark) => mark.found.map((gap) => ({ tenant: mark.tenant, ...gap })));
  const arrived = marks.flatMap((mark) => mark.arrived.map((place) => ({ tenant: mark.tenant, ...place })));
  if (found.length > 0) {
    statements.push(
      client.query(
        `insert into gaps (tenant_id, after_sequence, after_part, before_sequence, before_part, found_at)
       select *, now() from unnest($1::uuid[], $2::bigint[], $3::int[], $4::bigint[], $5::int[]) on conflict do nothing`,
        [
          found.map(({ tenant }) => tenant),
          found.map(({ after }) => after.sequence),
          found.map(({ after }) => after.part),
          found.map(({ before }) => before.sequence),
          found.map(({ before }) => before.part),
        ],
      ),
    );
  }
  if (arrived.length > 0) {
    statements.push(
      client.query('insert into late (tenant_id, sequence, part) select * from unnest($1::uuid[], $2::bigint[], $3::int[])', [
        arrived.map(({ tenant }) => tenant),
        arrived.map(({ sequence }) => sequence),
        arrived.map(({ part }) => part),
      ]),
    );
  }
  statements.push(
    client.query({
      name: 'inbox_write',
      text: `insert into inbox (tenant_id, sequence, part, parts, created_ms)
      select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::bigint[])
      on conflict (tenant_id) do update set sequence = excluded.sequence, part = excluded.part, parts = excluded.parts,
        created_ms = excluded.created_ms
      where (inbox.sequence, inbox.part) < (excluded.sequence, excluded.part)
        or ((inbox.sequence, inbox.part) = (excluded.sequence, excluded.part) and inbox.parts is distinct from excluded.parts)`,
      values: [
        uuidArray(marks.map(({ tenant }) => tenant)),
        bigintArray(marks.map(({ place }) => place.sequence)),
        plainArray(marks.map(({ place }) => place.part)),
        plainArray(marks.map(({ parts }) => parts)),
        plainArray(marks.map(({ createdMs }) => createdMs)),
      ],
    }),
  );
  return allSettledOrThrow(statements);
}

/** The gaps that were found, for the log. */
export function foundGaps(marks: Mark[]): Record<string, string>[] {
  const found = marks.flatMap((mark) => mark.found.map((gap) => ({ tenant: mark.tenant, ...gap })));
  return found.map(({ tenant, after, before }) => ({
    tenant: toId('tenant', tenant),
    after: `${after.sequence}.${after.part}`,
    before: `${before.sequence}.${before.part}`,
  }));
}

/** As those of the claims, for the test of the plans. */
export const statements = {
  gaps: { ...gapsBelow, types: ['uuid[]', 'bigint[]'] },
  late: { ...lateBelow, types: ['uuid[]', 'bigint[]', 'int[]'] },
};
