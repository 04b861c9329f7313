// The operator's commands as a shell sees them.
import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import { withClient } from '../../deploy/local/databases.ts';
import { root } from '../../deploy/local/plan.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { openProxy } from '../../test/proxy.ts';
import { bareEnvironment } from '../../test/run.ts';

let database: FreshDatabase;

beforeAll(async () => {
  database = await freshDatabase('ledger', { migrated: true });
});

afterAll(() => database.drop());

/** How a command is run. */
interface RunOptions {
  /** Flags of Node. */
  flags?: string[];
  /** Whether its output is read. */
  isRead?: boolean;
  /** Called with its process. */
  meanwhile?: (child: ChildProcess) => unknown;
}

async function run(command: string, url: string, { flags = [], isRead = true, meanwhile }: RunOptions = {}) {
  const child = spawn(process.execPath, [...flags, 'services/ledger/cli.ts', command], {
    cwd: root,
    env: { ...bareEnvironment, MIGRATION_DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (isRead) child.stdout.resume();
  else child.stdout.destroy();
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  void meanwhile?.(child);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { status, errors };
}

const verify = (url: string, options?: RunOptions) => run('verify', url, options);

const owned = <Rows extends pg.QueryResultRow>(text: string) =>
  withClient(database.ownerUrl, async (client) => (await client.query<Rows>(text)).rows);

test('a command whose reader has gone ends with 1 and prints nothing', async () => {
  expect(await verify(database.ownerUrl)).toEqual({ status: 0, errors: '' });
  expect(await verify(database.ownerUrl, { isRead: false })).toEqual({ status: 3, errors: '' });
});

test.each(['SIGTERM', 'SIGINT'] as const)('a command ends with 1 on %s and releases its locks', async (signal) => {
  const tenant = '00000000-0000-7000-8000-000000000001';
  const waiting = `select from pg_stat_activity
    where datname = current_database() and application_name = 'ledger operator' and wait_event_type = 'Lock'`;
  await withClient(database.ownerUrl, async (holder) => {
    await holder.query(`select set_config('app.tenants', '{${tenant}}', false)`);
    await holder.query(`insert into heads values ('${tenant}', 0, decode(repeat('00', 32), 'hex'), now(), null, 0)`);
    await holder.query('begin');
    await holder.query('select from heads for update');
    const meanwhile = async (child: ChildProcess) => {
      while ((await owned(waiting)).length === 0) await pause(20);
      child.kill(signal);
    };
    expect(await run('rebuild', database.ownerUrl, { meanwhile })).toEqual({ status: 3, errors: '' });
    while ((await owned(waiting)).length > 0) await pause(20);
    await holder.query('delete from heads');
    await holder.query('commit');
  });
});

/** Runs `verify` with a connection that is cut before a statement that contains the text. */
async function cutBefore(part: string): ReturnType<typeof verify> {
  const url = new URL(database.ownerUrl);
  const proxy = await openProxy(Number(url.port));
  [url.hostname, url.port] = ['127.0.0.1', String(proxy.port)];
  proxy.watch = (chunk) => (chunk.includes(part) ? 'cut' : 'pass');
  try {
    return await verify(url.href);
  } finally {
    await proxy.close();
  }
}

test('a command rejects an address without a ledger', async () => {
  const other = await freshDatabase('identity', { migrated: true });
  try {
    for (const url of [other.ownerUrl, other.adminUrl]) {
      expect(await verify(url)).toEqual({
        status: 3,
        errors: 'MIGRATION_DATABASE_URL names a database without a ledger: name another, or run migrate first\n',
      });
    }
  } finally {
    await other.drop();
  }
  const encrypted = new URL(database.ownerUrl);
  encrypted.searchParams.set('sslmode', 'verify-full');
  expect(await verify(encrypted.href)).toEqual({
    status: 3,
    errors: "MIGRATION_DATABASE_URL names a database that can't be reached: The server does not support SSL connections\n",
  });
});

// Outside of a tenant's transaction and within it.
test.each(['pg_index', 'log_chunk'])('a command that loses its connection before %s prints the first error', async (part) => {
  await owned(`insert into relay_dead_letters (tenant_id, sequence, part, event_id, type, reason)
    values (gen_random_uuid(), 1, 0, gen_random_uuid(), 'transaction.posted', 'too large')`);
  try {
    expect(await cutBefore(part)).toEqual({ status: 3, errors: 'Connection terminated unexpectedly\n' });
  } finally {
    await owned('delete from relay_dead_letters');
  }
});

test('a command prints why it can’t reach a server whose name has several addresses', async () => {
  const twoAddresses = `import dns from 'node:dns';
    dns.lookup = (host, options, done) => done(null, ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 })));`;
  const flags = ['--import', `data:text/javascript,${encodeURIComponent(twoAddresses)}`];
  expect(await verify('postgres://owner:secret@postgresql:1/ledger', { flags })).toEqual({
    status: 3,
    errors: "MIGRATION_DATABASE_URL names a database that can't be reached: connect ECONNREFUSED 127.0.0.1:1\n",
  });
});
