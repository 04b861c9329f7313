// Consumes events of the ledger: a tenant's offset, its deliveries and Kafka's offset in one transaction. Kafka and the Ingest call both end here.
import { toBinary } from '@bufbuild/protobuf';
import { Counter, type Registry } from 'prom-client';
import { EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { derivedEventsOf, derivedId } from '../platform/derived-events.ts';
import { toId, toUuid } from '../platform/ids.ts';
import { errorMessage } from '../platform/lifetime.ts';
import { allSettledOrThrow, setTenants, withClient, type Client, type Pool } from '../platform/postgres.ts';
import { bisect, isDataError, isServerError, isTransient } from '../platform/postgres-errors.ts';
import type { Logger } from '../platform/telemetry.ts';
import { SpanKind, inSpans } from '../platform/tracing.ts';
import { insertDeadLetters, listDeadLetters, redriveDeadLetter, type DeadLetter } from './dead-letters.ts';
import { gapFields, readInbox, writeInbox, type SequenceRange, type TenantInbox, type TenantPosition } from './inbox.ts';
import { moveOffsets, type OffsetMove } from './kafka-offsets.ts';
import { dropRedacted } from './redactions.ts';
import { deliveriesOf, enabledWebhooks, insertDeliveries, type IdentifiedEvent } from './new-deliveries.ts';

/** What the consumer works with. */
export interface ConsumerParts {
  /** Its size bounds the transactions at a time. */
  pool: Pool;
  logger: Logger;
  metrics: Registry;
  /** Called after deliveries were made. */
  wake: () => void;
}

/** How events are consumed. */
export interface IngestOptions {
  /** Messages of the same batch that cannot be decoded as events. */
  deadLetters?: DeadLetter[];
  /** Whether to derive the events that follow one of the log: over gRPC they are not sent. */
  derive?: boolean;
  /** The steps of Kafka's offsets, stored with them. */
  moves?: OffsetMove[];
}

const malformed = 'its tenant, id or position in the log is malformed';

/** Turns events into deliveries, and stores those that it cannot turn as dead letters. */
export class Consumer {
  private readonly parts: ConsumerParts;
  private readonly events: Counter<'result'>;
  private readonly gaps: Counter;
  private readonly reissued: Counter;
  private readonly deadLetters: Counter;

  constructor(parts: ConsumerParts) {
    this.parts = parts;
    const registers = [parts.metrics];
    this.events = new Counter({ name: 'notifier_events_total', help: 'Events received', labelNames: ['result'], registers });
    this.gaps = new Counter({ name: 'notifier_inbox_gaps_total', help: 'Gaps found in tenants’ logs: alert on any', registers });
    const help = 'Events consumed at positions that older ones had: the ledger was restored to an earlier state. Alert on any';
    this.reissued = new Counter({ name: 'notifier_events_reissued_total', help, registers });
    this.deadLetters = new Counter({
      name: 'notifier_dead_letters_total',
      help: 'Events kept because no delivery can be made of them',
      registers,
    });
  }

  /**
   * Consumes events, each tenant's in its order; resolves after the commit. Events consumed before are skipped, skipped positions are recorded as
   * gaps. An event that no delivery can be made of becomes a dead letter and does not hold up the others. Throws PostgreSQL's errors that are not
   * the event's fault, and `OffsetMismatch`: the same may be ingested again.
   */
  async ingest(events: Event[], options: IngestOptions = {}): Promise<void> {
    // An event's span becomes the parent of those of its deliveries.
    await inSpans(events, 'process ledger.v1.Event', { kind: SpanKind.CONSUMER }, () => this.ingestAll(events, options));
  }

  private async ingestAll(events: Event[], { deadLetters = [], derive = false, moves = [] }: IngestOptions): Promise<void> {
    const identified: IdentifiedEvent[] = [];
    const unusable = [...deadLetters];
    for (const event of events) {
      const identifiedEvent = identify(event);
      if (!identifiedEvent) unusable.push(deadLetterOf(event, malformed));
      else identified.push(identifiedEvent, ...(derive ? derivedFrom(identifiedEvent) : []));
    }
    try {
      await this.consume(identified, { deadLetters: unusable, moves });
    } catch (error) {
      if (identified.length === 0 || !isDataError(error)) throw error;
      await bisect(
        identified,
        (part) => this.consume(part),
        (bad, cause) => this.consume([bad], { deadLetters: [deadLetterOf(bad.event, errorMessage(cause))], deliver: false }),
      );
      await this.consume([], { deadLetters: unusable, moves });
    }
  }

  /**
   * Consumes ranges of logs without their events, for tenants whose webhook is absent or disabled; resolves after the commit with the tenants
   * (UUIDs) whose webhook is enabled, of which nothing was consumed. A second call with the same changes nothing.
   */
  async pass(ranges: (SequenceRange & { tenant: string })[]): Promise<string[]> {
    const tenants = sortedTenants(ranges);
    if (tenants.length === 0) return [];
    const { passed, enabled } = await withClient(this.parts.pool, async (client) => {
      const [, , inboxes, webhooks] = await allSettledOrThrow([
        client.query('begin'),
        client.query(setTenants(tenants)),
        readInbox(client, tenants, []),
        enabledWebhooks(client, tenants),
      ]);
      for (const range of ranges) if (!webhooks.has(range.tenant)) inboxes.get(range.tenant)?.pass(range);
      const passedInboxes = [...inboxes.values()].filter(({ tenant }) => !webhooks.has(tenant));
      await allSettledOrThrow([...(passedInboxes.length > 0 ? [writeInbox(client, passedInboxes)] : []), client.query('commit')]);
      return { passed: passedInboxes, enabled: [...webhooks.keys()] };
    });
    this.reportInboxes(passed);
    return enabled;
  }

  /**
   * Tries all dead letters again, the oldest first, or those with the ids, each in its own transaction. Leaves the rest if the database is unreachable or
   * the pool has ended.
   */
  async redrive(only?: string[]): Promise<{ redriven: number; left: { id: string; reason: string }[] }> {
    const { pool } = this.parts;
    const ids = only ?? (await listDeadLetters(pool));
    const left: { id: string; reason: string }[] = [];
    let redriven = 0;
    for (const [index, id] of ids.entries()) {
      try {
        if (await redriveDeadLetter(pool, id, redriveEvent)) redriven++;
        else if (only) left.push({ id, reason: 'there is no such dead letter' });
      } catch (error) {
        // An error of the server may concern this dead letter only.
        const isOver = pool.ending || (isTransient(error) && !isServerError(error));
        left.push(...ids.slice(index, isOver ? undefined : index + 1).map((each) => ({ id: each, reason: errorMessage(error) })));
        if (isOver) break;
      }
    }
    if (redriven > 0) this.parts.wake();
    return { redriven, left };
  }

  /** Consumes events and offsets in one transaction. `deliver` false: only the positions are consumed, no deliveries are made. */
  private async consume(
    events: readonly IdentifiedEvent[],
    { deadLetters = [], moves = [], deliver = true }: Omit<IngestOptions, 'derive'> & { deliver?: boolean } = {},
  ): Promise<void> {
    const tenants = sortedTenants(events);
    const unusable = [...deadLetters];
    const { inboxes, consumedCount, deliveryCount, newDeadLetters } = await withClient(this.parts.pool, async (client) => {
      const [, , inboxByTenant, webhooks] = await allSettledOrThrow([
        client.query('begin'),
        client.query(setTenants(tenants)),
        readInbox(client, tenants, events.map(positionOf)),
        enabledWebhooks(client, tenants),
        moveOffsets(client, moves),
      ]);
      const fresh = events.filter(({ tenant, event }) => inboxByTenant.get(tenant)?.consume(event));
      const deliveries = deliver ? deliveriesOf(fresh, webhooks, (event, why) => unusable.push(deadLetterOf(event, why.message))) : [];
      const isRedacting = fresh.some(({ event }) => event.data.case === 'transactionRedacted');
      const [deliveryCount, newDeadLetters] = await allSettledOrThrow([
        insertDeliveries(client, deliveries),
        insertDeadLetters(client, unusable),
        writeInbox(client, [...inboxByTenant.values()]),
        ...(isRedacting ? [] : [client.query('commit')]),
      ]);
      if (isRedacting) {
        await dropRedacted(client, fresh);
        await client.query('commit');
      }
      return { inboxes: [...inboxByTenant.values()], consumedCount: fresh.length, deliveryCount, newDeadLetters };
    });
    this.reportInboxes(inboxes);
    this.reportDeadLetters(newDeadLetters);
    this.events.inc({ result: 'consumed' }, consumedCount);
    this.events.inc({ result: 'duplicate' }, events.length - consumedCount);
    if (deliveryCount > 0) this.parts.wake();
  }

  private reportInboxes(inboxes: TenantInbox[]): void {
    const { logger } = this.parts;
    const gaps = gapFields(inboxes);
    for (const gap of gaps) logger.error(gap, 'gap in the log of a tenant');
    this.gaps.inc(gaps.length);
    for (const { tenant, reissued } of inboxes) {
      if (reissued === 0) continue;
      logger.error({ tenant: toId('tenant', tenant), events: reissued }, 'events at consumed positions: was the ledger restored?');
      this.reissued.inc(reissued);
    }
  }

  private reportDeadLetters(deadLetters: DeadLetter[]): void {
    this.deadLetters.inc(deadLetters.length);
    for (const { source, reason } of deadLetters) this.parts.logger.error({ source, reason }, 'dead letter');
  }
}

function identify(event: Event): IdentifiedEvent | null {
  const tenant = toUuid('tenant', event.tenantId);
  const eventId = toUuid('evt', event.id);
  return tenant !== null && eventId !== null && event.sequence > 0n && event.part >= 0 ? { event, tenant, eventId } : null;
}

// The consumed offset may be past this event. The row of the dead letter shows that it has not been delivered.
async function redriveEvent(client: Client, event: Event): Promise<void> {
  const identified = identify(event);
  if (!identified) throw new Error(malformed);
  const { tenant } = identified;
  await client.query(setTenants([tenant]));
  const inboxes = await readInbox(client, [tenant], [positionOf(identified)]);
  inboxes.get(tenant)?.consume(event);
  const deliveries = deliveriesOf([identified], await enabledWebhooks(client, [tenant]), (_, why) => {
    throw why;
  });
  await allSettledOrThrow([insertDeliveries(client, deliveries), writeInbox(client, [...inboxes.values()])]);
}

/** Each once, in the order in which their rows are locked. */
function sortedTenants(items: readonly { tenant: string }[]): string[] {
  return [...new Set(items.map(({ tenant }) => tenant))].sort();
}

function positionOf({ tenant, event: { sequence, part } }: IdentifiedEvent): TenantPosition {
  return { tenant, sequence, part };
}

function derivedFrom({ event, tenant, eventId }: IdentifiedEvent): IdentifiedEvent[] {
  return derivedEventsOf(event).map((derived) => ({ event: derived, tenant, eventId: derivedId(eventId, derived.part) }));
}

function deadLetterOf(event: Event, reason: string): DeadLetter {
  const { tenantId, sequence, part } = event;
  // A foreign message's tenant id has any length, and an index row holds 2,704 bytes.
  return { source: `${tenantId.slice(0, 100)} ${sequence}.${part}`, value: toBinary(EventSchema, event), reason };
}
