// What is signed, whatever happens to processes, the database and its rows: never two histories.
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { withClient } from '../../../deploy/local/databases.ts';
import { root as sourceRoot } from '../../../deploy/local/plan.ts';
import { BooksUnfrozenSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, type Audit } from '../../../test/audit.ts';
import { proofOrigin, startAuditor, type RunningAuditor } from '../../../test/auditor.ts';
import { newChildren } from '../../../test/cluster.ts';
import { entries, newTenant, refusal } from '../../../test/ledger.ts';
import { until } from '../../../test/polling.ts';
import { bareEnvironment, currentRun } from '../../../test/run.ts';
import { append, headOf, selectHead, type HeadRow } from '../log.ts';
import { CheckpointFiles } from './checkpoint-files.ts';
import { leafHash, nodeHash } from './merkle.ts';
import { readCheckpoint } from './note.ts';

const directory = mkdtempSync(join(currentRun().directory, 'checkpoints-'));
const files = new CheckpointFiles(directory);
const key = generateKeyPairSync('ed25519').privateKey;
let audit: Audit;
beforeAll(async () => {
  audit = await openAudit();
});
afterAll(() => audit.end());

/** Statements as the superuser, unhindered by triggers and foreign keys. */
const admin = <Row extends object>(...statements: [text: string, values?: unknown[]][]) =>
  withClient(audit.ledger.database.adminUrl, async (client) => {
    await client.query('set session_replication_role = replica');
    let rows: Row[] = [];
    for (const [text, values] of statements) ({ rows } = await client.query<Row>(text, values));
    return rows;
  });

const auditors: RunningAuditor[] = [];
/** An auditor that signs when asked, or in so many milliseconds as well. It ends with the test. */
async function start(signEveryMs?: number): Promise<RunningAuditor> {
  const more = { directory, signingKeys: [key] as [KeyObject], ...(signEveryMs !== undefined && { signEveryMs }) };
  const auditor = await startAuditor(audit.ledger.database, more);
  auditors.push(auditor);
  return auditor;
}
/** Ends all of them. */
const endAuditors = () => Promise.all(auditors.splice(0).map((auditor) => auditor.end()));
afterEach(endAuditors);

async function newBook() {
  const { tenantId, tenant } = newTenant();
  const { client } = audit.ledger;
  for (const accountCode of ['a', 'b']) await client.createAccount({ tenantId, accountCode, name: accountCode, type: 'asset' });
  const post = async () => {
    const { transaction } = await client.postTransaction({
      posting: { tenantId, entries: entries('a debit 1.00 NGN', 'b credit 1.00 NGN') },
    });
    return Number(transaction!.sequence);
  };
  const books = async () => (await client.getBooks({ tenantId })).books!;
  const frozen = () => until(books, ({ status }) => status === 'frozen').then((each) => each.frozen!.reason);
  const checkpoints = () =>
    admin<{ origin: number; size: number; root: Buffer; note: string }>([
      'select origin, size::int as size, root, note from checkpoints where tenant_id = $1 order by origin, checkpoints.size',
      [tenant],
    ]);
  /** Waits until the newest checkpoint has so many events. */
  const signed = (size: number) => until(checkpoints, (all) => all.at(-1)?.size === size);
  return { tenantId, tenant, post, books, frozen, checkpoints, signed };
}

/** All files of a tenant, the newest first. */
const filesOf = (tenantId: string) => files.last(tenantId, 1_000_000);

/** MTH of RFC 6962 over the hashes of a tenant's events. */
async function rootsOf(tenant: string): Promise<(size: number) => Buffer> {
  const rows = await admin<{ hash: Buffer }>(['select hash from log where tenant_id = $1 order by sequence', [tenant]]);
  const complete = new Map<string, Buffer>();
  const mth = (from: number, to: number): Buffer => {
    if (to - from === 1) return leafHash(rows[from]!.hash);
    const name = `${from}-${to}`;
    const middle = from + 2 ** Math.floor(Math.log2(to - from - 1));
    const hash = complete.get(name) ?? nodeHash(mth(from, middle), mth(middle, to));
    complete.set(name, hash);
    return hash;
  };
  return (size) => mth(0, size);
}

/** Ends a freeze as the operator's command does. */
async function unfreeze(tenant: string, rewound: boolean): Promise<void> {
  const [row] = await admin<HeadRow>([`${selectHead} where tenant_id = '${tenant}'`]);
  const head = headOf(row!);
  const payload = toBinary(BooksUnfrozenSchema, create(BooksUnfrozenSchema, { reason: 'repaired', rewound }));
  const event = append(head, { type: 'books.unfrozen', actor: 'k', requestId: '', payload }, Date.now());
  await admin(
    [
      `insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, payload, hash)
        values ($1, $2, $3, $4, to_timestamp($5 / 1000.0), $6, $7, $8, $9)`,
      [tenant, event.sequence, event.eventId, event.type, event.createdMs, event.actor, event.requestId, payload, event.hash],
    ],
    [
      `update heads set sequence = $2, hash = $3, last_at = to_timestamp($4 / 1000.0), frozen_at = null, rebuilt = rebuilt + 1 where tenant_id = $1`,
      [tenant, event.sequence, event.hash, event.createdMs],
    ],
    ['delete from freezes where tenant_id = $1', [tenant]],
  );
}

test('two auditors at once, killed at any moment, sign one history', async () => {
  const { tenantId, tenant, post, checkpoints, signed } = await newBook();
  const children = newChildren();
  const auditor = (name: string) =>
    children.start({
      name,
      command: process.execPath,
      args: ['services/ledger/auditor.ts'],
      cwd: sourceRoot,
      env: {
        ...bareEnvironment,
        DATABASE_URL: audit.ledger.database.auditorUrl,
        INTERNAL_TOKEN: 'token',
        PORT: '0',
        PROOF_ORIGIN: proofOrigin,
        CHECKPOINT_DIR: directory,
        CHECKPOINT_SECONDS: '0.01',
        CHECKPOINT_PRIVATE_KEY: key.export({ format: 'pem', type: 'pkcs8' }) as string,
      },
    });
  const stop = new AbortController();
  const posting = (async () => {
    let last = 0;
    while (!stop.signal.aborted) {
      last = await post();
      await pause(5);
    }
    return last;
  })();
  const hasSigned = (more: number) =>
    until(
      async () => (await checkpoints()).length,
      (count) => count > more,
    );
  for (let kill = 0; kill < 2; kill++) {
    const before = (await checkpoints()).length;
    const pair = [auditor('auditor'), auditor('auditor-2')];
    await hasSigned(before + 3);
    await pause(Math.random() * 100);
    for (const child of pair) child.signal('SIGKILL');
    await Promise.all(pair.map(({ ended }) => ended));
  }
  // What a crash may leave: a file that is named and not yet written, of a checkpoint that no database has.
  stop.abort();
  const size = await posting;
  const rootAt = await rootsOf(tenant);
  if ((await filesOf(tenantId))[0]!.size < size) {
    await files.keep(tenantId, { origin: 1, size, root: rootAt(size) }, '');
  }
  await start(50);
  await signed(size);
  await children.end();
  const rows = await checkpoints();
  const kept = await filesOf(tenantId);
  expect(rows.length).toBeGreaterThan(6);
  for (const each of [...rows, ...kept]) expect([each.size, each.root]).toEqual([each.size, rootAt(each.size)]);
  for (const { note, size: own } of rows) expect(readCheckpoint(note)).toMatchObject({ origin: `${proofOrigin}/${tenantId}`, size: own });
  // Each was on the disk before it was in the database.
  const names = new Set(kept.map((each) => each.size));
  expect(rows.filter((each) => !names.has(each.size))).toEqual([]);
  expect(readdirSync(join(directory, tenantId))).toEqual(['000001']);
});

test('a database restored to yesterday signs nothing and is frozen, until the operator accepts it under another origin', async () => {
  const [moved, idle, untouched] = [await newBook(), await newBook(), await newBook()];
  await start(50);
  await untouched.signed(2);
  await moved.signed(2);
  await endAuditors();
  const tables = await admin<{ name: string }>([
    `select relname as name from pg_class c where relnamespace = 'public'::regnamespace and relkind = 'r'
      and exists (select from pg_attribute where attrelid = c.oid and attname = 'tenant_id')`,
  ]);
  await admin(['create schema kept'], ...tables.map(({ name }): [string] => [`create table kept.${name} as select * from public.${name}`]));

  await start(50);
  for (const book of [moved, idle]) {
    await book.post();
    await book.signed(3);
  }
  await endAuditors();
  await admin(
    ...tables.map(({ name }): [string] => [`delete from public.${name}`]),
    ...tables.map(({ name }): [string] => [`insert into public.${name} select * from kept.${name}`]),
    ['update heads set rebuilt = rebuilt + 1000'],
  );
  // Another history from here on: as long as the one that was lost, and shorter.
  await moved.post();
  const { client } = await start(50);
  expect(await moved.frozen()).toBe('a checkpoint of 3 events was signed, and the log has other events now');
  expect(await idle.frozen()).toBe('a checkpoint of 3 events was signed, and the log ends at event 2');
  for (const { checkpoints } of [moved, idle]) expect((await checkpoints()).map(({ size }) => size)).toEqual([2]);
  // What was signed before is proved all the same.
  const prove = (tenantId: string, value: bigint) => client.getProof({ tenantId, event: { case: 'sequence', value } });
  expect((await prove(moved.tenantId, 2n)).proof!.path).toHaveLength(1);
  expect(await refusal(prove(moved.tenantId, 3n))).toMatchObject({ reason: 'books_frozen' });
  expect((await untouched.books()).status).toBe('active');
  await untouched.post();
  await untouched.signed(3);

  await unfreeze(moved.tenant, false);
  expect(await moved.frozen()).toBe('a checkpoint of 3 events was signed, and the log has other events now');
  await unfreeze(moved.tenant, true);
  await moved.signed(5);
  await moved.post();
  await moved.signed(6);
  const all = await moved.checkpoints();
  expect(all.map(({ origin, size }) => [origin, size])).toEqual([
    [1, 2],
    [2, 5],
    [2, 6],
  ]);
  expect(readCheckpoint(all[1]!.note).origin).toBe(`${proofOrigin}/${moved.tenantId}/2`);
  const { keys } = await client.listCheckpointKeys({ tenantId: moved.tenantId });
  expect(keys.map(({ vkey, retiredMs }) => [vkey.split('+')[0], retiredMs !== undefined])).toEqual([
    [`${proofOrigin}/${moved.tenantId}/2`, false],
    [`${proofOrigin}/${moved.tenantId}`, true],
  ]);
});

test('an owner who writes the log anew, with its chain and its tree, gets no signature', async () => {
  const { tenantId, tenant, post, frozen, signed, checkpoints } = await newBook();
  await post();
  const auditor = await start();
  await auditor.client.getCheckpoint({ tenantId });
  await signed(3);
  await audit.forge(tenant, (posted) => (posted.description = 'forged'));
  const forget = ['checkpoints', 'trees', 'tiles'].map((name): [string] => [`delete from ${name} where tenant_id = '${tenant}'`]);
  await admin(...forget, [
    `update heads set rebuilt = rebuilt + 1, hash = (select hash from log where tenant_id = heads.tenant_id and sequence = 3) where tenant_id = '${tenant}'`,
  ]);
  const get = () => refusal(auditor.client.getCheckpoint({ tenantId }));
  expect(await get()).toMatchObject({ reason: 'books_frozen' });
  expect(await frozen()).toBe('a checkpoint of 3 events was signed, and the log has other events now');
  expect(await get()).toMatchObject({ reason: 'books_frozen', message: 'the books are frozen, and nothing is signed' });
  expect(await checkpoints()).toEqual([]);
  expect(await filesOf(tenantId)).toHaveLength(1);
});

test('another database that signs into the same files freezes this one', async () => {
  const { tenantId, post, frozen, checkpoints } = await newBook();
  const auditor = await start();
  await auditor.client.getCheckpoint({ tenantId });
  await files.keep(tenantId, { origin: 1, size: 3, root: Buffer.alloc(32) }, 'of a copy');
  await post();
  const sequence = { case: 'sequence' as const, value: 3n };
  expect(await refusal(auditor.client.getProof({ tenantId, event: sequence }))).toMatchObject({ reason: 'books_frozen' });
  expect(await frozen()).toContain('a checkpoint of 3 events was signed');
  expect((await checkpoints()).map(({ size }) => size)).toEqual([2]);
});

test('where no file can be kept nothing is signed, and callers are told to try later', async () => {
  const { tenantId, books, checkpoints } = await newBook();
  const file = join(directory, 'no-directory');
  writeFileSync(file, '');
  const auditor = await startAuditor(audit.ledger.database, { directory: file });
  auditors.push(auditor);
  expect(await refusal(auditor.client.getCheckpoint({ tenantId }))).toMatchObject({ reason: 'unavailable' });
  expect([await checkpoints(), (await books()).status]).toEqual([[], 'active']);
});

test.each([
  ['a payload', `payload = payload || '\\x00'`, 'event 4: its hash does not follow from its content and from the event before'],
  ['an actor', `actor = 'someone else'`, 'event 4: its hash does not follow from its content and from the event before'],
  ['a sequence', 'sequence = 40', 'event 4 is missing in the log'],
])('%s that was changed before the tree had it freezes that tenant alone', async (_, change, reason) => {
  const [book, other] = [await newBook(), await newBook()];
  for (let event = 3; event <= 5; event++) await book.post();
  await admin([`update log set ${change} where tenant_id = $1 and sequence = 4`, [book.tenant]]);
  await other.post();
  await start(50);
  expect(await book.frozen()).toBe(reason);
  await other.signed(3);
  expect((await other.books()).status).toBe('active');
  expect((await book.checkpoints()).filter(({ size }) => size > 3)).toEqual([]);
});

test('of old days each key’s last checkpoint stays', async () => {
  const { tenant, post, checkpoints, signed } = await newBook();
  await start(50);
  await signed(2);
  // Three a day, the last at 16:00; the youngest is of yesterday.
  const copies = `insert into checkpoints select tenant_id, 0, 60 - n, root, note, key_id, date_trunc('day', now(), 'UTC') - (n + 1) * interval '8 hours'
    from checkpoints, generate_series(0, 59) n where tenant_id = $1 and checkpoints.size = 2`;
  await admin([copies, [tenant]]);
  // Once a day for each process.
  await endAuditors();
  await start(50);
  await post();
  const left = await until(checkpoints, (all) => all.length < 50);
  const ages = left.flatMap(({ origin, size }) => (origin === 0 ? [60 - size] : [])).reverse();
  expect(ages.filter((n) => n < 20)).toEqual(Array.from({ length: 20 }, (_, n) => n));
  expect(ages.filter((n) => n > 24)).toEqual([27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57]);
});
