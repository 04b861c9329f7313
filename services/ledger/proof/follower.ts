// Follows the logs of all tenants and grows their trees; freezes a tenant whose log is not what it was.
import { setTimeout as pause } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import { openGauge } from '../../platform/gauges.ts';
import { inTransaction, withClient, type Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { followLogs, type StepOptions, type Stepped } from './follow.ts';

/** What the follower needs. */
export interface FollowerOptions {
  /** One connection with `app.indexer` on, which sees how far the logs and the trees of all tenants are. */
  pool: Pool;
  /** Between looks where nothing is left to do, milliseconds. */
  pollMs: number;
  nextOrigin: StepOptions['nextOrigin'];
  /** Freezes a tenant (UUID). */
  freeze: (tenant: string, reason: string) => Promise<unknown>;
  logger: Logger;
  metrics: Registry;
}

/** Events and tenants of one step, which is one transaction. */
const stepEvents = 2_000;
const stepTenants = 200;
// It rests three times as long as it has worked, so that postings keep most of a busy machine; after a look that found nothing, longer.
const restFactor = 3;
const lookFactor = 10;
const retryMs = 1_000;
/** A tenant whose log is damaged, and that can't be frozen, is left alone for so long. */
const damagedMs = 60_000;

/** Grows the trees shortly after postings. Several processes may run: each step of a tenant is one's alone. */
export class TreeFollower {
  private readonly options: FollowerOptions;
  private readonly closed = new AbortController();
  private readonly damaged = new Map<string, number>();
  private lag = 0;
  private readonly loop: Promise<void>;

  constructor(options: FollowerOptions) {
    this.options = options;
    const help = 'Events that the trees of all logs lack, by the last look';
    openGauge(options.metrics, 'ledger_tree_lag_events', help, () => this.lag);
    this.loop = this.run();
  }

  /** Ends the loop after its step. */
  async close(): Promise<void> {
    this.closed.abort();
    await this.loop;
  }

  private async run(): Promise<void> {
    const { pollMs, logger } = this.options;
    const { signal } = this.closed;
    while (!signal.aborted) {
      const started = performance.now();
      const restMs = await this.round().then(
        (events) => {
          const workedMs = performance.now() - started;
          return events >= stepEvents ? restFactor * workedMs : Math.max(pollMs, (events > 0 ? restFactor : lookFactor) * workedMs);
        },
        (error: unknown) => {
          if (!signal.aborted) logger.warn({ err: error }, 'following the logs failed');
          return retryMs;
        },
      );
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** One step of each log that has grown; how many events it was. */
  private async round(): Promise<number> {
    const { rows } = await withClient(this.options.pool, (client) =>
      client.query<{ tenant: string; lag: number }>({
        name: 'unfinished_trees',
        text: `select h.tenant_id as tenant, (h.sequence - coalesce(t.size, 0))::float8 as lag
          from heads h left join trees t on t.tenant_id = h.tenant_id where h.sequence <> coalesce(t.size, 0) and h.frozen_at is null`,
      }),
    );
    this.lag = rows.reduce((sum, { lag }) => sum + Math.max(0, lag), 0);
    const now = performance.now();
    for (const [tenant, until] of this.damaged) if (until < now) this.damaged.delete(tenant);
    const tenants = rows.map(({ tenant }) => tenant).filter((tenant) => !this.damaged.has(tenant));
    let events = 0;
    for (let from = 0; from < tenants.length && !this.closed.signal.aborted; from += stepTenants)
      events += await this.stepOrEach(tenants.slice(from, from + stepTenants));
    return events;
  }

  /** A step of some tenants; where it fails, of each alone, because a log that can't be read keeps no other tenant's tree from growing. */
  private async stepOrEach(tenants: string[]): Promise<number> {
    const together = await this.step(tenants).catch((error: unknown) => {
      if (tenants.length === 1) throw error;
      return null;
    });
    if (together !== null) return together;
    const errors: unknown[] = [];
    let events = 0;
    for (const tenant of tenants) events += await this.step([tenant]).catch((error: unknown) => (errors.push(error), 0));
    if (errors.length > 0) throw errors[0];
    return events;
  }

  private async step(tenants: string[]): Promise<number> {
    const { pool, nextOrigin, freeze } = this.options;
    const { events, problems }: Stepped = await inTransaction(pool, tenants, (client) =>
      followLogs(client, tenants, { limit: stepEvents, waits: false, nextOrigin }),
    );
    for (const [tenant, problem] of problems) {
      this.damaged.set(tenant, performance.now() + damagedMs);
      await freeze(tenant, problem);
    }
    return events;
  }
}
