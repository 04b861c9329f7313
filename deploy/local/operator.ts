// `npm run ledger -- verify`, `npm run notifier -- due`: operator's commands, by default on the databases of DATA_DIR.
// What is no operator's command of `npm run ledger` is of the command line.
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { Settings } from '../../services/platform/settings.ts';
import { savedDatabases } from './databases.ts';
import { root } from './plan.ts';

// The ledger's commands run as the owner, which sees all tenants.
const needs: Record<string, string> = { ledger: 'MIGRATION_DATABASE_URL' };

const operatorCommands = ['verify', 'heads', 'rebuild', 'unfreeze', 'relay', 'redrive', 'discard', 'import-log', 'enable'];

function databaseEnvironment(service: string, args: string[], settings: Settings): NodeJS.ProcessEnv {
  if (args.includes('--help') || args.includes('-h')) return {};
  if (settings.optional('DATABASE_URL') !== undefined || settings.optional('MIGRATION_DATABASE_URL') !== undefined) return {};
  const directory = resolve(root, settings.text('DATA_DIR', '.data'));
  const needed = needs[service] ?? 'DATABASE_URL';
  const database = savedDatabases(directory)[service];
  if (!database) throw new StartFailure(`DATA_DIR: ${directory} has no ${service} yet: run npm start, or set ${needed}`);
  return { DATABASE_URL: database.serviceUrl, MIGRATION_DATABASE_URL: database.ownerUrl };
}

/** Runs a program of the tree and ends as it ends. */
function run(program: string, args: string[], environment: NodeJS.ProcessEnv): void {
  const command = spawn(process.execPath, [join(root, program), ...args], {
    // Files are named from where npm was called.
    cwd: process.env['INIT_CWD'] ?? root,
    env: { ...process.env, ...environment },
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => command.kill(signal));
  command.on('exit', (code) => process.exit(code ?? 3));
}

try {
  const [service = '', ...args] = process.argv.slice(2);
  const isOperators = service !== 'ledger' || operatorCommands.includes(args[0] ?? '');
  if (isOperators) run(`services/${service}/cli.ts`, args, databaseEnvironment(service, args, new Settings(process.env)));
  else run('gateway/cli/main.ts', args, {});
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  // As an operator's command that could not be done.
  process.exit(3);
}
