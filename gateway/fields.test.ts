import { line, send as sendTo, uniqueWord } from '../test/valid-bodies.ts';
import { startCheckedCluster } from '../test/contract.ts';
import { newWallet, type Customer } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';

let cluster: Cluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
});
afterAll(() => cluster.stop());

const send = (route: string, change: Record<string, unknown>) => sendTo(cluster, customer, route, change);
const nested = (depth: number): Record<string, unknown> => (depth === 1 ? {} : { a: nested(depth - 1) });
const smile = '\u{1f600}';

/** Route, field, values, and the tag that each of them gets; `ok`: none. */
const cases: [string, string, string, unknown[]][] = [
  ['register', 'email', 'required', [undefined, null, '']],
  ['register', 'email', 'type', [5, {}, [], true]],
  ['register', 'email', 'email', ['x', 'a@b', '@b.cd', 'a@', 'a b@c.de', 'a@b..cd', 'a@-b.cd', '.a@b.cd', 'a@b@c.de', 'a\u0007@b.cd']],
  ['register', 'email', 'max', [`${'a'.repeat(243)}@example.com`]],
  ['register', 'email', 'unicode', ['a\0@example.com', 'a\ud800@example.com']],
  ['register', 'email', 'ok', [`a.b+c-${process.pid}@sub.example.co`, `\u00fcn\u00efcode${process.pid}@ex\u00e4mple.com`]],
  ['register', 'password', 'required', [undefined, null, '']],
  ['register', 'password', 'type', [12345678]],
  ['register', 'password', 'min', ['1234567', smile.repeat(7)]],
  ['register', 'password', 'max', ['x'.repeat(129), smile.repeat(129)]],
  ['register', 'password', 'unicode', ['12345678\0']],
  ['register', 'password', 'ok', ['12345678', smile.repeat(8), smile.repeat(128)]],
  ['register', 'first_name', 'required', [undefined, '']],
  ['register', 'first_name', 'max', ['x'.repeat(256)]],
  ['register', 'last_name', 'ok', [smile.repeat(255)]],
  ['login', 'password', 'required', [undefined, '', null]],
  ['login', 'password', 'ok', ['x']],
  ['login', 'email', 'email', ['x']],
  ['refresh', 'refresh_token', 'required', [undefined, '']],
  ['logout', 'refresh_token', 'type', [5]],
  ['tenant', 'slug', 'required', [undefined, null, '']],
  ['tenant', 'slug', 'slug', ['ab', 'A-b', 'a_b', '-ab', 'ab-', 'a--b', 'a b', 'x'.repeat(64), 'ab\n']],
  ['tenant', 'slug', 'ok', [`a-1-${process.pid}`, `${process.pid}${'x'.repeat(63)}`.slice(0, 63)]],
  ['tenant', 'name', 'max', ['x'.repeat(256)]],
  ['tenant', 'business_type', 'oneof', ['bank', 'Wallet']],
  ['tenant', 'business_type', 'required', ['', null]],
  ['tenant', 'description', 'max', ['x'.repeat(1001)]],
  ['tenant', 'description', 'ok', ['', null, smile.repeat(1000)]],
  ['apiKey', 'scopes', 'required', [undefined, null]],
  ['apiKey', 'scopes', 'type', ['accounts:read', {}]],
  ['apiKey', 'scopes', 'min', [[]]],
  ['apiKey', 'scopes', 'max', [Array(101).fill('accounts:read')]],
  ['apiKey', 'scopes', 'ok', [['accounts:read', 'accounts:read']]],
  ['apiKey', 'scopes[0]', 'oneof', [['everything']]],
  ['apiKey', 'scopes[1]', 'required', [['accounts:read', null]]],
  ['apiKey', 'scopes[1]', 'type', [['accounts:read', 5]]],
  [
    'apiKey',
    'expires_at',
    'datetime',
    ['x', '2099-01-01', '2099-02-30T00:00:00Z', '2099-01-01T24:00:00Z', '2099-01-01T25:00:00Z', '2099-01-01T00:00:00'],
  ],
  ['apiKey', 'expires_at', 'required', ['']],
  ['apiKey', 'expires_at', 'gt', ['2020-01-01T00:00:00Z']],
  ['apiKey', 'expires_at', 'ok', ['2099-01-01T00:00:00Z', '2099-01-01T00:00:00.123+02:00', null]],
  ['setup', 'business_type', 'required', [undefined, null, '']],
  ['setup', 'business_type', 'oneof', ['bank']],
  ['account', 'account_code', 'required', [undefined, null, '']],
  ['account', 'account_code', 'code', ['a b', '-a', '.a', 'x'.repeat(65), 'caf\u00e9', 'a\n']],
  ['account', 'account_code', 'ok', [`A1._:-${process.pid}`, `${process.pid}${'x'.repeat(64)}`.slice(0, 64)]],
  ['account', 'name', 'required', ['']],
  ['account', 'type', 'oneof', ['income', 'Asset']],
  ['account', 'normal_balance', 'oneof', ['left']],
  ['account', 'normal_balance', 'required', ['']],
  ['account', 'normal_balance', 'ok', ['credit', null]],
  ['account', 'currency', 'oneof', ['usd', 'JPY']],
  ['account', 'currency', 'required', ['']],
  ['account', 'parent_code', 'code', ['-']],
  ['account', 'parent_code', 'required', ['']],
  ['account', 'is_group', 'type', ['true', 1]],
  ['account', 'allow_negative', 'type', ['no', 0]],
  ['account', 'allow_negative', 'ok', [false, null]],
  ['account', 'metadata', 'type', [[], 'x', 5, false]],
  ['account', 'metadata', 'max', [nested(11), { a: 'x'.repeat(16_377) }]],
  ['account', 'metadata', 'unicode', [{ a: ['\0'] }, { '\0': 1 }, { '\0number': '1' }, { a: { '\0number': '1' } }, { a: { b: '\udc00' } }]],
  ['account', 'metadata', 'ok', [nested(10), { a: 'x'.repeat(16_376) }, null, { a: smile }]],
  ['change', 'account_code', 'immutable', ['X', 5]],
  ['change', 'type', 'immutable', ['asset']],
  ['change', 'normal_balance', 'immutable', ['debit']],
  ['change', 'currency', 'immutable', ['USD', '']],
  ['change', 'parent_code', 'code', ['-', 'a b']],
  ['change', 'is_group', 'immutable', [true, false]],
  ['change', 'currency', 'ok', [null]],
  ['change', 'name', 'required', ['']],
  ['change', 'name', 'ok', [null, 'Marketing']],
  ['change', 'description', 'ok', ['', null, 'Ads']],
  ['change', 'status', 'oneof', ['open']],
  ['change', 'status', 'required', ['']],
  ['change', 'version', 'min', [0, -1]],
  ['change', 'version', 'type', ['1', '', 1.5, true]],
  ['single', 'amount', 'required', [undefined, null, '']],
  ['single', 'amount', 'type', [100, 1.5, true]],
  ['single', 'amount', 'decimal', ['-1', '+1', '1.234', '1e3', ' 1', '1 ', '1.', '.5', '1,00', '12345678901234', '\uff11', '0x10', 'NaN']],
  ['single', 'amount', 'gt', ['0', '0.0', '0.00', '0000']],
  ['single', 'amount', 'ok', ['0.01', '1', '1.5', '0001.50', '9999999999999.99']],
  ['single', 'side', 'oneof', ['DEBIT', 'left']],
  ['single', 'currency', 'oneof', ['JPY', 'usd']],
  ['single', 'account_code', 'code', ['a b']],
  ['single', 'idempotency_key', 'required', ['']],
  ['single', 'idempotency_key', 'max', ['x'.repeat(256)]],
  ['single', 'idempotency_key', 'printable', [' ', 'k1\n', 'k1 ', '\u2003k1', 'k\u00adk']],
  ['single', 'idempotency_key', 'unicode', ['k\0']],
  ['single', 'idempotency_key', 'ok', [smile.repeat(255), 'a b', null]],
  ['single', 'description', 'max', ['x'.repeat(1001)]],
  ['single', 'description', 'ok', ['', null, smile.repeat(1000)]],
  ['single', 'reference', 'max', ['x'.repeat(256)]],
  ['single', 'reference', 'unicode', ['a\0b', '\ud83d']],
  ['single', 'reference', 'ok', ['', null, 'x'.repeat(255)]],
  ['double', 'entries', 'required', [undefined, null]],
  ['double', 'entries', 'type', ['x', {}]],
  ['double', 'entries', 'min', [[], [line]]],
  ['double', 'entries', 'max', [Array(201).fill(line)]],
  ['double', 'entries', 'ok', [Array.from({ length: 200 }, (_, index) => ({ ...line, side: index % 2 === 0 ? 'debit' : 'credit' }))]],
  ['double', 'entries[0]', 'required', [[null, line]]],
  [
    'double',
    'entries[1]',
    'type',
    [
      [line, 'x'],
      [line, []],
    ],
  ],
  ['double', 'entries[1].amount', 'gt', [[line, { ...line, amount: '0' }]]],
  ['double', 'entries[1].side', 'required', [[line, { ...line, side: undefined }]]],
];

describe('the fields of bodies', () => {
  test.each(cases)('%s %s: %s', async (route, field, tag, values) => {
    for (const value of values) {
      const top = field.replace(/[.[].*$/, '');
      const { status, body } = await send(route, { [top]: value });
      const shown = JSON.stringify(value ?? null).slice(0, 80);
      if (tag === 'ok') expect([shown, body.code === 'validation_failed' ? body.details : 'ok']).toEqual([shown, 'ok']);
      else
        expect([shown, status, body.code, body.details?.field, body.details?.tag]).toEqual([shown, 400, 'validation_failed', field, tag]);
    }
  });

  test('numbers that a double cannot represent are rejected, small ones of any form are not', async () => {
    const post = (text: string) =>
      cluster.rest('POST', customer.at('transactions'), { key: customer.key, body: `${JSON.stringify(line).slice(0, -1)},${text}}` });
    for (const number of ['12345678901234567890', '9007199254740993', '1e400', '0.12345678901234567890', '-1E999']) {
      const { body } = await post(`"metadata":{"a":[${number}]}`);
      expect([number, body.details?.field, body.details?.tag]).toEqual([number, 'metadata', 'number']);
      expect((await post(`"metadata":{"a":"[${number}"}`)).status).toBe(201);
    }
    for (const number of ['1.10', '1E5', '1e-7', '9007199254740992', '12345678901234567000', '-0', '0.1']) {
      const { status, body } = await post(`"metadata":{"a":${number}}`);
      expect([number, status, body.data.transaction.metadata.a]).toEqual([number, 201, Number(number) || 0]);
    }
    const { body } = await post('"amount":12345678901234567890');
    expect([body.details.field, body.details.tag]).toEqual(['amount', 'type']);
    const patch = await cluster.rest('PATCH', customer.at('accounts/code/MARKETING'), {
      key: customer.key,
      body: '{"version":98765432109876543210}',
    });
    expect(patch.body.details).toMatchObject({ field: 'version', tag: 'number' });
    const double = await cluster.rest('POST', customer.at('transactions/double-entry'), {
      key: customer.key,
      body: '{"entries":[9007199254740993,1e400]}',
    });
    expect(double.body.errors).toEqual(
      [Number('9007199254740993'), Infinity].map((value, index) => ({
        field: `entries[${index}]`,
        tag: 'type',
        value,
        message: `entries[${index}] must be an object, not a number`,
      })),
    );
  });

  test('a time whose offset leads beyond the year 9999 is an error with the others', async () => {
    const { status, body } = await send('apiKey', { name: '', expires_at: '9999-12-31T23:59:59-00:01' });
    expect([status, body.errors.map(({ field, tag }: Record<string, string>) => [field, tag])]).toEqual([
      400,
      [
        ['name', 'required'],
        ['expires_at', 'datetime'],
      ],
    ]);
    expect((await send('apiKey', { expires_at: '9999-12-31T23:59:59+00:00' })).status).toBe(201);
  });

  test('all errors are listed, one a field, in the order of the schema, at most 20', async () => {
    const { body } = await send('double', {
      metadata: [],
      reference: 5,
      idempotency_key: 'x'.repeat(300),
      entries: [{ currency: 'JPY' }, { ...line, amount: '' }],
      description: '\0',
    });
    expect(body.errors.map(({ field, tag }: any) => `${field} ${tag}`)).toEqual([
      'idempotency_key max',
      'description unicode',
      'reference type',
      'entries[0].account_code required',
      'entries[0].amount required',
      'entries[0].side required',
      'entries[0].currency oneof',
      'entries[1].amount required',
      'metadata type',
    ]);
    const first = body.errors[0];
    expect(body.details).toEqual({ field: first.field, tag: first.tag, value: first.value });
    expect(body.errors.map(({ message }: any) => message)).toEqual([
      'idempotency_key must have at most 255 characters, not 300',
      'description must not contain NUL or half of a surrogate pair',
      'reference must be a string, not a number',
      'entries[0].account_code is required',
      'entries[0].amount is required',
      'entries[0].side is required',
      'entries[0].currency must be one of NGN, USD, EUR, GBP, not "JPY"',
      'entries[1].amount is required',
      'metadata must be an object, not an array',
    ]);
    const deep = await send('account', { metadata: nested(11), name: '' });
    expect(deep.body.errors[1].message).toBe('metadata must be at most 16 KiB as JSON and at most 10 deep');
    const many = await send('double', { entries: Array(200).fill({}) });
    expect(many.body.errors).toHaveLength(20);
  });

  test.each<[Record<string, unknown>, string]>([
    [{ entries: [{ ...line, amount: '0' }, line] }, 'entries[0].amount must be greater than zero, not "0"'],
    [{ entries: Array(201).fill(line) }, 'entries must have at most 200 items, not 201'],
    [{ entries: [line] }, 'entries must have at least 2 items, not 1'],
    [{ metadata: { ['k'.repeat(17_000)]: 1 } }, 'metadata must be at most 16 KiB as JSON and at most 10 deep'],
    [
      {
        entries: [
          { ...line, currency: 'NGN', account_code: 'SETTLEMENT-USD' },
          { ...line, currency: 'NGN', side: 'credit' },
        ],
      },
      'account SETTLEMENT-USD holds USD only, not NGN',
    ],
    [{ entries: [line, { ...line, account_code: 'REVENUE', side: 'credit' }] }, 'account REVENUE is a group and takes no postings'],
  ])('%.60j is refused with a message that names field, rule and value', async (change, message) => {
    const { body } = await send('double', change);
    expect(body.errors?.[0].message ?? body.error).toBe(message);
  });

  test('a metadata key may be as long as the metadata', async () => {
    expect((await send('single', { metadata: { ['k'.repeat(300)]: 1 } })).status).toBe(201);
  });

  test('errors repeat what was sent, however long, but never a secret', async () => {
    expect((await send('single', { side: 'left' })).body.details.value).toBe('left');
    expect((await send('single', { amount: 100 })).body.details.value).toBe(100);
    expect((await send('single', { side: ['debit'] })).body.details.value).toEqual(['debit']);
    const number = '-12345678901234567890.5e400';
    const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' };
    const answer = await fetch(new URL(customer.at('transactions'), cluster.url), { method: 'POST', headers, body: number });
    expect(await answer.text()).toContain(`"details":{"field":"body","tag":"type","value":${number}}`);
    expect((await send('single', { account_code: 'a b'.repeat(1000) })).body.details.value).toBe('a b'.repeat(1000));
    const entries = Array.from({ length: 201 }, () => ({ account_code: 'CASH' }));
    expect((await send('double', { entries })).body.details).toEqual({ field: 'entries', tag: 'max', value: entries });
    const metadata = { note: 'x'.repeat(17_000) };
    expect((await send('single', { metadata })).body.details).toEqual({ field: 'metadata', tag: 'max', value: metadata });
    const secret = 'hunter2';
    for (const [route, field] of [
      ['register', 'password'],
      ['refresh', 'refresh_token'],
      ['logout', 'refresh_token'],
    ] as const) {
      const { body } = await send(route, { [field]: route === 'register' ? secret : [secret], first_name: '' });
      expect(JSON.stringify(body)).not.toContain(secret);
      expect(body.details).toMatchObject({ field, value: '' });
    }
  });

  test('errors of services repeat it in the type in which it was sent', async () => {
    const account_code = uniqueWord();
    await send('account', { account_code, type: 'expense' });
    await send('double', { entries: [line, { ...line, side: 'credit', account_code }] });
    const path = customer.at(`accounts/code/${account_code}`);
    const below = await cluster.rest('PATCH', path, { key: customer.key, body: { allow_negative: false } });
    expect([below.status, below.body.details]).toEqual([422, { field: 'allow_negative', tag: expect.any(String), value: false }]);
    const { body } = await send('double', { entries: [line, { ...line, side: 'credit', account_code: 'NOBODY' }] });
    expect(body.details).toEqual({ field: 'entries[1].account_code', tag: 'account_not_found', value: 'NOBODY' });
  });

  test.each<[string, Record<string, unknown>, string, unknown]>([
    ['double', { entries: [line, { ...line, side: 'credit', note: 1 }] }, 'entries[1].note', 1],
    ['account', { toString: 1 }, 'toString', 1],
    ['login', { passwort: 'hunter2' }, 'passwort', ''],
  ])('a field that %s does not have is rejected: %j', async (route, change, field, value) => {
    const { status, body } = await send(route, change);
    expect([status, body.code, body.details]).toEqual([400, 'validation_failed', { field, tag: 'unknown', value }]);
  });

  test('unknown fields are reported after the known ones', async () => {
    const { body } = await send('single', { amount: undefined, amuont: '1.00' });
    expect(body.errors.map(({ field, tag }: any) => `${field} ${tag}`)).toEqual(['amount required', 'amuont unknown']);
  });

  test('however many items and fields are wrong, the answer is short and comes soon', async () => {
    const unknown = Object.fromEntries(Array.from({ length: 75_000 }, (_, index) => [`x${index}`, 0]));
    for (const change of [{ entries: Array(300_000).fill(0) }, unknown]) {
      const began = performance.now();
      const { status, body } = await send('double', change);
      expect(status).toBe(400);
      expect(JSON.stringify(body).length).toBeLessThan(30_000);
      expect(performance.now() - began).toBeLessThan(10_000);
    }
  });
});

describe('the parameters of queries', () => {
  test.each([
    ['transactions?limit=0', 'limit', 'min'],
    ['transactions?limit=-1', 'limit', 'min'],
    ['transactions?limit=101', 'limit', 'max'],
    ['transactions?limit=x', 'limit', 'type'],
    ['transactions?limit=1.5', 'limit', 'type'],
    ['transactions?limit=0x10', 'limit', 'type'],
    ['transactions?limit=1&limit=2', 'limit', 'type'],
    ['transactions?limit=99999999999999999999', 'limit', 'max'],
    [`transactions?limit=-${'9'.repeat(400)}`, 'limit', 'min'],
    ['events?after_sequence=99999999999999999999', 'after_sequence', 'max'],
    [`events?after_sequence=${'9'.repeat(400)}`, 'after_sequence', 'max'],
    ['transactions?currency=JPY', 'currency', 'oneof'],
    ['transactions?account_code=-', 'account_code', 'code'],
    ['transactions?reference=a%00b', 'reference', 'unicode'],
    [`transactions?reference=${'x'.repeat(256)}`, 'reference', 'max'],
    ['transactions?start_date=2030-1-1', 'start_date', 'datetime'],
    ['transactions?start_date=2030-02-30', 'start_date', 'datetime'],
    ['transactions?end_date=2030-01-01T00:00:00Z', 'end_date', 'datetime'],
    ['transactions?cursor=nonsense', 'cursor', 'cursor'],
    [`transactions?cursor=${'x'.repeat(600)}`, 'cursor', 'max'],
    ['accounts?type=income', 'type', 'oneof'],
    ['accounts?status=open', 'status', 'oneof'],
    ['accounts?parent_code=a%20b', 'parent_code', 'code'],
    ['accounts?cursor=nonsense', 'cursor', 'cursor'],
    ['accounts/hierarchy?include=children', 'include', 'oneof'],
    ['accounts/code/TECHNOLOGY/balance', 'currency', 'required'],
    ['accounts/code/TECHNOLOGY/balance?currency=', 'currency', 'required'],
    ['accounts/code/TECHNOLOGY/balance?currency=usd', 'currency', 'oneof'],
    ['accounts/code/TECHNOLOGY/balance/history?currency=USD&cursor=nonsense', 'cursor', 'cursor'],
    ['events?after_sequence=-1', 'after_sequence', 'min'],
    ['events?after_sequence=x', 'after_sequence', 'type'],
    ['events?limit=200', 'limit', 'max'],
    ['/v1/tenants?limit=0', 'limit', 'min'],
    ['/v1/tenants?cursor=nonsense', 'cursor', 'cursor'],
  ])('%s: %s %s', async (query, field, tag) => {
    const [path, key] = query.startsWith('/') ? [query, customer.tenant.owner.token] : [customer.at(query), customer.key];
    const { status, body } = await cluster.rest('GET', path, { key });
    expect([status, body.details?.field, body.details?.tag]).toEqual([400, field, tag]);
  });

  test('a huge number is repeated as it was sent', async () => {
    const { body } = await cluster.rest('GET', customer.at('events?after_sequence=99999999999999999999'), { key: customer.key });
    expect(body.details.value).toBe('99999999999999999999');
  });

  test('days before 1970 are valid', async () => {
    expect((await send('single', {})).status).toBe(201);
    for (const list of ['transactions?', 'accounts/code/TECHNOLOGY/balance/history?currency=USD&']) {
      for (const day of ['1969-12-31', '0000-01-01', '1970-01-01']) {
        const items = async (query: string) => {
          const { status, body } = await cluster.rest('GET', customer.at(`${list}${query}=${day}`), { key: customer.key });
          return [status, (body.data?.transactions ?? body.data?.history)?.length > 0];
        };
        expect([day, await items('start_date'), await items('end_date')]).toEqual([day, [200, true], [200, false]]);
      }
    }
  });

  test('an empty reference matches empty references, and an empty idempotency key is an error', async () => {
    const entry = (account_code: string, side: string) => ({ account_code, side, amount: '1.00', currency: 'NGN' });
    const entries = [entry('OPENING-BALANCES', 'debit'), entry('TECHNOLOGY', 'credit')];
    for (const more of [{ reference: '' }, {}]) {
      expect(
        (await cluster.rest('POST', customer.at('transactions/double-entry'), { key: customer.key, body: { entries, ...more } })).status,
      ).toBe(201);
    }
    const found = await cluster.rest('GET', customer.at('transactions?reference='), { key: customer.key });
    expect(new Set(found.body.data.transactions.map(({ reference }: { reference: unknown }) => reference))).toEqual(new Set(['']));
    const refused = await cluster.rest('GET', customer.at('transactions?idempotency_key='), { key: customer.key });
    expect([refused.status, refused.body.details]).toMatchObject([400, { field: 'idempotency_key', tag: 'required', value: '' }]);
  });

  test('empty ones are ignored', async () => {
    for (const query of [
      'transactions?limit=&currency=&cursor=&start_date=',
      'accounts?type=&status=',
      'events?after_sequence=',
      'accounts/hierarchy?include=',
    ]) {
      expect((await cluster.rest('GET', customer.at(query), { key: customer.key })).status).toBe(200);
    }
  });
});
