import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase } from '../../test/house.ts';
import { until } from '../../test/notifier.ts';
import { ownServer } from '../../test/server.ts';
import { openPool } from './postgres.ts';
import { Commits, databaseState } from './readiness.ts';
import { openLog } from './telemetry.ts';

const logger = openLog('test', 'silent');

test('a database that commits is ok, and one that takes no writes is told as that, for as long as it takes none', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const pool = openPool(database.serviceUrl, { name: 'asked', max: 2, logger });
  const asked = databaseState(pool);
  const say = (what: string) =>
    withClient(database.adminUrl, async (client) => {
      await client.query('set default_transaction_read_only = off');
      await client.query(`alter database "${database.name}" ${what}`);
    });
  const endSessions = () =>
    withClient(database.adminUrl, (client) =>
      client.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = 'asked'`, [
        database.name,
      ]),
    );
  try {
    expect(await asked()).toBe('ok');
    await say('set default_transaction_read_only = on');
    // A session that there is keeps what it was told when it began.
    await endSessions();
    await until(async () => (await asked()) === 'read-only');
    await say('reset default_transaction_read_only');
    await until(async () => (await asked()) === 'ok');
  } finally {
    await pool.end();
    await database.drop();
  }
});

test('a database whose commits wait for a standby that is gone says so within seconds, for as long as it is, and then no more', async () => {
  const server = await ownServer();
  const alter = (...texts: string[]) =>
    withClient(server.adminUrl, async (client) => {
      for (const text of texts) await client.query(text);
    });
  const pool = openPool(server.adminUrl, { name: 'asked', max: 2, logger });
  const ask = databaseState(pool);
  const waiting = () =>
    withClient(server.adminUrl, async (client) => {
      const { rowCount } = await client.query(`select from pg_stat_activity where wait_event = 'SyncRep'`);
      return rowCount;
    });
  try {
    expect(await ask()).toBe('ok');
    // Also where PostgreSQL does not tell what its sessions do.
    const change = ['track_activities = off', `synchronous_standby_names = 'gone'`].map((setting) => `alter system set ${setting}`);
    await alter(...change, 'select pg_reload_conf()');
    await until(async () => (await ask()) === 'not committing');
    // Also when the connection that waited has been given up, which goes on waiting at the server, for all.
    const another = databaseState(pool);
    for (const end = performance.now() + 20_000; performance.now() < end;) {
      expect(await ask()).toBe('not committing');
      expect(await waiting()).toBe(1);
      await another();
      await new Promise((done) => setTimeout(done, 500));
    }
    expect(await another()).toBe('not committing');
    await alter('alter system reset synchronous_standby_names', 'select pg_reload_conf()');
    await until(async () => (await ask()) === 'ok');
  } finally {
    await pool.end();
    await server.end();
  }
});

test('replicas that are asked at the same moments do not take each other for a database that does not commit', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const holder = openPool(database.serviceUrl, { name: 'another', max: 1, logger });
  const pool = openPool(database.serviceUrl, { name: 'asked', max: 2, logger });
  const ask = databaseState(pool);
  // Each time it is asked another one has just begun, and is done in a moment.
  const askBesideAnother = async () => {
    const client = await holder.connect();
    await client.query(`begin; select pg_advisory_xact_lock(hashtext('readiness'))`);
    const state = ask();
    await new Promise((done) => setTimeout(done, 100));
    await client.query('commit');
    client.release();
    return state;
  };
  try {
    for (let turn = 0; turn < 2; turn++) {
      expect(await askBesideAnother()).toBe('ok');
      await new Promise((done) => setTimeout(done, 5_200));
    }
    expect(await askBesideAnother()).toBe('ok');
  } finally {
    await Promise.all([holder.end(), pool.end()]);
    await database.drop();
  }
});

test('commits are tried now and then, one at a time, and what PostgreSQL refuses it has not kept waiting', async () => {
  let tried = 0;
  let answer = () => Promise.resolve(true);
  const commits = new Commits(() => {
    tried++;
    return answer();
  });
  for (let turn = 0; turn < 100; turn++) expect(await commits.areWaiting()).toBe(false);
  expect(tried).toBe(1);
  answer = () => Promise.reject(Object.assign(new Error('permission denied'), { severity: 'ERROR' }));
  const refused = new Commits(answer);
  for (const end = performance.now() + 6_000; performance.now() < end;) {
    expect(await refused.areWaiting()).toBe(false);
    await new Promise((done) => setTimeout(done, 100));
  }
});

test('a commit is tried once in five seconds, however often it is asked for', async () => {
  let tried = 0;
  const commits = new Commits(() => {
    tried++;
    return Promise.resolve(true);
  });
  for (const end = performance.now() + 5_600; performance.now() < end;) {
    expect(await commits.areWaiting()).toBe(false);
    await new Promise((done) => setTimeout(done, 50));
  }
  expect(tried).toBe(2);
});

test('a try that broke at once says nothing of commits', async () => {
  let breaks = true;
  const commits = new Commits(() => (breaks ? Promise.reject(new Error('Connection terminated unexpectedly')) : Promise.resolve(true)));
  expect(await commits.areWaiting()).toBe(false);
  breaks = false;
  await new Promise((done) => setTimeout(done, 5_200));
  expect(await commits.areWaiting()).toBe(false);
});

test('nor do two in a row, and one does not end a wait that is known', async () => {
  let afterMs = 0;
  const commits = new Commits(async () => {
    await new Promise((done) => setTimeout(done, afterMs));
    throw new Error('Connection terminated unexpectedly');
  });
  expect(await commits.areWaiting()).toBe(false);
  await new Promise((done) => setTimeout(done, 5_200));
  expect(await commits.areWaiting()).toBe(false);
  afterMs = 5_300;
  await new Promise((done) => setTimeout(done, 5_200));
  expect(await commits.areWaiting()).toBe(false);
  await new Promise((done) => setTimeout(done, 5_500));
  afterMs = 0;
  expect(await commits.areWaiting()).toBe(true);
});

test('what PostgreSQL refuses late it has not kept waiting either, and what breaks late it has', async () => {
  const late = (error: Error) => new Commits(() => new Promise((_, reject) => setTimeout(() => reject(error), 5_300)));
  const refused = late(Object.assign(new Error('canceling statement'), { severity: 'ERROR' }));
  const broken = late(new Error('Query read timeout'));
  for (const each of [refused, broken]) expect(await each.areWaiting()).toBe(false);
  await new Promise((done) => setTimeout(done, 5_500));
  expect([await refused.areWaiting(), await broken.areWaiting()]).toEqual([false, true]);
});

test('one that another process tries at that moment says nothing, however long nobody asks then', async () => {
  let isFree = false;
  const commits = new Commits(() => Promise.resolve(isFree));
  expect(await commits.areWaiting()).toBe(false);
  isFree = true;
  await new Promise((done) => setTimeout(done, 5_200));
  expect(await commits.areWaiting()).toBe(false);
});
