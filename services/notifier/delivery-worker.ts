// Sends what is due: claims it, commits, and begins its attempts as there is room.
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { Counter, Histogram } from 'prom-client';
import { toId } from '../platform/ids.ts';
import { gatherMs } from '../platform/pace.ts';
import { isLockTimeout } from '../platform/postgres-errors.ts';
import { Attempts, type AttemptsOptions } from './attempts.ts';
import { leaseDue, leaveTenant, Unclaimable, type Lease, type LeaseCycle, type Left } from './leases.ts';
import { Endpoints } from './endpoints.ts';
import { Unsent } from './http-client.ts';

/** How deliveries are made. */
export interface DeliveryWorkerOptions extends AttemptsOptions {
  /** One whole attempt. */
  timeoutMs: number;
  /** Requests of this process that one tenant's endpoint has to answer at a time. */
  perTenant: number;
  /** How often work of other workers that ended is looked for. */
  pollMs: number;
  /** So long a tenant of whom nothing can be claimed is not looked at, milliseconds. */
  shunMs: number;
}

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
 * What can't be attempted, because its secret opens with no key (the one of that id is another one, or the row was changed), is no attempt that
 * failed: it waits for the right key or a new secret. Its claim is kept meanwhile, milliseconds, so that no more of the tenant is claimed than its
 * endpoint may have in flight.
 */
const unattemptedMs = 30_000;

/** The same of what the machine let nobody send, for want of descriptors, say: they may be free again in a moment. */
const unsentMs = 5_000;

/** So often it is told what keeps deliveries waiting, of a key that is missing and of a tenant of whom nothing can be claimed, milliseconds. */
const toldMs = 60_000;

/**
 * So often rows that somebody holds are waited for, two seconds each time: no transaction of this house stands for so long. For so long after that,
 * milliseconds, they are passed over, and whose they are is not looked at for a while.
 */
const held = { waits: 2, waryMs: 60_000, shunMs: 1_000 };

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

interface Round extends LeaseCycle {
  /** When it was asked for, by `performance.now()`. */
  asked: number;
  /** Deliveries that it might claim. */
  free: number;
}

/** Claims and sends deliveries until it is stopped. */
export class DeliveryWorker {
  readonly options: DeliveryWorkerOptions;
  /** Those that are made here, and those of tests that somebody waits for. */
  readonly attempts: Attempts;
  private readonly endpoints: Endpoints;
  private readonly late: Histogram;
  private readonly unsent: Counter;
  private readonly unclaimable: Counter;
  private readonly unattempted: Counter;
  /** Of keys that are missing and tenants that are left, when that was told last, by `performance.now()`. */
  private readonly told = new Map<string, number>();
  /** Until when tenants that are left are not looked at here, whatever comes for them, by `performance.now()`. */
  private readonly shunned = new Map<string, number>();
  /** Rounds in a row that have waited in vain for a row that somebody holds, and until when none does, by `performance.now()`. */
  private waits = 0;
  private waryUntil = -Infinity;
  private running = true;
  private awake = false;
  private wakeUp: () => void = () => undefined;
  private loop: Promise<void> = Promise.resolve();

  constructor(options: DeliveryWorkerOptions) {
    this.options = options;
    this.endpoints = new Endpoints(options);
    this.attempts = new Attempts(options, this.endpoints, () => this.wake());
    this.late = new Histogram({
      name: 'notifier_late_seconds',
      help: 'How long deliveries had been due when they were claimed',
      buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 28_800, 86_400],
      registers: [options.metrics],
    });
    this.unsent = new Counter({
      name: 'notifier_unsent_total',
      help: 'Deliveries that failed without an attempt: their webhook is disabled or deleted, or a test was left behind',
      registers: [options.metrics],
    });
    this.unclaimable = new Counter({
      name: 'notifier_unclaimable_total',
      help: 'Times that nothing could be claimed of a tenant for something that PostgreSQL refuses, a page that can not be read: alert on any',
      registers: [options.metrics],
    });
    this.unattempted = new Counter({
      name: 'notifier_unattempted_total',
      help: 'Attempts put off, not counted: a secret that opens with no key, or a machine without descriptors or ports left: alert on any',
      registers: [options.metrics],
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
    const timer = setTimeout(() => this.attempts.end(), graceMs);
    await this.loop;
    while (this.attempts.inFlight > 0) await new Promise((done) => setTimeout(done, 20));
    clearTimeout(timer);
  }

  private async run(): Promise<void> {
    const { attempts } = this;
    const { logger, concurrency, pollMs } = this.options;
    let tenants = width.most;
    let lookedAt = depth.most;
    let ahead: Promise<Round> | null = null;
    while (this.running || ahead) {
      this.awake = false;
      const free = attempts.free();
      if (!ahead && attempts.isFull) {
        await this.sleep(pollMs);
        continue;
      }
      try {
        const isAhead = ahead !== null;
        const claiming: Promise<Round> = ahead ?? this.claim(free, 0, tenants, lookedAt);
        ahead = null;
        const round = await claiming;
        const { claimed, failed, more, nextMs, asked } = round;
        this.report(round);
        const isFull = claimed.length >= round.free * filled;
        tenants = isFull ? Math.max(width.least, Math.ceil(round.free / width.perTenant)) : Math.min(width.most, tenants * 2);
        lookedAt = isFull ? Math.max(depth.least, lookedAt / 2) : Math.min(depth.most, lookedAt * 2);
        // Where there is no room, others may have it.
        if (this.running && Math.min(claimed.length, attempts.free()) > concurrency / 4) {
          ahead = this.claim(Math.ceil(concurrency * aheadOf), claimed.length, tenants, lookedAt);
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
          if (this.attempts.inFlight === 0) continue;
        }
        const early = asked + (more || claimed.length > concurrency / 8 ? 5 : gatherMs(claimed.length)) - performance.now();
        if (early > 0) await pause(early);
      } catch (error) {
        if (error instanceof Unclaimable && error.tenants.length > 1) {
          // The one to blame is found by halving: who stands before him is served and goes to the end of the line, and at last he is alone.
          tenants = Math.floor(error.tenants.length / 2);
          logger.debug({ err: error }, 'claim failed');
        } else if (error instanceof Unclaimable) await this.leave(error);
        else {
          logger.warn({ err: error }, 'claim failed');
          await this.sleep(pollMs);
        }
      }
    }
  }

  private async leave({ tenants, cause }: Unclaimable): Promise<void> {
    const { pool, logger, pollMs } = this.options;
    for (const tenant of tenants) {
      try {
        await leaveTenant(pool, tenant);
        this.noteLeft({ tenant, why: cause });
      } catch (error) {
        logger.warn({ err: error }, 'a tenant could not be put off');
        await this.sleep(pollMs);
      }
    }
  }

  private noteLeft({ tenant, why }: Left): void {
    this.unclaimable.inc();
    this.shunned.set(tenant, performance.now() + this.options.shunMs);
    const line = { err: why, tenant: toId('tenant', tenant) };
    if (this.isNews(tenant)) this.options.logger.error(line, 'deliveries of a tenant could not be claimed');
  }

  private notePassedOver(tenant: string): void {
    this.shunned.set(tenant, performance.now() + held.shunMs);
    if (this.isNews(tenant))
      this.options.logger.warn({ tenant: toId('tenant', tenant) }, 'somebody holds a row of a tenant: he is passed over');
  }

  /** Whether something was not told for a while; it counts as told then. */
  private isNews(what: string): boolean {
    const now = performance.now();
    if (now - (this.told.get(what) ?? -Infinity) < toldMs) return false;
    this.told.set(what, now);
    return true;
  }

  /** `wanted`: deliveries, at most; `unbegun`: what was claimed before and is still to begin. */
  private async claim(wanted: number, unbegun: number, tenants: number, lookedAt: number): Promise<Round> {
    const { pool, vault, timeoutMs, marginMs } = this.options;
    const asked = performance.now();
    const isCrowded = this.attempts.isCrowded(unbegun);
    const free = Math.min(wanted, this.attempts.claimable(isCrowded, unbegun));
    const ofTenant = (tenant: string) => this.endpoints.claimable(tenant, isCrowded);
    const sweeps = (tenant: string) => this.endpoints.sweeps(tenant);
    for (const [tenant, until] of this.shunned) if (until < asked) this.shunned.delete(tenant);
    const except = [...this.shunned.keys()];
    if (this.waits >= held.waits) this.waryUntil = asked + held.waryMs;
    const [keys, leaseMs, passesOver] = [vault.keyIds, timeoutMs + marginMs, asked < this.waryUntil];
    return { ...(await leaseDue(pool, { free, tenants, lookedAt, ofTenant, sweeps, except, keys, leaseMs, passesOver })), asked, free };
  }

  private report({ claimed, failed, problem, left, passedOver, missingKeys }: Round): void {
    const { logger } = this.options;
    this.endpoints.claimed(claimed, failed);
    for (const { dueMs, startedMs } of claimed) this.late.observe((startedMs - dueMs) / 1000);
    if (failed.length > 0) {
      this.unsent.inc(failed.length);
      logger.info({ deliveries: failed.length }, 'deliveries failed without an attempt');
    }
    this.waits = isLockTimeout(problem) ? this.waits + 1 : 0;
    if (problem !== undefined) logger.warn({ err: problem }, 'tenants without work could not be put off');
    for (const each of left) this.noteLeft(each);
    for (const tenant of passedOver) this.notePassedOver(tenant);
    for (const key of missingKeys) {
      if (!this.isNews(key)) continue;
      logger.error({ key_id: key }, 'deliveries wait: webhook secrets are sealed with a key that WEBHOOK_ENCRYPTION_KEY does not name');
    }
  }

  // As far as there is room: what was claimed ahead may find none. What has no time left for that is handed back, and so is all when this stops.
  private async begin({ claimed, asked }: Round): Promise<void> {
    const { attempts } = this;
    for (let place = 0; place < claimed.length;) {
      const isWanted = this.running && attempts.isInTime(asked);
      const room = isWanted ? Math.min(begunAtOnce, attempts.free()) : begunAtOnce;
      if (room <= 0) {
        await pause(5);
        continue;
      }
      for (const each of claimed.slice(place, place + room)) {
        // They may be larger than what there was room for.
        if (isWanted && attempts.free() <= 0) break;
        place++;
        if (isWanted && !attempts.admits(each)) void attempts.putOff(each);
        else attempts.make(each, { claimedAt: isWanted ? asked : -Infinity }).catch((error: unknown) => this.putOff(each, error));
      }
      if (place < claimed.length) await nextTurn();
    }
  }

  private async putOff(claimed: Lease, error: unknown): Promise<void> {
    const { logger } = this.options;
    const delivery = { tenant: toId('tenant', claimed.tenant), delivery_id: toId('wh_delivery', claimed.id) };
    const isUnsent = error instanceof Unsent;
    this.unattempted.inc();
    // Not of each: what the machine lacks all lack.
    if (!isUnsent || this.isNews('unsent')) logger.error({ err: error, ...delivery }, 'delivery could not be attempted');
    const isPutOff = await this.attempts.putOff(claimed, isUnsent ? unsentMs : unattemptedMs);
    // It is tried again when its lease runs out.
    if (!isPutOff) logger.warn(delivery, 'delivery could not be put off');
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
