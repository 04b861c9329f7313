// Migrations: run as the owner, one at a time, then the service's role is granted what it needs. Only `migrate` loads this file, and MikroORM
// where there is something to do.
import { setTimeout as pause } from 'node:timers/promises';
import type { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { StartFailure, errorMessage } from './lifetime.ts';
import { connectionOptions, keepAliveMs, noTransactionTimeout, releaseBroken, type Pool } from './postgres.ts';
import { waitForAnswer, checkConnection, checkGrants, assertRole } from './postgres-start.ts';
import { isTransient } from './postgres-errors.ts';
import { scramVerifier } from './scram.ts';

/** A migration: a class named after what it does. */
export interface NamedMigration {
  name: string;
  class: new (...args: ConstructorParameters<typeof Migration>) => Migration;
}

/** One service's schema. */
export interface Schema {
  /** Names of the migrations, oldest first. */
  names: readonly string[];
  /** Loads the migrations of these names; called only where the database lacks one. */
  migrations: () => Promise<NamedMigration[]>;
  /** Tables whose rows the service's role may add and read, but neither change nor delete. */
  appendOnly: string[];
  /** Tables whose rows it may change as well, but not delete; without, none. */
  kept?: string[];
}

// Whoever changes a table waits until all who read it are done, a long dump for example, and everybody else waits behind him: so he waits
// shortly, lets the others through, and tries again. But longer than `deadlock_timeout`, a second where nobody has said otherwise: it is then that
// PostgreSQL ends an autovacuum that is in the way, which may take hours. (Where it is many seconds, somebody has to end that by hand.) Milliseconds.
const lockTimeoutMs = (deadlockTimeoutMs: number) => Math.min(deadlockTimeoutMs, 4_000) + 1_000;
const pauseMs = 2_000;
const patienceMs = 5 * 60_000;

// A change may take its time, for which the connection with the lock is idle.
const patient = { statement_timeout: '0', idle_in_transaction_session_timeout: '0', lock_timeout: '0' };

/**
 * Brings a schema up to date as its owner, creates the service's role where it is missing, and grants it the rows of every table but no
 * change of the schema. Safe to run twice and at once: an advisory lock lets one run after the other. Throws {@link StartFailure} where the
 * addresses are of two databases or of one role, the database is away for 30 s or goes away, is read-only, or refused by {@link checkConnection},
 * {@link assertRole} or {@link checkGrants}, the role is not the owner, or somebody has held a table, or another run has not ended, for five
 * minutes; running it again goes on from there.
 */
export async function migrate(ownerUrl: string, serviceUrl: string, schema: Schema): Promise<void> {
  try {
    await migrateAsOwner(ownerUrl, serviceUrl, schema);
  } catch (error) {
    if (hasCode(error, /^42501$/)) throw new StartFailure(`MIGRATION_DATABASE_URL: this role may not migrate: ${errorMessage(error)}`);
    // P0001: an event trigger of the database's, which would have none of it; 42: somebody has what has the name of what is to be made.
    if (hasCode(error, /^(25006|3F000|P0001|42723|42P07|42710|42701)$/) || isTransient(error))
      throw new StartFailure(`MIGRATION_DATABASE_URL: ${errorMessage(error)}`);
    throw error;
  }
}

// What was granted by mistake, to the role of another service for one, would stay when the mistake is mended.
function checkAddresses(ownerUrl: string, serviceUrl: string): void {
  const [owner, service] = [ownerUrl, serviceUrl].map((url) => {
    const { username, pathname } = new URL(url);
    return { role: decodeURIComponent(username), database: decodeURIComponent(pathname.slice(1)) };
  }) as [Address, Address];
  // An address without one means whatever PGDATABASE says.
  if (owner.database !== '' && service.database !== '' && owner.database !== service.database) {
    throw new StartFailure(
      `DATABASE_URL names the database ${service.database}, MIGRATION_DATABASE_URL ${owner.database}: both must name one`,
    );
  }
  if (owner.role === service.role) {
    throw new StartFailure(
      `DATABASE_URL names the role ${service.role}, as MIGRATION_DATABASE_URL does: the service wants a role of its own`,
    );
  }
}

interface Address {
  role: string;
  database: string;
}

async function migrateAsOwner(ownerUrl: string, serviceUrl: string, schema: Schema): Promise<void> {
  checkAddresses(ownerUrl, serviceUrl);
  const client = await waitForAnswer('MIGRATION_DATABASE_URL', async () => {
    const each = new pg.Client({
      connectionString: ownerUrl,
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveMs,
      options: connectionOptions(patient),
    });
    // The statement in flight, or the next one, rejects as well; without a listener a connection that is cut would end the process with a stack.
    each.on('error', () => undefined);
    await each.connect();
    await each.query(noTransactionTimeout);
    return each;
  });
  // With it goes the lock, and another run may begin.
  const lost = new Promise<never>((_, fail) => client.once('error', fail));
  lost.catch(() => undefined);
  const role = decodeURIComponent(new URL(serviceUrl).username);
  const password = decodeURIComponent(new URL(serviceUrl).password);
  try {
    await checkConnection('MIGRATION_DATABASE_URL', client);
    // Before anything is made there that could call another's.
    await assertRole('MIGRATION_DATABASE_URL', client);
    await mustBeOwner(client);
    await takeTurn(client);
    const known = await client.query('select 1 from pg_roles where rolname = $1', [role]);
    if (known.rowCount === 0) {
      const name = client.escapeIdentifier(role);
      const verifier = client.escapeLiteral(scramVerifier(password));
      // Two databases of one server may create the same role at once; the advisory lock is one database's.
      await client.query(`create role ${name} login password ${verifier}`).catch((error: pg.DatabaseError) => {
        if (error.code !== '42710' && error.code !== '23505') throw error;
      });
    }
    const { rows } = await client.query<{ ms: number }>(`select setting::int as ms from pg_settings where name = 'deadlock_timeout'`);
    const lockTimeout = `${lockTimeoutMs(rows[0]?.ms ?? 1_000)}ms`;
    const done = await namesDone(client);
    if (!schema.names.every((each) => done.has(each))) await Promise.race([raise(ownerUrl, await schema.migrations(), lockTimeout), lost]);
    const name = client.escapeIdentifier(role);
    const grants = [
      `grant usage on schema public to ${name}`,
      `grant select, insert, update, delete on all tables in schema public to ${name}`,
      // What the database has is for its owner to say.
      ...(schema.names.length > 0 ? [`revoke insert, update, delete on mikro_orm_migrations from ${name}`] : []),
      ...schema.appendOnly.map((table) => `revoke update, delete, truncate on ${client.escapeIdentifier(table)} from ${name}`),
      ...(schema.kept ?? []).map((table) => `revoke delete, truncate on ${client.escapeIdentifier(table)} from ${name}`),
      `grant usage, select on all sequences in schema public to ${name}`,
      `grant execute on all functions in schema public to ${name}`,
    ];
    // One transaction: what is granted and revoked again nobody ever has, however this ends. It waits as well, for whoever changes a table.
    await whenFree(async () => {
      await client
        .query(['begin', `set local lock_timeout = '${lockTimeout}'`, ...grants, 'commit'].join('; '))
        .catch(async (error: unknown) => {
          await client.query('rollback');
          throw error;
        });
    });
    // Somebody may have had the name of what was made just now.
    await assertRole('MIGRATION_DATABASE_URL', client);
    // To grant what it may not grant is a warning to PostgreSQL.
    await checkGrants('MIGRATION_DATABASE_URL', client, role);
  } finally {
    await client.end();
  }
}

// Somebody who was let create may have made the table himself, granted it, and be taken for the owner.
async function mustBeOwner(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ owner: string }>(
    `select r.rolname::text as owner from pg_catalog.pg_class c join pg_catalog.pg_roles r on r.oid = c.relowner
     where c.relnamespace = pg_catalog.to_regnamespace('public'::text)::oid and c.relname = 'mikro_orm_migrations'::name
       and not pg_catalog.pg_has_role(c.relowner, 'usage'::text)`,
  );
  if (rows[0]) {
    const whose = `public.mikro_orm_migrations is of role ${rows[0].owner}`;
    throw new StartFailure(`MIGRATION_DATABASE_URL: this role may not migrate: ${whose}`);
  }
}

// One run after the other. A pooler between may keep the lock of one that has long ended.
async function takeTurn(client: pg.Client): Promise<void> {
  for (const until = performance.now() + patienceMs; ; await pause(250)) {
    const { rows } = await client.query<{ taken: boolean }>(
      `select pg_try_advisory_lock(hashtext('migrations of this database')) as taken`,
    );
    if (rows[0]?.taken === true) return;
    if (performance.now() > until)
      throw new StartFailure('MIGRATION_DATABASE_URL: another migration of this database has not ended for five minutes');
  }
}

/** Names of the migrations that the database has. */
async function namesDone(client: pg.Client): Promise<Set<string>> {
  const table = await client.query(`select from pg_class where oid = to_regclass('public.mikro_orm_migrations')`);
  if (table.rowCount === 0) return new Set();
  const { rows } = await client.query<{ name: string }>('select name from public.mikro_orm_migrations');
  return new Set(rows.map(({ name }) => name));
}

async function raise(ownerUrl: string, migrations: NamedMigration[], lockTimeout: string): Promise<void> {
  const { MikroORM } = await import('@mikro-orm/postgresql');
  const { Migrator } = await import('@mikro-orm/migrations');
  const orm = await MikroORM.init({
    clientUrl: ownerUrl,
    entities: [],
    extensions: [Migrator],
    migrations: { migrationsList: migrations, snapshot: false, silent: true },
    // The whole address: of `clientUrl` it takes host, port, user, password and database, and passes over a `sslmode`.
    driverOptions: {
      connectionString: ownerUrl,
      options: connectionOptions({ ...patient, lock_timeout: lockTimeout }),
      onPoolCreated: (pool: Pool) => {
        releaseBroken(pool);
        // Who breaks at that fails at the next statement.
        pool.on('connect', (each) => void each.query(noTransactionTimeout).catch(() => undefined));
      },
    },
    allowGlobalContext: true,
    debug: false,
    logger: () => undefined,
    discovery: { warnWhenNoEntities: false },
  });
  try {
    await whenFree(() => orm.migrator.up());
  } finally {
    await orm.close(true);
  }
}

async function whenFree(change: () => Promise<unknown>): Promise<void> {
  for (const until = performance.now() + patienceMs; ; await pause(pauseMs)) {
    try {
      await change();
      return;
    } catch (error) {
      // 40P01: who reads has come to wait for a table that is changed already, and PostgreSQL has ended the change, not the reading. The words are
      // those of a grant that waited for a change which was then committed.
      if (!hasCode(error, /^(55P03|40P01)$/) && (error as Error).message !== 'tuple concurrently updated') throw error;
      if (performance.now() > until) throw new StartFailure(`MIGRATION_DATABASE_URL: a table stays locked: ${(error as Error).message}`);
    }
  }
}

/** Whether PostgreSQL gave an error, or one that it wraps, such a code. */
function hasCode(error: unknown, codes: RegExp): boolean {
  return error instanceof Error && (codes.test(String((error as { code?: unknown }).code)) || hasCode(error.cause, codes));
}
