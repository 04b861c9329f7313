// Transactions whose statements travel together: sent without awaiting each other they make one round trip, the commit included.
import type { Client, Pool } from '../platform/postgres.ts';

/**
 * Runs `work`, which begins and commits by itself, and awaits what it sends by `all`. Where it throws, a commit that was sent behind what failed
 * has rolled back; the connection is then closed, whatever its state.
 */
export async function onClient<Result>(pool: Pool, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = await pool.connect();
  try {
    const result = await work(client);
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}
