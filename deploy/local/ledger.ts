// `npm run ledger -- verify` and its like: the operator's commands, on the databases of DATA_DIR unless others are given.
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { Settings } from '../../services/platform/settings.ts';
import { keptDatabases } from './databases.ts';
import { root } from './plan.ts';

function databaseEnvironment(settings: Settings): NodeJS.ProcessEnv {
  if (settings.optional('DATABASE_URL') !== undefined || settings.optional('MIGRATION_DATABASE_URL') !== undefined) return {};
  const directory = resolve(root, settings.text('DATA_DIR', '.data'));
  const ledger = keptDatabases(directory)['ledger'];
  if (!ledger) throw new StartFailure(`DATA_DIR: ${directory} holds no ledger yet: npm start makes one, or give DATABASE_URL`);
  return { DATABASE_URL: ledger.serviceUrl, MIGRATION_DATABASE_URL: ledger.ownerUrl };
}

try {
  const environment = databaseEnvironment(new Settings(process.env));
  const command = spawn(process.execPath, ['services/ledger/cli.ts', ...process.argv.slice(2)], {
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
