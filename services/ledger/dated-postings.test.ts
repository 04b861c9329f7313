// Postings that count at another time, over faults, lost connections and several replicas: their rows are written with them, once.
import { until } from '../../test/polling.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { openWriters, posted, reasonOf, tally, transfer, type Writers } from '../../test/writers.ts';
import { fromBinary } from '@bufbuild/protobuf';
import { TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { newUuid, toUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { openOperator } from './audit/operator.ts';
import { verify } from './audit/verify.ts';
import { updateBooks } from './books-update.ts';
import { datedTypes, datedValues } from './dated-writes.ts';

let writers: Writers;
beforeAll(async () => {
  writers = await openWriters();
});
afterAll(() => writers.end());

const dayMs = 86_400_000;
const daysAgo = (days: number) => ({ effectiveMs: BigInt(Date.now() - days * dayMs) });
/** A transfer of 1.00 that counts some days ago, below zero ahead; 0: when it is recorded. */
const dated = (tenant: string, days: number, more: object = {}) =>
  transfer(tenant, 'a', 'b', '1.00', { ...(days !== 0 && daysAgo(days)), ...more });

async function verified(): Promise<string[]> {
  const operator = await openOperator(writers.ownerUrl);
  const lines: string[] = [];
  await verify(operator, {}, (line) => lines.push(line));
  await operator.end();
  return lines;
}

/** Rows of a table and tenant in the order of the log. */
async function rowsOf(table: string, tenantId: string): Promise<Record<string, unknown>[]> {
  const { rows } = await writers.owner.query<{ row: Record<string, unknown> }>(
    `select to_jsonb(t) as row from ${table} t where tenant_id = $1 order by to_jsonb(t) ->> 'sequence', 1`,
    [toUuid('tenant', tenantId)],
  );
  return rows.map(({ row }) => row);
}

test('only a posting that counts at another time has rows of it; a plain one has neither rows nor bytes', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open();
  const plain = posted(await writer.post(dated(tenant, 0))).transaction;
  expect([plain.effectiveMs, plain.requestedEffectiveMs]).toEqual([undefined, undefined]);
  expect(await rowsOf('shifted_transactions', tenant)).toEqual([]);
  // The moment at which it is recorded is not another time.
  const { rows } = await writers.owner.query<{ payload: Buffer }>('select payload from log where tenant_id = $1 order by sequence desc', [
    toUuid('tenant', tenant),
  ]);
  const event = fromBinary(TransactionPostedSchema, rows[0]!.payload);
  expect([event.effectiveMs, event.requestedEffectiveMs]).toEqual([undefined, undefined]);
  const late = posted(await writer.post(dated(tenant, 3))).transaction;
  expect(Number(late.createdMs - late.effectiveMs!)).toBeGreaterThanOrEqual(3 * dayMs);
  expect(await rowsOf('shifted_transactions', tenant)).toMatchObject([{ sequence: Number(late.sequence) }]);
  expect(await rowsOf('shifted_entries', tenant)).toHaveLength(2);
});

// A batch first takes the locking path, then the pipeline, and after a rejection it is bisected.
test('dated and plain postings of many tenants in one batch, of which the database rejects one, are written each with its rows', async () => {
  const tenants = await Promise.all(Array.from({ length: 6 }, () => writers.tenantWith('a', 'b')));
  const writer = writers.open({ pipelines: 1 });
  await writers.owner.query(`create function injected() returns trigger language plpgsql as
    $$ begin raise exception 'injected' using errcode = 'P0001'; end $$;
    create trigger injected before insert on transactions for each row when (new.reference = 'poison') execute function injected()`);
  try {
    for (let turn = 0; turn < 3; turn++) {
      const postings = tenants.flatMap((tenant, index) => [
        dated(tenant, index % 3),
        dated(tenant, 40 * index, index === 2 ? { reference: 'poison' } : {}),
      ]);
      const outcomes = await Promise.all(postings.map((posting) => writer.post(posting)));
      expect(tally(outcomes)).toEqual({ posted: 11, internal: 1 });
    }
  } finally {
    await writers.owner.query('drop function injected cascade');
  }
  expect(await verified()).toEqual([]);
});

test('replicas that post to the same accounts, and connections that are lost, leave the sums right and each posting once', async () => {
  const tenants = await Promise.all(Array.from({ length: 3 }, () => writers.tenantWith('a', 'b')));
  const replicas = [writers.open({ proxied: true }), writers.open({ proxied: true }), writers.open({ maxCachedAccounts: 0 })];
  const outcomes = Array.from({ length: 240 }, (_, index) => {
    if (index % 80 === 40) writers.proxy.cut();
    return replicas[index % 3]!.post(dated(tenants[index % 3]!, index % 5, { idempotencyKey: `key-${Math.floor(index / 2)}` }));
  });
  const all = (await Promise.all(outcomes)).map(reasonOf);
  // A key may be used by two postings of different times or tenants.
  expect(all.filter((reason) => !['posted', 'replayed', 'idempotency_key_reused'].includes(reason))).toEqual([]);
  expect(await verified()).toEqual([]);
});

test('a posting whose connection is lost while its dates are written is answered as posted, and is posted once', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ proxied: true, pipelines: 1, isPatient: true });
  posted(await writer.post(dated(tenant, 1)));
  await writers.owner.query('begin; lock table shifted_months in share mode');
  const late = { idempotencyKey: 'lost', effectiveMs: 1_700_000_000_000n };
  const answer = writer.post(dated(tenant, 0, late));
  const waits = `select from pg_locks where ${waitingLocks} and relation = 'shifted_months'::regclass`;
  await until(
    () => writers.owner.query(waits),
    ({ rowCount }) => rowCount === 1,
  );
  writers.proxy.cut();
  await writers.owner.query('rollback');
  expect(reasonOf(await answer)).toBe('posted');
  expect(reasonOf(await writer.post(dated(tenant, 0, late)))).toBe('replayed');
  expect([await writers.transactionsOf(tenant), (await rowsOf('shifted_transactions', tenant)).length]).toEqual([2, 2]);
  expect(await verified()).toEqual([]);
});

const metadata = { metadata: '{"order":42}' };
const context = { actor: 'test', requestId: 'r', traceparent: null };

test('settings of books that another replica changes hold from the next posting on', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const [writer, other] = [writers.open(), writers.open()];
  // Both have the tenant's state, and the second batch of each takes the pipeline.
  for (const each of [writer, writer, other, other]) posted(await each.post(dated(tenant, -1, metadata)));
  expect(await rowsOf('transaction_metadata', tenant)).toEqual([]);
  await updateBooks(writers.pool, toUuid('tenant', tenant)!, { future_days: 0, indexed_metadata: ['order'] }, undefined, context);
  for (const each of [writer, other]) {
    expect(reasonOf(await each.post(dated(tenant, -1)))).toBe('effective_at_out_of_range');
    posted(await each.post(dated(tenant, 0, metadata)));
  }
  expect(await rowsOf('transaction_metadata', tenant)).toMatchObject(Array(2).fill({ key: 'order', value: '42' }));
  expect(await verified()).toEqual([]);
});

test('nothing of another tenant is written', async () => {
  const [tenant, account] = [newUuid(), newUuid()];
  const text = `select write_dated(7, ${datedTypes.map((type, index) => `$${index + 1}::${type}`).join(', ')}) as now_ms`;
  const write = (seenBy: string, ...[shifted, metadata]: Parameters<typeof datedValues>) =>
    inTransaction(writers.pool, [seenBy], (client) => client.query({ text, values: datedValues(shifted, metadata) })).then(
      ({ rows }) => (rows[0] as { now_ms: number }).now_ms,
      (error: unknown) => (error as { code?: string }).code,
    );
  const lines = [{ account: { uuid: account }, currency: 'NGN', side: 'debit', amount: 1n }] as unknown as Parameters<
    typeof datedValues
  >[0][number]['lines'];
  const one = [{ tenant, sequence: 3n, effectiveMs: 0, lines }];
  expect(await write(tenant, one, [{ tenant, key: 'k', value: 'v', sequence: 3n }])).toBe(7);
  expect(await write(newUuid(), one, [])).toBe('42501');
  expect(await write(newUuid(), [], [{ tenant, key: 'k', value: 'v', sequence: 4n }])).toBe('42501');
  // The same event twice.
  expect(await write(tenant, one, [])).toBe('23505');
});
