// Deletes closed tenants whose time is over: in the ledger, in the notifier, and here. What stays are slug and last hash.
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@connectrpc/connect';
import { Counter, type Registry } from 'prom-client';
import type { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import { openGauges } from '../platform/gauges.ts';
import { toId } from '../platform/ids.ts';
import { inTransaction, type Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';

/** The services that have rows of a tenant. */
export interface DeletingServices {
  ledger: Pick<Client<typeof LedgerService>, 'deleteTenant'>;
  notifier: Pick<Client<typeof NotifierService>, 'deleteTenant'>;
}

/** What the job needs. */
export interface DeletionOptions {
  pool: Pool;
  /** Called once there is a tenant to delete. */
  openServices: () => DeletingServices;
  logger: Logger;
  metrics: Registry;
}

/** Between looks for tenants to delete, milliseconds. */
const pollMs = 1_000;
/** After a failure a tenant waits so long. */
const retrySeconds = 2;
/** And the replica that failed longer than others poll: one that reaches no ledger would lease the tenant first each time. */
const failedPauseMs = 4_000;
/** A call deletes for two seconds; a slow disk may take longer. */
const callTimeoutMs = 12_000;
/** Entries of an audit log that a transaction deletes. */
const maxAuditRows = 20_000;
/** Longer than a step with its two calls: another replica goes on with what a killed one has begun. */
const leaseSeconds = 30;

interface Closing {
  tenant: string;
  started: boolean;
}

/** The end of a tenant's log. */
type LogEnd = Awaited<ReturnType<DeletingServices['ledger']['deleteTenant']>>;

// Each step leases one tenant, so that replicas share the work and several tenants take turns.
const lease = {
  name: 'closing_lease',
  text: `update closings set next_attempt_at = clock_timestamp() + interval '${leaseSeconds} s' where tenant_id = (
      select tenant_id from closings where deleted_at is null and next_attempt_at <= clock_timestamp()
      order by next_attempt_at limit 1 for update skip locked)
    returning tenant_id as tenant, started_at is not null as started`,
};

/** Deletes tenants until it is stopped. Every step can be repeated. */
export class TenantDeletions {
  private readonly options: DeletionOptions;
  private readonly deleted: Counter;
  private readonly stopping = new AbortController();
  private services: DeletingServices | undefined;
  private isFailing = false;
  private readonly loop: Promise<void>;

  constructor(options: DeletionOptions) {
    this.options = options;
    const { metrics, pool } = options;
    this.deleted = new Counter({ name: 'identity_tenants_deleted_total', help: 'Closed tenants that were deleted', registers: [metrics] });
    const gauge = openGauges(metrics, async () => {
      const { rows } = await pool.query<{ seconds: number }>(
        `select greatest(0, coalesce(extract(epoch from clock_timestamp() - min(delete_at)), 0))::float8 as seconds
          from closings where deleted_at is null`,
      );
      return rows[0]?.seconds ?? 0;
    });
    gauge(
      'identity_deletions_overdue_seconds',
      'How long the oldest closed tenant waits for the end of its deletion',
      (seconds) => seconds,
    );
    this.loop = this.run();
  }

  /** Ends the loop after the step in flight, whose calls are canceled. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loop;
  }

  private async run(): Promise<void> {
    const { pool } = this.options;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const closing = await pool.query<Closing>(lease).then(
        ({ rows }) => rows[0],
        (error: unknown) => this.fail(error),
      );
      const wentOn = closing !== undefined && (await this.step(closing));
      if (!wentOn) await pause(closing ? failedPauseMs : pollMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Goes on with one tenant; false where that failed. Never rejects. */
  private async step({ tenant, started }: Closing): Promise<boolean> {
    let waitSeconds = 0;
    try {
      if (!started && !(await this.start(tenant))) return true;
      const end = await this.deleteElsewhere(tenant);
      if (end) await this.finish(tenant, end);
      this.isFailing = false;
    } catch (error) {
      this.fail(error, tenant);
      waitSeconds = retrySeconds;
    }
    // Where this fails, the lease ends.
    await this.options.pool
      .query('update closings set next_attempt_at = clock_timestamp() + make_interval(secs => $2) where tenant_id = $1', [
        tenant,
        waitSeconds,
      ])
      .catch(() => undefined);
    return waitSeconds === 0;
  }

  /** Takes the tenant from its members and keys; false if it was reopened. Afterwards nobody can reopen it. */
  private start(tenant: string): Promise<boolean> {
    return inTransaction(this.options.pool, [tenant], async (client) => {
      // As every change of a tenant does first.
      await client.query('select from tenants where tenant_id = $1 for update', [tenant]);
      const started = await client.query(
        `update closings set started_at = clock_timestamp()
          where tenant_id = $1 and started_at is null and delete_at <= clock_timestamp()`,
        [tenant],
      );
      if (started.rowCount === 0) return false;
      for (const table of ['api_keys', 'memberships', 'invitations', 'mails', 'erasures', 'subjects', 'vaults'])
        await client.query(`delete from ${table} where tenant_id = $1`, [tenant]);
      return true;
    });
  }

  /** One call of each service; null while one of them has rows left. */
  private async deleteElsewhere(tenant: string): Promise<LogEnd | null> {
    const { ledger, notifier } = (this.services ??= this.options.openServices());
    const options = { timeoutMs: callTimeoutMs, signal: this.stopping.signal };
    const request = { tenantId: toId('tenant', tenant) };
    const end = await ledger.deleteTenant(request, options);
    if (!end.done) return null;
    const { done } = await notifier.deleteTenant(request, options);
    return done ? end : null;
  }

  private async finish(tenant: string, { lastSequence, lastHash }: LogEnd): Promise<void> {
    const { pool, logger } = this.options;
    while ((await this.deleteAudit(tenant)) > 0n) this.stopping.signal.throwIfAborted();
    const isDone = await inTransaction(pool, [tenant], async (client) => {
      await client.query('delete from tenants where tenant_id = $1', [tenant]);
      const finished = await client.query(
        'update closings set deleted_at = clock_timestamp(), sequence = $2, hash = $3 where tenant_id = $1 and deleted_at is null',
        [tenant, lastSequence, lastHash],
      );
      return finished.rowCount === 1;
    });
    if (!isDone) return;
    this.deleted.inc();
    logger.info({ tenant: toId('tenant', tenant), sequence: lastSequence, hash: lastHash }, 'tenant deleted');
  }

  /** Deletes a part of the audit log, so that no statement exceeds its time limit; returns how many entries. */
  private async deleteAudit(tenant: string): Promise<bigint> {
    const { rows } = await inTransaction(this.options.pool, [tenant], (client) =>
      client.query<{ deleted: bigint }>('select delete_tenant_audit($1, $2) as deleted', [tenant, maxAuditRows]),
    );
    return rows[0]?.deleted ?? 0n;
  }

  /** One warning for failures in a row. */
  private fail(error: unknown, tenant?: string): void {
    if (this.stopping.signal.aborted) return;
    const { logger } = this.options;
    const fields = { err: error, ...(tenant !== undefined && { tenant: toId('tenant', tenant) }) };
    logger[this.isFailing ? 'debug' : 'warn'](fields, 'deletion of a tenant failed');
    this.isFailing = true;
  }
}
