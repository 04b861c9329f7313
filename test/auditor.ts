// An auditor over gRPC in the test's process, on the database of a ledger.
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type Client } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { AuditService } from '../proto/gen/ledger/v1/audit_pb.js';
import type { JobKinds } from '../services/ledger/auditor/job-kinds.ts';
import { freezeTenant } from '../services/ledger/auditor/freeze.ts';
import { jobKinds } from '../services/ledger/auditor/job-list.ts';
import { Indexer } from '../services/ledger/auditor/indexer.ts';
import { JobRunner } from '../services/ledger/auditor/job-runner.ts';
import { Watch } from '../services/ledger/auditor/watch.ts';
import { auditorRoutes } from '../services/ledger/auditor/rpc.ts';
import { CheckpointFiles } from '../services/ledger/proof/checkpoint-files.ts';
import { Checkpoints } from '../services/ledger/proof/checkpoints.ts';
import { TreeFollower } from '../services/ledger/proof/follower.ts';
import { Cosigner } from '../services/ledger/proof/cosigner.ts';
import { CheckpointSigner } from '../services/ledger/proof/signer.ts';
import type { Witness } from '../services/ledger/proof/witness-list.ts';
import { ledgerPlans } from '../services/ledger/query-plans.ts';
import { openCaller } from '../services/platform/caller.ts';
import { openPool, type Pool } from '../services/platform/postgres.ts';
import { SharedPool } from '../services/platform/shared-pool.ts';
import { openLog } from '../services/platform/telemetry.ts';
import { longTransactionTimeouts, type FreshDatabase } from './cluster.ts';
import { startGrpcServer } from './grpc-server.ts';
import { withLongDeadline } from './polling.ts';
import { currentRun } from './run.ts';

export type AuditorClient = Client<typeof AuditService>;

/** A running auditor. */
export interface RunningAuditor {
  client: AuditorClient;
  /** Connections of its role. */
  pool: Pool;
  metrics: Registry;
  /** Where witnesses were given. */
  cosigner: Cosigner | undefined;
  /** Its connection that sees the jobs of all tenants. */
  all: Pool;
  end(): Promise<void>;
}

const logger = openLog('test', 'silent');

/** The name of the deployment of {@link startAuditor} in origins. */
export const proofOrigin = 'ledger.test';

/**
 * Starts an auditor on the database of a ledger, as `startLedger` returns it. `kinds`: of jobs, in addition to those of the product. It signs trees when
 * asked; with `signEveryMs` it also follows all logs and signs them. With `verifyMs` it walks them.
 */
export async function startAuditor(
  database: FreshDatabase,
  {
    kinds: more = {},
    leaseMs = 60_000,
    directory = mkdtempSync(join(currentRun().directory, 'checkpoints-')),
    signingKeys = [generateKeyPairSync('ed25519').privateKey],
    signEveryMs,
    verifyMs,
    witnesses = [],
    quorum = witnesses.length,
    maxImportBytes = 2 ** 30,
  }: Partial<{
    kinds: JobKinds;
    leaseMs: number;
    directory: string;
    signingKeys: [KeyObject, ...KeyObject[]];
    signEveryMs: number;
    verifyMs: number;
    witnesses: readonly Witness[];
    quorum: number;
    maxImportBytes: number;
  }> = {},
): Promise<RunningAuditor> {
  const kinds = { ...jobKinds, ...more };
  const maxMessageBytes = 32 << 20;
  const settings = { ...ledgerPlans, ...longTransactionTimeouts };
  const pool = openPool(database.auditorUrl ?? '', { name: 'test', max: 8, logger, settings });
  const metrics = new Registry();
  const all = openPool(database.auditorUrl ?? '', { name: 'all', max: 1, logger, settings: { ...settings, 'app.runner': 'on' } });
  const jobs = openPool(database.auditorUrl ?? '', { name: 'jobs', max: 4, logger, settings });
  const ofIndexer = openPool(database.auditorUrl ?? '', { name: 'index', max: 1, logger, settings: { ...settings, 'app.indexer': 'on' } });
  const indexer = new Indexer({ pool: ofIndexer, pollMs: 50, logger, metrics });
  const ofWatch = openPool(database.auditorUrl ?? '', { name: 'watch', max: 3, logger, settings: { ...settings, 'app.indexer': 'on' } });
  const watch = verifyMs === undefined ? null : new Watch({ pool: ofWatch, everyMs: verifyMs, pollMs: 20, restFactor: 1, logger, metrics });
  const runner = new JobRunner({ kinds, reads: jobs, work: pool, all, logger, metrics, leaseMs, pollMs: 50 });
  const freeze = (tenant: string, reason: string) => freezeTenant(pool, logger, tenant, reason);
  const checkpoints = new Checkpoints({ origin: proofOrigin, keys: signingKeys, files: new CheckpointFiles(directory), freeze });
  const nextOrigin = (tenant: string, last: number) => checkpoints.nextOrigin(tenant, last);
  const trees = openPool(database.auditorUrl ?? '', { name: 'trees', max: 4, logger, settings: { ...settings, 'app.indexer': 'on' } });
  const loops =
    signEveryMs === undefined
      ? []
      : [
          new TreeFollower({ pool: trees, pollMs: 50, nextOrigin, freeze, logger, metrics }),
          new CheckpointSigner({ pool: trees, checkpoints, everyMs: signEveryMs, logger, metrics }),
        ];
  const cosigner =
    witnesses.length === 0 ? undefined : new Cosigner({ pool: trees, witnesses, quorum, everyMs: 40, retryMs: 20, logger, metrics });
  const served = await startGrpcServer({
    services: [AuditService],
    routes: auditorRoutes({
      pool: new SharedPool(pool),
      reports: new SharedPool(pool),
      exports: new SharedPool(pool),
      kinds,
      checkpoints,
      maxImportBytes,
      started: () => runner.wake(),
    }),
    maxMessageBytes,
    metrics,
  });
  const caller = openCaller({ addresses: [`127.0.0.1:${served.port}`], token: 'token', maxMessageBytes });
  return {
    client: createClient(AuditService, withLongDeadline(caller)),
    pool,
    metrics,
    cosigner,
    all,
    async end() {
      caller.close();
      await served.close();
      await Promise.all([runner.close(), indexer.close(), watch?.close(), ...loops.map((loop) => loop.close()), cosigner?.close()]);
      await Promise.all([jobs.end(), all.end(), ofIndexer.end(), ofWatch.end(), trees.end()]);
      await pool.end();
    },
  };
}

/** A report with its content type, as one piece. `parameters`: an object, or its JSON. */
export async function reportBytes(
  { client }: RunningAuditor,
  tenantId: string,
  report: string,
  parameters: object | string,
): Promise<{ contentType: string; bytes: Buffer }> {
  const parts: Uint8Array[] = [];
  let contentType = '';
  const text = typeof parameters === 'string' ? parameters : JSON.stringify(parameters);
  for await (const part of client.getReport({ tenantId, report, parameters: text })) {
    contentType ||= part.contentType;
    parts.push(part.bytes);
  }
  return { contentType, bytes: Buffer.concat(parts) };
}
