// Takes events of the log: the place in each tenant's log and the deliveries of its webhook, in one transaction. Ingest and Kafka's reader
// both come here.
import { toBinary } from '@bufbuild/protobuf';
import { Counter, type Registry } from 'prom-client';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { toId, toUuid, uuidAt } from '../platform/ids.ts';
import { bigintArray, textArray, uuidArray } from '../platform/arrays.ts';
import { errorMessage } from '../platform/lifetime.ts';
import { allSettledOrThrow, inTransaction, withClient, setTenants, type Client, type Pool } from '../platform/postgres.ts';
import { isTransient, isServerError } from '../platform/postgres-errors.ts';
import type { Logger } from '../platform/telemetry.ts';
import { traceparentOf } from '../platform/trace.ts';
import { FairSemaphore } from '../platform/fair-semaphore.ts';
import { derivedId, balanceEventCount, balanceEventsOf } from '../platform/balance-events.ts';
import { eventBody } from './envelope.ts';
import { foundGaps, readInbox, writeInbox, type Mark, type PlaceOfTenant } from './inbox.ts';
import { insertLetters, listLetters, openLetter, type Letter } from './letters.ts';
import { mustFollow, noteOffsets, type Reading } from './offsets.ts';
import { keepEarlierDueTime } from './leases.ts';

/**
 * Transactions of the consumer at a time, however many ledgers call: where a tenant's mark is held each may wait for it for two seconds, and what
 * delivers takes its connections from the same pool.
 */
export const mostTakings = 3;

/** What the consumer works with. */
export interface ConsumerParts {
  pool: Pool;
  logger: Logger;
  metrics: Registry;
  /** Called after deliveries were made. */
  wake: () => void;
}

/** An event whose ids were read. */
interface Known {
  event: Event;
  /** UUIDs. */
  tenant: string;
  eventId: string;
  /** It did not come, but is derived from one that did. */
  isDerived?: boolean;
}

/** How events are taken. */
export interface IngestOptions {
  /** Came between them, and is kept with them. */
  unreadable?: Letter[];
  /** Whether a posting stands for its `balance.updated` events, too. */
  derive?: boolean;
  /** What of the topic they are; noted with them. */
  reading?: Reading | undefined;
}

/** A part of a tenant's log: behind `after`, to `through`. */
export interface Stretch {
  /** UUID. */
  tenant: string;
  after: bigint;
  through: bigint;
  /** When its last event was made, milliseconds since the Unix epoch; null: not known. */
  createdMs: bigint | null;
}

const insertDeliveries = {
  name: 'insert_deliveries',
  // The clock is read row by row: the order of the rows is the order of their times, of which none is before its webhook's, also where the
  // clock was set back. An event that is known is left out; who else could add
  // it meanwhile waits for the tenant's mark.
  text: `with fresh as materialized (
      select n.*, clock_timestamp() as at
      from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::int8[])
        as n (tenant_id, id, event_id, event_type, body, traceparent, since_ms)
      where not exists (select from payloads p where p.tenant_id = n.tenant_id and p.event_id = n.event_id)
    ), bodies as (
      insert into payloads (tenant_id, event_id, body, traceparent) select tenant_id, event_id, body, traceparent from fresh
    ), made as (
      insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
      select tenant_id, id, event_id, event_type, false, 'pending', 1, false, greatest(at, to_timestamp(since_ms / 1000.0)), at from fresh
    ), noted as (
      -- Sorted, so that no two wait for each other; locked also where nothing changes, so that whoever moves it on meanwhile is corrected.
      insert into due (tenant_id, next_at) select t, now() from unnest($8::uuid[]) as t order by t ${keepEarlierDueTime}
    ) select count(*)::int as made from fresh`,
};

const selectWebhooks = {
  name: 'enabled_webhooks',
  text: `select tenant_id, events, floor(extract(epoch from created_at) * 1000)::int8 as since_ms from webhooks
    where tenant_id = any ($1::uuid[]) and enabled`,
};

/** Takes events and keeps what can't be taken. */
export class Consumer {
  private readonly parts: ConsumerParts;
  private readonly turns = new FairSemaphore({ max: mostTakings, maxPerKey: mostTakings });
  private readonly taken: Counter<'result'>;
  private readonly gaps: Counter;
  private readonly reissued: Counter;
  private readonly dead: Counter;

  constructor(parts: ConsumerParts) {
    this.parts = parts;
    const registers = [parts.metrics];
    this.taken = new Counter({ name: 'notifier_events_total', help: 'Events that came', labelNames: ['result'], registers });
    this.gaps = new Counter({ name: 'notifier_inbox_gaps_total', help: 'Gaps found in the logs of tenants: alert on any', registers });
    const help = 'Events taken at places that older ones had: the ledger was restored to an earlier state. Alert on any';
    this.reissued = new Counter({ name: 'notifier_events_reissued_total', help, registers });
    this.dead = new Counter({ name: 'notifier_dead_letters_total', help: 'Events kept because nothing could be made of them', registers });
  }

  /**
   * Takes events, each tenant's in its order; resolves after the commit. What was taken before is skipped, a place that was passed over
   * is noted as a gap. An event that can't be made into a delivery is kept as a dead letter and does not hold up the others. Throws what
   * PostgreSQL answers where that is not the event's fault, and {@link mustFollow}: nothing has been taken then.
   */
  async ingest(events: Event[], { unreadable = [], derive = false, reading }: IngestOptions = {}): Promise<void> {
    const letters = [...unreadable];
    const known: Known[] = [];
    for (const event of events) {
      const found = knownOf(event);
      if (found) known.push(found);
      else letters.push(letterOf(event, malformed));
    }
    if (known.length === 0) {
      if (letters.length > 0 || reading) await this.keep(letters, reading);
      return;
    }
    const made = await this.take(known, letters, { derive, reading }).catch(async (error: unknown) => {
      if (!isDataError(error)) throw error;
      // One of them is to blame: one at a time, so that it stands alone.
      let sum = 0;
      for (const each of derive ? known.flatMap((one) => [one, ...updatesOfKnown(one)]) : known) sum += await this.takeAlone(each, reading);
      if (letters.length > 0 || reading) await this.keep(letters, reading);
      return sum;
    });
    if (made > 0) this.parts.wake();
  }

  /**
   * Takes stretches of logs without their events, of tenants whose webhook is absent or disabled; resolves after the commit with those
   * (UUIDs) that have one which is enabled, of whom nothing was taken. May be called again with the same.
   */
  async pass(stretches: Stretch[]): Promise<string[]> {
    const tenants = [...new Set(stretches.map(({ tenant }) => tenant))].sort();
    if (tenants.length === 0) return [];
    const { marks, webhooks } = await this.inTurn(async (client) => {
      const [, , inbox, enabled] = await allSettledOrThrow([
        client.query('begin'),
        client.query(setTenants(tenants)),
        readInbox(client, tenants, []),
        enabledWebhooks(client, tenants),
      ]);
      const passed = stretches.filter(({ tenant }) => !enabled.has(tenant));
      for (const stretch of passed) inbox.get(stretch.tenant)?.pass(stretch);
      const moved = [...inbox.values()].filter(({ tenant }) => !enabled.has(tenant));
      await allSettledOrThrow([...(moved.length > 0 ? [writeInbox(client, moved)] : []), client.query('commit')]);
      return { marks: moved, webhooks: enabled };
    });
    this.reportMarks(marks);
    return [...webhooks.keys()];
  }

  /** Keeps messages as dead letters; may be called again with the same. */
  async keep(letters: Letter[], reading?: Reading): Promise<void> {
    const kept = await inTransaction(this.parts.pool, [], async (client) => {
      await mustFollow(client, reading);
      const [inserted] = await allSettledOrThrow([insertLetters(client, letters), noteOffsets(client, reading)]);
      return inserted;
    });
    this.report(kept);
  }

  /** Tries dead letters again, the oldest first, each in its own transaction. Where the database is away or the pool ended, it leaves the rest. */
  async redrive(): Promise<{ redriven: number; left: { id: string; reason: string }[] }> {
    const { pool } = this.parts;
    const ids = await listLetters(pool);
    const left: { id: string; reason: string }[] = [];
    let redriven = 0;
    for (const [place, id] of ids.entries()) {
      try {
        if (await openLetter(pool, id, redriveOne)) redriven++;
      } catch (error) {
        // An error of the server's own may be this letter's alone.
        const isOver = pool.ending || (isTransient(error) && !isServerError(error));
        left.push(...ids.slice(place, isOver ? undefined : place + 1).map((each) => ({ id: each, reason: errorMessage(error) })));
        if (isOver) break;
      }
    }
    if (redriven > 0) this.parts.wake();
    return { redriven, left };
  }

  private async takeAlone(one: Known, reading: Reading | undefined): Promise<number> {
    // The others of the reading are not taken yet.
    const others = { reading, isAll: false };
    try {
      return await this.take([one], [], others);
    } catch (error) {
      if (!isDataError(error)) throw error;
      await this.take([one], [letterOf(one.event, (error as Error).message)], { ...others, deliver: false });
      return 0;
    }
  }

  // `deliver` false: the places are taken, and no more. `isAll`: the reading is noted with them.
  private async take(
    events: Known[],
    malformed: Letter[],
    {
      deliver = true,
      derive = false,
      reading,
      isAll = true,
    }: { deliver?: boolean; derive?: boolean; reading: Reading | undefined; isAll?: boolean },
  ): Promise<number> {
    const tenants = [...new Set(events.map(({ tenant }) => tenant))].sort();
    const letters = [...malformed];
    const { marks, taken, made, kept } = await this.inTurn(async (client) => {
      const [, , inbox, webhooks] = await allSettledOrThrow([
        client.query('begin'),
        client.query(setTenants(tenants)),
        readInbox(client, tenants, events.flatMap(derive ? placesOf : placeOf)),
        enabledWebhooks(client, tenants),
        mustFollow(client, reading),
      ]);
      const fresh = takePlaces(events, inbox, webhooks, derive);
      const found = deliver ? deliveriesOf(fresh, webhooks, (event, error) => letters.push(letterOf(event, error.message))) : [];
      const [inserted, unread] = await allSettledOrThrow([
        insert(client, found),
        insertLetters(client, letters),
        writeInbox(client, [...inbox.values()]),
        noteOffsets(client, isAll ? reading : undefined),
        client.query('commit'),
      ]);
      return { marks: [...inbox.values()], taken: came(fresh), made: inserted, kept: unread };
    });
    this.reportMarks(marks);
    this.taken.inc({ result: 'taken' }, taken);
    this.taken.inc({ result: 'known' }, came(events) - taken);
    this.report(kept);
    return made;
  }

  private inTurn<Result>(work: (client: Client) => Promise<Result>): Promise<Result> {
    return this.turns.run('events', undefined, () => withClient(this.parts.pool, work));
  }

  private reportMarks(marks: Mark[]): void {
    const { logger } = this.parts;
    const gaps = foundGaps(marks);
    for (const gap of gaps) logger.error(gap, 'gap in the log of a tenant');
    this.gaps.inc(gaps.length);
    for (const { tenant, reissued } of marks) {
      if (reissued === 0) continue;
      logger.error({ tenant: toId('tenant', tenant), events: reissued }, 'events at places that were taken: was the ledger restored?');
      this.reissued.inc(reissued);
    }
  }

  private report(letters: Letter[]): void {
    this.dead.inc(letters.length);
    for (const { source, reason } of letters) this.parts.logger.error({ source, reason }, 'dead letter');
  }
}

const malformed = 'its tenant, id or place in the log is malformed';

function knownOf(event: Event): Known | null {
  const tenant = toUuid('tenant', event.tenantId);
  const eventId = toUuid('evt', event.id);
  return tenant !== null && eventId !== null && event.sequence > 0n && event.part >= 0 ? { event, tenant, eventId } : null;
}

// The mark may have passed its place long ago: here the letter's own row says that it has not been taken.
async function redriveOne(client: Client, event: Event): Promise<void> {
  const known = knownOf(event);
  if (!known) throw new Error(malformed);
  const { tenant } = known;
  await client.query(setTenants([tenant]));
  const marks = await readInbox(client, [tenant], [placeOf(known)]);
  (marks.get(tenant) as Mark).take(event);
  const found = deliveriesOf([known], await enabledWebhooks(client, [tenant]), (_, error) => {
    throw error;
  });
  await allSettledOrThrow([insert(client, found), writeInbox(client, [...marks.values()])]);
}

function placeOf({ tenant, event: { sequence, part } }: Known): PlaceOfTenant {
  return { tenant, sequence, part };
}

// Of an event and of those that are derived from it.
function placesOf(known: Known): PlaceOfTenant[] {
  return Array.from({ length: 1 + balanceEventCount(known.event) }, (_, part) =>
    part === 0 ? placeOf(known) : { ...placeOf(known), part },
  );
}

function updatesOfKnown({ event, tenant, eventId }: Known): Known[] {
  return balanceEventsOf(event).map((update) => ({ event: update, tenant, eventId: derivedId(eventId, update.part), isDerived: true }));
}

/** How many of them came, and are not derived. */
function came(events: Known[]): number {
  return events.filter(({ isDerived }) => isDerived !== true).length;
}

// Takes the places of events and, with `derive`, of those that are derived from them, which are made only where somebody hears of them.
function takePlaces(events: Known[], marks: Map<string, Mark>, webhooks: Map<string, EnabledWebhook>, derive: boolean): Known[] {
  const fresh: Known[] = [];
  for (const each of events) {
    const { event, tenant } = each;
    const mark = marks.get(tenant) as Mark;
    if (mark.take(event)) fresh.push(each);
    if (!derive) continue;
    const parts: number[] = [];
    for (let part = 1; part <= balanceEventCount(event); part++) if (mark.takeUpdate(event, part)) parts.push(part);
    if (parts.length === 0 || !webhooks.get(tenant)?.events.includes('balance.updated')) continue;
    fresh.push(...updatesOfKnown(each).filter((update) => parts.includes(update.event.part)));
  }
  return fresh;
}

/** A tenant's webhook as far as it decides which events are delivered. */
interface EnabledWebhook {
  tenant_id: string;
  events: string[];
  since_ms: bigint;
}

async function enabledWebhooks(client: Client, tenants: string[]): Promise<Map<string, EnabledWebhook>> {
  const { rows } = await client.query<EnabledWebhook>({ ...selectWebhooks, values: [uuidArray(tenants)] });
  return new Map(rows.map((row) => [row.tenant_id, row]));
}

interface NewDelivery {
  /** UUIDs. */
  tenant: string;
  id: string;
  eventId: string;
  eventType: string;
  body: string;
  traceparent: string | null;
  /** When the webhook was made that it is for, milliseconds since the Unix epoch. */
  sinceMs: bigint;
}

function deliveriesOf(events: Known[], webhooks: Map<string, EnabledWebhook>, refuse: (event: Event, error: Error) => void): NewDelivery[] {
  const nowMs = Date.now();
  return events.flatMap(({ event, tenant, eventId }): NewDelivery[] => {
    const webhook = webhooks.get(tenant);
    // What happened before the webhook was made is not news to it.
    if (!webhook?.events.includes(event.type) || event.createdMs < webhook.since_ms) return [];
    try {
      const traceparent = traceparentOf(event.traceparent);
      return [
        { tenant, id: uuidAt(nowMs), eventId, eventType: event.type, body: eventBody(event), traceparent, sinceMs: webhook.since_ms },
      ];
    } catch (error) {
      refuse(event, error as Error);
      return [];
    }
  });
}

async function insert(client: Client, found: NewDelivery[]): Promise<number> {
  if (found.length === 0) return 0;
  const values = [
    uuidArray(found.map(({ tenant }) => tenant)),
    uuidArray(found.map(({ id }) => id)),
    uuidArray(found.map(({ eventId }) => eventId)),
    textArray(found.map(({ eventType }) => eventType)),
    textArray(found.map(({ body }) => body)),
    textArray(found.map(({ traceparent }) => traceparent)),
    bigintArray(found.map(({ sinceMs }) => sinceMs)),
    uuidArray([...new Set(found.map(({ tenant }) => tenant))]),
  ];
  const { rows } = await client.query<{ made: number }>({ ...insertDeliveries, values });
  return rows[0]?.made ?? 0;
}

function letterOf(event: Event, reason: string): Letter {
  const { tenantId, sequence, part } = event;
  // A foreign message's is as long as it likes: a row of an index holds 2,704 bytes, and a log line should not be longer.
  return { source: `${tenantId.slice(0, 100)} ${sequence}.${part}`, value: toBinary(EventSchema, event), reason };
}

/** Whether PostgreSQL refuses the data itself, and would refuse it again: 22 data, 23 constraint, 54 limits. */
function isDataError(error: unknown): boolean {
  return /^(22|23|54)...$/.test((error as { code?: string }).code ?? '');
}
