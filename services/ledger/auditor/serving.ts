// Starts the auditor's parts and stops them in the opposite order.
import { AuditService } from '../../../proto/gen/ledger/v1/audit_pb.js';
import type { Readiness } from '../../platform/health.ts';
import type { Lifetime } from '../../platform/lifetime.ts';
import { openPool } from '../../platform/postgres.ts';
import { checkDatabase } from '../../platform/postgres-start.ts';
import { databaseState } from '../../platform/readiness.ts';
import { serveUntilEnd } from '../../platform/serve.ts';
import type { Settings } from '../../platform/settings.ts';
import { SharedPool } from '../../platform/shared-pool.ts';
import { openLog, openMetrics } from '../../platform/telemetry.ts';
import { ledgerPlans } from '../query-plans.ts';
import { migrationNames } from '../schema.ts';
import { auditorConfig } from './config.ts';
import { auditorRoutes } from './rpc.ts';

/** Serves until the lifetime ends. Throws `BadSetting` and `StartFailure`, which say what the operator can mend. */
export async function serveAuditor(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = auditorConfig(settings);
  const logger = openLog('auditor', config.logLevel);
  const metrics = openMetrics('auditor');
  const reads = openPool(config.databaseUrl, { name: 'auditor reads', max: config.readConnections, logger, settings: ledgerPlans });
  lifetime.add('reads', () => reads.end());
  await checkDatabase(reads, migrationNames);

  const readinessPool = openPool(config.databaseUrl, { name: 'auditor readiness', max: 1, logger });
  lifetime.add('readiness', () => readinessPool.end());
  const stateOf = databaseState(readinessPool, logger);
  const readiness = async (): Promise<Readiness> => {
    const state = await stateOf();
    return { ready: state === 'ok', dependencies: { postgresql: state } };
  };
  await serveUntilEnd(lifetime, config, {
    services: [AuditService],
    routes: auditorRoutes({ pool: new SharedPool(reads), maxMessageBytes: config.grpcMaxMessageBytes }),
    logger,
    metrics,
    readiness,
  });
}
