// Expiry loop: finds holds of all tenants that are due and lets the writer end them.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import { openGauge } from '../platform/gauges.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { expiryCommand } from './hold-commands.ts';
import { dueOfAllTenants, type DueHold } from './hold-queries.ts';
import type { Writer } from './writer.ts';

/** What the loop needs. */
export interface DueOptions {
  /** One connection with the flag `app.due`, which sees the holds of all tenants. */
  pool: Pool;
  writer: Writer;
  /** Between looks, milliseconds. */
  pollMs: number;
  logger: Logger;
  metrics: Registry;
}

/** Holds of one tenant at a time in the writer's queue. */
const maxPerTenant = 50;
/** After a hold could not expire it is left alone for so long, milliseconds. */
const backOffMs = 60_000;
/** So many are left alone at most. */
const maxFailed = 10_000;

/** Lets holds expire. Every replica does: under the tenant's head the second finds that a hold has ended. */
export class DueHolds {
  private readonly options: DueOptions;
  private readonly expired: Counter;
  private readonly closed = new AbortController();
  /** By tenant. */
  private readonly inFlight = new Map<string, Promise<void>>();
  /** Until when holds are left alone, `performance.now()`. */
  private readonly failed = new Map<string, number>();
  private woken = Promise.withResolvers<void>();
  private overdueMs = 0;
  private readonly loop: Promise<void>;

  constructor(options: DueOptions) {
    this.options = options;
    const { metrics } = options;
    this.expired = new Counter({
      name: 'ledger_due_holds_total',
      help: 'Due holds by outcome: expired; ended, where another process was first; or the reason why one could not expire',
      labelNames: ['outcome'],
      registers: [metrics],
    });
    openGauge(metrics, 'ledger_holds_overdue_seconds', 'How long the oldest due hold waits to expire', () => this.overdueMs / 1000);
    this.loop = this.run();
  }

  /** Ends the loop; what is in the writer's queue is dropped. */
  async close(): Promise<void> {
    this.closed.abort();
    this.woken.resolve();
    await this.loop;
    await Promise.all(this.inFlight.values());
  }

  private async run(): Promise<void> {
    const { signal } = this.closed;
    while (!signal.aborted) {
      this.woken = Promise.withResolvers();
      await this.poll().catch((error: unknown) => {
        if (!signal.aborted) this.options.logger.warn({ err: error }, 'due holds could not be read');
      });
      await Promise.race([pause(this.options.pollMs, undefined, { signal }).catch(() => undefined), this.woken.promise]);
    }
  }

  private async poll(): Promise<void> {
    const { pool, pollMs, writer } = this.options;
    const now = performance.now();
    for (const [id, until] of this.failed) if (until <= now) this.failed.delete(id);
    const due = await dueOfAllTenants(pool, maxPerTenant, [...this.failed.keys()]);
    this.overdueMs = Math.max(0, ...due.map(({ sinceMs }) => sinceMs));
    for (const [tenant, holds] of Map.groupBy(due, (hold) => hold.tenant)) {
      if (this.inFlight.has(tenant)) continue;
      // The replica that posts for the tenant comes first: a commit of another one makes its cached state void.
      if (!writer.isCached(tenant) && holds.every(({ sinceMs }) => sinceMs < pollMs / 2)) continue;
      const work = Promise.all(holds.map((hold) => this.expire(hold))).then((ended) => {
        this.inFlight.delete(tenant);
        // There may be more. What could not expire waits for the next look.
        if (holds.length === maxPerTenant && ended.every(Boolean)) this.woken.resolve();
      });
      this.inFlight.set(tenant, work);
    }
  }

  /** Whether it has ended. */
  private async expire({ tenant, id }: DueHold): Promise<boolean> {
    const { writer, logger } = this.options;
    const outcome = await writer.submit([expiryCommand(tenant, id)], false, { signal: this.closed.signal });
    if (Array.isArray(outcome)) {
      this.expired.inc({ outcome: outcome[0]?.result.replayed ? 'ended' : 'expired' });
      return true;
    }
    const reason = 'refusal' in outcome ? outcome.refusal.reason : 'lock_conflict';
    this.expired.inc({ outcome: reason });
    if (reason !== 'unavailable' && reason !== 'overloaded' && this.failed.size < maxFailed) {
      this.failed.set(id, performance.now() + backOffMs);
      logger.warn({ tenant, hold: id, reason }, 'a due hold could not expire');
    }
    return false;
  }
}
