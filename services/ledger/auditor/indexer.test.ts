// Searches by metadata and words over the indexes that the writer and the auditor keep together.
import pg from 'pg';
import { withClient } from '../../../deploy/local/databases.ts';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../../test/ledger.ts';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { until } from '../../../test/polling.ts';
import { inTransaction, readTenant } from '../../platform/postgres.ts';

let ledger: RunningLedger;
let auditor: RunningAuditor;
beforeAll(async () => {
  ledger = await startLedger();
  auditor = await startAuditor(ledger.database);
});
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

interface More {
  metadata?: string;
  description?: string;
  reference?: string;
}

async function newBook() {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of ['a', 'b']) await ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const post = async ({ metadata = '', ...more }: More = {}, currency = 'NGN') => {
    const posting = { tenantId, metadata, ...more, entries: entries(`a debit 1.00 ${currency}`, `b credit 1.00 ${currency}`) };
    return (await ledger.client.postTransaction({ posting })).transaction!.sequence;
  };
  const declare = (...items: string[]) => ledger.client.updateBooks({ tenantId, indexedMetadata: { items } });
  const ready = (...keys: string[]) =>
    until(
      async () => (await ledger.client.getBooks({ tenantId })).books!.readyIndexes.sort().join(),
      (found) => found === keys.join(),
    );
  const find = async (filter: object) =>
    (await ledger.client.listTransactions({ tenantId, ...filter })).transactions.map(({ sequence }) => sequence);
  const by = (...filters: [key: string, ...values: string[]][]) => find({ metadata: filters.map(([key, ...values]) => ({ key, values })) });
  /** Waits until the words of everything posted so far are indexed. */
  const indexed = () =>
    until(
      async () => {
        const text = `select h.sequence - i.through as behind from heads h join search_indexes i using (tenant_id) where i.name = '' and i.tenant_id = $1`;
        return (await readTenant<[{ behind: bigint }[]]>(auditor.pool, tenant, { text, values: [tenant] }))[0];
      },
      ([row]) => row?.behind === 0n,
    );
  return { tenantId, tenant, post, declare, ready, find, by, indexed };
}

test('a posting is found at once by declared keys, older ones when the index is ready', async () => {
  const { tenantId, post, declare, ready, by } = await newBook();
  const old = await post({ metadata: '{"order":"A-1","paid":true,"n":7,"deep":{"x":1},"nothing":null}' });
  expect(await refusal(by(['order', 'A-1']))).toMatchObject({ reason: 'validation_failed', field: 'metadata.order', tag: 'oneof' });
  await declare('order', 'n', 'paid', 'deep', '__proto__');
  const posted = await post({ metadata: '{"order":"A-2","paid":false}' });
  await ready('__proto__', 'deep', 'n', 'order', 'paid');
  expect(await by(['order', 'A-1'])).toEqual([old]);
  expect(await by(['order', 'A-1', 'A-2'])).toEqual([posted, old]);
  expect(await by(['order', 'A-*'])).toEqual([posted, old]);
  expect(await by(['order', 'A-*'], ['paid', 'true'])).toEqual([old]);
  expect(await by(['n', '7'])).toEqual([old]);
  expect(await by(['n', '*'])).toEqual([old]);
  expect(await by(['deep', '*'])).toEqual([]);
  const at = await post({ metadata: '{"order":"B\u{10ffff}"}' });
  expect(await by(['order', 'B*', 'A-1'])).toEqual([at, old]);
  expect((await ledger.client.getBooks({ tenantId })).books?.readyIndexes.sort()).toEqual(['__proto__', 'deep', 'n', 'order', 'paid']);
});

test('a key that was taken back and declared again finds what came between', async () => {
  const { post, declare, ready, by } = await newBook();
  await declare('k');
  const all = [await post({ metadata: '{"k":"x"}' })];
  await declare();
  all.push(await post({ metadata: '{"k":"x"}' }));
  expect(await refusal(by(['k', 'x']))).toMatchObject({ tag: 'oneof', field: 'metadata.k' });
  const { books } = await declare('k', 'other');
  // Whether or not the auditor was quicker: never an answer without the one between.
  const first = await by(['k', 'x']).catch(() => all.toReversed());
  expect([books?.readyIndexes, first]).toEqual([[], all.toReversed()]);
  await ready('k', 'other');
  expect(await by(['k', 'x'])).toEqual(all.toReversed());
});

test('an index that is being built is refused', async () => {
  const { tenant, post, declare, ready, by } = await newBook();
  await post({ metadata: '{"k":"x"}' });
  await declare('k');
  await ready('k');
  // The indexer sees it when this ends, and the search before.
  await inTransaction(auditor.pool, [tenant], async (client) => {
    await client.query(`select pg_advisory_xact_lock(hashtextextended('index ' || $1, 0))`, [tenant]);
    await inTransaction(auditor.pool, [tenant], (other) => other.query(`update search_indexes set through = 0 where name = 'k'`));
    expect(await refusal(by(['k', 'x']))).toMatchObject({ reason: 'index_building', field: 'metadata.k', value: 'k' });
  });
  await ready('k');
});

test('words of description and reference are found, folded, all of them, also beginnings', async () => {
  const { post, find, indexed, tenantId } = await newBook();
  const one = await post({ description: 'Überweisung an Café Straße', reference: 'INV-1001' });
  const two = await post({ description: 'Refund ÉCLAIR ΟΔΟΣ', reference: 'inv-1002' });
  await post({ description: '' });
  await indexed();
  const words = (text: string, more: object = {}) => find({ words: text, ...more });
  expect(await words('uberweisung CAFE')).toEqual([one]);
  expect(await words('strasse')).toEqual([one]);
  expect(await words('éclair οδος')).toEqual([two]);
  expect(await words('inv-1001')).toEqual([one]);
  expect(await words('INV-10*')).toEqual([two, one]);
  expect(await words('inv refund')).toEqual([two]);
  expect(await words('in')).toEqual([]);
  expect(await words('inv', { currency: 'USD' })).toEqual([]);
  expect(await words('inv', { accountCode: 'a', reference: 'INV-1001' })).toEqual([one]);
  expect(await words(`x'y | !inv`)).toEqual([]);
  const other = await newBook();
  await other.indexed();
  expect(await other.find({ words: 'inv' })).toEqual([]);
  for (const [text, tag] of [
    ['', 'required'],
    ['-*', 'required'],
    ['a\0', 'unicode'],
    ['x'.repeat(256), 'max'],
  ] as const) {
    expect(await refusal(ledger.client.listTransactions({ tenantId, words: text }))).toMatchObject({ field: 'q', tag });
  }
  const many = Array.from({ length: 17 }, (_, index) => `w${index}`).join(' ');
  expect(await refusal(ledger.client.listTransactions({ tenantId, words: many }))).toMatchObject({ field: 'q', tag: 'max' });
});

test('bad filters are refused', async () => {
  const { tenantId } = await newBook();
  const ask = (...metadata: { key: string; values: string[] }[]) => refusal(ledger.client.listTransactions({ tenantId, metadata }));
  const filter = (key: string, ...values: string[]) => ({ key, values });
  const five = ['a', 'b', 'c', 'd', 'e'].map((key) => filter(key, 'x'));
  expect(await ask(...five)).toMatchObject({ field: 'metadata', tag: 'max', value: '5' });
  expect(await ask(filter('a', 'x'), filter('a', 'y'))).toMatchObject({ field: 'metadata.a', tag: 'unique' });
  expect(await ask(filter('a'))).toMatchObject({ field: 'metadata.a', tag: 'required' });
  expect(await ask(filter('a', ...Array.from({ length: 17 }, String)))).toMatchObject({ field: 'metadata.a', tag: 'max' });
  expect(await ask(filter('a', 'x'.repeat(256)))).toMatchObject({ field: 'metadata.a', tag: 'max' });
  expect(await ask(filter('a', '\0'))).toMatchObject({ field: 'metadata.a', tag: 'unicode' });
});

test('among many, frequent and rare texts are found page by page, and no page examines all', async () => {
  const { tenantId, tenant, post, declare, ready, indexed, find } = await newBook();
  await declare('k', 'c');
  await ready('c', 'k');
  const first = Number(await post({ description: 'often', metadata: '{"k":"o","c":"blue"}' }));
  await indexed();
  // Copies of the posting: three spans of them, one in 8,000 with a rare word and text besides.
  const count = 40_000;
  const owner = new pg.Client({ connectionString: ledger.database.adminUrl });
  await owner.connect();
  const rare = `case when n % 8000 = 0 then`;
  await owner.query(`begin; set local session_replication_role = replica;
    insert into log select tenant_id, sequence + n, gen_random_uuid(), type, created_at, actor, request_id, payload, hash, traceparent
      from log, generate_series(1, ${count}) n where tenant_id = '${tenant}' and sequence = ${first};
    insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, created_at)
      select tenant_id, sequence + n, gen_random_uuid(), 'copy' || n, fingerprint, created_at
      from transactions, generate_series(1, ${count}) n where tenant_id = '${tenant}' and sequence = ${first};
    insert into transaction_metadata select '${tenant}', key, case when key = 'c' then 'blue' else ${rare} 'r' || n else 'o' || n end end, ${first} + n
      from unnest(array['c', 'k']) key, generate_series(1, ${count}) n;
    insert into transaction_texts
      select '${tenant}', ${first} + n, array_to_tsvector(array['often', ${rare} 'seldom' else 'x' end, '@${tenant.replaceAll('-', '')}' || ((${first} + n) >> 14)])
      from generate_series(1, ${count}) n;
    update search_indexes set through = ${first} + ${count}, caught_up = false where tenant_id = '${tenant}' and name = '';
    update heads set sequence = ${first} + ${count} where tenant_id = '${tenant}'; commit`);
  expect(await refusal(find({ words: 'often' }))).toMatchObject({ reason: 'index_building', field: 'q', value: 'q' });
  await owner.query(`update search_indexes set caught_up = true where tenant_id = '${tenant}'`);
  await owner.end();
  const last = first + count;
  const newest = Array.from({ length: 50 }, (_, index) => BigInt(last - index));
  const seldom = [5, 4, 3, 2, 1].map((n) => BigInt(first + n * 8_000));
  expect(await find({ words: 'often' })).toEqual(newest);
  expect(await find({ metadata: [{ key: 'c', values: ['blue'] }] })).toEqual(newest);
  expect(await find({ metadata: [{ key: 'k', values: ['o*', 'r*'] }] })).toEqual(newest);
  for (const filter of [
    { words: 'seldom' },
    { words: 'often seldom' },
    { metadata: [{ key: 'k', values: ['r*'] }] },
    {
      metadata: [
        { key: 'c', values: ['blue'] },
        { key: 'k', values: ['r*'] },
      ],
    },
    { words: 'often', metadata: [{ key: 'k', values: ['r*'] }] },
    { words: 'seldom', metadata: [{ key: 'c', values: ['blue', 'red'] }] },
    { words: 'often', metadata: [{ key: 'k', values: [8, 16, 24, 32, 40].map((n) => `r${n}000`) }] },
  ]) {
    expect([filter, await find(filter)]).toEqual([filter, seldom]);
    const walked: bigint[] = [];
    let cursor = '';
    do {
      const page = await ledger.client.listTransactions({ tenantId, ...filter, limit: 2, cursor });
      walked.push(...page.transactions.map(({ sequence }) => sequence));
      cursor = page.nextCursor;
    } while (cursor !== '');
    expect([filter, walked]).toEqual([filter, seldom]);
  }
});

test('a log that can’t be read keeps no other tenant from its indexes', async () => {
  const books = await Promise.all(Array.from({ length: 6 }, newBook));
  const broken = books[2]!;
  await broken.post();
  await broken.indexed();
  const admin = (text: string) => withClient(ledger.database.adminUrl, (client) => client.query(text, [broken.tenant]));
  await admin(`update log set payload = '\\xff' where tenant_id = $1`);
  await admin(`update search_indexes set through = 0 where tenant_id = $1`);
  for (const each of books.toSpliced(2, 1)) {
    const sequence = await each.post({ description: 'found' });
    await each.indexed();
    expect(await each.find({ words: 'found' })).toEqual([sequence]);
  }
});
