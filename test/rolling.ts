// A deployment of two replicas of each process behind a balancer, whose processes are restarted under load.
import { setTimeout as pause } from 'node:timers/promises';
import { openBalancer, type Balancer } from './balancer.ts';
import { startCluster, type Cluster, type ClusterOptions } from './cluster.ts';

/** The processes of which there are two. */
export const processes = ['identity', 'ledger', 'notifier', 'auditor', 'gateway'] as const;

/** How a replica differs from now on. */
export interface Change {
  environment?: NodeJS.ProcessEnv;
  /** The root of another version's sources. */
  sources?: string;
}

/** A running deployment. */
export interface Rolling {
  cluster: Cluster;
  /** The address of the balancer in front of both gateways. */
  url: string;
  /** Restarts one replica as Kubernetes does: out of the balancer, SIGTERM, a new start; resolves when callers use it again. */
  restart(name: string, change?: Change): Promise<void>;
  stop(): Promise<void>;
}

// In the manifests 5 s, because Kubernetes needs that long to tell all nodes.
const preStopMs = 100;
// In the manifests 15 s: callers find an address within seconds, and one they know within a second.
const minReadyMs = 1_500;

/** Starts it. */
export async function startRolling(options: ClusterOptions = {}): Promise<Rolling> {
  const replicas = Object.fromEntries(processes.map((name) => [name, 2]));
  const cluster = await startCluster({ ...options, replicas });
  let balancer: Balancer;
  try {
    balancer = await openBalancer(
      cluster.addresses.gateway.map((address, replica) => {
        const name = replica === 0 ? 'gateway' : `gateway-${replica + 1}`;
        return { name, port: Number(address.split(':')[1]), ops: cluster.opsUrl(name) };
      }),
    );
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  const restart: Rolling['restart'] = async (name, { environment, sources } = {}) => {
    balancer.leave(name);
    await pause(preStopMs);
    await cluster.restart(name, environment, sources);
    balancer.join(name);
    await pause(minReadyMs);
  };
  return {
    ...{ cluster, url: balancer.url, restart },
    async stop() {
      await balancer.close();
      await cluster.stop();
    },
  };
}
