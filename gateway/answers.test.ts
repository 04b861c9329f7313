import { checkedRest, readContract } from '../test/contract.ts';
import { startHouse, type House, type Tenant } from '../test/house.ts';

let house: House;
let rest: House['rest'];
let tenant: Tenant;
let key: string;
let keyId: string;

beforeAll(async () => {
  house = await startHouse();
  // Every answer below is also held against the OpenAPI document.
  rest = checkedRest(house, await readContract(house.url));
  tenant = await house.tenant();
  key = await house.apiKey(tenant);
  keyId = `key_${key.split('_')[2]}`;
});
afterAll(() => house.stop());

const at = (path: string) => `/v1/tenants/${tenant.slug}/${path}`;
const get = async (path: string) => (await rest('GET', at(path), { key })).body.data;
const post = (path: string, body?: unknown, headers = {}) => rest('POST', at(path), { key, headers, ...(body !== undefined && { body }) });
const id = (prefix: string) => expect.stringMatching(new RegExp(`^${prefix}_[0-7][0-9a-z]{25}$`));
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const line = (account_code: string, side: string, amount = '10.00', currency = 'USD') => ({ account_code, side, amount, currency });
const deposit = (amount = '10.00', more = {}) => ({
  entries: [line('SETTLEMENT-USD', 'debit', amount), line('CUSTOMER-WALLETS-USD', 'credit', amount)],
  ...more,
});

describe('users', () => {
  const email = `Ada.${process.pid}@Example.com`;
  const password = 'correct horse';

  test('register, log in in any case of the email, read themselves, renew and leave', async () => {
    const registered = await rest('POST', '/v1/auth/register', { body: { email, password, first_name: 'Ada', last_name: 'Lovelace' } });
    expect(registered.status).toBe(201);
    const user = {
      id: id('user'),
      email: expect.any(String),
      first_name: 'Ada',
      last_name: 'Lovelace',
      status: 'active',
      created_at: time,
    };
    expect(registered.body).toEqual({ success: true, data: { user }, message: expect.any(String) });

    const login = await rest('POST', '/v1/auth/login', { body: { email: email.toLowerCase(), password } });
    expect(login.status).toBe(200);
    expect(login.body.data).toEqual({ token: expect.any(String), expires_at: time, refresh_token: expect.any(String), user });
    expect(login.headers.get('ratelimit-policy')).toBe('"login";q=10;w=900');
    expect(login.headers.get('ratelimit')).toMatch(/^"login";r=10;t=\d+$/);
    expect(login.headers.get('cache-control')).toBe('no-store');

    const me = await rest('GET', '/v1/user', { key: login.body.data.token });
    expect(me.body.data).toEqual({ user: registered.body.data.user });

    const renewed = await rest('POST', '/v1/auth/refresh', { body: { refresh_token: login.body.data.refresh_token } });
    expect(renewed.body.data.user).toEqual(registered.body.data.user);
    expect(renewed.body.data.refresh_token).not.toBe(login.body.data.refresh_token);
    const left = await rest('POST', '/v1/auth/logout', { body: { refresh_token: renewed.body.data.refresh_token } });
    expect([left.status, left.body.success]).toEqual([200, true]);
    const again = await rest('POST', '/v1/auth/refresh', { body: { refresh_token: renewed.body.data.refresh_token } });
    expect([again.status, again.body.code]).toEqual([401, 'unauthenticated']);
  });

  test('an email that is taken is a conflict that names the field', async () => {
    const { status, body } = await rest('POST', '/v1/auth/register', { body: { email, password, first_name: 'A', last_name: 'L' } });
    expect([status, body.code, body.details.field]).toEqual([409, 'email_taken', 'email']);
  });

  test('a wrong password and an unknown email get the same answer, and after ten failures a time to wait', async () => {
    const tries = [];
    for (let attempt = 0; attempt < 11; attempt += 1)
      tries.push(await rest('POST', '/v1/auth/login', { body: { email, password: 'wrong' } }));
    const unknown = await rest('POST', '/v1/auth/login', { body: { email: `nobody.${process.pid}@example.com`, password: 'wrong' } });
    expect({ ...unknown.body, request_id: '' }).toEqual({ ...tries[0]!.body, request_id: '' });
    expect(unknown.body).toMatchObject({ error: 'invalid email or password', code: 'unauthenticated' });
    expect(tries.map(({ status }) => status)).toEqual([...Array(10).fill(401), 429]);
    expect(tries[0]!.headers.get('ratelimit')).toMatch(/^"login";r=9;t=\d+$/);
    // Nobody is believed to be another by his own word.
    const forwarded = { body: { email, password: 'wrong' }, headers: { 'x-forwarded-for': '192.0.2.1' } };
    expect((await rest('POST', '/v1/auth/login', forwarded)).status).toBe(429);
    const { headers, body } = tries[10]!;
    expect(body.code).toBe('rate_limited');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(headers.get('ratelimit-policy')).toBe('"login";q=10;w=900');
    expect(headers.get('ratelimit')).toMatch(/^"login";r=0;t=\d+$/);
  });
});

describe('tenants and keys', () => {
  test('a tenant is created, its slug taken, and listed by page', async () => {
    const person = await house.signUp();
    for (const name of ['one', 'two', 'three']) {
      const body = { name, slug: `${name}-${process.pid}`, business_type: 'other', description: name === 'one' ? 'First' : null };
      const created = await rest('POST', '/v1/tenants', { key: person.token, body });
      expect(created.status).toBe(201);
      expect(created.body.data.tenant).toEqual({ ...body, id: id('tenant'), status: 'active', created_at: time });
      const taken = await rest('POST', '/v1/tenants', { key: person.token, body });
      expect([taken.status, taken.body.code]).toEqual([409, 'slug_taken']);
    }
    const names = [];
    let cursor = '';
    do {
      const { body } = await rest('GET', `/v1/tenants?limit=2&cursor=${cursor}`, { key: person.token });
      names.push(...body.data.tenants.map((each: any) => each.name));
      expect(body.data.pagination).toEqual({ limit: 2, next_cursor: cursor === '' ? expect.any(String) : null, has_more: cursor === '' });
      cursor = body.data.pagination.next_cursor;
    } while (cursor);
    expect(names).toEqual(['three', 'two', 'one']);
  });

  test('a key is shown once, listed without its text, replaced and revoked', async () => {
    const token = { key: tenant.owner.token };
    const keys = `/v1/tenants/${tenant.id}/api-keys`;
    const body = { name: 'Batch', scopes: ['balances:read', 'balances:read'], expires_at: '2099-01-01T00:00:00Z' };
    const created = await rest('POST', keys, { ...token, body });
    expect([created.status, created.headers.get('cache-control')]).toEqual([201, 'no-store']);
    const { key: text, ...shown } = created.body.data.api_key;
    expect(shown).toEqual({
      id: id('key'),
      name: 'Batch',
      scopes: ['balances:read'],
      description: null,
      last4: text.slice(-4),
      created_at: time,
      expires_at: '2099-01-01T00:00:00.000Z',
      revoked_at: null,
    });
    expect(text).toMatch(/^lk_live_[0-9a-z]{26}_[0-9A-Za-z]{49}$/);
    const listed = await rest('GET', keys, token);
    expect(listed.body.data.api_keys[0]).toEqual(shown);
    expect(JSON.stringify(listed.body)).not.toContain(text.slice(36, 60));

    const replaced = await rest('POST', `${keys}/${shown.id}/rotate`, { ...token, body: { overlap_seconds: 60 } });
    expect(replaced.status).toBe(201);
    expect(replaced.body.data.api_key).toMatchObject({ id: id('key'), name: 'Batch', scopes: ['balances:read'], key: expect.any(String) });
    expect(replaced.body.data.previous).toEqual({ ...shown, expires_at: time });
    const deleted = await rest('DELETE', `${keys}/${shown.id}`, token);
    expect([deleted.status, deleted.body]).toEqual([200, { success: true, data: { id: shown.id, deleted: true } }]);
    expect((await rest('DELETE', `${keys}/${shown.id}`, token)).status).toBe(200);
    expect((await rest('POST', `${keys}/${shown.id}/rotate`, token)).body.code).toBe('key_not_found');
  });
});

describe('accounts', () => {
  test('a chart is set up once, and again without a change, but not as another business', async () => {
    const first = await post('accounts/setup', { business_type: 'wallet' });
    expect([first.status, first.body.data.business_type]).toEqual([201, 'wallet']);
    expect(first.body.data.accounts.length).toBeGreaterThan(25);
    const again = await post('accounts/setup', { business_type: 'wallet' });
    expect(again.status).toBe(200);
    expect(again.body.data).toEqual(first.body.data);
    const other = await post('accounts/setup', { business_type: 'lending' });
    expect([other.status, other.body.code]).toEqual([409, 'chart_exists']);
  });

  test('an account is created, read, changed by version, closed and kept from change', async () => {
    const body = {
      account_code: 'PETTY.CASH',
      name: 'Petty cash',
      type: 'asset',
      currency: 'USD',
      parent_code: 'ASSETS',
      metadata: { b: 1, a: [1.5, null] },
    };
    const created = await post('accounts', body);
    expect(created.status).toBe(201);
    const account = {
      ...body,
      id: id('acc'),
      normal_balance: 'debit',
      is_group: false,
      description: null,
      allow_negative: true,
      status: 'active',
      system: false,
      version: 1,
      created_at: time,
      updated_at: time,
    };
    expect(created.body.data.account).toEqual(account);
    expect((await get('accounts/code/PETTY.CASH')).account).toEqual(account);
    expect((await get('accounts?limit=1')).accounts).toEqual([account]);
    expect((await get('accounts?type=asset&parent_code=ASSETS&status=active')).accounts).toContainEqual(account);
    const path = at('accounts/code/PETTY.CASH');
    const changed = await rest('PATCH', path, { key, body: { name: 'Cash', description: 'In the drawer', version: 1 } });
    expect(changed.body.data.account).toMatchObject({ name: 'Cash', description: 'In the drawer', version: 2, metadata: body.metadata });
    const stale = await rest('PATCH', path, { key, body: { name: 'X', version: 1 } });
    expect([stale.status, stale.body.code, stale.body.details.value]).toEqual([409, 'version_conflict', 1]);
    expect((await rest('PATCH', path, { key, body: { description: '' } })).body.data.account.description).toBeNull();
    expect((await rest('PATCH', path, { key, body: { status: 'closed' } })).body.data.account.status).toBe('closed');
    const system = await rest('PATCH', at('accounts/code/SUSPENSE-USD'), { key, body: { name: 'X' } });
    expect([system.status, system.body.code]).toEqual([409, 'account_is_system']);
  });

  test.each([
    [{ account_code: 'SALARIES' }, 409, 'account_code_taken'],
    [{ parent_code: 'NOPE' }, 422, 'account_not_found'],
    [{ parent_code: 'REVENUE' }, 422, 'parent_invalid'],
    [{ parent_code: 'SALARIES' }, 422, 'parent_invalid'],
  ])('an account with %j is refused', async (change, status, code) => {
    const answer = await post('accounts', { account_code: 'NEW', name: 'New', type: 'asset', ...change });
    expect([answer.status, answer.body.code, answer.body.details.field]).toEqual([status, code, Object.keys(change)[0]]);
  });

  test('the chart is a tree, with balances where they are asked for', async () => {
    const bare = await get('accounts/hierarchy');
    const full = await get('accounts/hierarchy?include=balances');
    const find = (nodes: any[], code: string): any => {
      for (const node of nodes) {
        const found = node.account_code === code ? node : find(node.children, code);
        if (found) return found;
      }
      return undefined;
    };
    expect(find(bare.accounts, 'CUSTOMER-WALLETS-USD')).toMatchObject({ parent_code: 'CUSTOMER-WALLETS', children: [] });
    expect(find(bare.accounts, 'ASSETS').balances).toBeUndefined();
    expect(find(full.accounts, 'ASSETS').balances).toEqual(expect.any(Array));
  });
});

describe('transactions', () => {
  test('a double posting answers every field', async () => {
    const body = deposit('100.5', {
      idempotency_key: 'd-1',
      description: 'Zu\u0308rich "\u{1f600}"\n',
      reference: 'R\\1',
      metadata: { z: 1, a: { b: [true, null, '\u2028'] } },
    });
    const { status, headers, body: answer } = await post('transactions/double-entry', body);
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
      created_at: answer.data.transaction.effective_at,
      sequence: expect.any(Number),
      reverses: null,
      reversed_by: null,
    });
    expect((await get(`transactions/${answer.data.transaction.transaction_id}`)).transaction).toEqual(answer.data.transaction);
  });

  test('a single posting is balanced on suspense; without a key its id is the key', async () => {
    const { status, body } = await post('transactions', line('CUSTOMER-WALLETS-USD', 'credit', '5'));
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
    const { body } = await post('transactions/double-entry', { entries });
    expect(body.data.transaction).toMatchObject({ currency: null, amount: null });
  });

  test('the same key and request again is answered with the first, whether the key comes as field or header', async () => {
    const first = await post('transactions/double-entry', deposit('1', { idempotency_key: 'same' }));
    for (const [body, header] of [
      [deposit('1.00', { idempotency_key: 'same' }), undefined],
      [deposit('1.0'), 'same'],
      [deposit('1.0'), '"same"'],
      [deposit('1.0', { idempotency_key: 'same' }), '"same"'],
      [deposit('1.0', { idempotency_key: null, unknown: 1 }), 'same'],
    ] as const) {
      const again = await post('transactions/double-entry', body, header === undefined ? {} : { 'idempotency-key': header });
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
      expect(again.body).toEqual(first.body);
    }
    const other = await post('transactions/double-entry', deposit('2', { idempotency_key: 'same' }));
    expect([other.status, other.body.code, other.body.details.field]).toEqual([422, 'idempotency_key_reused', 'idempotency_key']);
  });

  test('a header that differs from the field is refused, and one that is no key, too', async () => {
    const differs = await post('transactions', { ...line('SALARIES', 'debit'), idempotency_key: 'a' }, { 'idempotency-key': 'b' });
    expect(differs.body.details).toEqual({ field: 'idempotency_key', tag: 'same', value: 'a' });
    const long = await post('transactions', line('SALARIES', 'debit'), { 'idempotency-key': 'x'.repeat(256) });
    expect(long.body.details).toMatchObject({ field: 'idempotency_key', tag: 'max' });
    const empty = await post('transactions', line('SALARIES', 'debit'), { 'idempotency-key': '""' });
    expect(empty.body.details).toMatchObject({ field: 'idempotency_key', tag: 'required' });
    const both = await post('transactions', { idempotency_key: 'a', amount: 5 }, { 'idempotency-key': 'b' });
    expect(both.body.errors.map(({ field, tag }: any) => `${field} ${tag}`).slice(0, 3)).toEqual([
      'idempotency_key same',
      'account_code required',
      'amount type',
    ]);
  });

  test('a key in a header may hold any text, as UTF-8', async () => {
    const name = 'cl\u00e9-\u{1f511}';
    const bytes = Buffer.from(name).toString('latin1');
    const first = await post('transactions', { ...line('SALARIES', 'debit'), idempotency_key: name });
    const again = await post('transactions', line('SALARIES', 'debit'), { 'idempotency-key': bytes });
    expect([again.status, again.body.data.transaction.transaction_id]).toEqual([200, first.body.data.transaction.transaction_id]);
  });

  test('a reversal is posted once, with or without a body', async () => {
    const { transaction_id } = (await post('transactions/double-entry', deposit())).body.data.transaction;
    const reversed = await post(`transactions/${transaction_id}/reverse`);
    expect(reversed.status).toBe(201);
    expect(reversed.body.data.transaction).toMatchObject({ kind: 'reversal', reverses: transaction_id });
    expect((await get(`transactions/${transaction_id}`)).transaction.reversed_by).toBe(reversed.body.data.transaction.transaction_id);
    const again = await post(`transactions/${transaction_id}/reverse`, {});
    expect([again.status, again.body.code]).toEqual([409, 'already_reversed']);
    const back = await post(`transactions/${reversed.body.data.transaction.transaction_id}/reverse`, { description: 'back' });
    expect([back.status, back.body.code]).toEqual([409, 'already_reversed']);
    const other = (await post('transactions/double-entry', deposit())).body.data.transaction.transaction_id;
    const keyed = await post(`transactions/${other}/reverse`, {}, { 'idempotency-key': 'r-1' });
    const replayed = await post(`transactions/${other}/reverse`, { idempotency_key: 'r-1' });
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(replayed.body).toEqual(keyed.body);
  });

  test.each([
    ['transactions', line('NOPE', 'debit'), 422, 'account_not_found', 'account_code'],
    ['transactions', line('ASSETS', 'debit'), 422, 'account_is_group', 'account_code'],
    ['transactions', line('SUSPENSE-USD', 'debit'), 422, 'account_is_system', 'account_code'],
    ['transactions', line('PETTY.CASH', 'debit'), 422, 'account_closed', 'account_code'],
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
    const answer = await post(path, body);
    expect([answer.status, answer.body.code, answer.body.details.field, answer.body.details.tag]).toEqual([status, code, field, code]);
  });

  test('they are listed newest first, by page and filter', async () => {
    const all = (await get('transactions?limit=100')).transactions;
    const paged = [];
    let cursor = '';
    do {
      const page = await get(`transactions?limit=3&cursor=${cursor}`);
      paged.push(...page.transactions);
      cursor = page.pagination.next_cursor ?? '';
      expect(page.pagination.has_more).toBe(cursor !== '');
    } while (cursor !== '');
    expect(paged).toEqual(all);
    const sequences = all.map((each: any) => each.sequence);
    expect(sequences).toEqual([...sequences].sort((one, other) => other - one));
    expect((await get('transactions?idempotency_key=d-1')).transactions).toHaveLength(1);
    expect((await get(`transactions?reference=${encodeURIComponent('R\\1')}`)).transactions).toHaveLength(1);
    expect((await get('transactions?currency=NGN&account_code=SETTLEMENT-NGN')).transactions).toHaveLength(1);
    const today = new Date().toISOString().slice(0, 10);
    expect((await get(`transactions?limit=100&start_date=${today}`)).transactions.length).toBeGreaterThanOrEqual(0);
    expect((await get('transactions?end_date=2020-01-01')).transactions).toEqual([]);
    expect((await get('transactions?start_date=2020-01-01&end_date=2099-01-01&limit=100')).transactions).toEqual(all);
  });
});

describe('balances and events', () => {
  test('a posting that has been answered is in the balance and its history', async () => {
    const before = (await get('accounts/code/SALARIES/balance?currency=EUR')).balance;
    expect(before).toEqual({
      account_id: id('acc'),
      account_code: 'SALARIES',
      currency: 'EUR',
      balance: '0.00',
      debits: '0.00',
      credits: '0.00',
      pending_debits: '0.00',
      pending_credits: '0.00',
      available: '0.00',
      version: 0,
      updated_at: null,
    });
    const { transaction } = (await post('transactions', line('SALARIES', 'credit', '7.25', 'EUR'))).body.data;
    const after = (await get('accounts/code/SALARIES/balance?currency=EUR')).balance;
    expect(after).toEqual({
      ...before,
      balance: '-7.25',
      credits: '7.25',
      available: '-7.25',
      version: 1,
      updated_at: transaction.created_at,
    });
    const { history, pagination } = await get('accounts/code/SALARIES/balance/history?currency=EUR');
    const { transaction_id, sequence, created_at } = transaction;
    expect(history).toEqual([{ transaction_id, sequence, side: 'credit', amount: '7.25', balance_after: '-7.25', created_at }]);
    expect(pagination).toEqual({ limit: 50, next_cursor: null, has_more: false });
    expect((await get('accounts/code/SETTLEMENT-USD/balance')).balance.currency).toBe('USD');
  });

  test.each([
    ['accounts/code/ASSETS/balance?currency=USD', 'account_is_group', 'account_code'],
    ['accounts/code/SETTLEMENT-USD/balance?currency=NGN', 'currency_not_allowed', 'currency'],
    ['accounts/code/SETTLEMENT-USD/balance/history?currency=NGN', 'currency_not_allowed', 'currency'],
  ])('%s is refused: %s', async (path, code, field) => {
    const { status, body } = await rest('GET', at(path), { key });
    expect([status, body.code, body.details.field]).toEqual([422, code, field]);
  });

  test('the log tells what happened, by whom and by which request, in a chain', async () => {
    const requestId = `req-${process.pid}`;
    const posted = await post('transactions/double-entry', deposit('3', { idempotency_key: 'e-1', metadata: { a: 1 } }), {
      'x-request-id': requestId,
    });
    const { transaction } = posted.body.data;
    const [event] = (await get(`events?after_sequence=${transaction.sequence - 1}&limit=1`)).events;
    expect(event).toEqual({
      id: id('evt'),
      type: 'transaction.posted',
      sequence: transaction.sequence,
      created: Math.floor(Date.parse(transaction.created_at) / 1000),
      actor: keyId,
      request_id: requestId,
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      previous_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      data: {
        transaction_id: transaction.transaction_id,
        kind: 'double',
        idempotency_key: 'e-1',
        description: '',
        reference: null,
        currency: 'USD',
        amount: '3.00',
        lines: transaction.entries,
        reverses: null,
        metadata: { a: 1 },
        sequence: transaction.sequence,
      },
    });
    const { events, pagination } = await get('events?limit=100');
    expect(events[0]).toMatchObject({ sequence: 1, type: 'account.created', previous_hash: '0'.repeat(64) });
    events.forEach((each: any, index: number) =>
      expect([each.sequence, each.previous_hash]).toEqual([index + 1, events[index - 1]?.hash ?? '0'.repeat(64)]),
    );
    expect(pagination).toEqual({ limit: 100, has_more: expect.any(Boolean) });
    const created = events.find((each: any) => each.data.account_code === 'PETTY.CASH');
    expect(created.data).toMatchObject({ name: 'Petty cash', type: 'asset', version: 1, sequence: created.sequence, metadata: { b: 1 } });
    const updated = events.find((each: any) => each.type === 'account.updated');
    expect(updated.data).toMatchObject({
      account_code: 'PETTY.CASH',
      name: 'Cash',
      changes: ['name', 'description'],
      sequence: updated.sequence,
    });
  });
});

test('HEAD of a list answers its headers', async () => {
  const answer = await rest('HEAD', at('transactions'), { key });
  expect([answer.status, answer.body]).toEqual([200, '']);
});
