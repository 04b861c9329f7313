// Outbox relay. Publishes each tenant's events after its published offset to Kafka or the notifier, then advances it. At least once, in order.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { openGauges } from '../../platform/gauges.ts';
import { toId } from '../../platform/ids.ts';
import { errorMessage } from '../../platform/lifetime.ts';
import type { Pool } from '../../platform/postgres.ts';
import { isDataError } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { SpanKind, inSpans } from '../../platform/tracing.ts';
import { countDeadLetters, publishDeadLetter } from './dead-letters.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';
import { publishEvents, type RejectedEvent } from './publication.ts';
import * as cursors from './relay-claims.ts';
import { RelayScheduler } from './relay-scheduler.ts';
import { Subscriptions } from './subscriptions.ts';

/** What a relay needs. */
export interface RelayOptions {
  /** Connections with the flag `app.relay`, which see the cursors of all tenants. */
  pool: Pool;
  /** Null: events stay in the log until a relay with a sink runs. */
  sink: EventSink | null;
  /** Between looks for events that other processes left behind, milliseconds. */
  pollMs?: number;
  /** After so long without an answer the sink counts as unavailable, milliseconds. */
  timeoutMs?: number;
  logger: Logger;
  metrics: Registry;
}

/** What a batch reads, shared by its tenants. */
const maxEvents = 512;
const maxBytes = 512 * 1024;
/** Between the starts of shared batches, milliseconds: larger batches cost less. */
const batchIntervalMs = 40;
/** Without a batch for so long the sink is probed, milliseconds. */
const probeAfterMs = 5_000;

/** Where another replica has claimed the tenant, milliseconds. */
const afterMissMs = 50;

/** How far a claimed tenant's events were published or skipped, and what comes next. */
interface Outcome extends cursors.PublishedOffset {
  /** Whether it is due again at once. */
  hasMore: boolean;
  /** Why it must back off. */
  failure?: unknown;
}

interface Batch {
  outcomes: Outcome[];
  rejected: RejectedEvent[];
  /** Events. */
  published: number;
  /** Tenants that another replica has claimed. */
  claimedElsewhere: ReadonlySet<string>;
}

/** The sink can't be reached, or gave an unknown answer: its `cause`. */
class SinkUnavailable extends Error {}

/** Relays the events of all tenants. */
export class Relay {
  private readonly options: RelayOptions;
  private readonly subscriptions = new Subscriptions();
  private readonly scheduler = new RelayScheduler();
  private readonly loops: Promise<void>[] = [];
  /** One for the process, whose batches share no tenant: a claim whose answer was lost can be claimed again. */
  private readonly claimId = randomUUID();
  private readonly closed = new AbortController();
  /** No batch begins before, of `performance.now()`. */
  private pausedUntil = 0;
  /** The same for shared batches only. */
  private nextBatchAt = 0;
  /** Failures of the sink or the database in a row; those of one tenant do not count. */
  private failures = 0;
  private isDatabaseFailing = false;
  /** Unanswered calls of the sink, when one of them last began or ended, and when the sink last answered. */
  private calls = 0;
  private progressAt = 0;
  private answeredAt = -Infinity;
  private readonly published: Counter;
  private readonly skipped: Counter;
  private readonly rejected: Counter;
  private readonly failed: Counter;

  constructor(options: RelayOptions) {
    this.options = options;
    const { pool, sink, metrics } = options;
    const counter = (name: string, help: string) => new Counter({ name: `ledger_relay_${name}_total`, help, registers: [metrics] });
    this.published = counter('published', 'Events published, repetitions included, without those that the sink derives');
    this.skipped = counter('skipped', 'Events of tenants without a webhook, not published');
    this.rejected = counter('rejected', 'Events that became dead letters');
    this.failed = counter('failures', 'Batches and probes that failed');
    const deadLetters = openGauges(metrics, () => countDeadLetters(pool));
    deadLetters('ledger_relay_dead_letters', 'Dead letters not published since: alert on any', (count) => count);
    const gauge = openGauges(metrics, () => cursors.lag(pool));
    gauge('ledger_relay_lag_events', 'Events of the logs that are not published', ({ events }) => events);
    gauge('ledger_relay_lag_seconds', 'Age of the oldest event that is not published', ({ seconds }) => seconds);
    if (!sink) return;
    // Two loops for shared batches: one reads while the other waits for the sink. Several for isolated tenants, which may each wait long.
    for (const isolated of [false, false, true, true, true, true]) this.loops.push(this.run(sink, isolated));
    this.loops.push(this.poll(sink), this.publishDeadLetters(sink));
  }

  /** Publishes the tenant's (UUID) events soon. To be called after a commit to its log. */
  wake(tenant: string): void {
    if (this.options.sink) this.scheduler.wake(tenant, this.subscriptions.isQuiet(tenant));
  }

  /** Dependencies for `/readyz`: the sink is `ok` or `away`; `relay` is there where the ledger's own database fails, or there is no sink. */
  state(): Record<string, string> {
    const { sink, timeoutMs = 15_000 } = this.options;
    if (!sink) return { relay: 'idle: neither KAFKA_BROKERS nor NOTIFIER_ADDR is set' };
    // A Kafka that throttles its producers answers probes and takes nothing.
    const isStalled = this.calls > 0 && performance.now() - this.progressAt > timeoutMs;
    const isFailing = this.failures > 0 && !this.isDatabaseFailing;
    const isOk = this.answeredAt > -Infinity && !isStalled && !isFailing;
    return { [sink.name]: isOk ? 'ok' : 'away', ...(this.failures > 0 && this.isDatabaseFailing && { relay: 'waits for postgresql' }) };
  }

  /** Publishes what is due, then stops, each within five seconds; other replicas, or the next start, find what is left. */
  async close(): Promise<void> {
    this.scheduler.end();
    const deadline = performance.now() + 5_000;
    while (this.scheduler.isBusy && this.failures === 0 && performance.now() < deadline) await pause(20);
    this.closed.abort();
    this.scheduler.notify();
    const ended = Promise.all(this.loops).then(() => this.options.sink?.close());
    // An unanswered call is abandoned: its claims expire, and its events are published again.
    await Promise.race([ended, pause(5_000, undefined, { ref: false })]);
  }

  private async run(sink: EventSink, isolated: boolean): Promise<void> {
    while (!this.closed.signal.aborted) {
      const now = performance.now();
      const delayMs = Math.max(this.pausedUntil, isolated ? 0 : this.nextBatchAt) - now;
      const tenants = delayMs > 0 ? [] : this.scheduler.take(isolated);
      if (delayMs > 0) await this.pause(delayMs);
      else if (tenants.length === 0) await this.scheduler.changed();
      else {
        if (!isolated) this.nextBatchAt = now + batchIntervalMs;
        await this.relay(sink, tenants);
        this.scheduler.done(tenants);
      }
    }
  }

  /** Relays one batch. A failure leaves the published offsets as they were, and is not thrown. */
  private async relay(sink: EventSink, tenants: string[]): Promise<void> {
    const { pool, logger } = this.options;
    const startedAt = performance.now();
    const renewal = setInterval(() => {
      cursors.renew(pool, this.claimId, tenants).catch((error: unknown) => logger.debug({ err: error }, 'claims could not be renewed'));
    }, cursors.leaseSeconds * 300);
    try {
      const batch = await this.publishBatch(sink, tenants);
      const unsettled = await cursors.settle(pool, this.claimId, batch.outcomes, batch.rejected);
      this.conclude(batch, unsettled);
      const { published } = batch;
      if (published > 0)
        logger.info({ tenants: tenants.length, events: published, ms: Math.round(performance.now() - startedAt) }, 'events published');
    } catch (error) {
      this.handleFailure(tenants, error);
      // Releases the claims for other replicas: no offset ever decreases.
      const unchanged = tenants.map((tenant) => ({ tenant, sequence: 0n }));
      await cursors.settle(pool, this.claimId, unchanged, []).catch(() => undefined);
    } finally {
      clearInterval(renewal);
    }
  }

  /** Claims the tenants' cursors, then publishes or skips the events after them. */
  private async publishBatch(sink: EventSink, tenants: string[]): Promise<Batch> {
    const { pool } = this.options;
    const isSubscribed = (tenant: string) => !sink.skip || this.subscriptions.isSubscribed(tenant);
    const { subscribed = [], unsubscribed = [] } = Object.groupBy(tenants, (each) => (isSubscribed(each) ? 'subscribed' : 'unsubscribed'));
    const share = (max: number) => Math.ceil(max / subscribed.length);
    const options = { events: share(maxEvents), bytes: share(maxBytes), derivesEvents: sink.derivesEvents === true };
    const claims = subscribed.length > 0 ? await cursors.claim(pool, subscribed, this.claimId, options) : [];
    // All reads come before the first event is published: a read that fails repeats the whole batch.
    const ranges = unsubscribed.length > 0 ? await cursors.claimRanges(pool, unsubscribed, this.claimId) : [];
    const claimed = new Set([...claims, ...ranges].map(({ tenant }) => tenant));
    const unclaimed = tenants.filter((tenant) => !claimed.has(tenant));
    const claimedElsewhere = await cursors.tenantsWithCursor(pool, unclaimed);
    const events = claims.flatMap((each) => each.events);
    const span = { kind: SpanKind.PRODUCER, attributes: { 'messaging.destination.name': sink.name } };
    const publish = (some: Event[]) => inSpans(some, 'publish ledger.v1.Event', span, () => this.ask(sink.publish(some)));
    const { published, rejected, deferral } = await publishEvents({ ...sink, publish }, events);
    this.published.inc(published);
    const outcomes = claims.map(({ tenant, sequence, hasMore, unreadable }): Outcome => {
      const isDeferred = deferral?.tenants?.has(toId('tenant', tenant)) === true;
      return { tenant, sequence: isDeferred ? 0n : sequence, hasMore, failure: isDeferred ? deferral : unreadable };
    });
    const grown = ranges.filter(({ published, through }) => through > published);
    const skippable = grown.filter(({ isRedacted }) => !isRedacted);
    const subscribedNow = sink.skip && skippable.length > 0 ? await this.ask(sink.skip(skippable)) : new Set<string>();
    for (const { tenant, isRedacted } of grown) if (isRedacted) subscribedNow.add(tenant);
    for (const { tenant, published, through } of grown) {
      this.subscriptions.record(tenant, subscribedNow.has(tenant));
      if (!subscribedNow.has(tenant)) this.skipped.inc(Number(through - published));
    }
    for (const { tenant, through } of ranges) {
      const hasMore = subscribedNow.has(tenant);
      outcomes.push({ tenant, sequence: hasMore ? 0n : through, hasMore });
    }
    // Where another replica has claimed everything, the sink was not asked anything.
    if (events.length + grown.length > 0) this.recover();
    return { outcomes, rejected, published, claimedElsewhere };
  }

  /** Awaits the sink's answer. Throws {@link SinkUnavailable} for every failure that is not about single events. */
  private async ask<Answer>(call: Promise<Answer>, isProbe = false): Promise<Answer> {
    if (!isProbe && this.calls++ === 0) this.progressAt = performance.now();
    try {
      const answer = await call;
      this.answeredAt = performance.now();
      return answer;
    } catch (error) {
      if (error instanceof EventRejected || error instanceof EventsDeferred) throw error;
      throw new SinkUnavailable(errorMessage(error), { cause: error });
    } finally {
      if (!isProbe) {
        this.calls--;
        this.progressAt = performance.now();
      }
    }
  }

  /** Schedules what comes next for each tenant of a batch. */
  private conclude({ outcomes, rejected, claimedElsewhere }: Batch, unsettled: ReadonlyMap<string, unknown>): void {
    for (const { event, reason } of unsettled.size === 0 ? rejected : []) {
      const { tenantId, sequence, part, id, type } = event;
      this.rejected.inc();
      this.options.logger.error({ tenant: tenantId, sequence, part, event_id: id, type, reason }, 'event rejected');
    }
    for (const [failure, ended] of Map.groupBy(outcomes, ({ tenant, failure }) => failure ?? unsettled.get(tenant))) {
      const ids = ended.map(({ tenant }) => tenant);
      if (failure === undefined) {
        // After a dead letter a tenant stays isolated: its next events may be rejected, too.
        if (rejected.length === 0) for (const tenant of ids) this.scheduler.succeeded(tenant);
        this.scheduler.repeat(ended.filter(({ hasMore }) => hasMore).map(({ tenant }) => tenant));
      } else this.backOff(ids, failure);
    }
    for (const tenant of claimedElsewhere) this.scheduler.delay(tenant, afterMissMs);
  }

  /** A failure of one tenant isolates the tenants of its batch; any other pauses all. */
  private handleFailure(tenants: string[], error: unknown): void {
    if (!(error instanceof EventRejected || error instanceof EventsDeferred || isDataError(error))) {
      this.scheduler.repeat(tenants);
      this.fail(error);
    } else if (tenants.length > 1) {
      this.failed.inc();
      this.scheduler.isolate(tenants);
    } else this.backOff(tenants, error);
  }

  private backOff(tenants: string[], error: unknown): void {
    this.failed.inc();
    this.options.logger.warn(
      { err: error, tenants: tenants.map((tenant) => toId('tenant', tenant)) },
      'events of some tenants not published',
    );
    for (const tenant of tenants) this.scheduler.backOff(tenant);
  }

  /** Pauses all batches, longer with each failure in a row. */
  private fail(error: unknown): void {
    this.failed.inc();
    this.failures += 1;
    this.isDatabaseFailing = !(error instanceof SinkUnavailable);
    if (!this.isDatabaseFailing) this.answeredAt = -Infinity;
    this.pausedUntil = performance.now() + Math.min(100 * 2 ** (this.failures - 1), 2_000);
    this.options.logger[this.failures === 1 ? 'warn' : 'debug']({ err: error }, 'event publication failed');
  }

  private recover(): void {
    if (this.failures > 0) this.options.logger.info({ failures: this.failures }, 'event publication resumed');
    this.failures = 0;
  }

  /** Finds events that other processes left behind, and probes an idle sink. */
  private async poll(sink: EventSink): Promise<void> {
    let after: string | null = null;
    // At the start all cursors are read, without pauses: after a restore of the database, say, one may be inactive.
    for (let everything = true; !this.closed.signal.aborted;) {
      try {
        const found = await cursors.findUnpublished(this.options.pool, after, everything);
        for (const tenant of found.tenants) this.wake(tenant);
        after = found.next;
        everything &&= after !== null;
        if (performance.now() - this.answeredAt > probeAfterMs) await this.ask(sink.probe(), true);
        // While events wait, a batch decides.
        if (!this.scheduler.isBusy) this.recover();
      } catch (error) {
        this.fail(error);
      }
      if (!everything || this.failures > 0) await this.pause(this.options.pollMs ?? 1_000);
    }
  }

  private async publishDeadLetters(sink: EventSink): Promise<void> {
    const { pool, logger, pollMs = 1_000 } = this.options;
    const publish = (events: Event[]) => this.ask(sink.publish(events));
    while (!this.closed.signal.aborted) {
      try {
        const isDone = this.failures > 0 || !(await publishDeadLetter(pool, publish, logger));
        if (isDone) await this.pause(pollMs);
      } catch (error) {
        logger.warn({ err: error }, 'a dead letter could not be published');
        await this.pause(pollMs);
      }
    }
  }

  /** Ends early when the relay closes. */
  private async pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.closed.signal }).catch(() => undefined);
  }
}
