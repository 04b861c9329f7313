import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { startCheckedCluster } from '../test/contract.ts';
import { deposit, id, line, newWallet, time, type Customer } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  await customer.post('accounts', { account_code: 'CLOSED', name: 'Closed', type: 'asset' });
  await cluster.rest('PATCH', customer.at('accounts/code/CLOSED'), { key: customer.key, body: { status: 'closed' } });
});
afterAll(() => cluster.stop());

test('a double posting answers every field', async () => {
  const body = deposit('100.5', {
    idempotency_key: 'd-1',
    description: 'Zu\u0308rich "\u{1f600}"\n',
    reference: 'R\\1',
    metadata: { z: 1, a: { b: [true, null, '\u2028'] } },
  });
  const { status, headers, body: answer } = await customer.post('transactions/double-entry', body);
  expect([status, headers.get('idempotent-replayed')]).toEqual([201, null]);
  expect(answer.data.transaction).toEqual({
    transaction_id: id('txn'),
    kind: 'double',
    status: 'posted',
    idempotency_key: 'd-1',
    description: body['description' as never],
    reference: 'R\\1',
    currency: 'USD',
    amount: '100.50',
    entries: [
      { ...line('SETTLEMENT-USD', 'debit', '100.50'), account_id: id('acc'), balance_after: '100.50', counter: false },
      { ...line('CUSTOMER-WALLETS-USD', 'credit', '100.50'), account_id: id('acc'), balance_after: '100.50', counter: false },
    ],
    metadata: { z: 1, a: { b: [true, null, '\u2028'] } },
    effective_at: time,
    requested_effective_at: null,
    created_at: answer.data.transaction.effective_at,
    sequence: expect.any(Number),
    reverses: null,
    reversed_by: null,
    origin: null,
    personal: [],
    redacted: [],
    unreversed: null,
  });
  expect((await customer.get(`transactions/${answer.data.transaction.transaction_id}`)).transaction).toEqual(answer.data.transaction);
});

test('a single posting is balanced on suspense; without a key its id is the key', async () => {
  const { status, body } = await customer.post('transactions', line('CUSTOMER-WALLETS-USD', 'credit', '5'));
  const { transaction } = body.data;
  expect(status).toBe(201);
  expect(transaction).toMatchObject({
    kind: 'single',
    idempotency_key: transaction.transaction_id,
    description: '',
    reference: null,
    metadata: {},
  });
  expect(transaction.entries[1]).toMatchObject({ ...line('SUSPENSE-USD', 'debit', '5.00'), counter: true });
});

test('several currencies leave currency and amount open', async () => {
  const entries = [
    line('FX-POSITION-USD', 'debit', '1.00'),
    line('SETTLEMENT-USD', 'credit', '1.00'),
    line('SETTLEMENT-NGN', 'debit', '1500.00', 'NGN'),
    line('FX-POSITION-NGN', 'credit', '1500.00', 'NGN'),
  ];
  const { body } = await customer.post('transactions/double-entry', { entries });
  expect(body.data.transaction).toMatchObject({ currency: null, amount: null });
});

test('the same key and request again returns the first transaction, by field or header', async () => {
  const first = await customer.post('transactions/double-entry', deposit('1', { idempotency_key: 'same' }));
  for (const [body, header] of [
    [deposit('1.00', { idempotency_key: 'same' }), undefined],
    [deposit('1.0'), 'same'],
    [deposit('1.0'), '"same"'],
    [deposit('1.0', { idempotency_key: 'same' }), '"same"'],
    [deposit('1.0', { idempotency_key: null }), 'same'],
  ] as const) {
    const again = await customer.post('transactions/double-entry', body, header === undefined ? {} : { 'idempotency-key': header });
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(again.body).toEqual(first.body);
  }
});

test('a key of another request is refused with the first transaction and the fields that differ', async () => {
  const [route, key] = ['transactions/double-entry', { idempotency_key: 'reused' }];
  const posted = async (path: string, body: object) => (await customer.post(path, body)).body.data.transaction.transaction_id as string;
  const double = await posted(route, deposit('1', { ...key, metadata: { a: 1, b: 2 } }));
  const single = await posted('transactions', { ...line('SALARIES', 'debit'), idempotency_key: 'reused-single' });
  const first = await posted(`transactions/${double}/reverse`, { idempotency_key: 'reused-reversal' });
  const entries = deposit('1').entries;
  for (const [path, body, transaction_id, fields] of [
    [route, deposit('1', key), double, ['metadata']],
    [route, deposit('2', { ...key, metadata: { b: 2, a: 1 } }), double, ['entries[0].amount', 'entries[1].amount']],
    [
      route,
      { ...key, entries: [...entries, ...entries], description: 'x', reference: '' },
      double,
      ['entries', 'description', 'reference', 'metadata'],
    ],
    ['transactions', { ...line('SALARIES', 'debit'), ...key }, double, ['kind', 'metadata']],
    ['transactions', { ...line('SALARIES', 'debit', '9'), idempotency_key: 'reused-single' }, single, ['amount']],
    [
      'transactions',
      { ...line('TECHNOLOGY', 'credit', '10', 'NGN'), idempotency_key: 'reused-single' },
      single,
      ['account_code', 'side', 'currency'],
    ],
    [`transactions/${single}/reverse`, { idempotency_key: 'reused-reversal' }, first, ['transaction_id']],
    [`transactions/${double}/reverse`, { idempotency_key: 'reused-reversal', description: 'x' }, first, ['description']],
  ] as const) {
    const { status, body: answer } = await customer.post(path, body);
    const field = { field: 'idempotency_key', tag: 'idempotency_key_reused', value: body.idempotency_key };
    expect([status, answer.code, answer.details]).toEqual([422, 'idempotency_key_reused', { ...field, transaction_id, fields }]);
    expect(answer.error).toContain(fields.join(', '));
  }
});

test('entries that do not balance are refused with both sums and their difference, per currency', async () => {
  const naira = [line('SETTLEMENT-NGN', 'debit', '5', 'NGN'), line('SETTLEMENT-NGN', 'credit', '5', 'NGN')];
  for (const [debit, credit, difference] of [
    ['100', '99.99', '0.01'],
    ['9999999999999.99', '10000', '9999999989999.99'],
    ['0.01', '2', '-1.99'],
  ] as const) {
    const { body } = await customer.post('transactions/double-entry', {
      entries: [...naira, line('SALARIES', 'debit', debit), line('SALARIES', 'credit', credit)],
    });
    const sums = { debits: Number(debit).toFixed(2), credits: Number(credit).toFixed(2), difference };
    expect(body.details).toEqual({ field: 'entries', tag: 'unbalanced', value: 'USD', ...sums });
    expect(body.error).toBe(`debits and credits in USD differ: debits are ${sums.debits}, credits ${sums.credits}`);
  }
});

test.each(['k1\n', '   ', ' k1', 'k1 ', '\tk1', 'k\u00011', 'k1\u200b', '\u3000k1', 'k\u2028'])(
  'the key %j is refused in body and header, by each route',
  async (key) => {
    const refused = { field: 'idempotency_key', tag: 'printable', value: key };
    for (const [path, body] of [
      ['transactions', line('SALARIES', 'debit')],
      ['transactions/double-entry', deposit()],
      ['transactions/txn_01jd1zq5v806n9w2k4m7p3r5t8/reverse', {}],
    ] as const) {
      const answers = [await customer.post(path, { ...body, idempotency_key: key })];
      // A header cannot hold a line feed, and blanks at its ends are none of it.
      const header = Buffer.from(`"${key}"`).toString('latin1');
      if (!/[\n\u0001]/.test(key)) answers.push(await customer.post(path, body, { 'idempotency-key': header }));
      for (const { status, body: answer } of answers) expect([status, answer.details]).toEqual([400, refused]);
    }
  },
);

test('a header that differs from the field is rejected, and so is an invalid key', async () => {
  const differs = await customer.post('transactions', { ...line('SALARIES', 'debit'), idempotency_key: 'a' }, { 'idempotency-key': 'b' });
  expect(differs.body.details).toEqual({ field: 'idempotency_key', tag: 'same', value: 'a' });
  const long = await customer.post('transactions', line('SALARIES', 'debit'), { 'idempotency-key': 'x'.repeat(256) });
  expect(long.body.details).toMatchObject({ field: 'idempotency_key', tag: 'max' });
  const empty = await customer.post('transactions', line('SALARIES', 'debit'), { 'idempotency-key': '""' });
  expect(empty.body.details).toMatchObject({ field: 'idempotency_key', tag: 'required' });
  const both = await customer.post('transactions', { idempotency_key: 'a', amount: 5 }, { 'idempotency-key': 'b' });
  expect(both.body.errors.map(({ field, tag }: any) => `${field} ${tag}`).slice(0, 3)).toEqual([
    'idempotency_key same',
    'account_code required',
    'amount type',
  ]);
});

test.each([
  ['differ', ['a', 'b']],
  ['are the same', ['a', 'a']],
])('two key headers are refused where they %s', async (_, keys) => {
  const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', 'idempotency-key': keys };
  const sent = request(cluster.url + customer.at('transactions'), { method: 'POST', headers });
  sent.end(JSON.stringify(line('SALARIES', 'debit')));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const field = { field: 'idempotency_key', tag: 'same', value: keys.join(', ') };
  const message = expect.stringContaining('Idempotency-Key header');
  expect([answer.statusCode, await json(answer)]).toMatchObject([
    400,
    { code: 'validation_failed', details: field, errors: [{ ...field, message }] },
  ]);
});

test('a key in a header may hold any text, as UTF-8', async () => {
  const name = 'cl\u00e9-\u{1f511}';
  const bytes = Buffer.from(name).toString('latin1');
  const first = await customer.post('transactions', { ...line('SALARIES', 'debit'), idempotency_key: name });
  const again = await customer.post('transactions', line('SALARIES', 'debit'), { 'idempotency-key': bytes });
  expect([again.status, again.body.data.transaction.transaction_id]).toEqual([200, first.body.data.transaction.transaction_id]);
});

test('a reversal is posted once, with or without a body', async () => {
  const { transaction_id } = (await customer.post('transactions/double-entry', deposit())).body.data.transaction;
  const reversed = await customer.post(`transactions/${transaction_id}/reverse`);
  expect(reversed.status).toBe(201);
  expect(reversed.body.data.transaction).toMatchObject({ kind: 'reversal', reverses: transaction_id });
  expect((await customer.get(`transactions/${transaction_id}`)).transaction.reversed_by).toBe(
    reversed.body.data.transaction.transaction_id,
  );
  // What is not there is said before what the key was used for.
  const unknown = await customer.post('transactions/txn_01jd1zq5v806n9w2k4m7p3r5t8/reverse', { idempotency_key: transaction_id });
  expect([unknown.status, unknown.body.code]).toEqual([404, 'transaction_not_found']);
  const again = await customer.post(`transactions/${transaction_id}/reverse`, {});
  const by = reversed.body.data.transaction.transaction_id;
  expect([again.status, again.body.code]).toEqual([409, 'already_reversed']);
  expect(again.body.error).toBe(`transaction ${transaction_id} is reversed already, by ${by}`);
  const back = await customer.post(`transactions/${reversed.body.data.transaction.transaction_id}/reverse`, { description: 'back' });
  expect([back.status, back.body.code]).toEqual([409, 'already_reversed']);
  const other = (await customer.post('transactions/double-entry', deposit())).body.data.transaction.transaction_id;
  const keyed = await customer.post(`transactions/${other}/reverse`, {}, { 'idempotency-key': 'r-1' });
  const replayed = await customer.post(`transactions/${other}/reverse`, { idempotency_key: 'r-1' });
  expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
  expect(replayed.body).toEqual(keyed.body);
});

test.each([
  ['transactions', line('NOPE', 'debit'), 422, 'account_not_found', 'account_code'],
  ['transactions', line('ASSETS', 'debit'), 422, 'account_is_group', 'account_code'],
  ['transactions', line('SUSPENSE-USD', 'debit'), 422, 'account_is_system', 'account_code'],
  ['transactions', line('CLOSED', 'debit'), 422, 'account_closed', 'account_code'],
  ['transactions', line('SETTLEMENT-USD', 'debit', '1', 'NGN'), 422, 'currency_not_allowed', 'account_code'],
  ['transactions', line('CUSTOMER-WALLETS-EUR', 'debit', '1', 'EUR'), 422, 'insufficient_funds', 'account_code'],
  [
    'transactions/double-entry',
    { entries: [line('SALARIES', 'debit', '2'), line('SALARIES', 'credit', '1')] },
    422,
    'unbalanced',
    'entries',
  ],
  [
    'transactions/double-entry',
    { entries: [line('SALARIES', 'debit'), line('NOPE', 'credit')] },
    422,
    'account_not_found',
    'entries[1].account_code',
  ],
])('%s %j is refused by the books', async (path, body, status, code, field) => {
  const answer = await customer.post(path, body);
  expect([answer.status, answer.body.code, answer.body.details.field, answer.body.details.tag]).toEqual([status, code, field, code]);
});

test('they are listed newest first, by page and filter', async () => {
  const all = (await customer.get('transactions?limit=100')).transactions;
  const paged = [];
  let cursor = '';
  do {
    const page = await customer.get(`transactions?limit=3&cursor=${cursor}`);
    paged.push(...page.transactions);
    cursor = page.pagination.next_cursor ?? '';
    expect(page.pagination.has_more).toBe(cursor !== '');
  } while (cursor !== '');
  expect(paged).toEqual(all);
  const sequences = all.map((each: any) => each.sequence);
  expect(sequences).toEqual([...sequences].sort((one, other) => other - one));
  expect((await customer.get('transactions?idempotency_key=d-1')).transactions).toHaveLength(1);
  expect((await customer.get(`transactions?reference=${encodeURIComponent('R\\1')}`)).transactions).toHaveLength(1);
  expect((await customer.get('transactions?currency=NGN&account_code=SETTLEMENT-NGN')).transactions).toHaveLength(1);
  const today = new Date().toISOString().slice(0, 10);
  expect((await customer.get(`transactions?limit=100&start_date=${today}`)).transactions.length).toBeGreaterThanOrEqual(0);
  expect((await customer.get('transactions?end_date=2020-01-01')).transactions).toEqual([]);
  expect((await customer.get('transactions?start_date=2020-01-01&end_date=2099-01-01&limit=100')).transactions).toEqual(all);
});

test('HEAD of a list answers its headers', async () => {
  const answer = await cluster.rest('HEAD', customer.at('transactions'), { key: customer.key });
  expect([answer.status, answer.body]).toEqual([200, '']);
});
