// What must hold of a cluster after whatever was done to it.
import pg from 'pg';
import { verify } from '../../services/ledger/audit/verify.ts';
import type { Cluster } from '../cluster.ts';

/** What is wrong with the books: sums that are not zero, and whatever `verify` finds in logs and tables. Empty where nothing is. */
export async function faultsOf(cluster: Cluster): Promise<string[]> {
  const client = new pg.Client({ connectionString: cluster.databases.ledger.adminUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ tenant_id: string; currency: string; sum: string }>(
      'select tenant_id, currency, sum(debits - credits)::text as sum from balances group by tenant_id, currency having sum(debits - credits) <> 0',
    );
    const faults = rows.map((row) => `${row.tenant_id} ${row.currency}: debits less credits are ${row.sum}`);
    await verify(client, {}, (line) => faults.push(line));
    return faults;
  } finally {
    await client.end();
  }
}
