// The writer pipeline when its calls fail or their outcome is unknown.
import { create } from '@bufbuild/protobuf';
import { Code, createClient, createRouterTransport } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { LedgerService, PostingSchema, ReverseTransactionRequestSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { failures, openWriters, reasonOf, transfer, type WriterOptions, type Writers } from '../../test/writers.ts';
import { newId } from '../platform/ids.ts';
import { openOperator } from './audit/operator.ts';
import { verify } from './audit/verify.ts';
import type { Outcome } from './queue.ts';
import { ledgerRoutes } from './rpc.ts';
import { validateReversal } from './commands.ts';
import { validatePosting, type ValidatedPosting } from './mapping.ts';
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

/** A writer with one pipeline, behind the proxy. */
function openPipeline(options: WriterOptions = {}): { writer: Writer; metrics: Registry } {
  const metrics = new Registry();
  return { writer: writers.open({ proxied: true, pipelines: 1, metrics, ...options }), metrics };
}

function single(tenantId: string, currency: string) {
  return validatePosting(create(PostingSchema, { tenantId, entries: [{ accountCode: 'a', amount: '1.00', side: 'debit', currency }] }));
}

test('single entries in many concurrent batches create their suspense account once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const { writer, metrics } = openPipeline({ items: 16 });
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  const outcomes = await Promise.all(Array.from({ length: 120 }, (_, turn) => writer.post(single(tenant, turn % 2 ? 'EUR' : 'GBP'))));
  expect(outcomes.map(reasonOf)).toEqual(outcomes.map(() => 'posted'));
  expect(await failures(metrics)).toEqual({});
});

test('a used key in two overlapping batches is found by both and fails neither', async () => {
  const tenant = await writers.tenantWith('a', 'b', 'c');
  const used = () => transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'used' });
  const { writer, metrics } = openPipeline({ items: 16 });
  await writer.post(used());
  // Until it knows the time well enough to decide without reading.
  for (let turn = 0; turn < 20; turn++) await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  // The first lacks an account, and so reads the key as well; the second has all it needs, and goes by what the first has read.
  const batch = (credit: string) => [used(), ...Array.from({ length: 15 }, () => transfer(tenant, 'a', credit, '1.00'))];
  const outcomes = await Promise.all([...batch('c'), ...batch('b')].map((posting) => writer.post(posting)));
  expect(outcomes.map(reasonOf)).toEqual(outcomes.map((_, index) => (index % 16 === 0 ? 'replayed' : 'posted')));
  expect(await failures(metrics)).toEqual({});
});

test('a transaction reversed in many concurrent batches is reversed once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const { writer } = openPipeline({ items: 16 });
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

test('if keys can’t be read after the commit, the outcomes stay as they are', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const { writer } = openPipeline();
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

test('a refused posting that another replica posts before its id is looked up was not posted under another key', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const [{ writer }, other] = [openPipeline(), writers.open()];
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
  const posting = transfer(tenant, 'purse', 'a', '1.00');
  const outcome = writer.post(posting);
  await asked.promise;
  await other.post(transfer(tenant, 'a', 'purse', '1.00'));
  expect(reasonOf(await other.post(posting))).toBe('posted');
  writers.proxy.watch = () => 'pass';
  writers.proxy.hold(false);
  expect(reasonOf(await outcome)).toBe('insufficient_funds');
});

test('a batch whose connection is lost does not wait for its reader’s time-out as well', async () => {
  const [tenant, other] = [await writers.tenantWith('a', 'b'), await writers.tenantWith('a', 'b', 'c')];
  const queryTimeoutMs = 8_000;
  const { writer } = openPipeline({ queryTimeoutMs });
  // On the locking path, then with a read ahead, then optimistically.
  for (let turn = 0; turn < 3; turn++) for (const each of [tenant, other]) await writer.post(transfer(each, 'a', 'b', '1.00'));
  // Each step counts after the one before, because with an old clock the first posting also reads before it writes.
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
  await new Promise((done) => setTimeout(done, queryTimeoutMs / 2));
  // Enough for a second batch; their account has to be read.
  const others = Array.from({ length: 64 }, () => writer.post(transfer(other, 'a', 'c', '1.00')));
  for (const outcome of await Promise.all([first, ...others])) expect(reasonOf(outcome)).toBe('posted');
  expect(locked.at).toBeGreaterThan(read.at);
  expect(read.at).toBeGreaterThan(0);
  // Before the reader's time-out.
  expect(locked.at - read.at).toBeLessThan(queryTimeoutMs);
});

test('a posting whose connection is lost during its statement is answered as posted, however long the head stays locked', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const { writer } = openPipeline();
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
 * Stalls the pipeline's connections until `meanwhile` has ended, with two postings of which the second spends what the first brings. Resolves
 * when they have ended and broken connections are closed. Repeats if the pipeline read the clock first, because then nothing was sent.
 */
async function stalled(
  tenant: string,
  { timeoutMs, isBroken = true, send = sendEach }: { timeoutMs: [number, number]; isBroken?: boolean; send?: typeof sendEach },
  meanwhile: (postings: [ValidatedPosting, ValidatedPosting], outcomes: Promise<Outcome[]>) => Promise<void>,
) {
  const others = await sessions();
  const { writer } = openPipeline(isBroken ? { queryTimeoutMs: 500 } : {});
  for (const sent = new Set<boolean>(); !sent.has(true);) {
    // Until the clock is known and the purse is empty.
    for (let times = 0, optimistic = false; !optimistic || times % 2 > 0; times++) {
      optimistic = true;
      writers.proxy.watch = (chunk) => {
        optimistic &&= !chunk.includes('known_keys');
        return 'pass';
      };
      const [from, to] = times % 2 === 0 ? ['a', 'purse'] : ['purse', 'a'];
      expect(reasonOf(await writer.post(transfer(tenant, from, to, '1.00')))).toBe('posted');
    }
    const [before, stalledSessions] = [await writers.transactionsOf(tenant), (await sessions()).difference(others)];
    writers.proxy.hold(true);
    const postings: [ValidatedPosting, ValidatedPosting] = [
      transfer(tenant, 'a', 'purse', '1.00', { timeoutMs: timeoutMs[0] }),
      transfer(tenant, 'purse', 'a', '1.00', { timeoutMs: timeoutMs[1] }),
    ];
    const outcomes = send(writer, postings);
    await meanwhile(postings, outcomes);
    writers.proxy.watch = (chunk) => {
      sent.add(chunk.includes('write_batch'));
      return 'pass';
    };
    writers.proxy.hold(false);
    await outcomes;
    // After what was stalled.
    expect(reasonOf(await writer.post(transfer(tenant, 'purse', 'a', '1.00')))).toBe('insufficient_funds');
    while (isBroken && !stalledSessions.isDisjointFrom(await sessions())) await new Promise((done) => setTimeout(done, 10));
    expect(await writers.transactionsOf(tenant)).toBe(before);
  }
}

function sendEach(writer: Writer, postings: ValidatedPosting[]): Promise<Outcome[]> {
  return Promise.all(postings.map((posting) => writer.post(posting)));
}

/** Processes of PostgreSQL that serve writers. */
async function sessions(): Promise<Set<number>> {
  const { rows } = await writers.owner.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'writer' and datname = current_database()`,
  );
  return new Set(rows.map(({ pid }) => pid));
}

/** A time-out longer than sending takes, and shorter than a stalled connection's time-out, milliseconds. */
const short = 400;

test('a refused posting is not posted by an earlier call that reaches the database late', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  // The first one's caller has stopped waiting when both are decided again.
  await stalled(tenant, { timeoutMs: [short, 10_000] }, async (_orders, outcomes) => {
    expect((await outcomes).map(reasonOf)).toEqual(['unavailable', 'insufficient_funds']);
  });
});

const outcomeUnknown = {
  refusal: expect.objectContaining({
    reason: 'unavailable',
    message: expect.stringContaining('a retry with the same key finds out') as string,
  }) as object,
};

test('nor by an abandoned call, if another replica has refused it since', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const other = writers.open();
  await stalled(tenant, { timeoutMs: [short, short] }, async (postings, outcomes) => {
    expect(await outcomes).toEqual([outcomeUnknown, outcomeUnknown]);
    expect(reasonOf(await other.post({ ...postings[1], timeoutMs: 10_000 }))).toBe('insufficient_funds');
    // A call is not too late for its first second.
    await new Promise((done) => setTimeout(done, 1_000));
  });
});

test('nor by the replica that sent it, whose call fails because it is too late', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const other = writers.open();
  let ended: Outcome[] = [];
  await stalled(tenant, { timeoutMs: [short, short], isBroken: false }, async (postings, outcomes) => {
    void outcomes.then((each) => (ended = each));
    // A call is not too late for its first second.
    await new Promise((done) => setTimeout(done, 1_000));
    expect(reasonOf(await other.post({ ...postings[1], timeoutMs: 10_000 }))).toBe('insufficient_funds');
  });
  expect(ended).toEqual([outcomeUnknown, outcomeUnknown]);
});

test('nor by a call with a shorter deadline than the posting’s', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const other = writers.open();
  const send = async (writer: Writer, validated: ValidatedPosting[]): Promise<Outcome[]> => {
    const routes = ledgerRoutes({
      writer,
      reads: writers.pool,
      maxMessageBytes: 1 << 20,
      committed: () => undefined,
      isEnabled: () => true,
    });
    const postings = validated.map(({ tenantId, idempotencyKey, entries }) => ({
      tenantId,
      idempotencyKey,
      entries: entries.map(({ code, side, currency }) => ({ accountCode: code, amount: '1.00', side, currency })),
    }));
    // The first second begins when the call is sent, which may be later on a busy machine.
    const call = createClient(LedgerService, createRouterTransport(routes)).postTransactions({ postings }, { timeoutMs: 3_000 });
    await expect(call).rejects.toMatchObject({ code: Code.DeadlineExceeded });
    return [];
  };
  await stalled(tenant, { timeoutMs: [10_000, 10_000], isBroken: false, send }, async (postings, outcomes) => {
    await outcomes;
    expect(reasonOf(await other.post(postings[1]))).toBe('insufficient_funds');
  });
});

test('nor is a reversal that its caller retries because its outcome is unknown', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const [{ writer }, other] = [openPipeline(), writers.open()];
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
  // It spends what the posting before it brings.
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

test('the logs and all rows that these tests have left agree', async () => {
  const operator = await openOperator(writers.ownerUrl);
  const lines: string[] = [];
  const { tenants } = await verify(operator, { only: undefined }, (line) => lines.push(line));
  await operator.end();
  expect([lines, tenants]).toEqual([[], expect.any(Number)]);
});
