// The command line of a service: `main.ts` serves, `main.ts migrate` brings its schema up to date.
import { StartFailure, run, type Lifetime } from './lifetime.ts';
import type { Schema } from './migration.ts';
import type { Settings } from './settings.ts';

/** Opens the parts of a service and registers how each is stopped. Throws `BadSetting` or {@link StartFailure}. */
export type Serve = (settings: Settings, lifetime: Lifetime) => Promise<void>;

/** Runs a service's process by its arguments. `loadServe` is called only to serve: a migration needs none of those modules. */
export async function runService(settings: Settings, schema: Schema, loadServe: () => Promise<Serve>): Promise<void> {
  await run(async (lifetime) => {
    if (commandOf(process.argv.slice(2)) === null) {
      const serve = await loadServe();
      await serve(settings, lifetime);
      return;
    }
    lifetime.hasUnfinishedWork = true;
    const { migrate } = await import('./migration.ts');
    await migrate(settings.databaseUrl('MIGRATION_DATABASE_URL'), settings.databaseUrl('DATABASE_URL'), schema);
    lifetime.hasUnfinishedWork = false;
  });
}

/** The command in a process's arguments: `migrate`, or to serve (null). Throws {@link StartFailure} for any other. */
export function commandOf(args: string[]): 'migrate' | null {
  if (args.length === 0) return null;
  if (args[0] === 'migrate' && args.length === 1) return 'migrate';
  throw new StartFailure(`unknown command ${args.join(' ')}: there is migrate, or none`);
}
