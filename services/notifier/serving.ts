// What the notifier consists of, opened in order and stopped in the opposite order.
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Readiness } from '../platform/health.ts';
import { kafkaSettings, type KafkaSettings } from '../platform/kafka-settings.ts';
import type { Lifetime } from '../platform/lifetime.ts';
import { queryPlanSettings } from '../platform/query-plans.ts';
import { openPool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import { databaseState } from '../platform/readiness.ts';
import { serveUntilEnd } from '../platform/serve.ts';
import type { Settings } from '../platform/settings.ts';
import { openLog, openMetrics } from '../platform/telemetry.ts';
import { openTracing } from '../platform/tracing.ts';
import { notifierConfig } from './config.ts';
import type { KafkaConsumer, KafkaConsumerOptions } from './kafka-consumer.ts';
import { assemble, type Notifier } from './notifier.ts';
import { notifierRoutes } from './rpc.ts';
import { migrationNames } from './schema.ts';
import { deleteExpired } from './retention.ts';

// Leases, results, destinations and the retention job, each one transaction at a time.
const workConnections = 4;

// Transactions of the consumer at a time. Each may wait two seconds for a tenant that is locked.
const consumerConnections = 3;

const retentionIntervalMs = 10 * 60_000;

// Of the 25 s in which a process has to end, after at most five each for calls and for Kafka.
const graceMs = 13_000;

async function openConsumer(
  settings: KafkaSettings,
  { consumer }: Notifier,
  parts: Pick<KafkaConsumerOptions, 'pool' | 'logger' | 'metrics'>,
): Promise<KafkaConsumer> {
  const { openKafka } = await import('../platform/kafka.ts');
  const { KafkaConsumer } = await import('./kafka-consumer.ts');
  const ingest: KafkaConsumerOptions['ingest'] = (events, more) => consumer.ingest(events, more);
  return new KafkaConsumer({
    kafka: openKafka(settings, 'notifier', parts.logger),
    topic: settings.topic,
    group: 'notifier',
    ingest,
    ...parts,
  });
}

/** Serves until the lifetime ends. Throws `BadSetting` and `StartFailure`, which say what the operator can mend. */
export async function serveNotifier(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = notifierConfig(settings);
  const kafka = kafkaSettings(settings);
  const logger = openLog('notifier', config.logLevel);
  const metrics = openMetrics('notifier');
  await openTracing('notifier', config.tracing, { lifetime, logger, metrics });
  const pools = { logger, metrics, settings: queryPlanSettings };
  const calls = openPool(config.databaseUrl, { name: 'notifier calls', max: config.connections, ...pools });
  lifetime.add('calls', () => calls.end());
  const work = openPool(config.databaseUrl, { name: 'notifier work', max: workConnections, ...pools });
  lifetime.add('work', () => work.end());
  const consuming = openPool(config.databaseUrl, { name: 'notifier consumer', max: consumerConnections, ...pools });
  lifetime.add('consumer', () => consuming.end());
  await checkDatabase(calls, migrationNames);

  const notifier = assemble(config, { calls, work, consuming, logger, metrics });
  lifetime.add('http client', () => notifier.httpClient.close());
  notifier.worker.start();
  lifetime.add('delivery worker', () => notifier.worker.stop(graceMs));

  const ending = new AbortController();
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    running ??= deleteExpired(work, config.retentionDays, ending.signal)
      .then(
        (deliveries) => logger.info({ deliveries }, 'expired deliveries deleted'),
        (error: unknown) => logger.warn({ err: error }, 'deleting expired deliveries failed'),
      )
      .finally(() => (running = undefined));
  }, retentionIntervalMs);
  lifetime.add('retention', () => {
    clearInterval(timer);
    ending.abort();
    return running;
  });

  const events = kafka && (await openConsumer(kafka, notifier, { pool: consuming, logger, metrics }));
  if (events) lifetime.add('events', () => events.close());

  // Apart from the calls: where those are many and slow, events and deliveries go on.
  const readinessPool = openPool(config.databaseUrl, { name: 'notifier readiness', max: 1, logger, metrics });
  lifetime.add('readiness connection', () => readinessPool.end());
  const ask = databaseState(readinessPool, logger);
  const readiness = async (): Promise<Readiness> => {
    const answer = await ask();
    return { ready: answer === 'ok', dependencies: { postgresql: answer, ...(events && { kafka: events.state() }) } };
  };
  await serveUntilEnd(lifetime, config, {
    services: [NotifierService],
    routes: notifierRoutes(notifier),
    logger,
    metrics,
    readiness,
  });
}
