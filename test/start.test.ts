// `npm start` as a user sees it: what it prints, how it ends, and that nothing is left running.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { endWithParent } from '../deploy/local/children.ts';
import { savedDatabases, withClient } from '../deploy/local/databases.ts';
import { root } from '../deploy/local/plan.ts';
import { testPort } from './cluster.ts';
import { bareEnvironment, currentRun, dropDatabases } from './run.ts';

jest.setTimeout(180_000);

// In the environment of every process that is started here.
const mark = randomUUID();
const directory = mkdtempSync(join(currentRun().directory, 'start-'));
const dataDirectory = join(directory, 'datos ñ 数据');
let environment: NodeJS.ProcessEnv;

const unknownRoleUrl = Object.assign(new URL(currentRun().adminUrl), { username: 'unknown', password: 'wrong' });

interface Start {
  process: ChildProcess;
  /** What it has printed so far, on both streams. */
  output: () => string;
  errors: () => string[];
  /** Resolves with the address of the `ready` line, rejects if the process ends before. */
  ready: Promise<string>;
  ended: Promise<number | null>;
}

function start(more: NodeJS.ProcessEnv = {}, command = ['node', 'deploy/local/start.ts']): Start {
  const [file = '', ...args] = endWithParent('SIGTERM', command);
  // A process group of its own, as from a shell.
  const child = spawn(file, args, { cwd: root, env: { ...environment, ...more }, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, errors] = ['', ''];
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const ready = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      const address = /^ready (.*)$/m.exec(out)?.[1];
      if (address !== undefined) resolve(address);
    });
    void ended.then((status) => reject(new Error(`ended with ${String(status)}: ${out}${errors}`)));
  });
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  ready.catch(() => undefined);
  const lines = () => errors.split('\n').filter((line) => line !== '' && !line.startsWith('npm warn'));
  return { process: child, output: () => out + errors, errors: lines, ready, ended };
}

/** Running processes that this file has started. */
function left(): { pid: number; command: string }[] {
  const read = (file: string) => {
    try {
      return readFileSync(file, 'latin1');
    } catch {
      return '';
    }
  };
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0)
    .map((pid) => ({ pid, command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ') }))
    .filter(({ pid, command }) => read(`/proc/${pid}/environ`).includes(mark) || command.includes(directory));
}

async function nothingLeft(): Promise<void> {
  // After a killed parent the kernel needs a moment.
  for (const until = Date.now() + 45_000; left().length > 0 && Date.now() < until;) await pause(50);
  expect(left()).toEqual([]);
}

function killAll(): void {
  for (const { pid } of left()) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended with its parent.
    }
  }
}

function pidOf(part: string): number {
  const found = left().find(({ command }) => command.includes(part));
  if (!found) throw new Error(`nothing runs with ${part}`);
  return found.pid;
}

/** Registers the user, or logs in; resolves to the status. */
async function auth(address: string, route: 'login' | 'register'): Promise<number> {
  const names = route === 'register' ? { first_name: 'Ada', last_name: 'L' } : {};
  const body = JSON.stringify({ email: 'ada@example.com', password: 'a long password', ...names });
  return (await fetch(`${address}/v1/auth/${route}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).status;
}

/** Expects status 1 and one matching line on standard error. */
async function expectRefusal(attempt: Start, line: RegExp): Promise<void> {
  expect(await attempt.ended).toBe(1);
  expect(attempt.errors()).toEqual([expect.stringMatching(line)]);
}

const addresses = async (): Promise<NodeJS.ProcessEnv> => ({
  PORT: String(await testPort()),
  IDENTITY_ADDR: `127.0.0.1:${await testPort()}`,
  LEDGER_ADDR: `127.0.0.1:${await testPort()}`,
  NOTIFIER_ADDR: `127.0.0.1:${await testPort()}`,
  AUDITOR_ADDR: `127.0.0.1:${await testPort()}`,
});

beforeAll(async () => {
  environment = {
    ...bareEnvironment,
    HOME: process.env['HOME'],
    LEDGER_TEST_MARK: mark,
    // Variables for other servers must not interfere.
    PGSSLMODE: 'require',
    PGOPTIONS: '-c default_transaction_read_only=on',
    NODE_USE_ENV_PROXY: '1',
    http_proxy: 'http://127.0.0.1:9',
    DATA_DIR: dataDirectory,
    ...(await addresses()),
  };
});

afterAll(async () => {
  killAll();
  await nothingLeft();
  rmSync(directory, { recursive: true, force: true });
});

// In order, on one data directory: each start finds what the one before has left.
describe('npm start', () => {
  test('prints its address when ready, and ends with 0 on SIGTERM', async () => {
    const cluster = start({}, ['npm', 'start']);
    const address = await cluster.ready;
    expect(address).toBe(`http://127.0.0.1:${String(environment['PORT'])}`);
    expect(await auth(address, 'register')).toBe(201);
    for (const file of ['secrets.json', 'databases.json', 'lock']) expect(statSync(join(dataDirectory, file)).mode & 0o077).toBe(0);
    cluster.process.kill('SIGTERM');
    expect(await cluster.ended).toBe(0);
    expect(cluster.errors()).toEqual([]);
    await nothingLeft();
  });

  test('ends with 0 when it is interrupted before it is ready', async () => {
    const cluster = start();
    while (cluster.output() === '') await pause(10);
    cluster.process.kill('SIGINT');
    expect([await cluster.ended, cluster.errors()]).toEqual([0, []]);
    await nothingLeft();
  });

  test.each([
    ['PORT', 'abc', /^PORT must be a whole number/],
    ['MIGRATION_DATABASE_URL', unknownRoleUrl.href, /^MIGRATION_DATABASE_URL: password authentication failed/],
    ['JWT_PRIVATE_KEY', 'secret', /JWT_PRIVATE_KEY must be/],
    ['DATA_DIR', join(root, 'package.json'), /^DATA_DIR .* is no directory that can be written to/],
  ])('refuses %s=%s in one line', async (name, value, line) => {
    await expectRefusal(start({ [name]: value }), line);
    await nothingLeft();
  });

  let running: Start;

  test('finds its data again, as do the operator’s commands', async () => {
    running = start({}, ['npm', 'start']);
    expect(await auth(await running.ready, 'login')).toBe(200);
    for (const [service, output] of [
      ['ledger', '0 dead letters due: the ledger that runs publishes them\n'],
      ['notifier', '0 redriven, 0 left\n'],
    ] as const) {
      const command = start({}, ['npm', 'run', '--silent', service, '--', 'redrive']);
      expect([await command.ended, command.output()]).toEqual([0, output]);
    }
  });

  test('refuses a data directory or a port that another npm start uses', async () => {
    await expectRefusal(start(await addresses()), /^DATA_DIR: .* is in use by another npm start \(process [0-9]+\)$/);
    await expectRefusal(start({ DATA_DIR: join(directory, 'other') }), /^PORT can't be .*: it is in use$/);
    expect(await auth(await running.ready, 'login')).toBe(200);
  });

  test('stops after npm alone was killed, so that a new start finds the data, and lets data of an older version use all features', async () => {
    await withClient(savedDatabases(dataDirectory)['ledger']!.ownerUrl, (client) => client.query('delete from enabled'));
    process.kill(running.process.pid!, 'SIGKILL');
    running = start();
    expect(await auth(await running.ready, 'login')).toBe(200);
    const command = start({}, ['npm', 'run', '--silent', 'ledger', '--', 'enable', 'payments', 'books', 'proof']);
    expect([await command.ended, command.output()]).toEqual([
      0,
      'payments are enabled already\nbooks are enabled already\nproof are enabled already\n',
    ]);
  });

  test('recovers on the same data after everything was killed', async () => {
    killAll();
    await running.ended;
    running = start();
    expect(await auth(await running.ready, 'login')).toBe(200);
  });

  test('starts at once after npm start alone was killed, and ends what that left running', async () => {
    const before = left().map(({ pid }) => pid);
    process.kill(running.process.pid!, 'SIGKILL');
    running = start();
    expect(await auth(await running.ready, 'login')).toBe(200);
    expect(left().filter(({ pid }) => before.includes(pid))).toEqual([]);
  });

  test('names the process that has died and stops the others', async () => {
    process.kill(pidOf('services/ledger/main.ts'), 'SIGKILL');
    await expectRefusal(running, /^ledger ended \(SIGKILL\)$/);
    await nothingLeft();
  });

  // On a server given for the tests, these databases could exist.
  (process.env['MIGRATION_DATABASE_URL'] === undefined ? test : test.skip)(
    'uses a given server as a role that may create databases and roles, also when its own passwords were lost, and ends with 0 on Ctrl-C',
    async () => {
      const { adminUrl } = currentRun();
      const url = new URL(adminUrl);
      [url.username, url.password] = ['start_admin', 'secret'];
      await withClient(adminUrl, (client) => client.query(`create role start_admin login createdb createrole password 'secret'`));
      try {
        for (const [name, route, status] of [
          ['first', 'register', 201],
          ['second', 'login', 200],
        ] as const) {
          const cluster = start({ MIGRATION_DATABASE_URL: url.href, DATA_DIR: join(directory, name) }, ['npm', 'start']);
          const address = await cluster.ready;
          expect(cluster.output()).not.toMatch(/PostgreSQL/);
          const { rows } = await withClient(adminUrl, (client) =>
            client.query(`select has_database_privilege('identity_service', 'ledger', 'connect') as may`),
          );
          expect(rows).toEqual([{ may: false }]);
          expect(await auth(address, route)).toBe(status);
          process.kill(-cluster.process.pid!, 'SIGINT');
          expect([await cluster.ended, cluster.errors()]).toEqual([0, []]);
        }
      } finally {
        await dropDatabases(adminUrl, ['identity', 'ledger'], []);
        await withClient(adminUrl, async (client) => {
          for (const role of ['identity_service', 'ledger_service', 'identity_owner', 'ledger_owner', 'start_admin']) {
            await client.query(`drop owned by ${role}`).catch(() => undefined);
            await client.query(`drop role if exists ${role}`);
          }
        });
      }
    },
  );
});
