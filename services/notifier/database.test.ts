import pg from 'pg';
import { v7 as uuidv7 } from 'uuid';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { migrations } from './migrations.ts';
import { migrationNames } from './schema.ts';

const tables = ['attempts', 'deliveries', 'due', 'gaps', 'inbox', 'late', 'leases', 'limits', 'payloads', 'webhooks'] as const;

const rows: Record<(typeof tables)[number], string> = {
  webhooks: `tenant_id, url, events, enabled, secret, created_at, updated_at) values ($1, 'https://a.example/', '{test.webhook}', true, 's', now(), now()`,
  inbox: 'tenant_id, sequence, part, parts) values ($1, 1, 0, 0',
  gaps: 'tenant_id, after_sequence, after_part, before_sequence, before_part, found_at) values ($1, 1, 0, 3, 0, now()',
  late: 'tenant_id, sequence, part) values ($1, 2, 0',
  deliveries: `tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
    values ($1, gen_random_uuid(), gen_random_uuid(), 'test.webhook', true, 'pending', 1, false, now(), now()`,
  payloads: `tenant_id, event_id, body) values ($1, gen_random_uuid(), '{}'`,
  leases: 'tenant_id, delivery_id, lease_id, started_at, until) values ($1, gen_random_uuid(), gen_random_uuid(), now(), now()',
  attempts: 'tenant_id, delivery_id, number, started_at, duration_ms) values ($1, gen_random_uuid(), 1, now(), 1',
  due: 'tenant_id, next_at) values ($1, now()',
  limits: `tenant_id, policy, taken) values ($1, 'tests', '{}'`,
};

let database: FreshDatabase;
let service: pg.Client;
const [mine, theirs] = [uuidv7(), uuidv7()];

beforeAll(async () => {
  database = await freshDatabase('notifier', { migrated: true });
  service = new pg.Client({ connectionString: database.serviceUrl });
  await service.connect();
  for (const tenant of [mine, theirs]) {
    await within({ 'app.tenants': `{${tenant}}` }, async () => {
      for (const table of tables) await insert(table, tenant);
    });
  }
});

afterAll(async () => {
  await service.end();
  await database.drop();
});

const insert = (table: (typeof tables)[number], tenant: string) => service.query(`insert into ${table} (${rows[table]})`, [tenant]);

// A transaction on the one connection that served all others before it.
async function within<Result>(settings: Record<string, string>, work: () => Promise<Result>): Promise<Result> {
  await service.query('begin');
  try {
    for (const [name, value] of Object.entries(settings)) await service.query('select set_config($1, $2, true)', [name, value]);
    const result = await work();
    await service.query('commit');
    return result;
  } catch (error) {
    await service.query('rollback');
    throw error;
  }
}

const tenantsIn = async (table: string) =>
  (await service.query(`select tenant_id from ${table} order by 1`)).rows.map((row) => row.tenant_id);

describe.each(tables)('%s', (table) => {
  test.each([
    ['no setting', {}],
    ['empty settings', { 'app.tenants': '', 'app.job': '' }],
    ['another tenant', { 'app.tenants': `{${uuidv7()}}` }],
    ['no tenants', { 'app.tenants': '{}' }],
    ['another job', { 'app.job': 'dead letters' }],
  ])('with %s no row is seen, changed, deleted or added', async (_, settings) => {
    await within(settings as Record<string, string>, async () => {
      expect(await tenantsIn(table)).toEqual([]);
      expect((await service.query(`update ${table} set tenant_id = $1`, [mine])).rowCount).toBe(0);
      expect((await service.query(`delete from ${table}`)).rowCount).toBe(0);
    });
    await expect(within(settings as Record<string, string>, () => insert(table, uuidv7()))).rejects.toMatchObject({ code: '42501' });
  });

  test('with one tenant set, its rows are visible and no others, and no row can be moved to another tenant', async () => {
    await within({ 'app.tenants': `{${mine}}` }, async () => {
      expect(await tenantsIn(table)).toEqual([mine]);
      expect((await service.query(`delete from ${table} where tenant_id = $1`, [theirs])).rowCount).toBe(0);
    });
    const give = () => service.query(`update ${table} set tenant_id = $1`, [theirs]);
    await expect(within({ 'app.tenants': `{${mine}}` }, give)).rejects.toMatchObject({ code: '42501' });
    await within({ 'app.tenants': `{${mine},${theirs}}` }, async () => expect(await tenantsIn(table)).toEqual([mine, theirs].sort()));
  });
});

test('the search for work sees which tenants have some, changes nothing, and sees nothing else', async () => {
  await within({ 'app.job': 'find work' }, async () => {
    for (const table of tables) expect(await tenantsIn(table)).toEqual(table === 'due' ? [mine, theirs].sort() : []);
    expect((await service.query('update due set next_at = now()')).rowCount).toBe(0);
    expect((await service.query('delete from due')).rowCount).toBe(0);
    expect((await service.query('select from dead_letters')).rowCount).toBe(0);
  });
  await expect(within({ 'app.job': 'find work' }, () => insert('due', uuidv7()))).rejects.toMatchObject({ code: '42501' });
});

test('dead letters are visible to their own job only', async () => {
  const add = () =>
    service.query(`insert into dead_letters (id, source, value, reason, received_at) values ($1, 's', '', 'r', now())`, [uuidv7()]);
  await expect(within({ 'app.tenants': `{${mine}}` }, add)).rejects.toMatchObject({ code: '42501' });
  await within({ 'app.job': 'dead letters' }, async () => {
    await add();
    // The same message once.
    await expect(service.query('select from dead_letters')).resolves.toMatchObject({ rowCount: 1 });
  });
  await within({ 'app.tenants': `{${mine}}` }, async () => expect((await service.query('select from dead_letters')).rowCount).toBe(0));
});

test('every table is under row-level security, and those with tenant_id lead their keys and indexes with it', async () => {
  const { rows: found } = await withClient(database.adminUrl, (client) =>
    client.query(`
      select c.relname as table, c.relrowsecurity and c.relforcerowsecurity as forced, a.attnum is not null as of_tenant,
             (select bool_and(i.indkey[0] = a.attnum) from pg_index i where i.indrelid = c.oid and i.indisunique) as keys
      from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname not like 'mikro_orm%' order by 1`),
  );
  expect(found.filter((row) => row.of_tenant).map((row) => row.table)).toEqual([...tables, 'deleted_tenants'].sort());
  expect(found.filter((row) => !row.of_tenant).map((row) => row.table)).toEqual(['dead_letters', 'kafka_offsets']);
  for (const row of found) expect([row.table, row.forced, row.of_tenant ? row.keys : true]).toEqual([row.table, true, true]);
});

test('the schema is no work of the service', async () => {
  await expect(service.query('alter table webhooks add column x int')).rejects.toMatchObject({ code: '42501' });
  await expect(service.query('create table x ()')).rejects.toMatchObject({ code: '42501' });
});

test('the database refuses states that contradict themselves', async () => {
  const change = (text: string) => within({ 'app.tenants': `{${mine}}` }, () => service.query(`update deliveries set ${text}`));
  for (const text of [
    `status = 'delivered'`,
    `status = 'failed'`,
    'delivered_at = now()',
    `status = 'sent'`,
    'attempts = 0',
    `event_type = 'x'`,
  ]) {
    await expect(change(text)).rejects.toMatchObject({ code: '23514' });
  }
});

test('the migrations are those that the service asks for', () => {
  expect(migrations.map((migration) => migration.name)).toEqual(migrationNames);
});
