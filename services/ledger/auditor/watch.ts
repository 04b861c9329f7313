// Walks every log and its tables again and again, as `verify` does, at a tenth of a core. A difference freezes its tenant.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import { openGauges } from '../../platform/gauges.ts';
import { withClient, type Client, type Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { Findings, pluralize } from '../audit/findings.ts';
import { checkPublishedOffset, inTenantTransaction, snapshot } from '../audit/operator.ts';
import { indexState, projections, type Projection } from '../audit/projections.ts';
import { verifyTenant } from '../audit/verify.ts';
import { Walk } from '../audit/walk.ts';
import { Budget } from './budget.ts';
import { freezeTenant } from './freeze.ts';
import { countWatched, dueTenants, progressOf, recordWalk, tryLockWalk, unlockWalk } from './watch-rows.ts';

/** What the watch needs. */
export interface WatchOptions {
  /** Three connections with `app.indexer` on, whose statements may take minutes. */
  pool: Pool;
  /** Each tenant is walked at least so often, milliseconds; small ones more often. */
  everyMs: number;
  /** Between looks where nothing is due, milliseconds. */
  pollMs: number;
  /** It rests so many times as long as it works; 9 unless given: a tenth of a core. */
  restFactor?: number;
  logger: Logger;
  metrics: Registry;
}

// After a look at many tenants that found nothing it rests longer.
const lookFactor = 10;
/** After its walk has failed a tenant is left alone for so long, milliseconds. */
const backOffMs = 60_000;
/** What may be left of a log for the last step, which compares the rest in one snapshot. */
const lastEvents = 500n;

/** A walk that is on its way. */
interface Underway {
  client: Client;
  tenant: string;
  tables: Projection[];
  startedMs: number;
  workedMs: number;
}

/** Walks tenants: one with a short log and one with a long log at a time. Several processes may run: each walk is one's alone. */
export class Watch {
  private readonly options: WatchOptions;
  private readonly closed = new AbortController();
  private readonly budget: Budget;
  /** Until when tenants are left alone, `performance.now()`. */
  private readonly failed = new Map<string, number>();
  private readonly events: Counter;
  private readonly seconds: Counter;
  private readonly loops: Promise<unknown>;

  constructor(options: WatchOptions) {
    this.options = options;
    this.budget = new Budget(options.restFactor ?? 9, this.closed.signal);
    const registers = [options.metrics];
    this.events = new Counter({ name: 'ledger_verified_events_total', help: 'Events that whole walks have compared', registers });
    this.seconds = new Counter({
      name: 'ledger_verification_seconds_total',
      help: 'Time that walks have worked, without rests',
      registers,
    });
    const gauge = openGauges(options.metrics, () => countWatched(options.pool));
    gauge('ledger_frozen_tenants', 'Tenants whose changes are refused, because verification has found something', ({ frozen }) => frozen);
    gauge(
      'ledger_verification_age_seconds',
      'How long ago a log was last walked, or its tenant created if it never was: of all the longest',
      ({ oldestSeconds }) => oldestSeconds,
    );
    gauge(
      'ledger_verification_differences',
      'Differences that the last walk of each tenant found, in all',
      ({ differences }) => differences,
    );
    this.loops = Promise.all([this.loop(false), this.loop(true)]);
  }

  /** Ends both walks after their step. */
  async close(): Promise<void> {
    this.closed.abort();
    await this.loops;
  }

  private async loop(isLong: boolean): Promise<void> {
    const { pool, pollMs, logger } = this.options;
    const { signal } = this.closed;
    while (!signal.aborted) {
      const started = performance.now();
      const hasWalked = await withClient(pool, (client) => this.walkNext(client, isLong)).catch((error: unknown) => {
        if (!signal.aborted) logger.warn({ err: error }, 'a walk has failed');
        return false;
      });
      const restMs = Math.max(pollMs, lookFactor * (performance.now() - started));
      if (!hasWalked) await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Walks the first tenant that is due; false: none is, or they can't be walked now. */
  private async walkNext(client: Client, isLong: boolean): Promise<boolean> {
    const { everyMs } = this.options;
    for (const tenant of await dueTenants(client, isLong, everyMs)) {
      if (this.closed.signal.aborted) return false;
      if ((this.failed.get(tenant) ?? 0) > performance.now() || !(await tryLockWalk(client, tenant))) continue;
      this.failed.set(tenant, performance.now() + backOffMs);
      // Another process may have walked it since the list was read.
      const isDue = (await dueTenants(client, isLong, everyMs, tenant)).length > 0;
      const one = { client, tenant, tables: await projections(client), startedMs: Date.now(), workedMs: 0 };
      const hasWalked = isDue && (await this.walk(one));
      await unlockWalk(client, tenant);
      // A deleted tenant is left alone as well, and the next one has its turn.
      if (!isDue || hasWalked) this.failed.delete(tenant);
      if (hasWalked) return true;
    }
    return false;
  }

  /** Walks a tenant and records it; false: it is deleted, or the watch is closed. */
  private async walk(one: Underway): Promise<boolean> {
    const { pool, logger } = this.options;
    const { tenant, tables } = one;
    const report: string[] = [];
    const walked = await this.walkInSteps(one, new Findings((line) => report.push(line)));
    if (!walked) return false;
    let { walk } = walked;
    if (report.length > 0 && !walked.isFrozen) {
      // What happened between two steps may look like a difference: one snapshot decides.
      const inSteps = report.splice(0);
      const findings = new Findings((line) => report.push(line));
      await this.step(one, findings, async () => {
        walk = await verifyTenant(one.client, { tenant, tables, findings });
      });
      const found = `verification found ${pluralize(findings.count, 'difference')}: ${report[0]}`;
      if (findings.count > 0) await freezeTenant(pool, logger, tenant, found);
      else logger.warn({ tenant, differences: inSteps }, 'a whole verification does not confirm what a walk in steps has found');
    }
    const { events, last } = walk;
    const { startedMs, workedMs } = one;
    await recordWalk(pool, tenant, { startedMs, workedMs, events, last, findings: report.length, report });
    this.events.inc(events);
    return true;
  }

  /**
   * Walks a log with a short snapshot for each step, so that vacuum is not held up, until so few events are left that the last step compares them
   * with all that they have changed. Ends at the first findings. Null: the tenant is deleted, or the watch is closed.
   */
  private async walkInSteps(one: Underway, findings: Findings): Promise<{ walk: Walk; isFrozen: boolean } | null> {
    const { client, tenant, tables } = one;
    const found: { walk?: Walk; isFrozen?: boolean; isDeleted?: boolean; isDone?: boolean } = {};
    let round = { end: 0n, left: Infinity, isHurried: false };
    while (found.isDone !== true && findings.count === 0) {
      const work = async () => {
        const { head, indexed, isFrozen, isDeleted } = await progressOf(client, tenant);
        Object.assign(found, { isFrozen, isDeleted });
        if (isDeleted) return;
        const walk = (found.walk ??= new Walk({ tenant, tables, findings, indexes: await indexState(client, tenant) }));
        const { sequence } = walk.last;
        if (sequence >= round.end) {
          // A log may grow while it is walked. Where that does not halve what is left, it is walked without rests, which come later.
          const left = Number(head - sequence);
          const isSlow = left > round.left / 2;
          // Events that are not indexed wait for the last step: their words and volumes are missing until then.
          found.isDone = head - sequence <= lastEvents || indexed <= sequence || (isSlow && round.isHurried);
          round = { end: head < indexed ? head : indexed, left, isHurried: round.isHurried || isSlow };
        }
        if (!found.isDone) {
          await walk.next(client, { until: indexed, indexed });
          return;
        }
        while (await walk.next(client, { indexed }));
        await walk.end(client);
        await checkPublishedOffset(client, tenant, findings);
      };
      await this.step(one, findings, work, !round.isHurried);
      if (found.isDeleted || this.closed.signal.aborted) return null;
    }
    return found.walk ? { walk: found.walk, isFrozen: found.isFrozen === true } : null;
  }

  private async step(one: Underway, findings: Findings, work: () => Promise<void>, rest = true): Promise<void> {
    const workedMs = await this.budget.run(() => inTenantTransaction(one.client, one.tenant, snapshot, findings, work), rest);
    one.workedMs += workedMs;
    this.seconds.inc(workedMs / 1_000);
  }
}
