// A pool that many tenants share: whoever has many slow statements leaves connections for the others.
import type { Client, Connections, Pool } from './postgres.ts';
import { FairSemaphore } from './fair-semaphore.ts';

// A tenant may hold three of four connections, and always one: of the ledger's eight, two are left when a tenant has all of his.
const ofOne = (connections: number) => Math.max(1, Math.floor((connections * 3) / 4));

/**
 * The connections of a pool, so many at once for each tenant and in turn over the tenants that wait. The pool itself gives them to whoever asked
 * first: one tenant with five hundred lists in flight was served before another's one call.
 */
export class SharedPool {
  private readonly pool: Pool;
  private readonly turns: FairSemaphore;

  constructor(pool: Pool) {
    this.pool = pool;
    const { max, connectionTimeoutMillis: patienceMs } = pool.options;
    this.turns = new FairSemaphore({ most: max, ofOne: ofOne(max), patienceMs });
  }

  /**
   * Connections for one call of a tenant (UUID), which are waited for as long as for one of the pool, while `signal` does not tell that the caller
   * is gone. Whoever asks for one gets {@link Overloaded} where too many wait.
   */
  of(tenant: string, signal: AbortSignal): Connections {
    return { connect: () => this.connect(tenant, signal) };
  }

  private async connect(tenant: string, signal: AbortSignal): Promise<Client> {
    await this.turns.begin(tenant, signal);
    try {
      const client = await this.pool.connect();
      // The pool makes it anew each time it hands the connection out.
      const release = client.release.bind(client);
      client.release = (error) => {
        release(error);
        this.turns.end(tenant);
      };
      return client;
    } catch (error) {
      this.turns.end(tenant);
      throw error;
    }
  }
}
