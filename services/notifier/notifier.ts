// Puts the notifier's parts together, for the process and for tests.
import type { Registry } from 'prom-client';
import type { Pool } from '../platform/postgres.ts';
import { SecretEncryption } from '../platform/secret-encryption.ts';
import type { Logger } from '../platform/telemetry.ts';
import { Targets } from './addresses.ts';
import { registerBacklog } from './backlog.ts';
import type { NotifierConfig } from './config.ts';
import { Consumer } from './consumer.ts';
import { DeliveryWorker } from './delivery-worker.ts';
import { HttpClient } from './http-client.ts';
import type { NotifierContext } from './rpc.ts';

/** What is opened first. */
export interface Opened {
  /** For calls. */
  calls: Pool;
  /** For leases, results and the retention job. */
  work: Pool;
  /** For the consumer of events. */
  consuming: Pool;
  logger: Logger;
  metrics: Registry;
}

/** Settings that tests change. */
export interface Tuning {
  targets?: Targets;
  /** Certificates to trust instead of the system's, PEM. */
  ca?: string;
  marginMs?: number;
  pollMs?: number;
}

/** A notifier's parts. */
export type Notifier = NotifierContext & { httpClient: HttpClient };

/** Puts the parts together; the delivery worker is not started. */
export function assemble(
  config: Pick<
    NotifierConfig,
    'encryptionKeys' | 'insecureTargets' | 'retryDelays' | 'timeoutMs' | 'quotas' | 'concurrency' | 'endpointConcurrency'
  >,
  { calls, work, consuming, logger, metrics }: Opened,
  tuning: Tuning = {},
): Notifier {
  const targets = tuning.targets ?? new Targets(config.insecureTargets);
  const secrets = new SecretEncryption('WEBHOOK_ENCRYPTION_KEY', config.encryptionKeys);
  const { timeoutMs, retryDelays, concurrency, endpointConcurrency, quotas } = config;
  const httpClient = new HttpClient({ targets, timeoutMs, ...(tuning.ca !== undefined && { ca: tuning.ca }) });
  const { marginMs = 15_000, pollMs = 1_000 } = tuning;
  const times = { retryDelays, timeoutMs, marginMs, pollMs };
  const worker = new DeliveryWorker({ pool: work, httpClient, secrets, logger, metrics, ...times, concurrency, endpointConcurrency });
  const consumer = new Consumer({ pool: consuming, logger, metrics, wake: () => worker.wake() });
  registerBacklog(calls, metrics);
  return { pool: calls, secrets, targets, quotas, worker, consumer, httpClient };
}
