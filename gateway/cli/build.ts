// Makes a package of one file: `npm run sdk -- cli` writes `.data/sdk/cli/ledger-cli-<version>.tgz`.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import { apiVersion } from './operations.ts';

const output = resolve(process.argv[2] ?? '.data/sdk/cli');
const folder = mkdtempSync(join(tmpdir(), 'ledger-cli-'));
try {
  await build({
    entryPoints: [join(import.meta.dirname, 'main.ts')],
    outfile: join(folder, 'ledger.js'),
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'node22',
    format: 'esm',
    // Packages in the older format call it.
    banner: { js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
    logLevel: 'warning',
  });
  chmodSync(join(folder, 'ledger.js'), 0o755);
  const manifest = {
    ...{ name: 'ledger-cli', version: apiVersion, description: 'The command line of the ledger', private: true },
    ...{ type: 'module', bin: { ledger: 'ledger.js' }, engines: { node: '>=22' } },
  };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest, null, 2));
  mkdirSync(output, { recursive: true });
  // One of a global prefix would be looked for first.
  const name = execFileSync('npm', ['pack', '--silent', '--pack-destination', output], { cwd: folder, encoding: 'utf8' }).trim();
  process.stdout.write(`${join(output, name)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
