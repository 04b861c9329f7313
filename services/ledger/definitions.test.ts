import { newId, toUuid } from '../platform/ids.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

const by = { actor: 'key_of_the_test', requestId: 'request' };
const daily = { calendar: 'day', time_zone: 'Africa/Lagos' };
const usual = { account_code: 'wallet', currency: 'NGN', side: 'debit', max_amount: '500.00', window: daily };

const put = (tenantId: string, record: object, more: { id?: string; mustExist?: boolean; kind?: string; record?: string } = {}) =>
  ledger.client.putDefinition({ tenantId, kind: 'limit', record: JSON.stringify(record), ...by, ...more });
const make = async (tenantId: string, more: object = {}) => (await put(tenantId, { ...usual, ...more })).definition!;
const change = (tenantId: string, id: string, record: object) => put(tenantId, record, { id, mustExist: true });
const remove = (tenantId: string, id: string) => ledger.client.deleteDefinition({ tenantId, kind: 'limit', id, ...by });
const read = async (tenantId: string, id: string) => (await ledger.client.getDefinition({ tenantId, kind: 'limit', id })).definition!;
const list = (tenantId: string, limit = 0, cursor = '') => ledger.client.listDefinitions({ tenantId, kind: 'limit', limit, cursor });
const recordOf = ({ record }: { record: string }) => JSON.parse(record) as Record<string, unknown>;
const events = async (tenantId: string) => {
  const { events: all } = await ledger.client.listEvents({ tenantId, limit: 100 });
  return all.filter(({ type }) => type === 'definition.changed').map(({ data }) => data.value as Record<string, unknown>);
};

/** A tenant with the group `wallets`, above the accounts `wallet` and `naira`, which holds naira only, and the account `bank`. */
async function tenantWithAccounts(): Promise<string> {
  const { tenantId } = newTenant();
  const type = 'liability';
  const accounts = [
    { accountCode: 'wallets', name: 'Wallets', type, isGroup: true },
    { accountCode: 'wallet', name: 'Wallet', type, parentCode: 'wallets' },
    { accountCode: 'naira', name: 'Naira', type, parentCode: 'wallets', currency: 'NGN' },
    { accountCode: 'bank', name: 'Bank', type: 'asset' },
  ];
  await ledger.client.createAccounts({ tenantId, accounts, ...by });
  return tenantId;
}

test('a limit is made with all its fields, and each change is an event', async () => {
  const tenantId = await tenantWithAccounts();
  const made = await make(tenantId);
  expect(made).toMatchObject({ kind: 'limit', version: 1n, id: expect.stringMatching(/^limit_/) as string });
  const first = recordOf(made);
  expect(Object.keys(first)).toEqual([
    ...['limit_id', 'account_code', 'applies', 'currency', 'side', 'max_amount', 'max_count', 'window', 'name', 'status'],
    ...['version', 'created_at', 'updated_at'],
  ]);
  expect(first).toMatchObject({
    ...usual,
    limit_id: made.id,
    applies: 'account',
    max_count: null,
    name: null,
    status: 'active',
    version: 1,
  });
  expect(await read(tenantId, made.id)).toEqual(made);

  const { definition: second } = await change(tenantId, made.id, { max_count: 3, name: 'Daily', status: 'paused', version: 1 });
  expect(recordOf(second!)).toMatchObject({
    ...first,
    max_count: 3,
    name: 'Daily',
    status: 'paused',
    version: 2,
    updated_at: expect.any(String) as string,
  });
  expect(recordOf(second!)).not.toHaveProperty('updated_at', first['updated_at']);
  const { definition: third } = await change(tenantId, made.id, { max_amount: '7', max_count: null, name: '' });
  expect(recordOf(third!)).toMatchObject({ max_amount: '7.00', max_count: 3, name: null, version: 3 });
  await remove(tenantId, made.id);

  const kindAndId = { kind: 'limit', id: made.id };
  expect(await events(tenantId)).toMatchObject([
    { ...kindAndId, version: 1n, record: made.record },
    { ...kindAndId, version: 2n, record: second!.record },
    { ...kindAndId, version: 3n, record: third!.record },
    { ...kindAndId, version: 4n },
  ]);
  expect((await events(tenantId))[3]).not.toHaveProperty('record');
});

test('a change without effect makes no version and no event', async () => {
  const tenantId = await tenantWithAccounts();
  const id = newId('limit');
  const { definition: made } = await put(tenantId, usual, { id });
  expect(made!.id).toBe(id);
  expect((await put(tenantId, usual, { id })).definition).toEqual(made);
  expect((await change(tenantId, id, { max_amount: '500', status: 'active', name: '' })).definition).toEqual(made);
  expect(await events(tenantId)).toHaveLength(1);
});

test('an unknown limit, one that was deleted, and one of another tenant are not found', async () => {
  const tenantId = await tenantWithAccounts();
  const other = await tenantWithAccounts();
  const { id } = await make(tenantId);
  const refusals = async (of: string, limitId: string) => {
    const calls = [read, (_: string, each: string) => change(of, each, { status: 'paused' }), remove];
    const usage = () => ledger.client.getUsage({ tenantId: of, limitId });
    return Promise.all([...calls, usage].map(async (call) => (await refusal(call(of, limitId))).reason));
  };
  const four = Array.from({ length: 4 }, () => 'limit_not_found');
  expect(await refusals(other, id)).toEqual(four);
  expect(await refusals(newTenant().tenantId, id)).toEqual(four);
  expect(await refusals(tenantId, newId('limit'))).toEqual(four);
  await remove(tenantId, id);
  expect(await refusals(tenantId, id)).toEqual(four);
  expect((await list(other)).definitions).toEqual([]);
});

test('limits are listed newest first, page by page', async () => {
  const tenantId = await tenantWithAccounts();
  const made = [];
  for (let count = 1; count <= 5; count++) made.push(await make(tenantId, { max_count: count }));
  const first = await list(tenantId, 3);
  const second = await list(tenantId, 3, first.nextCursor);
  expect([...first.definitions, ...second.definitions]).toEqual(made.toReversed());
  expect([first.definitions.length, second.nextCursor]).toEqual([3, '']);
  expect(await refusal(list(newTenant().tenantId, 3, first.nextCursor))).toMatchObject({ field: 'cursor', tag: 'cursor' });
});

test('an account or currency that a limit can’t have is refused with the field and its value', async () => {
  const tenantId = await tenantWithAccounts();
  const cases: [object, object][] = [
    [{ account_code: 'nowhere' }, { reason: 'account_not_found', field: 'account_code', tag: 'account_not_found', value: 'nowhere' }],
    [
      { account_code: 'naira', currency: 'USD' },
      { reason: 'currency_not_allowed', field: 'currency', value: 'USD' },
    ],
    [{ account_code: 'wallets' }, { reason: 'account_is_group', field: 'account_code', value: 'wallets' }],
    [{ applies: 'each' }, { reason: 'validation_failed', field: 'applies', tag: 'oneof', value: 'each' }],
    [{ applies: 'sum' }, { reason: 'validation_failed', field: 'applies', tag: 'oneof', value: 'sum' }],
  ];
  for (const [more, expected] of cases) expect(await refusal(make(tenantId, more))).toMatchObject(expected);
  const nobody = newTenant().tenantId;
  expect(await refusal(make(nobody))).toMatchObject({ reason: 'account_not_found', field: 'account_code', value: 'wallet' });
  for (const applies of ['each', 'sum']) expect(await make(tenantId, { account_code: 'wallets', applies })).toMatchObject({ version: 1n });
});

test.each<[string, object, string, string, string]>([
  ['no account', { account_code: null }, 'account_code', 'required', ''],
  ['a malformed account', { account_code: '-' }, 'account_code', 'code', '-'],
  ['an account that is no text', { account_code: 5 }, 'account_code', 'type', '5'],
  ['unknown applies', { applies: 'all' }, 'applies', 'oneof', 'all'],
  ['no currency', { currency: null }, 'currency', 'required', ''],
  ['an unknown currency', { currency: 'XAU' }, 'currency', 'oneof', 'XAU'],
  ['no side', { side: null }, 'side', 'required', ''],
  ['an unknown side', { side: 'left' }, 'side', 'oneof', 'left'],
  ['no maximum', { max_amount: null }, 'max_amount', 'required', ''],
  ['an amount of zero', { max_amount: '0.00' }, 'max_amount', 'gt', '0.00'],
  ['an amount below a cent', { max_amount: '1.001' }, 'max_amount', 'decimal', '1.001'],
  ['a count of zero', { max_count: 0 }, 'max_count', 'min', '0'],
  ['a count beyond a thousand million', { max_count: 1_000_000_001 }, 'max_count', 'max', '1000000001'],
  ['a broken count', { max_count: 1.5 }, 'max_count', 'type', '1.5'],
  ['no window', { window: null }, 'window', 'required', ''],
  ['a window that is no object', { window: 'day' }, 'window', 'type', 'day'],
  ['an empty window', { window: {} }, 'window.rolling_seconds', 'required', ''],
  ['a short window', { window: { rolling_seconds: 59 } }, 'window.rolling_seconds', 'min', '59'],
  ['a long window', { window: { rolling_seconds: 31_622_401 } }, 'window.rolling_seconds', 'max', '31622401'],
  ['both windows', { window: { rolling_seconds: 60, calendar: 'day' } }, 'window.calendar', 'same', 'day'],
  ['a rolling window with a time zone', { window: { rolling_seconds: 60, time_zone: 'UTC' } }, 'window.time_zone', 'same', 'UTC'],
  ['an unknown calendar', { window: { calendar: 'hour', time_zone: 'UTC' } }, 'window.calendar', 'oneof', 'hour'],
  ['a calendar without its time zone', { window: { calendar: 'day' } }, 'window.time_zone', 'required', ''],
  ['a time zone without its calendar', { window: { time_zone: 'UTC' } }, 'window.calendar', 'required', ''],
  ['an unknown time zone', { window: { calendar: 'day', time_zone: 'Mars' } }, 'window.time_zone', 'timezone', 'Mars'],
  ['an unknown field of the window', { window: { rolling_seconds: 60, unit: 's' } }, 'window.unit', 'unknown', 's'],
  ['a long name', { name: 'x'.repeat(256) }, 'name', 'max', 'x'.repeat(256)],
  ['an unknown status', { status: 'off' }, 'status', 'oneof', 'off'],
  ['an unknown field', { max_ammount: '5' }, 'max_ammount', 'unknown', '5'],
  ['a version of what is new', { version: 1 }, 'version', 'unknown', '1'],
])('%s is refused', async (_, more, field, tag, value) => {
  const refused = await refusal(make(newTenant().tenantId, more));
  expect(refused).toMatchObject({ reason: 'validation_failed', field, tag, value });
  expect(refused.message).toContain(field);
});

test('what a limit counts never changes, and a stale version is refused', async () => {
  const tenantId = await tenantWithAccounts();
  const { id } = await make(tenantId);
  for (const [field, value] of Object.entries({
    ...{ account_code: 'bank', applies: 'sum', currency: 'USD', side: 'credit' },
    window: { rolling_seconds: 60 },
  })) {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    expect(await refusal(change(tenantId, id, { [field]: value }))).toMatchObject({ field, tag: 'immutable', value: text });
  }
  expect(await refusal(change(tenantId, id, { status: 'paused', version: 2 }))).toMatchObject({
    ...{ reason: 'version_conflict', field: 'version', value: '2' },
  });
  expect(await refusal(change(tenantId, id, { max_ammount: '5' }))).toMatchObject({ field: 'max_ammount', tag: 'unknown', value: '5' });
  expect((await read(tenantId, id)).version).toBe(1n);
});

test('malformed calls are refused', async () => {
  const tenantId = await tenantWithAccounts();
  expect(await refusal(put(tenantId, usual, { kind: 'rule' }))).toMatchObject({ field: 'kind', tag: 'oneof', value: 'rule' });
  expect(await refusal(put(tenantId, usual, { id: 'limit_1' }))).toMatchObject({ field: 'id', tag: 'id', value: 'limit_1' });
  for (const record of ['', '[]', 'null', '{"window":{"calendar":{"day":{}}}}']) {
    expect(await refusal(put(tenantId, {}, { record }))).toMatchObject({ reason: 'validation_failed', field: 'record' });
  }
  expect(await refusal(ledger.client.getUsage({ tenantId, limitId: '' }))).toMatchObject({ field: 'limit_id', tag: 'required' });
});

test('a tenant has at most 1,000 limits', async () => {
  const tenantId = await tenantWithAccounts();
  const { id } = await make(tenantId);
  const tenant = toUuid('tenant', tenantId);
  const client = await ledger.pool.connect();
  try {
    await client.query(`select set_config('app.tenant', $1, false)`, [tenant]);
    await client.query(
      `insert into definitions select tenant_id, kind, 'limit_' || i, 1, record from definitions, generate_series(1, 999) as i where tenant_id = $1`,
      [tenant],
    );
  } finally {
    client.release(true);
  }
  expect(await refusal(make(tenantId))).toMatchObject({ reason: 'too_many', field: 'limits', tag: 'too_many', value: '1000' });
  await remove(tenantId, id);
  expect(await make(tenantId)).toMatchObject({ version: 1n });
});

test('usage begins with nothing; of a limit on each account it is one account’s', async () => {
  const tenantId = await tenantWithAccounts();
  const usage = (limitId: string, accountCode?: string) =>
    ledger.client.getUsage({ tenantId, limitId, ...(accountCode && { accountCode }) });
  const { id } = await make(tenantId, { max_count: 2 });
  const used = await usage(id);
  expect(used).toMatchObject({
    limitId: id,
    accountCode: 'wallet',
    amount: '0.00',
    count: 0n,
    remainingAmount: '500.00',
    remainingCount: 2n,
  });
  expect([used.windowEndMs - used.windowStartMs, used.windowStartMs % 86_400_000n]).toEqual([86_400_000n, 82_800_000n]);
  expect(await usage(id, 'wallet')).toMatchObject({ accountCode: 'wallet' });
  expect(await refusal(usage(id, 'naira'))).toMatchObject({ reason: 'account_not_found' });

  const each = await make(tenantId, { account_code: 'wallets', applies: 'each', window: { rolling_seconds: 3600 }, max_amount: '5' });
  const ofEach = await usage(each.id, 'naira');
  expect(ofEach).toMatchObject({ accountCode: 'naira', amount: '0.00', remainingAmount: '5.00' });
  expect(ofEach).not.toHaveProperty('remainingCount');
  expect(ofEach.windowEndMs - ofEach.windowStartMs).toBe(3_660_000n);
  expect(await refusal(usage(each.id))).toMatchObject({ reason: 'validation_failed', field: 'account_code', tag: 'required' });
  for (const code of ['bank', 'wallets', 'nowhere'])
    expect(await refusal(usage(each.id, code))).toMatchObject({ reason: 'account_not_found' });

  const sum = await make(tenantId, { account_code: 'wallets', applies: 'sum' });
  expect(await usage(sum.id)).toMatchObject({ accountCode: 'wallets' });
  expect(await refusal(usage(sum.id, 'naira'))).toMatchObject({ reason: 'account_not_found' });
});

test('two changes at once are one after the other', async () => {
  const tenantId = await tenantWithAccounts();
  const { id } = await make(tenantId);
  const amounts = ['1.00', '2.00', '3.00', '4.00'];
  await Promise.all(amounts.map((max_amount) => change(tenantId, id, { max_amount })));
  expect((await read(tenantId, id)).version).toBe(5n);
  const versions = (await events(tenantId)).map(({ version }) => version);
  expect(versions).toEqual([1n, 2n, 3n, 4n, 5n]);
  const raced = await Promise.allSettled([remove(tenantId, id), remove(tenantId, id)]);
  expect(raced.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});
