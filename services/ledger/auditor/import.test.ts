// Imports of whole logs: the same books in another tenant, or under the same id, and nothing of a log that is wrong.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, runCommand, type Audit } from '../../../test/audit.ts';
import { startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { freshDatabase } from '../../../test/cluster.ts';
import { fillLedger } from '../../../test/full-ledger.ts';
import { capture, holdCalls, release } from '../../../test/hold-commands.ts';
import { entries, newTenant, refusal } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { currentRun } from '../../../test/run.ts';
import { newId } from '../../platform/ids.ts';
import { openPool } from '../../platform/postgres.ts';
import { openLog } from '../../platform/telemetry.ts';
import { claim, findUnpublished, settle } from '../outbox/relay-claims.ts';
import { replay } from '../outbox/replay.ts';

let audit: Audit;
let auditor: RunningAuditor;
let source: string;
let text: string;

beforeAll(async () => {
  audit = await openAudit(undefined, { duePollMs: 50 });
  auditor = await startAuditor(audit.ledger.database);
  ({ tenantId: source } = newTenant());
  await fillLedger(audit.ledger.client, source);
  const hold = { entries: entries('SETTLEMENT-NGN debit 5.00 NGN', 'till credit 5.00 NGN'), idempotencyKey: 'soon', expiresIn: 3600n };
  await holdCalls(() => audit.ledger.client).made(source, { command: { case: 'hold', value: hold } });
  await addPersonal();
  text = await exported(source, 'events');
});
afterAll(async () => {
  await auditor.end();
  await audit.end();
});

/** Personal data of two subjects, of whom one is erased, and a posting with a redacted text. */
async function addPersonal(): Promise<void> {
  const { client } = audit.ledger;
  const personal = [newId('subj'), newId('subj')].map((subjectId) => ({
    subjectId,
    nonce: Buffer.alloc(12, 1),
    ciphertext: Buffer.alloc(40, 2),
  }));
  const lines = entries('till debit 1.00 NGN', 'SETTLEMENT-NGN credit 1.00 NGN');
  const posting = { tenantId: source, entries: lines, description: 'a secret', reference: 'R2', personal };
  const { transaction } = await client.postTransaction({ posting });
  const by = { tenantId: source, reason: 'asked', actor: 'k', requestId: 'r' };
  await client.redactTransaction({ ...by, transactionId: transaction!.transactionId, fields: ['description'] });
  await client.eraseSubject({ ...by, subjectId: personal[0]!.subjectId });
}

const options = { timeoutMs: 60_000 };

async function exported(tenantId: string, what: string): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const { bytes } of auditor.client.export({ tenantId, what, format: 'ndjson' }, options)) parts.push(bytes);
  return Buffer.concat(parts).toString();
}

const linesOf = (ndjson: string): any[] =>
  ndjson
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);

/** Sends a file in pieces of any size. */
async function* pieces(tenantId: string, file: string, size = 70_001) {
  yield { part: { case: 'start' as const, value: { tenantId, actor: 'owner', requestId: 'r1' } } };
  const bytes = Buffer.from(file);
  for (let from = 0; from < bytes.length; from += size)
    yield { part: { case: 'bytes' as const, value: bytes.subarray(from, from + size) } };
}

async function imported(tenantId: string, file: string) {
  const { job } = await auditor.client.importLog(pieces(tenantId, file), options);
  return until(
    async () => (await auditor.client.getJob({ tenantId, jobId: job!.id })).job!,
    ({ status }) => !['queued', 'running'].includes(status),
  );
}

const count = async (table: string, tenant: string) => {
  await audit.change(tenant);
  return Number((await audit.owner.query<{ n: string }>(`select count(*) as n from ${table} where tenant_id = $1`, [tenant])).rows[0]!.n);
};

test('a log is imported under another id, and once more from there: the same payloads, balances and keys, and nothing is published', async () => {
  const first = newTenant();
  const job = await imported(first.tenantId, text);
  expect(job).toMatchObject({ status: 'succeeded', kind: 'import' });
  const [begin, ...events] = linesOf(await exported(first.tenantId, 'events'));
  const originals = linesOf(text);
  const size = originals.length - 1;
  expect(JSON.parse(begin.header)).toEqual([
    first.tenantId,
    1,
    expect.stringMatching(/^evt_/),
    'log.imported',
    JSON.parse(originals[0].header)[4],
    'owner',
    'r1',
  ]);
  const payloadsOf = (lines: any[]) =>
    lines.map(({ payload, payload_hash, redacted_payload }) => [payload, payload_hash, redacted_payload]);
  expect(payloadsOf(events)).toEqual(payloadsOf(originals));
  const shifted = originals.slice(0, -1).map(({ header }) => {
    const [, sequence, ...rest] = JSON.parse(header) as [string, number, ...unknown[]];
    return JSON.stringify([first.tenantId, sequence + 1, ...rest]);
  });
  expect(events.slice(0, -1).map(({ header }) => header)).toEqual(shifted);
  for (const what of ['balances', 'accounts']) {
    const data = async (tenantId: string) => linesOf(await exported(tenantId, what)).slice(0, -1);
    expect(await data(first.tenantId)).toEqual(await data(source));
  }
  // The relay publishes the event that begins the log, and then goes on behind the import.
  const settings = { 'app.relay': 'on' };
  const relayed = openPool(audit.ledger.database.serviceUrl, { name: 'test', max: 1, logger: openLog('test', 'silent'), settings });
  const { tenants } = await findUnpublished(relayed, null);
  expect(tenants).toContain(first.tenant);
  const claimed = await claim(relayed, [first.tenant], first.tenant, { events: 10, bytes: 1e6, derivesEvents: true });
  expect(claimed).toMatchObject([{ events: [{ type: 'log.imported' }], sequence: BigInt(size + 1), hasMore: true }]);
  await settle(relayed, first.tenant, claimed, []);
  const next = await claim(relayed, [first.tenant], first.tenant, { events: 10, bytes: 1e6, derivesEvents: true });
  expect(next).toMatchObject([{ events: [], sequence: BigInt(size + 1), hasMore: false }]);
  const notPublished = { problem: expect.stringContaining(`what comes from ${size + 2} on is published anyway`) };
  expect(await replay(audit.owner, first.tenant, { sequence: 2 })).toEqual(notPublished);
  await relayed.end();
  expect(await count('uploads', first.tenant)).toBe(0);

  // A run after a crash finds what the one before it has committed.
  await audit.owner.query(`update jobs set status = 'queued', content_type = null where tenant_id = $1`, [first.tenant]);
  const again = async () => (await auditor.client.getJob({ tenantId: first.tenantId, jobId: job.id })).job!;
  expect(await until(again, ({ status }) => status !== 'queued' && status !== 'running')).toMatchObject({ status: 'succeeded' });

  // Keys replay, holds go on, and what follows is appended; a log with an import in it is imported as well.
  const { client } = audit.ledger;
  const { holds } = await client.listHolds({ tenantId: first.tenantId, limit: 100 });
  const ofSource = await client.listHolds({ tenantId: source, limit: 100 });
  expect(holds.map(({ sequence }) => sequence - 1n)).toEqual(ofSource.holds.map(({ sequence }) => sequence));
  const soon = holds.find(({ idempotencyKey }) => idempotencyKey === 'soon')!;
  const { done } = holdCalls(() => client);
  await done(first.tenantId, capture(soon.holdId, { amount: '1.00', final: false }));
  await done(
    first.tenantId,
    capture(holds.find(({ status, captures }) => status === 'pending' && captures === 1)!.holdId, { amount: '0.25', final: false }),
  );
  const all: Event[] = [];
  for (let hasMore = true; hasMore;) {
    const page = await client.listEvents({ tenantId: first.tenantId, afterSequence: all.at(-1)?.sequence ?? 0n, limit: 100 });
    all.push(...page.events);
    ({ hasMore } = page);
  }
  const named = all.flatMap(({ data }) =>
    ['transactionPosted', 'holdCreated', 'holdEnded'].includes(data.case!) ? [(data.value as any).hold] : [],
  );
  for (const { holdId, sequence } of named.filter(Boolean))
    expect([holdId, sequence]).toEqual([holdId, (await client.getHold({ tenantId: first.tenantId, holdId })).hold!.sequence]);
  const { transactions } = await client.listTransactions({ tenantId: first.tenantId, limit: 100 });
  const plain = transactions.find(({ reference }) => reference === 'R1')!;
  const posting = {
    tenantId: first.tenantId,
    idempotencyKey: plain.idempotencyKey,
    entries: entries('SETTLEMENT-NGN debit 100.00 NGN', 'CUSTOMER-WALLETS-NGN credit 100.00 NGN'),
    reference: 'R1',
  };
  expect(await client.postTransaction({ posting })).toMatchObject({ replayed: true, transaction: { transactionId: plain.transactionId } });
  const second = newTenant();
  expect(await imported(second.tenantId, await exported(first.tenantId, 'events'))).toMatchObject({ status: 'succeeded' });
  await done(second.tenantId, capture(soon.holdId, { amount: '1.00', final: false }));
  await done(second.tenantId, release(soon.holdId, 'late'));
  const indexed = () => Promise.all([first, second].map(({ tenant }) => count('volumes', tenant)));
  await until(indexed, (counts) => counts.every((each) => each > 0));
  expect(await audit.verified()).toEqual([]);
  expect(await audit.checked()).toEqual([]);
  expect(await audit.rebuilt()).toEqual([]);
});

test('a hold that was due before its import expires after it', async () => {
  const { tenantId } = newTenant();
  const { made } = holdCalls(() => audit.ledger.client);
  for (const accountCode of ['a', 'b'])
    await audit.ledger.client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  await made(tenantId, { command: { case: 'hold', value: { entries: entries('a debit 5.00 NGN', 'b credit 5.00 NGN'), expiresIn: 1n } } });
  const file = await exported(tenantId, 'events');
  const into = newTenant();
  expect(await imported(into.tenantId, file)).toMatchObject({ status: 'succeeded' });
  const held = async () => (await audit.ledger.client.listHolds({ tenantId: into.tenantId, limit: 1 })).holds[0]!.status;
  await until(held, (status) => status === 'expired');
  expect(await audit.verified(into.tenant)).toEqual([]);
});

test('nothing is written of a log that is wrong, and the job names the line', async () => {
  const { tenantId, tenant } = newTenant();
  const lines = text.trimEnd().split('\n');
  const edited = (index: number, edit: (line: any) => void) => {
    const line = JSON.parse(lines[index]!) as object;
    edit(line);
    return lines.with(index, JSON.stringify(line)).join('\n');
  };
  const last = lines.length;
  const redacted = lines.findIndex((line) => line.includes('"redacted_payload"'));
  // A message with an unknown field more is the same to those who read it.
  const kept = Buffer.concat([Buffer.from(JSON.parse(lines[redacted]!).redacted_payload, 'base64'), Buffer.of(0xf8, 0x3f, 1)]).toString(
    'base64',
  );
  const cases: [file: string, line: number | undefined, message: string][] = [
    ['', undefined, 'the export was cut: its last line must be {"end": true, …}'],
    [lines.slice(0, -1).join('\n'), undefined, 'the export was cut'],
    [lines.at(-1)!, 1, 'the export has no events'],
    [`${text}{}`, last + 1, 'nothing may follow the end of the export'],
    [lines.with(2, '{').join('\n'), 3, 'it is no JSON in UTF-8'],
    [lines.with(2, '[]').join('\n'), 3, 'it is no JSON object'],
    [lines.toSpliced(2, 1).join('\n'), 3, 'its sequence is 4, where event 3 must follow'],
    [edited(4, (line) => (line.more = 1)), 5, 'more is not known here'],
    [edited(4, (line) => (line.payload = 'x')), 5, 'payload must be base64'],
    [edited(4, (line) => (line.payload = 'AAAA')), 5, 'payload_hash is not the SHA-256 of payload'],
    [edited(4, (line) => (line.header = ` ${line.header}`)), 5, 'header must be [tenant_id, sequence, id'],
    [
      edited(4, (line) => (line.header = line.header.replace(/,"[^"]*"\]$/, ',"other"]'))),
      5,
      'event 5 does not have the hash of its content',
    ],
    [
      edited(0, (line) => Object.assign(line, { payload: null, redacted_payload: line.payload })),
      1,
      'payload may be null only where a transaction was redacted',
    ],
    [
      edited(4, (line) => (line.header = line.header.replace(/,\d{13},/, `,${Date.now() + 600_000},`))),
      5,
      'it is of a time that is not here yet',
    ],
    [edited(redacted, (line) => (line.redacted_payload = 'AAAA')), redacted + 1, "can't be read"],
    [edited(redacted, (line) => (line.redacted_payload = kept)), last, 'does not have the payload that its last redaction has left'],
    [edited(last - 1, (line) => line.count++), last, `count, sequence and hash must be those of event ${last - 1}`],
    [edited(last - 1, (line) => (line.checkpoint = `a\n${last - 1}\nAAAA\n\n`)), last, `checkpoint is not of ${last - 1} events`],
  ];
  for (const [file, line, message] of cases) {
    const job = await imported(tenantId, file);
    expect([message, job]).toEqual([
      message,
      expect.objectContaining({
        status: 'failed',
        error: expect.objectContaining({
          code: 'import_invalid',
          message: expect.stringContaining(message),
          ...(line !== undefined && { line: BigInt(line) }),
        }),
      }),
    ]);
    for (const table of ['heads', 'log', 'uploads']) expect([table, await count(table, tenant)]).toEqual([table, 0]);
  }
});

test('a tenant with events is refused before the bytes are read, and an upload that ends early leaves nothing', async () => {
  const refused = await refusal(auditor.client.importLog(pieces(source, text.repeat(200)), options));
  expect(refused.reason).toBe('books_not_empty');
  const { tenantId, tenant } = newTenant();
  const cut = async function* () {
    yield* pieces(tenantId, text, 100);
    await until(
      () => count('jobs', tenant),
      (jobs) => jobs === 1,
    );
    throw new Error('gone');
  };
  await expect(auditor.client.importLog(cut(), options)).rejects.toThrow('gone');
  await until(
    () => count('jobs', tenant),
    (jobs) => jobs === 0,
  );
  const small = await startAuditor(audit.ledger.database, { maxImportBytes: 1_000 });
  const tooLarge = await refusal(small.client.importLog(pieces(tenantId, text), options));
  expect([tooLarge.reason, tooLarge.message]).toEqual(['import_invalid', expect.stringContaining('IMPORT_MAX_GIB')]);
  await small.end();
  for (const table of ['jobs', 'uploads']) expect([table, await count(table, tenant)]).toEqual([table, 0]);
});

test('the operator imports a log under its own id, with all its hashes', async () => {
  const other = await openAudit(await freshDatabase('ledger', { migrated: true }));
  const file = join(currentRun().directory, 'log.ndjson');
  writeFileSync(file, text);
  const run = (...args: string[]) => runCommand(other.ledger.database.ownerUrl, 'import-log', ...args);
  const { tenantId } = newTenant();
  expect(run(file, '--tenant', tenantId)).toMatchObject({ status: 3, stderr: expect.stringContaining(`is the log of ${source}`) });
  expect(run(file, '--tenant', source)).toMatchObject({ status: 0, stdout: expect.stringContaining('events imported') });
  expect(run(file, '--tenant', source)).toMatchObject({ status: 3, stderr: expect.stringContaining('the tenant has events already') });
  expect(await other.verified()).toEqual([]);
  const there = await startAuditor(other.ledger.database);
  const parts: Uint8Array[] = [];
  for await (const { bytes } of there.client.export({ tenantId: source, what: 'events', format: 'ndjson' }, options)) parts.push(bytes);
  await there.end();
  await other.end();
  expect(Buffer.concat(parts).toString()).toBe(text);
});
