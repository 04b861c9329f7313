// A delivery that is claimed is attempted: signed, sent when it is its endpoint's turn, recorded. A process may die or stall between any two of
// these: its lease runs out and another worker sends the same event again.
import { Counter, Histogram, type Registry } from 'prom-client';
import { mostDescriptors } from '../platform/descriptors.ts';
import { openGauge } from '../platform/gauges.ts';
import { toId } from '../platform/ids.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import type { Lease } from './leases.ts';
import type { Endpoint, Endpoints } from './endpoints.ts';
import { Unsent, type Answer, type HttpClient } from './http-client.ts';
import { ResultWriter } from './recorder.ts';
import { DecryptError, type SecretEncryption } from './secret-encryption.ts';
import { deliveryHeaders, nextState } from './webhook.ts';

/** How attempts are made. */
export interface AttemptsOptions {
  pool: Pool;
  sender: HttpClient;
  vault: SecretEncryption;
  logger: Logger;
  metrics: Registry;
  /** Seconds from the beginning of an attempt to that of the next one. */
  retryDelays: readonly number[];
  /** Attempts in flight that are not known to be slow. */
  concurrency: number;
  /** What attempts may take up of the memory, bytes. */
  mostMemory: number;
  /** How long a claim holds beyond the deadline of its attempt. */
  marginMs: number;
}

/** A delivery's end, for whoever waits for it. */
export interface Delivered {
  answer: Answer;
  /** False where the lease had run out. */
  recorded: boolean;
}

// An attempt that takes longer does not count against the concurrency: a few hanging receivers would use it up. They cost a socket each,
// and of those there may be so many times the concurrency, as far as there is memory.
const slowMs = 1_000;
const slowFactor = 16;

/** Attempts under way at once, of all: three quarters of the machine's descriptors, so that what else this process opens has its place. */
export const mostOpen = Math.max(16, Math.floor(mostDescriptors() * 0.75) - 100);

/**
 * What an attempt takes up until it is answered, bytes: a connection with TLS some 93 KiB, and its event four times over. (2,259 to receivers that hung, of
 * 45 kB each, had a notifier killed that may have 768 MiB; V8 knew of a third of that, and its own limit never spoke.)
 */
const memoryOf = ({ body }: Lease): number => leastMemory + 4 * body.length;
const leastMemory = 100 << 10;

/** As much of what may be in flight is left to tenants of whom little or nothing is. */
const keptFor = 1 / 4;

/** The delivery is as it was before the claim. */
const handedBack = { status: 'pending', statusCode: null, errorClass: null, responseBody: null, durationMs: 0, delay: null } as const;

interface Flight {
  /** What it takes up of the memory, bytes. */
  bytes: number;
  /** Its request has been under way for long. */
  slow: boolean;
  /** Its receiver may have it. */
  sent: boolean;
}

/** Attempts of this process. */
export class Attempts {
  private readonly options: AttemptsOptions;
  private readonly endpoints: Endpoints;
  /** Told when there may be more room, or more to claim. */
  private readonly changed: () => void;
  private readonly flights = new Set<Flight>();
  /** What they take up of the memory, bytes. */
  private bytes = 0;
  /** Requests that are under way, those that are not known to be slow and those that are. */
  private quick = 0;
  private slow = 0;
  /** What the largest of those takes up that {@link admits} has refused, bytes. */
  private refused = 0;
  private readonly handBack = new AbortController();
  private readonly recorder: ResultWriter;
  private readonly seconds: Histogram<'result'>;
  private readonly delivered: Counter<'status'>;

  constructor(options: AttemptsOptions, endpoints: Endpoints, changed: () => void) {
    this.options = options;
    this.endpoints = endpoints;
    this.changed = changed;
    this.recorder = new ResultWriter(options.pool, options.logger, changed);
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
    const what = 'Deliveries that are claimed: waiting for their turn, being sent or recorded';
    openGauge(options.metrics, 'notifier_in_flight', what, () => this.inFlight);
  }

  /** Deliveries that are claimed: waiting for their turn, being sent or recorded. */
  get inFlight(): number {
    return this.flights.size;
  }

  /** How many more may begin; less than none where tests were sent beyond it. */
  free(): number {
    return Math.min(this.mostQuick - this.quick, this.most - this.flights.size);
  }

  /** Whether so few may begin that they had better wait for others: one at a time would cost each delivery a claim of its own. */
  get isFull(): boolean {
    return this.free() < Math.max(1, Math.floor(this.mostQuick / 8));
  }

  // Any of them may hang, and then as many may begin again: half of the places that those leave which do.
  private get mostQuick(): number {
    return Math.min(this.options.concurrency, Math.ceil((this.most - this.slow) / 2));
  }

  /** Whether more than half of what may be claimed at once is, with so many that are still to begin. */
  isCrowded(unbegun: number): boolean {
    return this.flights.size + unbegun > this.most / 2 || this.isBeyond(this.refused);
  }

  /** How many a claim may take, with so many that are still to begin: not all where there is room for many, as they may all hang. */
  claimable(isCrowded: boolean, unbegun: number): number {
    return Math.max(1, Math.floor(this.most * (isCrowded ? 1 : 1 - keptFor)) - this.flights.size - unbegun);
  }

  /** Whether a delivery may begin; else it had better be handed back, as it is larger than was expected. One of each tenant may. */
  admits(claimed: Lease): boolean {
    const bytes = memoryOf(claimed);
    const { claimed: has } = this.endpoints.of(claimed.tenant);
    if (!this.isBeyond(bytes) || has < this.endpoints.claimable(claimed.tenant, true)) return true;
    this.refused = Math.max(this.refused, bytes);
    return false;
  }

  private isBeyond(bytes: number): boolean {
    return bytes > 0 && this.bytes + bytes > this.options.mostMemory * (1 - keptFor);
  }

  /** How many may be in flight: as many as the memory has room for, were all like those that are, and none smaller than the smallest. */
  get most(): number {
    const { concurrency, mostMemory } = this.options;
    const each = Math.max(leastMemory, this.bytes / Math.max(1, this.flights.size));
    return Math.min(concurrency * slowFactor, mostOpen, Math.max(1, Math.floor(mostMemory / each)));
  }

  /**
   * Whether what was claimed at `claimedAt` (of `performance.now()`) may still be sent: before the attempt's end the lease of what has waited
   * longer, or of a process that has stalled, might be another worker's.
   */
  isInTime(claimedAt: number): boolean {
    return performance.now() - claimedAt <= this.options.marginMs / 2 && !this.handBack.signal.aborted;
  }

  /** Sends nothing more, and hands back what is in flight. What can't be recorded at once, because the database is away, is left to its lease. */
  end(): void {
    this.handBack.abort();
    this.recorder.giveUp();
  }

  /**
   * Sends a delivery that is claimed, and records what came of it; null where it was not sent, or not to its end. That one is handed back,
   * unless somebody waits for it (`awaited`): then it takes no turns, and has failed. So has one whose secret can't be opened, which throws
   * {@link DecryptError} where nobody waits, and {@link Unsent} where the machine lets nothing be sent.
   */
  async make(claimed: Lease, { claimedAt = performance.now(), awaited = false } = {}): Promise<Delivered | null> {
    const flight = this.take(memoryOf(claimed));
    const { endpoints } = this;
    const endpoint = endpoints.of(claimed.tenant);
    endpoint.claimed++;
    try {
      let answer: Answer | null = null;
      const request = () => this.request(claimed, claimedAt, flight, endpoint, awaited);
      if (awaited) answer = await this.opened(flight, request).catch(unmade);
      else if (await endpoints.turnAt(endpoint)) {
        answer = await this.opened(flight, request).finally(() => endpoints.leave(endpoint));
      }
      if (answer) endpoint.quick = answer.durationMs < slowMs;
      return await this.record(claimed, flight, answer, awaited);
    } finally {
      endpoint.claimed--;
      endpoints.forgetIdle();
      this.leave(flight);
    }
  }

  /**
   * Keeps a delivery that is claimed from being claimed again for so many milliseconds from now, if any; it stays as it was before the claim. False where
   * that can't be recorded, or the claim holds no longer: then it may wait for as long as its lease lasts.
   */
  async putOff({ tenant, id, claim, isBegun }: Lease, milliseconds?: number): Promise<boolean> {
    const flight = this.take(0);
    const held = (isBegun || milliseconds !== undefined) && { heldMs: milliseconds ?? 0, isBegun };
    try {
      return await this.recorder.record({ tenant, id, claim, ...handedBack, ...held });
    } finally {
      this.leave(flight);
    }
  }

  private take(bytes: number): Flight {
    const flight: Flight = { bytes, slow: false, sent: false };
    this.flights.add(flight);
    this.bytes += bytes;
    return flight;
  }

  private leave(flight: Flight): void {
    this.flights.delete(flight);
    this.bytes -= flight.bytes;
    this.changed();
  }

  // Its request is under way from its turn on, and from when there is room.
  private async opened(flight: Flight, request: () => Promise<Answer | null>): Promise<Answer | null> {
    this.quick++;
    await this.recorder.room();
    try {
      return await request();
    } finally {
      if (flight.slow) this.slow--;
      else this.quick--;
    }
  }

  // From when it is sent: that a delivery has waited, for its turn or for the database, says nothing of its receiver.
  private async watched(flight: Flight, endpoint: Endpoint, send: () => Promise<Answer | null>): Promise<Answer | null> {
    const slow = setTimeout(() => {
      flight.slow = true;
      this.quick--;
      this.slow++;
      endpoint.slow++;
      this.endpoints.slowDown(endpoint);
      this.changed();
    }, slowMs);
    try {
      return await send();
    } finally {
      clearTimeout(slow);
      if (flight.slow) endpoint.slow--;
    }
  }

  private async record(claimed: Lease, { sent }: Flight, answer: Answer | null, awaited: boolean): Promise<Delivered | null> {
    const { retryDelays } = this.options;
    const { tenant, id, claim, attempt, byHand } = claimed;
    const place = { tenant, id, claim };
    if (answer === null) {
      const end = awaited
        ? ({ status: 'failed', errorClass: 'timeout' } as const)
        : (sent || claimed.isBegun) && { heldMs: 0, isBegun: true };
      const recorded = await this.recorder.record({ ...place, ...handedBack, ...end });
      this.log(claimed, null, awaited ? 'failed' : 'handed back', recorded);
      return null;
    }
    const { statusCode, errorClass, body: responseBody, durationMs } = answer;
    const end = nextState(errorClass, attempt, byHand, retryDelays);
    const delay = end.status === 'pending' ? end.delay : null;
    const recorded = await this.recorder.record({ ...place, status: end.status, statusCode, errorClass, responseBody, durationMs, delay });
    this.seconds.observe({ result: errorClass ?? 'ok' }, durationMs / 1000);
    this.delivered.inc({ status: recorded ? end.status : 'fenced' });
    this.log(claimed, answer, end.status, recorded);
    return { answer, recorded };
  }

  /** Null: not sent, or not to its end. */
  private async request(claimed: Lease, claimedAt: number, flight: Flight, endpoint: Endpoint, awaited: boolean): Promise<Answer | null> {
    const { sender, vault } = this.options;
    const { tenant, id, attempt, eventType, traceparent } = claimed;
    if (!this.isInTime(claimedAt)) return null;
    // A test goes where it was asked for, also where its webhook is disabled.
    const destination = awaited ? claimed.destination : await this.endpoints.destination(claimed, claimedAt, endpoint);
    // Without one it fails with the next claim, handed back, like all that is pending there.
    if (!destination || !this.isInTime(claimedAt)) return null;
    const secrets = vault.openAll(tenant, destination.secrets);
    const body = Buffer.from(claimed.body);
    const signed = { id: toId('evt', claimed.eventId), timestamp: Math.floor(claimed.startedMs / 1000), body };
    const headers = deliveryHeaders(secrets, signed, { id: toId('wh_delivery', id), eventType, attempt, traceparent });
    // A receiver that hangs up on an event each time has it three times and once more, not six times; a test is never repeated by itself.
    const onceMore = attempt === 1 && !awaited;
    flight.sent = true;
    return this.watched(flight, endpoint, () => sender.send({ url: destination.url, headers, body, onceMore }, this.handBack.signal));
  }

  private log({ tenant, id, eventId, eventType, attempt }: Lease, answer: Answer | null, status: string, recorded: boolean): void {
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
}

function unmade(error: unknown): Answer {
  if (!(error instanceof DecryptError || error instanceof Unsent)) throw error;
  const errorClass = error instanceof DecryptError ? 'secret_unreadable' : 'connection_failed';
  return { statusCode: null, errorClass, body: null, durationMs: 0, detail: error.message };
}
