// The indexes that prepared statements use, on a connection with the ledger's settings.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { entries, newTenant, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { inTransaction, openPool, type Pool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { listAccounts } from './account-reads.ts';
import { createAccount, updateAccount } from './accounts.ts';
import { getBalanceAsOf } from './balances-as-of.ts';
import { putDefinition } from './definitions.ts';
import { readHierarchy } from './hierarchy.ts';
import { dueHolds, dueOfAllTenants, keysOfHoldIds, nextDue, targetHolds, usedHoldKeys } from './hold-queries.ts';
import { getHold } from './hold-reads.ts';
import { readCounts, readLimits } from './limit-reads.ts';
import { ledgerPlans } from './query-plans.ts';
import { listTransactions } from './reads.ts';
import { usedKeys, readAccounts } from './writer-queries.ts';
import type { ValidatedPosting } from './mapping.ts';

let ledger: RunningLedger;
let owner: pg.Client;
/** One connection, which keeps its prepared statements. */
let one: Pool;
const { tenant, tenantId } = newTenant();
const children = 3000;

beforeAll(async () => {
  ledger = await startLedger();
  owner = new pg.Client({ connectionString: ledger.database.ownerUrl });
  await owner.connect();
  await owner.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
  one = openPool(ledger.database.serviceUrl, { name: 'one', max: 1, logger: openLog('test', 'silent'), settings: ledgerPlans });
  const account = {
    name: 'n',
    type: 'asset',
    normalBalance: null,
    currency: null,
    description: undefined,
    metadata: '{}',
    limits: [] as never[],
    blocked: [] as never[],
  } as const;
  const by = { actor: 'k', requestId: 'r' };
  for (const [code, isGroup, parentCode] of [
    ['group', true, null],
    ['empty', true, null],
    ['child', false, 'group'],
  ] as const) {
    await createAccount(one, tenant, { ...account, code, isGroup, parentCode, allowNegative: true }, by);
  }
  const page = { limit: 50, cursor: '' };
  for (const parentCode of [null, 'group']) await listAccounts(one, tenant, { type: null, status: null, parentCode }, page);
  await updateAccount(one, tenant, 'empty', { parentCode: 'group', status: 'closed' }, by);
  const wanted = { root: 'group', depth: undefined, includeBalances: true, asOf: null };
  await Array.fromAsync(readHierarchy(one, tenant, wanted, (work) => work()));
  await inTransaction(one, [tenant], (client) => readAccounts(client, [[tenant, 'child']]));
  const limit = { account_code: 'group', applies: 'sum', currency: 'NGN', side: 'debit', max_count: 1, window: { rolling_seconds: 60 } };
  await putDefinition(one, tenant, 'limit', { id: null, record: JSON.stringify(limit), mustExist: false }, by);
  const head = { tenant, sequence: 0n, hash: Buffer.alloc(32), lastMs: 0, chart: null, rebuilt: 0n, frozen: false };
  const states = [{ head, accounts: new Map<string, never>() }];
  await inTransaction(one, [tenant], async (client) => {
    await readLimits(client, states);
    await readCounts(client, states, new Map([[tenant, ['child']]]));
  });
  await owner.query(
    `insert into accounts select tenant_id, gen_random_uuid(), 'c' || n, name, type, normal_balance, currency, parent_code, is_group, description,
        allow_negative, status, system, metadata, version, created_at, updated_at
      from accounts, generate_series(1, ${children - 1}) n where tenant_id = $1 and code = 'child'`,
    [tenant],
  );
});

afterAll(async () => {
  await one.end();
  await owner.end();
  await ledger.end();
});

interface PlanNode {
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Plans?: PlanNode[];
}

const scansOf = (table: string, node: PlanNode): PlanNode[] => [
  ...(node['Relation Name'] === table ? [node] : []),
  ...(node.Plans ?? []).flatMap((each) => scansOf(table, each)),
];

/** The index by which a prepared statement finds rows, and how many of its columns it compares. */
async function indexOf(name: string, table = 'accounts'): Promise<[index: string | undefined, columns: number][]> {
  return inTransaction(one, [tenant], async (client) => {
    const { rows: prepared } = await client.query<{ types: string[] }>(
      'select parameter_types::text[] as types from pg_prepared_statements where name = $1',
      [name],
    );
    const nulls = prepared[0]!.types.map((type) => `null::${type}`).join(', ');
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(`explain (format json) execute ${name} (${nulls})`);
    const scans = scansOf(table, rows[0]!['QUERY PLAN'][0].Plan);
    return scans.map((scan) => [scan['Index Name'], (scan['Index Cond'] ?? '').split(' AND ').length]);
  });
}

describe.each(['as a young table', 'after it was analysed'])('%s', (when) => {
  beforeAll(async () => {
    if (when === 'after it was analysed') await owner.query('analyze accounts');
  });

  test.each([
    ['reason_not_to_close', 'accounts_parent', 2],
    ['list_accounts_below', 'accounts_parent', 3],
    ['list_accounts', 'accounts_pkey', 2],
    ['ancestors', 'accounts_tenant_id_code_key', 2],
    ['levels_below', 'accounts_parent', 2],
    ['accounts_by_code', 'accounts_tenant_id_code_key', 2],
    ['read_accounts', 'accounts_tenant_id_code_key', 2],
    ['groups_above', 'accounts_tenant_id_code_key', 2],
  ])('%s finds accounts by %s', async (name, index, columns) => {
    expect(await indexOf(name)).toEqual([[index, columns]]);
  });
});

test('velocity limits and what they have counted are found by their keys', async () => {
  expect(await indexOf('limits_of_tenants', 'definitions')).toEqual([['definitions_pkey', 2]]);
  expect(await indexOf('counted_steps', 'velocity')).toEqual([['velocity_pkey', 3]]);
});

describe('holds', () => {
  beforeAll(async () => {
    // More than fit on a page of the table, and all have ended.
    await owner.query(
      `insert into holds select $1, n, gen_random_uuid(), n::text, decode(repeat('00', 33), 'hex'), null, 'captured', now(), now()
        from generate_series(1, 3000) n`,
      [tenant],
    );
    await owner.query(
      `insert into hold_entries select $1, n, 0, (select id from accounts where tenant_id = $1 and code = 'child'), 'NGN', 'debit', 1, 1, 0
        from generate_series(1, 3000) n`,
      [tenant],
    );
    await inTransaction(one, [tenant], async (client) => {
      const command = {
        tenant,
        idempotencyKey: 'k',
        transaction: randomUUID(),
        target: { id: '', uuid: randomUUID() },
      } as ValidatedPosting;
      await targetHolds(client, [command]);
      await usedHoldKeys(client, [command]);
      await keysOfHoldIds(client, [command]);
      await dueHolds(client, [tenant], 0);
      await nextDue(client, [tenant], 0);
    });
    await getHold(one, tenant, randomUUID()).catch(() => undefined);
    await dueOfAllTenants(one, 1, []);
  });

  test.each([
    ['target_holds', 'holds', [['holds_tenant_id_id_key', 2]]],
    ['get_hold', 'holds', [['holds_tenant_id_id_key', 2]]],
    ['keys_of_hold_ids', 'holds', [['holds_tenant_id_id_key', 2]]],
    ['used_hold_keys', 'holds', [['holds_tenant_id_idempotency_key_key', 2]]],
    ['target_holds', 'parts', [['parts_pkey', 2]]],
    // Across tenants, which row-level security forbids but to the expiry loop.
    ['due_holds', 'holds', [['holds_due', 1]]],
    ['due_of_all_tenants', 'holds', [['holds_due', 1]]],
    [
      'next_due',
      'holds',
      [
        ['holds_due', 2],
        ['holds_status', 2],
      ],
    ],
    [
      'read_accounts',
      'hold_entries',
      [
        ['hold_entries_open', 3],
        ['hold_entries_account', 2],
        ['hold_entries_open', 3],
      ],
    ],
  ] as const)('%s reads %s by their index', async (name, table, indexes) => {
    for (const analysed of [false, true]) {
      if (analysed) await owner.query('analyze holds, hold_entries, parts');
      expect(await indexOf(name, table)).toEqual(indexes);
    }
  });
});

test('a part of the chart is found by the key of its root and by the index of parents', async () => {
  const scans = await indexOf('hierarchy_below');
  expect(scans.sort()).toEqual([...Array<unknown>(3).fill(['accounts_parent', 2]), ['accounts_tenant_id_code_key', 2]]);
});

test('a tenant with many transactions is read by the right index, though most tenants had one when analysed', async () => {
  const posting = { tenantId, idempotencyKey: 'k', entries: entries('child debit 1.00 NGN', 'c1 credit 1.00 NGN') };
  await ledger.client.postTransaction({ posting: { tenantId, entries: entries('c2 debit 1.00 EUR', 'c3 credit 1.00 EUR') } });
  await ledger.client.postTransaction({ posting });
  const few = Array.from({ length: 300 }, () => randomUUID());
  await owner.query(`select set_config('app.tenants', $1, false)`, [`{${[tenant, ...few].join()}}`]);
  const copied = (change: string, from: string) =>
    `insert into transactions select (jsonb_populate_record(t, ${change})).* from transactions t, ${from} where t.tenant_id = $1 and t.idempotency_key = 'k'`;
  await owner.query(copied(`jsonb_build_object('tenant_id', few)`, 'unnest($2::uuid[]) as few'), [tenant, few]);
  await owner.query('analyze transactions');
  await owner.query(
    copied(
      `jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', 'k' || n, 'reference', 'payroll', 'sequence', t.sequence + n)`,
      'generate_series(1, 3000) as n',
    ),
    [tenant],
  );
  await owner.query(
    `insert into log select (jsonb_populate_record(l, jsonb_build_object('event_id', gen_random_uuid(), 'sequence', l.sequence + n))).*
      from log l, generate_series(1, 3000) as n where l.tenant_id = $1 and l.sequence = (select max(sequence) from log where tenant_id = $1)`,
    [tenant],
  );
  const reads = async (table = 'transactions') => {
    await one.query('select pg_stat_force_next_flush()');
    const text = 'select sum(idx_tup_read)::int as read from pg_stat_user_indexes where relname = $1';
    return (await owner.query<{ read: number }>(text, [table])).rows[0]!.read;
  };
  const before = await reads();
  const { transactions } = await listTransactions(one, tenant, {}, { limit: 100, cursor: '' });
  const keys = Array.from({ length: 100 }, (_, n) => ({ tenant, idempotencyKey: `k${n + 1}` }) as ValidatedPosting);
  const known = await inTransaction(one, [tenant], (client) => usedKeys(client, keys));
  expect([transactions.length, known.size]).toEqual([100, 100]);
  const after = await reads();
  expect(after - before).toBeLessThan(1_000);
  const { transactions: found } = await listTransactions(
    one,
    tenant,
    { reference: 'payroll', idempotencyKey: 'k7' },
    { limit: 100, cursor: '' },
  );
  expect(found).toHaveLength(1);
  expect((await reads()) - after).toBeLessThan(10);
  // A common reference and a rare account: the 500 positions of the first turn and what the second looks up.
  for (const accountCode of ['c2', 'nobody']) {
    const alone = await reads();
    const page = await listTransactions(one, tenant, { reference: 'payroll', accountCode }, { limit: 100, cursor: '' });
    expect(page).toEqual({ transactions: [], nextCursor: '' });
    expect((await reads()) - alone).toBeLessThan(1_000);
  }
  const rare = await listTransactions(one, tenant, { reference: 'payroll', currency: 'EUR' }, { limit: 100, cursor: '' });
  expect(rare).toEqual({ transactions: [], nextCursor: '' });
});

test('balances of any time are found by their keys, and shifted entries by when they count', async () => {
  // So that shifted ones are looked for.
  await owner.query('insert into shifted_transactions values ($1, 1, now())', [tenant]);
  await getBalanceAsOf(one, tenant, 'child', 'NGN', { asOfMs: 1, known: null });
  for (const analysed of [false, true]) {
    if (analysed) await owner.query('analyze shifted_transactions, shifted_entries, shifted_months, entries, balances, log');
    expect(await indexOf('totals_at_shifted_of', 'balances')).toEqual([['balances_pkey', 2]]);
    expect(await indexOf('totals_at_shifted_of', 'entries')).toEqual([['entries_pkey', 4]]);
    expect(await indexOf('totals_at_shifted_of', 'shifted_months')).toEqual([['shifted_months_pkey', 5]]);
    expect(await indexOf('totals_at_shifted_of', 'shifted_entries')).toEqual([
      ['shifted_entries_pkey', 4],
      ['shifted_entries_effective', 7],
    ]);
    expect(await indexOf('last_counted', 'entries')).toEqual([['entries_pkey', 5]]);
    expect(await indexOf('last_counted', 'log')).toEqual([['log_pkey', 2]]);
  }
});
