// The command line as a user runs it: an installed package of one file against a running deployment.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import { Context } from '../gateway/cli/context.ts';
import { operations } from '../gateway/cli/operations.ts';
import { everyCommand, programOf } from '../gateway/cli/program.ts';
import { root } from '../deploy/local/plan.ts';
import type { Cluster } from './cluster.ts';
import { installCommandLine, type CommandLine } from './command-line.ts';
import { newWallet, type Customer } from './customer.ts';
import { until } from './polling.ts';
import { openProxy } from './proxy.ts';
import { bareEnvironment } from './run.ts';
import { sharedCluster } from './shared-cluster.ts';

jest.setTimeout(120_000);

let cluster: Cluster;
let commands: CommandLine;
let customer: Customer;
/** As a service with an API key runs it. */
let withKey: NodeJS.ProcessEnv;

beforeAll(async () => {
  cluster = await sharedCluster();
  commands = installCommandLine();
  customer = await newWallet(cluster);
  withKey = commands.environment({ LEDGER_URL: cluster.url, LEDGER_TENANT: customer.tenant.slug, LEDGER_API_KEY: customer.key });
});

const deposit = ['post', 'SETTLEMENT-USD', 'CUSTOMER-WALLETS-USD'];

/** A config folder in which the customer's owner is logged in. */
async function loggedIn(): Promise<NodeJS.ProcessEnv> {
  const env = commands.environment();
  const { email, password } = customer.tenant.owner;
  const login = ['login', '--server', cluster.url, '--email', email, '--password-file', '-'];
  expect(await commands.run(login, { env, input: `${password}\n` })).toMatchObject({ code: 0, out: '' });
  return env;
}

const configOf = (env: NodeJS.ProcessEnv) => join(env['LEDGER_CONFIG_DIR']!, 'config.json');

describe('the package', () => {
  test('is one file without dependencies, and runs where it is installed', () => {
    const folder = join(commands.directory, 'node_modules/ledger-cli');
    expect(readdirSync(folder).sort()).toEqual(['ledger.js', 'package.json']);
    expect(readdirSync(join(commands.directory, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual(['ledger-cli']);
    const version = execFileSync(join(commands.directory, 'node_modules/.bin/ledger'), ['--version'], {
      encoding: 'utf8',
      env: bareEnvironment,
    });
    expect(version).toBe('1.0.0\n');
  });

  test('runs in a checkout by npm run ledger, next to the operator’s commands', () => {
    const run = (...args: string[]) =>
      execFileSync(process.execPath, ['deploy/local/operator.ts', 'ledger', ...args], {
        cwd: root,
        encoding: 'utf8',
        env: bareEnvironment,
      });
    expect(run('--version')).toBe('1.0.0\n');
    expect(run('verify', '--help')).toMatch(/^Usage: ledger verify /);
  });

  test('every example of every help is one that the program takes, and no flag is a secret', async () => {
    const { stdin, stdout, stderr } = process;
    const errors: string[] = [];
    const program = programOf(new Context({ env: {}, home: '/', streams: { stdin, stdout, stderr } }));
    let help = '';
    const examples = everyCommand(program).flatMap((command) => {
      // Also what was added to the help text.
      command.configureOutput({ writeOut: (text) => (help += text), writeErr: (text) => errors.push(text) });
      help = '';
      command.outputHelp();
      const found = [...help.matchAll(/^ {2}\$ .*?\bledger ([^|>)\n]*)/gm)].map(([, words = '']) => words.trim());
      if (command.commands.length === 0 && !['complete', 'use', 'remove'].includes(command.name()))
        expect([command.name(), found]).not.toEqual([command.name(), []]);
      return found;
    });
    expect(examples.length).toBeGreaterThan(operations.length);
    const reached: string[] = [];
    for (const example of examples) {
      const words = [...example.matchAll(/'((?:[^'\\]|\\.)*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '');
      // A new one each time: commander keeps values.
      const fresh = programOf(new Context({ env: {}, home: '/', streams: { stdin, stdout, stderr } }));
      for (const command of everyCommand(fresh)) {
        command
          .configureOutput({ writeErr: (text) => errors.push(`${example}: ${text}`) })
          .exitOverride()
          .action(() => void reached.push(example));
      }
      await fresh.parseAsync(words, { from: 'user' }).catch((error: Error) => errors.push(`${example}: ${error.message}`));
    }
    expect(errors).toEqual([]);
    expect(reached).toEqual(examples);
    const secrets = operations.flatMap(({ body = [] }) =>
      body.filter(({ secret }) => secret).map(({ name }) => `--${name.replaceAll('_', '-')}`),
    );
    expect(new Set(secrets).size).toBeGreaterThan(4);
    for (const { noun, verb, body = [] } of operations.filter((operation) => operation.body?.some(({ secret }) => secret))) {
      const own = program.commands.find((command) => command.name() === noun)?.commands.find((command) => command.name() === verb);
      const flags = own?.options.map(({ long }) => long) ?? [];
      expect(flags.filter((flag) => body.some(({ secret, name }) => secret && `--${name.replaceAll('_', '-')}` === flag))).toEqual([]);
    }
  });

  test('completes commands, flags and values', async () => {
    expect((await commands.run(['completion', 'bash'])).out).toContain('complete -F');
    const completed = async (...words: string[]) =>
      (await commands.run(['complete', '--', ...words])).out.split('\n').map((line) => line.split('\t')[0]);
    expect(await completed('transactions', 'rev')).toContain('reverse');
    expect(await completed('accounts', 'list', '--type', '')).toEqual(expect.arrayContaining(['asset', 'liability']));
  });
});

describe('a session', () => {
  test('is kept where only the user can read it, and ends with logout', async () => {
    const env = await loggedIn();
    const file = configOf(env);
    expect([statSync(env['LEDGER_CONFIG_DIR']!).mode & 0o777, statSync(file).mode & 0o777]).toEqual([0o700, 0o600]);
    expect(readFileSync(file, 'utf8')).not.toContain(customer.tenant.owner.password);
    const { email } = customer.tenant.owner;
    const { code, out } = await commands.run(['whoami', '--json'], { env });
    expect([code, JSON.parse(out)]).toMatchObject([0, { server: cluster.url, tenant: customer.tenant.slug, user: email, role: 'owner' }]);
    // A route of users, one of members, one of keys.
    for (const words of ['user get', 'members list', 'accounts balance CUSTOMER-WALLETS-USD'])
      expect(await commands.run(words.split(' '), { env })).toMatchObject({ code: 0 });
    expect(await commands.run(['switch', 'no-such-tenant'], { env })).toMatchObject({ code: 4 });
    const { refresh_token } = JSON.parse(readFileSync(file, 'utf8')).profiles.default;
    expect(await commands.run(['logout'], { env })).toMatchObject({ code: 0 });
    expect((await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token } })).status).toBe(401);
    expect(readFileSync(file, 'utf8')).not.toContain('token');
    expect(await commands.run(['whoami'], { env })).toMatchObject({ code: 3, err: 'you are not logged in\nRun: ledger login\n' });
  });

  test('is renewed once by commands that find it ended at the same time', async () => {
    const env = await loggedIn();
    const config = JSON.parse(readFileSync(configOf(env), 'utf8'));
    config.profiles.default.token_expires_at = '2020-01-01T00:00:00.000Z';
    config.profiles.default.access = {};
    writeFileSync(configOf(env), JSON.stringify(config));
    const ended = await Promise.all(
      ['whoami', 'whoami', 'tenants list', 'accounts list'].map((words) => commands.run(words.split(' '), { env })),
    );
    expect(ended.map(({ code, err }) => [code, err.split('\n')[0]])).toEqual([
      [0, ''],
      [0, ''],
      [0, ''],
      [0, 'There are more: --all reads all pages.'],
    ]);
    expect(await commands.run(['user', 'get'], { env })).toMatchObject({ code: 0 });
  });

  test('sends a profile’s credentials to no other server, and an API key to no route of users', async () => {
    const env = await loggedIn();
    let calls = 0;
    const server = createServer((_request, reply) => {
      calls += 1;
      reply.end('{}');
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const other = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
    const refused = await commands.run(['accounts', 'list', '--server', other, '--tenant', customer.tenant.slug], { env });
    expect(refused).toMatchObject({ code: 3, err: expect.stringContaining(`the profile default is for ${cluster.url}`) });
    server.close();
    expect(calls).toBe(0);
    expect(await commands.run(['members', 'list'], { env: withKey })).toMatchObject({
      code: 3,
      err: expect.stringContaining('an API key is not enough'),
    });
    expect(await commands.run(['accounts', 'list'], { env: { ...withKey, LEDGER_API_KEY: 'lk_live_wrong' } })).toMatchObject({ code: 3 });
  });

  test('of an API key comes from a file or standard input into a profile of its own', async () => {
    const env = commands.environment();
    const login = [
      'login',
      '--profile',
      'ci',
      '--api-key',
      '--api-key-file',
      '-',
      '--tenant',
      customer.tenant.slug,
      '--server',
      cluster.url,
    ];
    expect(await commands.run(login, { env, input: customer.key })).toMatchObject({ code: 0 });
    expect(await commands.run(['accounts', 'get', 'SETTLEMENT-USD'], { env })).toMatchObject({ code: 0 });
    const { out } = await commands.run(['profiles', '--csv'], { env });
    expect(parse(out, { columns: true })).toEqual([
      { current: '*', name: 'ci', server: cluster.url, tenant: customer.tenant.slug, credential: `API key …${customer.key.slice(-4)}` },
    ]);
  });
});

describe('a posting', () => {
  const posted = async (key: string) => (await customer.get(`transactions?idempotency_key=${key}`)).transactions.length;

  test('with the same key happens once, and says so', async () => {
    const words = [...deposit, '12.50', 'USD', '--description', 'Card deposit', '--metadata', 'order=42', '--key', 'once-1', '--json'];
    const [first, second] = [await commands.run(words, { env: withKey }), await commands.run(words, { env: withKey })];
    expect([first.code, second.code, second.out]).toEqual([0, 0, first.out]);
    expect(JSON.parse(first.out)).toMatchObject({ amount: '12.50', description: 'Card deposit', metadata: { order: 42 } });
    expect(second.err).toBe('Posted before with the key once-1.\n');
    expect(await posted('once-1')).toBe(1);
  });

  test('that is only tried, or is refused, posts nothing, and the exit code says why', async () => {
    const run = (...words: string[]) => commands.run(words, { env: withKey });
    expect(await run(...deposit, '1', 'USD', '--dry-run', '--key', 'try-1')).toMatchObject({
      code: 0,
      err: 'A dry run: nothing was posted.\n',
    });
    expect(await posted('try-1')).toBe(0);
    expect(await run(...deposit, '1.234', 'USD')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/entries\[0\]\.amount must be a decimal/),
    });
    expect(await run('accounts', 'get', 'NO-SUCH')).toMatchObject({ code: 4, err: expect.stringMatching(/NO-SUCH/) });
    expect(await run(...deposit, '1')).toMatchObject({ code: 2 });
    expect(await run('accounts', 'create', '--name', 'Cash')).toMatchObject({
      code: 2,
      err: expect.stringContaining('missing: --account-code, --type'),
    });
    expect(await run('acounts')).toMatchObject({ code: 2, err: expect.stringContaining('Did you mean accounts?') });
  });

  test.each(['post', 'transactions post'])('%s prints its key where the answer is lost, and the key posts once', async (command) => {
    const proxy = await openProxy(Number(new URL(cluster.url).port));
    const body = (await commands.run([...deposit, '3', 'USD', '--dry-run', '--json'], { env: withKey })).out;
    const { entries } = JSON.parse(body);
    const input = JSON.stringify({
      entries: entries.map(({ account_code, side, amount, currency }: any) => ({ account_code, side, amount, currency })),
    });
    const words = [...command.split(' '), '-f', '-'];
    // The posting goes through, its answer does not.
    proxy.watch = (chunk) => (chunk.includes('POST /v1') ? 'cut after' : 'pass');
    const lost = await commands.run(words, { env: { ...withKey, LEDGER_URL: `http://127.0.0.1:${proxy.port}` }, input });
    await proxy.close();
    expect(lost).toMatchObject({ code: 5, out: '' });
    const key = /^ {2}--key (cli-\S+)$/m.exec(lost.err)![1]!;
    expect(await posted(key)).toBe(1);
    expect(await commands.run([...words, '--key', key], { env: withKey, input })).toMatchObject({ code: 0 });
    expect(await posted(key)).toBe(1);
  });
});

test('a posting that is interrupted before its answer prints its key', async () => {
  const proxy = await openProxy(Number(new URL(cluster.url).port));
  let arrived = false;
  proxy.watch = (chunk) => {
    arrived ||= chunk.includes('POST /v1');
    return arrived ? 'hold' : 'pass';
  };
  const posting = commands.start([...deposit, '4', 'USD'], { ...withKey, LEDGER_URL: `http://127.0.0.1:${proxy.port}` });
  await until(async () => arrived, Boolean);
  posting.child.kill('SIGINT');
  expect([await posting.ended, posting.err()]).toEqual([130, expect.stringMatching(/^It may have been done.*\n {2}--key cli-\S+\n$/)]);
  await proxy.close();
});

describe('what is printed', () => {
  test('every route that reads a list or record answers as a table, as lines of JSON or as CSV', async () => {
    const reads = operations.filter(
      ({ method, path_fields, query, noun }) =>
        method === 'GET' &&
        path_fields.length === 0 &&
        !query.some(({ required }) => required) &&
        !['auth', 'exports', 'service', 'events'].includes(noun),
    );
    expect(reads.length).toBeGreaterThan(15);
    const env = await loggedIn();
    const formats = ['--json', '--csv', '--profile=default'];
    const results: unknown[] = [];
    const queue = reads.map(({ noun, verb }, index) => ({ words: `${noun} ${verb}`, format: formats[index % formats.length]! }));
    const worker = async () => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const { words, format } = next;
        const { code, out, err } = await commands.run([...words.split(' '), format], { env });
        // The tenant has no webhook.
        if (code !== (words === 'webhooks get' ? 4 : 0)) results.push([words, format, code, err]);
        if (format === '--json') for (const line of out.split('\n').filter(Boolean)) JSON.parse(line);
        if (format === '--csv') parse(out, { columns: true });
      }
    };
    await Promise.all([worker(), worker(), worker()]);
    expect(results).toEqual([]);
  });

  test('a text of CSV cannot run as a formula, and amounts stay numbers', async () => {
    await commands.run([...deposit, '1', 'USD', '--description', '=HYPERLINK("x")', '--key', 'formula'], { env: withKey });
    const { out } = await commands.run(['transactions', 'list', '--idempotency-key', 'formula', '--csv'], { env: withKey });
    const [row] = parse<Record<string, string>>(out, { columns: true });
    expect(row).toMatchObject({ amount: '1.00', description: expect.stringMatching(/^'=HYPERLINK/) });
  });

  test('a list is read to its end, a report is a table, and a file goes where it is told', async () => {
    const codes = (await commands.run(['accounts', 'list', '--all', '--json'], { env: withKey })).out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).account_code);
    expect(new Set(codes).size).toBe(codes.length);
    expect(codes.length).toBeGreaterThan(60);
    const { out } = await commands.run(['reports', 'trial-balance'], { env: withKey });
    expect(out).toMatch(/^ACCOUNT_CODE .*\n(.*\n)*? {4}SETTLEMENT-USD +Settlement/);
    const file = join(commands.directory, 'report.pdf');
    expect(await commands.run(['reports', 'trial-balance', '--format', 'pdf', '-o', file], { env: withKey })).toMatchObject({
      code: 0,
      out: '',
    });
    expect(readFileSync(file, 'latin1').slice(0, 5)).toBe('%PDF-');
    expect(await commands.run(['api', 'get', 'accounts?limit=1'], { env: withKey })).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^{"success":true/),
    });
  });

  test('doctor finds a good deployment good, and a log whose chain is broken bad', async () => {
    const good = await commands.run(['doctor', '--json'], { env: withKey });
    const results = Object.fromEntries(
      good.out
        .trim()
        .split('\n')
        .map((line) => [JSON.parse(line).check, JSON.parse(line).result]),
    );
    expect([good.code, results]).toEqual([
      0,
      { reach: 'good', clock: 'good', versions: 'good', ready: 'good', credential: 'good', webhook: 'unknown', 'hash chain': 'good' },
    ]);
    const proxy = await openProxy(Number(new URL(cluster.url).port));
    proxy.translate = (chunk) =>
      Buffer.from(
        chunk
          .toString('latin1')
          .replace(/("sequence":30,.*?"previous_hash":")(.)/, (_, before: string, digit: string) => before + (digit === '0' ? '1' : '0')),
        'latin1',
      );
    const bad = await commands.run(['doctor'], { env: { ...withKey, LEDGER_URL: `http://127.0.0.1:${proxy.port}` } });
    await proxy.close();
    expect(bad).toMatchObject({ code: 1, out: expect.stringMatching(/^BAD +hash chain +at sequence 30: /m) });
  });
});
