// What the fault injector works on: a running cluster with PostgreSQL, Kafka and proxies of its own, and the shape of a fault.
import type { Cluster } from '../../cluster.ts';
import type { OwnKafka } from '../../kafka.ts';
import type { OwnPostgres } from '../../own-postgres.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { Customer } from './clients.ts';
import type { ClusterProxies } from './proxies.ts';

/** Processes of each service. */
export const replicas = { identity: 1, ledger: 2, notifier: 2 } as const;

/** All processes of the cluster. */
export const processes = ['gateway', 'identity', 'ledger', 'ledger-2', 'notifier', 'notifier-2'] as const;

/** What this machine allows. */
export interface Setup {
  /** Events travel over Kafka instead of gRPC. */
  kafka: boolean;
  /** PostgreSQL has a disk of its own that can be filled. */
  disk: boolean;
}

/** Everything that can be broken. */
export interface TestBench {
  cluster: Cluster;
  postgres: OwnPostgres;
  /** Null where events go over gRPC. */
  kafka: OwnKafka | null;
  proxies: ClusterProxies;
  customers: Customer[];
  /** Seconds that a process is stalled or a disk full, least and most. */
  stallSeconds: [number, number];
}

/** How long clients may go without an answer because of a fault. */
export interface Impact {
  /** UUIDs of the tenants that it concerns; by default all. */
  tenants?: string[];
  limitSeconds?: number;
  /** What was wrong while the fault lasted. */
  wrong?: string[];
}

/** A fault: begins when run, and is repaired when it resolves. */
export interface Fault {
  name: string;
  /** Faults of one target are never combined; null: not combined with any. */
  target: string | null;
  run(bench: TestBench, random: SeededRandom): Promise<Impact>;
}

/** How long a fault lasts, milliseconds. */
export function durationMs({ stallSeconds: [least, most] }: TestBench, random: SeededRandom): number {
  return random.whole(least * 1000, most * 1000);
}
