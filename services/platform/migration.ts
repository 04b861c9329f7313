// Runs a service's migrations as the owner, one run at a time, and grants the service's role what it needs.
import { setTimeout as pause } from 'node:timers/promises';
import type { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { StartFailure, errorMessage } from './lifetime.ts';
import { connectionOptions, connectionSettings, keepAliveMs, repairKyselyPool } from './postgres.ts';
import { isServerError, isTransient } from './postgres-errors.ts';
import { checkConnection, waitForAnswer } from './postgres-start.ts';
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
  /** Loads the migrations; called only where the database lacks one. */
  migrations: () => Promise<NamedMigration[]>;
  /** Tables whose rows the service's role may add and read, but neither change nor delete. */
  appendOnly: string[];
  /** Tables whose rows it may change as well, but not delete; none unless given. */
  kept?: string[];
  /** Tables whose rows only functions of the owner change. */
  owned?: string[];
  /**
   * A second role. It reads every table, changes the rows of `tables`, which the service's role only reads, adds rows to those of `adds`, and
   * calls the functions of `calls`.
   */
  second?: { variable: string; url: () => string | undefined; tables: string[]; adds: string[]; calls: string[] };
}

// Every statement queues behind a change that waits for a lock, so it waits shortly and tries again; longer than `deadlock_timeout`, after which
// PostgreSQL cancels an autovacuum in the way.
const lockTimeout = '5s';
const retryMs = 2_000;
const maxWaitMs = 5 * 60_000;

// A migration may take its time, while the connection with the advisory lock idles.
const unlimited = { statement_timeout: '0', idle_in_transaction_session_timeout: '0' };

/**
 * Brings a schema up to date as its owner, creates the service's role where it is missing, and grants it the rows of every table but no change of
 * the schema; likewise the second role, where its URL is given. Safe to run twice and at once: an advisory lock lets one run after the other. Throws {@link StartFailure} for whatever the database
 * rejects, 30 s without an answer, and locks that others keep for five minutes; a further run continues from there.
 */
export async function migrate(ownerUrl: string, serviceUrl: string, schema: Schema): Promise<void> {
  const secondUrl = schema.second?.url();
  const second = secondUrl === undefined ? undefined : new URL(secondUrl);
  checkUrls(new URL(ownerUrl), new URL(serviceUrl), 'DATABASE_URL');
  if (second && schema.second) {
    checkUrls(new URL(ownerUrl), second, schema.second.variable);
    checkUrls(new URL(serviceUrl), second, schema.second.variable, 'DATABASE_URL');
  }
  try {
    await migrateAsOwner(ownerUrl, { service: new URL(serviceUrl), second }, schema);
  } catch (error) {
    const cause = databaseError(error);
    if (cause === undefined) throw error;
    const mayNot = cause.code === '42501' ? 'this role may not migrate: ' : '';
    throw new StartFailure(`MIGRATION_DATABASE_URL: ${mayNot}${errorMessage(cause)}`);
  }
}

// Grants to the wrong role or in the wrong database would stay when the mistake is corrected.
function checkUrls(first: URL, second: URL, variable: string, firstVariable = 'MIGRATION_DATABASE_URL'): void {
  // A URL without a database means PGDATABASE.
  if (first.pathname.length > 1 && second.pathname.length > 1 && first.pathname !== second.pathname)
    throw new StartFailure(`${variable} and ${firstVariable} must name the same database`);
  if (first.username === second.username)
    throw new StartFailure(`${variable} and ${firstVariable} name the same role, ${second.username}: the service needs one of its own`);
}

/** The addresses of the roles that the owner serves. */
interface RoleUrls {
  service: URL;
  second: URL | undefined;
}

async function migrateAsOwner(ownerUrl: string, urls: RoleUrls, schema: Schema): Promise<void> {
  const settings = connectionSettings({ ...unlimited, lock_timeout: String(maxWaitMs) });
  const client = await waitForAnswer('MIGRATION_DATABASE_URL', async () => {
    const each = new pg.Client({
      connectionString: ownerUrl,
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveMs,
      options: connectionOptions(settings),
    });
    // Statements reject as well; without a listener a lost connection would end the process.
    each.on('error', () => undefined);
    await each.connect();
    return each;
  });
  // With the connection goes the lock, and another run may begin.
  const lost = new Promise<never>((_, fail) => client.once('error', fail));
  lost.catch(() => undefined);
  try {
    await checkConnection('MIGRATION_DATABASE_URL', client, settings);
    await client.query(`select pg_advisory_lock(hashtext('migrations of this database'))`);
    const role = await createRole(client, urls.service);
    const second = urls.second && (await createRole(client, urls.second));
    const done = await namesDone(client);
    if (!schema.names.every((each) => done.has(each))) await Promise.race([runMigrations(ownerUrl, await schema.migrations()), lost]);
    const { rows } = await client.query<{ name: string }>('select current_database() as name');
    // One transaction, so that the role never has what is granted and revoked again.
    const database = pg.escapeIdentifier(rows[0]?.name ?? '');
    const changes = [...grants(role, database, schema), ...(second === undefined ? [] : secondGrants(second, database, schema))];
    await retryLocked(() =>
      client
        .query(['begin', `set local lock_timeout = '${lockTimeout}'`, ...changes, 'commit'].join('; '))
        .catch(async (error: unknown) => {
          await client.query('rollback');
          throw error;
        }),
    );
  } finally {
    await client.end();
  }
}

/** Creates the role of a URL where it is missing, and returns its name as SQL has it. */
async function createRole(client: pg.Client, { username, password }: URL): Promise<string> {
  const name = decodeURIComponent(username);
  const role = client.escapeIdentifier(name);
  const known = await client.query('select 1 from pg_roles where rolname = $1', [name]);
  if (known.rowCount !== 0) return role;
  const verifier = client.escapeLiteral(scramVerifier(decodeURIComponent(password)));
  await client.query(`create role ${role} login password ${verifier}`).catch((error: pg.DatabaseError) => {
    // The migration of another database of this server may have created it meanwhile.
    if (error.code !== '42710' && error.code !== '23505') throw error;
  });
  return role;
}

// The first two have no effect, and are no error, where the owner may not grant them.
function grants(role: string, database: string, { names, appendOnly, kept = [], owned = [], second }: Schema): string[] {
  return [
    'revoke create on schema public from public',
    `grant connect on database ${database} to ${role}`,
    `grant usage on schema public to ${role}`,
    `grant select, insert, update, delete on all tables in schema public to ${role}`,
    ...(names.length > 0 ? [`revoke insert, update, delete on mikro_orm_migrations from ${role}`] : []),
    ...appendOnly.map((table) => `revoke update, delete, truncate on ${pg.escapeIdentifier(table)} from ${role}`),
    ...owned.map((table) => `revoke insert, update, delete, truncate on ${pg.escapeIdentifier(table)} from ${role}`),
    ...kept.map((table) => `revoke delete, truncate on ${pg.escapeIdentifier(table)} from ${role}`),
    ...(second?.tables ?? []).map((table) => `revoke insert, update, delete, truncate on ${pg.escapeIdentifier(table)} from ${role}`),
    `grant usage, select on all sequences in schema public to ${role}`,
    `grant execute on all functions in schema public to ${role}`,
  ];
}

// Functions that belong to the service alone are not granted.
function secondGrants(role: string, database: string, { second }: Schema): string[] {
  return [
    `grant connect on database ${database} to ${role}`,
    `grant usage on schema public to ${role}`,
    `revoke all on all tables in schema public from ${role}`,
    `grant select on all tables in schema public to ${role}`,
    ...(second?.tables ?? []).map((table) => `grant insert, update, delete on ${pg.escapeIdentifier(table)} to ${role}`),
    ...(second?.adds ?? []).map((table) => `grant insert on ${pg.escapeIdentifier(table)} to ${role}`),
    ...(second?.calls ?? []).map((name) => `grant execute on function ${pg.escapeIdentifier(name)} to ${role}`),
  ];
}

async function namesDone(client: pg.Client): Promise<Set<string>> {
  const table = await client.query(`select from pg_class where oid = to_regclass('public.mikro_orm_migrations')`);
  if (table.rowCount === 0) return new Set();
  const { rows } = await client.query<{ name: string }>('select name from public.mikro_orm_migrations');
  return new Set(rows.map(({ name }) => name));
}

async function runMigrations(ownerUrl: string, migrations: NamedMigration[]): Promise<void> {
  const { MikroORM } = await import('@mikro-orm/postgresql');
  const { Migrator } = await import('@mikro-orm/migrations');
  const orm = await MikroORM.init({
    clientUrl: ownerUrl,
    entities: [],
    extensions: [Migrator],
    migrations: { migrationsList: migrations, snapshot: false, silent: true },
    driverOptions: {
      // MikroORM ignores the parameters of `clientUrl`, such as `sslmode`.
      connectionString: ownerUrl,
      options: connectionOptions(connectionSettings({ ...unlimited, lock_timeout: lockTimeout })),
      onPoolCreated: repairKyselyPool,
    },
    allowGlobalContext: true,
    debug: false,
    logger: () => undefined,
    discovery: { warnWhenNoEntities: false },
  });
  try {
    await retryLocked(() => orm.migrator.up());
  } finally {
    await orm.close(true);
  }
}

async function retryLocked(change: () => Promise<unknown>): Promise<void> {
  for (const until = performance.now() + maxWaitMs; ; await pause(retryMs)) {
    try {
      await change();
      return;
    } catch (error) {
      // 40P01: PostgreSQL ends the change in a deadlock with a reader. The message is that of a grant that another transaction overtook.
      const { code, message } = databaseError(error) ?? {};
      const isLocked = code === '55P03' || code === '40P01' || message === 'tuple concurrently updated';
      if (!isLocked || performance.now() > until) throw error;
    }
  }
}

/** The error of PostgreSQL or of the connection in an error of MikroORM; undefined: it is neither. */
function databaseError(error: unknown): (Error & { code?: string }) | undefined {
  for (let each = error; each instanceof Error; each = each.cause) if (isServerError(each)) return each;
  return error instanceof Error && isTransient(error) ? error : undefined;
}
