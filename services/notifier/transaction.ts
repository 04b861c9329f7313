// Transactions whose statements travel together: sent without awaiting each other they make one round trip, the commit included.
import type { Client, Pool } from '../platform/postgres.ts';

/**
 * Runs `work`, which begins and commits by itself. Where a statement fails, a commit that was sent after it rolls back; the connection is
 * then closed, whatever its state, and what is thrown is the first failure: those after it only say that the transaction is aborted.
 */
export async function onClient<Result>(pool: Pool, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = await pool.connect();
  const failures: unknown[] = [];
  const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>;
  const watched = (...given: unknown[]) => {
    const answer = query(...given);
    answer.catch((error: unknown) => failures.push(error));
    return answer;
  };
  try {
    const result = await work(new Proxy(client, { get: (it, name) => (name === 'query' ? watched : Reflect.get(it, name)) as unknown }));
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw failures[0] ?? error;
  }
}
