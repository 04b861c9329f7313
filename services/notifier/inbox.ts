// What has been taken of each tenant's log: a mark that only rises, the gaps below it, and what has arrived in them since.
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { toId } from '../platform/ids.ts';
import type { Client } from '../platform/postgres.ts';

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
  readonly found: Gap[] = [];
  readonly arrived: Place[] = [];
  private readonly gaps: Gap[];
  private readonly late: Set<string>;

  constructor(tenant: string, place: Place, parts: number | null, gaps: Gap[], late: Place[]) {
    this.tenant = tenant;
    this.place = place;
    this.parts = parts;
    this.gaps = gaps;
    this.late = new Set(late.map(({ sequence, part }) => `${sequence}.${part}`));
  }

  /** Takes an event's place; false where it was taken before. */
  take(event: Event): boolean {
    const place = { sequence: event.sequence, part: event.part };
    if (compare(place, this.place) <= 0) return this.takeLate(place);
    if (!this.isNext(place)) this.note(place);
    if (event.data.case === 'transactionPosted') this.parts = event.data.value.balances.length;
    else if (place.sequence !== this.place.sequence) this.parts = place.part === 0 ? 0 : null;
    this.place = place;
    return true;
  }

  /** Takes everything to the end of a stretch of the log that begins behind `after`, without its events. */
  pass(after: bigint, through: bigint): void {
    if (after >= through || through < this.place.sequence) return;
    // What lies before the stretch has not come, be it the rest of a posting.
    if (after > this.place.sequence || (after === this.place.sequence && !this.isWhole)) this.note({ sequence: after + 1n, part: 0 });
    this.place = { sequence: through, part: lastPart };
    this.parts = null;
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
}

const lock = {
  name: 'inbox_lock',
  text: 'select tenant_id, sequence, part, parts from inbox where tenant_id = any ($1::uuid[]) order by tenant_id for update',
};

const gapsBelow = {
  name: 'inbox_gaps',
  text: 'select tenant_id, after_sequence, after_part, before_sequence, before_part from gaps where tenant_id = any ($1::uuid[])',
};

const lateBelow = { name: 'inbox_late', text: 'select tenant_id, sequence, part from late where tenant_id = any ($1::uuid[])' };

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

/** Locks the marks of tenants (UUIDs), making those that are missing, and reads what lies below them; its first statements are sent at once. */
export async function readInbox(client: Client, tenants: string[]): Promise<Map<string, Mark>> {
  const values = [tenants];
  const read = () =>
    Promise.all([
      client.query<MarkRow>({ ...lock, values }),
      // In statements after the lock, which another replica may have held.
      client.query<GapRow>({ ...gapsBelow, values }),
      client.query<{ tenant_id: string; sequence: bigint; part: number }>({ ...lateBelow, values }),
    ]);
  let [{ rows }, gaps, late] = await read();
  if (rows.length < tenants.length) {
    await client.query({ ...make, values });
    [{ rows }, gaps, late] = await read();
  }
  return new Map(
    rows.map((row) => {
      const own = (each: { tenant_id: string }) => each.tenant_id === row.tenant_id;
      const gapsOfTenant = gaps.rows.filter(own).map((gap) => ({
        after: { sequence: gap.after_sequence, part: gap.after_part },
        before: { sequence: gap.before_sequence, part: gap.before_part },
      }));
      return [row.tenant_id, new Mark(row.tenant_id, row, row.parts, gapsOfTenant, late.rows.filter(own))];
    }),
  );
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
      text: `insert into inbox (tenant_id, sequence, part, parts)
      select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[])
      on conflict (tenant_id) do update set sequence = excluded.sequence, part = excluded.part, parts = excluded.parts
      where (inbox.sequence, inbox.part) < (excluded.sequence, excluded.part)`,
      values: [
        marks.map(({ tenant }) => tenant),
        marks.map(({ place }) => place.sequence),
        marks.map(({ place }) => place.part),
        marks.map(({ parts }) => parts),
      ],
    }),
  );
  return Promise.all(statements);
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
