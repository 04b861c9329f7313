// Outbox relay. Publishes each tenant's events after its published offset to Kafka or the notifier, then advances it. At least once, in order.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { openGauges } from '../../platform/gauges.ts';
import { toId } from '../../platform/ids.ts';
import { errorMessage } from '../../platform/lifetime.ts';
import type { Pool } from '../../platform/postgres.ts';
import { isDataError, isTransient } from '../../platform/postgres-errors.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { countDeadLetters, logFields, publishDueDeadLetters } from './dead-letters.ts';
import { EventRejected, EventsDeferred, SinkUnavailable, type DeadLetter, type EventSink } from './event-sink.ts';
import { publishEvents } from './publication.ts';
import * as cursors from './relay-claims.ts';
import { RelayScheduler } from './relay-scheduler.ts';
import { quietPeriodMs, Subscriptions } from './subscriptions.ts';

/** What a relay needs. */
export interface RelayOptions {
  /** Connections with `app.relay` on, which see the cursors of all tenants. */
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
/** Without a batch for so long the sink is probed, milliseconds. */
const probeAfterMs = 5_000;

/** After a failure, and where another replica has claimed the tenant. */
const afterFailure = { firstMs: 200, maxMs: 10_000 };
const afterMiss = { firstMs: 25, maxMs: 1_000 };

/** How far a tenant's events were published or skipped, and what comes next. */
interface Outcome extends cursors.PublishedOffset {
  /** Whether it is due again at once. */
  hasMore: boolean;
  isDeferred?: boolean;
}

interface Batch {
  outcomes: Outcome[];
  deadLetters: DeadLetter[];
  /** Events. */
  published: number;
}

/** Relays the events of all tenants. */
export class Relay {
  private readonly options: RelayOptions;
  private readonly subscriptions: Subscriptions;
  private readonly scheduler: RelayScheduler;
  private readonly loops: Promise<void>[] = [];
  /** One for the process, whose batches share no tenant: a claim whose answer was lost can be claimed again. */
  private readonly claimId = randomUUID();
  private readonly closed = new AbortController();
  /** No batch begins before, of `performance.now()`. */
  private pausedUntil = 0;
  /** The same for shared batches only, by the number of events of the last one. */
  private nextBatchAt = 0;
  private batchEvents = 0;
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
    this.subscriptions = new Subscriptions(sink?.skip !== undefined);
    this.scheduler = new RelayScheduler((tenant) => this.subscriptions.isQuiet(tenant), quietPeriodMs);
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
    if (this.options.sink) this.scheduler.wake(tenant);
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
    this.scheduler.close();
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
        if (!isolated) this.nextBatchAt = now + Math.min(50, 25 + 2 * this.batchEvents);
        this.batchEvents = await this.relay(sink, tenants);
        this.scheduler.done(tenants);
      }
    }
  }

  /** Relays one batch and returns how many events it published. A failure leaves the published offsets as they were, and is not thrown. */
  private async relay(sink: EventSink, tenants: string[]): Promise<number> {
    const { pool, logger } = this.options;
    const startedAt = performance.now();
    const renewal = setInterval(() => {
      cursors.renew(pool, this.claimId, tenants).catch((error: unknown) => logger.debug({ err: error }, 'claims could not be renewed'));
    }, cursors.leaseSeconds * 300);
    const batch: Batch = { outcomes: [], deadLetters: [], published: 0 };
    let failure: unknown;
    try {
      await this.publishBatch(sink, tenants, batch);
    } catch (error) {
      failure = error;
      // Releases the claims for other replicas: no offset ever decreases.
      batch.outcomes = tenants.map((tenant) => ({ tenant, sequence: 0n, hasMore: true }));
    }
    clearInterval(renewal);
    try {
      const unsettled = await cursors.settle(pool, this.claimId, batch.outcomes, failure === undefined ? batch.deadLetters : []);
      for (const [tenant, error] of unsettled) this.backOff(tenant, error);
      if (failure === undefined) this.conclude(tenants, batch, unsettled);
    } catch (error) {
      failure ??= error;
    }
    if (failure !== undefined) this.handleFailure(tenants, failure);
    const { published } = batch;
    if (published > 0)
      logger.info({ tenants: tenants.length, events: published, ms: Math.round(performance.now() - startedAt) }, 'events published');
    return published;
  }

  /** Claims the tenants' cursors, then publishes or skips the events after them. */
  private async publishBatch(sink: EventSink, tenants: string[], batch: Batch): Promise<void> {
    const { pool } = this.options;
    const { subscribed, unsubscribed } = this.subscriptions.split(tenants);
    const share = (max: number) => Math.ceil(max / subscribed.length);
    const options = { events: share(maxEvents), bytes: share(maxBytes), derivesBalances: sink.derivesBalances === true };
    const claims = subscribed.length > 0 ? await cursors.claim(pool, subscribed, this.claimId, options) : [];
    // All reads come before the first event is published: a read that fails repeats the whole batch.
    const ranges = unsubscribed.length > 0 ? await cursors.claimRanges(pool, unsubscribed, this.claimId) : [];
    const events = claims.flatMap((each) => each.events);
    const publish = (some: Event[]) => this.ask(sink.publish(some));
    const { published, rejected, deferral } = await publishEvents({ ...sink, publish }, events);
    Object.assign(batch, { published, deadLetters: rejected });
    this.published.inc(published);
    if (deferral) this.options.logger.warn({ err: deferral, tenants: deferral.tenants?.size }, 'events of some tenants were deferred');
    for (const { tenant, published, through, ...more } of claims) {
      const isDeferred = deferral?.tenants?.has(toId('tenant', tenant)) === true;
      batch.outcomes.push({ tenant, sequence: isDeferred ? published : through, isDeferred, ...more });
    }
    const grown = ranges.filter(({ published, through }) => through > published);
    const subscribedNow = sink.skip && grown.length > 0 ? await this.ask(sink.skip(grown)) : new Set();
    for (const { tenant, published, through } of ranges) {
      const isSubscribed = subscribedNow.has(tenant);
      if (through > published) this.subscriptions.record(tenant, isSubscribed);
      if (!isSubscribed) this.skipped.inc(Number(through - published));
      batch.outcomes.push({ tenant, sequence: isSubscribed ? published : through, hasMore: isSubscribed });
    }
    // Where another replica has claimed everything, the sink was not asked anything.
    if (events.length + grown.length === 0 && this.failures > 0) await this.ask(sink.probe(), true);
    this.recover();
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
  private conclude(tenants: string[], { outcomes, deadLetters }: Batch, unsettled: ReadonlyMap<string, unknown>): void {
    const missed = new Set(tenants);
    for (const { tenant, isDeferred, hasMore } of outcomes) {
      missed.delete(tenant);
      if (unsettled.has(tenant)) continue;
      if (isDeferred) this.scheduler.backOff(tenant, afterFailure);
      else {
        if (deadLetters.length === 0) this.scheduler.succeeded(tenant);
        if (hasMore) this.scheduler.repeat([tenant]);
      }
    }
    for (const tenant of missed) this.scheduler.backOff(tenant, afterMiss);
    const kept = deadLetters.filter(({ tenant }) => !unsettled.has(tenant));
    this.rejected.inc(kept.length);
    if (kept.length > 0) this.options.logger.error({ dead_letters: kept.map(logFields) }, 'events rejected');
  }

  /** A failure of one tenant isolates the tenants of its batch; any other pauses all. */
  private handleFailure(tenants: string[], error: unknown): void {
    if (!(error instanceof EventRejected || error instanceof EventsDeferred || isDataError(error))) {
      this.scheduler.repeat(tenants);
      this.fail(error);
    } else if (tenants.length > 1) {
      this.failed.inc();
      this.scheduler.isolate(tenants);
    } else this.backOff(tenants[0] as string, error);
  }

  private backOff(tenant: string, error: unknown): void {
    this.failed.inc();
    this.options.logger.warn({ err: error, tenant: toId('tenant', tenant) }, 'events of a tenant could not be published');
    this.scheduler.backOff(tenant, afterFailure);
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
    // At the start all cursors are read: after a restore of the database, say, one may be inactive.
    let everything = true;
    for (let isPaged = false; !this.closed.signal.aborted;) {
      try {
        const found = await cursors.findUnpublished(this.options.pool, after, everything);
        for (const tenant of found.tenants) this.wake(tenant);
        after = found.next;
        everything &&= after !== null;
        isPaged = everything;
        if (performance.now() - this.answeredAt > probeAfterMs) await this.ask(sink.probe(), true);
        // While events wait, a batch decides.
        if (!this.scheduler.isBusy) this.recover();
      } catch (error) {
        isPaged = false;
        this.fail(error);
      }
      if (!isPaged) await this.pause(this.options.pollMs ?? 1_000);
    }
  }

  private async publishDeadLetters(sink: EventSink): Promise<void> {
    const { pool, logger, pollMs = 1_000 } = this.options;
    const publish = (events: Event[]) => this.ask(sink.publish(events));
    let isLogged = false;
    while (!this.closed.signal.aborted) {
      try {
        if (this.failures === 0) await publishDueDeadLetters({ pool, publish, logger, signal: this.closed.signal });
        isLogged = false;
      } catch (error) {
        logger[isLogged || isTransient(error) ? 'debug' : 'warn']({ err: error }, 'dead letters could not be published');
        isLogged = true;
      }
      await this.pause(pollMs);
    }
  }

  /** Ends early when the relay closes. */
  private async pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.closed.signal }).catch(() => undefined);
  }
}
