// A closed tenant is gone from all services after its time, but for slug and last hash, whatever is killed meanwhile.
import { createClient } from '@connectrpc/connect';
import { jest } from '@jest/globals';
import { withClient } from '../deploy/local/databases.ts';
import { services } from '../deploy/local/plan.ts';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import { openCaller, type Caller } from '../services/platform/caller.ts';
import { toUuid } from '../services/platform/ids.ts';
import { runCommand } from './audit.ts';
import type { Answer, Tenant } from './cluster.ts';
import { startCheckedCluster, type CheckedCluster } from './contract.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { postingEvent, startReceiver, type Receiver } from './notifier.ts';
import { metricOf, until, withLongDeadline } from './polling.ts';

// Processes are killed and started again, and a lease of a killed one lasts for half a minute.
jest.setTimeout(240_000);

let cluster: CheckedCluster;
let receiver: Receiver;
let callers: Record<'ledger' | 'notifier', Caller>;

beforeAll(async () => {
  // 8.64 s, of which a deletion makes 10 s at least.
  cluster = await startCheckedCluster({ environment: { identity: { TENANT_DELETE_DAYS: '0.0001' } } });
  receiver = await startReceiver();
  const call = (service: 'ledger' | 'notifier') =>
    openCaller({ addresses: cluster.addresses[service], token: cluster.internalToken, maxMessageBytes: 8 << 20 });
  callers = { ledger: call('ledger'), notifier: call('notifier') };
});
afterAll(async () => {
  for (const caller of Object.values(callers)) caller.close();
  await cluster.stop();
  await receiver.close();
});

const ledger = () => createClient(LedgerService, withLongDeadline(callers.ledger));
const notifier = () => createClient(NotifierService, withLongDeadline(callers.notifier));
const uuidOf = (tenant: Tenant) => toUuid('tenant', tenant.id)!;

const change = (tenant: Tenant, action: string): Promise<Answer> =>
  cluster.rest('POST', `/v1/tenants/${tenant.id}/${action}`, { key: tenant.owner.token });

/** `service.table` of every table with rows of a tenant, of all tables with a column `tenant_id`. */
async function left(tenant: Tenant): Promise<string[]> {
  const found: string[] = [];
  for (const service of services) {
    await withClient(cluster.databases[service].adminUrl, async (admin) => {
      const tables = await admin.query<{ name: string }>(
        `select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id' order by 1`,
      );
      expect(tables.rows.length).toBeGreaterThan(5);
      for (const { name } of tables.rows)
        if ((await admin.query(`select from ${name} where tenant_id = $1 limit 1`, [uuidOf(tenant)])).rowCount !== 0)
          found.push(`${service}.${name}`);
    });
  }
  // Its last checkpoint stays, if one was signed.
  return found.filter((name) => name !== 'ledger.checkpoints');
}
const remains = ['identity.closings', 'ledger.deleted_tenants', 'notifier.deleted_tenants'];

interface Closing {
  slug: string;
  sequence: bigint | null;
  hash: string | null;
  deleted_at: Date | null;
}
const closingOf = (tenant: Tenant): Promise<Closing | undefined> =>
  withClient(cluster.databases.identity.adminUrl, async (admin) => {
    const text = 'select slug, sequence, hash, deleted_at from closings where tenant_id = $1';
    return (await admin.query<Closing>(text, [uuidOf(tenant)])).rows[0];
  });
const gone = async (tenant: Tenant): Promise<Closing> => {
  const closing = await until(
    () => closingOf(tenant),
    (each) => each?.deleted_at != null,
  );
  return closing!;
};

/** Sequence and hash of the end of a tenant's log, as the operator's command prints them. */
function headOf(tenant: Tenant): { sequence: bigint; hash: string } {
  const { stdout } = runCommand(cluster.databases.ledger.ownerUrl, 'heads', '--tenant', tenant.id);
  const [, sequence = '0', hash = ''] = stdout.trim().split(' ');
  return { sequence: BigInt(sequence), hash };
}

/** A tenant with postings, a webhook with deliveries, an access key, a member and an invitation. */
async function customer(): Promise<Customer & { access: string }> {
  const made = await newWallet(cluster);
  const { tenant } = made;
  await made.post('webhooks', { url: receiver.url, events: ['transaction.posted'] });
  for (let count = 0; count < 3; count++) expect((await made.post('transactions/double-entry', deposit())).status).toBe(201);
  const hold = { ...deposit(), idempotency_key: 'held' };
  expect((await made.post('holds', hold)).status).toBe(201);
  const options = { key: tenant.owner.token, body: {} };
  const { body } = await cluster.rest('POST', `/v1/tenants/${tenant.id}/access`, options);
  await withClient(cluster.databases.identity.adminUrl, (admin) =>
    admin.query(
      `with invited as (
          insert into invitations (tenant_id, id, email, role, invited_by, created_at, expires_at)
          values ($1, gen_random_uuid(), 'guest@example.com', 'viewer', $2, now(), now() + interval '7 days') returning *)
        insert into mails (id, kind, email, tenant_id, invitation_id, data, created_at, expires_at, next_attempt_at, attempts)
        select gen_random_uuid(), 'invitation', email, tenant_id, id, '{}', now(), now() + interval '1 day', now() + interval '1 day', 0 from invited`,
      [uuidOf(tenant), toUuid('user', tenant.owner.id)],
    ),
  );
  await until(
    () => made.get('webhooks?status=delivered').then((data) => data.deliveries.length as number),
    (delivered) => delivered >= 3,
  );
  return { ...made, access: body.data.access.key };
}

test('a closed tenant is read until its time is over; then keys, routes and all rows are gone but for slug and last hash', async () => {
  const [closed, other] = [await customer(), await customer()];
  const { tenant } = closed;
  expect((await left(tenant)).length).toBeGreaterThan(20);
  const head = headOf(tenant);
  // The auditor's indexes, tree and walk follow the log.
  const before = await until(
    () => left(other.tenant),
    (tables) => ['volumes', 'trees', 'verifications'].every((name) => tables.includes(`ledger.${name}`)),
  );

  const { data } = (await change(tenant, 'close')).body;
  expect(Date.parse(data.tenant.delete_at) - Date.now()).toBeLessThan(8_640);
  expect((await closed.get('accounts')).accounts.length).toBeGreaterThan(5);
  const deleted = await gone(tenant);
  expect(deleted).toMatchObject({ slug: tenant.slug, ...head });
  expect(deleted.deleted_at!.getTime()).toBeGreaterThan(Date.parse(data.tenant.delete_at));
  expect(await left(tenant)).toEqual(remains);

  for (const key of [closed.key, closed.access]) {
    const answer = await until(
      () => cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key }),
      ({ status }) => status !== 200,
    );
    expect([answer.status, answer.body.code]).toEqual([401, 'unauthenticated']);
  }
  for (const [method, path] of [
    ['POST', 'reopen'],
    ['POST', 'suspend'],
    ['GET', 'audit'],
    ['GET', 'api-keys'],
  ] as const) {
    const answer = await cluster.rest(method, `/v1/tenants/${tenant.id}/${path}`, { key: tenant.owner.token });
    expect([path, answer.status, answer.body.code]).toEqual([path, 404, 'tenant_not_found']);
  }
  expect((await cluster.rest('GET', '/v1/tenants', { key: tenant.owner.token })).body.data.tenants).toEqual([]);
  const again = { name: 'Again', slug: tenant.slug, business_type: 'wallet' };
  const taken = await cluster.rest('POST', '/v1/tenants', { key: tenant.owner.token, body: again });
  expect([taken.status, taken.body.code]).toEqual([409, 'slug_taken']);

  // The other tenant goes on, and its log is intact.
  expect(await left(other.tenant)).toEqual(before);
  expect((await other.post('transactions/double-entry', deposit())).status).toBe(201);
  const verified = runCommand(cluster.databases.ledger.ownerUrl, 'verify');
  expect([verified.status, verified.stderr]).toEqual([0, '']);
  expect(verified.stdout).toContain('nothing differs');

  // Neither late events nor late calls bring it back.
  await notifier().ingest({ events: [postingEvent(tenant.id, 99n)], deriveUpdates: true });
  await expect(ledger().setUpChart({ tenantId: tenant.id, businessType: 'wallet' })).rejects.toThrow(
    'tenant_id is that of a deleted tenant',
  );
  expect(await left(tenant)).toEqual(remains);
  expect(await metricOf(cluster, 'identity', 'identity_tenants_deleted_total')).toBe(1);
  await until(
    () => Promise.resolve(cluster.logs('identity')),
    (lines) => lines.includes('tenant deleted'),
  );
});

test('a tenant that is reopened in time stays as it was', async () => {
  const reopened = await customer();
  const { tenant } = reopened;
  await change(tenant, 'close');
  expect((await change(tenant, 'reopen')).body.data.tenant).toMatchObject({ status: 'active', delete_at: null });
  expect(await closingOf(tenant)).toBeUndefined();
  await until(
    () => reopened.post('transactions/double-entry', deposit()),
    ({ status }) => status === 201,
  );
  // Of two closings at once one counts, from its own time.
  await Promise.all([change(tenant, 'close'), change(tenant, 'close')]);
  await gone(tenant);
  expect(await left(tenant)).toEqual(remains);
});

test('of reopening and the beginning of the deletion one wins', async () => {
  const tenants = await Promise.all(Array.from({ length: 4 }, () => cluster.tenant()));
  await Promise.all(
    tenants.map(async (tenant) => {
      // The deletion seldom begins between the two: on the last round nothing competes with it.
      for (let [round, status] = [1, 200]; status !== 404; round++) {
        // One that was reopened is not deleted, so it can be closed.
        expect((await change(tenant, 'close')).status).toBe(200);
        if (round > 10) return;
        const makeDue = withClient(cluster.databases.identity.adminUrl, (admin) =>
          admin.query('update closings set delete_at = now(), next_attempt_at = now() where tenant_id = $1', [uuidOf(tenant)]),
        );
        const [answer] = await Promise.all([change(tenant, 'reopen'), makeDue]);
        ({ status } = answer);
        expect([200, 404]).toContain(status);
      }
    }),
  );
  for (const tenant of tenants) {
    await gone(tenant);
    expect(await left(tenant)).toEqual(remains);
  }
});

test('a large tenant is deleted in steps, although identity, ledger and notifier are killed meanwhile', async () => {
  const { tenant } = await customer();
  const bystander = await customer();
  // Rows as so many postings and deliveries leave them.
  await withClient(cluster.databases.ledger.adminUrl, (admin) =>
    admin.query(
      `insert into log select $1, 1000 + i, gen_random_uuid(), 'transaction.posted', now(), '', '', repeat('x', 500)::bytea, decode(repeat('00', 32), 'hex')
        from generate_series(1, 150000) i`,
      [uuidOf(tenant)],
    ),
  );
  await withClient(cluster.databases.notifier.adminUrl, (admin) =>
    admin.query(`insert into payloads select $1, gen_random_uuid(), repeat('x', 500) from generate_series(1, 100000)`, [uuidOf(tenant)]),
  );
  await change(tenant, 'close');
  const count = (service: 'ledger' | 'notifier', table: string) =>
    withClient(cluster.databases[service].adminUrl, async (admin) => {
      const { rows } = await admin.query<{ n: number }>(`select count(*)::int as n from ${table} where tenant_id = $1`, [uuidOf(tenant)]);
      return rows[0]!.n;
    });
  const hasBegun = (service: 'ledger' | 'notifier', table: string, rows: number) =>
    until(
      () => count(service, table),
      (each) => each < rows,
    );
  expect(await hasBegun('ledger', 'log', 150_000)).toBeGreaterThan(0);
  await cluster.kill('ledger');
  // Keys ended when the deletion began, and the gateway asks identity alone.
  await cluster.kill('identity');
  expect(await count('ledger', 'log')).toBeGreaterThan(0);
  await cluster.restart('identity');
  await until(
    () => Promise.resolve(cluster.logs('identity')),
    (logs) => logs.includes('deletion of a tenant failed'),
  );
  expect((await fetch(`${cluster.opsUrl('identity')}/readyz`)).status).toBe(200);
  await cluster.restart('ledger');
  await hasBegun('notifier', 'payloads', 100_000);
  await cluster.kill('notifier');
  await cluster.restart('notifier');
  await gone(tenant);
  expect(await left(tenant)).toEqual(remains);
  expect((await bystander.post('transactions/double-entry', deposit())).status).toBe(201);
  // One warning, however often it was tried.
  expect(cluster.logs('identity').match(/deletion of a tenant failed/g)!.length).toBeLessThanOrEqual(2);
});
