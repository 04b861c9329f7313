import pino from 'pino';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase } from '../../test/cluster.ts';
import { until } from '../../test/notifier.ts';
import { openProxy } from '../../test/proxy.ts';
import { openPool } from './postgres.ts';
import { databaseState } from './readiness.ts';
import { openLog } from './telemetry.ts';

const logger = openLog('test', 'silent');

test('a database that takes no writes is read-only for as long as it takes none', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const pool = openPool(database.serviceUrl, { name: 'asked', max: 1, logger });
  const ask = databaseState(pool, logger);
  const alter = (change: string) =>
    withClient(database.adminUrl, async (client) => {
      await client.query('set default_transaction_read_only = off');
      await client.query(`alter database "${database.name}" ${change}`);
    });
  const endSessions = () =>
    withClient(database.adminUrl, (client) =>
      client.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = 'asked'`, [
        database.name,
      ]),
    );
  try {
    expect(await ask()).toBe('ok');
    await alter('set default_transaction_read_only = on');
    await endSessions();
    await until(async () => (await ask()) === 'read-only');
    await alter('reset default_transaction_read_only');
    await until(async () => (await ask()) === 'ok');
  } finally {
    await pool.end();
    await database.drop();
  }
});

test('a database that does not answer is away, which is logged once, until it answers again', async () => {
  const database = await freshDatabase('ledger', { migrated: true });
  const url = new URL(database.serviceUrl);
  const proxy = await openProxy(Number(url.port));
  [url.hostname, url.port] = ['127.0.0.1', String(proxy.port)];
  const lines: string[] = [];
  const pool = openPool(url.href, { name: 'asked', max: 1, logger });
  const ask = databaseState(pool, pino({}, { write: (line: string) => void lines.push(line) }));
  try {
    await until(async () => (await ask()) === 'ok');
    lines.length = 0;
    proxy.isolate(true);
    expect([await ask(), await ask()]).toEqual(['away', 'away']);
    expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(['database not ready']);
    proxy.isolate(false);
    proxy.cut();
    await until(async () => (await ask()) === 'ok');
  } finally {
    await pool.end();
    await proxy.close();
    await database.drop();
  }
});
