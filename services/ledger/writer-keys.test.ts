// One key, one effect: however often a posting is sent, to any replica, and whatever fails.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { ReverseTransactionRequestSchema, type PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openWriters, posted, reasonOf, tally, transfer, type Writers } from '../../test/writers.ts';
import { newId } from '../platform/ids.ts';
import type { Outcome } from './queue.ts';
import { validateReversal } from './commands.ts';

let writers: Writers;

/** Answers by outcome, from the metrics. */
async function outcomesOf(metrics: Registry): Promise<Record<string, number>> {
  const { values } = (await metrics.getSingleMetric('ledger_postings_total')?.get()) ?? { values: [] };
  return Object.fromEntries(values.map(({ labels, value }) => [labels['outcome'], value]));
}

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

afterEach(() => {
  writers.proxy.watch = () => 'pass';
});

test('the same posting sent many times at once to two replicas moves the amount once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const replicas = [writers.open({ isPatient: true }), writers.open({ isPatient: true })];
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, (_, turn) =>
      replicas[turn % 2]!.post(transfer(tenant, 'a', 'b', '10.00', { idempotencyKey: 'once', metadata: '{"x":1,"y":2}' })),
    ),
  );
  expect(tally(outcomes)).toEqual({ posted: 1, replayed: 39 });
  expect(new Set(outcomes.map((outcome) => posted(outcome).transaction.transactionId)).size).toBe(1);
  expect(await writers.balance(tenant, 'b')).toBe('1000');
});

test('different postings under one key at once: one is posted, the others are refused', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const replicas = [writers.open({ isPatient: true }), writers.open({ isPatient: true })];
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, turn) =>
      replicas[turn % 2]!.post(transfer(tenant, 'a', 'b', `${turn + 1}.00`, { idempotencyKey: 'same key' })),
    ),
  );
  expect(tally(outcomes)).toEqual({ posted: 1, idempotency_key_reused: 19 });
  expect(await writers.transactionsOf(tenant)).toBe(1);
});

test('a key repeated for a cached tenant is found, and fails none of its neighbours', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ pipelines: 1 });
  const first = posted(await writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'once' })));
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  const again = ['1.00', '1.00', '9.00', '1.00'].map((amount, index) =>
    writer.post(transfer(tenant, 'a', 'b', amount, index === 0 ? {} : { idempotencyKey: 'once' })),
  );
  const outcomes = await Promise.all(again);
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'replayed', 'idempotency_key_reused', 'replayed']);
  expect(posted(outcomes[1] as Outcome).transaction).toEqual(first.transaction);
  expect(await writers.balance(tenant, 'b')).toBe('300');
});

test('a transaction id under another key is refused, under the same key it is the same posting', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  const writer = writers.open({ metrics });
  const transactionId = newId('txn');
  const send = (more: MessageInitShape<typeof PostingSchema>) =>
    writer.post(transfer(tenant, 'a', 'b', '1.00', { transactionId, ...more }));
  const outcomes = [await send({}), await send({}), await send({ retry: true }), await send({ idempotencyKey: 'another' })];
  expect(outcomes.map(reasonOf)).toEqual(['posted', 'replayed', 'posted', 'idempotency_key_reused']);
  expect(await writers.transactionsOf(tenant)).toBe(1);
  // Answered as posted twice, it counts as posted once.
  expect(await outcomesOf(metrics)).toEqual({ posted: 1, replayed: 1, found: 1, idempotency_key_reused: 1 });
});

test('a posting with an unknown outcome counts once, as posted by the replica that posted it', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const [metrics, others] = [new Registry(), new Registry()];
  const writer = writers.open({ proxied: true, pipelines: 1, metrics });
  await writer.post(transfer(tenant, 'a', 'b', '1.00'));
  const posting = transfer(tenant, 'a', 'b', '1.00');
  const caller = new AbortController();
  const lost = Promise.withResolvers<void>();
  writers.proxy.watch = (chunk) => {
    if (!chunk.includes('write_batch')) return 'pass';
    writers.proxy.watch = () => 'cut';
    lost.resolve();
    return 'cut';
  };
  const outcome = writer.post(posting, { signal: caller.signal });
  await lost.promise;
  caller.abort();
  expect(reasonOf(await writers.open({ metrics: others }).post({ ...posting, retry: true }))).toBe('posted');
  writers.proxy.watch = () => 'pass';
  expect(reasonOf(await outcome)).toBe('posted');
  expect(await outcomesOf(others)).toEqual({ posted: 1 });
  expect(await outcomesOf(metrics)).toEqual({ posted: 1, found: 1 });
});

test('a repetition that the rules would refuse by now is still answered with the original', async () => {
  const tenant = await writers.tenantWith('a', 'purse');
  const writer = writers.open({ pipelines: 1 });
  posted(await writer.post(transfer(tenant, 'a', 'purse', '1.00')));
  const spend = (amount: string, idempotencyKey: string) => writer.post(transfer(tenant, 'purse', 'a', amount, { idempotencyKey }));
  const first = posted(await spend('1.00', 'spent'));
  const outcomes = [await spend('1.00', 'spent'), await spend('2.00', 'spent'), await spend('1.00', 'more')];
  expect(outcomes.map(reasonOf)).toEqual(['replayed', 'idempotency_key_reused', 'insufficient_funds']);
  expect(posted(outcomes[0]!).transaction).toEqual(first.transaction);
  expect(await writers.transactionsOf(tenant)).toBe(2);
});

// Without a cache every batch takes the locking path.
describe.each([
  ['cached', 1000],
  ['not cached', 0],
])(
  'a transaction id posted under another key is refused as such, even if the rules would refuse the posting; tenants are %s',
  (_, maxCachedAccounts) => {
    const open = () => writers.open({ pipelines: 1, maxCachedAccounts });
    const reused = (transactionId: string, field = 'transaction_id') => ({
      refusal: expect.objectContaining({
        reason: 'idempotency_key_reused',
        message: 'this transaction id was used under another key',
        blame: {
          field,
          tag: 'idempotency_key_reused',
          value: transactionId,
          details: { transaction_id: transactionId, fields: 'idempotency_key' },
        },
      }) as object,
    });
    const spend = (tenant: string, more: MessageInitShape<typeof PostingSchema>) => transfer(tenant, 'purse', 'a', '1.00', more);
    const fill = (tenant: string) => transfer(tenant, 'a', 'purse', '1.00');

    test('under another key, without one, and sent again', async () => {
      const tenant = await writers.tenantWith('a', 'purse');
      const writer = open();
      const transactionId = newId('txn');
      for (const posting of [fill(tenant), spend(tenant, { transactionId, idempotencyKey: 'one' })]) posted(await writer.post(posting));
      const others = [
        { transactionId, idempotencyKey: 'two' },
        { transactionId, idempotencyKey: 'two', retry: true },
        { transactionId },
        { transactionId, retry: true },
      ];
      for (const more of others) expect(await writer.post(spend(tenant, more))).toEqual(reused(transactionId));
      // The same where the rules allow them.
      posted(await writer.post(fill(tenant)));
      for (const more of others) expect(await writer.post(spend(tenant, more))).toEqual(reused(transactionId));
      expect(reasonOf(await writer.post(spend(tenant, { transactionId, idempotencyKey: 'one' })))).toBe('replayed');
      expect(await writers.balance(tenant, 'purse')).toBe('100');
    });

    test('in a batch with others, and for one posted in the same batch', async () => {
      const [tenant, other] = [await writers.tenantWith('a', 'purse'), await writers.tenantWith('a', 'purse')];
      const writer = open();
      const [before, together] = [newId('txn'), newId('txn')];
      for (const posting of [fill(tenant), spend(tenant, { transactionId: before, idempotencyKey: 'one' }), fill(other)]) {
        posted(await writer.post(posting));
      }
      const outcomes = await Promise.all(
        [
          spend(tenant, { transactionId: before, idempotencyKey: 'two' }),
          spend(tenant, {}),
          fill(tenant),
          spend(tenant, { transactionId: together, idempotencyKey: 'three' }),
          spend(tenant, { transactionId: together, idempotencyKey: 'four' }),
          spend(other, {}),
        ].map((posting) => writer.post(posting)),
      );
      expect(outcomes.map(reasonOf)).toEqual([
        'idempotency_key_reused',
        'insufficient_funds',
        'posted',
        'posted',
        'idempotency_key_reused',
        'posted',
      ]);
      expect([outcomes[0], outcomes[4]]).toEqual([reused(before), reused(together)]);
      expect(await writers.transactionsOf(tenant)).toBe(4);
    });

    test('but not for another tenant’s id, nor before a used key', async () => {
      const [tenant, other] = [await writers.tenantWith('a', 'purse'), await writers.tenantWith('a', 'purse')];
      const writer = open();
      const [transactionId, reversalId] = [newId('txn'), newId('txn')];
      const postings = [
        fill(tenant),
        spend(tenant, { transactionId, idempotencyKey: 'one' }),
        fill(other),
        spend(other, { idempotencyKey: 'two' }),
        fill(tenant),
        spend(tenant, { idempotencyKey: 'two' }),
      ];
      for (const posting of postings) posted(await writer.post(posting));
      expect(reasonOf(await writer.post(spend(other, { transactionId, idempotencyKey: 'three' })))).toBe('insufficient_funds');
      const both = await writer.post(transfer(tenant, 'purse', 'a', '2.00', { transactionId, idempotencyKey: 'two' }));
      expect(both).toMatchObject({ refusal: { reason: 'idempotency_key_reused', blame: { field: 'idempotency_key', value: 'two' } } });
      const reverse = (of: string, idempotencyKey: string) =>
        writer.post(
          validateReversal(create(ReverseTransactionRequestSchema, { tenantId: tenant, transactionId: of, reversalId, idempotencyKey })),
        );
      posted(await reverse(transactionId, 'four'));
      expect(await reverse(transactionId, 'five')).toEqual(reused(reversalId, 'reversal_id'));
      expect(reasonOf(await reverse(newId('txn'), 'five'))).toBe('transaction_not_found');
    });
  },
);

// The first batch of a tenant takes the locking path; the next ones are one call, with a shorter one for a single posting.
const commits = ['commit\0', 'write_batch\0', 'write_batch_of_one\0'].flatMap((last) =>
  (['cut', 'cut after'] as const).map((how) => ({ last, how, name: last.slice(0, -1) })),
);
test.each(commits)('a connection lost at the commit ($name, $how) leaves one effect, answered as posted', async ({ last, name, how }) => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ proxied: true });
  if (last !== 'commit\0') await writer.post(transfer(tenant, 'b', 'a', '1.00'));
  let cuts = 0;
  writers.proxy.watch = (chunk) => (chunk.includes(last) && cuts++ === 0 ? how : 'pass');
  const postings = [transfer(tenant, 'a', 'b', '2.00'), transfer(tenant, 'a', 'b', '4.00', { idempotencyKey: `key ${name} ${how}` })];
  const outcomes: Outcome[] = [];
  if (last === 'write_batch_of_one\0') for (const posting of postings) outcomes.push(await writer.post(posting));
  else outcomes.push(...(await Promise.all(postings.map((posting) => writer.post(posting)))));
  expect(cuts).toBeGreaterThan(0);
  expect(tally(outcomes)).toEqual({ posted: 2 });
  expect(await writers.balance(tenant, 'b')).toBe(last === 'commit\0' ? '600' : '500');
});
