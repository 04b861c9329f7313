// Finishes erasures in the ledger: those of calls, and by a job those that a killed process or an unreachable ledger has left.
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { LedgerService } from '../../../proto/gen/ledger/v1/ledger_pb.js';
import { openGauges } from '../../platform/gauges.ts';
import { toId } from '../../platform/ids.ts';
import type { Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { Refusal } from '../refusal.ts';
import { erasureColumns, leaseSeconds, type Erasure } from './vault.ts';

/** The calls of the ledger. */
export type ErasingLedger = Pick<Client<typeof LedgerService>, 'eraseSubject' | 'getBooks'>;

/** What the job needs. */
export interface ErasureOptions {
  pool: Pool;
  /** Called once there is a subject to erase. */
  openLedger: () => ErasingLedger;
  logger: Logger;
  metrics: Registry;
}

/** Between looks for erasures to finish, milliseconds. */
const pollMs = 1_000;
const callTimeoutMs = 5_000;
/** After a failure an erasure waits so long. */
const retrySeconds = 2;
/** And the replica that failed longer than others poll: one that reaches no ledger would lease the erasure first each time. */
const failedPauseMs = 4_000;

const lease = {
  name: 'erasure_lease',
  text: `update erasures set next_attempt_at = clock_timestamp() + interval '${leaseSeconds} s' where (tenant_id, subject_id) = (
      select tenant_id, subject_id from erasures where next_attempt_at <= clock_timestamp()
      order by next_attempt_at limit 1 for update skip locked)
    returning ${erasureColumns}`,
};

/** Finishes erasures until it is stopped. Every step can be repeated. */
export class Erasures {
  private readonly options: ErasureOptions;
  private readonly stopping = new AbortController();
  private opened: ErasingLedger | undefined;
  private readonly loop: Promise<void>;

  constructor(options: ErasureOptions) {
    this.options = options;
    const { metrics, pool } = options;
    const gauge = openGauges(metrics, async () => {
      const { rows } = await pool.query<{ waiting: number; seconds: number }>(
        `select count(*)::int as waiting, coalesce(extract(epoch from clock_timestamp() - min(erased_at)), 0)::float8 as seconds from erasures`,
      );
      return rows[0] ?? { waiting: 0, seconds: 0 };
    });
    gauge('identity_erasures_waiting', 'Erased subjects whose event the ledger has not appended yet', ({ waiting }) => waiting);
    gauge('identity_erasures_oldest_seconds', 'How long the oldest of them has waited', ({ seconds }) => seconds);
    this.loop = this.run();
  }

  /** Ends the loop after the step in flight, whose call is canceled. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loop;
  }

  /** Throws `books_frozen` while nothing may be changed in a tenant (TypeID): nothing of a subject is deleted then. */
  async checkOpen(tenantId: string): Promise<void> {
    const { books } = await this.ledger.getBooks({ tenantId }, { timeoutMs: callTimeoutMs });
    if (books?.frozen) throw new Refusal('books_frozen', `the books are frozen: ${books.frozen.reason}`);
  }

  /** Has the ledger append `subject.erased`; false where that failed. Never rejects: key and name are gone, and the job repeats what fails. */
  async finish({ tenant, subject, reason, actor, request_id: requestId }: Erasure): Promise<boolean> {
    const { pool, logger } = this.options;
    const [tenantId, subjectId] = [toId('tenant', tenant), toId('subj', subject)];
    try {
      const options = { timeoutMs: callTimeoutMs, signal: this.stopping.signal };
      await this.ledger.eraseSubject({ tenantId, subjectId, reason, actor, requestId }, options);
      await pool.query('delete from erasures where tenant_id = $1 and subject_id = $2', [tenant, subject]);
      return true;
    } catch (error) {
      if (!this.stopping.signal.aborted) logger.warn({ err: error, tenant: tenantId, subject: subjectId }, 'erasure is not finished');
      // Where this fails too, the lease ends.
      const soon = `update erasures set next_attempt_at = clock_timestamp() + interval '${retrySeconds} s' where tenant_id = $1 and subject_id = $2`;
      await pool.query(soon, [tenant, subject]).catch(() => undefined);
      return false;
    }
  }

  private get ledger(): ErasingLedger {
    return (this.opened ??= this.options.openLedger());
  }

  private async run(): Promise<void> {
    const { pool, logger } = this.options;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const leased = await pool.query<Erasure>(lease).catch((error: unknown) => {
        if (!signal.aborted) logger.warn({ err: error }, 'leasing erasures failed');
      });
      const [erasure] = leased?.rows ?? [];
      const wentOn = erasure !== undefined && (await this.finish(erasure));
      if (!wentOn) await pause(erasure ? failedPauseMs : pollMs, undefined, { signal }).catch(() => undefined);
    }
  }
}
