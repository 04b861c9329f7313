// The kit against our own cluster, and against ledgers with a flaw that it must find.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../deploy/local/plan.ts';
import type { Cluster } from '../cluster.ts';
import { sharedCluster } from '../shared-cluster.ts';
import { currentRun } from '../run.ts';
import { checkLedger, checks } from './check-ledger.ts';
import { memoryLedger, type Flaw } from './memory-ledger.ts';

const names = (findings: Awaited<ReturnType<typeof checkLedger>>, outcome: string) =>
  findings.filter((each) => each.outcome === outcome).map(({ check }) => check.name);

/** Each flaw, and the check that finds it. */
const caught: Record<Flaw, string> = {
  'forgets keys': 'repeated in sequence',
  'answers a repetition with a new id': 'same answer',
  'looks a key up before it waits': 'repeated in parallel',
  'replays whatever the body is': 'key with another body',
  'keeps no key after a refusal': 'key after a refusal',
  'keeps a key only once it has answered': 'connection lost',
  'refuses what crosses': 'crossing, answered',
  'writes a balance that it read before it waits': 'crossing, exact',
  'keeps one balance for all currencies': 'random load',
  'looks at the floor before it waits': 'never below zero',
  'takes entries that do not balance': 'unbalanced entries',
  'writes one side before the other': 'one moment',
  'lists a change twice': 'history',
  'counts in doubles': 'large amounts',
  'counts in fractions of doubles': 'decimals',
  'spends what is held': 'held money',
  'looks at a hold before it waits': 'one end',
  'keeps what a last capture leaves': 'captured in parts',
  'adds refunds up after it waits': 'refunds in parts',
  'posts what it can of what belongs together': 'all or none',
};

describe('a ledger in memory', () => {
  test('passes every check without a flaw', async () => {
    const findings = await checkLedger(memoryLedger(), { seed: 1 });
    expect(findings.flatMap(({ check, seen }) => seen.map((each) => `${check.name}: ${each}`))).toEqual([]);
    expect(names(findings, 'ok')).toEqual(checks.map(({ name }) => name));
  });

  test.each(Object.entries(caught))('that %s fails "%s"', async (flaw, name) => {
    const findings = await checkLedger(memoryLedger(flaw as Flaw), { seed: 1 });
    expect(names(findings, 'broken')).toContain(name);
  });

  test('is caught by each of the checks', () => {
    expect([...new Set(Object.values(caught))].sort()).toEqual(checks.map(({ name }) => name).sort());
  });

  test('passes nothing that it does not offer, or that could not be carried out', async () => {
    const without = { ...memoryLedger(), lacks: { replay: 'a repetition is refused' } };
    const findings = await checkLedger(without, { seed: 1 });
    expect(names(findings, 'not offered')).toEqual(['same answer']);
    const closed = { ...memoryLedger(), prepare: () => Promise.reject(new Error('no account can be opened')) };
    expect(names(await checkLedger(closed, { seed: 1 }), 'broken')).toEqual(checks.map(({ name }) => name));
  });
});

describe('the kit', () => {
  let cluster: Cluster;
  // A copy elsewhere, without the rest of this repository.
  const copy = mkdtempSync(join(currentRun().directory, 'conformance-'));
  const run = (args: string[]) =>
    new Promise<{ status: number | null; output: string }>((resolve) => {
      const child = spawn(process.execPath, ['main.ts', ...args], { cwd: copy, env: { PATH: process.env['PATH'], TMPDIR: copy } });
      let output = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.once('close', (status) => resolve({ status, output }));
    });

  beforeAll(async () => {
    cpSync(join(root, 'test/conformance'), copy, { recursive: true, filter: (path) => !path.endsWith('.test.ts') });
    cluster = await sharedCluster();
  }, 120_000);
  afterAll(() => cluster.stop());

  test('finds nothing broken in our own cluster, from a copy without the rest of the repository', async () => {
    const { status, output } = await run(['--adapter', 'ours', '--url', cluster.url, '--seed', '1']);
    expect(output).toContain('seed 1\n');
    expect(output).toContain(`${checks.length} ok, 0 broken, 0 not offered`);
    expect(status).toBe(0);
  }, 180_000);

  test('exits with 1 and writes the requests where something is broken', async () => {
    // An adapter that sends every posting under a new key.
    const adapter = `
      import { open as ours } from './ours.ts';
      export const open = async (place) => {
        const ledger = await ours(place);
        return { ...ledger, prepare: async (want) => {
          const book = await ledger.prepare(want);
          let posts = 0;
          const post = book.post;
          book.post = (transfer, cutAfter) => post({ ...transfer, key: transfer.key + '-' + posts++ }, cutAfter);
          return book;
        } };
      };`;
    writeFileSync(join(copy, 'keyless.ts'), adapter);
    const { status, output } = await run(['--adapter', 'keyless.ts', '--url', cluster.url, '--check', 'repeated in sequence']);
    expect(output).toContain('0 ok, 1 broken, 0 not offered');
    expect(output).toMatch(/the second request was answered 201 \(created\).*FREE-1 has/);
    expect(status).toBe(1);
    const directory = readdirSync(copy).find((name) => name.startsWith('conformance-'))!;
    const script = join(copy, directory, 'repeated-in-sequence.sh');
    const before = readFileSync(script, 'utf8');
    expect(before.match(/^curl .*double-entry.*# 201 /gm)).toHaveLength(3);
    // When the script runs, each posting is a replay.
    const again = spawnSync('bash', [script], { encoding: 'utf8' });
    expect(again.status).toBe(0);
    expect(again.stdout.match(/"transaction_id"/g)).toHaveLength(3);
  }, 120_000);

  test('exits with 2 where there is no ledger', async () => {
    const { status, output } = await run(['--adapter', 'ours', '--url', 'http://127.0.0.1:9']);
    expect(output).toContain('no answer');
    expect(status).toBe(2);
  });
});
