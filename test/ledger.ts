// A ledger over gRPC in the test's process, on a database of its own.
import { createClient, type Client } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { DueHolds } from '../services/ledger/due.ts';
import { features, type Feature } from '../services/ledger/feature-switch.ts';
import { ledgerPlans } from '../services/ledger/query-plans.ts';
import { ledgerRoutes } from '../services/ledger/rpc.ts';
import { Writer } from '../services/ledger/writer.ts';
import { openCaller } from '../services/platform/caller.ts';
import { newId, toUuid } from '../services/platform/ids.ts';
import { openPool, type Pool } from '../services/platform/postgres.ts';
import { openLog } from '../services/platform/telemetry.ts';
import { withLongDeadline } from './polling.ts';
import { startGrpcServer } from './grpc-server.ts';
import { freshDatabase, longLockTimeouts, type FreshDatabase } from './cluster.ts';

export type LedgerClient = Client<typeof LedgerService>;

/** A running ledger. */
export interface RunningLedger {
  client: LedgerClient;
  database: FreshDatabase;
  /** Connections of the service's role. */
  pool: Pool;
  metrics: Registry;
  end(): Promise<void>;
}

const logger = openLog('test', 'silent');

/** Starts a ledger on a new database, or the given one. Its lock time-out is long unless given. Due holds expire with `duePollMs` only. */
export async function startLedger({
  maxMessageBytes = 32 << 20,
  lockTimeout = longLockTimeouts.lock_timeout,
  database: given,
  enabled = features,
  duePollMs,
}: {
  maxMessageBytes?: number;
  lockTimeout?: string;
  database?: FreshDatabase;
  enabled?: readonly Feature[];
  duePollMs?: number;
} = {}): Promise<RunningLedger> {
  const database = given ?? (await freshDatabase('ledger', { migrated: true }));
  const settings = { ...ledgerPlans, ...longLockTimeouts, lock_timeout: lockTimeout };
  const pool = openPool(database.serviceUrl, { name: 'test', max: 8, logger, settings });
  const metrics = new Registry();
  const limits = { waiting: 8_000, waitingBytes: 64e6, items: 256, entries: 2_000, bytes: 2e6 };
  const writer = new Writer({ pool, pipelines: 1, waiters: 1, limits, maxCachedAccounts: 10_000, logger, metrics });
  const duePool = openPool(database.serviceUrl, { name: 'due', max: 1, logger, settings, flag: 'app.due' });
  const due = duePollMs === undefined ? null : new DueHolds({ pool: duePool, writer, pollMs: duePollMs, logger, metrics });
  const served = await startGrpcServer({
    services: [LedgerService],
    routes: ledgerRoutes({
      writer,
      reads: pool,
      maxMessageBytes,
      committed: () => undefined,
      isEnabled: (feature) => enabled.includes(feature),
    }),
    maxMessageBytes,
    metrics,
  });
  const caller = openCaller({ addresses: [`127.0.0.1:${served.port}`], token: 'token', maxMessageBytes });
  return {
    client: createClient(LedgerService, withLongDeadline(caller)),
    database,
    pool,
    metrics,
    async end() {
      caller.close();
      await served.close();
      await due?.close();
      await duePool.end();
      await writer.close();
      await pool.end();
      await database.drop();
    },
  };
}

/** A new tenant's id, as TypeID and UUID. */
export function newTenant(): { tenantId: string; tenant: string } {
  const tenantId = newId('tenant');
  return { tenantId, tenant: toUuid('tenant', tenantId)! };
}

/** Entries from lines such as `'CASH debit 10.00 NGN'`. */
export function entries(...lines: string[]): { accountCode: string; side: string; amount: string; currency: string }[] {
  return lines.map((line) => {
    const [accountCode = '', side = '', amount = '', currency = ''] = line.split(' ');
    return { accountCode, side, amount, currency };
  });
}

/** The refusal of a call; throws if it succeeds. */
export { refusal } from './identity.ts';
