// Migrations: run as the owner, one at a time, then the service's role is granted what it needs. Only `migrate` loads this file.
import { setTimeout as pause } from 'node:timers/promises';
import { MikroORM } from '@mikro-orm/postgresql';
import { Migrator, type Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { StartFailure, reasonOf } from './lifetime.ts';

/** One service's schema: its migrations in order, each a class named after what it does. */
export interface Schema {
  migrations: { name: string; class: new (...args: ConstructorParameters<typeof Migration>) => Migration }[];
  /** Tables whose rows the service's role may add and read, but neither change nor delete. */
  appendOnly: string[];
}

// Whoever changes a table waits until all who read it are done, a long dump for example, and everybody else waits behind him: so he waits
// shortly, lets the others through, and tries again.
const lockTimeout = '1s';
const pauseMs = 2_000;
const patienceMs = 5 * 60_000;

/**
 * Brings a schema up to date as its owner, creates the service's role where it is missing, and grants it the rows of every table but no
 * change of the schema. Safe to run twice and at once: an advisory lock lets one run after the other. Throws {@link StartFailure} where the
 * database is away, or where somebody has held a table for five minutes; running it again goes on from there.
 */
export async function migrate(ownerUrl: string, serviceUrl: string, schema: Schema): Promise<void> {
  const client = new pg.Client({ connectionString: ownerUrl, connectionTimeoutMillis: 5000 });
  try {
    await client.connect();
  } catch (error) {
    throw new StartFailure(`MIGRATION_DATABASE_URL: ${reasonOf(error)}`);
  }
  const role = decodeURIComponent(new URL(serviceUrl).username);
  const password = decodeURIComponent(new URL(serviceUrl).password);
  const orm = await MikroORM.init({
    clientUrl: ownerUrl,
    entities: [],
    extensions: [Migrator],
    migrations: { migrationsList: schema.migrations, snapshot: false, silent: true },
    // The whole address: of `clientUrl` it takes host, port, user, password and database, and passes over a `sslmode`.
    driverOptions: { connectionString: ownerUrl, options: `-c lock_timeout=${lockTimeout}` },
    allowGlobalContext: true,
    debug: false,
    logger: () => undefined,
    discovery: { warnWhenNoEntities: false },
  });
  try {
    await client.query(`select pg_advisory_lock(hashtext('migrations of this database'))`);
    const known = await client.query('select 1 from pg_roles where rolname = $1', [role]);
    if (known.rowCount === 0) {
      const name = client.escapeIdentifier(role);
      // Two databases of one server may create the same role at once; the advisory lock is one database's.
      await client.query(`create role ${name} login password ${client.escapeLiteral(password)}`).catch((error: pg.DatabaseError) => {
        if (error.code !== '42710' && error.code !== '23505') throw error;
      });
    }
    await whenFree(() => orm.migrator.up());
    const name = client.escapeIdentifier(role);
    await client.query(`grant usage on schema public to ${name}`);
    await client.query(`grant select, insert, update, delete on all tables in schema public to ${name}`);
    for (const table of schema.appendOnly) {
      await client.query(`revoke update, delete, truncate on ${client.escapeIdentifier(table)} from ${name}`);
    }
    await client.query(`grant usage, select on all sequences in schema public to ${name}`);
    await client.query(`grant execute on all functions in schema public to ${name}`);
  } finally {
    await orm.close(true);
    await client.end();
  }
}

async function whenFree(change: () => Promise<unknown>): Promise<void> {
  for (const until = performance.now() + patienceMs; ; await pause(pauseMs)) {
    try {
      await change();
      return;
    } catch (error) {
      if (!isLocked(error)) throw error;
      if (performance.now() > until) throw new StartFailure(`MIGRATION_DATABASE_URL: a table stays locked: ${(error as Error).message}`);
    }
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && ((error as { code?: unknown }).code === '55P03' || isLocked(error.cause));
}
