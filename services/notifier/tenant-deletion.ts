// Deletes all rows of a tenant for ever, a part at a time. Later events of it are ignored.
import { inTransaction, type Client, type Connections } from '../platform/postgres.ts';
import { toId } from '../platform/ids.ts';
import { deadLettersJob } from './dead-letters.ts';
import { lockLeases } from './leases.ts';

/** The constraint that refuses rows of a deleted tenant. */
export const deletedConstraint = 'tenant_must_not_return';

// Rows of a table in a transaction: it locks nothing for long, and stays within its time limit on a slow disk.
const maxRows = 2_000;
// A call goes on for so long.
const callMs = 2_000;

/** Deletes rows of a tenant (UUID); true if none is left. */
export async function deleteTenant(connections: Connections, tenant: string): Promise<boolean> {
  const end = performance.now() + callMs;
  while (performance.now() < end) {
    // Until one finds nothing: what a call was writing at the first is found by the next.
    if ((await inTransaction(connections, [tenant], (client) => deletePart(client, tenant))) === 0) return true;
  }
  return false;
}

/** Returns how many rows it has deleted. */
async function deletePart(client: Client, tenant: string): Promise<number> {
  let deleted = 0;
  const run = async (text: string, values: unknown[] = [tenant]) => (await client.query(text, values)).rowCount ?? 0;
  const remove = async (text: string, values?: unknown[]) => void (deleted += await run(text, values));
  // No delivery is leased meanwhile.
  await client.query(lockLeases, [tenant]);
  // With a row of its own, this waits for a consumer that makes one, or that one for this.
  await run(`insert into inbox (tenant_id, sequence, part) select $1, 0, 0
    where not exists (select from deleted_tenants where tenant_id = $1) on conflict do nothing`);
  await run('insert into deleted_tenants (tenant_id, deleted_at) values ($1, clock_timestamp()) on conflict do nothing');
  for (const table of ['inbox', 'webhooks', 'due', 'limits', 'leases']) await remove(`delete from ${table} where tenant_id = $1`);
  // By id, not by ctid: the result of an attempt may come meanwhile. It adds an attempt, so those are deleted afterwards.
  await remove(
    `delete from deliveries where tenant_id = $1 and id = any (array(select id from deliveries where tenant_id = $1 limit ${maxRows}))`,
  );
  for (const table of ['attempts', 'payloads', 'gaps', 'late']) {
    await remove(`delete from ${table} where ctid = any (array(select ctid from ${table} where tenant_id = $1 limit ${maxRows}))`);
  }
  await client.query(deadLettersJob);
  const id = toId('tenant', tenant);
  await remove(`delete from dead_letters where split_part(source, ' ', 1) = $1 or key = convert_to($1, 'UTF8')`, [id]);
  return deleted;
}
