// Pools on a network that forgets connections.
import { writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
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

/** Works with a pool of the least patience in which this machine, however busy, answers a statement. */
async function withPool(work: (pool: Pool) => Promise<void>): Promise<void> {
  for (let patienceMs = 500; ; patienceMs *= 4) {
    const pool = openPool(url.href, { name: 'test', max: 3, logger: openLog('test', 'silent'), queryTimeoutMs: patienceMs });
    try {
      await work(pool);
      return;
    } catch (error) {
      if (patienceMs > 5_000) throw error;
    } finally {
      await pool.end();
    }
  }
}

test('where an address leads to another server, connections to the one before are given up, those in use too, and no others', async () => {
  const other = await startOwnPostgres();
  const way = await openProxy(Number(new URL(database.adminUrl).port));
  const address = new URL(other.adminUrl);
  const [port, logger] = [Number(address.port), openLog('test', 'silent')];
  address.port = String(way.port);
  const open = () => openPool(address.href, { name: 'test', max: 3, logger });
  const pools = [open(), open(), open(), open(), openPool(other.adminUrl, { name: 'test', max: 1, logger })] as const;
  const [used, idle, anew, late, elsewhere] = pools;
  try {
    const client = await used.connect();
    const served = expect(client.query('select pg_sleep(100)')).rejects.toThrow('Connection terminated unexpectedly');
    const [first] = await Promise.all([
      idle.query('select pg_postmaster_start_time() as at'),
      anew.query('select 1'),
      elsewhere.query('select 1'),
    ]);
    expect(idle.totalCount).toBe(1);
    let asked = false;
    way.watch = (chunk) => {
      if (asked || !chunk.includes('extract(epoch')) return 'pass';
      asked = true;
      return 'hold';
    };
    const lateOne = expect(late.query('select 1')).rejects.toThrow('Connection terminated unexpectedly');
    await until(() => Promise.resolve(asked));
    way.lead(port, 'stay');
    const more = await anew.connect().then(async (held) => {
      const second = await anew.query('select pg_postmaster_start_time() as at');
      held.release();
      return second;
    });
    expect(more.rows).not.toEqual(first.rows);
    await served;
    // What comes late of the server before takes nobody's place.
    way.hold(false);
    await lateOne;
    client.release(true);
    await until(() => Promise.resolve(idle.totalCount === 0));
    expect((await idle.query('select pg_postmaster_start_time() as at')).rows).toEqual(more.rows);
    expect([idle.totalCount, elsewhere.totalCount]).toEqual([1, 1]);
  } finally {
    await Promise.all(pools.map((pool) => pool.end()));
    await way.close();
    await other.end();
  }
});

test('of an idle connection that is lost the log has the reason, and nothing by which its session could be told', async () => {
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

test('a connection that is never answered again is given up with all others, and the next statement has a new one', () =>
  withPool(async (pool) => {
    await Promise.all(Array.from({ length: 3 }, () => pool.query('select pg_sleep(0.1)')));
    expect(pool.idleCount).toBe(3);
    proxy.forget();
    await expect(pool.query('select 1')).rejects.toThrow('timeout');
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }));

test('a transaction whose connection is forgotten fails as a whole, with all that was sent on it', () =>
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

describe('a database that is asked until it answers', () => {
  const asking = (address: URL) => async () => {
    const client = new pg.Client({ connectionString: address.href, connectionTimeoutMillis: 100 });
    await client.connect();
  };

  test('is given up after a while where it says nothing', async () => {
    proxy.isolate(true);
    try {
      const answer = waitForAnswer('MIGRATION_DATABASE_URL', asking(url), 0.3);
      await expect(answer).rejects.toThrow(/^MIGRATION_DATABASE_URL: no answer within 0.3 s: timeout expired$/);
    } finally {
      proxy.isolate(false);
    }
  });

  test('is asked again where the socket is not there yet that leads to it', async () => {
    // As Node throws it, whose own errors are not of the tests' realm.
    const missing = Object.assign(new Error('connect ENOENT /run/.s.PGSQL.5432'), { code: 'ENOENT' });
    const answer = waitForAnswer('MIGRATION_DATABASE_URL', () => Promise.reject(missing), 0.3);
    await expect(answer).rejects.toThrow('MIGRATION_DATABASE_URL: no answer within 0.3 s: connect ENOENT /run');
  });

  test('is given up at once where it refuses the owner, whose role is not made by a migration', async () => {
    const wrong = new URL(database.ownerUrl);
    wrong.password = 'wrong';
    const refused = 'password authentication failed for user';
    const client = { connectionString: wrong.href };
    const ask = () => new pg.Client(client).connect();
    await expect(waitForAnswer('MIGRATION_DATABASE_URL', ask, 600)).rejects.toThrow(`MIGRATION_DATABASE_URL: ${refused}`);
    await expect(waitForAnswer('DATABASE_URL', ask, 0.3)).rejects.toThrow(`DATABASE_URL: no answer within 0.3 s: ${refused}`);
  });

  test('is given up at once by the owner where there is no such database', async () => {
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
  ])('is given up at once by the owner where it can’t be spoken to: %s', async (message, code) => {
    const ask = () => Promise.reject(Object.assign(new Error(message), { code }));
    await expect(waitForAnswer('MIGRATION_DATABASE_URL', ask, 600)).rejects.toThrow(`MIGRATION_DATABASE_URL: ${message}`);
    await expect(waitForAnswer('DATABASE_URL', ask, 0.3)).rejects.toThrow(`DATABASE_URL: no answer within 0.3 s: ${message}`);
  });

  test('is not asked again where it does not take the settings of a connection', async () => {
    let asked = 0;
    const ask = () => {
      asked++;
      return Promise.reject(Object.assign(new Error('unsupported startup parameter: options'), { code: '08P01' }));
    };
    await expect(waitForAnswer('DATABASE_URL', ask)).rejects.toThrow('DATABASE_URL: unsupported startup parameter: options');
    expect(asked).toBe(1);
  });
});

test('a commit waits for the disk, whatever the database says', async () => {
  await withClient(database.ownerUrl, (client) => client.query(`alter database "${database.name}" set synchronous_commit = off`));
  await withClient(database.ownerUrl, async (client) =>
    expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'off' }]),
  );
  await withPool(async (pool) => expect((await pool.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'on' }]));
});

test('values are read and written as they are, whatever the database says', async () => {
  const bad = {
    extra_float_digits: '-10',
    array_nulls: 'off',
    row_security: 'off',
    search_path: '"$user"',
    datestyle: 'German',
    default_transaction_isolation: "'repeatable read'",
  };
  await withClient(database.ownerUrl, async (client) => {
    for (const [name, value] of Object.entries(bad)) await client.query(`alter database "${database.name}" set ${name} = ${value}`);
  });
  await withPool(async (pool) => {
    const { rows } =
      await pool.query(`select 1795701234567.25::float8 as ms, '{1,null}'::int[] as some, current_setting('row_security') as rows,
      current_setting('search_path') as path, '2026-11-27T01:02:03Z'::timestamptz as at, current_setting('transaction_isolation') as level`);
    const at = new Date('2026-11-27T01:02:03Z');
    expect(rows).toEqual([{ ms: 1795701234567.25, some: [1, null], rows: 'on', path: 'public', at, level: 'read committed' }]);
  });
  await withClient(database.ownerUrl, async (client) => {
    for (const name of Object.keys(bad)) await client.query(`alter database "${database.name}" reset ${name}`);
  });
});

test('a connection is ended neither for idling nor in the midst of a transaction, whatever the database says', async () => {
  const say = (...settings: string[]) =>
    withClient(database.ownerUrl, async (client) => {
      for (const setting of settings) await client.query(`alter database "${database.name}" ${setting}`);
    });
  const { rows } = await withClient(database.ownerUrl, (client) =>
    client.query<{ name: string }>(
      `select name from pg_settings where name in ('idle_session_timeout', 'transaction_timeout') order by name`,
    ),
  );
  const names = rows.map(({ name }) => name);
  await say(...names.map((name) => `set ${name} = '30s'`));
  await withPool(async (pool) => {
    const { rows } = await pool.query(`select setting from pg_settings where name = any($1)`, [names]);
    expect(rows).toEqual(names.map(() => ({ setting: '0' })));
  });
  await say(...names.map((name) => `reset ${name}`));
});

test('who takes no more of an answer that is being written loses his locks', async () => {
  await withPool(async (pool) => expect((await pool.query('show tcp_user_timeout')).rows).toEqual([{ tcp_user_timeout: '10000' }]));
  // Long enough that it is seen to wait.
  const settings = { tcp_user_timeout: '5s' };
  // Not by way of the proxy, which would take it all.
  const pool = openPool(database.ownerUrl, { name: 'test', max: 1, logger: openLog('test', 'silent'), queryTimeoutMs: 600_000, settings });
  try {
    const client = await pool.connect();
    await client.query('begin; select pg_advisory_xact_lock(1)');
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    stream.pause();
    // More than all buffers on the way hold.
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

test('a statement that the server refuses costs no other connection', () =>
  withPool(async (pool) => {
    await Promise.all(Array.from({ length: 3 }, () => pool.query('select pg_sleep(0.1)')));
    expect(pool.idleCount).toBe(3);
    const refused = readTenant(pool, '00000000-0000-0000-0000-000000000000', { text: 'select 1 / 0', values: [] });
    await expect(refused).rejects.toThrow('division by zero');
    expect(pool.idleCount).toBe(2);
  }));

test('a server that is a standby counts as away until it is promoted', async () => {
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

test('a database that takes the password no longer counts as away', async () => {
  const wrong = new URL(url);
  wrong.password = 'another';
  const pool = openPool(wrong.href, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: '28P01' });
  expect(isTransient(refusal)).toBe(true);
  await pool.end();
});

test('a database that takes no connection counts as away, for whatever reason, and is told at once to its owner', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const asked = async () => {
    const pool = openPool(database.serviceUrl, { name: 'test', max: 1, logger: openLog('test', 'silent') });
    const error: unknown = await pool.query('select 1').catch((each: unknown) => each);
    await pool.end();
    return { code: (error as { code?: string }).code, isAway: isTransient(error) };
  };
  const say = (text: string) => withClient(new URL('/postgres', database.adminUrl).href, (client) => client.query(text));
  try {
    await say(`revoke connect on database "${database.name}" from public, "${new URL(database.serviceUrl).username}"`);
    expect(await asked()).toEqual({ code: '42501', isAway: true });
    await say(`alter database "${database.name}" allow_connections false`);
    expect(await asked()).toEqual({ code: '55000', isAway: true });
    const owner = () => withClient(database.ownerUrl, () => Promise.resolve());
    await expect(waitForAnswer('MIGRATION_DATABASE_URL', owner)).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: database .* is not currently accepting/,
    );
  } finally {
    await say(`alter database "${database.name}" allow_connections true`);
    await database.drop();
  }
  expect(await asked()).toEqual({ code: expect.stringMatching(/^(3D000|28P01)$/) as string, isAway: true });
});

test('a transaction that was ended for its length counts as away, also where the server has words of its own for how bad that is', () => {
  for (const code of ['25P03', '25P04'])
    expect(isTransient(Object.assign(new Error('завершение'), { code, severity: 'ВАЖНО' }))).toBe(true);
});

test('a database without transaction ids counts as away, and one that finds a row too large does not', () => {
  const refused = (routine: string) => isTransient(Object.assign(new Error('refused'), { code: '54000', severity: 'ERROR', routine }));
  expect(['GetNewTransactionId', 'GetNewMultiXactId', 'heap_form_tuple'].map(refused)).toEqual([true, true, false]);
});

test('a database that is reached through what loses the settings of a connection counts as away, for as long as it is', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const address = new URL(database.serviceUrl);
  const proxy = await openProxy(Number(address.port));
  [address.hostname, address.port] = ['127.0.0.1', String(proxy.port)];
  const pool = openPool(address.href, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const settings = async () => (await pool.query<{ on: string }>(`select current_setting('app.settings') as on`)).rows[0]?.on;
  try {
    expect(await settings()).toBe('on');
    proxy.watch = (chunk) => {
      const place = chunk.indexOf('app.settings=on');
      if (place >= 0) chunk.write('app.settings=no', place, 'latin1');
      return 'pass';
    };
    proxy.cut();
    await until(async () => (await settings().catch((error: unknown) => error)) !== 'on');
    const refusal: unknown = await settings().catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: '08P01', message: expect.stringMatching(/^the settings of a connection are lost/) as string });
    expect(isTransient(refusal)).toBe(true);
    proxy.watch = () => 'pass';
    expect(await settings()).toBe('on');
  } finally {
    await pool.end();
    await proxy.close();
    await database.drop();
  }
});

test('a machine without descriptors or ports left counts as away', () => {
  for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'EADDRNOTAVAIL'])
    expect(isTransient(new Error('a query failed', { cause: Object.assign(new Error(`connect ${code}`), { code }) }))).toBe(true);
});

test('a database that can’t be spoken to by TLS counts as away', async () => {
  const encrypted = new URL(url);
  encrypted.searchParams.set('sslmode', 'no-verify');
  const pool = openPool(encrypted.href, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
  expect(refusal).toMatchObject({ message: 'The server does not support SSL connections' });
  expect(isTransient(refusal)).toBe(true);
  await pool.end();
  for (const code of ['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'SELF_SIGNED_CERT_IN_CHAIN'])
    expect(isTransient(new Error('a query failed', { cause: Object.assign(new Error('certificate'), { code }) }))).toBe(true);
});

test('who answers the question for TLS with neither yes nor no, as PostgreSQL does that is short of memory, counts as away, too', async () => {
  const server = createServer((socket) => socket.once('data', () => socket.end('E'))).listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const { port } = server.address() as AddressInfo;
  const address = `postgres://a:b@127.0.0.1:${port}/c?sslmode=no-verify`;
  const pool = openPool(address, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const refusal: unknown = await pool.query('select 1').catch((error: unknown) => error);
  expect(refusal).toMatchObject({ message: 'There was an error establishing an SSL connection' });
  expect(isTransient(refusal)).toBe(true);
  await pool.end();
  server.close();
});

test('what fails for something in the work is told from what may be tried again, and what PostgreSQL refuses from faults of this program', () => {
  const refusal = (code: string) => Object.assign(new pg.DatabaseError('refused', 7, 'error'), { code });
  const fault = Object.assign(new RangeError('no such place'), { code: 'ERR_OUT_OF_RANGE' });
  const told = (error: Error) => [isPermanent(error), isDataError(error)];
  for (const code of ['22012', '23514', 'P0001', 'XX001']) expect([code, ...told(refusal(code))]).toEqual([code, true, true]);
  for (const code of ['42501', '42P01', '3F000']) expect([code, ...told(refusal(code))]).toEqual([code, true, false]);
  for (const code of ['0A000', '25P02', '26000', '40001', '53100', '57014'])
    expect([code, ...told(refusal(code))]).toEqual([code, false, false]);
  for (const error of [fault, new TypeError('not a function')]) expect(told(error)).toEqual([true, false]);
  expect(told(new Error('Connection terminated unexpectedly'))).toEqual([false, false]);
});

test('of statements that are sent together the error that began it is thrown, though those behind it are heard first', () =>
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

test('what was prepared before a migration is prepared anew, and nobody is told', () =>
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

test('a refusal that sounds like an outdated connection, on whichever, is thrown', () =>
  withPool(async (pool) => {
    let begun = 0;
    const work = (client: Client) => {
      begun++;
      return client.query(`do $$ begin raise 'not supported' using errcode = '0A000'; end $$`);
    };
    await expect(inTransaction(pool, [], work)).rejects.toThrow('not supported');
    expect(begun).toBeGreaterThan(1);
  }));
