// A pool shared by tenants: slow statements of one leave connections for the others.
import { FairSemaphore } from './fair-semaphore.ts';
import { countWaiting } from './pool-metrics.ts';
import type { Client, Connections, Pool } from './postgres.ts';

/** Hands out the connections of a pool in turn over the tenants that wait; a tenant has at most three quarters of them at once, and at least one. */
export class SharedPool {
  private readonly connections: Connections;
  private readonly semaphore: FairSemaphore;

  /** `connections`: those of the pool, unless others stand in for them. */
  constructor(pool: Pool, connections: Connections = pool) {
    this.connections = connections;
    const { max, connectionTimeoutMillis: timeoutMs } = pool.options;
    this.semaphore = new FairSemaphore({ max, maxPerKey: Math.max(1, Math.floor((max * 3) / 4)), timeoutMs });
    countWaiting(pool, () => this.semaphore.size);
  }

  /** Connections for one call of a tenant (UUID). `connect` throws `Overloaded` where too many wait, and when `signal` aborts. */
  of(tenant: string, signal: AbortSignal): Connections {
    return { connect: () => this.connect(tenant, signal) };
  }

  private async connect(tenant: string, signal: AbortSignal): Promise<Client> {
    await this.semaphore.acquire(tenant, signal);
    try {
      const client = await this.connections.connect();
      // The pool sets `release` anew each time it hands the connection out.
      const release = client.release.bind(client);
      client.release = (error) => {
        release(error);
        this.semaphore.release(tenant);
      };
      return client;
    } catch (error) {
      this.semaphore.release(tenant);
      throw error;
    }
  }
}
