import { writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import pino from 'pino';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { until } from '../../test/notifier.ts';
import { startOwnPostgres } from '../../test/own-postgres.ts';
import { allSettledOrThrow, inTransaction, openPool, readTenant, type Client, type Pool } from './postgres.ts';
import { waitForAnswer } from './postgres-start.ts';
import { isTransient, isPermanent, isDataError } from './postgres-errors.ts';
import { openLog } from './telemetry.ts';

let database: FreshDatabase;
let proxy: Proxy;
let url: URL;

beforeAll(async () => {
  database = await freshDatabase('ledger');
  url = new URL(database.ownerUrl);
  proxy = await openProxy(Number(url.port));
  url.port = String(proxy.port);
});

afterAll(async () => {
  await proxy.close();
  await database.drop();
});

/** Works with a pool of the shortest time-out in which this machine, however busy, answers a statement. */
async function withPool(work: (pool: Pool) => Promise<void>): Promise<void> {
  for (let timeoutMs = 500; ; timeoutMs *= 4) {
    const pool = openPool(url.href, { name: 'test', max: 3, logger: openLog('test', 'silent'), queryTimeoutMs: timeoutMs });
    try {
      await work(pool);
      return;
    } catch (error) {
      if (timeoutMs > 5_000) throw error;
    } finally {
      await pool.end();
    }
  }
}

test('the log names the reason why an idle connection was lost, but not the key of its session', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const pool = openPool(database.ownerUrl, { name: 'lost', max: 1, logger });
  try {
    await pool.query('select 1');
    await withClient(database.adminUrl, (client) =>
      client.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'lost'`),
    );
    await until(() => Promise.resolve(lines.length > 0));
    expect(lines[0]).toContain('idle connection lost');
    expect(lines[0]).not.toMatch(/secretKey|connectionParameters/);
  } finally {
    await pool.end();
  }
});

test('a connection without an answer is closed, and the next statement gets a new one', () =>
  withPool(async (pool) => {
    await pool.query('select 1');
    proxy.forget();
    await expect(pool.query('select 1')).rejects.toThrow('timeout');
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }));

test('a transaction whose connection is lost fails as a whole, with every statement sent on it', () =>
  withPool(async (pool) => {
    await inTransaction(pool, [], async (client) => {
      await client.query('select 1');
      proxy.forget();
      const sent = [client.query('select 2'), client.query('select 3')];
      const ends = await Promise.allSettled(sent);
      expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      throw new Error('as it should');
    }).catch((error: Error) => expect(error.message).toBe('as it should'));
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }));

describe('waiting for a database at start', () => {
  const asking = (address: URL) => async () => {
    const client = new pg.Client({ connectionString: address.href, connectionTimeoutMillis: 100 });
    await client.connect();
  };

  test('ends after a while without an answer', async () => {
    proxy.isolate(true);
    try {
      const answer = waitForAnswer('MIGRATION_DATABASE_URL', asking(url), 0.3);
      await expect(answer).rejects.toThrow(/^MIGRATION_DATABASE_URL: no answer within 0.3 s: timeout expired$/);
    } finally {
      proxy.isolate(false);
    }
  });

  test('ends at once where the owner’s password is wrong', async () => {
    const wrong = new URL(database.ownerUrl);
    wrong.password = 'wrong';
    const refused = 'password authentication failed for user';
    const client = { connectionString: wrong.href };
    const ask = () => new pg.Client(client).connect();
    await expect(waitForAnswer('MIGRATION_DATABASE_URL', ask, 600)).rejects.toThrow(`MIGRATION_DATABASE_URL: ${refused}`);
    await expect(waitForAnswer('DATABASE_URL', ask, 0.3)).rejects.toThrow(`DATABASE_URL: no answer within 0.3 s: ${refused}`);
  });

  test('ends at once for the owner where the database does not exist', async () => {
    const missing = new URL(database.ownerUrl);
    missing.pathname = '/nowhere';
    const ask = () => new pg.Client({ connectionString: missing.href }).connect();
    await expect(waitForAnswer('MIGRATION_DATABASE_URL', ask, 600)).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: database "nowhere" does not exist$/,
    );
  });

  test.each([
    ['The server does not support SSL connections', undefined],
    ['certificate has expired', 'CERT_HAS_EXPIRED'],
  ])('ends at once for the owner where TLS fails: %s', async (message, code) => {
    const ask = () => Promise.reject(Object.assign(new Error(message), { code }));
    await expect(waitForAnswer('MIGRATION_DATABASE_URL', ask, 600)).rejects.toThrow(`MIGRATION_DATABASE_URL: ${message}`);
  });

  test('ends at once where a pooler rejects the settings of the connection', async () => {
    let asked = 0;
    const ask = () => {
      asked++;
      return Promise.reject(Object.assign(new Error('unsupported startup parameter: options'), { code: '08P01' }));
    };
    await expect(waitForAnswer('DATABASE_URL', ask)).rejects.toThrow('DATABASE_URL: unsupported startup parameter: options');
    expect(asked).toBe(1);
  });
});

test('a commit waits for the disk, whatever the database’s own setting', async () => {
  await withClient(database.ownerUrl, (client) => client.query(`alter database "${database.name}" set synchronous_commit = off`));
  await withClient(database.ownerUrl, async (client) =>
    expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'off' }]),
  );
  await withPool(async (pool) => expect((await pool.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'on' }]));
});

test('a client that stops reading an answer loses its locks', async () => {
  await withPool(async (pool) => expect((await pool.query('show tcp_user_timeout')).rows).toEqual([{ tcp_user_timeout: '10000' }]));
  const settings = { tcp_user_timeout: '5s' };
  // Without the proxy, which would read everything.
  const pool = openPool(database.ownerUrl, { name: 'test', max: 1, logger: openLog('test', 'silent'), queryTimeoutMs: 600_000, settings });
  try {
    const client = await pool.connect();
    await client.query('begin; select pg_advisory_xact_lock(1)');
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    stream.pause();
    // More than all buffers on the way.
    const answer = client.query(`select repeat('x', 1000) from generate_series(1, 100000)`);
    answer.catch(() => undefined);
    await withClient(database.adminUrl, async (admin) => {
      await until(async () => (await admin.query(`select from pg_stat_activity where wait_event = 'ClientWrite'`)).rowCount === 1);
      await until(async () => (await admin.query('select pg_try_advisory_lock(1) as free')).rows[0].free === true);
    });
    stream.resume();
    await expect(answer).rejects.toThrow();
    client.release(true);
  } finally {
    await pool.end();
  }
});

test('a standby is refused as a transient failure until it is promoted', async () => {
  const server = await startOwnPostgres();
  const { hostname: host, port, password } = new URL(server.adminUrl);
  const settings = { host, port: Number(port), user: 'postgres', password: decodeURIComponent(password) };
  const asked = async (text: string) => {
    const admin = new pg.Client(settings);
    await admin.connect();
    try {
      return (await admin.query<Record<string, string>>(text)).rows[0];
    } finally {
      await admin.end();
    }
  };
  try {
    const directory = (await asked('show data_directory'))!['data_directory']!;
    await server.signal('SIGINT');
    writeFileSync(join(directory, 'standby.signal'), '');
    await server.start();
    const pool = openPool(server.adminUrl, { name: 'test', max: 3, logger: openLog('test', 'silent') });
    const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
    expect(refusal).toMatchObject({ message: 'the server is a standby' });
    expect(isTransient(refusal)).toBe(true);
    await asked('select pg_promote()');
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await pool.end();
  } finally {
    await server.end();
  }
});

test('a rejected password is a transient failure', async () => {
  const wrong = new URL(url);
  wrong.password = 'another';
  const pool = openPool(wrong.href, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: '28P01' });
  expect(isTransient(refusal)).toBe(true);
  await pool.end();
});

test('a pooler that loses the settings of a connection is refused as a transient failure', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const address = new URL(database.serviceUrl);
  const proxy = await openProxy(Number(address.port));
  [address.hostname, address.port] = ['127.0.0.1', String(proxy.port)];
  const pool = openPool(address.href, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const lockTimeout = async () => (await pool.query<{ value: string }>(`select current_setting('lock_timeout') as value`)).rows[0]?.value;
  try {
    expect(await lockTimeout()).toBe('2s');
    proxy.watch = (chunk) => {
      const place = chunk.indexOf('lock_timeout=2s');
      if (place >= 0) chunk.write('lock_timeout=0s', place, 'latin1');
      return 'pass';
    };
    proxy.cut();
    await until(async () => (await lockTimeout().catch((error: unknown) => error)) !== '2s');
    const refusal: unknown = await lockTimeout().catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: '08P01',
      message: expect.stringMatching(/^the connection has lost lock_timeout: connect to PostgreSQL itself/) as string,
    });
    expect(isTransient(refusal)).toBe(true);
    proxy.watch = () => 'pass';
    expect(await lockTimeout()).toBe('2s');
  } finally {
    await pool.end();
    await proxy.close();
    await database.drop();
  }
});

test('a failure of TLS is transient', async () => {
  const encrypted = new URL(url);
  encrypted.searchParams.set('sslmode', 'no-verify');
  const pool = openPool(encrypted.href, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
  expect(refusal).toMatchObject({ message: 'The server does not support SSL connections' });
  expect(isTransient(refusal)).toBe(true);
  await pool.end();
});

test.each<[string, object, boolean]>([
  ...['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'EMFILE', 'ENOBUFS'].map((code): [string, object, boolean] => [
    code,
    { code },
    true,
  ]),
  ['a transaction time-out in another language', { code: '25P03', severity: 'ВАЖНО' }, true],
  ['a lack of transaction ids', { code: '54000', severity: 'ERROR', routine: 'GetNewTransactionId' }, true],
  ['a row that is too large', { code: '54000', severity: 'ERROR', routine: 'heap_form_tuple' }, false],
])('%s is transient, also as a cause: %j, %s', (_, details, transient) => {
  const cause = Object.assign(new Error('refused'), details);
  expect([isTransient(cause), isTransient(new Error('a query failed', { cause }))]).toEqual([transient, transient]);
});

test('permanent errors differ from transient ones, and data errors from bugs', () => {
  const refusal = (code: string) => Object.assign(new pg.DatabaseError('refused', 7, 'error'), { code, severity: 'ERROR' });
  const bug = Object.assign(new RangeError('no such place'), { code: 'ERR_OUT_OF_RANGE' });
  const kinds = (error: Error) => [isPermanent(error), isDataError(error)];
  for (const code of ['22012', '23514', 'P0001', 'XX001']) expect([code, ...kinds(refusal(code))]).toEqual([code, true, true]);
  for (const code of ['42501', '42P01', '3F000']) expect([code, ...kinds(refusal(code))]).toEqual([code, true, false]);
  for (const code of ['0A000', '25P02', '26000', '40001', '53100', '57014'])
    expect([code, ...kinds(refusal(code))]).toEqual([code, false, false]);
  for (const error of [bug, new TypeError('not a function')]) expect(kinds(error)).toEqual([true, false]);
  expect(kinds(new Error('Connection terminated unexpectedly'))).toEqual([false, false]);
});

test('of statements that are sent together the first error is thrown, even if a later answer arrives earlier', () =>
  withPool(async (pool) => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const [failed, behind] = [client.query('select 1 / 0'), client.query('select 1')];
      const first = failed.catch(async (error: unknown) => {
        await behind.catch(() => undefined);
        throw error;
      });
      await expect(allSettledOrThrow([first, behind])).rejects.toMatchObject({ code: '22012' });
    } finally {
      client.release(true);
    }
  }));

test('statements prepared before a migration are prepared again without an error', () =>
  withPool(async (pool) => {
    const tenant = '00000000-0000-0000-0000-000000000001';
    const things = { name: 'things', text: 'select name from things', values: [] };
    await pool.query('create table things (name text)');
    try {
      const prepared = () => inTransaction(pool, [], (client) => Promise.all([client.query(things), client.query('select pg_sleep(0.1)')]));
      await Promise.all([prepared(), prepared(), prepared()]);
      expect(pool.idleCount).toBe(3);
      await pool.query('alter table things alter column name type varchar');
      expect(await readTenant(pool, tenant, things)).toEqual([[]]);
      expect((await inTransaction(pool, [], (client) => client.query(things))).rows).toEqual([]);
      expect(await Promise.all(Array.from({ length: 6 }, () => readTenant(pool, tenant, things)))).toHaveLength(6);
    } finally {
      await pool.query('drop table things');
    }
  }));

test('an error that looks like a stale statement on every connection is thrown at last', () =>
  withPool(async (pool) => {
    let runs = 0;
    const work = (client: Client) => {
      runs++;
      return client.query(`do $$ begin raise 'not supported' using errcode = '0A000'; end $$`);
    };
    await expect(inTransaction(pool, [], work)).rejects.toThrow('not supported');
    expect(runs).toBeGreaterThan(1);
  }));
