// Starts the ledger's parts and stops them in the opposite order.
import type { Readiness } from '../platform/health.ts';
import type { Lifetime } from '../platform/lifetime.ts';
import { openPool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import { databaseState } from '../platform/readiness.ts';
import { serveUntilEnd } from '../platform/serve.ts';
import type { Settings } from '../platform/settings.ts';
import { openLog, openMetrics } from '../platform/telemetry.ts';
import { openTracing } from '../platform/tracing.ts';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { ledgerConfig } from './config.ts';
import { DueHolds } from './due.ts';
import { encoders } from './encoding.ts';
import { grpcPublisher } from './outbox/grpc-publisher.ts';
import { openFeatureSwitch } from './feature-switch.ts';
import { ledgerPlans } from './query-plans.ts';
import { Relay } from './outbox/relay.ts';
import { ledgerRoutes } from './rpc.ts';
import { migrationNames } from './schema.ts';
import { Writer } from './writer.ts';

/** Serves until the lifetime ends. Throws `BadSetting` and `StartFailure`, which say what the operator can mend. */
export async function serveLedger(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = ledgerConfig(settings);
  const logger = openLog('ledger', config.logLevel);
  const metrics = openMetrics('ledger');
  await openTracing('ledger', config.tracing, { lifetime, logger, metrics });

  const reads = openPool(config.databaseUrl, { name: 'ledger reads', max: config.readConnections, logger, metrics, settings: ledgerPlans });
  lifetime.add('reads', () => reads.end());
  // A pipeline writes on one connection and reads ahead on another; the locking path uses those too.
  const connections = 2 * config.writerPipelines + config.writerWaiters;
  const writes = openPool(config.databaseUrl, { name: 'ledger writer', max: connections, logger, metrics, settings: ledgerPlans });
  lifetime.add('writes', () => writes.end());
  await checkDatabase(reads, migrationNames);

  const features = await openFeatureSwitch(reads, logger);
  lifetime.add('feature switch', () => features.close());

  const relayPool = openPool(config.databaseUrl, {
    name: 'ledger relay',
    max: 4,
    logger,
    metrics,
    settings: ledgerPlans,
    flag: 'app.relay',
  });
  lifetime.add('relay connections', () => relayPool.end());
  const { kafka, notifierAddresses, internalTokens } = config;
  const sink = kafka
    ? (await import('./outbox/kafka-publisher.ts')).kafkaPublisher(kafka, logger)
    : notifierAddresses
      ? grpcPublisher(notifierAddresses, internalTokens[0] ?? '', config.grpcMaxMessageBytes, config.tls)
      : null;
  const relay = new Relay({ pool: relayPool, sink, logger, metrics });
  lifetime.add('relay', () => relay.close());
  const committed = (tenant: string) => relay.wake(tenant);

  const writer = new Writer({
    pool: writes,
    pipelines: config.writerPipelines,
    waiters: config.writerWaiters,
    limits: { waiting: config.writerQueue, waitingBytes: 64 * 1024 * 1024, items: 128, entries: 500, bytes: 2 * 1024 * 1024 },
    maxCachedAccounts: 100_000,
    committed,
    logger,
    metrics,
  });
  lifetime.add('writer', () => writer.close());

  const duePool = openPool(config.databaseUrl, {
    name: 'ledger expiry',
    max: 1,
    logger,
    metrics,
    settings: ledgerPlans,
    flag: 'app.due',
  });
  lifetime.add('expiry connection', () => duePool.end());
  const due = new DueHolds({ pool: duePool, writer, pollMs: config.duePollMs, logger, metrics });
  lifetime.add('expiry', () => due.close());

  // A pool of its own, so that many slow reads do not make the replica unready.
  const readinessPool = openPool(config.databaseUrl, { name: 'ledger readiness', max: 1, logger, metrics });
  lifetime.add('readiness', () => readinessPool.end());
  const stateOf = databaseState(readinessPool, logger);
  const readiness = async (): Promise<Readiness> => {
    const state = await stateOf();
    return { ready: state === 'ok', dependencies: { postgresql: state, ...relay.state() } };
  };
  await serveUntilEnd(lifetime, config, {
    services: [LedgerService],
    routes: ledgerRoutes({ writer, reads, maxMessageBytes: config.grpcMaxMessageBytes, committed, isEnabled: features.isOn }),
    encoders,
    logger,
    metrics,
    readiness,
  });
}
