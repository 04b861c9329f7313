// Batches through REST: each item as its route alone, or all or none.
import { toDecimal, toMinor } from '../services/platform/money.ts';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { deposit, line, newWallet, type Customer } from '../test/customer.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
let customer: Customer;
const wallet = 'CUSTOMER-WALLETS-USD';

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  await customer.post('transactions/double-entry', deposit('1000.00'));
});
afterAll(() => cluster.stop());

type Fields = Record<string, unknown>;
let count = 0;
/** A key that nothing else has. */
const newKey = () => `key-${(count += 1)}`;
const withdrawal = (amount: string, more: Fields = {}): Fields => ({
  op: 'double',
  idempotency_key: newKey(),
  entries: [line(wallet, 'debit', amount), line('SETTLEMENT-USD', 'credit', amount)],
  ...more,
});
const income = (amount: string, more: Fields = {}): Fields => ({ op: 'double', idempotency_key: newKey(), ...deposit(amount), ...more });
const batch = (items: unknown[], more: Fields = {}, query = '', of = customer) => of.post(`transactions/batch${query}`, { items, ...more });
const atomic = (items: unknown[], query = '') => batch(items, { atomic: true }, query);
const state = async (of = customer) => ({
  balance: (await of.get(`accounts/code/${wallet}/balance?currency=USD`)).balance,
  last: (await of.get('transactions?limit=1')).transactions[0].sequence,
});
const unknownTransaction = 'txn_01jd1zq5v806n9w2k4m7p3r5t8';

describe('independent items', () => {
  /** Items of every kind, right and wrong; the same for any tenant. `done`: a transaction that can be reversed. */
  const items = (done: string): Fields[] => [
    income('5.00', { idempotency_key: 'same', description: 'In', reference: 'R', metadata: { a: [1, 'x'] } }),
    { op: 'single', idempotency_key: 'one', ...line('MARKETING', 'debit', '3.00') },
    {
      op: 'exchange',
      idempotency_key: 'fx',
      debit: { account_code: wallet, currency: 'USD', amount: '10.00' },
      credit: { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
      rate: { base: 'USD', quote: 'NGN', value: '1500' },
    },
    { op: 'reverse', transaction_id: done, idempotency_key: 'back', amount: '4.00' },
    { op: 'reverse', transaction_id: done, idempotency_key: 'too-much', amount: '7.00' },
    { op: 'reverse', transaction_id: unknownTransaction, idempotency_key: 'nothing' },
    { op: 'reverse', transaction_id: 'txn_1', idempotency_key: 'malformed' },
    withdrawal('99999.00', { idempotency_key: 'poor' }),
    income('5.00', { idempotency_key: 'same', description: 'Other' }),
    income('5.00', { idempotency_key: 'same', description: 'In', reference: 'R', metadata: { a: [1, 'x'] } }),
    { op: 'single', idempotency_key: 'nowhere', ...line('NOPE', 'debit') },
    { op: 'double', idempotency_key: 'odd', entries: [line(wallet, 'debit', '1.00'), line('SETTLEMENT-USD', 'credit', '2.00')] },
    withdrawal('1.00', { idempotency_key: 'late', valid_until: '2020-01-01T00:00:00Z' }),
    withdrawal('1.00', { idempotency_key: 'condition', require: [{ account_code: wallet, currency: 'USD', available: { gte: '99999' } }] }),
    { op: 'double', idempotency_key: 'few', entries: [line(wallet, 'debit')] },
    { op: 'single', idempotency_key: 'wrong', ...line('MARKETING', 'debit', '0'), currency: 'XXX', ammount: '1' },
    { op: 'single', idempotency_key: ' blank', ...line('MARKETING', 'debit') },
    { op: 'single', idempotency_key: 'half', description: '\ud800', ...line('MARKETING', 'debit') },
    { op: 'single', idempotency_key: 'deep', metadata: { n: { a: 'x'.repeat(17_000) } }, ...line('MARKETING', 'debit') },
  ];
  const paths: Record<string, (item: Fields) => string> = {
    single: () => 'transactions',
    double: () => 'transactions/double-entry',
    exchange: () => 'transactions/exchange',
    reverse: ({ transaction_id }) => `transactions/${String(transaction_id)}/reverse`,
  };
  /** What differs between two tenants in any case. */
  const plain = (value: unknown) =>
    JSON.parse(JSON.stringify(value).replaceAll(/(txn|acc)_\w{26}|\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<any>')) as Fields;

  test('each result is what the route alone would have answered', async () => {
    const [one, other] = await Promise.all([newWallet(cluster), newWallet(cluster)]);
    const [first, second] = await Promise.all(
      [one, other].map(
        async (of) => (await of.post('transactions/double-entry', deposit('10.00', { idempotency_key: 'first' }))).body.data.transaction,
      ),
    );
    const { status, body } = await batch(items(first.transaction_id), {}, '', one);
    expect(status).toBe(200);
    const expected: Fields[] = [];
    for (const { op, transaction_id, ...sent } of items(second.transaction_id)) {
      const answer = await other.post(paths[op as string]!({ transaction_id }), sent);
      const { success: _, request_id: __, ...said } = answer.body;
      expected.push({ status: answer.status, replayed: answer.headers.get('idempotent-replayed') === 'true', ...said });
    }
    expect(body.data.results.map(plain)).toEqual(expected.map(plain));
    const statuses = body.data.results.map((each: Fields) => each['status']);
    expect(statuses).toEqual([201, 201, 201, 201, 422, 404, 400, 422, 422, 200, 422, 422, 422, 422, 400, 400, 400, 400, 400]);
    const sums = { posted: 4, replayed: 1, failed: 14 };
    expect(body.data).toMatchObject(sums);
  });

  test('a batch that is sent again posts nothing twice', async () => {
    const sent = [income('1.00'), withdrawal('0.50')];
    const posted = await batch(sent);
    const before = await state();
    const again = await batch(sent);
    expect([again.status, again.body.data.replayed]).toEqual([200, 2]);
    const data = ({ body }: typeof posted) => body.data.results.map((each: Fields) => each['data']);
    expect(data(again)).toEqual(data(posted));
    expect(await state()).toEqual(before);
  });

  test('what no route could read fails by itself', async () => {
    const good = income('1.00');
    const sent = [
      5,
      null,
      [],
      'x',
      {},
      { op: 'refund' },
      { op: 7 },
      { ...good, idempotency_key: null },
      { ...good, idempotency_key: newKey() },
    ];
    const { status, body } = await batch([...sent, { op: 'reverse', idempotency_key: newKey() }]);
    expect(status).toBe(200);
    const named = body.data.results.map((each: any) => [each.status, each.details?.field, each.details?.tag]);
    expect(named).toEqual([
      [400, 'body', 'type'],
      [400, 'op', 'required'],
      [400, 'body', 'type'],
      [400, 'body', 'type'],
      [400, 'op', 'required'],
      [400, 'op', 'oneof'],
      [400, 'op', 'type'],
      [400, 'idempotency_key', 'required'],
      [201, undefined, undefined],
      [400, 'transaction_id', 'required'],
    ]);
    expect(body.data).toMatchObject({ posted: 1, replayed: 0, failed: 9 });
  });

  test('numbers and texts that JSON can hold and the ledger cannot fail by themselves', async () => {
    const good = JSON.stringify(income('1.00'));
    const inexact = JSON.stringify(income('1.00', { metadata: { n: 0 } })).replace('"n":0', '"n":1e400');
    const nul = JSON.stringify(income('1.00', { description: 'a\0b' }));
    const { body } = await customer.post('transactions/batch', `{"items":[1e400,${good},${inexact},${nul}]}`);
    const named = body.data.results.map((each: any) => [each.status, each.details?.field, each.details?.tag]);
    expect(named).toEqual([
      [400, 'body', 'type'],
      [201, undefined, undefined],
      [400, 'metadata', 'number'],
      [400, 'description', 'unicode'],
    ]);
  });

  test('an override needs its scope, item by item', async () => {
    const key = await cluster.apiKey(customer.tenant, ['transactions:write']);
    const items = [income('1.00', { override_reason: 'because' }), income('1.00')];
    const send = (isAtomic: boolean) => cluster.rest('POST', customer.at('transactions/batch'), { key, body: { items, atomic: isAtomic } });
    const refused = await send(true);
    expect([refused.status, refused.body.code, refused.body.details.field]).toEqual([403, 'forbidden', 'items[0]']);
    const { status, body } = await send(false);
    expect([status, body.data.results[0].status, body.data.results[0].code, body.data.results[1].status]).toEqual([
      200,
      403,
      'forbidden',
      201,
    ]);
  });
});

describe('an atomic batch', () => {
  test('all items are posted, consecutive in the log, and each sees those before it', async () => {
    const { balance } = (await state()).balance;
    const all = toDecimal((toMinor(balance) as bigint) + 1_000n);
    const { status, headers, body } = await atomic([income('10.00'), withdrawal(all), income(balance)]);
    expect([status, headers.get('idempotent-replayed')]).toEqual([201, null]);
    expect(body.data).toMatchObject({ posted: 3, replayed: 0, failed: 0 });
    const [first, ...rest] = body.data.results.map((each: any) => each.data.transaction.sequence as number);
    expect(rest.map((each: number) => each - Number(first))).toEqual([1, 2]);
    expect((await state()).balance.balance).toBe(balance);
  });

  test('one bad item posts nothing, uses no key, and is the error of the whole', async () => {
    const good = income('10.00');
    const before = await state();
    for (const [bad, status, code, field] of [
      [withdrawal('99999.00'), 422, 'insufficient_funds', 'items[1].entries[0].account_code'],
      [
        { ...withdrawal('1.00'), entries: [line(wallet, 'debit'), line('NOPE', 'credit')] },
        422,
        'account_not_found',
        'items[1].entries[1].account_code',
      ],
      [
        { ...withdrawal('1.00'), entries: [line(wallet, 'debit', '1'), line('MARKETING', 'credit', '2')] },
        422,
        'unbalanced',
        'items[1].entries',
      ],
      [
        { op: 'reverse', transaction_id: unknownTransaction, idempotency_key: newKey() },
        404,
        'transaction_not_found',
        'items[1].transaction_id',
      ],
      [{ ...good, description: 'other' }, 422, 'idempotency_key_reused', 'items[1].idempotency_key'],
      [withdrawal('1.00', { valid_until: '2020-01-01T00:00:00Z' }), 422, 'too_late', 'items[1].valid_until'],
      [
        withdrawal('1.00', { require: [{ account_code: wallet, currency: 'USD', version: 0 }] }),
        422,
        'condition_failed',
        'items[1].require[0].version',
      ],
      [withdrawal('1.234'), 400, 'validation_failed', 'items[1].entries[0].amount'],
      [{ ...good, idempotency_key: '' }, 400, 'validation_failed', 'items[1].idempotency_key'],
      ['x', 400, 'validation_failed', 'items[1]'],
    ] as const) {
      const answer = await atomic([good, bad, income('1.00')]);
      expect([answer.status, answer.body.code, answer.body.details.field]).toEqual([status, code, field]);
      if (status === 400)
        expect(answer.body.errors[0].message.startsWith(`${field} must`) || answer.body.errors[0].message.startsWith(`${field} is`)).toBe(
          true,
        );
    }
    expect(await state()).toEqual(before);
    expect((await atomic([good])).status).toBe(201);
  });

  test('sent again it replays; items that were posted before fail nothing', async () => {
    const [first, second] = [income('1.00'), income('2.00')];
    expect((await atomic([first])).status).toBe(201);
    const both = await atomic([first, second]);
    expect([both.status, both.body.data.results.map((each: any) => [each.status, each.replayed])]).toEqual([
      201,
      [
        [200, true],
        [201, false],
      ],
    ]);
    const before = await state();
    const again = await atomic([first, second]);
    expect([again.status, again.headers.get('idempotent-replayed'), again.body.data.replayed]).toEqual([200, 'true', 2]);
    expect(await state()).toEqual(before);
  });

  test('a thousand items are one', async () => {
    const items = Array.from({ length: 1000 }, () => withdrawal('0.01'));
    const before = (await state()).balance;
    const { status, body } = await atomic(items);
    expect([status, body.data.posted, body.data.results.length]).toEqual([201, 1000, 1000]);
    const after = (await state()).balance;
    expect([Number(before.balance) - Number(after.balance), after.version - before.version]).toEqual([10, 1000]);
  });
});

describe('a dry run', () => {
  test('it predicts what the batch does, and changes nothing', async () => {
    const before = await state();
    const items = [income('3.00'), withdrawal('1.00')];
    const ids = /"(transaction_id|sequence|idempotency_key)":[^,}]+|\d{4}-\d\d-\d\dT[\d:.]+Z/g;
    const plain = (body: any) => JSON.stringify(body.data.results.map((each: any) => each.data.transaction)).replaceAll(ids, '');
    const tried = await atomic(items, '?dry_run=true');
    expect([tried.status, tried.body.dry_run, tried.body.data.results[0].status]).toEqual([200, true, 200]);
    expect(tried.body.data.results[0].data.transaction).toMatchObject({ transaction_id: null, sequence: null });
    expect(await state()).toEqual(before);
    const posted = await atomic(items);
    expect(posted.status).toBe(201);
    expect(plain(posted.body)).toBe(plain(tried.body));
    const refused = await atomic([withdrawal('99999.00')], '?dry_run=true');
    expect([refused.status, refused.body.code, refused.body.details.field]).toEqual([
      422,
      'insufficient_funds',
      'items[0].entries[0].account_code',
    ]);
    const independent = await batch([withdrawal('99999.00'), income('1.00')], {}, '?dry_run=true');
    expect([independent.status, independent.body.data.results.map((each: any) => each.status)]).toEqual([200, [422, 200]]);
  });
});

describe('a batch is refused', () => {
  test.each([
    ['without items', {}, 'items', 'required'],
    ['with none', { items: [] }, 'items', 'min'],
    ['with an object for items', { items: {} }, 'items', 'type'],
    ['with more than 1,000', { items: Array.from({ length: 1001 }, () => ({})) }, 'items', 'max'],
    ['with an unknown field', { items: [{}], atomicc: true }, 'atomicc', 'unknown'],
    ['with a text for atomic', { items: [{}], atomic: 'true' }, 'atomic', 'type'],
  ])('%s', async (_, body, field, tag) => {
    const answer = await customer.post('transactions/batch', body);
    expect([answer.status, answer.body.details.field, answer.body.details.tag]).toEqual([400, field, tag]);
  });

  test('with more than 2,000 entries in all', async () => {
    const entries = Array.from({ length: 100 }, () => deposit('1.00').entries).flat();
    const items = Array.from({ length: 11 }, () => income('1.00', { entries }));
    const { status, body } = await batch(items);
    expect([status, body.details]).toEqual([400, { field: 'items', tag: 'max', value: 2200 }]);
    expect((await batch(items.slice(1))).body.data.posted).toBe(10);
  });

  test('with a key in the header', async () => {
    const { status, body } = await customer.post('transactions/batch', { items: [income('1.00')] }, { 'idempotency-key': 'k' });
    expect([status, body.details]).toEqual([400, { field: 'idempotency_key', tag: 'same', value: 'k' }]);
  });

  test('above 4 MiB, and not below', async () => {
    const large = (bytes: number) => `{"items":[${' '.repeat(bytes)}${JSON.stringify(income('1.00'))}]}`;
    const { status, body } = await customer.post('transactions/batch', large(4 << 20));
    expect([status, body.code, body.error]).toEqual([413, 'payload_too_large', 'the body is larger than 4 MiB']);
    expect((await customer.post('transactions/batch', large(4_000_000))).status).toBe(200);
  });
});
