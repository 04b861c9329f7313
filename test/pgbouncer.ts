// A real PgBouncer before a test's own PostgreSQL server.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { withClient } from '../deploy/local/databases.ts';
import { newChildren, testPort } from './cluster.ts';
import { text } from './sources.ts';
import { currentRun } from './run.ts';

/** Whether `pgbouncer` is on the PATH. */
export const hasPgBouncer = spawnSync('pgbouncer', ['--version']).error === undefined;

/** A running PgBouncer. */
export interface PgBouncer {
  /** The same database and role through it. */
  through: (url: string) => string;
  stop: () => Promise<unknown>;
}

/** Starts it with the guide's settings for the roles of these addresses; they share `poolSize` connections each. */
export async function startPgBouncer(urls: string[], poolSize: number): Promise<PgBouncer> {
  const directory = mkdtempSync(join(currentRun().directory, 'pgbouncer-'));
  const port = await testPort();
  const server = new URL(urls[0] ?? '');
  const users = urls.map((url) => new URL(url)).map(({ username, password }) => `"${username}" "${decodeURIComponent(password)}"`);
  writeFileSync(join(directory, 'users.txt'), users.join('\n'));
  const [, settings] = /```ini\n\[pgbouncer\]\n([^`]*)```/.exec(text('gateway/docs/operate/pgbouncer.md')) ?? [];
  writeFileSync(
    join(directory, 'pgbouncer.ini'),
    `[databases]
* = host=${server.hostname} port=${server.port}
[pgbouncer]
${settings ?? ''}
default_pool_size = ${poolSize}
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${join(directory, 'users.txt')}
`,
  );
  const children = newChildren();
  const isRoot = process.getuid?.() === 0;
  // It refuses to run as root.
  const runAs = isRoot && { user: { uid: 65_534, gid: 65_534 }, passClosedDirectories: true };
  const child = children.start({ name: 'pgbouncer', command: 'pgbouncer', args: [join(directory, 'pgbouncer.ini')], ...runAs });
  const through = (url: string) => Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href;
  for (const end = Date.now() + 30_000; ; await pause(50)) {
    const failure = await withClient(through(urls[0] ?? ''), (client) => client.query('select')).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failure === undefined) break;
    if (!child.running() || Date.now() > end) throw new Error(`no PgBouncer: ${child.output()}`, { cause: failure });
  }
  return { through, stop: () => children.end() };
}
