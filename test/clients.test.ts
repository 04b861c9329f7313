// The three client libraries as packages: each example makes the same calls, through a proxy that cuts answers.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { exampleBodies } from '../gateway/webhook-examples.ts';
import { deliveryHeaders } from '../services/notifier/webhook.ts';
import { openProxy } from './proxy.ts';
import { newCustomer } from './customer.ts';
import { currentRun } from './run.ts';
import { sharedCluster } from './shared-cluster.ts';

const directory = mkdtempSync(join(currentRun().directory, 'clients-'));
const sdk = (language: string) => join(root, '.data/sdk', language);

/** Runs a program; whether it succeeds. */
async function run(program: string, args: string[], cwd = root): Promise<boolean> {
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const status = await new Promise<unknown>((done) => {
    child.once('error', (error) => done(error.message));
    child.once('close', done);
  });
  if (status !== 0) process.stderr.write(`${program} ${args.join(' ')}: ${String(status)} ${errors}\n`);
  return status === 0;
}

const make = (language: string) => run(process.execPath, ['deploy/local/sdk.ts', language]);

const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
const pythonSite = join(directory, 'site');
const pythonManifest = readFileSync(join(root, 'gateway/clients/python/pyproject.toml'));
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'ledger-tools');
const environment = join(cache, `python-client-${createHash('sha256').update(pythonManifest).digest('hex').slice(0, 12)}`);
const python = join(environment, 'bin/python');
const pythonCommand = ['env', `PYTHONPATH=${pythonSite}`, python];

/** What the Python package needs, from the network only where it has changed; the package itself is new each time. */
async function pythonPackages(): Promise<boolean> {
  const done = join(environment, 'done');
  if (existsSync(done)) return true;
  const isMade =
    (await run('python3', ['-m', 'venv', '--clear', environment])) &&
    (await run(python, [...pip, 'setuptools>=77', sdk('python')])) &&
    (await run(python, ['-m', 'pip', 'uninstall', '--quiet', '--yes', 'ledger-client']));
  if (isMade) writeFileSync(done, '');
  return isMade;
}

/** How the example of each language is run, or undefined where the language or its packages can't be had. */
const examples: Record<string, () => Promise<string[] | undefined>> = {
  TypeScript: async () => {
    if (!(await make('typescript'))) throw new Error('the package cannot be made');
    mkdirSync(join(directory, 'node_modules'));
    symlinkSync(sdk('typescript'), join(directory, 'node_modules/ledger-client'));
    cpSync(join(sdk('typescript'), 'example.ts'), join(directory, 'example.ts'));
    writeFileSync(join(directory, 'package.json'), '{"type": "module"}');
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
    const isTyped = await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), ...options, 'example.ts'], directory);
    if (!isTyped) throw new Error('the types of the package do not fit');
    return [process.execPath, join(directory, 'example.ts')];
  },
  Python: async () => {
    if (!(await make('python')) || !(await pythonPackages())) return undefined;
    const install = [...pip, '--no-deps', '--no-build-isolation', '--target', pythonSite, sdk('python')];
    return (await run(python, install)) ? [...pythonCommand, join(sdk('python'), 'example.py')] : undefined;
  },
  Go: async () => {
    const program = join(directory, 'example');
    const isMade = (await make('go')) && (await run('go', ['build', '-o', program, './example'], sdk('go')));
    return isMade ? [program] : undefined;
  },
};

const expected = `service.readiness ok
user.get string
tenants.list true
members.list owner
keys.list 1
accounts.setUp wallet
accounts.tree 5
accounts.create debit
accounts.update 2
accounts.get Coins
accounts.list true
transactions.post 100.00
transactions.post again true
transactions.post dry run
transactions.post refused insufficient_funds
transactions.postSingle single
transactions.batch 2
transactions.import 2
transactions.get Deposit
transactions.reverse 40.00
transactions.list 7 149.00
holds.create pending
holds.capture 4.00
holds.void voided
accounts.balance 65.00 65.00
reports.trialBalance 1
reports.trialBalance file account_code
jobs.wait succeeded
filters.set deposits
books.get active
events.list true
events.listen 3
deliveries.list 0
errors account_not_found
webhooks.verify transaction.posted
webhooks.verify refused`.split('\n');

const secret = `whsec_${Buffer.from('a secret of at least 24 bytes').toString('base64')}`;

/** A delivery as the notifier signs it. */
function delivery(): string {
  const body = JSON.stringify(exampleBodies['transaction.posted']);
  const signed = { id: 'evt_01jd1zq5v8e6n9w2k4m7p3r5t8', timestamp: Math.floor(Date.now() / 1000), body: Buffer.from(body) };
  const more = { id: 'wh_delivery_1', eventType: 'transaction.posted', attempt: 1, traceparent: '00' };
  return JSON.stringify({ body, secret, headers: deliveryHeaders([secret], signed, more) });
}

async function linesOf([program = '', ...args]: string[], withKey: boolean): Promise<{ lines: string[]; cut: string[] }> {
  const cluster = await sharedCluster();
  const { tenant, key } = await newCustomer(cluster);
  const proxy = await openProxy(Number(new URL(cluster.url).port));
  const cut: string[] = [];
  proxy.watch = (chunk) => {
    const [, call = ''] = /^(\w+ \S+?)(\?\S*)? HTTP/.exec(chunk.toString('latin1')) ?? [];
    const isCut =
      /^(POST \S+\/(transactions(\/(double-entry|batch|import|\w+\/reverse))?|holds(\/\w+\/(capture|void))?)|GET \S+\/balance)$/.test(call);
    // The transaction's own answer is lost twice.
    const times = cut.filter((each) => each === call).length;
    if (!isCut || times >= (call.endsWith('double-entry') ? 2 : 1)) return 'pass';
    cut.push(call);
    return 'cut after';
  };
  const env = {
    ...{ PATH: process.env['PATH'], HOME: process.env['HOME'] },
    ...{ LEDGER_URL: `http://127.0.0.1:${proxy.port}`, LEDGER_TENANT: tenant.slug, LEDGER_TOKEN: tenant.owner.token },
    ...(withKey && { LEDGER_API_KEY: key }),
    LEDGER_DELIVERY: delivery(),
  };
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  await new Promise((done) => child.once('close', done));
  await proxy.close();
  if (errors !== '') process.stderr.write(errors);
  return {
    lines: output
      .trim()
      .split('\n')
      .map((line) => line.trimEnd()),
    cut,
  };
}

const commands = await Promise.all(Object.entries(examples).map(async ([language, command]) => [language, await command()] as const));

for (const [language, command] of commands) {
  if (command === undefined) process.stderr.write(`the test of the ${language} client is skipped: it or its packages are missing\n`);
  const variants: [string, string[], boolean][] = [
    [language, command ?? [], language !== 'Go'],
    ...(language === 'Python' ? ([['Python, awaited', [...(command ?? []), '--async'], false]] as [string, string[], boolean][]) : []),
  ];
  const of = command === undefined ? test.skip : test;
  of.each(variants)(
    'the client in %s makes every call once, although answers are lost',
    async (_, program, withKey) => {
      const { lines, cut } = await linesOf(program, withKey);
      expect(lines).toEqual(expected);
      expect(cut).toHaveLength(10);
    },
    60_000,
  );
}

const pythonChecks = `
from ledger_client import LedgerError
from ledger_client.models.event_type import check_event_type
assert check_event_type("card.minted") == "card.minted"
error = LedgerError("wrong", 400, "validation_failed", errors=[{"message": "amount is required"}], request_id="r1")
assert str(error) == "validation_failed: wrong; amount is required (request r1)", str(error)
`;

const isPythonThere = commands.some(([language, command]) => language === 'Python' && command !== undefined);
(isPythonThere ? test : test.skip)('the Python client answers words of a newer server, and says in an error what is wrong', async () => {
  const [program = '', ...args] = pythonCommand;
  expect(await run(program, [...args, '-c', pythonChecks], directory)).toBe(true);
});
