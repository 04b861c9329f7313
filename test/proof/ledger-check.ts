// Checks that the ledger of a cluster is right: currencies sum to zero, and `verify` finds nothing.
import { withClient } from '../../deploy/local/databases.ts';
import { verify } from '../../services/ledger/audit/verify.ts';
import type { Cluster } from '../cluster.ts';

/** What is wrong, one line each; empty where nothing is. */
export async function ledgerFaults(cluster: Cluster): Promise<string[]> {
  return withClient(cluster.databases.ledger.adminUrl, async (client) => {
    const { rows } = await client.query<{ tenant_id: string; currency: string; sum: string }>(
      'select tenant_id, currency, sum(debits - credits)::text as sum from balances group by tenant_id, currency having sum(debits - credits) <> 0',
    );
    const faults = rows.map((row) => `${row.tenant_id} ${row.currency}: debits less credits are ${row.sum}`);
    await verify(client, {}, (line) => faults.push(line));
    return faults;
  });
}
