// Items of several commands, and parts of reversals, over lost connections, several replicas and faults: all or none, once.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { until } from '../../test/polling.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { openWriters, posted, reasonOf, transfer, type Writers } from '../../test/writers.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { validateReversal } from './commands.ts';
import type { Commands, ItemOutcome, Outcome } from './queue.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

type More = MessageInitShape<typeof PostingSchema>;

/** As many transfers of 1.00 as there are sets of further fields. */
const transfers = (tenant: string, ...all: More[]) => all.map((more) => transfer(tenant, 'a', 'b', '1.00', more)) as unknown as Commands;
const reasonsOf = (outcome: ItemOutcome) => (Array.isArray(outcome) ? outcome.map(reasonOf) : [reasonOf(outcome)]);

const part = (tenantId: string, transactionId: string, amount?: string) => {
  const call = { tenantId, actor: 'test', requestId: 'r', traceparent: '', retry: false, timeoutMs: 60_000 };
  return validateReversal({
    ...call,
    transactionId,
    reversalId: '',
    idempotencyKey: '',
    description: '',
    ...(amount !== undefined && { amount }),
  });
};

/** Cuts the connection while the statement that writes waits in the database, which then commits it. */
async function losingConnection<Result>(send: () => Promise<Result>): Promise<Result> {
  await writers.owner.query('begin; lock table entries in share mode');
  const answer = send();
  await until(
    () => writers.owner.query(`select from pg_locks where ${waitingLocks} and relation = 'entries'::regclass`),
    ({ rowCount }) => rowCount === 1,
  );
  writers.proxy.cut();
  await writers.owner.query('rollback');
  return answer;
}

test('an item whose connection is lost during its statement is answered as posted, and is posted once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ proxied: true, pipelines: 1, isPatient: true });
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  const commands = transfers(tenant, { reference: 'x' }, { reference: 'y' }, { reference: 'z' });
  expect(reasonsOf(await losingConnection(() => writer.submit(commands, false)))).toEqual(['posted', 'posted', 'posted']);
  expect(await writers.transactionsOf(tenant)).toBe(4);
  // Its caller, which heard nothing, sends it again: none of it is a replay.
  const again = commands.map((command) => ({ ...command, retry: true })) as unknown as Commands;
  const found = (await writer.submit(again, false)) as Extract<ItemOutcome, unknown[]>;
  expect(found.map((each) => [reasonOf(each), each.found])).toEqual(Array(3).fill(['posted', true]));
  expect(reasonsOf(await writer.submit(commands, false))).toEqual(['replayed', 'replayed', 'replayed']);
  expect(await writers.transactionsOf(tenant)).toBe(4);
});

test('items of two replicas over the same keys are posted once, and each wholly', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const replicas = [writers.open({ isPatient: true }), writers.open({ isPatient: true })];
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, (_, index) => {
      // Each key is in two items, one with its neighbour before and one with that behind.
      const keys = [index, (index + 1) % 40].map((key) => ({ idempotencyKey: `k${key}` }));
      return replicas[index % 2]!.submit(transfers(tenant, ...keys, {}), false);
    }),
  );
  for (const outcome of outcomes) {
    expect(reasonsOf(outcome).slice(2)).toEqual(['posted']);
    expect(reasonsOf(outcome)).toHaveLength(3);
  }
  expect(outcomes.flatMap(reasonsOf).filter((each) => each === 'posted')).toHaveLength(80);
  expect(await writers.transactionsOf(tenant)).toBe(80);
  expect(await writers.balance(tenant, 'b')).toBe('8000');
});

test('an item that the database rejects for one of its commands fails whole, and its neighbours are posted', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ pipelines: 1 });
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  await writers.owner.query(`create function injected() returns trigger language plpgsql as
    $$ begin raise exception 'injected' using errcode = 'P0001'; end $$;
    create trigger injected before insert on transactions for each row when (new.reference = 'poison') execute function injected()`);
  try {
    const outcomes = await Promise.all([
      writer.submit(transfers(tenant, {}, {}), false),
      writer.submit(transfers(tenant, { idempotencyKey: 'k' }, { reference: 'poison' }, {}), false),
      writer.submit(transfers(tenant, {}, {}, {}), false),
    ]);
    expect(outcomes.map(reasonsOf)).toEqual([['posted', 'posted'], ['internal'], ['posted', 'posted', 'posted']]);
  } finally {
    await writers.owner.query('drop function injected cascade');
  }
  expect(await writers.transactionsOf(tenant)).toBe(6);
  expect(reasonOf(await writer.post(transfer(tenant, 'a', 'b', '2.00', { idempotencyKey: 'k' })))).toBe('posted');
});

test('an item whose caller has left, or waits no longer, is not begun', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open();
  const gone = writer.submit(transfers(tenant, {}, {}), false, { signal: AbortSignal.abort() });
  const late = writer.submit(transfers(tenant, {}, { timeoutMs: 1 }), false, { timeoutMs: 0 });
  for (const outcome of await Promise.all([gone, late])) expect(reasonsOf(outcome)).toEqual(['unavailable']);
  expect(await writers.transactionsOf(tenant)).toBe(0);
});

test('parts of many tenants’ transactions, reversed by two replicas at once, take no more than there is', async () => {
  const replicas = [writers.open({ isPatient: true, pipelines: 1 }), writers.open({ isPatient: true })];
  const tenants = await Promise.all(Array.from({ length: 6 }, () => writers.tenantWith('a', 'b')));
  const originals = await Promise.all(
    tenants.map(async (tenant) => posted(await replicas[0]!.post(transfer(tenant, 'a', 'b', '10.00'))).transaction.transactionId),
  );
  const outcomes = await Promise.all(
    tenants.flatMap((tenant, index) =>
      // The first half by one replica, whose batches are of several tenants; the others by both.
      Array.from({ length: 16 }, (_, turn) => {
        const writer = replicas[index < 3 ? 0 : turn % 2]!;
        return writer.post(part(tenant, originals[index] as string, '0.90'));
      }),
    ),
  );
  for (const [index, tenant] of tenants.entries()) {
    const own = outcomes.slice(index * 16, (index + 1) * 16).map(reasonOf);
    expect(own.filter((each) => each === 'posted')).toHaveLength(11);
    expect(own.filter((each) => each === 'reversal_exceeded')).toHaveLength(5);
    expect(await writers.balance(tenant, 'b')).toBe('10');
    expect(reasonOf(await replicas[1]!.post(part(tenant, originals[index] as string)))).toBe('posted');
    expect(await writers.balance(tenant, 'b')).toBe('0');
    const { rows } = await writers.owner.query<{ n: number; last: number; whole: number }>(
      `select count(*)::int as n, max(number) as last, (select count(*)::int from transactions t where t.tenant_id = p.tenant_id and reverses is not null) as whole
        from parts p where tenant_id = (select tenant_id from transactions where id = $1) group by tenant_id`,
      [toUuid('txn', originals[index] as string)],
    );
    expect(rows).toEqual([{ n: 12, last: 12, whole: 1 }]);
  }
});

test('what is left of a transaction is known to a batch that begins while an older one looks up its refusals', async () => {
  const tenant = await writers.tenantWith('a', 'b', 'purse');
  const writer = writers.open({ proxied: true, pipelines: 1 });
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  posted(await writer.post(transfer(tenant, 'a', 'purse', '1.00')));
  const [transactionId, looking] = [newId('txn'), Promise.withResolvers<void>()];
  let isWritten = false;
  writers.proxy.watch = (chunk) => {
    isWritten ||= chunk.includes('write_batch');
    if (!isWritten || chunk.includes('write_batch') || !chunk.includes('known_keys')) return 'pass';
    writers.proxy.watch = () => 'pass';
    looking.resolve();
    return 'hold';
  };
  const older = Promise.all([
    writer.submit(transfers(tenant, { transactionId }, {}), false),
    writer.post(transfer(tenant, 'purse', 'a', '2.00')),
  ]);
  await looking.promise;
  // A batch that begins while another is open has 16 items at least.
  const withOthers = async (amount?: string) => {
    const others = Array.from({ length: 16 }, () => writer.post(transfer(tenant, 'b', 'a', '0.10')));
    const [outcome] = await Promise.all([writer.post(part(tenant, transactionId, amount)), ...others]);
    return reasonOf(outcome);
  };
  expect(await withOthers()).toBe('posted');
  expect(await withOthers('0.40')).toBe('already_reversed');
  writers.proxy.hold(false);
  const [done, refused] = await older;
  expect([reasonsOf(done), reasonOf(refused)]).toEqual([['posted', 'posted'], 'insufficient_funds']);
  expect(await writers.balance(tenant, 'b')).toBe('-120');
});

test('a part whose connection is lost during its statement is reversed once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ proxied: true, pipelines: 1, isPatient: true });
  const { transactionId } = posted(await writer.post(transfer(tenant, 'a', 'b', '10.00'))).transaction;
  const outcome: Outcome = await losingConnection(() => writer.post(part(tenant, transactionId, '4.00')));
  expect(reasonOf(outcome)).toBe('posted');
  expect(await writers.balance(tenant, 'b')).toBe('600');
  expect(reasonOf(await writer.post(part(tenant, newId('txn'), '4.00')))).toBe('transaction_not_found');
});
