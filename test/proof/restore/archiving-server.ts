// A server of installed PostgreSQL programs that archives its log, base backups of it, and its restore to a moment.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Children } from '../../../deploy/local/children.ts';
import { withClient } from '../../../deploy/local/databases.ts';
import { serverUser, startPostgres, type PostgresOptions } from '../../../deploy/local/postgres.ts';

/** A server with base backups and an archive of its log. */
export interface ArchivingServer {
  /** A superuser's address, database `postgres`; the restored server has the same. */
  adminUrl: string;
  version: string;
  /** Copies the running server and checks the copy. */
  baseBackup(): Promise<void>;
  /** The server's time, to the microsecond. */
  now(): Promise<string>;
  /** Resolves when what was committed before the call is in the archive. */
  archive(): Promise<void>;
  /** Stops it as a crash does, and puts its directory away. */
  lose(): Promise<void>;
  /** Starts the base backup with the archived log up to a moment; resolves when it takes writes. */
  restore(moment: string): Promise<void>;
  end(): Promise<void>;
}

/** The directory of the newest installed PostgreSQL programs, for servers and backups; null where there is none. */
export function installedPrograms(): string | null {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((one, other) => Number(other) - Number(one)) : [];
  const places = [...versions.map((version) => join(debian, version, 'bin')), ...(process.env['PATH'] ?? '').split(delimiter)];
  const needed = ['postgres', 'initdb', 'pg_basebackup', 'pg_verifybackup'];
  return places.find((place) => needed.every((name) => existsSync(join(place, name)))) ?? null;
}

const patienceMs = 60_000;

/** Starts a server in a directory, on a port. */
export async function startArchivingServer(
  programs: string,
  { directory, port, password }: { directory: string; port: number; password: string },
): Promise<ArchivingServer> {
  const [data, base, archive] = ['data', 'base', 'archive'].map((name) => join(directory, name)) as [string, string, string];
  const children = new Children(directory, join(directory, 'processes.json'));
  const options: PostgresOptions = {
    ...{ programs, directory: data, port, password, sharedBuffers: '128MB', children, say: () => undefined },
    settings: {
      archive_mode: 'on',
      archive_command: `test ! -f ${archive}/%f && cp %p ${archive}/%f.part && mv ${archive}/%f.part ${archive}/%f`,
    },
  };
  mkdirSync(archive, { recursive: true });
  let { url, child } = await startPostgres(options);
  const asked = async <Row extends object>(text: string): Promise<Row> =>
    withClient(url, async (client) => (await client.query<Row>(text)).rows[0] as Row);
  const run = (program: string, args: string[]) => {
    const env = { ...process.env, LC_ALL: 'C', PGPASSWORD: password };
    return children.start({ name: program, command: join(programs, program), args, cwd: '/', env, ...serverUser(data, programs) });
  };
  const complete = async (program: string, args: string[]) => {
    const process = run(program, args);
    if ((await process.ended).code !== 0) throw new Error(`${program}: ${process.output().slice(-2000)}`);
  };
  const { server_version: version } = await asked<{ server_version: string }>('show server_version');
  return {
    adminUrl: url,
    version,
    async baseBackup() {
      await complete('pg_basebackup', ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres', '-D', base, '--checkpoint=fast']);
      await complete('pg_verifybackup', [base]);
    },
    now: async () => (await asked<{ now: string }>('select clock_timestamp()::text as now')).now,
    async archive() {
      const { file } = await asked<{ file: string }>('select pg_walfile_name(pg_switch_wal()) as file');
      for (const end = Date.now() + patienceMs; !existsSync(join(archive, file)); await pause(20))
        if (Date.now() > end) throw new Error(`${file} is not in the archive after ${patienceMs / 1000} s: ${child.output().slice(-2000)}`);
    },
    async lose() {
      child.signal('SIGQUIT');
      await child.ended;
      renameSync(data, join(directory, 'lost'));
    },
    async restore(moment) {
      const copied = spawnSync('cp', ['-a', base, data], { encoding: 'utf8' });
      if (copied.status !== 0) throw new Error(`cp: ${copied.stderr}`);
      writeFileSync(join(data, 'recovery.signal'), '');
      const recovery = { restore_command: `cp ${archive}/%f %p`, recovery_target_time: moment, recovery_target_action: 'promote' };
      ({ url, child } = await startPostgres({ ...options, settings: { ...options.settings, ...recovery } }));
      for (const end = Date.now() + patienceMs; ; await pause(20)) {
        if (!(await asked<{ recovers: boolean }>('select pg_is_in_recovery() as recovers')).recovers) return;
        if (Date.now() > end) throw new Error(`still in recovery after ${patienceMs / 1000} s: ${child.output().slice(-2000)}`);
      }
    },
    end: async () => {
      await children.end();
    },
  };
}
