// What a lane does when its calls fail, or nobody hears whether they did.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import pg from 'pg';
import { Registry } from 'prom-client';
import { PostingSchema, ReverseTransactionRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { openLog } from '../platform/telemetry.ts';
import { createAccount } from './accounts.ts';
import type { Outcome } from './queue.ts';
import { orderOf, reversalOf } from './wire.ts';
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
  // A transaction whose reference is `slow` takes three seconds.
  await owner.query(`create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(3); return new; end $$`);
  await owner.query(
    `create trigger dawdle before insert on transactions for each row when (new.reference = 'slow') execute function dawdle()`,
  );
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

/** A writer of one lane, behind the proxy. */
function openWriter({ items = 256, patienceMs = 15_000 } = {}): { writer: Writer; metrics: Registry } {
  const url = new URL(database.serviceUrl);
  url.port = String(proxy.port);
  const connections = openPool(url.href, { name: 'writer', max: 6, logger, patienceMs });
  const bounds = { waiting: 8_000, waitingBytes: 64e6, items, entries: 2_000, bytes: 2e6 };
  const metrics = new Registry();
  const writer = new Writer({ pool: connections, lanes: 1, waiters: 4, bounds, rememberedAccounts: 1000, logger, metrics });
  writers.push({ writer, pool: connections });
  return { writer, metrics };
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

function single(tenantId: string, currency: string) {
  return orderOf(create(PostingSchema, { tenantId, entries: [{ accountCode: 'a', amount: '1.00', side: 'debit', currency }] }));
}

function reasonOf(outcome: Outcome): string {
  if ('refusal' in outcome) return outcome.refusal.reason;
  if ('held' in outcome) return 'held';
  return outcome.result.replayed ? 'replayed' : 'posted';
}

async function transactionsOf(tenantId: string): Promise<number> {
  const { rows } = await owner.query<{ n: number }>('select count(*)::int as n from transactions where tenant_id = $1', [
    toUuid('tenant', tenantId),
  ]);
  return (rows[0] as { n: number }).n;
}

/** How many batches failed, by SQLSTATE. */
async function failures(metrics: Registry): Promise<Record<string, number>> {
  const { values } = (await metrics.getSingleMetric('ledger_batch_failures_total')?.get()) ?? { values: [] };
  return Object.fromEntries(values.map(({ labels, value }) => [labels['sqlstate'], value]));
}

test('a batch that makes accounts on books that another replica has moved fails for that reason, and is run again', async () => {
  const tenant = await tenantWith('a', 'b');
  const [one, two] = [openWriter(), openWriter()];
  await one.writer.post(transfer(tenant, 'a', 'b', '1.00'));
  await two.writer.post(transfer(tenant, 'a', 'b', '1.00'));
  expect(reasonOf(await one.writer.post(single(tenant, 'EUR')))).toBe('posted');
  expect(await failures(one.metrics)).toEqual({ 40001: 1 });
});

test('single entries that need one suspense account, in many batches at once, make it once', async () => {
  const tenant = await tenantWith('a', 'b');
  const { writer, metrics } = openWriter({ items: 16 });
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  const outcomes = await Promise.all(Array.from({ length: 120 }, (_, turn) => writer.post(single(tenant, turn % 2 ? 'EUR' : 'GBP'))));
  expect(outcomes.map(reasonOf)).toEqual(outcomes.map(() => 'posted'));
  expect(await failures(metrics)).toEqual({});
});

test('a transaction that is reversed in many batches at once is reversed once', async () => {
  const tenant = await tenantWith('a', 'b');
  const { writer } = openWriter({ items: 16 });
  const transactionId = newId('txn');
  await writer.post(transfer(tenant, 'a', 'b', '1.00', { transactionId }));
  const outcomes = await Promise.all(
    Array.from({ length: 60 }, () => [
      writer.post(transfer(tenant, 'a', 'b', '1.00')),
      writer.post(reversalOf(create(ReverseTransactionRequestSchema, { tenantId: tenant, transactionId, actor: 'test', requestId: 'r' }))),
    ]).flat(),
  );
  const reasons = outcomes.map(reasonOf);
  expect(reasons.filter((reason) => reason === 'already_reversed')).toHaveLength(59);
  expect(reasons.filter((reason) => reason === 'posted')).toHaveLength(61);
});

test('keys that can not be read after the commit leave what was posted posted, and what was refused refused', async () => {
  const tenant = await tenantWith('a', 'purse');
  const { writer } = openWriter();
  await writer.post(transfer(tenant, 'a', 'purse', '1.00'));
  await writer.post(transfer(tenant, 'a', 'purse', '1.00', { idempotencyKey: 'used' }));
  let cuts = 0;
  proxy.watch = (chunk) => (chunk.includes('known_keys') && cuts++ === 0 ? 'cut' : 'pass');
  const outcomes = await Promise.all([
    writer.post(transfer(tenant, 'a', 'purse', '1.00')),
    writer.post(transfer(tenant, 'purse', 'a', '9.00')),
    writer.post(transfer(tenant, 'purse', 'a', '9.00', { idempotencyKey: 'used' })),
  ]);
  expect(cuts).toBeGreaterThan(0);
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'insufficient_funds', 'idempotency_key_reused']);
  expect(await transactionsOf(tenant)).toBe(3);
});

test('a posting whose connection is lost while the database still works on it is answered as posted, however long the head stays locked', async () => {
  const tenant = await tenantWith('a', 'b');
  const { writer } = openWriter();
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  let sent = 0;
  proxy.watch = (chunk) => {
    if (chunk.includes('write_batch') && sent++ === 0) setTimeout(() => proxy.cut(), 100);
    return 'pass';
  };
  const outcome = await writer.post(transfer(tenant, 'a', 'b', '1.00', { reference: 'slow', timeoutMs: 20_000 }));
  expect(sent).toBeGreaterThan(0);
  expect(reasonOf(outcome)).toBe('posted');
  expect(await transactionsOf(tenant)).toBe(2);
});

test('a call that reaches the database when its posting was given up has its effect, and nobody was told that it has none', async () => {
  const tenant = await tenantWith('a', 'b');
  const { writer } = openWriter({ patienceMs: 1_000 });
  const post = (timeoutMs?: number) => writer.post(transfer(tenant, 'a', 'b', '1.00', timeoutMs === undefined ? {} : { timeoutMs }));
  await post();
  // One that had to ask for the clock first, as on a busy machine, was not sent when it was given up: then another one is.
  for (let reached = false; !reached;) {
    for (let times = 0; times < 10; times++) await post();
    const before = await transactionsOf(tenant);
    proxy.hold(true);
    const outcome = await post(500);
    expect(await transactionsOf(tenant)).toBe(before);
    proxy.hold(false);
    for (const until = performance.now() + 3_000; !reached && performance.now() < until;) reached = (await transactionsOf(tenant)) > before;
    if (!reached) continue;
    const message = expect.stringContaining('a retry with the same key finds out') as string;
    expect(outcome).toEqual({ refusal: expect.objectContaining({ reason: 'unavailable', message }) as object });
  }
});
