import pg from 'pg';
import type { CreateAccountRequest, UpdateAccountRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { whileLogHeadsLocked } from '../../test/table-locks.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

const by = { actor: 'key_of_the_test', requestId: 'request' };

type Wanted = Partial<Omit<CreateAccountRequest, '$typeName'>>;
const make = (tenantId: string, accountCode: string, more: Wanted = {}) =>
  ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', ...by, ...more });
const change = (tenantId: string, accountCode: string, more: Partial<Omit<UpdateAccountRequest, '$typeName'>>) =>
  ledger.client.updateAccount({ tenantId, accountCode, ...by, ...more });
const post = (tenantId: string, ...lines: string[]) => ledger.client.postTransaction({ posting: { tenantId, entries: entries(...lines) } });
const eventsOf = async (tenantId: string) => (await ledger.client.listEvents({ tenantId, limit: 100 })).events;
const setUp = (tenantId: string, businessType: string) => ledger.client.setUpChart({ tenantId, businessType, ...by });

test('a chart is set up once: the same template again changes nothing, another one is refused', async () => {
  const { tenantId } = newTenant();
  const first = await setUp(tenantId, 'other');
  expect(first).toMatchObject({ created: true, businessType: 'other' });
  const again = await setUp(tenantId, 'other');
  expect(again.created).toBe(false);
  expect(again.accounts).toEqual(first.accounts);
  expect(await refusal(setUp(tenantId, 'wallet'))).toMatchObject({ reason: 'chart_exists' });
  const events = await eventsOf(tenantId);
  expect(events).toHaveLength(first.accounts.length);
  expect(events.every((event) => event.type === 'account.created' && event.actor === by.actor && event.requestId === 'request')).toBe(true);
  expect(events[0]?.data).toMatchObject({ case: 'accountCreated', value: { template: 'other', account: first.accounts[0] } });
});

test('two set-ups at once make one chart', async () => {
  const { tenantId } = newTenant();
  const both = await Promise.all([setUp(tenantId, 'lending'), setUp(tenantId, 'lending')]);
  expect(both.map((answer) => answer.created).sort()).toEqual([false, true]);
  const { tenantId: other } = newTenant();
  const mixed = await Promise.allSettled([setUp(other, 'lending'), setUp(other, 'wallet')]);
  expect(mixed.map((answer) => answer.status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('a taken code stops the whole set-up and is named', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'OPENING-BALANCES', { type: 'equity' });
  const refused = await refusal(setUp(tenantId, 'wallet'));
  expect(refused).toMatchObject({ reason: 'account_code_taken', value: 'OPENING-BALANCES' });
  expect(refused.message).toContain('OPENING-BALANCES');
  expect(await eventsOf(tenantId)).toHaveLength(1);
  expect((await ledger.client.getHierarchy({ tenantId })).accounts).toHaveLength(1);
});

test('suspense accounts created by first use are moved to their parent by set-up', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'till');
  await post(tenantId, 'till debit 5.00 EUR');
  const before = (await ledger.client.getAccount({ tenantId, accountCode: 'SUSPENSE-EUR' })).account;
  expect(before).toMatchObject({ system: true, type: 'liability', currency: 'EUR', version: 1n });
  expect(before?.parentCode).toBeUndefined();
  const { accounts, created } = await setUp(tenantId, 'wallet');
  expect(created).toBe(true);
  const after = accounts.find((account) => account.accountCode === 'SUSPENSE-EUR');
  expect(after).toMatchObject({ id: before?.id, parentCode: 'SUSPENSE', version: 2n, name: before?.name });
  const moved = (await eventsOf(tenantId)).filter((event) => event.type === 'account.updated');
  expect(moved.map((event) => event.data.value)).toMatchObject([{ changes: ['parent_code'], account: after }]);
  const { balance } = await ledger.client.getBalance({ tenantId, accountCode: 'SUSPENSE-EUR' });
  expect(balance).toMatchObject({ balance: '5.00', version: 1n });
});

test('an account is created as requested, with the defaults of its type', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'fleet', { isGroup: true });
  const wanted = {
    ...{ name: 'Wear of vans 🚐', normalBalance: 'credit', currency: 'GBP', parentCode: 'fleet', description: 'contra' },
    ...{ allowNegative: false, metadata: '{"b": 1, "a": [2]}' },
  };
  const { account } = await make(tenantId, 'vans', wanted);
  expect(account).toMatchObject({ ...wanted, metadata: '{"b":1,"a":[2]}', type: 'asset', status: 'active', version: 1n, system: false });
  expect((await ledger.client.getAccount({ tenantId, accountCode: 'vans' })).account).toEqual(account);
  for (const [type, side] of Object.entries({
    asset: 'debit',
    expense: 'debit',
    liability: 'credit',
    equity: 'credit',
    revenue: 'credit',
  })) {
    const made = await make(tenantId, `plain-${type}`, { type });
    expect(made.account).toMatchObject({ normalBalance: side, allowNegative: true, isGroup: false, metadata: '{}', version: 1n });
    expect(made.account?.description).toBeUndefined();
  }
});

test('a code is unique, and the codes of system accounts are reserved', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'cash');
  expect(await refusal(make(tenantId, 'cash'))).toMatchObject({ reason: 'account_code_taken', field: 'account_code', value: 'cash' });
  expect((await make(tenantId, 'Cash')).account?.accountCode).toBe('Cash');
  for (const code of ['SUSPENSE-NGN', 'FX-POSITION-USD']) {
    expect(await refusal(make(tenantId, code, { type: 'liability' }))).toMatchObject({ reason: 'account_code_taken', value: code });
  }
  const race = await Promise.allSettled([make(tenantId, 'race'), make(tenantId, 'race')]);
  expect(race.map((answer) => answer.status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('a parent must be a known, active group of the same type', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'plain');
  await make(tenantId, 'debts', { isGroup: true, type: 'liability' });
  await make(tenantId, 'old', { isGroup: true });
  await change(tenantId, 'old', { status: 'closed' });
  const under = (parentCode: string) => refusal(make(tenantId, 'child', { parentCode }));
  expect(await under('nobody')).toMatchObject({ reason: 'account_not_found', field: 'parent_code', value: 'nobody' });
  expect(await under('child')).toMatchObject({ reason: 'account_not_found' });
  for (const code of ['plain', 'debts', 'old']) {
    expect(await under(code)).toMatchObject({ reason: 'parent_invalid', field: 'parent_code', tag: 'parent_invalid', value: code });
  }
});

test('many changes that wait for one tenant’s head do not block other tenants’ reads', async () => {
  const { tenantId: locked, tenant } = newTenant();
  const { tenantId: free } = newTenant();
  for (const tenantId of [locked, free]) await make(tenantId, 'till');
  const other = new pg.Client({ connectionString: ledger.database.adminUrl });
  await other.connect();
  try {
    await other.query('begin');
    await other.query('select from heads where tenant_id = $1 for update', [tenant]);
    let ended = 0;
    const changes = Array.from({ length: 24 }, (_, index) => make(locked, `account-${index}`).finally(() => (ended += 1)));
    const outcomes = Promise.allSettled(changes);
    // Not from pg_stat_activity, which stays as a transaction has seen it first.
    const waits = 'select from pg_locks where not granted and transactionid = pg_current_xact_id()::xid';
    while ((await other.query(waits)).rowCount === 0) await new Promise((done) => setImmediate(done));
    expect((await ledger.client.getAccount({ tenantId: free, accountCode: 'till' })).account?.accountCode).toBe('till');
    expect(ended).toBe(0);
    await other.query('rollback');
    expect((await outcomes).map(({ status }) => status)).toEqual(changes.map(() => 'fulfilled'));
  } finally {
    await other.end();
  }
});

test('a change of an account waits for a schema change of the heads table', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'till');
  const { account } = await whileLogHeadsLocked(ledger.database.adminUrl, () => change(tenantId, 'till', { name: 'Till' }));
  expect(account).toMatchObject({ name: 'Till', version: 2n });
  expect((await eventsOf(tenantId)).map(({ type }) => type)).toEqual(['account.created', 'account.updated']);
});

test('a change is one event and one version, and a change without effect is none', async () => {
  const { tenantId } = newTenant();
  const made = (await make(tenantId, 'cash', { description: 'drawer', allowNegative: true })).account;
  const same = { name: 'cash', description: 'drawer', allowNegative: true, status: 'active', metadata: '{}', version: 1n };
  expect((await change(tenantId, 'cash', same)).account).toEqual(made);
  const wanted = { name: 'Cash', description: '', metadata: '{"k":1}', allowNegative: false, version: 1n };
  const { account } = await change(tenantId, 'cash', wanted);
  expect(account).toMatchObject({ name: 'Cash', metadata: '{"k":1}', allowNegative: false, version: 2n, createdMs: made?.createdMs });
  expect(account?.description).toBeUndefined();
  expect((await ledger.client.getAccount({ tenantId, accountCode: 'cash' })).account).toEqual(account);
  const events = await eventsOf(tenantId);
  expect(events.map((event) => event.type)).toEqual(['account.created', 'account.updated']);
  expect(events[1]?.data.value).toMatchObject({ account, changes: ['name', 'description', 'allow_negative', 'metadata'] });
  expect(events[1]?.createdMs).toBe(account?.updatedMs);
  expect(await refusal(change(tenantId, 'cash', { name: 'C', version: 1n }))).toMatchObject({
    reason: 'version_conflict',
    field: 'version',
  });
  // No account ever has version 0, so this is no conflict.
  expect(await refusal(change(tenantId, 'cash', { name: 'C', version: 0n }))).toMatchObject({
    reason: 'validation_failed',
    field: 'version',
  });
  expect(await refusal(change(tenantId, 'nobody', { name: 'C' }))).toMatchObject({ reason: 'account_not_found', field: undefined });
  expect(await refusal(change(newTenant().tenantId, 'cash', { name: 'C' }))).toMatchObject({ reason: 'account_not_found' });
});

test('of two changes of the same version one succeeds', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'cash');
  const both = await Promise.allSettled(['A', 'B'].map((name) => change(tenantId, 'cash', { name, version: 1n })));
  expect(both.map((answer) => answer.status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('an account with a balance can’t be closed; a closed one takes no postings and can be reopened', async () => {
  const { tenantId } = newTenant();
  for (const code of ['a', 'b']) await make(tenantId, code);
  await post(tenantId, 'a debit 1.00 NGN', 'b credit 1.00 NGN');
  await post(tenantId, 'a debit 1.00 USD', 'b credit 1.00 USD');
  await post(tenantId, 'a credit 1.00 NGN', 'b debit 1.00 NGN');
  const close = () => change(tenantId, 'a', { status: 'closed' });
  expect(await refusal(close())).toMatchObject({ reason: 'account_not_empty', field: 'status' });
  await post(tenantId, 'a credit 1.00 USD', 'b debit 1.00 USD');
  expect((await close()).account?.status).toBe('closed');
  const late = () => post(tenantId, 'a debit 1.00 NGN', 'b credit 1.00 NGN');
  expect(await refusal(late())).toMatchObject({ reason: 'account_closed', field: 'entries[0].account_code' });
  await change(tenantId, 'a', { status: 'active' });
  expect((await late()).transaction?.sequence).toBe(9n);
});

test('a group is closed after its accounts and reopened before them', async () => {
  const { tenantId } = newTenant();
  await make(tenantId, 'group', { isGroup: true });
  await make(tenantId, 'child', { parentCode: 'group' });
  expect(await refusal(change(tenantId, 'group', { status: 'closed' }))).toMatchObject({ reason: 'account_not_empty' });
  await change(tenantId, 'child', { status: 'closed' });
  await change(tenantId, 'group', { status: 'closed' });
  expect(await refusal(change(tenantId, 'child', { status: 'active' }))).toMatchObject({ reason: 'parent_invalid', field: 'status' });
  await change(tenantId, 'group', { status: 'active' });
  expect((await change(tenantId, 'child', { status: 'active' })).account?.status).toBe('active');
});

test('negative balances can’t be forbidden to an account that has one', async () => {
  const { tenantId } = newTenant();
  for (const code of ['a', 'b']) await make(tenantId, code);
  await post(tenantId, 'a debit 1.00 NGN', 'b credit 1.00 NGN');
  expect(await refusal(change(tenantId, 'b', { allowNegative: false }))).toMatchObject({
    reason: 'insufficient_funds',
    field: 'allow_negative',
  });
  await change(tenantId, 'a', { allowNegative: false });
  expect(await refusal(post(tenantId, 'a credit 1.01 NGN', 'b debit 1.01 NGN'))).toMatchObject({ reason: 'insufficient_funds' });
});

test('system accounts can’t be changed', async () => {
  const { tenantId } = newTenant();
  await setUp(tenantId, 'wallet');
  for (const code of ['SUSPENSE-GBP', 'FX-POSITION-NGN']) {
    expect(await refusal(change(tenantId, code, { name: 'Mine' }))).toMatchObject({ reason: 'account_is_system', field: undefined });
  }
});

test('accounts are listed newest first, by type, status and parent, page by page', async () => {
  const { tenantId } = newTenant();
  const { accounts } = await setUp(tenantId, 'exchange');
  await make(tenantId, 'last');
  const newest = ['last', ...accounts.map((account) => account.accountCode).reverse()];
  const walk = async (filter: object, limit: number) => {
    const codes: string[] = [];
    let cursor = '';
    do {
      const page = await ledger.client.listAccounts({ tenantId, limit, cursor, ...filter });
      expect(page.accounts.length).toBeLessThanOrEqual(limit);
      codes.push(...page.accounts.map((account) => account.accountCode));
      cursor = page.nextCursor;
    } while (cursor !== '');
    return codes;
  };
  expect(await walk({}, 7)).toEqual(newest);
  expect(await walk({}, 100)).toEqual(newest);
  expect(await walk({ parentCode: 'CUSTOMER-FUNDS' }, 3)).toEqual(['GBP', 'EUR', 'USD', 'NGN'].map((each) => `CUSTOMER-FUNDS-${each}`));
  const revenue = accounts.filter((account) => account.type === 'revenue').map((account) => account.accountCode);
  expect(await walk({ type: 'revenue' }, 2)).toEqual(revenue.reverse());
  await change(tenantId, 'last', { status: 'closed' });
  expect(await walk({ status: 'closed' }, 50)).toEqual(['last']);
  expect((await ledger.client.listAccounts({ tenantId })).accounts).toHaveLength(50);
});

test('a gRPC caller’s fields are checked one by one', async () => {
  const { tenantId } = newTenant();
  const wrong = async (call: Promise<unknown>) => {
    const { reason, field, tag } = await refusal(call);
    expect(reason).toBe('validation_failed');
    return `${String(field)} ${String(tag)}`;
  };
  expect(await wrong(make('tenant_x', 'a'))).toBe('tenant_id id');
  expect(await wrong(make(tenantId, ''))).toBe('account_code required');
  expect(await wrong(make(tenantId, '-a'))).toBe('account_code code');
  expect(await wrong(make(tenantId, 'a'.repeat(65)))).toBe('account_code code');
  expect(await wrong(make(tenantId, 'a', { name: '' }))).toBe('name required');
  expect(await wrong(make(tenantId, 'a', { name: 'é'.repeat(256) }))).toBe('name max');
  expect(await wrong(make(tenantId, 'a', { name: 'a\0' }))).toBe('name unicode');
  expect(await wrong(make(tenantId, 'a', { type: 'goods' }))).toBe('type oneof');
  expect(await wrong(make(tenantId, 'a', { normalBalance: 'left' }))).toBe('normal_balance oneof');
  expect(await wrong(make(tenantId, 'a', { currency: 'ngn' }))).toBe('currency oneof');
  expect(await wrong(make(tenantId, 'a', { parentCode: '' }))).toBe('parent_code required');
  expect(await wrong(make(tenantId, 'a', { description: 'a'.repeat(1001) }))).toBe('description max');
  expect(await wrong(make(tenantId, 'a', { metadata: '[]' }))).toBe('metadata type');
  expect(await wrong(make(tenantId, 'a', { metadata: JSON.stringify({ a: 'b'.repeat(16_384) }) }))).toBe('metadata max');
  expect(await wrong(make(tenantId, 'a', { metadata: `${'{"a":'.repeat(11)}1${'}'.repeat(11)}` }))).toBe('metadata max');
  expect(await wrong(make(tenantId, 'a', { actor: 'a'.repeat(256) }))).toBe('actor max');
  expect(await wrong(setUp(tenantId, 'shop'))).toBe('business_type oneof');
  expect(await wrong(change(tenantId, 'a', { status: 'open' }))).toBe('status oneof');
  expect(await wrong(ledger.client.listAccounts({ tenantId, limit: 101 }))).toBe('limit max');
  expect(await wrong(ledger.client.listAccounts({ tenantId, limit: -1 }))).toBe('limit min');
  expect(await wrong(ledger.client.listAccounts({ tenantId, cursor: 'xyz' }))).toBe('cursor cursor');
  expect(await wrong(ledger.client.listAccounts({ tenantId, type: 'goods' }))).toBe('type oneof');
  expect(await refusal(make(tenantId, 'a', { type: 'x'.repeat(2000) }))).toMatchObject({ value: 'x'.repeat(1000) });
  expect(await refusal(make(tenantId, 'a', { currency: '' }))).toMatchObject({ tag: 'required', message: 'currency is required' });
  expect(await refusal(ledger.client.getAccount({ tenantId, accountCode: '*' }))).toMatchObject({ reason: 'account_not_found' });
});
