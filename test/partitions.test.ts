// The log partitioned by time, as an experiment: what goes on, what the database no longer checks, and what a detached year means.
import { tenantPolicy } from '../services/platform/postgres.ts';
import { openAudit, type Audit } from './audit.ts';
import { entries, newTenant } from './ledger.ts';

let audit: Audit;
const { tenantId, tenant } = newTenant();

beforeAll(async () => {
  audit = await openAudit();
  await audit.ledger.client.setUpChart({ tenantId, businessType: 'wallet' });
});
afterAll(() => audit.end());

async function post(count: number): Promise<void> {
  for (let each = 0; each < count; each++) {
    const lines = entries('SETTLEMENT-USD debit 1.00 USD', 'CUSTOMER-WALLETS-USD credit 1.00 USD');
    await audit.ledger.client.postTransaction({ posting: { tenantId, entries: lines } });
  }
}

/** Makes a partitioned table of the log; what it has so far is one partition. */
async function partition(): Promise<void> {
  const { owner, ledger } = audit;
  const role = `"${new URL(ledger.database.serviceUrl).username}"`;
  const { rows } = await owner.query<{ now: string }>('select clock_timestamp()::text as now');
  const now = `'${rows[0]!.now}'`;
  for (const statement of [
    'begin',
    'alter table log rename to log_before',
    'create table log (like log_before including defaults) partition by range (created_at)',
    // Without a key of its own: each partition has that of the log.
    `alter table log attach partition log_before for values from (minvalue) to (${now})`,
    `create table log_after partition of log (primary key (tenant_id, sequence)) for values from (${now}) to (maxvalue)`,
    ...tenantPolicy('log'),
    'create policy operator on log for select to current_user using (true)',
    `grant select, insert on log to ${role}`,
    'commit',
  ])
    await owner.query(statement);
}

test('without the partition column PostgreSQL refuses the key that keeps the sequence unique', async () => {
  await expect(
    audit.owner.query('create table tried (like log, primary key (tenant_id, sequence)) partition by range (created_at)'),
  ).rejects.toThrow(/unique constraint on partitioned table must include all partitioning columns/);
});

const sequences = async () =>
  (await audit.ledger.client.listEvents({ tenantId, limit: 100 })).events.map(({ sequence }) => Number(sequence));
const countTransactions = async () => (await audit.ledger.client.listTransactions({ tenantId, limit: 100 })).transactions.length;

test('a ledger posts to a partitioned log and reads it, but verify refuses it, and no key spans its partitions', async () => {
  await post(3);
  await partition();
  await post(3);
  const all = await sequences();
  expect(all).toEqual(all.map((_, index) => index + 1));
  expect(await countTransactions()).toBe(6);
  await expect(audit.verified()).rejects.toThrow(/^nothing derives log_(before|after), log_(before|after) from the log$/);

  const { owner } = audit;
  await owner.query('begin');
  await owner.query(`select set_config('app.tenants', $1, true)`, [`{${tenant}}`]);
  const again = `insert into log select (jsonb_populate_record(l, '{"created_at": "infinity"}')).* from log l where tenant_id = $1 and sequence = 1`;
  expect((await owner.query(again, [tenant])).rowCount).toBe(1);
  await owner.query('rollback');
  // A read by sequence looks into every partition.
  const { rows } = await owner.query<{ 'QUERY PLAN': string }>(`explain select from log where tenant_id = '${tenant}' and sequence = 1`);
  const plan = rows.map((row) => row['QUERY PLAN']).join();
  for (const name of ['log_before', 'log_after']) expect(plan).toContain(name);
});

test('without a detached partition lists silently lack old transactions, and postings go on; attached again, nothing is lost', async () => {
  const { owner } = audit;
  const before = await sequences();
  await owner.query('alter table log detach partition log_before');
  await post(1);
  expect((await sequences())[0]).toBeGreaterThan(1);
  expect(await countTransactions()).toBe(4);
  const { rows } = await owner.query<{ end: string }>(`select (max(created_at) + interval '1 microsecond')::text as end from log_before`);
  await owner.query(`alter table log attach partition log_before for values from (minvalue) to ('${rows[0]!.end}')`);
  expect(await sequences()).toEqual([...before, before.length + 1]);
  expect(await countTransactions()).toBe(7);
});
