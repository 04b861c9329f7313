import pg from 'pg';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { listBalanceHistory } from './balances.ts';
import { ledgerPlans } from './query-plans.ts';
import { listTransactions } from './reads.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

async function tenantWith(...codes: string[]): Promise<string> {
  const { tenantId } = newTenant();
  for (const accountCode of codes) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  return tenantId;
}

interface More {
  reference?: string;
  idempotencyKey?: string;
  metadata?: string;
}

async function post(tenantId: string, lines: string[], more: More = {}): Promise<Transaction> {
  const { transaction } = await ledger.client.postTransaction({ posting: { tenantId, entries: entries(...lines), ...more } });
  return transaction!;
}

/** Every page of a list, in turn. */
async function walk<Item>(read: (cursor: string) => Promise<{ items: Item[]; nextCursor: string }>): Promise<Item[]> {
  const all: Item[] = [];
  let cursor = '';
  do {
    const page = await read(cursor);
    all.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor !== '');
  return all;
}

const list = (tenantId: string, filter: object, limit = 3) =>
  walk(async (cursor) => {
    const { transactions, nextCursor } = await ledger.client.listTransactions({ tenantId, limit, cursor, ...filter });
    expect(transactions.length).toBeLessThanOrEqual(limit);
    return { items: transactions, nextCursor };
  });

test('a transaction is read as posted, with what reversed it', async () => {
  const tenantId = await tenantWith('a', 'b');
  const more = { reference: 'INV-1', idempotencyKey: 'k', metadata: '{"n":1}' };
  const posted = await post(tenantId, ['a debit 2.50 NGN', 'b credit 2.50 NGN'], more);
  const read = async () => (await ledger.client.getTransaction({ tenantId, transactionId: posted.transactionId })).transaction;
  expect(await read()).toEqual(posted);
  expect(posted).toMatchObject({ ...more, kind: 'double', status: 'posted', amount: '2.50', currency: 'NGN', sequence: 3n });
  const { transaction } = await ledger.client.reverseTransaction({ tenantId, transactionId: posted.transactionId });
  expect(await read()).toEqual({ ...posted, reversedBy: transaction?.transactionId });
  expect(transaction).toMatchObject({ kind: 'reversal', reverses: posted.transactionId });
  const again = await post(tenantId, ['a debit 2.50 NGN', 'b credit 2.50 NGN'], more);
  expect(again).toEqual({ ...posted, reversedBy: transaction?.transactionId });
});

test('a transaction of another tenant, or of none, is not found', async () => {
  const tenantId = await tenantWith('a', 'b');
  const { transactionId } = await post(tenantId, ['a debit 1.00 NGN', 'b credit 1.00 NGN']);
  for (const request of [
    { tenantId: newTenant().tenantId, transactionId },
    { tenantId, transactionId: newId('txn') },
  ]) {
    expect(await refusal(ledger.client.getTransaction(request))).toMatchObject({ reason: 'transaction_not_found', field: undefined });
  }
  expect(await refusal(ledger.client.getTransaction({ tenantId, transactionId: 'txn_1' }))).toMatchObject({ tag: 'id' });
});

test('transactions are listed newest first, of their tenant only, page by page and by key', async () => {
  const tenantId = await tenantWith('a', 'b');
  await post(await tenantWith('a', 'b'), ['a debit 1.00 NGN', 'b credit 1.00 NGN'], { idempotencyKey: 'k7' });
  const posted: Transaction[] = [];
  for (let turn = 0; turn < 9; turn++)
    posted.unshift(await post(tenantId, ['a debit 1.00 NGN', 'b credit 1.00 NGN'], { idempotencyKey: `k${turn}` }));
  expect(await list(tenantId, {})).toEqual(posted);
  expect(await list(tenantId, { idempotencyKey: 'k7' })).toEqual([posted[1]]);
  expect(await list(tenantId, { idempotencyKey: 'k7', currency: 'GBP' })).toEqual([]);
  expect((await ledger.client.listTransactions({ tenantId, limit: 9 })).nextCursor).toBe('');
});

/** How much a figure of PostgreSQL grows while `work` uses a pool. */
async function growth(figure: string, work: (pool: Pool) => Promise<void>): Promise<number> {
  const admin = new pg.Client(ledger.database.adminUrl);
  await admin.connect();
  const counted = async (query: string) => (await admin.query<{ count: number }>(query)).rows[0]!.count;
  const name = 'test of reads';
  const pool = openPool(ledger.database.serviceUrl, { name, max: 1, settings: ledgerPlans, logger: openLog('test', 'silent') });
  const before = await counted(figure);
  await work(pool);
  await pool.end();
  // Statistics of a connection are flushed at its end at the latest.
  while ((await counted(`select count(*)::int from pg_stat_activity where application_name = '${name}'`)) > 0) continue;
  const after = await counted(figure);
  await admin.end();
  return after - before;
}

test('a filter by reference and currency does not look up every balance for each transaction', async () => {
  const codes = Array.from({ length: 100 }, (_, number) => `w${number}`);
  const tenantId = await tenantWith('hot', ...codes);
  const posting = (code: string, currency: string) => ({
    tenantId,
    entries: entries(`${code} debit 1.00 ${currency}`, `hot credit 1.00 ${currency}`),
  });
  const salaries = codes.map((code) => ({ ...posting(code, 'NGN'), reference: 'salary' }));
  await ledger.client.postTransactions({ postings: [...codes.map((code) => posting(code, 'USD')), ...salaries] });
  const rowsRead = `select sum(idx_tup_read)::int as count from pg_stat_user_indexes where relname in ('balances', 'entries')`;
  const read = await growth(rowsRead, async (pool) => {
    for (const [filter, count] of [
      [{ reference: 'salary', currency: 'NGN' }, 50],
      [{ reference: 'salary', currency: 'NGN', startMs: 0n }, 50],
      [{ reference: 'salary', currency: 'USD' }, 0],
      [{ reference: 'salary', currency: 'USD', startMs: 0n }, 0],
      [{ currency: 'NGN' }, 50],
      [{ currency: 'USD' }, 50],
      [{ currency: 'EUR' }, 0],
    ] as const) {
      const { transactions } = await listTransactions(pool, toUuid('tenant', tenantId)!, filter, { limit: 50, cursor: '' });
      expect([filter, transactions.length]).toEqual([filter, count]);
    }
  });
  expect(read).toBeLessThan(2_000);
});

test('a text that contains an encoded currency is no match and makes no empty page', async () => {
  const tenantId = await tenantWith('a', 'b');
  const wanted: Transaction[] = [];
  for (const currency of ['NGN', 'USD', 'NGN', 'NGN', 'USD', 'NGN']) {
    const description = currency === 'USD' ? '' : '*\u0003USD';
    const lines = entries(`a debit 1.00 ${currency}`, `b credit 1.00 ${currency}`);
    const { transaction } = await ledger.client.postTransaction({ posting: { tenantId, entries: lines, description, reference: 'r' } });
    if (currency === 'USD') wanted.unshift(transaction!);
  }
  for (const filter of [{ currency: 'USD' }, { currency: 'USD', reference: 'r' }]) {
    for (const limit of [1, 2, 5]) expect(await list(tenantId, filter, limit)).toEqual(wanted);
    const first = await ledger.client.listTransactions({ tenantId, limit: 1, ...filter });
    const second = await ledger.client.listTransactions({ tenantId, limit: 1, ...filter, cursor: first.nextCursor });
    expect([first, second].map(({ transactions }) => transactions)).toEqual(wanted.map((each) => [each]));
    expect(second.nextCursor).toBe('');
  }
});

test('a page of thousands that match half of the filters may be empty, and its cursor goes on after them', async () => {
  const tenantId = await tenantWith('a', 'b', 'rare');
  const common = await post(tenantId, ['a debit 1.00 NGN', 'b credit 1.00 NGN'], { reference: 'common' });
  const wanted = await post(tenantId, ['rare debit 1.00 NGN', 'b credit 1.00 NGN'], { reference: 'common' });
  const owner = new pg.Client({ connectionString: ledger.database.adminUrl });
  await owner.connect();
  const copied = (columns: string, of: Transaction, [from, to]: [number, number]) =>
    owner.query(`insert into ${columns}, generate_series(${from}, ${to}) as n where tenant_id = $1 and sequence = $2`, [
      toUuid('tenant', tenantId),
      of.sequence,
    ]);
  const ofReference = `transactions select tenant_id, n, gen_random_uuid(), 'k' || n, fingerprint, reference, reverses, created_at from transactions`;
  const ofAccount = 'entries select tenant_id, account_id, currency, n, position, side, amount, balance_after from entries';
  // From the oldest: one more than the second turn examines, then what the first examines.
  await copied(ofAccount, wanted, [60_000, 64_000]);
  await copied(ofReference, common, [70_000, 70_499]);
  await owner.end();
  const page = (cursor: string) => ledger.client.listTransactions({ tenantId, cursor, reference: 'common', accountCode: 'rare' });
  const first = await page('');
  expect([first.transactions, first.nextCursor !== '']).toEqual([[], true]);
  expect(await page(first.nextCursor)).toMatchObject({ transactions: [wanted], nextCursor: '' });
});

test('with any filters, the pages contain what a scan of all transactions finds, each once, while postings go on', async () => {
  const codes = ['hot', 'often', 'apart', 'seldom', 'once'];
  const tenantId = await tenantWith('b', ...codes);
  let state = 7;
  const random = (below: number) => (state = (state * 48_271) % 2_147_483_647) % below;
  const among = <Choice>(...choices: Choice[]): Choice => choices[random(choices.length)]!;
  const posting = () => {
    const code = random(3) > 0 ? 'hot' : among('often', 'often', 'apart', 'apart', 'apart', random(40) === 0 ? 'seldom' : 'hot');
    const currency = random(5) > 0 ? 'NGN' : random(20) > 0 ? 'USD' : 'EUR';
    const reference = code === 'apart' || random(4) === 0 ? among('odd', undefined) : 'common';
    const lines = [`${code} debit 1.00 ${currency}`, `b credit 1.00 ${currency}`];
    // Two currencies at once, and a text that looks like one, now and then.
    if (random(50) === 0) lines.push('hot debit 1.00 GBP', 'b credit 1.00 GBP');
    return { tenantId, entries: entries(...lines), description: random(9) === 0 ? '*\u0003EUR' : '', ...(reference && { reference }) };
  };
  const lines = entries('once debit 1.00 NGN', 'b credit 1.00 NGN');
  await ledger.client.postTransactions({ postings: [{ tenantId, entries: lines, reference: 'common' }] });
  for (let batch = 0; batch < 8; batch++) {
    await ledger.client.postTransactions({ postings: Array.from({ length: 250 }, posting) });
  }
  const all = await list(tenantId, {}, 100);
  for (let turn = 0; turn < 30; turn++) {
    const time = () => among(undefined, undefined, among(...all).createdMs);
    const filter = {
      accountCode: among(undefined, ...codes),
      currency: among(undefined, undefined, 'NGN', 'USD', 'EUR', 'GBP'),
      reference: among(undefined, 'common', 'common', 'odd'),
      startMs: time(),
      endMs: time(),
    };
    const { accountCode, currency, reference, startMs = 0n, endMs = 2n ** 60n } = filter;
    const expected = all.filter(
      (each) =>
        each.entries.some((entry) => (!accountCode || entry.accountCode === accountCode) && (!currency || entry.currency === currency)) &&
        (!reference || each.reference === reference) &&
        each.createdMs >= startMs &&
        each.createdMs < endMs,
    );
    const limit = 30 + random(70);
    const found = await walk(async (cursor) => {
      const { transactions, nextCursor } = await ledger.client.listTransactions({ tenantId, limit, cursor, ...filter });
      if (nextCursor !== '') all.unshift((await ledger.client.postTransaction({ posting: posting() })).transaction!);
      return { items: transactions, nextCursor };
    });
    expect({ filter, places: found.map((each) => each.sequence) }).toEqual({ filter, places: expected.map((each) => each.sequence) });
  }
}, 30_000);

test('time ranges are exact to the millisecond, start inclusive and end exclusive', async () => {
  const tenantId = await tenantWith('a', 'b');
  for (let turn = 0; turn < 20; turn++) await post(tenantId, ['a debit 1.00 NGN', 'b credit 1.00 NGN']);
  // The times of the log are set in the table: some equal, some far apart.
  const owner = new pg.Client({ connectionString: ledger.database.adminUrl });
  await owner.connect();
  const first = 1_700_000_000_000;
  for (const table of ['log', 'transactions']) {
    await owner.query(`update ${table} set created_at = to_timestamp(($1::bigint + (sequence / 3) * 1001) / 1000.0) where tenant_id = $2`, [
      first,
      toUuid('tenant', tenantId),
    ]);
  }
  await owner.end();
  const all = await list(tenantId, {}, 100);
  expect(all).toHaveLength(20);
  const times = [...new Set(all.map((each) => each.createdMs))];
  expect(times.length).toBeGreaterThan(5);
  for (const time of times.flatMap((each) => [each - 1n, each, each + 1n])) {
    expect(await list(tenantId, { startMs: time })).toEqual(all.filter((each) => each.createdMs >= time));
    expect(await list(tenantId, { endMs: time })).toEqual(all.filter((each) => each.createdMs < time));
    const within = (at: bigint) => at >= time && at < time + 2002n;
    const span = { startMs: time, endMs: time + 2002n };
    expect(await list(tenantId, { ...span, accountCode: 'a' })).toEqual(all.filter((each) => within(each.createdMs)));
    const history = await ledger.client.listBalanceHistory({ tenantId, accountCode: 'b', currency: 'NGN', ...span });
    expect(history.history.map((each) => each.transactionId)).toEqual(
      all.filter((each) => within(each.createdMs)).map((each) => each.transactionId),
    );
  }
  expect(await list(tenantId, { startMs: 253_402_300_799_999n })).toEqual([]);
  expect(await list(tenantId, { endMs: 0n })).toEqual([]);
  expect(await list(newTenant().tenantId, { startMs: 0n, endMs: 1n })).toEqual([]);
  expect(await refusal(ledger.client.listTransactions({ tenantId, startMs: -1n }))).toMatchObject({ field: 'start_date', tag: 'datetime' });
});

test('a balance is signed in the account’s normal direction, and counts its postings', async () => {
  const tenantId = await tenantWith('a', 'b');
  await ledger.client.createAccount({ tenantId, accountCode: 'debt', name: 'Debt', type: 'liability', currency: 'USD' });
  await post(tenantId, ['a debit 3.00 USD', 'debt credit 3.00 USD']);
  await post(tenantId, ['a credit 5.00 USD', 'debt debit 2.00 USD', 'debt debit 3.00 USD']);
  const read = async (accountCode: string, currency = '') => (await ledger.client.getBalance({ tenantId, accountCode, currency })).balance;
  const debt = await read('debt');
  expect(debt).toMatchObject({ balance: '-2.00', debits: '5.00', credits: '3.00', available: '-2.00', version: 2n, currency: 'USD' });
  expect(debt).toMatchObject({ pendingDebits: '0.00', pendingCredits: '0.00', accountCode: 'debt' });
  expect(await read('debt', 'USD')).toEqual(debt);
  expect(await read('a', 'USD')).toMatchObject({ balance: '-2.00', debits: '3.00', credits: '5.00', version: 2n });
  const never = await read('b', 'GBP');
  expect(never).toMatchObject({ balance: '0.00', debits: '0.00', credits: '0.00', available: '0.00', version: 0n, currency: 'GBP' });
  expect(never?.updatedMs).toBeUndefined();
  const { transactions } = await ledger.client.listTransactions({ tenantId });
  expect(debt?.updatedMs).toBe(transactions[0]?.createdMs);
});

test('a balance that no account can have is refused', async () => {
  const tenantId = await tenantWith('a');
  await ledger.client.createAccount({ tenantId, accountCode: 'group', name: 'Group', type: 'asset', isGroup: true });
  await ledger.client.createAccount({ tenantId, accountCode: 'pounds', name: 'Pounds', type: 'asset', currency: 'GBP' });
  const currency = 'NGN';
  const asks = [
    [
      { accountCode: 'nobody', currency },
      { reason: 'account_not_found', field: undefined },
    ],
    [
      { accountCode: '?', currency },
      { reason: 'account_not_found', field: undefined },
    ],
    [
      { accountCode: 'group', currency },
      { reason: 'account_is_group', field: 'account_code' },
    ],
    [{ accountCode: 'a' }, { reason: 'validation_failed', field: 'currency', tag: 'required' }],
    [
      { accountCode: 'a', currency: 'ngn' },
      { reason: 'validation_failed', field: 'currency', tag: 'oneof' },
    ],
    [
      { accountCode: 'pounds', currency },
      { reason: 'currency_not_allowed', field: 'currency', value: 'NGN' },
    ],
  ] as const;
  for (const [ask, refused] of asks) {
    expect(await refusal(ledger.client.getBalance({ tenantId, ...ask }))).toMatchObject(refused);
    expect(await refusal(ledger.client.listBalanceHistory({ tenantId, ...ask }))).toMatchObject(refused);
  }
});

test('the history of a balance is its entries, newest first, each with the balance after it', async () => {
  const tenantId = await tenantWith('a', 'b');
  const posted: Transaction[] = [];
  for (let turn = 1; turn <= 5; turn++) {
    posted.push(await post(tenantId, [`a debit ${turn}.00 NGN`, 'a credit 0.50 NGN', `b credit ${turn}.00 NGN`, 'b debit 0.50 NGN']));
    await post(tenantId, ['a debit 1.00 USD', 'b credit 1.00 USD']);
  }
  const expected = posted
    .flatMap((transaction) =>
      transaction.entries
        .filter((entry) => entry.accountCode === 'a')
        .map(({ side, amount, balanceAfter }) => {
          const { transactionId, sequence, createdMs } = transaction;
          return { transactionId, sequence, side, amount, balanceAfter, createdMs };
        }),
    )
    .reverse();
  const history = await walk(async (cursor) => {
    const page = await ledger.client.listBalanceHistory({ tenantId, accountCode: 'a', currency: 'NGN', limit: 3, cursor });
    return { items: page.history, nextCursor: page.nextCursor };
  });
  expect(history).toMatchObject(expected);
  expect(history).toHaveLength(10);
  expect(history[0]?.balanceAfter).toBe('12.50');
});

test('a page of history reads no more entries than it shows', async () => {
  const tenantId = await tenantWith('a', 'b');
  const postings = Array.from({ length: 1000 }, () => ({ tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') }));
  await ledger.client.postTransactions({ postings });
  const entriesRead = `select idx_tup_fetch::int as count from pg_stat_user_tables where relname = 'entries'`;
  const pages = 40;
  const read = await growth(entriesRead, async (pool) => {
    let cursor = '';
    for (let page = 0; page < pages; page++)
      cursor = (await listBalanceHistory(pool, toUuid('tenant', tenantId)!, 'a', 'NGN', {}, { limit: 20, cursor })).nextCursor;
  });
  expect(read).toBeGreaterThan(20 * pages);
  expect(read).toBeLessThan(30 * pages);
});

test('the log is read oldest first in one chain, from any position', async () => {
  const tenantId = await tenantWith('a', 'b');
  for (let turn = 0; turn < 5; turn++) await post(tenantId, ['a debit 1.00 NGN', 'b credit 1.00 NGN']);
  const { events, hasMore } = await ledger.client.listEvents({ tenantId });
  expect(hasMore).toBe(false);
  expect(events.map((event) => event.sequence)).toEqual([1n, 2n, 3n, 4n, 5n, 6n, 7n]);
  expect(Buffer.from(events[0]?.previousHash ?? []).toString('hex')).toBe('0'.repeat(64));
  for (let place = 1; place < events.length; place++) expect(events[place]?.previousHash).toEqual(events[place - 1]?.hash);
  for (let after = 0n; after <= 8n; after++) {
    const page = await ledger.client.listEvents({ tenantId, afterSequence: after, limit: 3 });
    expect(page.events).toEqual(events.slice(Number(after), Number(after) + 3));
    expect(page.hasMore).toBe(after + 3n < 7n);
  }
  expect(await refusal(ledger.client.listEvents({ tenantId, afterSequence: -1n }))).toMatchObject({ field: 'after_sequence', tag: 'min' });
  expect((await ledger.client.listEvents({ tenantId: newTenant().tenantId })).events).toEqual([]);
});

test('transactions are found by when they count, also those recorded at another time, next to other filters', async () => {
  const tenantId = await tenantWith('A', 'B', 'C');
  const day = 86_400_000;
  const startMs = Date.now();
  const all: Transaction[] = [];
  for (let number = 0; number < 40; number++) {
    const other = number % 3 === 0 ? 'C' : 'B';
    const effectiveMs = number % 2 === 0 ? undefined : BigInt(startMs - ((number * 7) % 11) * day);
    const posting = {
      tenantId,
      entries: entries('A debit 1.00 NGN', `${other} credit 1.00 NGN`),
      ...(effectiveMs !== undefined && { effectiveMs }),
    };
    all.unshift((await ledger.client.postTransaction({ posting })).transaction!);
  }
  const countsAt = ({ createdMs, effectiveMs }: Transaction) => Number(effectiveMs ?? createdMs);
  const middle = Number(all[20]!.createdMs);
  const ranges = [
    { effectiveFromMs: startMs - 5 * day },
    { effectiveToMs: startMs - 5 * day },
    { effectiveFromMs: startMs - 8 * day, effectiveToMs: startMs - 2 * day },
    { effectiveFromMs: startMs, effectiveToMs: middle },
    { effectiveToMs: -1 },
  ];
  for (const { effectiveFromMs: from = -Infinity, effectiveToMs: to = Infinity } of ranges) {
    for (const accountCode of [undefined, 'C']) {
      const request = {
        tenantId,
        limit: 3,
        ...(accountCode && { accountCode }),
        ...(Number.isFinite(from) && { effectiveFromMs: BigInt(from) }),
        ...(Number.isFinite(to) && { effectiveToMs: BigInt(to) }),
      };
      const found = await walk(async (cursor) => {
        const { transactions, nextCursor } = await ledger.client.listTransactions({ ...request, cursor });
        return { items: transactions, nextCursor };
      });
      const expected = all.filter(
        (each) =>
          countsAt(each) >= from &&
          countsAt(each) <= to &&
          (!accountCode || each.entries.some((entry) => entry.accountCode === accountCode)),
      );
      expect(found.map(({ sequence }) => sequence)).toEqual(expected.map(({ sequence }) => sequence));
    }
  }
  const reversed = { tenantId, effectiveFromMs: BigInt(startMs), effectiveToMs: BigInt(startMs - 1) };
  expect(await refusal(ledger.client.listTransactions(reversed))).toMatchObject({ field: 'effective_from', tag: 'oneof' });
});
