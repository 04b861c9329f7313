import { readdirSync, readFileSync } from 'node:fs';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import pg from 'pg';
import { Registry } from 'prom-client';
import { PostingSchema, type Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { createAccount, updateAccount } from './accounts.ts';
import type { Outcome } from './queue.ts';
import { orderOf } from './wire.ts';
import { Writer } from './writer.ts';

const logger = openLog('test', 'silent');
const by = { actor: 'test', requestId: 'test' };
let database: FreshDatabase;
let owner: pg.Client;
let pool: Pool;
let proxy: Proxy;
const writers: { writer: Writer; pool: Pool }[] = [];

beforeAll(async () => {
  database = await freshDatabase('ledger', { migrated: true });
  owner = new pg.Client({ connectionString: database.adminUrl });
  await owner.connect();
  pool = openPool(database.serviceUrl, { name: 'test', max: 4, logger });
  proxy = await openProxy(Number(new URL(database.serviceUrl).port));
});

afterEach(() => {
  proxy.watch = () => 'pass';
});

afterAll(async () => {
  for (const each of writers) {
    await each.writer.close();
    await each.pool.end();
  }
  await proxy.close();
  await pool.end();
  await owner.end();
  await database.drop();
});

/** A writer as each replica has one. */
function openWriter({ proxied = false, lanes = 2, waiting = 8_000 } = {}): Writer {
  const url = new URL(database.serviceUrl);
  if (proxied) url.port = String(proxy.port);
  const connections = openPool(url.href, { name: 'writer', max: 2 * lanes + 4, logger });
  const bounds = { waiting, waitingBytes: 64e6, items: 256, entries: 2_000, bytes: 2e6 };
  const metrics = new Registry();
  const writer = new Writer({ pool: connections, lanes, waiters: 4, bounds, rememberedAccounts: 1000, logger, metrics });
  writers.push({ writer, pool: connections });
  return writer;
}

async function tenantWith(...codes: string[]): Promise<string> {
  const id = newId('tenant');
  for (const code of codes) {
    const rest = { normalBalance: null, currency: null, parentCode: null, isGroup: false, description: undefined, metadata: '{}' };
    const account = { code, name: code, type: 'asset' as const, allowNegative: !code.startsWith('purse'), ...rest };
    await createAccount(pool, toUuid('tenant', id) as string, account, by);
  }
  return id;
}

function transfer(tenantId: string, from: string, to: string, amount: string, more: MessageInitShape<typeof PostingSchema> = {}) {
  const entries = [
    { accountCode: to, amount, side: 'debit', currency: 'NGN' },
    { accountCode: from, amount, side: 'credit', currency: 'NGN' },
  ];
  return orderOf(create(PostingSchema, { tenantId, entries, actor: 'test', requestId: 'r', ...more }));
}

function posted(outcome: Outcome): { transaction: Transaction; replayed: boolean } {
  if ('refusal' in outcome) throw outcome.refusal;
  if ('held' in outcome) throw new Error('handed back');
  return { transaction: outcome.result.outcome.value as Transaction, replayed: outcome.result.replayed };
}

function reasonOf(outcome: Outcome): string {
  if ('refusal' in outcome) return outcome.refusal.reason;
  if ('held' in outcome) return 'held';
  return outcome.result.replayed ? 'replayed' : 'posted';
}

function tally(outcomes: Outcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[reasonOf(outcome)] = (counts[reasonOf(outcome)] ?? 0) + 1;
  return counts;
}

async function balance(tenantId: string, code: string): Promise<string> {
  const { rows } = await owner.query<{ net: string }>(
    `select coalesce(sum(debits - credits), 0)::text as net from accounts a join balances b on b.tenant_id = a.tenant_id and b.account_id = a.id
     where a.tenant_id = $1 and a.code = $2`,
    [toUuid('tenant', tenantId), code],
  );
  return (rows[0] as { net: string }).net;
}

async function transactionsOf(tenantId: string): Promise<number> {
  const { rows } = await owner.query<{ n: number }>('select count(*)::int as n from transactions where tenant_id = $1', [
    toUuid('tenant', tenantId),
  ]);
  return (rows[0] as { n: number }).n;
}

test('the same posting sent many times at once to two replicas moves the amount once', async () => {
  const tenant = await tenantWith('a', 'b');
  const replicas = [openWriter(), openWriter()];
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, (_, turn) =>
      (replicas[turn % 2] as Writer).post(transfer(tenant, 'a', 'b', '10.00', { idempotencyKey: 'once', metadata: '{"x":1,"y":2}' })),
    ),
  );
  expect(tally(outcomes)).toEqual({ posted: 1, replayed: 39 });
  expect(new Set(outcomes.map((outcome) => posted(outcome).transaction.transactionId)).size).toBe(1);
  expect(await balance(tenant, 'b')).toBe('1000');
});

test('different postings under one key at once: one is posted, the others are refused', async () => {
  const tenant = await tenantWith('a', 'b');
  const replicas = [openWriter(), openWriter()];
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, turn) =>
      (replicas[turn % 2] as Writer).post(transfer(tenant, 'a', 'b', `${turn + 1}.00`, { idempotencyKey: 'contested' })),
    ),
  );
  expect(tally(outcomes)).toEqual({ posted: 1, idempotency_key_reused: 19 });
  expect(await transactionsOf(tenant)).toBe(1);
});

test('metadata with its keys in another order is the same request, another description is not', async () => {
  const tenant = await tenantWith('a', 'b');
  const writer = openWriter();
  const send = (more: MessageInitShape<typeof PostingSchema>) =>
    writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'same', ...more }));
  const outcomes = [
    await send({ metadata: '{"a":{"x":1,"y":[1,2]},"b":"c"}' }),
    await send({ metadata: '{"b":"c","a":{"y":[1,2],"x":1.0}}' }),
    await send({ metadata: '{"b":"c","a":{"y":[2,1],"x":1}}' }),
    await send({ metadata: '{"a":{"x":1,"y":[1,2]},"b":"c"}', description: 'other' }),
  ];
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'replayed', 'idempotency_key_reused', 'idempotency_key_reused']);
});

test('two hundred crossing postings over two replicas meet no deadlock, and the sums are exact', async () => {
  const [first, second] = [await tenantWith('a', 'b'), await tenantWith('a', 'b')];
  const replicas = [openWriter(), openWriter()];
  const outcomes = await Promise.all(
    Array.from({ length: 400 }, (_, turn) => {
      const [from, to] = turn % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
      const tenant = turn % 4 < 2 ? first : second;
      return (replicas[turn % 3 === 0 ? 0 : 1] as Writer).post(transfer(tenant, from, to, turn % 2 === 0 ? '3.00' : '1.00'));
    }),
  );
  expect(tally(outcomes)).toEqual({ posted: 400 });
  for (const tenant of [first, second]) {
    expect(await balance(tenant, 'b')).toBe('20000');
    expect(await balance(tenant, 'a')).toBe('-20000');
  }
});

test('refusals in the middle of a batch leave their neighbours alone', async () => {
  const tenant = await tenantWith('a', 'b', 'purse');
  const writer = openWriter();
  const orders = [
    transfer(tenant, 'a', 'purse', '5.00'),
    transfer(tenant, 'purse', 'b', '9.00'),
    transfer(tenant, 'a', 'nobody', '1.00'),
    transfer(tenant, 'purse', 'b', '5.00'),
    transfer(tenant, 'purse', 'b', '0.01'),
  ];
  const outcomes = await Promise.all(orders.map((order) => writer.post(order)));
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'insufficient_funds', 'account_not_found', 'posted', 'insufficient_funds']);
  expect(await balance(tenant, 'purse')).toBe('0');
});

test('a posting that the database itself refuses costs the other forty-nine nothing', async () => {
  await owner.query(`alter table transactions add constraint injected check (reference is distinct from 'poison')`);
  try {
    const tenants = await Promise.all(Array.from({ length: 50 }, () => tenantWith('a', 'b')));
    const writer = openWriter({ lanes: 1 });
    const outcomes = await Promise.all(
      tenants.map((tenant, place) => writer.post(transfer(tenant, 'a', 'b', '1.00', place === 23 ? { reference: 'poison' } : {}))),
    );
    expect(tally(outcomes)).toEqual({ posted: 49, internal: 1 });
    expect(reasonOf(outcomes[23] as Outcome)).toBe('internal');
  } finally {
    await owner.query('alter table transactions drop constraint injected');
  }
});

// The first batch of a tenant is locked and committed in steps, the next ones are one call.
const commits = ['commit\0', 'write_batch\0'].flatMap((last) =>
  (['cut', 'cut after'] as const).map((how) => ({ last, how, name: last.slice(0, -1) })),
);
test.each(commits)(
  'a connection lost at the commit ($name, $how) has one effect and is answered as posted',
  async ({ last, name, how }) => {
    const tenant = await tenantWith('a', 'b');
    const writer = openWriter({ proxied: true });
    if (last !== 'commit\0') await writer.post(transfer(tenant, 'b', 'a', '1.00'));
    let cuts = 0;
    proxy.watch = (chunk) => (chunk.includes(last) && cuts++ === 0 ? how : 'pass');
    const orders = [transfer(tenant, 'a', 'b', '2.00'), transfer(tenant, 'a', 'b', '4.00', { idempotencyKey: `key ${name} ${how}` })];
    const outcomes = await Promise.all(orders.map((order) => writer.post(order)));
    expect(cuts).toBeGreaterThan(0);
    expect(tally(outcomes)).toEqual({ posted: 2 });
    expect(await balance(tenant, 'b')).toBe(last === 'commit\0' ? '600' : '500');
  },
);

test('a key that comes again on remembered books is found, and fails none of its neighbours', async () => {
  const tenant = await tenantWith('a', 'b');
  const writer = openWriter({ lanes: 1 });
  const first = posted(await writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'once' })));
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  const again = ['1.00', '1.00', '9.00', '1.00'].map((amount, place) =>
    writer.post(transfer(tenant, 'a', 'b', amount, place === 0 ? {} : { idempotencyKey: 'once' })),
  );
  const outcomes = await Promise.all(again);
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'replayed', 'idempotency_key_reused', 'replayed']);
  expect(posted(outcomes[1] as Outcome).transaction).toEqual(first.transaction);
  expect(await balance(tenant, 'b')).toBe('300');
});

test('a head held by another session makes its tenant wait or be told, and nobody else', async () => {
  const [held, free] = [await tenantWith('a', 'b'), await tenantWith('a', 'b')];
  const writer = openWriter();
  await owner.query('begin');
  await owner.query('select from heads where tenant_id = $1 for update', [toUuid('tenant', held)]);
  const stuck = writer.post(transfer(held, 'a', 'b', '1.00'));
  const others = await Promise.all(Array.from({ length: 20 }, () => writer.post(transfer(free, 'a', 'b', '1.00'))));
  expect(tally(others)).toEqual({ posted: 20 });
  expect(reasonOf(await writer.post(transfer(held, 'a', 'b', '1.00'), { handBack: true }))).toBe('held');
  expect(reasonOf(await stuck)).toBe('unavailable');
  expect(reasonOf(await writer.post(transfer(held, 'a', 'b', '1.00'), { handBack: true }))).toBe('held');
  const waiting = writer.post(transfer(held, 'a', 'b', '1.00'));
  await owner.query('commit');
  expect(reasonOf(await waiting)).toBe('posted');
  expect(await transactionsOf(held)).toBe(1);
});

test('the largest legal posting is posted: 200 entries and full metadata', async () => {
  const tenant = await tenantWith('a', 'b');
  const entries = Array.from({ length: 200 }, (_, place) => ({
    accountCode: place % 2 === 0 ? 'a' : 'b',
    amount: '9999999999999.99',
    side: place % 2 === 0 ? 'debit' : 'credit',
    currency: 'NGN',
  }));
  const metadata = JSON.stringify({ note: 'n'.repeat(16_384 - 11) });
  const description = 'd'.repeat(1000);
  const order = orderOf(create(PostingSchema, { tenantId: tenant, entries, metadata, description, reference: 'r'.repeat(255) }));
  const { transaction } = posted(await openWriter().post(order));
  expect(transaction.entries).toHaveLength(200);
  expect(transaction.metadata).toBe(metadata);
  expect(transaction.amount).toBe('999999999999999.00');
});

test('a single entry in a currency of a tenant without a chart makes its suspense account, as an event of its own', async () => {
  const tenant = await tenantWith('a');
  const entries = [{ accountCode: 'a', amount: '7.00', side: 'debit', currency: 'EUR' }];
  const order = orderOf(create(PostingSchema, { tenantId: tenant, entries }));
  const { transaction } = posted(await openWriter().post(order));
  expect(transaction.sequence).toBe(3n);
  expect(transaction.entries.map((entry) => [entry.accountCode, entry.side, entry.counter])).toEqual([
    ['a', 'debit', false],
    ['SUSPENSE-EUR', 'credit', true],
  ]);
});

test('a refused first single entry makes no suspense account', async () => {
  const tenant = await tenantWith('purse');
  const entries = [{ accountCode: 'purse', amount: '7.00', side: 'credit', currency: 'GBP' }];
  expect(reasonOf(await openWriter().post(orderOf(create(PostingSchema, { tenantId: tenant, entries }))))).toBe('insufficient_funds');
  const { rows } = await owner.query('select from accounts where tenant_id = $1', [toUuid('tenant', tenant)]);
  expect(rows).toHaveLength(1);
});

test('a posting to a tenant that has no books is refused and makes none', async () => {
  const tenant = newId('tenant');
  expect(reasonOf(await openWriter().post(transfer(tenant, 'a', 'b', '1.00')))).toBe('account_not_found');
  const { rows } = await owner.query('select from heads where tenant_id = $1', [toUuid('tenant', tenant)]);
  expect(rows).toHaveLength(0);
});

test('two replicas that post to one tenant in turn see each other’s balances', async () => {
  const tenant = await tenantWith('a', 'purse');
  const [one, two] = [openWriter(), openWriter()];
  for (let turn = 0; turn < 5; turn++) {
    expect(reasonOf(await one.post(transfer(tenant, 'a', 'purse', '1.00')))).toBe('posted');
    expect(reasonOf(await two.post(transfer(tenant, 'purse', 'a', '1.00')))).toBe('posted');
    expect(reasonOf(await two.post(transfer(tenant, 'purse', 'a', '1.00')))).toBe('insufficient_funds');
  }
});

test('books that were mended under the head are read anew, not written over by what is remembered', async () => {
  const tenant = await tenantWith('a', 'purse');
  const writer = openWriter();
  posted(await writer.post(transfer(tenant, 'a', 'purse', '1.00')));
  await owner.query(
    `with mended as (update balances set debits = debits + 500, credits = credits + 500 where tenant_id = $1)
     update heads set rebuilt = rebuilt + 1 where tenant_id = $1`,
    [toUuid('tenant', tenant)],
  );
  const { transaction } = posted(await writer.post(transfer(tenant, 'purse', 'a', '1.00')));
  expect(transaction.entries.map((entry) => entry.balanceAfter)).toEqual(['0.00', '0.00']);
  const { rows } = await owner.query('select debits::int, credits::int from balances where tenant_id = $1', [toUuid('tenant', tenant)]);
  expect(rows).toEqual([
    { debits: 600, credits: 600 },
    { debits: 600, credits: 600 },
  ]);
});

test('an account closed by another replica takes no further posting', async () => {
  const tenant = await tenantWith('a', 'b', 'c');
  const writer = openWriter();
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  await updateAccount(pool, toUuid('tenant', tenant) as string, 'c', { status: 'closed' }, by);
  expect(reasonOf(await writer.post(transfer(tenant, 'a', 'c', '1.00')))).toBe('account_closed');
});

test('a transaction id used again under another key is refused, with the same request it is the same posting', async () => {
  const tenant = await tenantWith('a', 'b');
  const writer = openWriter();
  const transactionId = newId('txn');
  const send = (more: MessageInitShape<typeof PostingSchema>) =>
    writer.post(transfer(tenant, 'a', 'b', '1.00', { transactionId, ...more }));
  const outcomes = [await send({}), await send({}), await send({ retry: true }), await send({ idempotencyKey: 'another' })];
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'replayed', 'posted', 'idempotency_key_reused']);
  expect(await transactionsOf(tenant)).toBe(1);
});

test('a full queue sheds the tenant that has most waiting', async () => {
  const [greedy, modest] = [await tenantWith('a', 'b'), await tenantWith('a', 'b')];
  const writer = openWriter({ waiting: 100 });
  const flood = Promise.all(Array.from({ length: 300 }, () => writer.post(transfer(greedy, 'a', 'b', '1.00'))));
  const others = Promise.all(Array.from({ length: 40 }, () => writer.post(transfer(modest, 'a', 'b', '1.00'))));
  expect(tally(await others)).toEqual({ posted: 40 });
  const { posted: through = 0, overloaded = 0 } = tally(await flood);
  expect(overloaded).toBeGreaterThan(0);
  expect(through + overloaded).toBe(300);
  expect(await transactionsOf(greedy)).toBe(through);
});

test('a posting for which the database’s disk has no room is told so at once, and is posted when there is some', async () => {
  const tenant = await tenantWith('a', 'b');
  const writer = openWriter();
  // The first batch of a tenant is locked and committed in steps, the next ones are one call.
  for (const idempotencyKey of ['the first', 'the next']) {
    await owner.query(`create function full_disk() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
      create trigger full_disk before insert on transactions for each row execute function full_disk()`);
    try {
      // A minute: it is not waited for.
      const outcome = await writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey, timeoutMs: 60_000 }));
      expect(outcome).toMatchObject({ refusal: { reason: 'unavailable', message: expect.stringContaining('no room') } });
      expect(writer.foundNoRoom).toBe(true);
    } finally {
      await owner.query('drop function full_disk cascade');
    }
    expect(reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey })))).toBe('posted');
  }
  expect(await balance(tenant, 'b')).toBe('200');
});

test('what nobody waits for any more is not begun', async () => {
  const tenant = await tenantWith('a', 'b');
  const writer = openWriter();
  const gone = new AbortController();
  gone.abort();
  expect(reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00'), { signal: gone.signal }))).toBe('unavailable');
  expect(await transactionsOf(tenant)).toBe(0);
});

test('the head is the only explicit lock in the SQL of the ledger’s write path', () => {
  // The relay's: no posting waits for them longer than one statement takes.
  const others = ['claims.ts', 'letters.ts'];
  const files = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter(
    (file) => /(?<!\.test)\.ts$/.test(file) && !others.includes(file),
  );
  const locks = files.flatMap((file) => {
    const text = readFileSync(`${import.meta.dirname}/${file}`, 'utf8').replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
    return [...text.matchAll(/.*(for\s+(no\s+key\s+)?update|for\s+(key\s+)?share|advisory|lock\s+table).*/gi)].map((match) =>
      match[0].trim(),
    );
  });
  expect(locks.length).toBeGreaterThan(0);
  for (const lock of locks) expect(lock).toMatch(/(\$\{selectHead\}|from heads) where tenant_id/);
});

test('a repetition that the rules would refuse by now is still the repetition of what was posted', async () => {
  const tenant = await tenantWith('a', 'purse');
  const writer = openWriter({ lanes: 1 });
  posted(await writer.post(transfer(tenant, 'a', 'purse', '1.00')));
  const spend = (amount: string, idempotencyKey: string) => writer.post(transfer(tenant, 'purse', 'a', amount, { idempotencyKey }));
  const first = posted(await spend('1.00', 'spent'));
  const outcomes = [await spend('1.00', 'spent'), await spend('2.00', 'spent'), await spend('1.00', 'more')];
  expect(outcomes.map(reasonOf)).toEqual(['replayed', 'idempotency_key_reused', 'insufficient_funds']);
  expect(posted(outcomes[0]!).transaction).toEqual(first.transaction);
  expect(await transactionsOf(tenant)).toBe(2);
});
