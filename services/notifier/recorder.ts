// Records what became of deliveries, together: what waits while the previous batch is committed goes with the next.
import { toId } from '../platform/ids.ts';
import { gatherMs } from '../platform/pace.ts';
import type { Pool } from '../platform/postgres.ts';
import { splitInHalf, isTransient, isLockTimeout } from '../platform/postgres-errors.ts';
import type { Logger } from '../platform/telemetry.ts';
import { maxBodyBytes } from './http-client.ts';
import { recordResults, withoutHeld, type DeliveryResult } from './delivery-results.ts';

interface Waiting {
  outcome: DeliveryResult;
  done: (recorded: boolean) => void;
}

/** Outcomes in one statement. */
const most = 256;
/** So many wait for nothing but the statement before. (Half as many: a twelfth fewer deliveries/s of one tenant.) */
const many = most / 2;
/**
 * What receivers have said and is not recorded, characters, beyond which no more is asked for: a statement's worth of the longest. (24 receivers
 * that answered with all that is read, quicker than that is written: a notifier of 320 MiB grew to 970, and everybody waited for its records.)
 */
const mostSaid = most * maxBodyBytes;

/**
 * So often rows that somebody holds are waited for, two seconds each time: no transaction of this house stands for so long, be its process stopped.
 * What they are needed for is left to its lease then.
 */
const mostWaits = 3;
/** For so long a tenant whose rows were held then is looked at first, milliseconds; and so he is, each time: others of the house hold them for a moment. */
const held = { lastsMs: 60_000, looks: 5, everyMs: 50 };

/** A queue of outcomes. */
export class ResultWriter {
  private readonly pool: Pool;
  private readonly logger: Logger;
  private readonly recorded: () => void;
  private waiting: Waiting[] = [];
  private busy = false;
  private givenUp = false;
  private enough: () => void = () => undefined;
  private said = 0;
  private roomless: (() => void)[] = [];
  /** Tenants (UUIDs) whose rows somebody holds for long, until when that is believed, by `performance.now()`. */
  private readonly held = new Map<string, number>();

  constructor(pool: Pool, logger: Logger, recorded: () => void) {
    this.pool = pool;
    this.logger = logger;
    this.recorded = recorded;
  }

  /** Resolves after the commit: false where the claim held no longer. */
  record(outcome: DeliveryResult): Promise<boolean> {
    return new Promise((done) => {
      this.waiting.push({ outcome, done });
      this.said += outcome.responseBody?.length ?? 0;
      if (!this.busy) void this.flush();
      else if (this.waiting.length >= many) this.enough();
    });
  }

  /** Resolves when there is room for what a receiver may say, at once where there is. To be called before it is asked. */
  room(): Promise<void> | undefined {
    return this.said > mostSaid && !this.givenUp
      ? new Promise<void>((done) => this.roomless.push(done)).then(() => this.room())
      : undefined;
  }

  /** Leaves to its lease what can't be recorded at once, from now on. */
  giveUp(): void {
    this.givenUp = true;
    this.letIn();
  }

  private letIn(): void {
    for (const done of this.roomless.splice(0)) done();
  }

  private async flush(): Promise<void> {
    this.busy = true;
    while (this.waiting.length > 0) {
      const began = performance.now();
      const batch = this.waiting.splice(0, most);
      const settled = await this.write(batch.map(({ outcome }) => outcome));
      for (const { outcome, done } of batch) {
        this.said -= outcome.responseBody?.length ?? 0;
        done(settled.has(outcome.id));
      }
      this.letIn();
      this.recorded();
      const early = began + gatherMs(batch.length) - performance.now();
      if (early > 0 && this.waiting.length < many) await this.gather(early);
    }
    this.busy = false;
  }

  private gather(milliseconds: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, milliseconds);
      this.enough = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  // The database may be away for longer than the leases: then the records change nothing any more, but until then nothing is lost.
  private async write(outcomes: DeliveryResult[]): Promise<Set<string>> {
    let left = outcomes;
    for (let pause = 50, waits = 0; ; pause = Math.min(1_000, pause * 2)) {
      try {
        const doubtful = waits >= mostWaits ? left : left.filter(({ tenant }) => (this.held.get(tenant) ?? 0) > performance.now());
        if (doubtful.length > 0) left = await this.unheld(left, doubtful);
        return left.length === 0 ? new Set() : await recordResults(this.pool, left);
      } catch (error) {
        const [first, ...others] = left as [DeliveryResult, ...DeliveryResult[]];
        const only = others.length === 0 && { tenant: toId('tenant', first.tenant), delivery_id: toId('wh_delivery', first.id) };
        this.logger.warn({ err: error, deliveries: left.length, ...only }, 'recording failed');
        if (!isTransient(error) && others.length > 0) return this.writeHalves(left);
        // One that PostgreSQL does not take is left to its lease.
        if (!isTransient(error) || this.givenUp) return new Set();
        if (isLockTimeout(error)) waits++;
        await new Promise((done) => setTimeout(done, pause));
      }
    }
  }

  /** The outcomes without those of the doubtful ones that need a row which somebody holds: they would keep all others waiting. */
  private async unheld(outcomes: DeliveryResult[], doubtful: DeliveryResult[]): Promise<DeliveryResult[]> {
    const rest = new Set(doubtful);
    for (let look = 0; rest.size > 0 && look < held.looks; look++) {
      if (look > 0) await new Promise((done) => setTimeout(done, held.everyMs));
      for (const free of await withoutHeld(this.pool, [...rest])) rest.delete(free);
    }
    for (const { tenant } of doubtful) this.held.delete(tenant);
    for (const { tenant } of rest) this.held.set(tenant, performance.now() + held.lastsMs);
    if (rest.size > 0) {
      const tenants = new Set([...rest].map(({ tenant }) => toId('tenant', tenant)));
      this.logger.warn({ deliveries: rest.size, tenants: [...tenants] }, 'rows are held by others: left to their leases');
    }
    return outcomes.filter((each) => !rest.has(each));
  }

  private async writeHalves(outcomes: readonly DeliveryResult[]): Promise<Set<string>> {
    const settled = new Set<string>();
    for (const half of splitInHalf(outcomes)) for (const id of await this.write(half)) settled.add(id);
    return settled;
  }
}
