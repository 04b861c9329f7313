// A standby of a server of a test's own: each commit of the server waits for it, so that it may take the server's place and nothing is lost.
import { execFile } from 'node:child_process';
import { appendFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { withClient } from '../deploy/local/databases.ts';
import { startPostgres, type Postgres, type PostgresOptions } from '../deploy/local/postgres.ts';

// What a copy must not take from the server, which writes on: https://www.postgresql.org/docs/18/continuous-archiving.html
const emptied = ['pg_wal', 'pg_replslot', 'pg_dynshmem', 'pg_notify', 'pg_serial', 'pg_snapshots', 'pg_stat_tmp', 'pg_subtrans'];
const patienceMs = 60_000;

/**
 * Makes a standby of a running server (`of`, a superuser's address) from a copy of its directory, and starts it with `options`. Resolves once
 * commits wait for it, to have it on its disk.
 */
export async function startStandby(of: string, directory: string, options: PostgresOptions): Promise<Postgres> {
  const { hostname, port, username, password } = new URL(of);
  await withClient(of, async (client) => {
    // What it has not sent yet is kept.
    await client.query(`select pg_create_physical_replication_slot('standby', true)`);
    await client.query(`select pg_backup_start('standby', fast => true)`);
    await copy(directory, options.directory);
    const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(wait_for_archive => false)');
    writeFileSync(join(options.directory, 'backup_label'), rows[0]!.labelfile);
  });
  const primary = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)} sslmode=disable`;
  appendFileSync(
    join(options.directory, 'postgresql.auto.conf'),
    `primary_conninfo = '${primary} application_name=standby'\nprimary_slot_name = 'standby'\n`,
  );
  writeFileSync(join(options.directory, 'standby.signal'), '');
  const standby = await startPostgres(options);
  await withClient(of, async (client) => {
    await client.query(`alter system set synchronous_standby_names = 'standby'`);
    await client.query('select pg_reload_conf()');
    for (const until = Date.now() + patienceMs; ; await pause(20)) {
      const { rowCount } = await client.query(`select from pg_stat_replication where sync_state = 'sync'`);
      if (rowCount === 1) break;
      if (Date.now() > until)
        throw new Error(`no commit waits for the standby after ${patienceMs / 1000} s: ${standby.child.output().slice(-2000)}`);
    }
    // Whether commits wait the checkpointer tells them, once it has read the settings too: until then one that is answered may be lost. It reads them
    // before it does what it is asked for.
    await client.query('checkpoint');
  });
  return standby;
}

/** Copies a server's directory, with its owners. What is removed meanwhile is made again from the log. */
async function copy(from: string, to: string): Promise<void> {
  mkdirSync(dirname(to), { recursive: true });
  await new Promise<void>((resolve, reject) => {
    execFile('cp', ['-a', from, to], { env: { ...process.env, LC_ALL: 'C' } }, (error, _, complaints) => {
      const others = complaints.split('\n').filter((line) => line !== '' && !line.endsWith('No such file or directory'));
      if (error && others.length > 0) reject(new Error(`copying ${from}: ${others.join('; ')}`));
      else resolve();
    });
  });
  for (const file of ['postmaster.pid', 'postmaster.opts']) rmSync(join(to, file), { force: true });
  for (const each of emptied) {
    for (const file of readdirSync(join(to, each), { withFileTypes: true })) {
      // Where the log is, its directories are wanted.
      if (each !== 'pg_wal' || file.isFile()) rmSync(join(to, each, file.name), { recursive: true });
    }
  }
}
