// The operator's commands as a shell sees them.
import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { withClient } from '../../deploy/local/databases.ts';
import { root } from '../../deploy/local/plan.ts';
import { startNotifier, type RunningNotifier } from '../../test/notifier.ts';
import { openProxy } from '../../test/proxy.ts';
import { bareEnvironment } from '../../test/run.ts';
import { newId } from '../platform/ids.ts';
import { listDeadLetters } from './dead-letters.ts';

let notifier: RunningNotifier;

beforeAll(async () => {
  notifier = await startNotifier({ claims: false });
});

afterAll(() => notifier.end());

/** Keeps so many dead letters that can't be decoded; answers the ids of all. */
async function keep(count: number): Promise<string[]> {
  const source = () => `topic/0/${newId('evt')}`;
  const deadLetter = () => ({ source: source(), value: Buffer.from('ffff', 'hex'), reason: 'not an event' });
  await notifier.consumer.ingest([], { deadLetters: Array.from({ length: count }, deadLetter) });
  return listDeadLetters(notifier.work);
}

/** `meanwhile` is called with the process. */
async function run(args: string[], url = notifier.database.serviceUrl, meanwhile?: (child: ChildProcess) => unknown) {
  const child = spawn(process.execPath, ['services/notifier/cli.ts', ...args], {
    cwd: root,
    env: { ...bareEnvironment, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  void meanwhile?.(child);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { status, output, errors };
}

test('dead letters are discarded although nobody reads the lines', async () => {
  const ids = await keep(3);
  const unread = (child: ChildProcess) => child.stdout?.destroy();
  expect(await run(['discard', ...ids], undefined, unread)).toEqual({ status: 0, output: '', errors: '' });
  expect(await listDeadLetters(notifier.work)).toEqual([]);
});

test('a dead letter is named by its id, in lower or upper case, and by nothing else', async () => {
  const [kept, named] = await keep(2);
  const { status, output } = await run(['discard', named!.toUpperCase()]);
  expect({ status, output }).toEqual({ status: 0, output: expect.stringMatching(new RegExp(`^${named}: topic/0/.*\\n1 discarded\\n$`)) });
  expect(await run(['discard', kept!, 'all'])).toMatchObject({
    status: 2,
    output: '',
    errors: expect.stringContaining("'all' is invalid for argument 'id'. It is not a dead letter's id."),
  });
  expect(await listDeadLetters(notifier.work)).toEqual([kept]);
  const gone = { status: 1, output: expect.stringMatching(/\n1 discarded\n$/), errors: `${named}: there is no such dead letter\n` };
  expect(await run(['discard', kept!, named!])).toEqual(gone);
});

test('an unknown command is refused', async () => {
  expect(await run(['list'])).toEqual({ status: 2, output: '', errors: expect.stringContaining("unknown command 'list'") });
});

test('without the database, dead letters are not tried one after the other', async () => {
  const ids = await keep(3);
  const url = new URL(notifier.database.serviceUrl);
  const proxy = await openProxy(Number(url.port));
  [url.hostname, url.port] = ['127.0.0.1', String(proxy.port)];
  let tried = 0;
  proxy.watch = (chunk) => {
    if (!chunk.includes('select value from dead_letters')) return 'pass';
    tried++;
    return 'cut';
  };
  try {
    const errors = ids.map((id) => `${id}: Connection terminated unexpectedly\n`).join('');
    expect(await run(['redrive'], url.href)).toEqual({ status: 1, output: '0 redriven, 3 left\n', errors });
    expect(tried).toBe(1);
  } finally {
    await proxy.close();
  }
});

test('a command that is interrupted ends after the current dead letter, with a failure', async () => {
  const ids = await keep(3);
  const waiting = `select from pg_stat_activity
    where datname = current_database() and application_name = 'notifier command' and wait_event_type = 'Lock'`;
  await withClient(notifier.database.serviceUrl, async (holder) => {
    await holder.query(`begin; select set_config('app.job', 'dead letters', true); select from dead_letters for update`);
    const interrupt = async (child: ChildProcess) => {
      while ((await notifier.work.query(waiting)).rowCount === 0) await pause(20);
      child.kill('SIGTERM');
    };
    const { status, output, errors } = await run(['redrive'], undefined, interrupt);
    expect({ status, output }).toEqual({ status: 3, output: `0 redriven, ${ids.length} left\n` });
    expect(errors).toBe(ids.map((id) => `${id}: canceling statement due to lock timeout\n`).join(''));
  });
});
