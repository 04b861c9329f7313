// The job that deletes tenants: replicas share the work, each tenant is deleted once, and what fails is tried again.
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { newTenant, newUser, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { startLedger, type RunningLedger } from '../../test/ledger.ts';
import { startNotifier, type RunningNotifier } from '../../test/notifier.ts';
import { until } from '../../test/polling.ts';
import { toUuid } from '../platform/ids.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { TenantDeletions, type DeletingServices } from './tenant-deletion.ts';

let database: FreshDatabase;
let identity: RunningIdentity;
let ledger: RunningLedger;
let notifier: RunningNotifier;
let admin: pg.Client;
let pool: Pool;
let userId: string;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  // It has the job as well, and reaches no ledger.
  identity = await startIdentity(database.serviceUrl, { LEDGER_ADDR: '127.0.0.1:1', NOTIFIER_ADDR: '127.0.0.1:1' });
  [ledger, notifier] = await Promise.all([startLedger(), startNotifier({ claims: false })]);
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  pool = openPool(database.serviceUrl, { name: 'test', max: 6, logger: openLog('test', 'silent') });
  userId = (await newUser(identity.client)).id;
});

const started: TenantDeletions[] = [];
afterEach(() => Promise.all(started.splice(0).map((each) => each.stop())));

afterAll(async () => {
  await pool.end();
  await admin.end();
  await Promise.all([ledger.end(), notifier.end()]);
  await identity.end();
  await database.drop();
});

async function closedTenants(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made++) {
    const tenantId = await newTenant(identity.client, userId);
    await ledger.client.createAccount({ tenantId, accountCode: 'a', name: 'a', type: 'asset' });
    await identity.client.closeTenant({ userId, tenantId });
    ids.push(tenantId);
  }
  return ids;
}
const makeDue = () => admin.query('update closings set delete_at = now(), next_attempt_at = now() where deleted_at is null');
const unfinished = async () => (await admin.query('select from closings where deleted_at is null')).rowCount;

/** A replica's job with these services, and what it logs. */
function replica(services: DeletingServices) {
  const lines: { level: number; msg: string; tenant?: string }[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
  const deletions = new TenantDeletions({ pool, openServices: () => services, logger, metrics: new Registry() });
  started.push(deletions);
  const deleted = () => lines.filter(({ msg }) => msg === 'tenant deleted').map(({ tenant }) => tenant!);
  return { lines, deleted };
}

test('replicas share the work, and one that reaches no ledger stops nobody', async () => {
  const ids = await closedTenants(6);
  const replicas = [1, 2].map(() => replica({ ledger: ledger.client, notifier: notifier.client }));
  await makeDue();
  await until(unfinished, (count) => count === 0);
  expect(replicas.flatMap(({ deleted }) => deleted()).sort()).toEqual([...ids].sort());
  const { rows } = await admin.query('select sequence, length(hash) as length from closings');
  expect(rows).toEqual(ids.map(() => ({ sequence: 1n, length: 64 })));
  expect((await identity.client.listTenants({ userId })).tenants).toEqual([]);
});

test('a long audit log is deleted in parts, so that no statement exceeds its time limit', async () => {
  const [tenantId] = await closedTenants(1);
  await admin.query(
    `insert into tenant_audit (tenant_id, sequence, id, type, created_at, data, previous_hash, hash)
      select $1, 100 + i, gen_random_uuid(), 'access.created', now(), '{}', repeat('0', 64), repeat('0', 64) from generate_series(1, 45000) i`,
    [toUuid('tenant', tenantId!)],
  );
  await admin.query(`create function is_small() returns trigger language plpgsql as $$
    begin
      if (select count(*) from gone) > 20000 then raise exception 'too many rows'; end if;
      return null;
    end $$`);
  await admin.query(
    `create trigger is_small after delete on tenant_audit referencing old table as gone for each statement execute function is_small()`,
  );
  const { deleted } = replica({ ledger: ledger.client, notifier: notifier.client });
  // Again and again, because the other job holds leases.
  await until(
    () => makeDue().then(unfinished),
    (count) => count === 0,
  );
  expect(deleted()).toEqual([tenantId]);
  expect((await admin.query('select from tenant_audit')).rowCount).toBe(0);
});

test('identity is ready while ledger and notifier are away', async () => {
  expect((await identity.ready()).status).toBe(200);
});

test('the SQL of the restore page postpones deletions, and repeats one that the ledger has lost', async () => {
  const page = readFileSync('gateway/docs/operate/after-a-restore.md', 'utf8');
  const [postpone = '', repeat = ''] = [...page.matchAll(/```sql\n(update closings.*?)```/gs)].map(([, sql]) => sql);
  const [kept, lost] = (await closedTenants(2)) as [string, string];
  const past = `update closings set delete_at = now() - interval '1 day', next_attempt_at = now() where tenant_id = '${toUuid('tenant', kept)}';`;
  // In one transaction, as before the start: no job sees the day that has passed.
  await admin.query(past + postpone);
  const { tenant } = await identity.client.reopenTenant({ userId, tenantId: kept });
  expect(tenant?.status).toBe('active');

  replica({ ledger: ledger.client, notifier: notifier.client });
  const finished = () =>
    until(
      () => makeDue().then(unfinished),
      (count) => count === 0,
    );
  await finished();
  // As in a ledger of an older backup.
  const inLedger = new pg.Client({ connectionString: ledger.database.adminUrl });
  await inLedger.connect();
  await inLedger.query('delete from deleted_tenants where tenant_id = $1', [toUuid('tenant', lost)]);
  await ledger.client.createAccount({ tenantId: lost, accountCode: 'a', name: 'a', type: 'asset' });
  const heads = async () => (await inLedger.query('select from heads where tenant_id = $1', [toUuid('tenant', lost)])).rowCount;
  expect(await heads()).toBe(1);
  await admin.query(repeat.replace('2030-01-31', '2020-01-31'));
  await finished();
  expect(await heads()).toBe(0);
  await inLedger.end();
});

test('a service that is away is asked again, with one warning', async () => {
  const [tenantId] = await closedTenants(1);
  // Its own job would take turns with this one.
  await identity.end();
  let calls = 0;
  const away = (): Promise<never> => {
    calls++;
    return Promise.reject(new Error('away'));
  };
  const { lines, deleted } = replica({
    ledger: ledger.client,
    notifier: { deleteTenant: (request, options) => (calls < 3 ? away() : notifier.client.deleteTenant(request, options)) },
  });
  await makeDue();
  await until(unfinished, (count) => count === 0);
  expect(calls).toBe(3);
  expect(deleted()).toEqual([tenantId]);
  expect(lines.filter(({ level }) => level >= 40).map(({ msg, tenant }) => [msg, tenant])).toEqual([
    ['deletion of a tenant failed', tenantId],
  ]);
});
