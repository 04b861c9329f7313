// Writes the dashboards as JSON for Grafana, into `dashboards/` or the given directory. Part of npm run generate.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gateway } from './boards/gateway.ts';
import { ledger } from './boards/ledger.ts';
import { notifier } from './boards/notifier.ts';
import { overview } from './boards/overview.ts';
import { runtime } from './boards/runtime.ts';

const [directory = join(import.meta.dirname, 'dashboards')] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
for (const [name, board] of Object.entries({ overview, gateway, ledger, notifier, runtime })) {
  writeFileSync(join(directory, `${name}.json`), `${JSON.stringify(board, null, 2)}\n`);
}
