// Batches of accounts, groups that move, and the tree with its totals.
import { Code } from '@connectrpc/connect';
import type { AccountNode, CreateAccountRequest, UpdateAccountRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { openOperator } from './audit/operator.ts';
import { rebuild } from './audit/rebuild.ts';
import { verify } from './audit/verify.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

const by = { actor: 'key_of_the_test', requestId: 'request' };

type Wanted = Partial<Omit<CreateAccountRequest, '$typeName'>>;
const make = (tenantId: string, accountCode: string, more: Wanted = {}) =>
  ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', ...by, ...more });
/** An account of a batch. */
const item = (accountCode: string, more: Wanted = {}) => ({ accountCode, name: accountCode, type: 'asset', ...more });
const change = (tenantId: string, accountCode: string, more: Partial<Omit<UpdateAccountRequest, '$typeName'>>) =>
  ledger.client.updateAccount({ tenantId, accountCode, ...by, ...more });
const post = (tenantId: string, ...lines: string[]) => ledger.client.postTransaction({ posting: { tenantId, entries: entries(...lines) } });
const eventsOf = async (tenantId: string) => (await ledger.client.listEvents({ tenantId, limit: 100 })).events;

test('a chart of more than 4 MiB is refused as one message, and read in parts or as a stream', async () => {
  const { tenantId } = newTenant();
  const texts = { description: 'é'.repeat(1_000), metadata: JSON.stringify({ note: 'x'.repeat(15_000) }) };
  await make(tenantId, 'group', { isGroup: true });
  for (let from = 0; from < 300; from += 100) {
    const accounts = Array.from({ length: 100 }, (_, index) => item(`a-${from + index}`, { parentCode: 'group', ...texts }));
    await ledger.client.createAccounts({ tenantId, accounts, ...by });
  }
  expect(await refusal(ledger.client.getHierarchy({ tenantId }))).toMatchObject({ reason: 'too_large', field: 'depth' });
  const [top] = (await ledger.client.getHierarchy({ tenantId, depth: 1 })).accounts;
  expect(top).toMatchObject({ children: [], childrenCount: 300n });
  const parts = await Array.fromAsync(ledger.client.streamHierarchy({ tenantId, root: 'group' }));
  const nodes = parts.flatMap((part) => part.nodes);
  expect(nodes.map(({ account, level }) => [account?.accountCode, level])).toEqual([
    ['group', 1],
    ...Array.from({ length: 300 }, (_, index) => [`a-${index}`, 2]),
  ]);
  expect(nodes.at(-1)?.account).toMatchObject(texts);
  // A client that leaves early, of itself or by its signal, cancels the call and nothing else.
  for await (const part of ledger.client.streamHierarchy({ tenantId })) {
    expect(part.nodes).toHaveLength(250);
    break;
  }
  const leaving = new AbortController();
  const left = (async () => {
    for await (const _ of ledger.client.streamHierarchy({ tenantId }, { signal: leaving.signal })) leaving.abort();
  })();
  await expect(left).rejects.toMatchObject({ code: Code.Canceled });
  expect(await refusal(Array.fromAsync(ledger.client.streamHierarchy({ tenantId, root: 'nobody' })))).toMatchObject({
    reason: 'account_not_found',
  });
});

test('a part of a chart has the balances of all that is below it', async () => {
  const { tenantId } = newTenant();
  await ledger.client.createAccounts({
    ...{ tenantId, ...by },
    accounts: [
      item('leaf', { parentCode: 'inner' }),
      item('contra', { parentCode: 'inner', normalBalance: 'credit' }),
      item('inner', { parentCode: 'outer', isGroup: true }),
      item('outer', { isGroup: true }),
      item('other'),
    ],
  });
  await post(tenantId, 'leaf debit 7.00 NGN', 'contra credit 2.00 NGN', 'other credit 5.00 NGN');
  await post(tenantId, 'leaf debit 1.00 USD', 'other credit 1.00 USD');
  const read = async (part: object) => {
    const { accounts } = await ledger.client.getHierarchy({ tenantId, includeBalances: true, ...part });
    const shown = (node: AccountNode): unknown => [
      node.account?.accountCode,
      Number(node.childrenCount),
      node.balances.map(({ balance, currency }) => `${balance} ${currency}`).join(),
      ...node.children.map(shown),
    ];
    return accounts.map(shown);
  };
  const leaves = [
    ['leaf', 0, '7.00 NGN,1.00 USD'],
    ['contra', 0, '2.00 NGN'],
  ];
  const other = ['other', 0, '-5.00 NGN,-1.00 USD'];
  expect(await read({ depth: 1 })).toEqual([['outer', 1, '5.00 NGN,1.00 USD'], other]);
  expect(await read({ depth: 2 })).toEqual([['outer', 1, '5.00 NGN,1.00 USD', ['inner', 2, '5.00 NGN,1.00 USD']], other]);
  expect(await read({ root: 'inner' })).toEqual([['inner', 2, '5.00 NGN,1.00 USD', ...leaves]]);
  expect(await read({ root: 'leaf', depth: 32 })).toEqual([leaves[0]]);
  expect(await refusal(ledger.client.getHierarchy({ tenantId, depth: 0 }))).toMatchObject({ field: 'depth', tag: 'min' });
  expect(await refusal(ledger.client.getHierarchy({ tenantId, depth: 33 }))).toMatchObject({ field: 'depth', tag: 'max' });
  expect(await refusal(ledger.client.getHierarchy({ tenantId, root: '*' }))).toMatchObject({ field: 'root', tag: 'code' });
});

test('a batch is made whole or not at all, parents in any order, each account as one event', async () => {
  const { tenantId } = newTenant();
  const batch = (accounts: ReturnType<typeof item>[], onExisting?: string) =>
    ledger.client.createAccounts({ tenantId, accounts, ...(onExisting !== undefined && { onExisting }), ...by });
  await make(tenantId, 'group', { isGroup: true });
  const mine = [item('c', { parentCode: 'b' }), item('b', { parentCode: 'group', isGroup: true }), item('a', { currency: 'USD' })];
  const { accounts, ...counts } = await batch(mine);
  expect(counts).toMatchObject({ created: 3, skipped: 0 });
  expect(accounts.map(({ accountCode, parentCode, version }) => [accountCode, parentCode, version])).toEqual([
    ['c', 'b', 1n],
    ['b', 'group', 1n],
    ['a', undefined, 1n],
  ]);
  const events = await eventsOf(tenantId);
  expect(events.map(({ type, actor }) => [type, actor])).toEqual(Array(4).fill(['account.created', by.actor]));
  expect(events.map(({ data }) => (data.value as { account: { accountCode: string } }).account.accountCode)).toEqual([
    'group',
    'b',
    'c',
    'a',
  ]);

  // A bad one stops all, and is named.
  for (const [more, reason, field, value] of [
    [item('SUSPENSE-NGN'), 'account_code_taken', 'account_code', 'SUSPENSE-NGN'],
    [item('e', { parentCode: 'a' }), 'parent_invalid', 'parent_code', 'a'],
    [item('e', { parentCode: 'group', type: 'equity' }), 'parent_invalid', 'parent_code', 'group'],
    [item('e', { name: '' }), 'validation_failed', 'name', ''],
    [item('e', { metadata: '[]' }), 'validation_failed', 'metadata', '[]'],
  ] as const) {
    expect(await refusal(batch([item('d'), more]))).toMatchObject({ reason, field: `accounts[1].${field}`, value });
  }
  const ring = [item('x', { parentCode: 'y', isGroup: true }), item('y', { parentCode: 'x', isGroup: true })];
  expect(await refusal(batch(ring))).toMatchObject({ reason: 'parent_invalid', message: expect.stringContaining('below itself') });
  expect(await refusal(batch([]))).toMatchObject({ field: 'accounts', tag: 'required' });
  expect(await refusal(batch(Array.from({ length: 1001 }, (_, n) => item(`n${n}`))))).toMatchObject({ field: 'accounts', tag: 'max' });
  expect(await refusal(batch([item('d')], 'replace'))).toMatchObject({ field: 'on_existing', tag: 'oneof' });
  expect(await eventsOf(tenantId)).toHaveLength(4);

  // The same batch again is refused, or makes what is missing.
  expect(await refusal(batch(mine))).toMatchObject({ reason: 'account_code_taken' });
  const again = await batch([...mine.map((each) => ({ ...each, name: 'Other' })), item('d', { parentCode: 'b' })], 'skip');
  expect(again).toMatchObject({ created: 1, skipped: 3 });
  expect(again.accounts.slice(0, 3)).toEqual(accounts);
  expect((await batch(mine, 'skip')).created).toBe(0);
  expect(await eventsOf(tenantId)).toHaveLength(5);
});

test('batches and single accounts at once are each made once', async () => {
  const { tenantId } = newTenant();
  const accounts = Array.from({ length: 200 }, (_, index) => item(`n-${index}`, { currency: 'NGN' }));
  const outcomes = await Promise.allSettled([
    ...[1, 2].map(() => ledger.client.createAccounts({ tenantId, accounts, onExisting: 'skip' })),
    ...[0, 50, 199].map((index) => make(tenantId, `n-${index}`)),
    ...[1, 2].map(() => post(tenantId, 'n-1 debit 1.00 NGN', 'n-2 credit 1.00 NGN')),
  ]);
  const made = outcomes.slice(0, 2).map((each) => (each.status === 'fulfilled' ? (each.value as { created: number }).created : -1));
  const alone = outcomes.slice(2, 5).filter(({ status }) => status === 'fulfilled').length;
  expect(made[0]! + made[1]! + alone).toBe(200);
});

test('32 levels are the most, also in a batch and for a group that is moved', async () => {
  const { tenantId } = newTenant();
  const chain = (name: string, levels: number) =>
    Array.from({ length: levels }, (_, level) =>
      item(`${name}-${level}`, { isGroup: true, ...(level > 0 && { parentCode: `${name}-${level - 1}` }) }),
    );
  const batch = (accounts: ReturnType<typeof item>[]) => ledger.client.createAccounts({ tenantId, accounts, ...by });
  expect(await refusal(batch(chain('a', 33)))).toMatchObject({ reason: 'parent_invalid', field: 'accounts[32].parent_code' });
  await batch([...chain('a', 20), ...chain('b', 13)].reverse());
  const move = (code: string, parentCode: string) => change(tenantId, code, { parentCode });
  expect(await refusal(move('b-0', 'a-19'))).toMatchObject({ reason: 'parent_invalid', field: 'parent_code', value: 'a-19' });
  expect((await move('b-0', 'a-18')).account).toMatchObject({ parentCode: 'a-18', version: 2n });
  expect((await ledger.client.getHierarchy({ tenantId, includeBalances: true })).accounts).toHaveLength(1);
  expect(await refusal(make(tenantId, 'leaf', { parentCode: 'b-12' }))).toMatchObject({ reason: 'parent_invalid' });
});

test('a group is moved with all below it, but not below itself or where it does not fit', async () => {
  const { tenantId } = newTenant();
  await ledger.client.createAccounts({
    ...{ tenantId, ...by },
    accounts: [
      item('from', { isGroup: true }),
      item('to', { isGroup: true }),
      item('group', { isGroup: true, parentCode: 'from' }),
      item('inner', { isGroup: true, parentCode: 'group' }),
      item('till', { parentCode: 'inner' }),
      item('debts', { isGroup: true, type: 'liability' }),
      item('old', { isGroup: true }),
    ],
  });
  await change(tenantId, 'old', { status: 'closed' });
  await post(tenantId, 'till debit 3.00 NGN');
  const before = await eventsOf(tenantId);
  const move = (parentCode: string, code = 'group') => change(tenantId, code, { parentCode });
  for (const to of ['group', 'inner', 'till', 'debts', 'old']) {
    expect(await refusal(move(to))).toMatchObject({ reason: 'parent_invalid', field: 'parent_code', value: to });
  }
  expect(await refusal(move('nobody'))).toMatchObject({ reason: 'account_not_found', field: 'parent_code', value: 'nobody' });
  expect(await refusal(move('to', 'SUSPENSE-NGN'))).toMatchObject({ reason: 'account_is_system' });
  expect((await move('from')).account?.version).toBe(1n);
  expect(await eventsOf(tenantId)).toEqual(before);

  const { account } = await change(tenantId, 'group', { parentCode: 'to', name: 'Group', version: 1n });
  expect(account).toMatchObject({ parentCode: 'to', name: 'Group', version: 2n });
  const moved = (await eventsOf(tenantId)).at(-1);
  expect(moved).toMatchObject({ type: 'account.updated', data: { value: { account, changes: ['name', 'parent_code'] } } });
  const { accounts } = await ledger.client.getHierarchy({ tenantId, includeBalances: true });
  const balances = accounts.map((node) => [node.account?.accountCode, node.balances.map(({ balance }) => balance).join()]);
  expect(balances).toEqual([
    ['from', ''],
    ['to', '3.00'],
    ['debts', ''],
    ['old', ''],
    ['SUSPENSE-NGN', '3.00'],
  ]);
  // Two groups that are moved below each other at once: one of them is.
  const both = await Promise.allSettled([move('to', 'from'), move('from', 'to')]);
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

test('the log of all changes above verifies, and a rebuild from it finds no difference', async () => {
  const operator = await openOperator(ledger.database.ownerUrl);
  const lines: string[] = [];
  const { tenants } = await verify(operator, {}, (line) => lines.push(line));
  const rebuilt = await rebuild(operator, { tenant: undefined, check: true }, (line) => lines.push(line));
  await operator.end();
  expect([tenants > 4, rebuilt.findings, lines]).toEqual([true, 0, []]);
});
