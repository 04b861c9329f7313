// Starts the auditor's parts and stops them in the opposite order.
import type { Registry } from 'prom-client';
import { AuditService } from '../../../proto/gen/ledger/v1/audit_pb.js';
import { writableDirectory } from '../../platform/directories.ts';
import type { Readiness } from '../../platform/health.ts';
import type { Lifetime } from '../../platform/lifetime.ts';
import { openPool, type Pool, type PoolOptions } from '../../platform/postgres.ts';
import { checkDatabase } from '../../platform/postgres-start.ts';
import { databaseState } from '../../platform/readiness.ts';
import { serveUntilEnd } from '../../platform/serve.ts';
import type { Settings } from '../../platform/settings.ts';
import { SharedPool } from '../../platform/shared-pool.ts';
import { openLog, openMetrics, type Logger } from '../../platform/telemetry.ts';
import { openTracing } from '../../platform/tracing.ts';
import { ledgerPlans } from '../query-plans.ts';
import { migrationNames } from '../schema.ts';
import { CheckpointFiles } from '../proof/checkpoint-files.ts';
import { Checkpoints } from '../proof/checkpoints.ts';
import { Cosigner } from '../proof/cosigner.ts';
import { TreeFollower } from '../proof/follower.ts';
import { CheckpointSigner } from '../proof/signer.ts';
import { auditorConfig, type AuditorConfig } from './config.ts';
import { freezeTenant } from './freeze.ts';
import { Indexer } from './indexer.ts';
import { JobRunner } from './job-runner.ts';
import { Replica } from './replica.ts';
import { jobKinds } from './job-list.ts';
import { auditorRoutes } from './rpc.ts';
import { Watch } from './watch.ts';

// A slow reader of accounts keeps one; other calls have their own.
const exportConnections = 4;
// Exports and results may take hours; new calls come on new connections all the same.
const streamGraceMs = 24 * 3_600_000;

/** Serves until the lifetime ends. Throws `BadSetting` and `StartFailure`, which say what the operator can mend. */
export async function serveAuditor(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = auditorConfig(settings);
  const logger = openLog('auditor', config.logLevel);
  const metrics = openMetrics('auditor');
  await openTracing('auditor', config.tracing, { lifetime, logger, metrics });
  const reads = openPool(config.databaseUrl, {
    name: 'auditor reads',
    max: config.readConnections,
    logger,
    metrics,
    settings: ledgerPlans,
  });
  lifetime.add('reads', () => reads.end());
  const exports = openPool(config.databaseUrl, { name: 'auditor exports', max: exportConnections, logger, metrics, settings: ledgerPlans });
  lifetime.add('exports', () => exports.end());

  const indexPool = openPool(config.databaseUrl, {
    name: 'auditor index',
    max: 1,
    logger,
    metrics,
    settings: { ...ledgerPlans, 'app.indexer': 'on' },
  });
  lifetime.add('index connection', () => indexPool.end());
  // It shows whether a pooler drops what only a connection's start can set.
  await checkDatabase(indexPool, migrationNames);
  await writableDirectory('CHECKPOINT_DIR', config.checkpoints.directory);
  const replica = openReplica(config, reads, { logger, metrics }, lifetime);
  const runner = openJobRunner(config, { replica, logger, metrics }, lifetime);
  const indexer = new Indexer({ pool: indexPool, pollMs: 500, logger, metrics });
  lifetime.add('indexer', () => indexer.close());
  openWatch(config, { logger, metrics }, lifetime);

  const { checkpoints, cosigner } = openTrees(config, { reads, logger, metrics }, lifetime);
  const readinessPool = openPool(config.databaseUrl, { name: 'auditor readiness', max: 1, logger, metrics });
  lifetime.add('readiness', () => readinessPool.end());
  const stateOf = databaseState(readinessPool, logger);
  const readiness = async (): Promise<Readiness> => {
    const state = await stateOf();
    return {
      ready: state === 'ok',
      dependencies: { postgresql: state, ...(replica && { replica: replica.state() }), ...(cosigner && { witnesses: cosigner.state() }) },
    };
  };
  const pool = new SharedPool(reads);
  await serveUntilEnd(lifetime, config, {
    services: [AuditService],
    routes: auditorRoutes({
      pool,
      reports: replica ? new SharedPool(reads, replica.before(reads)) : pool,
      exports: new SharedPool(exports, replica?.before(exports)),
      kinds: jobKinds,
      checkpoints,
      maxImportBytes: config.maxImportBytes,
      started: () => runner.wake(),
    }),
    logger,
    metrics,
    readiness,
    connectionGraceMs: streamGraceMs,
  });
}

// While one checkpoint waits for the disk, others are signed.
const signConnections = 4;

/** Opens what follows the logs, signs their trees and has them cosigned. */
function openTrees(
  { databaseUrl, checkpoints: config }: AuditorConfig,
  { reads, logger, metrics }: { reads: Pool; logger: Logger; metrics: Registry },
  lifetime: Lifetime,
): { checkpoints: Checkpoints; cosigner: Cosigner | undefined } {
  const open = (name: string, max: number) => {
    const pool = openPool(databaseUrl, { name, max, logger, metrics, settings: { ...ledgerPlans, 'app.indexer': 'on' } });
    lifetime.add(name, () => pool.end());
    return pool;
  };
  const freeze = (tenant: string, reason: string) => freezeTenant(reads, logger, tenant, reason);
  const { origin, signingKeys: keys, everyMs, directory, witnesses, quorum } = config;
  const checkpoints = new Checkpoints({ origin, keys, files: new CheckpointFiles(directory), freeze });
  const follower = new TreeFollower({
    pool: open('auditor trees', 1),
    pollMs: 500,
    nextOrigin: (tenant, last) => checkpoints.nextOrigin(tenant, last),
    freeze,
    logger,
    metrics,
  });
  lifetime.add('tree follower', () => follower.close());
  const signer = new CheckpointSigner({ pool: open('auditor checkpoints', signConnections), checkpoints, everyMs, logger, metrics });
  lifetime.add('checkpoint signer', () => signer.close());
  if (witnesses.length === 0) return { checkpoints, cosigner: undefined };
  const cosigner = new Cosigner({ pool: open('auditor witnesses', 2), witnesses, quorum, everyMs, retryMs: 1_000, logger, metrics });
  lifetime.add('cosigner', () => cosigner.close());
  return { checkpoints, cosigner };
}

// Of one statement of a job or a walk.
const longStatementMs = 10 * 60_000;
const long = { queryTimeoutMs: longStatementMs + 60_000, settings: { ...ledgerPlans, statement_timeout: String(longStatementMs) } };

/** Opens the standby of `READ_DATABASE_URL`, if there is one. */
function openReplica(
  { readDatabaseUrl, readConnections, jobConcurrency }: AuditorConfig,
  primary: Pool,
  parts: { logger: Logger; metrics: Registry },
  lifetime: Lifetime,
): Replica | undefined {
  if (readDatabaseUrl === undefined) return undefined;
  const pool = openPool(readDatabaseUrl, {
    name: 'auditor replica',
    max: readConnections + exportConnections + jobConcurrency,
    ...parts,
    queryTimeoutMs: long.queryTimeoutMs,
    settings: ledgerPlans,
    mayBeStandby: true,
  });
  lifetime.add('replica', () => pool.end());
  return new Replica({ pool, primary, ...parts });
}

/** Opens the runner of jobs and its connections. */
function openJobRunner(
  { databaseUrl, jobConcurrency: max }: AuditorConfig,
  { replica, ...parts }: { replica: Replica | undefined; logger: Logger; metrics: Registry },
  lifetime: Lifetime,
): JobRunner {
  const open = (name: string, options: Partial<PoolOptions>) => {
    const pool = openPool(databaseUrl, { name, max: 1, ...parts, ...options, settings: { ...ledgerPlans, ...options.settings } });
    lifetime.add(name, () => pool.end());
    return pool;
  };
  const reads = open('auditor jobs', { max, ...long });
  const runner = new JobRunner({
    kinds: jobKinds,
    reads,
    ...(replica && { readOnly: replica.before(reads) }),
    work: open('auditor results', { max: Math.max(2, Math.ceil(max / 2)) }),
    all: open('auditor queue', { settings: { 'app.runner': 'on' } }),
    ...parts,
  });
  lifetime.add('jobs', () => runner.close());
  return runner;
}

/** Opens the watch and its connections. */
function openWatch({ databaseUrl, verifyMs }: AuditorConfig, parts: { logger: Logger; metrics: Registry }, lifetime: Lifetime): void {
  // Between two statements of a step it replays and compares, which takes long where there are many accounts.
  const settings = { ...long.settings, 'app.indexer': 'on', idle_in_transaction_session_timeout: '60s' };
  const pool = openPool(databaseUrl, { name: 'auditor watch', max: 3, ...parts, ...long, settings });
  lifetime.add('watch connections', () => pool.end());
  const watch = new Watch({ pool, everyMs: verifyMs, pollMs: 1_000, ...parts });
  lifetime.add('watch', () => watch.close());
}
