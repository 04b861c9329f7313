// `npm run ledger -- verify`, `npm run notifier -- redrive`: operator's commands, by default on the databases of DATA_DIR.
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { Settings } from '../../services/platform/settings.ts';
import { savedDatabases } from './databases.ts';
import { root } from './plan.ts';

// The ledger's commands run as the owner, which sees all tenants.
const needs: Record<string, string> = { ledger: 'MIGRATION_DATABASE_URL' };

function databaseEnvironment(service: string, args: string[], settings: Settings): NodeJS.ProcessEnv {
  if (args.includes('--help') || args.includes('-h')) return {};
  if (settings.optional('DATABASE_URL') !== undefined || settings.optional('MIGRATION_DATABASE_URL') !== undefined) return {};
  const directory = resolve(root, settings.text('DATA_DIR', '.data'));
  const needed = needs[service] ?? 'DATABASE_URL';
  const database = savedDatabases(directory)[service];
  if (!database) throw new StartFailure(`DATA_DIR: ${directory} has no ${service} yet: run npm start, or set ${needed}`);
  return { DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl };
}

try {
  const [service = '', ...args] = process.argv.slice(2);
  const environment = databaseEnvironment(service, args, new Settings(process.env));
  const command = spawn(process.execPath, [`services/${service}/cli.ts`, ...args], {
    cwd: root,
    env: { ...process.env, ...environment },
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => command.kill(signal));
  command.on('exit', (code) => process.exit(code ?? 1));
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exit(1);
}
