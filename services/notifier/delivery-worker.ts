// Sends due deliveries: leases them, signs and sends each, records the result.
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { Counter, Histogram, type Registry } from 'prom-client';
import { openGauge } from '../platform/gauges.ts';
import { toId } from '../platform/ids.ts';
import type { Pool } from '../platform/postgres.ts';
import { DecryptError, type SecretEncryption } from '../platform/secret-encryption.ts';
import type { Logger } from '../platform/telemetry.ts';
import { SpanKind, endSpan, startSpan, traceField, traceparentFrom } from '../platform/tracing.ts';
import { ResultWriter, type DeliveryResult } from './delivery-results.ts';
import type { Answer, HttpClient } from './http-client.ts';
import { leaseDue, postponeIdle, type Lease, type LeaseCycle, type LeaseLimits, type PostponedTenant } from './leases.ts';
import { deliveryHeaders, nextState } from './webhook.ts';

/** How deliveries are sent. */
export interface DeliveryWorkerOptions {
  pool: Pool;
  httpClient: HttpClient;
  secrets: SecretEncryption;
  logger: Logger;
  metrics: Registry;
  /** Seconds from the beginning of an attempt to that of the next one. */
  retryDelays: readonly number[];
  /** Deadline of one attempt. */
  timeoutMs: number;
  /** Deliveries in flight in this process: leased and not recorded. */
  concurrency: number;
  /** Deliveries in flight to one tenant's endpoint, over all processes. */
  endpointConcurrency: number;
  /** A lease is so much longer than the deadline of its attempt. */
  marginMs: number;
  /** How often to look for due deliveries when nothing is known to be due. */
  pollMs: number;
}

/** An attempt that has ended. */
export interface Attempt {
  answer: Answer;
  /** False: the lease had run out. */
  isRecorded: boolean;
}

/** Requests that begin in one turn of the event loop: more would delay the answers, and what they allocate would live longer. */
const startedPerTurn = 8;

/** Cycles begin so far apart, milliseconds: close together while there is much to do, else so that several events share one. */
const cycleMs = { busy: 5, quiet: 25 };

/** The result of a test that a stop aborts. */
const aborted: Answer = { statusCode: null, errorClass: 'timeout', body: null, durationMs: 0 };

/** Leases and sends deliveries until it is stopped. */
export class DeliveryWorker {
  readonly options: DeliveryWorkerOptions;
  private readonly results: ResultWriter;
  private readonly aborting = new AbortController();
  private readonly delaySeconds: Histogram;
  private readonly durationSeconds: Histogram<'result'>;
  private readonly attempts: Counter<'status'>;
  private readonly unsent: Counter;
  private readonly leaseErrors: Counter;
  private readonly secretErrors: Counter;
  private inFlight = 0;
  private isRunning = true;
  private isAwake = false;
  private wakeUp: () => void = () => undefined;
  private loop: Promise<void> = Promise.resolve();

  constructor(options: DeliveryWorkerOptions) {
    this.options = options;
    this.results = new ResultWriter(options.pool, options.logger);
    const registers = [options.metrics];
    const counter = (name: string, help: string) => new Counter({ name, help, registers });
    this.delaySeconds = new Histogram({
      name: 'notifier_delivery_delay_seconds',
      help: 'Time from when deliveries were due to when they were leased',
      buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 28_800, 86_400],
      registers,
    });
    this.durationSeconds = new Histogram({
      name: 'notifier_attempt_duration_seconds',
      help: 'Duration of delivery attempts, by error class',
      labelNames: ['result'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    });
    this.attempts = new Counter({
      name: 'notifier_attempts_total',
      help: 'Delivery attempts, by the resulting status of the delivery',
      labelNames: ['status'],
      registers,
    });
    this.unsent = counter(
      'notifier_unsent_total',
      'Deliveries that failed without an attempt: webhook disabled or deleted, or test abandoned',
    );
    this.leaseErrors = counter('notifier_lease_errors_total', 'Tenants postponed because PostgreSQL reports a data error: alert on any');
    this.secretErrors = counter(
      'notifier_secret_errors_total',
      'Attempts postponed because the secret can not be decrypted, and looks that found a key missing: alert on any',
    );
    openGauge(options.metrics, 'notifier_in_flight', 'Deliveries that are leased and not recorded', () => this.inFlight);
    openGauge(options.metrics, 'notifier_in_flight_max', 'Deliveries that may be: WEBHOOK_CONCURRENCY', () => options.concurrency);
  }

  /** Starts to lease. */
  start(): void {
    this.loop = this.run();
  }

  /** Looks for due deliveries now. */
  wake(): void {
    this.isAwake = true;
    this.wakeUp();
  }

  /**
   * Leases nothing more and waits for what is in flight. After `graceMs` it aborts the rest: when their leases end, another worker repeats these
   * attempts under their numbers.
   */
  async stop(graceMs: number): Promise<void> {
    this.isRunning = false;
    this.wake();
    const timer = setTimeout(() => {
      this.aborting.abort();
      this.results.end();
    }, graceMs);
    await this.loop;
    while (this.inFlight > 0) await delay(20);
    clearTimeout(timer);
  }

  private async run(): Promise<void> {
    const { concurrency, pollMs, logger } = this.options;
    for (let emptyCycles = 0; this.isRunning;) {
      this.isAwake = false;
      if (this.inFlight >= concurrency) {
        await this.sleep(pollMs);
        continue;
      }
      const started = performance.now();
      try {
        const { leased, failed, hasMore, nextMs } = await this.cycle(started);
        if (leased.length + failed > 0) emptyCycles = 0;
        else {
          // Tenants that are due with nothing to lease are locked for a moment, or for long.
          await this.sleep(Math.min(pollMs, Math.max(20 * 2 ** emptyCycles++, nextMs ?? pollMs)));
          if (this.inFlight === 0) continue;
        }
        const isBusy = hasMore || leased.length >= Math.min(concurrency, this.options.endpointConcurrency);
        const early = started + (isBusy ? cycleMs.busy : cycleMs.quiet) - performance.now();
        if (early > 0) await delay(early);
      } catch (error) {
        logger.warn({ err: error }, 'leasing deliveries failed');
        await this.sleep(pollMs);
      }
    }
  }

  private async cycle(started: number): Promise<LeaseCycle> {
    const { pool, secrets, logger, timeoutMs, marginMs } = this.options;
    const limits = { ...this.limits(), keyIds: secrets.keyIds, leaseMs: timeoutMs + marginMs };
    const found = await leaseDue(pool, limits);
    for (const { dueMs, startedMs } of found.leased) this.delaySeconds.observe((startedMs - dueMs) / 1000);
    if (found.failed > 0) {
      this.unsent.inc(found.failed);
      logger.info({ deliveries: found.failed }, 'deliveries failed without an attempt');
    }
    this.notePostponed(found.postponed);
    for (const [index, lease] of found.leased.entries()) {
      this.attempt(lease, { leasedAt: started }).catch((error: unknown) => this.noteError(lease, error));
      if (index % startedPerTurn === startedPerTurn - 1) await nextTurn();
    }
    const { missingKeys, postponed } = await postponeIdle(pool, found.idle, limits);
    this.notePostponed(postponed);
    for (const key of missingKeys) {
      this.secretErrors.inc();
      logger.error({ key_id: key }, 'deliveries wait: WEBHOOK_ENCRYPTION_KEY lacks the key of webhook secrets or headers');
    }
    return found;
  }

  /** A cycle takes at most half of what is free and a tenant a quarter, so that many endpoints that hang leave something for others. */
  private limits(): Pick<LeaseLimits, 'free' | 'perTenant'> {
    const free = this.options.concurrency - this.inFlight;
    return { free: Math.ceil(free / 2), perTenant: Math.min(this.options.endpointConcurrency, Math.max(1, Math.floor(free / 4))) };
  }

  /**
   * Sends a leased delivery and records the result. Null: it was not sent to the end, and is sent again under the same number. A test has failed
   * then. Throws {@link DecryptError}, except for a test, which fails; its lease runs out and it is tried again.
   */
  async attempt(lease: Lease, { leasedAt = performance.now(), isTest = false } = {}): Promise<Attempt | null> {
    this.inFlight++;
    try {
      // After a stall of this process another worker may have the lease before the answer.
      if (performance.now() - leasedAt > this.options.marginMs / 2) return null;
      const answer = await this.sendTraced(lease, isTest);
      // An abort leaves the delivery to its lease; a test is not repeated.
      const result = answer || isTest ? this.resultOf(lease, answer) : null;
      const isRecorded = result !== null && (await this.results.record(result));
      this.note(lease, answer, isRecorded);
      return answer && { answer, isRecorded };
    } finally {
      this.inFlight--;
      this.wake();
    }
  }

  private async sendTraced(lease: Lease, isTest: boolean): Promise<Answer | null> {
    const span = startSpan('deliver webhook', lease.traceparent, spanOf(lease));
    if (!span) return this.send(lease, isTest);
    try {
      const answer = await this.send({ ...lease, traceparent: traceparentFrom(span) }, isTest);
      const { errorClass, statusCode } = answer ?? aborted;
      const { status } = answer ? nextState(errorClass, lease.attempt, lease.byHand, this.options.retryDelays) : { status: 'aborted' };
      const code = statusCode === null ? {} : { 'http.response.status_code': statusCode };
      endSpan(span, { 'ledger.delivery.status': status, ...code }, answer ? (errorClass ?? undefined) : 'aborted');
      return answer;
    } catch (error) {
      endSpan(span, {}, (error as Error).constructor.name);
      throw error;
    }
  }

  private async send(lease: Lease, isTest: boolean): Promise<Answer | null> {
    const { httpClient, secrets } = this.options;
    const { tenant, id, attempt, eventType, traceparent } = lease;
    let decrypted: string[];
    let ownHeaders: Record<string, string> = {};
    try {
      decrypted = secrets.decryptAll(tenant, lease.secrets);
      if (lease.headers !== null) ownHeaders = JSON.parse(secrets.decrypt(tenant, lease.headers)) as Record<string, string>;
    } catch (error) {
      if (!isTest || !(error instanceof DecryptError)) throw error;
      return { statusCode: null, errorClass: 'secret_unreadable', body: null, durationMs: 0, detail: error.message };
    }
    const body = Buffer.from(lease.body);
    const signed = { id: toId('evt', lease.eventId), timestamp: Math.floor(lease.startedMs / 1000), body };
    const about = { id: toId('wh_delivery', id), eventType, attempt, traceparent };
    const headers = { ...ownHeaders, ...deliveryHeaders(decrypted, signed, about) };
    // A reused connection may have the request sent twice: for a first attempt only.
    const mayReuseConnection = attempt === 1 && !isTest;
    return httpClient.send({ url: lease.url, headers, body, mayReuseConnection }, this.aborting.signal);
  }

  private resultOf({ tenant, id, leaseId, attempt, byHand }: Lease, answer: Answer | null): DeliveryResult {
    const { statusCode, errorClass, body: responseBody, durationMs } = answer ?? aborted;
    const next = nextState(errorClass, attempt, byHand, this.options.retryDelays);
    const retryAfter = next.status === 'pending' ? next.delay : null;
    return { tenant, id, leaseId, status: next.status, statusCode, errorClass, responseBody, durationMs, retryAfter };
  }

  private note(lease: Lease, answer: Answer | null, isRecorded: boolean): void {
    const { logger, retryDelays } = this.options;
    const { attempt, eventType, byHand } = lease;
    const status = answer ? nextState(answer.errorClass, attempt, byHand, retryDelays).status : 'aborted';
    if (answer) {
      this.durationSeconds.observe({ result: answer.errorClass ?? 'ok' }, answer.durationMs / 1000);
      this.attempts.inc({ status: isRecorded ? status : 'lease_lost' });
    }
    const level = status === 'delivered' && isRecorded ? 'debug' : 'info';
    if (!logger.isLevelEnabled(level)) return;
    const line = {
      ...idsOf(lease),
      event_id: toId('evt', lease.eventId),
      ...traceField(lease.traceparent),
      event_type: eventType,
      attempt,
      status,
      ...(answer && { status_code: answer.statusCode, error_class: answer.errorClass, duration_ms: answer.durationMs }),
      ...(answer?.detail !== undefined && { detail: answer.detail }),
      ...(!isRecorded && { lease_lost: true }),
    };
    logger[level](line, `delivery attempt ${status === 'delivered' ? 'succeeded' : answer ? 'failed' : 'aborted'}`);
  }

  private noteError(lease: Lease, error: unknown): void {
    if (error instanceof DecryptError) this.secretErrors.inc();
    this.options.logger.error({ err: error, ...idsOf(lease) }, 'delivery attempt postponed');
  }

  private notePostponed(postponed: PostponedTenant[]): void {
    for (const { tenant, error } of postponed) {
      this.leaseErrors.inc();
      this.options.logger.error({ err: error, tenant: toId('tenant', tenant) }, 'deliveries of a tenant postponed: data error');
    }
  }

  private async sleep(milliseconds: number): Promise<void> {
    if (this.isAwake || !this.isRunning) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    this.wakeUp = resolve;
    await promise;
    clearTimeout(timer);
  }
}

function spanOf(lease: Lease) {
  const { tenant, delivery_id: delivery } = idsOf(lease);
  const ids = { 'ledger.tenant_id': tenant, 'ledger.delivery_id': delivery, 'ledger.event_type': lease.eventType };
  return { kind: SpanKind.CLIENT, attributes: { ...ids, 'http.request.method': 'POST', 'ledger.delivery.attempt': lease.attempt } };
}

function idsOf({ tenant, id }: Lease): { tenant: string; delivery_id: string } {
  return { tenant: toId('tenant', tenant), delivery_id: toId('wh_delivery', id) };
}
