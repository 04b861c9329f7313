// Writers on one database, as several replicas have them, for tests of group commit.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import pg from 'pg';
import { Registry } from 'prom-client';
import { PostingSchema, type Transaction } from '../proto/gen/ledger/v1/ledger_pb.js';
import { createAccount } from '../services/ledger/accounts.ts';
import type { Outcome } from '../services/ledger/queue.ts';
import { validatePosting, type ValidatedPosting } from '../services/ledger/mapping.ts';
import { Writer } from '../services/ledger/writer.ts';
import { newId, toUuid } from '../services/platform/ids.ts';
import { openPool, type Pool } from '../services/platform/postgres.ts';
import { openLog, type Logger } from '../services/platform/telemetry.ts';
import { freshDatabase, longLockTimeouts } from './cluster.ts';
import { openProxy, type Proxy } from './proxy.ts';

/** How a writer differs from a replica's. */
export interface WriterOptions {
  /** Whether its connections go through the proxy. */
  proxied?: boolean;
  pipelines?: number;
  /** Postings that may wait. */
  waiting?: number;
  /** Postings of a batch, at most. */
  items?: number;
  /** Time-out of a query, milliseconds. */
  queryTimeoutMs?: number;
  /** Whether it waits for locked heads without a short time-out. */
  isPatient?: boolean;
  /** Cached accounts; with 0, every batch takes the locking path. */
  maxCachedAccounts?: number;
  metrics?: Registry;
  log?: Logger;
}

/** A database with writers on it. */
export interface Writers {
  /** Sees all tenants' rows and may change the schema. */
  owner: pg.Client;
  adminUrl: string;
  /** The address of the tables' owner, for the operator's commands. */
  ownerUrl: string;
  /** Connections of the service's role. */
  pool: Pool;
  proxy: Proxy;
  /** Opens one more writer. */
  open(options?: WriterOptions): Writer;
  /** A new tenant (TypeID) with accounts of these codes: assets, of which those that begin with `purse` may not be negative. */
  tenantWith(...codes: string[]): Promise<string>;
  /** An account's debits minus credits over all currencies, minor units. */
  balance(tenantId: string, code: string): Promise<string>;
  transactionsOf(tenantId: string): Promise<number>;
  end(): Promise<void>;
}

export const logger = openLog('test', 'silent');
/** Default deadline of a posting, milliseconds: longer than any test. */
export const postingTimeoutMs = 60_000;
/** Audit context of accounts and their changes. */
export const by = { actor: 'test', requestId: 'test' };
/** The other fields of an account. */
export const unspecified = {
  normalBalance: null,
  currency: null,
  parentCode: null,
  isGroup: false,
  description: undefined,
  metadata: '{}',
  limits: [],
  blocked: [],
};

/** Makes the database. */
export async function openWriters(): Promise<Writers> {
  const database = await freshDatabase('ledger', { migrated: true });
  const owner = new pg.Client({ connectionString: database.adminUrl });
  await owner.connect();
  const pool = openPool(database.serviceUrl, { name: 'test', max: 4, logger, settings: longLockTimeouts });
  const proxy = await openProxy(Number(new URL(database.serviceUrl).port));
  const opened: { writer: Writer; connections: Pool }[] = [];
  let made = Promise.resolve();
  return {
    owner,
    adminUrl: database.adminUrl,
    ownerUrl: database.ownerUrl,
    pool,
    proxy,
    open({
      proxied = false,
      pipelines = 2,
      waiting = 8_000,
      items = 256,
      queryTimeoutMs = 15_000,
      isPatient = false,
      maxCachedAccounts = 1000,
      metrics = new Registry(),
      log = logger,
    } = {}) {
      const url = new URL(database.serviceUrl);
      if (proxied) url.port = String(proxy.port);
      const connections = openPool(url.href, {
        name: 'writer',
        max: 2 * pipelines + 4,
        logger,
        queryTimeoutMs,
        settings: isPatient ? longLockTimeouts : {},
      });
      const limits = { waiting, waitingBytes: 64e6, items, entries: 2_000, bytes: 2e6 };
      const writer = new Writer({ pool: connections, pipelines, waiters: 4, limits, maxCachedAccounts, logger: log, metrics });
      opened.push({ writer, connections });
      return writer;
    },
    async tenantWith(...codes) {
      const id = newId('tenant');
      // One after the other: many at once would wait too long for a connection.
      const mine = made.then(async () => {
        for (const code of codes) {
          const account = { code, name: code, type: 'asset' as const, allowNegative: !code.startsWith('purse'), ...unspecified };
          await createAccount(pool, toUuid('tenant', id)!, account, by);
        }
      });
      made = mine.catch(() => undefined);
      await mine;
      return id;
    },
    async balance(tenantId, code) {
      const { rows } = await owner.query<{ net: string }>(
        `select coalesce(sum(debits - credits), 0)::text as net from accounts a join balances b on b.tenant_id = a.tenant_id and b.account_id = a.id
         where a.tenant_id = $1 and a.code = $2`,
        [toUuid('tenant', tenantId), code],
      );
      return rows[0]!.net;
    },
    async transactionsOf(tenantId) {
      const { rows } = await owner.query<{ n: number }>('select count(*)::int as n from transactions where tenant_id = $1', [
        toUuid('tenant', tenantId),
      ]);
      return rows[0]!.n;
    },
    async end() {
      for (const { writer, connections } of opened) {
        await writer.close();
        await connections.end();
      }
      await proxy.close();
      await pool.end();
      await owner.end();
      await database.drop();
    },
  };
}

/** A posting that moves naira from one account to another. */
export function transfer(
  tenantId: string,
  from: string,
  to: string,
  amount: string,
  more: MessageInitShape<typeof PostingSchema> = {},
): ValidatedPosting {
  const entries = [
    { accountCode: to, amount, side: 'debit', currency: 'NGN' },
    { accountCode: from, amount, side: 'credit', currency: 'NGN' },
  ];
  return validatePosting(create(PostingSchema, { tenantId, entries, actor: 'test', requestId: 'r', timeoutMs: postingTimeoutMs, ...more }));
}

/** The transaction of a posting; throws its refusal. */
export function posted(outcome: Outcome): { transaction: Transaction; replayed: boolean } {
  if ('refusal' in outcome) throw outcome.refusal;
  if ('lockConflict' in outcome) throw new Error('lock conflict');
  return { transaction: outcome.result.outcome.value as Transaction, replayed: outcome.result.replayed };
}

/** `posted`, `replayed`, `lock_conflict`, or the reason of a refusal. */
export function reasonOf(outcome: Outcome): string {
  if ('refusal' in outcome) return outcome.refusal.reason;
  if ('lockConflict' in outcome) return 'lock_conflict';
  return outcome.result.replayed ? 'replayed' : 'posted';
}

/** How many outcomes there are of each {@link errorMessage}. */
export function tally(outcomes: Outcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[reasonOf(outcome)] = (counts[reasonOf(outcome)] ?? 0) + 1;
  return counts;
}

/** How many batches failed, by SQLSTATE. */
export async function failures(metrics: Registry): Promise<Record<string, number>> {
  const { values } = (await metrics.getSingleMetric('ledger_batch_failures_total')?.get()) ?? { values: [] };
  return Object.fromEntries(values.map(({ labels, value }) => [labels['sqlstate'], value]));
}
