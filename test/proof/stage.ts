// What a nemesis works on: a running cluster with everything round it, and the faults that it can choose from.
import type { Cluster } from '../cluster.ts';
import type { OwnKafka } from '../kafka.ts';
import type { OwnPostgres } from '../own-postgres.ts';
import type { Chance } from './chance.ts';
import type { Customer } from './clients.ts';
import type { Clocks } from './clocks.ts';
import type { Wires } from './wires.ts';

/** How many processes of each service there are. */
export const replicas = { identity: 1, ledger: 2, notifier: 2 } as const;

/** All processes of the cluster. */
export const processes = ['gateway', 'identity', 'ledger', 'ledger-2', 'notifier', 'notifier-2'] as const;

/** What can be had here, and so be broken. */
export interface Means {
  /** Events travel over Kafka, not over gRPC. */
  kafka: boolean;
  /** PostgreSQL is on a disk of its own that can be full. */
  disk: boolean;
  /** The processes' clocks can be set. */
  clocks: boolean;
}

/** Everything that can be broken. */
export interface Stage {
  cluster: Cluster;
  server: OwnPostgres;
  /** Null where events go over gRPC. */
  kafka: OwnKafka | null;
  /** Null where they can't be set. */
  clocks: Clocks | null;
  wires: Wires;
  customers: Customer[];
  /** Seconds that a process is stalled, least and most; so long is a clock wrong and a disk full, too. */
  stallSeconds: [number, number];
}

/** What the clients may suffer from a fault: of the tenants it is about (undefined: all) seconds of silence, and of the others none. */
export interface Suffering {
  /** UUIDs. */
  tenants?: string[];
  limitSeconds?: number;
  /** What was seen while the fault was there and may not be. */
  wrong?: string[];
}

/** A fault: strikes, lasts, and is mended when it resolves. */
export interface Fault {
  name: string;
  /** Faults of one target are never there at once; null: nothing else is. */
  target: string | null;
  run(stage: Stage, chance: Chance): Promise<Suffering>;
}

/** Milliseconds that a fault lasts. */
export function lastingMs({ stallSeconds: [least, most] }: Stage, chance: Chance): number {
  return chance.whole(least * 1000, most * 1000);
}
