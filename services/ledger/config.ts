// The ledger's settings.
import { availableParallelism } from 'node:os';
import { kafkaSettings, type KafkaSettings } from '../platform/kafka-settings.ts';
import { commonSettings, type CommonSettings, type Settings } from '../platform/settings.ts';

/** What the ledger reads from its environment. */
export interface LedgerConfig extends CommonSettings {
  databaseUrl: string;
  /** Batches of mixed tenants at a time, each on a connection of its own. */
  writerPipelines: number;
  /** Connections for batches that wait for one tenant's head. */
  writerWaiters: number;
  /** Postings that may wait in total; half per tenant. */
  writerQueue: number;
  /** Connections for reads and changes of accounts. */
  readConnections: number;
  /** Between looks for holds that are due, milliseconds. */
  duePollMs: number;
  /** Where events go; null: to the notifier. */
  kafka: KafkaSettings | null;
  /** `host:port` of the notifier; null where events go to Kafka, or nowhere. */
  notifierAddresses: string[] | null;
}

/** Reads and checks the settings. Throws BadSetting. */
export function ledgerConfig(settings: Settings): LedgerConfig {
  const kafka = kafkaSettings(settings);
  return {
    ...commonSettings(settings, 50052),
    databaseUrl: settings.databaseUrl('DATABASE_URL'),
    // One pipeline keeps two cores busy, this process and PostgreSQL. On two cores a second one only halves the batches.
    writerPipelines: settings.integer('WRITER_PIPELINES', {
      min: 1,
      max: 16,
      fallback: Math.min(4, Math.max(1, availableParallelism() >> 1)),
    }),
    writerWaiters: settings.integer('WRITER_WAITERS', { min: 1, max: 16, fallback: 4 }),
    writerQueue: settings.integer('WRITER_QUEUE', { min: 10, max: 1_000_000, fallback: 8_000 }),
    readConnections: settings.integer('READ_CONNECTIONS', { min: 1, max: 100, fallback: 8 }),
    duePollMs: settings.integer('DUE_POLL_MS', { min: 10, max: 600_000, fallback: 1_000 }),
    kafka,
    notifierAddresses: kafka || settings.optional('NOTIFIER_ADDR') === undefined ? null : settings.addresses('NOTIFIER_ADDR'),
  };
}
