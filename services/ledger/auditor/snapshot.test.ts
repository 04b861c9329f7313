// The auditor's snapshots: one moment of one tenant, under a role that changes nothing of the ledger's.
import { SharedPool } from '../../platform/shared-pool.ts';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { entries, newTenant, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { auditorAdds, auditorTables } from '../schema.ts';
import { inSnapshot } from './snapshot.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database);
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

const never = new AbortController().signal;

async function postedTenant() {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const post = async () => {
    const posting = { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') };
    return (await ledger.client.postTransaction({ posting })).transaction!;
  };
  return { tenantId, tenant, post };
}

const snapshotOf = <Result>(tenant: string, work: Parameters<typeof inSnapshot<Result>>[3], statementMs = 60_000) =>
  inSnapshot(new SharedPool(auditor.pool).of(tenant, never), tenant, { statementMs }, work);

test('a snapshot stays at its head while more is posted, and sees no other tenant', async () => {
  const [{ tenantId, tenant, post }, other] = [await postedTenant(), await postedTenant()];
  const { sequence } = await post();
  await other.post();
  const read = await snapshotOf(tenant, async ({ client, head }) => {
    const count = async () => (await client.query<{ count: bigint }>('select count(*) from transactions')).rows[0]?.count;
    const before = await count();
    await post();
    return { head, before, after: await count() };
  });
  expect(read).toMatchObject({ before: 1n, after: 1n });
  const { events } = await ledger.client.listEvents({ tenantId, afterSequence: sequence - 1n, limit: 1 });
  const [event] = events;
  expect(read.head).toEqual({ sequence, hash: Buffer.from(event!.hash), atMs: Number(event!.createdMs) });
});

test('an empty log has the head 0', async () => {
  const head = await snapshotOf(newTenant().tenant, ({ head: found }) => Promise.resolve(found));
  expect(head).toEqual({ sequence: 0n, hash: Buffer.alloc(32), atMs: null });
});

test('a statement that takes too long fails, and the connection is closed', async () => {
  const { tenant } = await postedTenant();
  const slow = snapshotOf(tenant, ({ client }) => client.query('select pg_sleep(60)'), 20);
  await expect(slow).rejects.toMatchObject({ code: '57014' });
  expect(await snapshotOf(tenant, ({ client }) => client.query('select 1 as one'))).toMatchObject({ rows: [{ one: 1 }] });
});

test('the role changes its own tables only, and calls no function of the ledger', async () => {
  const { rows } = await auditor.pool.query<{ name: string; right: string }>(
    `select c.relname as name, string_agg(lower(privilege), ' ') as right
      from pg_class c, unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) privilege
      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and has_table_privilege(c.oid, privilege) group by 1`,
  );
  const may = Object.fromEntries(rows.map(({ name, right }) => [name, right]));
  for (const [name, right] of Object.entries(may)) {
    const adds = auditorAdds.includes(name) ? 'select insert' : 'select';
    expect([name, right]).toEqual([name, auditorTables.includes(name) ? 'select insert update delete' : adds]);
  }
  expect(Object.keys(may)).toEqual(expect.arrayContaining([...auditorTables, 'log', 'heads', 'entries']));
  await expect(auditor.pool.query(`select delete_tenant('${newTenant().tenant}', 1)`)).rejects.toMatchObject({ code: '42501' });
  for (const table of auditorTables) await expect(ledger.pool.query(`delete from ${table}`)).rejects.toMatchObject({ code: '42501' });
});
