// The pages on restoring, followed by a shell on a PostgreSQL server of its own: every command of them, in its order.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasSetpriv } from '../deploy/local/children.ts';
import { root } from '../deploy/local/plan.ts';
import { serverUser } from '../deploy/local/postgres.ts';
import { testPort } from './cluster.ts';
import { installedPrograms } from './proof/restore/archiving-server.ts';
import { bareEnvironment, currentRun } from './run.ts';

const pages = ['restore', 'restore-a-dump'].map((name) => readFileSync(join(root, `gateway/docs/operate/${name}.md`), 'utf8')).join('\n');

/** PostgreSQL refuses to run as root: as in `npm start`, its programs run as another user that may enter closed directories. */
function asServersUser(directory: string): string {
  const { user } = serverUser(directory, directory);
  if (!user) return '';
  const flags = `--reuid=${user.uid} --regid=${user.gid} --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override`;
  const programs = ['initdb', 'pg_ctl', 'pg_basebackup', 'pg_verifybackup'];
  return programs.map((name) => `${name}() { setpriv ${flags} --securebits=+no_setuid_fixup ${name} "$@"; }`).join('\n');
}

const missing = [
  ...['bash', 'curl'].filter((program) => spawnSync(program, ['--version']).error !== undefined),
  ...(installedPrograms()?.startsWith('/usr/lib/postgresql/') === true ? [] : ["PostgreSQL's programs of Debian"]),
  ...(process.getuid?.() !== 0 || hasSetpriv ? [] : ['setpriv']),
];

(missing.length === 0 ? test : test.skip)(
  'the commands of the pages on restoring lead from a backup to the moment before the accident, and onto another server',
  async () => {
    const directory = mkdtempSync(join(currentRun().directory, 'restore-page-'));
    chmodSync(directory, 0o755);
    const ports = [String(await testPort()), String(await testPort())] as const;
    const blocks = [...pages.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
    const script = blocks
      .join('\n')
      .replaceAll('.data/', `${directory}/`)
      .replaceAll(/\b8080\b/g, ports[0])
      .replaceAll(/\b5499\b/g, ports[1]);
    const env: NodeJS.ProcessEnv = { ...bareEnvironment, HOME: process.env['HOME'], PORT: ports[0] };
    for (const name of ['IDENTITY', 'LEDGER', 'NOTIFIER', 'AUDITOR']) env[`${name}_ADDR`] = `127.0.0.1:${await testPort()}`;
    const cleanUp = `trap 'tail -n 5 $DRILL/*.log >&2; kill $(jobs -p) 2>/dev/null || true; wait; pg_ctl -D "$DRILL/server" -m immediate stop 2>/dev/null || true' EXIT`;
    const shell = spawn('bash', ['-euc', [asServersUser(directory), cleanUp, script].join('\n')], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [answers, errors] = [shell.stdout, shell.stderr].map((stream) => stream.setEncoding('utf8').toArray()) as Promise<string[]>[];
    const status = await new Promise((resolve) => shell.once('close', resolve));
    const answer = (await answers!).join('');
    if (status !== 0) throw new Error(`status ${String(status)}: ${answer}${(await errors!).join('')}`);
    // What was posted before the moment has its transaction again; what was posted after it is another one, at the latest when the freeze has ended.
    const posted = [...answer.matchAll(/^"(?:transaction_id|code)":"(\w+)"$/gm)].map(([, id]) => id);
    const [first, before, after, beforeAgain, afterAgain, afterFreeze, inDump, ...more] = posted;
    expect([beforeAgain, inDump, more]).toEqual([before, before, []]);
    expect([afterFreeze, 'books_frozen']).toContain(afterAgain);
    expect(new Set([first, before, after, afterFreeze]).size).toBe(4);
    expect(posted.filter((each) => each?.startsWith('txn_') !== true && each !== afterAgain)).toEqual([]);
    expect(answer).toMatch(/\n"status":"frozen"\n[\s\S]*can be changed again.*\n[\s\S]*\n"status":"active"\n/);
    expect(answer.match(/1 tenant.* verified: nothing differs$/gm)).toHaveLength(3);
    expect(answer.match(/derived from .*: nothing differs$/gm)).toHaveLength(2);
  },
  400_000,
);
