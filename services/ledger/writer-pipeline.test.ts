// What a lane does when its calls fail, or nobody hears whether they did.
import { create } from '@bufbuild/protobuf';
import { Code, createClient, createRouterTransport } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { LedgerService, PostingSchema, ReverseTransactionRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { failures, openWriters, reasonOf, transfer, type WriterOptions, type Writers } from '../../test/writers.ts';
import { newId } from '../platform/ids.ts';
import type { Outcome } from './queue.ts';
import { ledgerRoutes } from './rpc.ts';
import { validatePosting, validateReversal, type ValidatedPosting } from './mapping.ts';
import type { Writer } from './writer.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
  // A transaction whose reference is `slow` takes three seconds.
  await writers.owner.query(
    `create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(3); return new; end $$`,
  );
  await writers.owner.query(
    `create trigger dawdle before insert on transactions for each row when (new.reference = 'slow') execute function dawdle()`,
  );
});

afterEach(() => {
  writers.proxy.watch = () => 'pass';
});

afterAll(() => writers.end());

/** A writer of one lane, behind the proxy. */
function openLane(options: WriterOptions = {}): { writer: Writer; metrics: Registry } {
  const metrics = new Registry();
  return { writer: writers.open({ proxied: true, pipelines: 1, metrics, ...options }), metrics };
}

function single(tenantId: string, currency: string) {
  return validatePosting(create(PostingSchema, { tenantId, entries: [{ accountCode: 'a', amount: '1.00', side: 'debit', currency }] }));
}

test('a batch that makes accounts on books that another replica has moved fails for that reason, and is run again', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const [one, two] = [openLane(), openLane()];
  await one.writer.post(transfer(tenant, 'a', 'b', '1.00'));
  await two.writer.post(transfer(tenant, 'a', 'b', '1.00'));
  expect(reasonOf(await one.writer.post(single(tenant, 'EUR')))).toBe('posted');
  expect(await failures(one.metrics)).toEqual({ 40001: 1 });
});

test('single entries that need one suspense account, in many batches at once, make it once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const { writer, metrics } = openLane({ items: 16 });
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  const outcomes = await Promise.all(Array.from({ length: 120 }, (_, turn) => writer.post(single(tenant, turn % 2 ? 'EUR' : 'GBP'))));
  expect(outcomes.map(reasonOf)).toEqual(outcomes.map(() => 'posted'));
  expect(await failures(metrics)).toEqual({});
});

test('a key that was used before and comes again in two batches, one begun behind the other, is found by both and fails neither', async () => {
  const tenant = await writers.tenantWith('a', 'b', 'c');
  const used = () => transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'used' });
  const { writer, metrics } = openLane({ items: 16 });
  await writer.post(used());
  // Until it knows the time well enough to decide without reading.
  for (let turn = 0; turn < 20; turn++) await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  // The first lacks an account, and so reads the key as well; the second has all it needs, and goes by what the first has read.
  const batch = (credit: string) => [used(), ...Array.from({ length: 15 }, () => transfer(tenant, 'a', credit, '1.00'))];
  const outcomes = await Promise.all([...batch('c'), ...batch('b')].map((order) => writer.post(order)));
  expect(outcomes.map(reasonOf)).toEqual(outcomes.map((_, place) => (place % 16 === 0 ? 'replayed' : 'posted')));
  expect(await failures(metrics)).toEqual({});
});

test('a transaction that is reversed in many batches at once is reversed once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const { writer } = openLane({ items: 16 });
  const transactionId = newId('txn');
  await writer.post(transfer(tenant, 'a', 'b', '1.00', { transactionId }));
  const outcomes = await Promise.all(
    Array.from({ length: 60 }, () => [
      writer.post(transfer(tenant, 'a', 'b', '1.00')),
      writer.post(
        validateReversal(create(ReverseTransactionRequestSchema, { tenantId: tenant, transactionId, actor: 'test', requestId: 'r' })),
      ),
    ]).flat(),
  );
  const reasons = outcomes.map(reasonOf);
  expect(reasons.filter((reason) => reason === 'already_reversed')).toHaveLength(59);
  expect(reasons.filter((reason) => reason === 'posted')).toHaveLength(61);
});

test('keys that can not be read after the commit leave what was posted posted, and what was refused refused', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const { writer } = openLane();
  await writer.post(transfer(tenant, 'a', 'purse', '1.00'));
  await writer.post(transfer(tenant, 'a', 'purse', '1.00', { idempotencyKey: 'used' }));
  let cuts = 0;
  writers.proxy.watch = (chunk) => (chunk.includes('known_keys') && cuts++ === 0 ? 'cut' : 'pass');
  const outcomes = await Promise.all([
    writer.post(transfer(tenant, 'a', 'purse', '1.00')),
    writer.post(transfer(tenant, 'purse', 'a', '9.00')),
    writer.post(transfer(tenant, 'purse', 'a', '9.00', { idempotencyKey: 'used' })),
  ]);
  expect(cuts).toBeGreaterThan(0);
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'insufficient_funds', 'idempotency_key_reused']);
  expect(await writers.transactionsOf(tenant)).toBe(3);
});

test('a posting that was refused, and is posted elsewhere before its id is looked up, was not posted under another key', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const [{ writer }, other] = [openLane(), writers.open()];
  for (const [from, to] of [
    ['a', 'purse'],
    ['purse', 'a'],
  ] as const) {
    await writer.post(transfer(tenant, from, to, '1.00'));
  }
  const asked = Promise.withResolvers<void>();
  writers.proxy.watch = (chunk) => {
    if (!chunk.includes('keys_of_ids')) return 'pass';
    asked.resolve();
    return 'hold';
  };
  const order = transfer(tenant, 'purse', 'a', '1.00');
  const outcome = writer.post(order);
  await asked.promise;
  await other.post(transfer(tenant, 'a', 'purse', '1.00'));
  expect(reasonOf(await other.post(order))).toBe('posted');
  writers.proxy.watch = () => 'pass';
  writers.proxy.hold(false);
  expect(reasonOf(await outcome)).toBe('insufficient_funds');
});

test('ids of what is posted are not looked up', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  let asked = 0;
  writers.proxy.watch = (chunk) => {
    if (chunk.includes('keys_of_ids')) asked++;
    return 'pass';
  };
  for (const { writer } of [openLane(), openLane({ maxCachedAccounts: 0 })]) {
    for (let turn = 0; turn < 3; turn++) expect(reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00')))).toBe('posted');
    expect(asked).toBe(0);
  }
});

test('a batch whose connection is lost waits for no other that may be lost as well', async () => {
  const [tenant, other] = [await writers.tenantWith('a', 'b'), await writers.tenantWith('a', 'b', 'c')];
  const patienceMs = 8_000;
  const { writer } = openLane({ patienceMs });
  // Under locks, then after a look at the clock, then at once.
  for (let turn = 0; turn < 3; turn++) for (const each of [tenant, other]) await writer.post(transfer(each, 'a', 'b', '1.00'));
  // Each counts from when the one before was seen: where the clock was heard too long ago the first posting reads, too, before it writes.
  const steps = ['write_batch', 'known_keys', 'lock_head'].map((name) => ({ name, at: 0, ...Promise.withResolvers<void>() }));
  const [sent, read, locked] = steps as [(typeof steps)[0], (typeof steps)[0], (typeof steps)[0]];
  writers.proxy.watch = (chunk) => {
    const next = steps.find(({ at }) => at === 0);
    if (!next || !chunk.includes(next.name)) return 'pass';
    next.at = performance.now();
    next.resolve();
    return next === locked ? 'pass' : 'hold';
  };
  const first = writer.post(transfer(tenant, 'a', 'b', '1.00'));
  await sent.promise;
  await new Promise((done) => setTimeout(done, patienceMs / 2));
  // So many that they are not left to wait for the first; their account has to be read.
  const others = Array.from({ length: 64 }, () => writer.post(transfer(other, 'a', 'c', '1.00')));
  for (const outcome of await Promise.all([first, ...others])) expect(reasonOf(outcome)).toBe('posted');
  expect(locked.at).toBeGreaterThan(read.at);
  expect(read.at).toBeGreaterThan(0);
  // Before it could be known that nothing is read.
  expect(locked.at - read.at).toBeLessThan(patienceMs);
});

test('a posting whose connection is lost while the database still works on it is answered as posted, however long the head stays locked', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const { writer } = openLane();
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  let sent = 0;
  writers.proxy.watch = (chunk) => {
    if (chunk.includes('write_batch') && sent++ === 0) setTimeout(() => writers.proxy.cut(), 100);
    return 'pass';
  };
  const outcome = await writer.post(transfer(tenant, 'a', 'b', '1.00', { reference: 'slow', timeoutMs: 20_000 }));
  expect(sent).toBeGreaterThan(0);
  expect(reasonOf(outcome)).toBe('posted');
  expect(await writers.transactionsOf(tenant)).toBe(2);
});

/**
 * Holds the lane's connections until `meanwhile` has ended, with postings of which the second spends what the first brings; resolves when these have
 * ended and the connections, where they were given up, are gone. Where the lane asked for the clock first after all, nothing was sent; then it is
 * done again.
 */
async function stalled(
  tenant: string,
  { timeoutMs, isGivenUp = true, send = sendEach }: { timeoutMs: [number, number]; isGivenUp?: boolean; send?: typeof sendEach },
  meanwhile: (orders: [ValidatedPosting, ValidatedPosting], outcomes: Promise<Outcome[]>) => Promise<void>,
) {
  const others = await sessions();
  const { writer } = openLane(isGivenUp ? { patienceMs: 500 } : {});
  for (const sent = new Set<boolean>(); !sent.has(true);) {
    // Until the clock is known, and the purse empty.
    for (let times = 0, blind = false; !blind || times % 2 > 0; times++) {
      blind = true;
      writers.proxy.watch = (chunk) => {
        blind &&= !chunk.includes('known_keys');
        return 'pass';
      };
      const [from, to] = times % 2 === 0 ? ['a', 'purse'] : ['purse', 'a'];
      expect(reasonOf(await writer.post(transfer(tenant, from, to, '1.00')))).toBe('posted');
    }
    const [before, held] = [await writers.transactionsOf(tenant), (await sessions()).difference(others)];
    writers.proxy.hold(true);
    const orders: [ValidatedPosting, ValidatedPosting] = [
      transfer(tenant, 'a', 'purse', '1.00', { timeoutMs: timeoutMs[0] }),
      transfer(tenant, 'purse', 'a', '1.00', { timeoutMs: timeoutMs[1] }),
    ];
    const outcomes = send(writer, orders);
    await meanwhile(orders, outcomes);
    writers.proxy.watch = (chunk) => {
      sent.add(chunk.includes('write_batch'));
      return 'pass';
    };
    writers.proxy.hold(false);
    await outcomes;
    // Behind what was held.
    expect(reasonOf(await writer.post(transfer(tenant, 'purse', 'a', '1.00')))).toBe('insufficient_funds');
    while (isGivenUp && !held.isDisjointFrom(await sessions())) await new Promise((done) => setTimeout(done, 10));
    expect(await writers.transactionsOf(tenant)).toBe(before);
  }
}

function sendEach(writer: Writer, orders: ValidatedPosting[]): Promise<Outcome[]> {
  return Promise.all(orders.map((order) => writer.post(order)));
}

/** Processes of PostgreSQL that serve writers. */
async function sessions(): Promise<Set<number>> {
  const { rows } = await writers.owner.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'writer' and datname = current_database()`,
  );
  return new Set(rows.map(({ pid }) => pid));
}

/** How long a caller waits who is gone when the lane gives its connection up, and not yet when it takes what he sent, milliseconds. */
const short = 400;

test('a posting that was refused is not posted by an earlier call with it that reaches the database late', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  // Nobody waits for the first any more when both are decided anew.
  await stalled(tenant, { timeoutMs: [short, 10_000] }, async (_orders, outcomes) => {
    expect((await outcomes).map(reasonOf)).toEqual(['unavailable', 'insufficient_funds']);
  });
});

const nobodyKnows = {
  refusal: expect.objectContaining({
    reason: 'unavailable',
    message: expect.stringContaining('a retry with the same key finds out') as string,
  }) as object,
};

test('nor by one that was given up, whose caller has asked another ledger since, and was refused there', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const other = writers.open();
  await stalled(tenant, { timeoutMs: [short, short] }, async (orders, outcomes) => {
    expect(await outcomes).toEqual([nobodyKnows, nobodyKnows]);
    expect(reasonOf(await other.post({ ...orders[1], timeoutMs: 10_000 }))).toBe('insufficient_funds');
    // The call is in time for a second.
    await new Promise((done) => setTimeout(done, 1_000));
  });
});

test('nor by the ledger that sent it, which hears that it came too late', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const other = writers.open();
  let ended: Outcome[] = [];
  await stalled(tenant, { timeoutMs: [short, short], isGivenUp: false }, async (orders, outcomes) => {
    void outcomes.then((each) => (ended = each));
    // The call is in time for a second.
    await new Promise((done) => setTimeout(done, 1_000));
    expect(reasonOf(await other.post({ ...orders[1], timeoutMs: 10_000 }))).toBe('insufficient_funds');
  });
  expect(ended).toEqual([nobodyKnows, nobodyKnows]);
});

test('nor by one whose caller gave it less time with his call than the posting says', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const other = writers.open();
  const send = async (writer: Writer, orders: ValidatedPosting[]): Promise<Outcome[]> => {
    const routes = ledgerRoutes({ writer, reads: writers.pool, maxMessageBytes: 1 << 20, committed: () => undefined });
    const postings = orders.map(({ tenantId, idempotencyKey, entries }) => ({
      tenantId,
      idempotencyKey,
      entries: entries.map(({ code, side, currency }) => ({ accountCode: code, amount: '1.00', side, currency })),
    }));
    // A call is in time for a second at least, which begins when it is sent: on a busy machine that may be later.
    const posting = createClient(LedgerService, createRouterTransport(routes)).postTransactions({ postings }, { timeoutMs: 3_000 });
    await expect(posting).rejects.toMatchObject({ code: Code.DeadlineExceeded });
    return [];
  };
  await stalled(tenant, { timeoutMs: [10_000, 10_000], isGivenUp: false, send }, async (orders, outcomes) => {
    await outcomes;
    expect(reasonOf(await other.post(orders[1]))).toBe('insufficient_funds');
  });
});

test('nor is a reversal that its caller sends again, for he does not know whether it was posted', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const [{ writer }, other] = [openLane(), writers.open()];
  const [transactionId, reversalId] = [newId('txn'), newId('txn')];
  await writer.post(transfer(tenant, 'a', 'purse', '1.00', { transactionId }));
  await writer.post(transfer(tenant, 'purse', 'a', '1.00'));
  const reversal = (retry: boolean) =>
    validateReversal(create(ReverseTransactionRequestSchema, { tenantId: tenant, transactionId, reversalId, retry }));
  const caller = new AbortController();
  const sent = Promise.withResolvers<void>();
  writers.proxy.watch = (chunk) => {
    if (!chunk.includes('write_batch')) return 'pass';
    sent.resolve();
    return 'hold';
  };
  // It spends what comes before it.
  const outcomes = Promise.all([
    writer.post(transfer(tenant, 'a', 'purse', '1.00')),
    writer.post(reversal(false), { signal: caller.signal }),
  ]);
  await sent.promise;
  caller.abort();
  expect(reasonOf(await other.post(reversal(true)))).toBe('insufficient_funds');
  writers.proxy.watch = () => 'pass';
  writers.proxy.hold(false);
  expect((await outcomes).map(reasonOf)).toEqual(['posted', 'unavailable']);
  expect(await writers.transactionsOf(tenant)).toBe(3);
});
