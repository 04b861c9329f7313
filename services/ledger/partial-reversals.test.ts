// Reversals of parts of a transaction: exact remainders, races, repetitions and reads.
import type { MessageInitShape } from '@bufbuild/protobuf';
import { withClient } from '../../deploy/local/databases.ts';
import { entries, newTenant, refusal, startLedger } from '../../test/ledger.ts';
import type { CommandResult, ReversalSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId } from '../platform/ids.ts';
import { toMinor } from '../platform/money.ts';

type Reversal = MessageInitShape<typeof ReversalSchema>;

let ledger: Awaited<ReturnType<typeof startLedger>>;

beforeAll(async () => {
  ledger = await startLedger();
});

afterAll(() => ledger.end());

async function tenantWith(...codes: string[]) {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of codes) {
    const allowNegative = !accountCode.startsWith('purse');
    await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset', allowNegative });
  }
  return { tenantId, tenant };
}

async function post(tenantId: string, ...lines: string[]): Promise<string> {
  const { transaction } = await ledger.client.postTransaction({ posting: { tenantId, entries: entries(...lines) } });
  return transaction!.transactionId;
}

async function reverse(tenantId: string, transactionId: string, more: Reversal = {}, call: object = {}): Promise<CommandResult> {
  const command = { case: 'reversal', value: { transactionId, ...more } } as const;
  const { results } = await ledger.client.submit({ tenantId, commands: [{ command }], ...call });
  return results[0]!;
}

const read = async (tenantId: string, transactionId: string) =>
  (await ledger.client.getTransaction({ tenantId, transactionId })).transaction!;
const outcomeOf = ({ transaction, refusal: refused, replayed }: CommandResult) =>
  refused ? [refused.reason, refused.field, refused.value] : [replayed ? 'replayed' : 'posted', transaction?.amount];
const list = async (tenantId: string, filter: object) =>
  (await ledger.client.listTransactions({ tenantId, ...filter })).transactions.map(({ transactionId }) => transactionId);

test('parts are reversed to the last cent, and the one that takes the rest completes', async () => {
  const { tenantId } = await tenantWith('a', 'b');
  const id = await post(tenantId, 'b debit 10.00 NGN', 'a credit 10.00 NGN');
  expect((await read(tenantId, id)).unreversed).toBeUndefined();
  const first = await reverse(tenantId, id, { amount: '2.50', reference: 'refund' });
  expect(first.transaction).toMatchObject({ kind: 'reversal', reverses: id, reference: 'refund', amount: '2.50' });
  expect(first.transaction!.unreversed).toBeUndefined();
  expect(first.transaction!.entries).toMatchObject([
    { accountCode: 'b', side: 'credit', amount: '2.50', balanceAfter: '7.50' },
    { accountCode: 'a', side: 'debit', amount: '2.50', balanceAfter: '-7.50' },
  ]);
  const partly = await read(tenantId, id);
  expect([partly.unreversed?.amounts, partly.reversedBy]).toEqual([['7.50', '7.50'], undefined]);
  expect(outcomeOf(await reverse(tenantId, id, { amount: '7.51' }))).toEqual(['reversal_exceeded', 'amount', '7.51']);
  const lines = entries('a debit 3.00 NGN', 'b credit 3.00 NGN');
  expect(outcomeOf(await reverse(tenantId, id, { entries: lines }))).toEqual(['posted', '3.00']);
  expect((await read(tenantId, id)).unreversed?.amounts).toEqual(['4.50', '4.50']);
  // The other call reverses all that is left, too.
  const { transaction: last } = await ledger.client.reverseTransaction({ tenantId, transactionId: id });
  expect(last?.amount).toBe('4.50');
  const reversed = await read(tenantId, id);
  expect([reversed.unreversed, reversed.reversedBy]).toEqual([undefined, last?.transactionId]);
  for (const more of [{}, { amount: '0.01' }]) expect(outcomeOf(await reverse(tenantId, id, more))[0]).toBe('already_reversed');
  expect(outcomeOf(await reverse(tenantId, first.transaction!.transactionId, { amount: '1.00' }))[0]).toBe('already_reversed');
  const { events } = await ledger.client.listEvents({ tenantId });
  const left = events.flatMap(({ data }) =>
    data.case === 'transactionPosted' && data.value.kind === 'reversal' ? [[data.value.reverses, data.value.unreversed?.amounts]] : [],
  );
  expect(left).toEqual([
    [id, ['7.50', '7.50']],
    [id, ['4.50', '4.50']],
    [id, undefined],
  ]);
});

test('entries take from alike ones in order, and only what balances and is there', async () => {
  const { tenantId } = await tenantWith('a', 'b', 'c');
  const id = await post(tenantId, 'a debit 2.00 NGN', 'b credit 5.00 NGN', 'a debit 3.00 NGN', 'a debit 1.00 USD', 'c credit 1.00 USD');
  const part = (...lines: string[]) => reverse(tenantId, id, { entries: entries(...lines) });
  expect(outcomeOf(await part('b debit 1.00 NGN', 'a credit 0.99 NGN'))).toEqual(['unbalanced', 'entries', 'NGN']);
  expect(outcomeOf(await part('b debit 1.00 NGN', 'c credit 1.00 NGN'))).toEqual(['entries_mismatch', 'entries[1].account_code', 'c']);
  expect(outcomeOf(await part('a debit 1.00 NGN', 'b credit 1.00 NGN'))).toEqual(['entries_mismatch', 'entries[0].account_code', 'a']);
  expect(outcomeOf(await reverse(tenantId, id, { amount: '1.00' }))).toEqual(['entries_mismatch', 'amount', '1.00']);
  expect(outcomeOf(await part('b debit 5.01 NGN', 'a credit 5.01 NGN'))).toEqual(['reversal_exceeded', 'entries[0].amount', '5.01']);
  expect(outcomeOf(await part('b debit 2.50 NGN', 'a credit 2.50 NGN'))).toEqual(['posted', '2.50']);
  expect((await read(tenantId, id)).unreversed?.amounts).toEqual(['0.00', '2.50', '2.50', '1.00', '1.00']);
  expect(outcomeOf(await part('c debit 1.00 USD', 'a credit 1.00 USD'))).toEqual(['posted', '1.00']);
  const last = await reverse(tenantId, id);
  expect(last.transaction?.entries.map(({ accountCode, side, amount }) => `${accountCode} ${side} ${amount}`)).toEqual([
    'b debit 2.50',
    'a credit 2.50',
  ]);
  expect((await read(tenantId, id)).reversedBy).toBe(last.transaction?.transactionId);
});

test.each<[string, Reversal, string[]]>([
  ['an amount and entries', { amount: '1.00', entries: entries('a debit 1.00 NGN') }, ['validation_failed', 'amount', '1.00']],
  ['a malformed amount', { amount: '1.001' }, ['validation_failed', 'amount', '1.001']],
  ['an amount of zero', { amount: '0.00' }, ['validation_failed', 'amount', '0.00']],
  [
    'a malformed entry',
    { entries: [{ accountCode: 'a', amount: '1.00', side: 'up', currency: 'NGN' }] },
    ['validation_failed', 'entries[0].side', 'up'],
  ],
  ['too many entries', { entries: Array(201).fill(entries('a debit 1.00 NGN')[0]) }, ['validation_failed', 'entries', '201']],
  ['an empty override', { overrideReason: '' }, ['validation_failed', 'override_reason', '']],
  ['its time over', { validUntilMs: 1n }, ['too_late', 'valid_until', '1970-01-01T00:00:00.001Z']],
  [
    'a condition that does not hold',
    { amount: '1.00', require: [{ accountCode: 'purse', currency: 'NGN', balance: { gte: '4.01' } }] },
    ['condition_failed', 'require[0].balance.gte', '4.01'],
  ],
  ['no money left', { amount: '4.01' }, ['insufficient_funds', 'entries[0].account_code', 'purse']],
])('a reversal with %s is refused', async (_, more, refused) => {
  const { tenantId } = await tenantWith('a', 'purse');
  const id = await post(tenantId, 'purse debit 5.00 NGN', 'a credit 5.00 NGN');
  await post(tenantId, 'a debit 1.00 NGN', 'purse credit 1.00 NGN');
  expect(outcomeOf(await reverse(tenantId, id, more))).toEqual(refused);
  expect((await read(tenantId, id)).unreversed).toBeUndefined();
});

test('a floor is overridden with a reason, which stands in the origin', async () => {
  const { tenantId } = await tenantWith('a', 'purse');
  const id = await post(tenantId, 'purse debit 5.00 NGN', 'a credit 5.00 NGN');
  await post(tenantId, 'a debit 5.00 NGN', 'purse credit 5.00 NGN');
  const { transaction } = await reverse(tenantId, id, { amount: '2.00', overrideReason: 'charged back' });
  expect(transaction?.origin?.override).toMatchObject({ reason: 'charged back', broken: ['insufficient_funds'] });
});

test('a repeated part is answered again, and another request under its key is refused for what differs', async () => {
  const { tenantId } = await tenantWith('a', 'b');
  const id = await post(tenantId, 'b debit 10.00 NGN', 'a credit 10.00 NGN');
  const other = await post(tenantId, 'b debit 10.00 NGN', 'a credit 10.00 NGN');
  const sent = { idempotencyKey: 'k', amount: '2.00', metadata: '{"n":1}' };
  expect(outcomeOf(await reverse(tenantId, id, sent))).toEqual(['posted', '2.00']);
  expect(outcomeOf(await reverse(tenantId, id, { ...sent, amount: '2.0' }))).toEqual(['replayed', '2.00']);
  expect((await read(tenantId, id)).unreversed?.amounts).toEqual(['8.00', '8.00']);
  const fieldsOf = async (of: string, more: Reversal) => (await reverse(tenantId, of, { ...sent, ...more })).refusal?.details['fields'];
  expect(await fieldsOf(id, { amount: '3.00' })).toBe('amount');
  expect(await fieldsOf(other, {})).toBe('transaction_id');
  expect(await fieldsOf(id, { metadata: '' })).toBe('metadata');
  expect(await fieldsOf(id, { reference: 'r' })).toBe('reference');
  expect(await fieldsOf(id, { amount: undefined })).toContain('amount');
  const lines = entries('a debit 1.00 NGN', 'b credit 1.00 NGN');
  expect(outcomeOf(await reverse(tenantId, id, { idempotencyKey: 'lines', entries: lines }))).toEqual(['posted', '1.00']);
  expect(outcomeOf(await reverse(tenantId, id, { idempotencyKey: 'lines', entries: lines }))).toEqual(['replayed', '1.00']);
  // A transaction under its own key is shown as it is now.
  const again = { tenantId, transactionId: other, entries: entries('b debit 10.00 NGN', 'a credit 10.00 NGN') };
  await reverse(tenantId, other, { amount: '9.99' });
  const { transaction, replayed } = await ledger.client.postTransaction({ posting: again });
  expect([replayed, transaction?.unreversed?.amounts]).toEqual([true, ['0.01', '0.01']]);
});

test('a whole reversal is the same request by either call, with nothing new sent', async () => {
  const { tenantId } = await tenantWith('a', 'b');
  const id = await post(tenantId, 'b debit 10.00 NGN', 'a credit 10.00 NGN');
  const sent = { idempotencyKey: 'k', description: 'd' };
  const { transaction } = await ledger.client.reverseTransaction({ tenantId, transactionId: id, ...sent });
  const again = await reverse(tenantId, id, sent);
  expect([again.replayed, again.transaction?.transactionId]).toEqual([true, transaction?.transactionId]);
  const { events } = await ledger.client.listEvents({ tenantId });
  const { data } = events.at(-1)!;
  expect(data.case === 'transactionPosted' && data.value.fingerprint[0]).toBe(1);
});

test('many parts at once, over several replicas, take no more than there is', async () => {
  const { tenantId, tenant } = await tenantWith('a', 'b');
  const id = await post(tenantId, 'b debit 10.00 NGN', 'a credit 10.00 NGN');
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, index) => (index === 7 ? reverse(tenantId, id) : reverse(tenantId, id, { amount: '0.70' }))),
  );
  const done = results.flatMap(({ transaction }) => (transaction ? [transaction] : []));
  const refused = results.flatMap(({ refusal: each }) => (each ? [each.reason] : []));
  for (const reason of refused) expect(['already_reversed', 'reversal_exceeded']).toContain(reason);
  expect(done.reduce((sum, { amount }) => sum + (toMinor(amount as string) as bigint), 0n)).toBe(1_000n);
  const original = await read(tenantId, id);
  const last = done.toSorted((one, other) => Number(one.sequence - other.sequence)).at(-1)!;
  expect([original.reversedBy, original.unreversed]).toEqual([last.transactionId, undefined]);
  const { balance } = await ledger.client.getBalance({ tenantId, accountCode: 'b', currency: 'NGN' });
  expect(balance?.balance).toBe('0.00');
  const { rows } = await withClient(ledger.database.adminUrl, (client) =>
    client.query<{ number: number }>('select number from parts where tenant_id = $1 order by number', [tenant]),
  );
  expect(rows.map(({ number }) => number)).toEqual(done.length === 1 ? [] : done.map((_, index) => index + 1));
});

test('parts within one atomic call, and of a transaction of that call, see each other', async () => {
  const { tenantId } = await tenantWith('a', 'b');
  const transactionId = newId('txn');
  const part = (amount?: string) => ({ command: { case: 'reversal', value: { transactionId, amount } } as const });
  const posting = {
    command: { case: 'posting', value: { transactionId, entries: entries('b debit 5.00 NGN', 'a credit 5.00 NGN') } } as const,
  };
  const submit = async (...commands: object[]) =>
    (await ledger.client.submit({ tenantId, commands, atomic: true })).results.map(({ transaction, refusal: refused }) =>
      refused ? refused.reason : transaction?.amount,
    );
  expect(await submit(posting, part('2.00'), part('3.01'))).toEqual([undefined, undefined, 'reversal_exceeded']);
  expect(await submit(posting, part('2.00'), part('1.00'))).toEqual(['5.00', '2.00', '1.00']);
  expect((await read(tenantId, transactionId)).unreversed?.amounts).toEqual(['2.00', '2.00']);
  expect(await submit(part('1.00'), part('1.01'))).toEqual([undefined, 'reversal_exceeded']);
  expect(await submit(part('1.00'), part(), part())).toEqual([undefined, undefined, 'already_reversed']);
  expect(await submit(part('1.00'), part())).toEqual(['1.00', '1.00']);
  expect((await read(tenantId, transactionId)).reversedBy).toBeDefined();
});

test('a dry run of a part changes nothing', async () => {
  const { tenantId } = await tenantWith('a', 'b');
  const id = await post(tenantId, 'b debit 5.00 NGN', 'a credit 5.00 NGN');
  const { transaction } = await reverse(tenantId, id, { amount: '2.00' }, { dryRun: true });
  expect([transaction?.amount, transaction?.transactionId, transaction?.sequence]).toEqual(['2.00', '', 0n]);
  expect((await read(tenantId, id)).unreversed).toBeUndefined();
  expect(outcomeOf(await reverse(tenantId, id, { amount: '5.00' }))).toEqual(['posted', '5.00']);
});

test('transactions are listed by their kind and by what they reverse', async () => {
  const { tenantId } = await tenantWith('a', 'b');
  const id = await post(tenantId, 'b debit 5.00 NGN', 'a credit 5.00 NGN');
  const other = await post(tenantId, 'b debit 6.00 NGN', 'a credit 6.00 NGN');
  const single = await post(tenantId, 'b debit 1.00 USD');
  const reversed: string[] = [];
  for (const [of, amount] of [
    [id, '1.00'],
    [other, undefined],
    [id, '1.50'],
    [id, undefined],
  ] as const) {
    reversed.unshift((await reverse(tenantId, of, { amount })).transaction!.transactionId);
  }
  const [last, second, whole, first] = reversed;
  expect(await list(tenantId, { reverses: id })).toEqual([last, second, first]);
  expect(await list(tenantId, { reverses: other })).toEqual([whole]);
  expect(await list(tenantId, { reverses: other, kind: 'double' })).toEqual([]);
  expect(await list(tenantId, { reverses: single })).toEqual([]);
  expect(await list(tenantId, { holdId: newId('hold') })).toEqual([]);
  expect(await list(tenantId, { kind: 'reversal' })).toEqual(reversed);
  expect(await list(tenantId, { kind: 'double' })).toEqual([other, id]);
  expect(await list(tenantId, { kind: 'single', currency: 'USD' })).toEqual([single]);
  expect(await list(tenantId, { kind: 'single', currency: 'NGN' })).toEqual([]);
  expect(await list(tenantId, { kind: 'reversal', accountCode: 'a', currency: 'NGN', reverses: id })).toEqual([last, second, first]);
  expect(await list(tenantId, { kind: 'capture' })).toEqual([]);
  const page = await ledger.client.listTransactions({ tenantId, kind: 'reversal', limit: 3 });
  expect(page.transactions).toHaveLength(3);
  expect(await list(tenantId, { kind: 'reversal', limit: 3, cursor: page.nextCursor })).toEqual([first]);
  for (const [field, value] of [
    ['kind', 'hold'],
    ['holdId', 'x'],
    ['reverses', id.toUpperCase()],
  ] as const) {
    const name = field === 'holdId' ? 'hold_id' : field;
    expect(await refusal(ledger.client.listTransactions({ tenantId, [field]: value }))).toMatchObject({ field: name, value });
  }
});
