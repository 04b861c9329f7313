// Signs a checkpoint of each log that has grown, at most one in so many seconds, and keeps fewer of older days.
import { setTimeout as pause } from 'node:timers/promises';
import { Counter, type Registry } from 'prom-client';
import { inTransaction, withClient, type Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { Refusal } from '../accounting.ts';
import type { SignedHead } from './checkpoint-files.ts';
import type { Checkpoints } from './checkpoints.ts';

/** What the signer needs. */
export interface SignerOptions {
  /** Connections with `app.indexer` on, which see how far the trees and checkpoints of all tenants are. */
  pool: Pool;
  checkpoints: Checkpoints;
  /** Between two checkpoints of a log, milliseconds. */
  everyMs: number;
  logger: Logger;
  metrics: Registry;
}

interface LogState {
  tenant: string;
  head: number;
  origin: number;
  size: number;
  /** Events of the newest checkpoint. */
  signed: number;
  /** Whether it is time for another. */
  due: boolean;
}

/** Between looks, milliseconds, at most; a look that takes long is followed by a longer rest. */
const maxPollMs = 5_000;
const restFactor = 9;

const logStates = `select h.tenant_id as tenant, h.sequence::float8 as head, coalesce(t.origin, 1) as origin, coalesce(t.size, 0)::float8 as size,
    coalesce(c.size, 0)::float8 as signed,
    -- Also where the clock was set back.
    (c.signed_at between clock_timestamp() - make_interval(secs => $1::float8 / 1000) and clock_timestamp()) is not true as due
  from heads h left join trees t on t.tenant_id = h.tenant_id left join lateral (
    select size, signed_at from checkpoints c where c.tenant_id = h.tenant_id and c.origin = coalesce(t.origin, 1) order by c.size desc limit 1) c on true
  where h.frozen_at is null and h.sequence > 0`;

/** Signs until it is closed. Every replica does: a lock and the time of the last checkpoint keep them to one in `everyMs`. */
export class CheckpointSigner {
  private readonly options: SignerOptions;
  private readonly closed = new AbortController();
  private readonly signed: Counter;
  /** What was last signed of each tenant, as far as this process knows: a restored log may never grow again, and is to be noticed all the same. */
  private readonly known = new Map<string, Pick<SignedHead, 'origin' | 'size'>>();
  /** The day on which a tenant's old checkpoints were last deleted. */
  private readonly thinned = new Map<string, string>();
  private readonly loop: Promise<void>;

  constructor(options: SignerOptions) {
    this.options = options;
    this.signed = new Counter({
      name: 'ledger_checkpoints_total',
      help: 'Attempts to sign a checkpoint of a log that has grown',
      labelNames: ['outcome'],
      registers: [options.metrics],
    });
    this.loop = this.run();
  }

  /** Ends the loop after the checkpoint that is being signed. */
  async close(): Promise<void> {
    this.closed.abort();
    await this.loop;
  }

  private async run(): Promise<void> {
    const { everyMs, logger } = this.options;
    const { signal } = this.closed;
    const pollMs = Math.min(maxPollMs, everyMs / 4);
    while (!signal.aborted) {
      const started = performance.now();
      await this.round().catch((error: unknown) => {
        if (!signal.aborted) logger.warn({ err: error }, 'signing checkpoints failed');
      });
      const restMs = Math.max(pollMs, restFactor * (performance.now() - started));
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  private async round(): Promise<void> {
    const { pool, everyMs } = this.options;
    const { rows } = await withClient(pool, (client) => client.query<LogState>({ name: 'log_states', text: logStates, values: [everyMs] }));
    const errors: unknown[] = [];
    const waiting = rows.values();
    // While one waits for the disk, another signs.
    const work = async () => {
      for (const state of waiting) {
        if (this.closed.signal.aborted) return;
        await this.look(state).catch((error: unknown) => {
          this.signed.inc({ outcome: error instanceof Refusal ? error.reason : 'failed' });
          errors.push(error);
        });
      }
    };
    await Promise.all(Array.from({ length: pool.options.max }, work));
    if (errors.length > 0) throw errors[0];
  }

  private async look({ tenant, head, origin, size, signed, due }: LogState): Promise<void> {
    const { pool, checkpoints } = this.options;
    const known = this.known.get(tenant) ?? (await checkpoints.lastInFiles(tenant)) ?? { origin, size: signed };
    this.known.set(tenant, known);
    const isRestored = known.origin > origin || (known.origin === origin && known.size > head) || signed > head;
    if (!isRestored && !(due && size > signed)) return;
    const checkpoint = await checkpoints.cover(pool, tenant, isRestored ? head + 1 : signed + 1);
    if (checkpoint) this.known.set(tenant, { origin: checkpoint.origin, size: checkpoint.size });
    this.signed.inc({ outcome: 'signed' });
    await this.thin(tenant);
  }

  /** Once a day: of days more than a week ago, each key's last checkpoint stays. */
  private async thin(tenant: string): Promise<void> {
    const today = new Date().toISOString().slice(0, 10);
    if (this.thinned.get(tenant) === today) return;
    await inTransaction(this.options.pool, [tenant], (client) =>
      client.query({
        name: 'thin_checkpoints',
        text: `delete from checkpoints where tenant_id = $1 and (origin, size) in (
          select origin, size from (
            select origin, size, row_number() over (
              partition by origin, (signed_at at time zone 'UTC')::date, key_id order by checkpoints.size desc) as place
            from checkpoints where tenant_id = $1 and signed_at < clock_timestamp() - interval '7 days') old
          where place > 1)`,
        values: [tenant],
      }),
    );
    this.thinned.set(tenant, today);
  }
}
