// Deletion of a tenant in the notifier: every row goes, and neither late events nor attempts in flight make new ones.
import { withClient } from '../../deploy/local/databases.ts';
import { endStarted, ingest, lease, receiver, result, start, subscribe } from '../../test/deliveries.ts';
import { refusal } from '../../test/identity.ts';
import { newTenant, settled, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';
import { recordResults } from './delivery-results.ts';

afterEach(endStarted);

/** Names of the tables that have rows of a tenant, of all tables with tenants. */
async function left(notifier: RunningNotifier, tenant: string): Promise<string[]> {
  return withClient(notifier.database.adminUrl, async (admin) => {
    const tables = await admin.query<{ name: string }>(
      `select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id' order by 1`,
    );
    const found: string[] = [];
    for (const { name } of tables.rows)
      if ((await admin.query(`select from ${name} where tenant_id = $1`, [tenant])).rowCount !== 0) found.push(name);
    return found;
  });
}

async function deleted(notifier: RunningNotifier, { tenantId }: TestTenant): Promise<void> {
  while (!(await notifier.client.deleteTenant({ tenantId })).done);
}

const tombstone = ['deleted_tenants'];
const everyTable = ['attempts', 'deliveries', 'due', 'gaps', 'inbox', 'late', 'leases', 'limits', 'payloads', 'webhooks'];

/** A tenant with rows in every table. */
async function filled(notifier: RunningNotifier): Promise<TestTenant> {
  const { url } = await receiver();
  const tenant = await subscribe(notifier, url);
  const events = Array.from({ length: 6 }, () => tenant.posting());
  await notifier.client.ingest({ events: [events[0]!, events[3]!, events[1]!] });
  await settled(notifier.client, tenant.tenantId, 3);
  await notifier.client.testWebhook({ tenantId: tenant.tenantId, eventType: 'test.webhook' });
  await inTransaction(notifier.work, [tenant.tenant], (client) =>
    client.query('insert into leases select tenant_id, id, id, now(), now() from deliveries limit 1'),
  );
  return tenant;
}

test('every row of a tenant goes, and other tenants keep theirs', async () => {
  const notifier = await start();
  const [mine, theirs] = [await filled(notifier), await filled(notifier)];
  for (const { tenantId } of [mine, theirs]) {
    await withClient(notifier.database.adminUrl, (admin) =>
      admin.query(
        `insert into dead_letters (id, source, key, value, reason, received_at) values
          (gen_random_uuid(), $1 || ' 1.0', null, convert_to($1, 'UTF8'), 'x', now()),
          (gen_random_uuid(), 'topic 1 2', convert_to($1, 'UTF8'), convert_to($1 || 'k', 'UTF8'), 'x', now())`,
        [tenantId],
      ),
    );
  }
  for (const { tenant } of [mine, theirs]) expect(await left(notifier, tenant)).toEqual(everyTable);
  await deleted(notifier, mine);
  expect(await left(notifier, mine.tenant)).toEqual(tombstone);
  expect(await left(notifier, theirs.tenant)).toEqual(everyTable);
  const letters = await withClient(
    notifier.database.adminUrl,
    async (admin) => (await admin.query('select source from dead_letters order by 1')).rows,
  );
  expect(letters).toEqual([{ source: `${theirs.tenantId} 1.0` }, { source: 'topic 1 2' }]);
  expect(await notifier.client.deleteTenant({ tenantId: mine.tenantId })).toMatchObject({ done: true });
});

test('late events of a deleted tenant make no rows, and events of others in the same call are delivered', async () => {
  const notifier = await start();
  const gone = await filled(notifier);
  const { url, count } = await receiver();
  const other = await subscribe(notifier, url);
  await deleted(notifier, gone);
  const unseen = newTenant();
  await deleted(notifier, unseen);
  await notifier.client.ingest({ events: [gone.posting(), unseen.posting(), other.posting()], deriveUpdates: true });
  await count(1);
  const stretch = { after: 0n, through: 9n, createdMs: 0n };
  expect(await notifier.client.pass({ stretches: [gone, unseen].map(({ tenantId }) => ({ tenantId, ...stretch })) })).toMatchObject({
    wantedTenantIds: [],
  });
  for (const { tenant } of [gone, unseen]) expect(await left(notifier, tenant)).toEqual(tombstone);
});

test('events at the same time as the deletion make no rows that stay', async () => {
  const notifier = await start();
  for (let round = 0; round < 10; round++) {
    const tenant = round % 2 === 0 ? newTenant() : await subscribe(notifier, 'http://127.0.0.1:1/');
    const calls = Array.from({ length: 10 }, () => notifier.client.ingest({ events: [tenant.posting()] }).catch(() => undefined));
    await Promise.all([...calls, deleted(notifier, tenant), deleted(notifier, tenant)]);
    expect(await left(notifier, tenant.tenant)).toEqual(tombstone);
    await notifier.client.ingest({ events: [tenant.posting()] });
    expect(await left(notifier, tenant.tenant)).toEqual(tombstone);
  }
});

test('the result of an attempt that was in flight makes no rows', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 2);
  const { leased } = await lease(notifier.work);
  expect(leased).toHaveLength(2);
  await deleted(notifier, tenant);
  await recordResults(
    notifier.work,
    leased.map((each) => result(each, 'delivered')),
  );
  expect(await left(notifier, tenant.tenant)).toEqual(tombstone);
  expect((await lease(notifier.work)).leased).toEqual([]);
});

test('a tenant with more deliveries than one part deletes goes wholly', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  for (let part = 0; part < 5; part++) await notifier.client.ingest({ events: Array.from({ length: 1_000 }, () => tenant.posting()) });
  await deleted(notifier, tenant);
  expect(await left(notifier, tenant.tenant)).toEqual(tombstone);
});

test('a deleted tenant can’t configure a webhook again', async () => {
  const notifier = await start();
  const tenant = await filled(notifier);
  await deleted(notifier, tenant);
  const { tenantId } = tenant;
  const call = notifier.client.configureWebhook({ tenantId, url: 'http://127.0.0.1:1/', events: ['transaction.posted'] });
  expect(await refusal(call)).toMatchObject({ reason: 'validation_failed', field: 'tenant_id', tag: 'deleted' });
  expect(await left(notifier, tenant.tenant)).toEqual(tombstone);
  const change = (text: string) => inTransaction(notifier.work, [tenant.tenant], (client) => client.query(text));
  await expect(change('delete from deleted_tenants')).rejects.toMatchObject({ code: '42501' });
});
