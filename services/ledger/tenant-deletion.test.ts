// Deletion of a tenant in the ledger: every row goes, the end of the log stays, and nothing brings the tenant back.
import { setTimeout as pause } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { openAudit, runCommand, type Audit } from '../../test/audit.ts';
import { auditorInserts, fillLedger } from '../../test/full-ledger.ts';
import { entries, newTenant, refusal } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';
import { openRelayDatabase, post } from '../../test/relay.ts';
import { logger } from '../../test/writers.ts';
import { inTransaction } from '../platform/postgres.ts';
import { parseHeads } from './audit/stored-heads.ts';
import { verify } from './audit/verify.ts';
import { Relay } from './outbox/relay.ts';

let audit: Audit;
let client: Audit['ledger']['client'];
const other = newTenant();

beforeAll(async () => {
  audit = await openAudit();
  ({ client } = audit.ledger);
  await fillLedger(client, other.tenantId);
});
afterAll(() => audit.end());

/** How many rows of a tenant (UUID) each table has, of all tables with tenants. */
async function rowsOf(tenant: string): Promise<Record<string, number>> {
  const tables = await audit.operator.query<{ name: string }>(
    `select table_name as name from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id' order by 1`,
  );
  const counts: [string, number][] = [];
  for (const { name } of tables.rows) {
    const { rows } = await audit.operator.query<{ n: number }>(`select count(*)::int as n from ${name} where tenant_id = $1`, [tenant]);
    counts.push([name, rows[0]!.n]);
  }
  return Object.fromEntries(counts);
}
const left = async (tenant: string) => Object.entries(await rowsOf(tenant)).filter(([, count]) => count > 0);
const tombstone = [['deleted_tenants', 1]];

/** Deletes a tenant to the end. */
const deleted = (tenantId: string) =>
  until(
    () => client.deleteTenant({ tenantId }),
    ({ done }) => done,
  );

const createAccount = (tenantId: string, accountCode: string, more = {}) =>
  client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', ...more });
const posting = (tenantId: string) => ({ tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') });

async function withAccounts() {
  const made = newTenant();
  for (const code of ['a', 'b']) await createAccount(made.tenantId, code, { allowNegative: true });
  return made;
}

test('every row of a tenant goes but the end of its log, and other tenants keep theirs', async () => {
  const { tenantId, tenant } = newTenant();
  await fillLedger(client, tenantId);
  await audit.change(
    tenant,
    `insert into relay_dead_letters (tenant_id, sequence, part, event_id, type, reason) values ($1, 1, 0, gen_random_uuid(), 'x', 'y')`,
    ...auditorInserts,
    `insert into checkpoints select tenant_id, origin, 2, root, note, key_id, signed_at from checkpoints where tenant_id = $1`,
    `insert into filters values ($1, 'mine', 'kind=single')`,
    `insert into redactions values ($1, 1, decode(repeat('00', 32), 'hex'))`,
    `insert into subject_transactions values ($1, $1, 1)`,
    `insert into erased_subjects values ($1, $1, 1)`,
  );
  const before = await rowsOf(tenant);
  expect(Object.entries(before).filter(([, count]) => count === 0)).toEqual([['deleted_tenants', 0]]);
  const ofOther = await rowsOf(other.tenant);
  const [kept = ''] = runCommand(audit.ledger.database.ownerUrl, 'heads', '--tenant', tenantId).stdout.split('\n');
  const [, sequence, hash] = kept.split(' ');

  const answer = await deleted(tenantId);
  expect(answer).toMatchObject({ done: true, lastSequence: BigInt(sequence!), lastHash: hash });
  // With the last of its checkpoints.
  expect(await left(tenant)).toEqual([['checkpoints', 1], ...tombstone]);
  const { rows: checkpoints } = await audit.operator.query('select size from checkpoints where tenant_id = $1', [tenant]);
  expect(checkpoints).toEqual([{ size: 2n }]);
  expect(await client.deleteTenant({ tenantId })).toEqual(answer);
  expect(await rowsOf(other.tenant)).toEqual(ofOther);
  expect([await audit.verified(), await audit.checked(), await audit.rebuilt()]).toEqual([[], [], []]);
  expect([await audit.verified(tenant), await audit.checked(tenant), await audit.rebuilt(tenant)]).toEqual([[], [], []]);
  expect(runCommand(audit.ledger.database.ownerUrl, 'heads').stdout).toContain(other.tenantId);
  expect(runCommand(audit.ledger.database.ownerUrl, 'heads').stdout).not.toContain(tenantId);
});

test('heads that were kept of a deleted tenant are compared with the end of its log', async () => {
  const { tenantId } = newTenant();
  await fillLedger(client, tenantId);
  const { lastSequence, lastHash } = await deleted(tenantId);
  const found = async (...lines: string[]) => {
    const printed: string[] = [];
    await verify(audit.operator, { heads: parseHeads(lines.map((line) => `${tenantId} ${line}`).join('\n')) }, (line) =>
      printed.push(line),
    );
    return printed;
  };
  const wrong = '0'.repeat(64);
  expect(await found(`1 ${wrong}`, `${lastSequence} ${lastHash}`)).toEqual([]);
  expect(await found(`${lastSequence} ${wrong}`)).toEqual([
    `${tenantId}: event ${lastSequence} does not have the hash that was kept: it, or one before it, was made anew`,
  ]);
  expect(await found(`${lastSequence + 1n} ${lastHash}`)).toEqual([
    `${tenantId}: event ${lastSequence + 1n}, of which the hash was kept, is missing: the log ends at ${lastSequence}`,
  ]);
});

test('a tenant that is only noted as deleted is verified as any other, and one that lost its head is reported', async () => {
  const noted = await withAccounts();
  await client.postTransaction({ posting: posting(noted.tenantId) });
  await inTransaction(audit.ledger.pool, [noted.tenant], (connection) =>
    connection.query('insert into deleted_tenants select tenant_id, sequence, hash, now() from heads where tenant_id = $1', [noted.tenant]),
  );
  await audit.change(noted.tenant, `update balances set debits = debits + 1 where tenant_id = $1`);
  const found = await audit.verified(noted.tenant);
  expect(found).toContain(`${noted.tenantId}: is in deleted_tenants, and has a head`);
  expect(found.join()).toContain('balances');
  await audit.change(noted.tenant, 'delete from heads where tenant_id = $1');
  await deleted(noted.tenantId);

  const headless = await withAccounts();
  await audit.change(headless.tenant, 'delete from heads where tenant_id = $1');
  expect((await audit.verified()).join()).toContain(`${headless.tenantId}: heads`);
  expect(await audit.rebuilt(headless.tenant)).not.toEqual([]);
  expect(await audit.verified()).toEqual([]);
});

test('a part deletes at most so many rows, groups after the accounts below them, until none is left', async () => {
  const { tenantId, tenant } = newTenant();
  await createAccount(tenantId, 'top', { isGroup: true });
  await createAccount(tenantId, 'inner', { isGroup: true, parentCode: 'top' });
  for (const code of ['a', 'b', 'c']) await createAccount(tenantId, code, { parentCode: 'inner', allowNegative: true });
  for (let count = 0; count < 5; count++) await client.postTransaction({ posting: posting(tenantId) });
  const total = async () => (await left(tenant)).reduce((sum, [name, count]) => sum + (name === 'deleted_tenants' ? 0 : count), 0);
  // Head and cursor go with the first part.
  let before = (await total()) - 2;
  expect(before).toBeGreaterThan(30);
  for (let isLeft = true; isLeft;) {
    isLeft = await inTransaction(audit.ledger.pool, [], async (connection) => {
      const { rows } = await connection.query<{ is_left: boolean }>('select delete_tenant($1, 3) as is_left', [tenant]);
      return rows[0]!.is_left;
    });
    const after = await total();
    expect(before - after).toBe(Math.min(3, before));
    before = after;
    // Rows that are left are no findings.
    expect(await audit.verified()).toEqual([]);
  }
  expect(before).toBe(0);
});

test('a tenant with 60,000 events is deleted, and nothing can be posted any more', async () => {
  const { tenantId, tenant } = await withAccounts();
  await audit.owner.query('begin');
  await audit.change(
    tenant,
    `insert into log select $1, 10 + i, gen_random_uuid(), 'transaction.posted', now(), '', '', '', decode(repeat('00', 32), 'hex'), null
      from generate_series(1, 60000) i`,
  );
  await audit.owner.query('commit');
  let calls = 0;
  for (let done = false; !done; calls++) {
    ({ done } = await client.deleteTenant({ tenantId }));
    expect((await refusal(client.postTransaction({ posting: posting(tenantId) }))).reason).toBe('account_not_found');
  }
  expect(await left(tenant)).toEqual(tombstone);
});

test('a tenant without events ends at 0 and can’t begin afterwards', async () => {
  const { tenantId, tenant } = newTenant();
  expect(await client.deleteTenant({ tenantId })).toMatchObject({ done: true, lastSequence: 0n, lastHash: '0'.repeat(64) });
  for (const call of [() => createAccount(tenantId, 'a'), () => client.setUpChart({ tenantId, businessType: 'wallet' })]) {
    expect(await refusal(call())).toMatchObject({ reason: 'validation_failed', field: 'tenant_id', tag: 'deleted' });
  }
  expect((await refusal(client.postTransaction({ posting: posting(tenantId) }))).reason).toBe('account_not_found');
  expect(await left(tenant)).toEqual(tombstone);
});

test('postings at the same time are in the log before its end, or are rejected, also where the tenant is cached', async () => {
  const { tenantId, tenant } = await withAccounts();
  let posted = 2n;
  let rejected = 0;
  const poster = async () => {
    while (rejected < 8) {
      await client.postTransaction({ posting: posting(tenantId) }).then(
        () => posted++,
        async (error: unknown) => {
          expect((await refusal(Promise.reject(error as Error))).reason).toBe('account_not_found');
          rejected++;
        },
      );
    }
  };
  const posters = Promise.all(Array.from({ length: 8 }, poster));
  await until(
    () => Promise.resolve(posted),
    (count) => count > 50n,
  );
  const { lastSequence } = await deleted(tenantId);
  await posters;
  expect(lastSequence).toBe(posted);
  expect(await left(tenant)).toEqual(tombstone);
});

test('of a first account and the deletion at the same time the account comes first or is rejected', async () => {
  for (let round = 0; round < 20; round++) {
    const { tenantId, tenant } = newTenant();
    const made = createAccount(tenantId, 'a').then(
      () => 1n,
      async (error: unknown) => {
        expect((await refusal(Promise.reject(error as Error))).field).toBe('tenant_id');
        return 0n;
      },
    );
    const [, ...answers] = await Promise.all([made, deleted(tenantId), deleted(tenantId)]);
    for (const { lastSequence } of answers) expect(lastSequence).toBe(await made);
    expect(await left(tenant)).toEqual(tombstone);
  }
});

test('only the service’s role and the owner may run the deletion', async () => {
  const { rows } = await audit.operator.query<{ grantees: string[] }>(
    `select array_agg(distinct acl.grantee = 0) as grantees from pg_proc, aclexplode(proacl) acl where proname = 'delete_tenant'`,
  );
  expect(rows[0]!.grantees).toEqual([false]);
});

test('the relay leaves a tenant alone that has no cursor', async () => {
  const database = await openRelayDatabase();
  const sink = { name: 'kafka', publish: () => Promise.resolve(), probe: () => Promise.resolve(), close: () => Promise.resolve() } as const;
  const { writer, end } = database.openReplica(sink);
  const tenant = await database.newTenant();
  await post(writer, tenant);
  await database.published();
  await end();
  await inTransaction(database.pool, [], (connection) => connection.query('select delete_tenant($1, 100)', [tenant]));
  let acquired = 0;
  database.relayed.on('acquire', () => acquired++);
  const relay = new Relay({ pool: database.relayed, sink, pollMs: 3_600_000, logger, metrics: new Registry() });
  database.ends.push(() => relay.close());
  await until(
    () => Promise.resolve(acquired),
    (count) => count > 0,
  );
  relay.wake(tenant);
  await pause(500);
  const before = acquired;
  await pause(500);
  expect(acquired).toBe(before);
  await database.end();
});
