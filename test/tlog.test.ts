// The log through its routes, read by a public client of transparency logs, with witnesses who cosign its checkpoints.
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../deploy/local/plan.ts';
import { startCheckedCluster, type CheckedCluster } from './contract.ts';
import { deposit, newWallet, type Customer } from './customer.ts';
import { until } from './polling.ts';
import { currentRun } from './run.ts';
import { startWitness, type TestWitness } from './witness.ts';

let witnesses: [TestWitness, TestWitness];
let cluster: CheckedCluster;
let customer: Customer;
let vkey: string;
const directory = mkdtempSync(join(currentRun().directory, 'tlog-'));

beforeAll(async () => {
  witnesses = await Promise.all([startWitness('witness.example/one'), startWitness('witness.example/two')]);
  const lines = witnesses.map(({ line }) => `${line}\n`).join('# an auditor of ours\n');
  const auditor = { CHECKPOINT_SECONDS: '0.2', WITNESSES: lines, CHECKPOINT_DIR: directory, PROOF_ORIGIN: 'ledger.example.com/test' };
  cluster = await startCheckedCluster({ environment: { auditor } });
  customer = await newWallet(cluster);
  const { keys } = await customer.get('tlog/keys');
  expect(keys).toEqual([{ vkey: expect.stringContaining(`ledger.example.com/test/${customer.tenant.id}+`), retired_at: null }]);
  vkey = keys[0].vkey;
  for (const witness of witnesses) witness.trust(vkey);
});
afterAll(async () => {
  await cluster.stop();
  await Promise.all(witnesses.map((each) => each.close()));
});

const read = (path: string, method = 'GET') => cluster.rest(method, customer.at(path), { key: customer.key });
const ready = async () => (await fetch(`${cluster.opsUrl('auditor')}/readyz`)).json() as Promise<Record<string, any>>;

/** The newest checkpoint, when it has so many events and cosignatures. */
const checkpointOf = (size: number, cosignatures: number) =>
  until(
    async () => (await read('tlog/checkpoint')).body as string,
    (note) => note.split('\n')[1] === String(size) && note.match(/^— /gm)!.length === 1 + cosignatures,
  );

test('a proof is JSON or a text of C2SP, of a transaction or of its event, and what is none is refused', async () => {
  const { transaction } = (await customer.post('transactions/double-entry', deposit())).body.data;
  const { transaction_id: transactionId, sequence } = transaction;
  const { proof } = await customer.get(`transactions/${transactionId}/proof`);
  expect(await customer.get(`events/${sequence}/proof?format=json`)).toEqual({ proof });
  const [event] = (await customer.get(`events?after_sequence=${sequence - 1}&limit=1`)).events;
  expect([proof.sequence, proof.hash, proof.previous_hash]).toEqual([sequence, event.hash, event.previous_hash]);
  const { headers, body } = await read(`transactions/${transactionId}/proof?format=tlog-proof`);
  expect(headers.get('content-type')).toBe('text/plain; charset=utf-8');
  const { header, payload, payload_hash, previous_hash, path, checkpoint } = proof;
  const extra = Buffer.from(JSON.stringify({ header, payload, payload_hash, previous_hash })).toString('base64');
  expect(body).toBe(['c2sp.org/tlog-proof@v1', `extra ${extra}`, `index ${sequence - 1}`, ...path, '', checkpoint].join('\n'));
  for (const [asked, status, code, field] of [
    ['events/0/proof', 400, 'validation_failed', 'sequence'],
    ['events/x/proof', 400, 'validation_failed', 'sequence'],
    ['events/999999/proof', 404, 'event_not_found', undefined],
    ['transactions/txn_1/proof', 400, 'validation_failed', 'transaction_id'],
    ['transactions/txn_01jd1zq5v8e6n9w2k4m7p3r5t8/proof', 404, 'transaction_not_found', undefined],
    [`events/1/proof?format=csv`, 400, 'validation_failed', 'format'],
    ['tlog/consistency?old=0&new=1', 400, 'validation_failed', 'old'],
    ['tlog/consistency?old=1', 400, 'validation_failed', 'new'],
    ['tlog/consistency?old=2&new=1', 400, 'validation_failed', 'old'],
    ['tlog/consistency?old=1&new=999999', 400, 'validation_failed', 'new'],
  ] as const) {
    const answer = await read(asked);
    expect([asked, answer.status, answer.body.code, answer.body.details?.field]).toEqual([asked, status, code, field]);
  }
  const empty = await cluster.tenant();
  const none = await cluster.rest('GET', `/v1/tenants/${empty.slug}/tlog/checkpoint`, { key: await cluster.apiKey(empty) });
  expect([none.status, none.body.code]).toEqual([404, 'event_not_found']);
});

// Without Go, or a network for its modules, this is skipped by name.
const program = join(directory, 'tlog-client');
const hasGo = spawnSync('go', ['build', '-o', program, '.'], { cwd: join(root, 'test/tlog-client'), timeout: 300_000 }).status === 0;
if (!hasGo) process.stderr.write('the test with a public client of logs is skipped: go or its modules are missing\n');

describe('with more events than a tile has', () => {
  let size: number;
  beforeAll(async () => {
    const items = Array.from({ length: 300 }, (_, index) => ({ op: 'double', idempotency_key: `deposit-${index}`, ...deposit() }));
    const { body } = await customer.post('transactions/batch', { items });
    size = Math.max(...body.data.results.map((each: any) => each.data.transaction.sequence as number));
    await checkpointOf(size, 2);
  });

  (hasGo ? test : test.skip)('a public client accepts checkpoints, cosignatures, tiles, entries, proofs and consistency', async () => {
    const url = cluster.url + customer.at('').replace(/\/$/, '');
    const args = [url, vkey, ...witnesses.map((witness) => witness.vkey)];
    const { stdout } = await promisify(execFile)(program, args, { env: { ...process.env, LEDGER_KEY: customer.key, NO_PROXY: '*' } });
    expect(stdout).toBe(
      `checkpoint of 2 witnesses\ntiles of ${size} leaves\nproofs of ${Math.ceil(size / 5)} events\nconsistency of 45 pairs\n`,
    );
  });

  test('tiles are read by plain and by encoded paths, are kept by their reader, and are none elsewhere', async () => {
    const width = size - 256;
    const bytes = async (path: string) => {
      const answer = await fetch(cluster.url + customer.at(path), { headers: { authorization: `Bearer ${customer.key}` } });
      expect([path, answer.status, answer.headers.get('content-type')]).toEqual([path, 200, 'application/octet-stream']);
      expect(answer.headers.get('cache-control')).toBe('private, max-age=86400');
      return Buffer.from(await answer.arrayBuffer());
    };
    expect((await bytes('tlog/tile/0/000')).length).toBe(8192);
    expect((await bytes(`tlog/tile/0/001.p/${width}`)).equals(await bytes(`tlog/tile/0/001.p%2F${width}`))).toBe(true);
    expect((await bytes('tlog/tile/1/000.p/1')).length).toBe(32);
    expect((await bytes(`tlog/tile/entries/001.p/${width}`)).length).toBe(34 * width);
    expect((await read('tlog/tile/0/000', 'HEAD')).status).toBe(200);
    for (const path of [
      '0/0',
      '0/000.p/0',
      '0/000.p/256',
      `0/001.p/${width + 1}`,
      '0/001',
      '2/000',
      '64/000',
      'x/000',
      '00/000',
      '0/x000/000',
    ]) {
      const answer = await read(`tlog/tile/${path.replaceAll('/', (slash, at: number) => (at === path.indexOf('/') ? slash : '%2F'))}`);
      expect([path, answer.status, answer.body.code]).toEqual([path, 404, 'tile_not_found']);
    }
  });

  test('each checkpoint is a file', () => {
    const files = readdirSync(join(directory, customer.tenant.id), { recursive: true }).map(String);
    expect(files.filter((file) => file.includes(`/${String(size).padStart(15, '0')}-`))).toHaveLength(1);
  });
});

test('without witnesses the auditor is degraded and nothing else, until they are back', async () => {
  await until(ready, ({ status }) => status === 'ok');
  for (const witness of witnesses) witness.fault = 'unavailable';
  const { status, body } = await customer.post('transactions/double-entry', deposit());
  expect(status).toBe(201);
  const degraded = await until(ready, (state) => state['status'] !== 'ok');
  expect(degraded).toEqual({ status: 'degraded', dependencies: { postgresql: 'ok', witnesses: 'degraded' } });
  await checkpointOf(body.data.transaction.sequence, 0);
  for (const witness of witnesses) witness.fault = undefined;
  await checkpointOf(body.data.transaction.sequence, 2);
  await until(ready, (state) => state['status'] === 'ok');
});
