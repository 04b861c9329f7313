// Takes events of the log: the place in each tenant's log and the deliveries of its webhook, in one transaction. Ingest and Kafka's reader
// both come here.
import { toBinary, fromBinary } from '@bufbuild/protobuf';
import { Counter, type Registry } from 'prom-client';
import { v7 as uuidv7 } from 'uuid';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../platform/ids.ts';
import { inTransaction, type Client, type Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { eventBody } from './envelope.ts';
import { readInbox, writeInbox, type Mark } from './inbox.ts';

/** What the consumer works with. */
export interface ConsumerParts {
  pool: Pool;
  logger: Logger;
  metrics: Registry;
  /** Called after deliveries were made. */
  wake: () => void;
}

/** A message that is kept because nothing can be made of it. */
export interface Letter {
  /** Where it came from: topic, partition and offset, or the call. */
  source: string;
  key?: Uint8Array | null;
  value: Uint8Array;
  reason: string;
}

/** An event whose ids were read. */
interface Known {
  event: Event;
  /** UUIDs. */
  tenant: string;
  eventId: string;
}

const insertDeliveries = {
  name: 'insert_deliveries',
  // The clock is read row by row: the order of the rows is the order of their times.
  text: `with new as (
      select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[]) with ordinality as n (tenant_id, id, event_id, event_type, body, place)
    ), made as (
      insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
      select tenant_id, id, event_id, event_type, false, 'pending', 1, false, at, at
      from (select *, clock_timestamp() as at from new order by place) as timed
      on conflict (tenant_id, event_id) do nothing
      returning tenant_id, id
    ), bodies as (
      insert into payloads (tenant_id, delivery_id, body) select tenant_id, id, body from new join made using (tenant_id, id)
    ), waiting as (
      -- Sorted, so that no two wait for each other; locked also where nothing changes, so that a claim that looks away meanwhile looks again.
      insert into due (tenant_id, next_at) select distinct tenant_id, now() from made order by tenant_id
      on conflict (tenant_id) do update set next_at = excluded.next_at where due.next_at is null or due.next_at > excluded.next_at
    ) select count(*)::int as made from made`,
};

const selectWebhooks = {
  name: 'subscriptions',
  text: `select tenant_id, events, floor(extract(epoch from created_at) * 1000)::int8 as since_ms from webhooks
    where tenant_id = any ($1::uuid[]) and enabled`,
};

/** Takes events and keeps what can't be taken. */
export class Consumer {
  private readonly parts: ConsumerParts;
  private readonly taken: Counter<'result'>;
  private readonly gaps: Counter;
  private readonly dead: Counter;

  constructor(parts: ConsumerParts) {
    this.parts = parts;
    const registers = [parts.metrics];
    this.taken = new Counter({ name: 'notifier_events_total', help: 'Events that came', labelNames: ['result'], registers });
    this.gaps = new Counter({ name: 'notifier_inbox_gaps_total', help: 'Gaps found in the logs of tenants', registers });
    this.dead = new Counter({ name: 'notifier_dead_letters_total', help: 'Events kept because nothing could be made of them', registers });
  }

  /**
   * Takes events, each tenant's in its order; resolves after the commit. What was taken before is skipped, a place that was passed over
   * is noted as a gap. An event that can't be made into a delivery is kept as a dead letter and does not hold up the others. Throws what
   * PostgreSQL answers where that is not the event's fault: nothing has been taken then.
   */
  async ingest(messages: { event: Event }[]): Promise<void> {
    if (messages.length === 0) return;
    const letters: Letter[] = [];
    const known: Known[] = [];
    for (const { event } of messages) {
      const tenant = toUuid('tenant', event.tenantId);
      const eventId = toUuid('evt', event.id);
      if (tenant !== null && eventId !== null && event.sequence > 0n && event.part >= 0) known.push({ event, tenant, eventId });
      else letters.push(letterOf(event, 'its tenant, id or place in the log is malformed'));
    }
    const made = await this.take(known, letters).catch(async (error: unknown) => {
      if (!isDataError(error)) throw error;
      // One of them is to blame: one at a time, so that it stands alone.
      let sum = 0;
      for (const each of known) sum += await this.takeAlone(each);
      if (letters.length > 0) await this.keep(letters);
      return sum;
    });
    if (made > 0) this.parts.wake();
  }

  /** Keeps messages as dead letters. */
  async keep(letters: Letter[]): Promise<void> {
    await inTransaction(this.parts.pool, [], (client) => insertLetters(client, letters));
    this.report(letters);
  }

  /** Tries dead letters again, the oldest first, each in a transaction of its own; what succeeds is one no more. */
  async redrive(): Promise<{ redriven: number; left: number }> {
    const { pool } = this.parts;
    const ids = await inTransaction(pool, [], async (client) => {
      await asJob(client);
      return (await client.query<{ id: string }>('select id from dead_letters order by id')).rows.map((row) => row.id);
    });
    let redriven = 0;
    for (const id of ids) if (await this.redriveOne(id)) redriven++;
    if (redriven > 0) this.parts.wake();
    return { redriven, left: ids.length - redriven };
  }

  private async redriveOne(id: string): Promise<boolean> {
    try {
      return await inTransaction(this.parts.pool, [], async (client) => {
        await asJob(client);
        const { rows } = await client.query<{ value: Buffer }>('select value from dead_letters where id = $1 for update', [id]);
        if (!rows[0]) return false;
        const event = fromBinary(EventSchema, rows[0].value);
        const tenant = toUuid('tenant', event.tenantId);
        const eventId = toUuid('evt', event.id);
        if (tenant === null || eventId === null) throw new Error('its tenant or id is malformed');
        await client.query(`select set_config('app.tenants', $1, true)`, [`{${tenant}}`]);
        const one = { event, tenant, eventId };
        // The mark may have passed it long ago: here the letter's own row says that it has not been taken.
        const marks = await readInbox(client, [tenant]);
        (marks.get(tenant) as Mark).take(event);
        await this.deliver(client, [one], (_, error) => {
          throw error;
        });
        await writeInbox(client, [...marks.values()]);
        await client.query('delete from dead_letters where id = $1', [id]);
        return true;
      });
    } catch (error) {
      this.parts.logger.warn({ letter: id, err: error }, 'dead letter stays');
      return false;
    }
  }

  private async takeAlone(one: Known): Promise<number> {
    try {
      return await this.take([one], []);
    } catch (error) {
      if (!isDataError(error)) throw error;
      const letters = [letterOf(one.event, (error as Error).message)];
      await this.take([], letters, [one]);
      return 0;
    }
  }

  // `passed`: events whose places are taken and which are not delivered.
  private async take(known: Known[], malformed: Letter[], passed: Known[] = []): Promise<number> {
    const { pool, logger } = this.parts;
    const all = [...known, ...passed];
    const tenants = [...new Set(all.map(({ tenant }) => tenant))].sort();
    const letters = [...malformed];
    const counts = { taken: 0, known: 0, made: 0 };
    const gaps = await inTransaction(pool, tenants, async (client) => {
      const marks = await readInbox(client, tenants);
      const fresh = all.filter(({ event, tenant }) => (marks.get(tenant) as Mark).take(event));
      counts.taken = fresh.length;
      counts.known = all.length - fresh.length;
      const wanted = fresh.filter((each) => !passed.includes(each));
      counts.made = await this.deliver(client, wanted, (event, error) => letters.push(letterOf(event, error.message)));
      if (letters.length > 0) await insertLetters(client, letters);
      return writeInbox(client, [...marks.values()]);
    });
    for (const gap of gaps) logger.error(gap, 'gap in the log of a tenant');
    this.gaps.inc(gaps.length);
    this.taken.inc({ result: 'taken' }, counts.taken);
    if (counts.known > 0) this.taken.inc({ result: 'known' }, counts.known);
    this.report(letters);
    return counts.made;
  }

  private async deliver(client: Client, events: Known[], refuse: (event: Event, error: Error) => void): Promise<number> {
    if (events.length === 0) return 0;
    const tenants = [...new Set(events.map(({ tenant }) => tenant))];
    const { rows } = await client.query<{ tenant_id: string; events: string[]; since_ms: bigint }>({
      ...selectWebhooks,
      values: [tenants],
    });
    const webhooks = new Map(rows.map((row) => [row.tenant_id, row]));
    const columns: [string[], string[], string[], string[], string[]] = [[], [], [], [], []];
    for (const { event, tenant, eventId } of events) {
      const webhook = webhooks.get(tenant);
      if (!webhook?.events.includes(event.type) || event.createdMs < webhook.since_ms) continue;
      try {
        const row = [tenant, uuidv7(), eventId, event.type, eventBody(event)];
        row.forEach((value, column) => columns[column]?.push(value));
      } catch (error) {
        refuse(event, error as Error);
      }
    }
    if (columns[0].length === 0) return 0;
    const answer = await client.query<{ made: number }>({ ...insertDeliveries, values: columns });
    return answer.rows[0]?.made ?? 0;
  }

  private report(letters: Letter[]): void {
    this.dead.inc(letters.length);
    for (const { source, reason } of letters) this.parts.logger.error({ source, reason }, 'dead letter');
  }
}

async function asJob(client: Client): Promise<void> {
  await client.query(`select set_config('app.job', 'dead letters', true)`);
}

async function insertLetters(client: Client, letters: Letter[]): Promise<void> {
  await asJob(client);
  for (const { source, key, value, reason } of letters) {
    await client.query('insert into dead_letters (id, source, key, value, reason, received_at) values ($1, $2, $3, $4, $5, now())', [
      uuidv7(),
      source,
      key ? Buffer.from(key) : null,
      Buffer.from(value),
      reason.replaceAll('\0', '').slice(0, 1000),
    ]);
  }
}

function letterOf(event: Event, reason: string): Letter {
  const { tenantId, sequence, part } = event;
  return { source: `${tenantId} ${sequence}.${part}`.replaceAll('\0', ''), value: toBinary(EventSchema, event), reason };
}

/** Whether PostgreSQL refuses the data itself, and would refuse it again: 22 data, 23 constraint, 54 limits. */
function isDataError(error: unknown): boolean {
  return /^(22|23|54)...$/.test((error as { code?: string }).code ?? '');
}
