// Redaction over gRPC: what was redacted is nowhere any more, and all else stays as it was.
import pg from 'pg';
import type { TransactionRedacted } from '../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, type Audit } from '../../test/audit.ts';
import { startAuditor, type RunningAuditor } from '../../test/auditor.ts';
import { entries, newTenant, refusal, type LedgerClient } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';
import { sha256 } from '../platform/digest.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { inTransaction, readTenant } from '../platform/postgres.ts';

let audit: Audit;
let client: LedgerClient;
let auditor: RunningAuditor;
let admin: pg.Client;
const runs: (() => void)[] = [];
// A report that is under way until the test lets it end.
const slow = {
  scope: 'reports:read' as const,
  check: () => Promise.resolve(),
  run: async () => {
    await new Promise<void>((resolve) => runs.push(resolve));
    return 'text/plain';
  },
};

beforeAll(async () => {
  audit = await openAudit();
  ({ client } = audit.ledger);
  auditor = await startAuditor(audit.ledger.database, { kinds: { slow } });
  admin = new pg.Client({ connectionString: audit.ledger.database.adminUrl });
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await auditor.end();
  await audit.end();
});

const by = { actor: 'key_of_the_test', requestId: 'request' };
const description = 'Refund to Adaeze, ticket 7';
const [reference, email] = ['INV-Okafor', 'ada@okafor.example'];
const metadata = JSON.stringify({ email, order: 'order-7', weight: 1.25 });

/** A tenant with one posting that has texts, its words indexed. */
async function newBook() {
  const { tenantId, tenant } = newTenant();
  for (const accountCode of ['till', 'bank']) await client.createAccount({ tenantId, accountCode, name: 'n', type: 'asset' });
  await client.updateBooks({ tenantId, ...by, indexedMetadata: { items: ['email', 'order'] } });
  const posting = {
    tenantId,
    idempotencyKey: 'k',
    description,
    reference,
    metadata,
    entries: entries('till debit 9.00 NGN', 'bank credit 9.00 NGN'),
  };
  const transaction = (await client.postTransaction({ posting })).transaction!;
  const { transactionId } = transaction;
  const behind = `select h.sequence - i.through as n from heads h join search_indexes i using (tenant_id) where name = '' and tenant_id = $1`;
  await until(
    async () => (await readTenant<[{ n: bigint }[]]>(auditor.pool, tenant, { text: behind, values: [tenant] }))[0][0]?.n,
    (n) => n === 0n,
  );
  const redact = async (...fields: string[]) =>
    (await client.redactTransaction({ tenantId, transactionId, fields, reason: 'slipped in', ...by })).transaction!;
  const events = async () => (await client.listEvents({ tenantId, limit: 100 })).events;
  return { tenantId, tenant, posting, transaction, transactionId, redact, events };
}

/** Tables of the database with a row that contains a text, as text, bytes or word. */
async function tablesWith(text: string): Promise<string[]> {
  const { rows: tables } = await admin.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const { rowCount } = await admin.query(
      `select from ${name} t where position(lower($1) in lower(t::text)) > 0 or position($2 in t::text) > 0 limit 1`,
      [text, Buffer.from(text).toString('hex')],
    );
    if (rowCount !== 0) found.push(name);
  }
  return found;
}

test('what was redacted is in no row, list, search, export or result of a job any more; all else is as it was', async () => {
  const { tenantId, tenant, posting, transaction, transactionId, redact, events } = await newBook();
  const before = await events();
  const parameters = JSON.stringify({ from: '2020-01-01', to: '2099-12-31' });
  const { job } = await auditor.client.startJob({ tenantId, kind: 'journal', parameters, ...by });
  await until(
    async () => (await auditor.client.getJob({ tenantId, jobId: job!.id })).job!.status,
    (status) => status === 'succeeded',
  );
  const running = (await auditor.client.startJob({ tenantId, kind: 'slow', parameters: '{}', ...by })).job!;
  await until(
    () => Promise.resolve(runs.length),
    (n) => n === 1,
  );
  expect(await tablesWith('Adaeze')).toEqual(['job_chunks', 'log', 'transaction_texts']);
  expect(await tablesWith(reference)).toEqual(['job_chunks', 'log', 'transactions']);
  expect(await tablesWith(email)).toEqual(['log', 'transaction_metadata']);

  const after = await redact('description', 'reference', 'metadata.email');
  const redacted = ['description', 'reference', 'metadata.email'];
  const { reference: _, ...rest } = transaction;
  expect(after).toEqual({ ...rest, description: '', metadata: '{"order":"order-7","weight":1.25}', redacted });
  for (const text of ['Adaeze', reference, email]) expect([text, await tablesWith(text)]).toEqual([text, []]);
  const list = async (filter: object) => (await client.listTransactions({ tenantId, ...filter })).transactions;
  for (const filter of [{ words: 'Adaeze' }, { reference }, { metadata: [{ key: 'email', values: [email] }] }])
    expect(await list(filter)).toEqual([]);
  expect(await list({ metadata: [{ key: 'order', values: ['order-7'] }] })).toEqual([after]);
  expect(await client.postTransaction({ posting })).toMatchObject({ transaction: after, replayed: true });
  expect(await refusal(client.postTransaction({ posting: { ...posting, description: '' } }))).toMatchObject({
    reason: 'idempotency_key_reused',
  });

  const all = await events();
  expect(all.slice(0, -1).map(({ hash }) => hash)).toEqual(before.map(({ hash }) => hash));
  const event = all.at(-1)!;
  expect(event).toMatchObject({ type: 'transaction.redacted', ...by, previousHash: before.at(-1)!.hash });
  const { payloadHash, redactedHash, ...data } = event.data.value as TransactionRedacted;
  expect(data).toMatchObject({
    transactionId,
    sequence: transaction.sequence,
    fields: redacted,
    reason: 'slipped in',
    eventId: before.at(-1)!.id,
  });
  const { rows } = await admin.query<{ payload: Buffer; payload_hash: Buffer }>(
    'select payload, payload_hash from log join redactions using (tenant_id, sequence) where tenant_id = $1',
    [tenant],
  );
  expect([rows[0]!.payload_hash, sha256(rows[0]!.payload)].map((hash) => hash.toString('hex'))).toEqual(
    [payloadHash, redactedHash].map((hash) => Buffer.from(hash).toString('hex')),
  );
  expect([await audit.verified(tenant), await audit.checked(tenant), await audit.rebuilt(tenant)]).toEqual([[], [], []]);

  // The result is gone, and what was under way has begun again.
  expect(await refusal(auditor.client.getJob({ tenantId, jobId: job!.id }))).toMatchObject({ reason: 'job_not_found' });
  await until(
    () => Promise.resolve(runs.length),
    (n) => n === 2,
  );
  for (const end of runs) end();
  await until(
    async () => (await auditor.client.getJob({ tenantId, jobId: running.id })).job!.status,
    (status) => status === 'succeeded',
  );
});

test('redacted again it changes nothing, and further fields add up', async () => {
  const { tenantId, tenant, transactionId, redact, events } = await newBook();
  const first = await redact('reference', 'reference');
  expect(first.redacted).toEqual(['reference']);
  const count = (await events()).length;
  expect(await redact('reference')).toEqual(first);
  expect((await events()).length).toBe(count);
  const second = await redact('reference', 'metadata.order', 'metadata.email', 'metadata.weight');
  expect(second).toMatchObject({
    description,
    metadata: '{}',
    redacted: ['reference', 'metadata.order', 'metadata.email', 'metadata.weight'],
  });
  expect((await events()).at(-1)!.data.value).toMatchObject({ fields: ['metadata.order', 'metadata.email', 'metadata.weight'] });
  // What reads the payload still can: a reversal, and the search of what is left.
  await client.reverseTransaction({ tenantId, transactionId });
  expect((await client.listTransactions({ tenantId, words: 'ticket' })).transactions.map((each) => each.transactionId)).toEqual([
    transactionId,
  ]);
  expect([await audit.verified(tenant), await audit.checked(tenant)]).toEqual([[], []]);
});

test('the result of a job that is just ending goes as well', async () => {
  const { tenantId, tenant, redact } = await newBook();
  const started = runs.length;
  const { job } = await auditor.client.startJob({ tenantId, kind: 'slow', parameters: '{}', ...by });
  await until(
    () => Promise.resolve(runs.length),
    (n) => n > started,
  );
  const end = `update jobs set status = 'succeeded', finished_at = now(), lease_id = null, leased_until = null where tenant_id = $1`;
  let redacted: Promise<unknown> | undefined;
  await inTransaction(auditor.pool, [tenant], async (own) => {
    await own.query(end, [tenant]);
    redacted = redact('description');
    await until(
      async () =>
        (await admin.query(`select from pg_stat_activity where query like '%redact_event%' and wait_event_type = 'Lock'`)).rowCount,
      (n) => n === 1,
    );
  });
  await redacted;
  expect(await refusal(auditor.client.getJob({ tenantId, jobId: job!.id }))).toMatchObject({ reason: 'job_not_found' });
  runs.at(-1)!();
});

test('bad requests name their field', async () => {
  const { tenantId, transactionId, redact } = await newBook();
  await redact('description');
  const call = (more: object) =>
    client.redactTransaction({ tenantId, transactionId, fields: ['description'], reason: 'r', ...by, ...more });
  const bad: [more: object, expected: object][] = [
    [{ fields: [] }, { field: 'fields', tag: 'required' }],
    [{ fields: Array(21).fill('reference') }, { field: 'fields', tag: 'max' }],
    [{ fields: ['description', 'amount'] }, { field: 'fields[1]', tag: 'oneof', value: 'amount' }],
    [{ fields: ['metadata.'] }, { field: 'fields[0]', tag: 'oneof' }],
    [{ fields: ['description', 'metadata.phone'] }, { field: 'fields[1]', tag: 'oneof', value: 'metadata.phone' }],
    [{ reason: '' }, { field: 'reason', tag: 'required' }],
    [{ reason: 'x'.repeat(1_001) }, { field: 'reason', tag: 'max' }],
    [{ transactionId: 'txn_1' }, { field: 'transaction_id' }],
    [{ transactionId: newId('txn') }, { reason: 'transaction_not_found' }],
    [{ tenantId: newTenant().tenantId }, { reason: 'transaction_not_found' }],
  ];
  for (const [more, expected] of bad) expect([more, await refusal(call(more))]).toMatchObject([more, expected]);
});

test('a payload that a redaction did not leave is found, and so is a lost or wrong hash of the first one', async () => {
  const { tenant, transaction, redact } = await newBook();
  const plain = await client.postTransaction({
    posting: { tenantId: transaction.tenantId, entries: entries('till debit 1.00 NGN', 'bank credit 1.00 NGN') },
  });
  await redact('description');
  const at = `tenant_id = $1 and sequence = ${transaction.sequence}`;
  const { rows } = await admin.query<{ payload: Buffer; payload_hash: Buffer }>(
    `select payload, payload_hash from log join redactions using (tenant_id, sequence) where ${at}`,
    [tenant],
  );
  const { payload, payload_hash: kept } = rows[0]!;
  const hex = (bytes: Buffer) => `'\\x${bytes.toString('hex')}'`;
  const amount = Buffer.from(payload.toString('latin1').replaceAll('9.00', '8.00'), 'latin1');
  const other = `insert into redactions values ($1, ${plain.transaction!.sequence}, ${hex(sha256('x'))})`;
  const damages: [change: string, undo: string, finding: string][] = [
    [
      `update log set payload = ${hex(amount)} where ${at}`,
      `update log set payload = ${hex(payload)} where ${at}`,
      'that its last redaction has left',
    ],
    [
      `delete from redactions where ${at}`,
      `insert into redactions values ($1, ${transaction.sequence}, ${hex(kept)})`,
      'which is not redacted',
    ],
    [
      `update redactions set payload_hash = ${hex(sha256('x'))} where ${at}`,
      `update redactions set payload_hash = ${hex(kept)} where ${at}`,
      'another hash',
    ],
    [other, `delete from redactions where tenant_id = $1 and sequence <> ${transaction.sequence}`, 'no event redacts it'],
  ];
  for (const [change, undo, finding] of damages) {
    await admin.query(change, [tenant]);
    for (const lines of [await audit.verified(tenant), await audit.checked(tenant)]) expect(lines.join('\n')).toContain(finding);
    await admin.query(undo, [tenant]);
  }
  expect(await audit.verified(tenant)).toEqual([]);
});

test('the service replaces postings of the transaction’s own tenant only, and by its function alone', async () => {
  const { tenant, transaction } = await newBook();
  const call = (own: string) =>
    inTransaction(audit.ledger.pool, [own], (service) =>
      service.query(`select redact_event($1, $2, '', true, '{}', '')`, [tenant, transaction.sequence]),
    );
  await expect(call(toUuid('tenant', newTenant().tenantId)!)).rejects.toThrow('of another tenant');
  const change = inTransaction(audit.ledger.pool, [tenant], (service) => service.query(`update log set payload = ''`));
  await expect(change).rejects.toThrow('permission denied');
  const others = inTransaction(auditor.pool, [tenant], (service) =>
    service.query(`select redact_event($1, $2, '', true, '{}', '')`, [tenant, transaction.sequence]),
  );
  await expect(others).rejects.toThrow('permission denied');
});
