// The operator's commands as a shell sees them.
import { spawn } from 'node:child_process';
import { root } from '../../deploy/local/plan.ts';
import { freshDatabase, type FreshDatabase } from '../../test/house.ts';
import { openProxy } from '../../test/proxy.ts';
import { bareEnvironment } from '../../test/run.ts';

let database: FreshDatabase;

beforeAll(async () => {
  database = await freshDatabase('ledger', { migrated: true });
});

afterAll(() => database.drop());

/** Runs `verify`; `isRead`: whether anybody reads its lines. */
async function verify(url: string, { flags = [] as string[], isRead = true } = {}): Promise<{ status: number | null; errors: string }> {
  const child = spawn(process.execPath, [...flags, 'services/ledger/cli.ts', 'verify'], {
    cwd: root,
    env: { ...bareEnvironment, MIGRATION_DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (isRead) child.stdout.resume();
  else child.stdout.destroy();
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { status, errors };
}

test('a command whose reader has left has not done its work, and says nothing of it', async () => {
  expect(await verify(database.ownerUrl)).toEqual({ status: 0, errors: '' });
  expect(await verify(database.ownerUrl, { isRead: false })).toEqual({ status: 1, errors: '' });
});

test('a command that loses its connection says so in one line', async () => {
  const url = new URL(database.ownerUrl);
  const proxy = await openProxy(Number(url.port));
  [url.hostname, url.port] = ['127.0.0.1', String(proxy.port)];
  proxy.watch = (chunk) => (chunk.includes('pg_index') ? 'cut' : 'pass');
  try {
    expect(await verify(url.href)).toEqual({ status: 1, errors: 'Connection terminated unexpectedly\n' });
  } finally {
    await proxy.close();
  }
});

test('a command says why it can’t reach a server whose name has several addresses', async () => {
  const twoAddresses = `import dns from 'node:dns';
    dns.lookup = (host, options, done) => done(null, ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 })));`;
  const flags = ['--import', `data:text/javascript,${encodeURIComponent(twoAddresses)}`];
  expect(await verify('postgres://owner:secret@postgresql:1/ledger', { flags })).toEqual({
    status: 1,
    errors: 'connect ECONNREFUSED 127.0.0.1:1\n',
  });
});
