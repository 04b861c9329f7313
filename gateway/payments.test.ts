import { startCheckedCluster } from '../test/contract.ts';
import { deposit, id, line, newCustomer, newWallet, type Customer } from '../test/customer.ts';
import type { Cluster } from '../test/cluster.ts';
import { until } from '../test/polling.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: Cluster;
let customer: Customer;
const wallet = 'CUSTOMER-WALLETS-USD';

beforeAll(async () => {
  cluster = await startCheckedCluster();
  customer = await newWallet(cluster);
  await customer.post('transactions/double-entry', deposit('1000.00'));
});
afterAll(() => cluster.stop());

const balance = async (code = wallet, currency = 'USD') =>
  (await customer.get(`accounts/code/${code}/balance?currency=${currency}`)).balance;
const double = (body: unknown, query = '') => customer.post(`transactions/double-entry${query}`, body);
/** Takes 10.00 out of the wallet. */
const withdrawal = (entryRequire?: unknown, more: object = {}) => ({
  entries: [{ ...line(wallet, 'debit'), ...(entryRequire !== undefined && { require: entryRequire }) }, line('SETTLEMENT-USD', 'credit')],
  ...more,
});

describe('conditions', () => {
  test('a posting goes through only on the balance version that was read, and a refused key stays free', async () => {
    const { version } = await balance();
    const body = withdrawal({ version }, { idempotency_key: 'version-1' });
    expect((await double(body)).status).toBe(201);
    const stale = await double(withdrawal({ version }, { idempotency_key: 'version-2' }));
    expect([stale.status, stale.body.code]).toEqual([422, 'condition_failed']);
    expect(stale.body.details).toEqual({ field: 'entries[0].require.version', tag: 'condition_failed', value: version });
    // What was decided once is not judged again.
    expect((await double(body)).status).toBe(200);
    const now = (await balance()).version;
    expect((await double(withdrawal({ version: now }, { idempotency_key: 'version-2' }))).status).toBe(201);
  });

  test('amounts are compared after the whole transaction, and the value is repeated as sent', async () => {
    const { available } = await balance();
    const after = (Number(available) - 10).toFixed(2);
    const refused = await double(withdrawal({ available: { gte: `0${available}` } }));
    expect(refused.body.details).toEqual({ field: 'entries[0].require.available.gte', tag: 'condition_failed', value: `0${available}` });
    expect((await double(withdrawal({ available: { gte: after, lte: after }, balance: { eq: after } }))).status).toBe(201);
  });

  test('other accounts can be named too, also by a single posting', async () => {
    const require = [{ account_code: 'OPERATING-CASH', currency: 'USD', balance: { gte: '0.01' } }];
    const refused = await customer.post('transactions', { ...line(wallet, 'credit'), require });
    expect([refused.status, refused.body.details.field]).toEqual([422, 'require[0].balance.gte']);
    const unknown = await double(withdrawal(undefined, { require: [{ ...require[0], account_code: 'NOBODY' }] }));
    expect([unknown.status, unknown.body.details]).toEqual([
      422,
      { field: 'require[0].account_code', tag: 'account_not_found', value: 'NOBODY' },
    ]);
    const allowed = [{ account_code: 'OPERATING-CASH', currency: 'USD', version: 0, balance: { eq: '0' } }];
    expect((await customer.post('transactions', { ...line(wallet, 'credit'), require: allowed })).status).toBe(201);
  });

  test('an amount written otherwise is the same request, and an account that does not exist is refused whatever else holds', async () => {
    const body = (gte: string) => withdrawal({ available: { gte } }, { idempotency_key: 'written' });
    expect((await double(body('1'))).status).toBe(201);
    expect((await double(body('1.00'))).status).toBe(200);
    expect((await double(body('1.01'))).status).toBe(422);
    const nobody = [{ account_code: 'NOBODY', currency: 'USD', version: 0 }];
    const refused = await double(withdrawal({ version: 0 }, { require: nobody }));
    expect([refused.body.code, refused.body.details.field]).toEqual(['account_not_found', 'require[0].account_code']);
  });

  test.each([
    [{ avialable: { gte: '1' } }, 'entries[0].require.avialable', 'unknown'],
    [{ available: { gt: '1' } }, 'entries[0].require.available.gt', 'unknown'],
    [{ available: { gte: '1.234' } }, 'entries[0].require.available.gte', 'decimal'],
    [{ available: { gte: 1 } }, 'entries[0].require.available.gte', 'type'],
    [{ version: -1 }, 'entries[0].require.version', 'min'],
    [{}, 'entries[0].require', 'required'],
  ])('%j is refused as %s %s', async (require, field, tag) => {
    const { status, body } = await double(withdrawal(require));
    expect([status, body.code, body.details.field, body.details.tag]).toEqual([400, 'validation_failed', field, tag]);
  });
});

describe('the end of validity', () => {
  test('a posting is refused from that time on, except as a replay', async () => {
    const past = await double(withdrawal(undefined, { valid_until: '2020-01-01T00:00:00Z' }));
    expect([past.status, past.body.code, past.body.details]).toEqual([
      422,
      'too_late',
      { field: 'valid_until', tag: 'too_late', value: '2020-01-01T00:00:00Z' },
    ]);
    const soon = new Date(Date.now() + 3_000).toISOString();
    const body = withdrawal(undefined, { idempotency_key: 'soon', valid_until: soon });
    expect((await double(body)).status).toBe(201);
    await until(
      () => Promise.resolve(Date.now()),
      (now) => now > Date.parse(soon),
    );
    expect((await double(body)).status).toBe(200);
    const other = await double({ ...body, valid_until: '2099-01-01T00:00:00Z' });
    expect([other.status, other.body.details.fields]).toEqual([422, ['require', 'valid_until', 'override_reason']]);
    expect(other.body.error).toMatch(/which differs in one or more of require, valid_until, override_reason$/);
  });
});

describe('dry run', () => {
  test('it predicts the posting, and changes nothing', async () => {
    const before = await balance();
    const body = withdrawal({ version: before.version }, { idempotency_key: 'tried' });
    const tried = await double(body, '?dry_run=true');
    expect([tried.status, tried.body.dry_run]).toEqual([200, true]);
    expect(tried.body.data.transaction).toMatchObject({ transaction_id: null, sequence: null, idempotency_key: 'tried' });
    expect(await balance()).toEqual(before);
    const posted = await double(body, '?dry_run=false');
    expect(posted.status).toBe(201);
    expect(posted.body.dry_run).toBeUndefined();
    const entries = (answer: typeof posted) => answer.body.data.transaction.entries;
    expect(entries(posted)).toEqual(entries(tried));
    const replayed = await double(body, '?dry_run=true');
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(replayed.body.data.transaction.transaction_id).toBe(posted.body.data.transaction.transaction_id);
  });

  test('among postings that are under way it changes nothing of what they do', async () => {
    const before = await balance();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        double(withdrawal(undefined, { idempotency_key: `among-${Math.floor(index / 2)}` }), index % 2 === 0 ? '?dry_run=true' : ''),
      ),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(15);
    const after = await balance();
    expect([Number(before.balance) - Number(after.balance), after.version - before.version]).toEqual([150, 15]);
  });

  test('it refuses as the posting would', async () => {
    const refused = await double(
      { entries: [line(wallet, 'debit', '99999.00'), line('SETTLEMENT-USD', 'credit', '99999.00')] },
      '?dry_run=true',
    );
    expect([refused.status, refused.body.code]).toEqual([422, 'insufficient_funds']);
    const misspelt = await double(withdrawal(), '?dry_run=yes');
    expect([misspelt.status, misspelt.body.details]).toEqual([400, { field: 'dry_run', tag: 'type', value: 'yes' }]);
  });
});

describe('exchange', () => {
  const dollars = {
    debit: { account_code: wallet, currency: 'USD', amount: '100.00' },
    credit: { account_code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
    rate: { base: 'USD', quote: 'NGN', value: '1525.5' },
  };
  const exchange = (body: unknown, query = '') => customer.post(`transactions/exchange${query}`, body);

  test('each currency balances by itself, and the record explains the amounts', async () => {
    const body = {
      ...dollars,
      idempotency_key: 'exchange-1',
      fees: [{ account_code: 'FEE-REVENUE', currency: 'USD', amount: '1.00' }],
      spread: { account_code: 'FX-REVENUE', reference_rate: '1530' },
    };
    await customer.post('accounts', { account_code: 'FEE-REVENUE', name: 'Fees', type: 'revenue' });
    await customer.post('accounts', { account_code: 'FX-REVENUE', name: 'Exchange', type: 'revenue' });
    const { status, body: answer } = await exchange(body);
    expect(status).toBe(201);
    const { transaction } = answer.data;
    expect(transaction).toMatchObject({ transaction_id: id('txn'), kind: 'exchange', currency: null, amount: null });
    expect(transaction.entries.map((each: any) => [each.account_code, each.side, each.amount])).toEqual([
      [wallet, 'debit', '100.00'],
      ['FEE-REVENUE', 'credit', '1.00'],
      ['FX-POSITION-USD', 'credit', '99.00'],
      ['FX-POSITION-NGN', 'debit', '151470.00'],
      ['CUSTOMER-WALLETS-NGN', 'credit', '151024.50'],
      ['FX-REVENUE', 'credit', '445.50'],
    ]);
    expect(transaction.origin).toEqual({
      ...{ hold_id: null, template: null, schedule_id: null, occurrence: null },
      exchange: {
        rate: { base: 'USD', quote: 'NGN', value: '1525.5' },
        reference_rate: '1530',
        rounding: 'half_even',
        converted_debit: '99.00',
        converted_credit: '151024.50',
        spread: '445.50',
        residue: '0.000000000000',
      },
      override: null,
    });
    const replay = await exchange(body);
    expect([replay.status, replay.body.data.transaction]).toEqual([200, transaction]);
    const other = await exchange({ ...body, rate: { ...dollars.rate, value: '1526' } });
    expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused']);
    expect((await customer.get(`transactions/${transaction.transaction_id}`)).transaction).toEqual(transaction);
    const { events } = await customer.get(`events?after_sequence=${transaction.sequence - 1}&limit=1`);
    expect(events[0].data.origin).toEqual(transaction.origin);
  });

  test('a dry run of it shows the price, and after its end a quote is refused', async () => {
    const tried = await exchange(dollars, '?dry_run=true');
    expect(tried.body.data.transaction.origin.exchange.converted_credit).toBe('152550.00');
    const late = await exchange({ ...dollars, valid_until: '2020-01-01T00:00:00Z' });
    expect([late.status, late.body.code]).toEqual([422, 'too_late']);
  });

  test('a tenant without a chart gets its FX positions with the first exchange', async () => {
    const other = await cluster.tenant();
    const key = await cluster.apiKey(other);
    const at = (path: string) => `/v1/tenants/${other.slug}/${path}`;
    for (const code of ['A', 'B']) {
      await cluster.rest('POST', at('accounts'), { key, body: { account_code: code, name: code, type: 'asset' } });
    }
    const body = {
      debit: { account_code: 'A', currency: 'EUR', amount: '5.00' },
      credit: { account_code: 'B', currency: 'GBP', amount: '4.00' },
    };
    const { status, body: answer } = await cluster.rest('POST', at('transactions/exchange'), { key, body });
    expect([status, answer.data.transaction.origin.exchange.rate]).toEqual([201, { base: 'EUR', quote: 'GBP', value: '0.800000000000' }]);
    expect((await cluster.rest('GET', at('accounts/code/FX-POSITION-GBP'), { key })).body.data.account.system).toBe(true);
    const back = await cluster.rest('POST', at(`transactions/${answer.data.transaction.transaction_id}/reverse`), { key, body: {} });
    expect(back.status).toBe(201);
  });

  test('first exchanges at once make each FX position once, and those only tried make none', async () => {
    const other = await newCustomer(cluster);
    const body = {
      debit: { account_code: 'A', currency: 'EUR', amount: '5.00' },
      credit: { account_code: 'B', currency: 'GBP', amount: '4.00' },
    };
    const post = (query = '') => other.post(`transactions/exchange${query}`, body);
    expect((await post()).body.details).toMatchObject({ field: 'debit.account_code', tag: 'account_not_found' });
    for (const account_code of ['A', 'B']) await other.post('accounts', { account_code, name: account_code, type: 'asset' });
    expect((await post('?dry_run=true')).status).toBe(200);
    const systemCodes = async () =>
      (await other.get('accounts')).accounts.filter((each: any) => each.system).map((each: any) => each.account_code);
    expect(await systemCodes()).toEqual([]);
    const answers = await Promise.all(Array.from({ length: 16 }, (_, index) => post(index % 4 === 0 ? '?dry_run=true' : '')));
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(4).fill(200), ...Array(12).fill(201)]);
    expect((await systemCodes()).sort()).toEqual(['FX-POSITION-EUR', 'FX-POSITION-GBP']);
    expect((await other.get('accounts/code/FX-POSITION-EUR/balance?currency=EUR')).balance).toMatchObject({
      balance: '60.00',
      version: 12,
    });
  });

  test.each([
    [{ credit: { account_code: wallet, currency: 'USD' } }, 'credit.currency', 'same'],
    [{ credit: { ...dollars.credit, amount: '1.00' } }, 'rate', 'same'],
    [{ rate: null }, 'rate', 'required'],
    [{ debit: { account_code: wallet, currency: 'USD' } }, 'debit.amount', 'required'],
    [{ rate: { ...dollars.rate, value: '0' } }, 'rate.value', 'gt'],
    [{ rate: { ...dollars.rate, value: '1234567890123' } }, 'rate.value', 'decimal'],
    [{ rate: { ...dollars.rate, quote: 'EUR' } }, 'rate.quote', 'oneof'],
    [{ fees: [{ account_code: 'FEE-REVENUE', currency: 'EUR', amount: '1.00' }] }, 'fees[0].currency', 'oneof'],
    [{ fees: [{ account_code: 'FEE-REVENUE', currency: 'USD', amount: '100.00' }] }, 'debit.amount', 'gt'],
    [{ rounding: 'nearest' }, 'rounding', 'oneof'],
    [{ entries: [] }, 'entries', 'unknown'],
  ])('%j is refused at %s as %s', async (change, field, tag) => {
    const { status, body } = await exchange({ ...dollars, ...change });
    expect([status, body.code, body.details.field, body.details.tag]).toEqual([400, 'validation_failed', field, tag]);
  });

  test('rules blame the leg whose account they are about', async () => {
    const poor = await exchange({ ...dollars, debit: { ...dollars.debit, amount: '99999.00' } });
    expect([poor.status, poor.body.details]).toEqual([422, { field: 'debit.account_code', tag: 'insufficient_funds', value: wallet }]);
    const nobody = await exchange({ ...dollars, spread: { account_code: 'NOBODY', reference_rate: '1' } });
    expect([nobody.status, nobody.body.details.field]).toEqual([422, 'spread.account_code']);
  });
});

describe('limits of an account', () => {
  const change = (code: string, body: unknown) => cluster.rest('PATCH', customer.at(`accounts/code/${code}`), { key: customer.key, body });
  const pay = (from: string, amount: string, more: object = {}, key = customer.key) =>
    cluster.rest('POST', customer.at('transactions/double-entry'), {
      key,
      body: { entries: [line(from, 'debit', amount), line('SETTLEMENT-USD', 'credit', amount)], ...more },
    });
  const take = (to: string, amount: string) =>
    customer.post('transactions/double-entry', { entries: [line('SETTLEMENT-USD', 'debit', amount), line(to, 'credit', amount)] });
  const open = (account_code: string, more: object) =>
    customer.post('accounts', { account_code, name: account_code, type: 'liability', ...more });

  test('a credit line of 500.00 lets 500.00 pass and not a cent more', async () => {
    const { status, body } = await open('LINE', { limits: [{ currency: 'USD', min_available: '-500' }] });
    expect([status, body.data.account.limits]).toEqual([201, [{ currency: 'USD', min_available: '-500.00', max_balance: null }]]);
    expect((await pay('LINE', '500.00')).status).toBe(201);
    const refused = await pay('LINE', '0.01');
    expect([refused.status, refused.body.code, refused.body.details]).toEqual([
      422,
      'insufficient_funds',
      { field: 'entries[0].account_code', tag: 'insufficient_funds', value: 'LINE' },
    ]);
    // What does not lower it passes, also below a floor that was raised since.
    expect((await change('LINE', { limits: [{ currency: 'USD', min_available: '0' }] })).status).toBe(200);
    expect((await take('LINE', '1.00')).status).toBe(201);
    expect((await pay('LINE', '0.50')).status).toBe(422);
    expect((await change('LINE', { limits: [] })).body.data.account.limits).toEqual([]);
    expect((await pay('LINE', '0.50')).status).toBe(201);
  });

  test('a ceiling refuses what raises the balance beyond it', async () => {
    await open('CAPPED', { limits: [{ currency: 'USD', max_balance: '10.00' }] });
    expect((await take('CAPPED', '10.00')).status).toBe(201);
    const refused = await take('CAPPED', '0.01');
    expect([refused.status, refused.body.code, refused.body.details]).toEqual([
      422,
      'limit_exceeded',
      { field: 'entries[1].account_code', tag: 'max_balance', value: 'CAPPED' },
    ]);
    expect((await pay('CAPPED', '1.00')).status).toBe(201);
  });

  test('blocks and ceilings hold for a reversal too', async () => {
    await open('BACK', {});
    const deposited = (await take('BACK', '5.00')).body.data.transaction.transaction_id;
    const paid = (await pay('BACK', '5.00')).body.data.transaction.transaction_id;
    await change('BACK', { blocked: ['debit'], limits: [{ currency: 'USD', max_balance: '0' }] });
    const refused = async (of: string) => {
      const { status, body } = await customer.post(`transactions/${of}/reverse`, {});
      return [status, body.code];
    };
    expect(await refused(deposited)).toEqual([422, 'account_blocked']);
    expect(await refused(paid)).toEqual([422, 'limit_exceeded']);
  });

  test('a block refuses its side only, and an override with its scope leaves a trace', async () => {
    await open('BLOCKED', { allow_negative: false });
    expect((await take('BLOCKED', '5.00')).status).toBe(201);
    expect((await change('BLOCKED', { blocked: ['debit'] })).body.data.account.blocked).toEqual(['debit']);
    expect((await take('BLOCKED', '5.00')).status).toBe(201);
    const refused = await pay('BLOCKED', '1.00');
    expect([refused.status, refused.body.code, refused.body.details.field]).toEqual([422, 'account_blocked', 'entries[0].account_code']);
    const key = await cluster.apiKey(customer.tenant, ['transactions:write']);
    const forbidden = await pay('BLOCKED', '1.00', { override_reason: 'Charge-back 4711' }, key);
    expect([forbidden.status, forbidden.body.code]).toEqual([403, 'forbidden']);
    const overridden = await pay('BLOCKED', '20.00', { override_reason: 'Charge-back 4711' });
    expect(overridden.status).toBe(201);
    const { transaction } = overridden.body.data;
    const override = { reason: 'Charge-back 4711', broken: ['account_blocked', 'insufficient_funds'] };
    expect(transaction.origin).toEqual({ hold_id: null, template: null, schedule_id: null, occurrence: null, exchange: null, override });
    const { events } = await customer.get(`events?after_sequence=${transaction.sequence - 1}&limit=1`);
    expect(events[0].data.origin.override).toEqual(override);
  });

  test.each([
    [{ limits: [{ currency: 'USD', min_available: '1.234' }] }, 400, 'limits[0].min_available', 'decimal'],
    [{ limits: [{ currency: 'USD' }, { currency: 'USD' }] }, 400, 'limits[1].currency', 'unique'],
    [{ limits: [{ currency: 'USD', minimum: '1' }] }, 400, 'limits[0].minimum', 'unknown'],
    [{ blocked: ['both'] }, 400, 'blocked[0]', 'oneof'],
    [{ currency: 'EUR', limits: [{ currency: 'USD' }] }, 422, 'limits[0].currency', 'currency_not_allowed'],
    [{ is_group: true, blocked: ['debit'] }, 422, 'blocked', 'account_is_group'],
  ])('%j is refused with %i at %s as %s', async (more, expected, field, tag) => {
    const { status, body } = await open('NEVER', more);
    expect([status, body.details.field, body.details.tag]).toEqual([expected, field, tag]);
  });
});
