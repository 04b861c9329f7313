import { plainAsset } from '../test/default-account.ts';
import { startCheckedCluster } from '../test/contract.ts';
import { deposit, id, line, newCustomer, time, type Customer } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newCustomer(cluster);
});
afterAll(() => cluster.stop());

describe('accounts', () => {
  test('a chart is set up once, and again without a change, but not as another business', async () => {
    const first = await customer.post('accounts/setup', { business_type: 'wallet' });
    expect([first.status, first.body.data.business_type]).toEqual([201, 'wallet']);
    expect(first.body.data.accounts.length).toBeGreaterThan(25);
    const again = await customer.post('accounts/setup', { business_type: 'wallet' });
    expect(again.status).toBe(200);
    expect(again.body.data).toEqual(first.body.data);
    const other = await customer.post('accounts/setup', { business_type: 'lending' });
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
    const created = await customer.post('accounts', body);
    expect(created.status).toBe(201);
    const account = {
      ...plainAsset,
      ...{ limits: [], blocked: [] },
      ...body,
      id: id('acc'),
      version: 1,
      created_at: time,
      updated_at: time,
    };
    expect(created.body.data.account).toEqual(account);
    expect((await customer.get('accounts/code/PETTY.CASH')).account).toEqual(account);
    expect((await customer.get('accounts?limit=1')).accounts).toEqual([account]);
    expect((await customer.get('accounts?type=asset&parent_code=ASSETS&status=active')).accounts).toContainEqual(account);
    const path = customer.at('accounts/code/PETTY.CASH');
    const changed = await cluster.rest('PATCH', path, {
      key: customer.key,
      body: { name: 'Cash', description: 'In the drawer', version: 1 },
    });
    expect(changed.body.data.account).toMatchObject({ name: 'Cash', description: 'In the drawer', version: 2, metadata: body.metadata });
    const stale = await cluster.rest('PATCH', path, { key: customer.key, body: { name: 'X', version: 1 } });
    expect([stale.status, stale.body.code, stale.body.details.value]).toEqual([409, 'version_conflict', 1]);
    expect((await cluster.rest('PATCH', path, { key: customer.key, body: { description: '' } })).body.data.account.description).toBeNull();
    expect((await cluster.rest('PATCH', path, { key: customer.key, body: { status: 'closed' } })).body.data.account.status).toBe('closed');
    const system = await cluster.rest('PATCH', customer.at('accounts/code/SUSPENSE-USD'), { key: customer.key, body: { name: 'X' } });
    expect([system.status, system.body.code]).toEqual([409, 'account_is_system']);
  });

  test.each([
    [{ account_code: 'SALARIES' }, 409, 'account_code_taken'],
    [{ parent_code: 'NOPE' }, 422, 'account_not_found'],
    [{ parent_code: 'REVENUE' }, 422, 'parent_invalid'],
    [{ parent_code: 'SALARIES' }, 422, 'parent_invalid'],
  ])('an account with %j is refused', async (change, status, code) => {
    const answer = await customer.post('accounts', { account_code: 'NEW', name: 'New', type: 'asset', ...change });
    expect([answer.status, answer.body.code, answer.body.details.field]).toEqual([status, code, Object.keys(change)[0]]);
    expect(answer.body.details.tag).toBe(status === 409 ? 'unique' : code);
  });

  test('the chart is a tree, with balances if requested', async () => {
    const bare = await customer.get('accounts/hierarchy');
    const full = await customer.get('accounts/hierarchy?include=balances');
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
    const [wallets] = (await customer.get('accounts/hierarchy?root=CUSTOMER-WALLETS&depth=1')).accounts;
    expect(wallets).toMatchObject({ account_code: 'CUSTOMER-WALLETS', children_count: 4, children: [] });
    const top = (await customer.get('accounts/hierarchy?depth=1')).accounts;
    expect(top.map((node: any) => [node.account_code, node.children.length])).toEqual(
      bare.accounts.map((node: any) => [node.account_code, 0]),
    );
    for (const [query, status, field] of [
      ['root=NO-SUCH', 404, undefined],
      ['root=*', 400, 'root'],
      ['depth=0', 400, 'depth'],
      ['depth=33', 400, 'depth'],
    ] as const) {
      const answer = await cluster.rest('GET', customer.at(`accounts/hierarchy?${query}`), { key: customer.key });
      expect([query, answer.status, answer.body.details?.field]).toEqual([query, status, field]);
    }
  });

  test('accounts come in by the thousand, and a chart of any size is read in parts', async () => {
    const other = await newCustomer(cluster);
    const batch = (name: string, from: number, to: number, more: object) =>
      other.post('accounts/batch', {
        accounts: Array.from({ length: to - from }, (_, index) => ({
          ...{ account_code: `${name}-${from + index}`, name: 'Customer', type: 'liability', parent_code: name },
          ...more,
        })),
      });
    const groups = ['LONG', 'MANY'].map((account_code) => ({ account_code, name: 'Customers', type: 'liability', is_group: true }));
    const made = await other.post('accounts/batch', { accounts: groups });
    expect([made.status, made.body.data]).toEqual([
      201,
      { created: 2, skipped: 0, accounts: groups.map((each) => expect.objectContaining(each)) },
    ]);
    for (let from = 0; from < 7_500; from += 750)
      expect((await batch('LONG', from, from + 750, { description: 'x'.repeat(1_000) })).status).toBe(201);
    for (let from = 0; from < 12_499; from += 1_000)
      expect((await batch('MANY', from, Math.min(12_499, from + 1_000), {})).status).toBe(201);
    await other.post('transactions', { ...line('LONG-7499', 'credit', '2.00', 'USD') });

    const whole = await cluster.rest('GET', other.at('accounts/hierarchy'), { key: other.key });
    expect([whole.status, whole.body]).toMatchObject([
      422,
      {
        code: 'too_large',
        error: 'the answer would have more than 20000 accounts: read it in parts with root and depth, or list the accounts page by page',
        details: { field: 'depth', tag: 'too_large', value: '' },
      },
    ]);
    const top = (await other.get('accounts/hierarchy?depth=1&include=balances')).accounts;
    expect(top.map((node: any) => [node.account_code, node.children_count, node.balances.length])).toEqual([
      ['LONG', 7_500, 1],
      ['MANY', 12_499, 0],
      ['SUSPENSE-USD', 0, 1],
    ]);
    const [long] = (await other.get('accounts/hierarchy?root=LONG&include=balances')).accounts;
    expect(long.children.map((node: any) => node.account_code)).toEqual(Array.from({ length: 7_500 }, (_, index) => `LONG-${index}`));
    expect(long.balances).toEqual(long.children.at(-1).balances);
    expect((await other.get('accounts/hierarchy?root=MANY')).accounts[0].children).toHaveLength(12_499);
  });

  test.each([
    [{ account_code: 'SALARIES' }, 409, 'account_code_taken', 'account_code'],
    [{ account_code: 'GOOD' }, 400, 'validation_failed', 'account_code'],
    [{ parent_code: 'REVENUE' }, 422, 'parent_invalid', 'parent_code'],
    [{ parent_code: 'NO-SUCH' }, 422, 'account_not_found', 'parent_code'],
    [{ type: 'cash' }, 400, 'validation_failed', 'type'],
    [{ metadata: { a: 'x'.repeat(17_000) } }, 400, 'validation_failed', 'metadata'],
    [{ amount: '1.00' }, 400, 'validation_failed', 'amount'],
  ])('a batch with %j makes nothing and names the field', async (more, status, code, field) => {
    const fine = { account_code: 'GOOD', name: 'Good', type: 'asset' };
    const answer = await customer.post('accounts/batch', { accounts: [fine, { ...fine, account_code: 'BAD', ...more }] });
    expect([answer.status, answer.body.code, answer.body.details.field]).toEqual([status, code, `accounts[1].${field}`]);
    expect((await cluster.rest('GET', customer.at('accounts/code/GOOD'), { key: customer.key })).status).toBe(404);
  });

  test('a second batch makes what is missing, where it may', async () => {
    const accounts = ['S-1', 'S-2'].map((account_code) => ({ account_code, name: 'S', type: 'asset' }));
    await customer.post('accounts/batch', { accounts: accounts.slice(0, 1) });
    const refused = await customer.post('accounts/batch', { accounts });
    expect([refused.status, refused.body.details]).toEqual([409, { field: 'accounts[0].account_code', tag: 'unique', value: 'S-1' }]);
    const again = await customer.post('accounts/batch', { accounts, on_existing: 'skip' });
    expect([again.status, again.body.data]).toMatchObject([201, { created: 1, skipped: 1, accounts }]);
  });

  test('a group is moved below another one of its type, not below itself', async () => {
    const move = (code: string, parent_code: string) =>
      cluster.rest('PATCH', customer.at(`accounts/code/${code}`), { key: customer.key, body: { parent_code } });
    await customer.post('accounts', {
      account_code: 'POOLS',
      name: 'Pools',
      type: 'liability',
      is_group: true,
      parent_code: 'LIABILITIES',
    });
    const moved = await move('CUSTOMER-WALLETS', 'POOLS');
    expect([moved.status, moved.body.data.account]).toMatchObject([200, { parent_code: 'POOLS', version: 2 }]);
    const [pools] = (await customer.get('accounts/hierarchy?root=POOLS')).accounts;
    expect(pools.children[0].children).toHaveLength(4);
    for (const [code, parent, reason] of [
      ['POOLS', 'CUSTOMER-WALLETS', 'parent_invalid'],
      ['POOLS', 'POOLS', 'parent_invalid'],
      ['POOLS', 'ASSETS', 'parent_invalid'],
      ['POOLS', 'NO-SUCH', 'account_not_found'],
    ] as const) {
      const { status, body } = await move(code, parent);
      expect([status, body.code, body.details]).toEqual([422, reason, { field: 'parent_code', tag: reason, value: parent }]);
    }
  });
});

describe('balances and events', () => {
  test('a posting that has been answered is in the balance and its history', async () => {
    const before = (await customer.get('accounts/code/SALARIES/balance?currency=EUR')).balance;
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
      as_of: null,
      known_sequence: null,
    });
    const { transaction } = (await customer.post('transactions', line('SALARIES', 'credit', '7.25', 'EUR'))).body.data;
    const after = (await customer.get('accounts/code/SALARIES/balance?currency=EUR')).balance;
    expect(after).toEqual({
      ...before,
      balance: '-7.25',
      credits: '7.25',
      available: '-7.25',
      version: 1,
      updated_at: transaction.created_at,
    });
    const { history, pagination } = await customer.get('accounts/code/SALARIES/balance/history?currency=EUR');
    const { transaction_id, sequence, created_at } = transaction;
    expect(history).toEqual([{ transaction_id, sequence, side: 'credit', amount: '7.25', balance_after: '-7.25', created_at }]);
    expect(pagination).toEqual({ limit: 50, next_cursor: null, has_more: false });
    expect((await customer.get('accounts/code/SETTLEMENT-USD/balance')).balance.currency).toBe('USD');
  });

  test.each([
    ['accounts/code/ASSETS/balance?currency=USD', 'account_is_group', 'account_code'],
    ['accounts/code/SETTLEMENT-USD/balance?currency=NGN', 'currency_not_allowed', 'currency'],
    ['accounts/code/SETTLEMENT-USD/balance/history?currency=NGN', 'currency_not_allowed', 'currency'],
  ])('%s is refused: %s', async (path, code, field) => {
    const { status, body } = await cluster.rest('GET', customer.at(path), { key: customer.key });
    expect([status, body.code, body.details.field]).toEqual([422, code, field]);
  });

  test('the log has every change with actor and request id, hash-chained', async () => {
    const requestId = `req-${process.pid}`;
    const posted = await customer.post('transactions/double-entry', deposit('3', { idempotency_key: 'e-1', metadata: { a: 1 } }), {
      'x-request-id': requestId,
    });
    const { transaction } = posted.body.data;
    const [event] = (await customer.get(`events?after_sequence=${transaction.sequence - 1}&limit=1`)).events;
    expect(event).toEqual({
      id: id('evt'),
      type: 'transaction.posted',
      sequence: transaction.sequence,
      created: Math.floor(Date.parse(transaction.created_at) / 1000),
      actor: `key_${customer.key.split('_')[2]}`,
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
        origin: null,
        unreversed: null,
        personal: [],
        redacted: [],
        metadata: { a: 1 },
        effective_at: transaction.created_at,
        requested_effective_at: null,
        sequence: transaction.sequence,
      },
    });
    const { events, pagination } = await customer.get('events?limit=100');
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
