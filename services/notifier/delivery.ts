// Sends what is due: claims it, commits, signs, sends, records. A process may die or stall between any two of these: its lease runs out
// and another worker sends the same event again.
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { toId } from '../platform/ids.ts';
import { gatherMs } from '../platform/pace.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { claimDue, type Claimed, type ClaimRound } from './claims.ts';
import { Endpoints, type Endpoint } from './endpoints.ts';
import type { Answer, Sender } from './http.ts';
import { putOff } from './outcomes.ts';
import { Recorder } from './recorder.ts';
import { Unopened, type Vault } from './vault.ts';
import { deliveryHeaders, verdict } from './webhook.ts';

/** How deliveries are made. */
export interface CourierOptions {
  pool: Pool;
  sender: Sender;
  vault: Vault;
  logger: Logger;
  metrics: Registry;
  /** Seconds from the beginning of an attempt to that of the next one. */
  retryDelays: readonly number[];
  /** One whole attempt. */
  timeoutMs: number;
  /** Attempts in flight that are not known to be slow. */
  concurrency: number;
  /** Requests of this process that one tenant's endpoint has to answer at a time. */
  perTenant: number;
  /** How long a claim holds beyond the deadline of its attempt. */
  marginMs: number;
  /** How often work of other workers that ended is looked for. */
  pollMs: number;
}

/** A delivery's end, for whoever waits for it. */
export interface Delivered {
  answer: Answer;
  /** False where the lease had run out. */
  recorded: boolean;
}

// An attempt that takes longer does not count against the concurrency: a few hanging receivers would use it up. They cost a socket each,
// and of those there may be so many times the concurrency.
const slowMs = 1_000;
const slowFactor = 16;

/**
 * Tenants in a claim, at least and at most. Where many have much, few of them with several deliveries each cost less than all with one or two:
 * as many as are expected to fill the claim with `perTenant` each, and twice as many again after a claim that they did not fill.
 */
const width = { least: 16, most: 100, perTenant: 8 };

/**
 * Deliveries that a claim reads for each that it may take, at least and at most: half as many after a claim that was filled, and twice as many
 * after one that was not, as one tenant may have what a hundred others leave of their shares.
 */
const depth = { least: 2, most: 64 };

/** A claim is filled by this part of what it may take. */
const filled = 0.9;

/**
 * What can't be attempted, because the key of its secret is missing, is no attempt that failed: it waits until an operator has restored the
 * key. Its claim is kept meanwhile, milliseconds, so that no more of the tenant is claimed than its endpoint may have in flight.
 */
const unattemptedMs = 300_000;

/**
 * Attempts begun in one turn of the event loop. All of a claim in one, some 250, had sent everything before an answer was read: what each holds
 * outlived a collection or two, which was a fifth of this process's time.
 */
const begunAtOnce = 8;

/**
 * Of the requests that may be under way as many again are claimed while those of the claim before are begun: without, none is under way any more
 * when a claim comes back, and the cores wait. (Of 200 tenants 4 % more deliveries, of one 3 %; as many again as may be under way: 2 % and 5 %.)
 */
const aheadOf = 0.75;

interface Round extends ClaimRound {
  /** When it was asked for, by `performance.now()`. */
  asked: number;
  /** Deliveries that it might claim. */
  free: number;
}

interface Flight {
  /** Its request is under way, rather than waiting for its turn or recorded. */
  open: boolean;
  slow: boolean;
}

/** Claims and sends deliveries until it is stopped. */
export class Courier {
  readonly options: CourierOptions;
  private readonly flights = new Set<Flight>();
  private readonly handBack = new AbortController();
  private readonly recorder: Recorder;
  private readonly endpoints: Endpoints;
  private readonly seconds: Histogram<'result'>;
  private readonly delivered: Counter<'status'>;
  private readonly unsent: Counter;
  private running = true;
  private awake = false;
  private wakeUp: () => void = () => undefined;
  private loop: Promise<void> = Promise.resolve();

  constructor(options: CourierOptions) {
    this.options = options;
    this.recorder = new Recorder(options.pool, options.logger, () => this.wake());
    this.endpoints = new Endpoints(options);
    const registers = [options.metrics];
    this.seconds = new Histogram({
      name: 'notifier_attempt_seconds',
      help: 'Duration of attempts',
      labelNames: ['result'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    });
    this.delivered = new Counter({
      name: 'notifier_attempts_total',
      help: 'Attempts, by what became of the delivery',
      labelNames: ['status'],
      registers,
    });
    this.unsent = new Counter({
      name: 'notifier_unsent_total',
      help: 'Deliveries that failed without an attempt: their webhook is disabled or deleted, or a test was left behind',
      registers,
    });
    const { flights } = this;
    new Gauge({
      name: 'notifier_in_flight',
      help: 'Deliveries that are claimed: waiting for their turn, being sent or recorded',
      registers,
      collect() {
        this.set(flights.size);
      },
    });
  }

  /** Starts to claim. */
  start(): void {
    this.loop = this.run();
  }

  /** Says that there may be work. */
  wake(): void {
    this.awake = true;
    this.wakeUp();
  }

  /**
   * Claims nothing more, waits for what is in flight, and after `graceMs` hands the rest back: its attempts keep their numbers. What can't be
   * recorded then, because the database is away, is left to its lease.
   */
  async stop(graceMs: number): Promise<void> {
    this.running = false;
    this.wake();
    const timer = setTimeout(() => {
      this.handBack.abort();
      this.recorder.giveUp();
    }, graceMs);
    await this.loop;
    while (this.flights.size > 0) await new Promise((done) => setTimeout(done, 20));
    clearTimeout(timer);
  }

  /**
   * Sends a delivery that is claimed, and records what came of it; null where it was not sent, or not to its end. That one is handed back,
   * unless somebody waits for it (`awaited`): then it takes no turns, and has failed. So has one whose secret can't be opened, which throws
   * {@link Unopened} where nobody waits.
   */
  async attempt(claimed: Claimed, { claimedAt = performance.now(), awaited = false } = {}): Promise<Delivered | null> {
    const flight: Flight = { open: false, slow: false };
    const { endpoints } = this;
    const endpoint = endpoints.of(claimed.tenant);
    endpoint.claimed++;
    this.flights.add(flight);
    try {
      let answer: Answer | null = null;
      const request = () => this.request(claimed, claimedAt, flight, endpoint);
      if (awaited) answer = await this.opened(flight, request).catch(unsigned);
      else if (await endpoints.turnAt(endpoint)) {
        answer = await this.opened(flight, request).finally(() => endpoints.leave(endpoint));
      }
      if (answer) endpoint.quick = answer.durationMs < slowMs;
      return await this.record(claimed, answer, awaited);
    } finally {
      this.flights.delete(flight);
      endpoint.claimed--;
      endpoints.forgetIdle();
      this.wake();
    }
  }

  // Its request is under way from its turn on, and from when there is room.
  private async opened(flight: Flight, request: () => Promise<Answer | null>): Promise<Answer | null> {
    flight.open = true;
    await this.recorder.room();
    try {
      return await request();
    } finally {
      flight.open = false;
    }
  }

  // From when it is sent: that a delivery has waited, for its turn or for the database, says nothing of its receiver.
  private async watched(flight: Flight, endpoint: Endpoint, send: () => Promise<Answer | null>): Promise<Answer | null> {
    const slow = setTimeout(() => {
      flight.slow = true;
      this.endpoints.slowDown(endpoint);
      this.wake();
    }, slowMs);
    try {
      return await send();
    } finally {
      clearTimeout(slow);
    }
  }

  private async record(claimed: Claimed, answer: Answer | null, awaited: boolean): Promise<Delivered | null> {
    const { retryDelays } = this.options;
    const { tenant, id, claim, attempt, byHand } = claimed;
    const place = { tenant, id, claim };
    if (answer === null) {
      const unmade = { statusCode: null, responseBody: null, durationMs: 0, delay: null };
      const end = awaited ? ({ status: 'failed', errorClass: 'timeout' } as const) : ({ status: 'pending', errorClass: null } as const);
      const recorded = await this.recorder.record({ ...place, ...end, ...unmade });
      this.log(claimed, null, awaited ? 'failed' : 'handed back', recorded);
      return null;
    }
    const { statusCode, errorClass, body: responseBody, durationMs } = answer;
    const end = verdict(errorClass, attempt, byHand, retryDelays);
    const delay = end.status === 'pending' ? end.delay : null;
    const recorded = await this.recorder.record({ ...place, status: end.status, statusCode, errorClass, responseBody, durationMs, delay });
    this.seconds.observe({ result: errorClass ?? 'ok' }, durationMs / 1000);
    this.delivered.inc({ status: recorded ? end.status : 'fenced' });
    this.log(claimed, answer, end.status, recorded);
    return { answer, recorded };
  }

  /** Null: not sent, or not to its end. */
  private async request(claimed: Claimed, claimedAt: number, flight: Flight, endpoint: Endpoint): Promise<Answer | null> {
    const { sender, vault } = this.options;
    const { tenant, id, attempt, eventType, traceparent } = claimed;
    if (!this.isInTime(claimedAt)) return null;
    const destination = await this.endpoints.destination(claimed, claimedAt, endpoint);
    // Without one it fails with the next claim, handed back, like all that is pending there.
    if (!destination || !this.isInTime(claimedAt)) return null;
    const secrets = vault.openAll(tenant, destination.secrets);
    const body = Buffer.from(claimed.body);
    const signed = { id: toId('evt', claimed.eventId), timestamp: Math.floor(claimed.startedMs / 1000), body };
    const headers = deliveryHeaders(secrets, signed, { id: toId('wh_delivery', id), eventType, attempt, traceparent });
    return this.watched(flight, endpoint, () => sender.send({ url: destination.url, headers, body }, this.handBack.signal));
  }

  private log({ tenant, id, eventId, eventType, attempt }: Claimed, answer: Answer | null, status: string, recorded: boolean): void {
    const { logger } = this.options;
    const level = status === 'delivered' && recorded ? 'debug' : 'info';
    if (!logger.isLevelEnabled(level)) return;
    const line = {
      tenant: toId('tenant', tenant),
      delivery_id: toId('wh_delivery', id),
      event_id: toId('evt', eventId),
      event_type: eventType,
      attempt,
      status,
      ...(answer && { status_code: answer.statusCode, error_class: answer.errorClass, ms: answer.durationMs }),
      ...(answer?.detail !== undefined && { detail: answer.detail }),
      ...(!recorded && { fenced: true }),
    };
    logger[level](line, 'delivery');
  }

  private async run(): Promise<void> {
    const { logger, concurrency, pollMs } = this.options;
    let tenants = width.most;
    let lookedAt = depth.most;
    let ahead: Promise<Round> | null = null;
    while (this.running || ahead) {
      this.awake = false;
      const free = this.free();
      // One at a time would cost each delivery a claim of its own.
      if (!ahead && free < Math.max(1, concurrency / 8)) {
        await this.sleep(pollMs);
        continue;
      }
      try {
        const isAhead = ahead !== null;
        const claiming: Promise<Round> = ahead ?? this.claim(free, tenants, lookedAt);
        ahead = null;
        const round = await claiming;
        const { claimed, failed, more, nextMs, asked } = round;
        this.report(round);
        const isFull = claimed.length >= round.free * filled;
        tenants = isFull ? Math.max(width.least, Math.ceil(round.free / width.perTenant)) : Math.min(width.most, tenants * 2);
        lookedAt = isFull ? Math.max(depth.least, lookedAt / 2) : Math.min(depth.most, lookedAt * 2);
        // Where there is no room, others may have it.
        if (this.running && Math.min(claimed.length, this.free()) > concurrency / 4) {
          ahead = this.claim(Math.ceil(concurrency * aheadOf), tenants, lookedAt);
          // Told where it is awaited.
          ahead.catch(() => undefined);
        }
        await this.begin(round);
        // Nothing found says nothing of now, where it was asked for before others were begun.
        if (ahead || isAhead) continue;
        // What is due and was not claimed is locked by somebody for a moment.
        if (claimed.length + failed.length === 0) {
          await this.sleep(Math.min(pollMs, Math.max(20, Math.ceil(nextMs ?? pollMs))));
          // Who has nothing in flight has nothing to gather either.
          if (this.flights.size === 0) continue;
        }
        const early = asked + (more || claimed.length > concurrency / 8 ? 5 : gatherMs(claimed.length)) - performance.now();
        if (early > 0) await pause(early);
      } catch (error) {
        logger.warn({ err: error }, 'claim failed');
        await this.sleep(pollMs);
      }
    }
  }

  private async claim(free: number, tenants: number, lookedAt: number): Promise<Round> {
    const { pool, timeoutMs, marginMs } = this.options;
    const asked = performance.now();
    const ofTenant = (tenant: string) => this.endpoints.claimable(tenant);
    const sweeps = (tenant: string) => this.endpoints.sweeps(tenant);
    return { ...(await claimDue(pool, { free, tenants, lookedAt, ofTenant, sweeps, leaseMs: timeoutMs + marginMs })), asked, free };
  }

  private report({ claimed, failed, problem }: Round): void {
    const { logger } = this.options;
    this.endpoints.claimed(claimed, failed);
    if (failed.length > 0) {
      this.unsent.inc(failed.length);
      logger.info({ deliveries: failed.length }, 'deliveries failed without an attempt');
    }
    if (problem !== undefined) logger.warn({ err: problem }, 'tenants without work could not be put off');
  }

  // As far as there is room: what was claimed ahead may find none. What has no time left for that is handed back, and so is all when this stops.
  private async begin({ claimed, asked }: Round): Promise<void> {
    for (let place = 0; place < claimed.length;) {
      const isWanted = this.running && this.isInTime(asked);
      const room = isWanted ? Math.min(begunAtOnce, this.free()) : begunAtOnce;
      if (room <= 0) {
        await pause(5);
        continue;
      }
      for (const each of claimed.slice(place, place + room)) {
        this.attempt(each, { claimedAt: isWanted ? asked : -Infinity }).catch((error: unknown) => this.putOff(each, error));
      }
      place += room;
      if (place < claimed.length) await nextTurn();
    }
  }

  // Before the attempt's end the lease of what has waited longer, or of a process that has stalled, might be another worker's.
  private isInTime(claimedAt: number): boolean {
    return performance.now() - claimedAt <= this.options.marginMs / 2 && !this.handBack.signal.aborted;
  }

  private async putOff(claimed: Claimed, error: unknown): Promise<void> {
    const { pool, logger } = this.options;
    const delivery = { tenant: toId('tenant', claimed.tenant), delivery_id: toId('wh_delivery', claimed.id) };
    logger.error({ err: error, ...delivery }, 'delivery could not be attempted');
    await putOff(pool, claimed, unattemptedMs).catch((failure: unknown) => {
      // Its lease runs out, and it is tried again.
      logger.warn({ err: failure, ...delivery }, 'delivery could not be put off');
    });
  }

  private free(): number {
    const { concurrency } = this.options;
    let quick = 0;
    for (const { open, slow } of this.flights) if (open && !slow) quick++;
    return Math.min(concurrency - quick, concurrency * slowFactor - this.flights.size);
  }

  private async sleep(milliseconds: number): Promise<void> {
    if (this.awake || !this.running) return;
    await new Promise<void>((done) => {
      const timer = setTimeout(done, milliseconds);
      this.wakeUp = () => {
        clearTimeout(timer);
        done();
      };
    });
    this.wakeUp = () => undefined;
  }
}

function unsigned(error: unknown): Answer {
  if (!(error instanceof Unopened)) throw error;
  return { statusCode: null, errorClass: 'secret_unreadable', body: null, durationMs: 0, detail: error.message };
}
