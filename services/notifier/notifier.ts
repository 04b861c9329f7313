// The notifier's parts put together, for the process and for tests of it.
import type { Registry } from 'prom-client';
import { memoryOfAll } from '../platform/memory.ts';
import type { Pool } from '../platform/postgres.ts';
import type { Logger } from '../platform/telemetry.ts';
import { Targets } from './addresses.ts';
import { mostOpen } from './attempts.ts';
import { registerBacklog } from './backlog.ts';
import { unreadableSeconds } from './leases.ts';
import type { NotifierConfig } from './config.ts';
import { Consumer } from './consumer.ts';
import { DeliveryWorker } from './delivery-worker.ts';
import { HttpClient } from './http-client.ts';
import type { NotifierParts } from './rpc.ts';
import { SecretEncryption } from './secret-encryption.ts';

/** What is opened before. */
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
  shunMs?: number;
  /** What attempts may take up of the memory, bytes. */
  mostMemory?: number;
}

/** What a notifier is made of. */
export type Notifier = NotifierParts & { sender: HttpClient };

/** Puts the parts together; the courier is not started. */
export function assemble(
  config: Pick<
    NotifierConfig,
    'encryptionKeys' | 'insecureTargets' | 'retryDelays' | 'timeoutMs' | 'quotas' | 'concurrency' | 'endpointConcurrency'
  >,
  { calls, work, consuming, logger, metrics }: Opened,
  tuning: Tuning = {},
): Notifier {
  const targets = tuning.targets ?? new Targets(config.insecureTargets);
  const vault = new SecretEncryption(config.encryptionKeys);
  const { timeoutMs, retryDelays, concurrency, endpointConcurrency: perTenant, quotas } = config;
  const sender = new HttpClient({ targets, timeoutMs, ...(tuning.ca !== undefined && { ca: tuning.ca }) });
  // The other half is what a notifier has without them, and what the allocator keeps.
  const { marginMs = 15_000, pollMs = 1_000, shunMs = unreadableSeconds * 1000, mostMemory = memoryOfAll() / 2 } = tuning;
  const courier = new DeliveryWorker({
    pool: work,
    sender,
    vault,
    logger,
    metrics,
    retryDelays,
    timeoutMs,
    concurrency: Math.min(concurrency, mostOpen),
    perTenant,
    mostMemory,
    marginMs,
    pollMs,
    shunMs,
  });
  const consumer = new Consumer({ pool: consuming, logger, metrics, wake: () => courier.wake() });
  registerBacklog(calls, metrics);
  return { pool: calls, vault, targets, quotas, courier, consumer, sender };
}
