// Follows the logs of all tenants and keeps the indexes that postings do not write themselves.
import { setTimeout as pause } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import { openGauge } from '../../platform/gauges.ts';
import { epochMs, inTransaction, withClient, type Client, type Pool } from '../../platform/postgres.ts';
import type { Logger } from '../../platform/telemetry.ts';
import { decodePosted } from '../mapping.ts';
import { addMetadata, addWordsAndVolumes, type IndexedPosting } from './index-rows.ts';

/** What the indexer needs. */
export interface IndexerOptions {
  /** One connection with `app.indexer` on, which sees how far the logs and the indexes of all tenants are. */
  pool: Pool;
  /** Between looks where nothing is left to do, milliseconds. */
  pollMs: number;
  logger: Logger;
  metrics: Registry;
}

/** Events of one step, which is one transaction. */
const stepEvents = 500;
// After a step it rests three times as long, so that postings keep most of a busy machine.
const restFactor = 3;
// After a look at many tenants that found nothing it rests longer.
const lookFactor = 10;
const retryMs = 1_000;

/** An index of a tenant that lacks events. `name`: a key of metadata, or empty for words and volumes. */
interface Unfinished {
  tenant_id: string;
  name: string;
  since: bigint;
  through: bigint;
  until: bigint;
}

// What a tenant's log has and its indexes have not. A key that was declared anew begins again.
const unfinished = `select h.tenant_id, '' as name, 0::bigint as since, coalesce(i.through, 0) as through, h.sequence as until
  from heads h left join lateral (select through from search_indexes i where i.tenant_id = h.tenant_id and i.name = '' offset 0) i on true
  where h.sequence > coalesce(i.through, 0)
  union all
  select b.tenant_id, d.key, d.value::bigint, coalesce(i.through, 0), d.value::bigint - 1
  from books b cross join lateral jsonb_each_text(b.indexed_since::jsonb) d left join lateral (
    select through from search_indexes i where i.tenant_id = b.tenant_id and i.name = d.key and i.since = d.value::bigint offset 0) i on true
  where coalesce(i.through, -1) < d.value::bigint - 1`;

/** Indexes what has been posted, shortly after. Several processes may run: each step of a tenant is one's alone. */
export class Indexer {
  private readonly options: IndexerOptions;
  private readonly closed = new AbortController();
  private lag = 0;
  private readonly loop: Promise<void>;

  constructor(options: IndexerOptions) {
    this.options = options;
    const help = 'Events that the indexes of words, volumes and metadata lack, by the last look';
    openGauge(options.metrics, 'ledger_index_lag_events', help, () => this.lag);
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
        (hasWorked) => {
          const workedMs = performance.now() - started;
          return hasWorked ? restFactor * workedMs : Math.max(pollMs, lookFactor * workedMs);
        },
        (error: unknown) => {
          if (!signal.aborted) logger.warn({ err: error }, 'indexing failed');
          return retryMs;
        },
      );
      await pause(restMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** One step of each index that lacks events; whether there was one. */
  private async round(): Promise<boolean> {
    const { pool } = this.options;
    const { rows } = await withClient(pool, (client) => client.query<Unfinished>({ name: 'unfinished_indexes', text: unfinished }));
    this.lag = rows.reduce((sum, { through, until }) => sum + Number(until - through), 0);
    const errors: unknown[] = [];
    for (const { tenant_id: tenant, name, since } of rows) {
      if (this.closed.signal.aborted) return true;
      // A log that can't be read keeps no other tenant from its indexes.
      await inTransaction(pool, [tenant], (client) => step(client, tenant, name, since)).catch((error: unknown) => errors.push(error));
    }
    if (errors.length > 0) throw errors[0];
    return rows.length > 0;
  }
}

/** Indexes the next events of a log. */
async function step(client: Client, tenant: string, name: string, since: bigint): Promise<void> {
  // Another process may be at it. A deletion of the tenant waits for this, or has removed the head.
  const { rows: locks } = await client.query<{ isMine: boolean }>({
    name: 'lock_index',
    text: `select pg_try_advisory_xact_lock(hashtextextended('index ' || $1, 0)) as "isMine",
      pg_advisory_xact_lock_shared(hashtextextended('delete ' || $1, 0))`,
    values: [tenant],
  });
  if (locks[0]?.isMine !== true) return;
  const { rows } = await client.query<{ through: bigint; until: bigint }>({
    name: 'index_progress',
    text: `select coalesce((select through from search_indexes where tenant_id = $1 and name = $2 and since = $3), 0) as through,
      case when $3::bigint = 0 then sequence else $3::bigint - 1 end as until from heads where tenant_id = $1`,
    values: [tenant, name, since],
  });
  const [progress] = rows;
  if (!progress) return;
  const last = progress.through + BigInt(stepEvents);
  const through = last < progress.until ? last : progress.until;
  const postings = await postingsBetween(client, tenant, progress.through, through);
  if (name === '') await addWordsAndVolumes(client, tenant, postings);
  else await addMetadata(client, tenant, name, postings);
  await client.query({
    name: 'keep_index_progress',
    text: `insert into search_indexes (tenant_id, name, since, through, caught_up) values ($1, $2, $3, $4, $5)
      on conflict (tenant_id, name) do update set since = excluded.since, through = excluded.through,
        caught_up = excluded.caught_up or (search_indexes.caught_up and search_indexes.since = excluded.since)`,
    values: [tenant, name, since, through, through === progress.until],
  });
}

async function postingsBetween(client: Client, tenant: string, after: bigint, through: bigint): Promise<IndexedPosting[]> {
  const { rows } = await client.query<{ sequence: bigint; created_ms: number; payload: Buffer }>({
    name: 'postings_between',
    text: `select sequence, ${epochMs('created_at')} as created_ms, payload from log
      where tenant_id = $1 and sequence > $2 and sequence <= $3 and type = 'transaction.posted' order by sequence`,
    values: [tenant, after, through],
  });
  return rows.map(({ sequence, created_ms: createdMs, payload }) => ({ sequence, createdMs, posted: decodePosted(payload) }));
}
