// Snapshots that are open on a server, whoever has them.
import { once, type EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { Registry } from 'prom-client';
import { withClient } from '../../deploy/local/databases.ts';
import { until } from '../../test/notifier.ts';
import { startOwnPostgres } from '../../test/own-postgres.ts';
import { openPool } from './postgres.ts';
import { registerSnapshots } from './snapshots.ts';
import { openLog } from './telemetry.ts';

// As OPERATING has it.
const whoHasThem = /```sql\n(select [^`]*pg_replication_slots[^`]*)```/.exec(readFileSync('deploy/OPERATING.md', 'utf8'))![1]!;

test('one that a standby has is told of, also where its slot keeps it', async () => {
  const server = await startOwnPostgres();
  const pool = openPool(server.adminUrl, { name: 'test', max: 1, logger: openLog('test', 'silent') });
  const metrics = new Registry();
  registerSnapshots('ledger', pool, metrics);
  const figure = async () => Number(/^ledger_oldest_snapshot_transactions (\S+)$/m.exec(await metrics.metrics())?.[1]);
  const begin = () => pool.query('do $$ begin for n in 1..2000 loop perform pg_current_xact_id(); commit; end loop; end $$');
  try {
    await withClient(server.adminUrl, async (admin) => {
      const { rows } = await admin.query<{ lsn: string; xmin: string }>(
        'select pg_current_wal_lsn() as lsn, pg_snapshot_xmin(pg_current_snapshot())::text as xmin',
      );
      const { lsn, xmin } = rows[0]!;
      const without = await sayingItNeeds(server.adminUrl, '', lsn, BigInt(xmin));
      await until(async () => (await admin.query('select from pg_stat_replication where backend_xmin is not null')).rowCount === 1);
      await begin();
      await until(async () => (await figure()) >= 2_000);
      await without.end();
      await until(async () => (await figure()) < 2_000);
      await admin.query(`select pg_create_physical_replication_slot('standby')`);
      const standby = await sayingItNeeds(server.adminUrl, 'SLOT standby', lsn, BigInt(xmin));
      await until(async () => (await admin.query('select from pg_replication_slots where xmin is not null')).rowCount === 1);
      await begin();
      await until(async () => (await figure()) >= 2_000);
      await standby.end();
      await until(async () => (await admin.query('select from pg_replication_slots where not active')).rowCount === 1);
      await begin();
      await until(async () => (await figure()) >= 4_000);
      expect((await admin.query(whoHasThem)).rows[0]).toMatchObject({ holder: 'slot standby', transactions: expect.any(Number) });
      await admin.query(`select pg_drop_replication_slot('standby')`);
      await until(async () => (await figure()) < 2_000);
    });
  } finally {
    await pool.end();
    await server.end();
  }
});

/** Follows as a standby does that has a snapshot open. https://www.postgresql.org/docs/18/protocol-replication.html */
async function sayingItNeeds(url: string, slot: string, lsn: string, xmin: bigint): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, replication: 'true' } as pg.ClientConfig);
  await client.connect();
  const { connection } = client as unknown as { connection: EventEmitter & { sendCopyFromChunk(chunk: Buffer): void } };
  const started = once(connection, 'replicationStart');
  // It has no answer but its end. (The words of this protocol are in capitals.)
  const ended = client.query(`START_REPLICATION ${slot} PHYSICAL ${lsn}`);
  await Promise.race([started, ended]);
  ended.catch(() => undefined);
  const feedback = Buffer.alloc(25);
  feedback.write('h');
  feedback.writeUInt32BE(Number(xmin & 0xffffffffn), 9);
  feedback.writeUInt32BE(Number(xmin >> 32n), 13);
  connection.sendCopyFromChunk(feedback);
  return client;
}
