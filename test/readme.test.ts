// The README's commands are run as they stand there: a stranger copies them.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { endWithParent } from '../deploy/local/children.ts';
import { root } from '../deploy/local/plan.ts';
import { testPort } from './cluster.ts';
import { bareEnvironment, currentRun } from './run.ts';

// Some of these start the cluster again and again, or ask it for much, which a busy machine needs minutes for.
jest.setTimeout(180_000);

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const directory = mkdtempSync(join(currentRun().directory, 'readme-'));
const shellVariables = join(directory, 'shell-variables');
const ports: Record<string, string> = {};
let cluster: ChildProcess;

/** The ```sh blocks under the first heading that matches, up to the next heading. */
function commands(heading: RegExp): string {
  // Blocks hold lines that begin with `#`, so they are taken apart first.
  const parts = readme.split(/^(```[a-z]*\n[\s\S]*?^```$)/m);
  let isThere = false;
  const blocks: string[] = [];
  for (const part of parts) {
    if (part.startsWith('```')) {
      if (isThere && part.startsWith('```sh\n')) blocks.push(part.slice('```sh\n'.length, -'```'.length));
      continue;
    }
    for (const [, title = ''] of part.matchAll(/^#+ (.*)$/gm)) isThere = blocks.length === 0 && heading.test(title);
  }
  return blocks.join('');
}

/** Runs commands in one shell that stops at the first failure; only the addresses and the data directory are those of this test's cluster. */
function run(script: string): string {
  const own = Object.entries(ports).reduce((text, [port, mine]) => text.replaceAll(`:${port}`, `:${mine}`), script);
  const shell = spawnSync('bash', ['-euc', own.replaceAll('.data/', `'${directory}'/`)], { cwd: root, encoding: 'utf8' });
  if (shell.status !== 0) throw new Error(`status ${String(shell.status)}: ${shell.stdout}${shell.stderr}`);
  return shell.stdout;
}

const has = (program: string) => spawnSync(program, ['--version']).error === undefined;
const testWith = (program: string) => (has(program) ? test : test.skip);

beforeAll(async () => {
  for (const port of ['8080', '50051', '50052']) ports[port] = String(await testPort());
  const env = {
    ...bareEnvironment,
    HOME: process.env['HOME'],
    DATA_DIR: directory,
    PORT: ports['8080'],
    IDENTITY_ADDR: `127.0.0.1:${String(ports['50051'])}`,
    LEDGER_ADDR: `127.0.0.1:${String(ports['50052'])}`,
  };
  const [file = '', ...args] = endWithParent('SIGTERM', ['node', 'deploy/local/start.ts']);
  cluster = spawn(file, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise<void>((resolve, reject) => {
    cluster.stdout?.on('data', (chunk: Buffer) => {
      if (/^ready /m.test(chunk.toString())) resolve();
    });
    cluster.once('exit', () => reject(new Error('npm start has ended')));
  });
});

afterAll(async () => {
  const ended = new Promise((resolve) => cluster.once('exit', resolve));
  if (cluster.exitCode === null && cluster.kill('SIGTERM')) await ended;
  rmSync(directory, { recursive: true, force: true });
});

describe('the README', () => {
  test('begins with two commands', () => {
    expect(readme).toMatch(/^npm start$/m);
    expect(readme).toMatch(/^npm test$/m);
  });

  testWith('curl')('leads a stranger to his first posting and its balance with at most seven commands', () => {
    const script = commands(/^A first posting/);
    expect(script.match(/\bcurl\b/g)?.length).toBeLessThanOrEqual(7);
    const answers = run(`set -a\n${script}\n{ export -p; declare -f; } > ${shellVariables}`);
    expect(answers).not.toMatch(/"success": ?false/);
    // The balance comes last, and something has been posted.
    const balance = /"balance": ?"(-?[0-9]+\.[0-9]{2})"(?![\s\S]*"balance": ?")/.exec(answers)?.[1];
    expect(Number(balance)).not.toBe(0);
    expect(Number(balance)).not.toBeNaN();
  });

  testWith('grpcurl')('shows a posting by grpcurl that works', () => {
    const script = commands(/gRPC/);
    expect(script).toMatch(/grpcurl/);
    // It may use what the first posting has left in the shell.
    expect(run(`if [ -e ${shellVariables} ]; then . ${shellVariables}; fi\n${script}`)).toMatch(/"transactionId": ?"txn_/);
  });

  testWith('curl')('shows how a webhook is configured, whose secret is told', () => {
    const script = commands(/^Receiving webhooks/);
    expect(run(`. ${shellVariables}\n${script}`)).toMatch(/"secret": ?"whsec_/);
  });
});
