import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import pg from 'pg';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase } from '../../test/cluster.ts';
import { until } from '../../test/notifier.ts';
import { startOwnPostgres } from '../../test/own-postgres.ts';
import { openPool } from './postgres.ts';
import { Commits, databaseState, NewConnections } from './readiness.ts';
import { openLog, type Logger } from './telemetry.ts';

const logger = openLog('test', 'silent');

test('a database that commits is ok, and one that takes no writes is told as that, for as long as it takes none', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const open = (max: number) => openPool(database.serviceUrl, { name: 'asked', max, logger });
  const pool = open(2);
  const newOnes = new NewConnections(() => open(1), 300);
  const asked = databaseState(pool, newOnes, logger);
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
    await Promise.all([newOnes.stop(), pool.end()]);
    await database.drop();
  }
});

test('a database whose commits wait for a standby that is gone says so within seconds, for as long as it is, and then no more', async () => {
  const server = await startOwnPostgres();
  const alter = (...texts: string[]) =>
    withClient(server.adminUrl, async (client) => {
      for (const text of texts) await client.query(text);
    });
  const open = (max: number) => openPool(server.adminUrl, { name: 'asked', max, logger });
  const pool = open(2);
  const newOnes = new NewConnections(() => open(1), 300);
  const ask = databaseState(pool, newOnes, logger);
  const waiting = () =>
    withClient(server.adminUrl, async (client) => {
      const { rowCount } = await client.query(`select from pg_stat_activity where wait_event = 'SyncRep'`);
      return rowCount;
    });
  // On a slow machine an answer may come too late now and then.
  const states: string[] = [];
  const told = (by: typeof ask) =>
    until(async () => {
      const state = await by();
      states.push(state);
      return state !== 'away' && state;
    });
  try {
    expect(await told(ask)).toBe('ok');
    // Also where PostgreSQL does not tell what its sessions do.
    const change = ['track_activities = off', `synchronous_standby_names = 'gone'`].map((setting) => `alter system set ${setting}`);
    await alter(...change, 'select pg_reload_conf()');
    await until(async () => (await ask()) === 'not committing');
    // Also when the connection that waited has been given up, which goes on waiting at the server, for all.
    const another = databaseState(pool, newOnes, logger);
    for (const end = performance.now() + 20_000; performance.now() < end;) {
      expect(await told(ask)).toBe('not committing');
      expect(await waiting()).toBe(1);
      await another();
      await new Promise((done) => setTimeout(done, 500));
    }
    expect(await told(another)).toBe('not committing');
    expect(states.filter((state) => state === 'away').length).toBeLessThan(states.length / 2);
    await alter('alter system reset synchronous_standby_names', 'select pg_reload_conf()');
    await until(async () => (await ask()) === 'ok');
  } finally {
    await Promise.all([newOnes.stop(), pool.end()]);
    await server.end();
  }
});

test('replicas that are asked at the same moments do not take each other for a database that does not commit', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const holder = openPool(database.serviceUrl, { name: 'another', max: 1, logger });
  const open = (max: number) => openPool(database.serviceUrl, { name: 'asked', max, logger });
  const pool = open(2);
  const newOnes = new NewConnections(() => open(1), 300);
  const ask = databaseState(pool, newOnes, logger);
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
    await Promise.all([holder.end(), newOnes.stop(), pool.end()]);
    await database.drop();
  }
});

test('that new connections are refused is known though those that are open work; that there are no more is not taken for it', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const told: string[] = [];
  const log = { ...logger, warn: (_: object, what: string) => told.push(what) } as unknown as Logger;
  // A role of its own: others share theirs.
  const name = `${database.name}_asked`;
  const url = new URL(database.serviceUrl);
  [url.username, url.password] = [name, 'secret'];
  const open = (max: number) => openPool(url.href, { name: 'asked', max, logger });
  const pool = open(2);
  const newOnes = new NewConnections(() => open(1), 300);
  const asked = databaseState(pool, newOnes, log);
  const admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  await admin.query(`create role "${name}" login password 'secret'; grant connect on database "${database.name}" to "${name}"`);
  const role = (what: string) => admin.query(`alter role "${name}" ${what}`);
  try {
    expect(await asked()).toBe('ok');
    await role(`password 'another'`);
    await until(async () => (await asked()) === 'away');
    expect(await asked()).toBe('away');
    expect(told).toEqual(['the database is away']);
    // That there are no more is another answer: what was refused before is over.
    await role(`password 'secret' connection limit 0`);
    await until(async () => (await asked()) === 'ok');
    await role('connection limit -1');
    // The one that is open says more than the new one that is not to be had, for as long as it is.
    await role('connection limit 0');
    for (const end = performance.now() + 1_500; performance.now() < end; await pause(50)) expect(await asked()).toBe('ok');
    await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = 'asked'`, [
      database.name,
    ]);
    await until(async () => (await asked()) === 'away');
    await role('connection limit -1');
    await until(async () => (await asked()) === 'ok');
    // What a new one may do counts, too: those that are open have been told before.
    await admin.query(`alter role "${name}" set default_transaction_read_only = on`);
    await until(async () => (await asked()) === 'read-only');
    await admin.query(`alter role "${name}" reset default_transaction_read_only`);
    await until(async () => (await asked()) === 'ok');
  } finally {
    await Promise.all([newOnes.stop(), pool.end()]);
    await admin.query(`drop owned by "${name}"; drop role "${name}"`);
    await admin.end();
    await database.drop();
  }
});

test('while new connections are refused one is tried for whoever asks, however long it is to the next', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  let opened = 0;
  const open = (max: number) => {
    const url = new URL(database.serviceUrl);
    // The first one finds nobody, as in a restart.
    if (max === 1 && ++opened === 1) url.port = '1';
    return openPool(url.href, { name: 'asked', max, logger });
  };
  const pool = open(2);
  const setInterval = jest.spyOn(global, 'setInterval');
  const newOnes = new NewConnections(() => open(1), 600_000);
  const asked = databaseState(pool, newOnes, logger);
  try {
    expect(await asked()).toBe('ok');
    setInterval.mock.calls[0]![0]();
    await until(async () => (await asked()) === 'away');
    await until(async () => (await asked()) === 'ok');
    expect(opened).toBe(2);
  } finally {
    setInterval.mockRestore();
    await Promise.all([newOnes.stop(), pool.end()]);
    await database.drop();
  }
});

describe('commits', () => {
  let nowMs = 0;
  beforeEach(() => {
    jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
  });
  afterEach(() => jest.restoreAllMocks());

  const broken = new Error('Connection terminated unexpectedly');
  const refused = Object.assign(new Error('canceling statement'), { severity: 'ERROR' });

  /** Commits of which each is answered by hand, after whoever asked has been: `settle`s, in their order. */
  function answeredByHand() {
    const settles: { resolve: (isTried: boolean) => void; reject: (error: Error) => void }[] = [];
    const commits = new Commits(() => new Promise((resolve, reject) => settles.push({ resolve, reject })));
    return { commits, settles };
  }

  test('are tried once in five seconds, however often they are asked for', async () => {
    let tried = 0;
    const commits = new Commits(() => {
      tried++;
      return Promise.resolve(true);
    });
    for (nowMs = 0; nowMs < 15_000; nowMs += 50) expect(await commits.areWaiting()).toBe(false);
    expect(tried).toBe(3);
  });

  test('are tried one at a time', async () => {
    const { commits, settles } = answeredByHand();
    for (nowMs = 0; nowMs < 5_000; nowMs += 2_500) expect(await commits.areWaiting()).toBe(false);
    nowMs = 5_001;
    expect(await commits.areWaiting()).toBe(true);
    expect(settles).toHaveLength(1);
    settles[0]!.resolve(true);
    expect(await commits.areWaiting()).toBe(false);
  });

  test('that PostgreSQL refuses it has not kept waiting, at once nor late', async () => {
    const { commits, settles } = answeredByHand();
    for (const tookMs of [0, 5_300]) {
      const asked = commits.areWaiting();
      nowMs += tookMs;
      settles.at(-1)!.reject(refused);
      expect(await asked).toBe(false);
      nowMs += 5_000;
    }
    expect(settles).toHaveLength(2);
  });

  test.each([
    ['no transaction ids', { code: '54000', routine: 'GetNewTransactionId' }, true],
    ['no disk', { code: '53100' }, true],
    ['no connections', { code: '53300' }, false],
    ['a row that is too large', { code: '54000', routine: 'heap_form_tuple' }, false],
  ])('that PostgreSQL refuses for %s are told as what nobody has, if it is', async (_, what, isTold) => {
    const commits = new Commits(() => Promise.reject(Object.assign(new Error('refused'), { severity: 'ERROR', ...what })));
    expect(await commits.areWaiting()).toBe(false);
    nowMs += 5_300;
    expect(await commits.areWaiting()).toBe(isTold);
  });

  test.each([1_000, 10_000, 60_000])('that nobody takes are told to whoever asks every %s ms', async (everyMs) => {
    const commits = new Commits(() => Promise.reject(Object.assign(new Error('disk full'), { severity: 'ERROR', code: '53100' })));
    const said: boolean[] = [];
    for (const end = nowMs + 5_001 + 2 * everyMs; nowMs < end; nowMs += everyMs) said.push(await commits.areWaiting());
    expect([said[0], ...said.slice(-2)]).toEqual([false, true, true]);
  });

  test('of which one was refused long ago are not waiting, as they are tried on while nobody asks', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const { commits, settles } = answeredByHand();
    const asked = commits.areWaiting();
    settles[0]!.reject(Object.assign(new Error('out of memory'), { severity: 'ERROR', code: '53200' }));
    expect(await asked).toBe(false);
    const [[again, afterMs]] = timers.mock.calls as [[() => unknown, number]];
    nowMs += afterMs;
    again();
    settles[1]!.resolve(true);
    nowMs += 60_000;
    expect([await commits.areWaiting(), timers.mock.calls.length]).toEqual([false, 1]);
  });

  test('that break at once say nothing, be it one or several in a row', async () => {
    const commits = new Commits(() => Promise.reject(broken));
    for (nowMs = 0; nowMs < 30_000; nowMs += 5_000) expect(await commits.areWaiting()).toBe(false);
  });

  test('that break late have waited, and one that breaks at once then does not end a wait that is known', async () => {
    const { commits, settles } = answeredByHand();
    const askUntilItBreaks = () => {
      const asked = commits.areWaiting();
      settles.at(-1)!.reject(broken);
      return asked;
    };
    expect(await commits.areWaiting()).toBe(false);
    nowMs += 5_300;
    expect(await askUntilItBreaks()).toBe(true);
    expect(await askUntilItBreaks()).toBe(true);
    const asked = commits.areWaiting();
    settles.at(-1)!.resolve(true);
    expect([await asked, settles.length]).toEqual([false, 3]);
  });

  test('that others try all the time wait as well, until one comes to an end', async () => {
    let isFree = false;
    const commits = new Commits(() => Promise.resolve(isFree));
    expect(await commits.areWaiting()).toBe(false);
    nowMs += 5_001;
    expect(await commits.areWaiting()).toBe(true);
    isFree = true;
    expect(await commits.areWaiting()).toBe(false);
  });
});
