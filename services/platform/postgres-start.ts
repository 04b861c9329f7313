// What is asked of a database before it is used: whether it answers, can be worked with, and has the schema.
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { StartFailure, errorMessage } from './lifetime.ts';
import { isTransient, isTlsFailure } from './postgres-errors.ts';
import { connectionChecks, connectionProblem, type Pool } from './postgres.ts';

/** Whose address it is: the service's, or the owner's. */
type Variable = 'DATABASE_URL' | 'MIGRATION_DATABASE_URL';
type Connection = Pool | pg.Client;

/**
 * Asks a database, whose address is in a variable, until it answers, as it may come up later than who needs it. Throws {@link StartFailure}
 * after so many seconds, and at once where the answer is one, or where the owner is refused, or can't be spoken to by TLS: what a service needs may
 * yet be made by the migration.
 */
export async function waitForAnswer<Answer>(variable: Variable, ask: () => Promise<Answer>, seconds = 30): Promise<Answer> {
  for (const until = performance.now() + seconds * 1000; ; await pause(250)) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof StartFailure) throw error;
      const { code = '' } = error as { code?: string };
      const isRefused = !isTransient(error) || /^(28|3D|42|55000)/.test(code) || isTlsFailure(error as Error);
      // 08P01: a setting of the connection that who answers does not take, as PgBouncer says of `options`, or has lost.
      if (code === '08P01' || (variable === 'MIGRATION_DATABASE_URL' && isRefused))
        throw new StartFailure(`${variable}: ${errorMessage(error)}`);
      if (performance.now() > until) throw new StartFailure(`${variable}: no answer within ${seconds} s: ${errorMessage(error)}`);
    }
  }
}

const oldest = 150_000;

/**
 * Refuses a way to a database, named by its variable, on which the settings of a connection are lost or triggers do not hold, a server that is too old
 * and an encoding other than UTF8. Throws {@link StartFailure}.
 */
export async function checkConnection(variable: Variable, connection: Connection): Promise<void> {
  const { rows } = await connection.query<{ settings: string | null; triggers: string; version: number; encoding: string }>(
    `select ${connectionChecks}, current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding`,
  );
  const about = rows[0] as (typeof rows)[number];
  const fault = connectionProblem(about);
  if (fault !== undefined) throw new StartFailure(`${variable}: ${fault}`);
  const { version, encoding } = about;
  if (version < oldest)
    throw new StartFailure(`${variable}: PostgreSQL ${Math.trunc(version / 10_000)} is too old: it must be 15 or newer`);
  if (encoding !== 'UTF8')
    throw new StartFailure(
      `${variable}: the database's encoding is ${encoding}: it must be UTF8 (create database ... encoding 'UTF8' template template0)`,
    );
}

/**
 * Waits until the database answers, and refuses what {@link checkConnection} and {@link assertRole} do, a role that row-level security does not bind
 * (superuser, owner of a table, `BYPASSRLS`) or that may not use the schema, and a schema older than the code. Throws {@link StartFailure}, after 30
 * seconds where it does not answer.
 */
export async function checkDatabase(pool: Pool, migrations: readonly string[]): Promise<void> {
  await waitForAnswer('DATABASE_URL', async () => {
    await checkConnection('DATABASE_URL', pool);
    await assertRole('DATABASE_URL', pool);
    await checkRole(pool);
    await checkSchema(pool, migrations);
  });
}

async function checkRole(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ name: string; super: boolean; bypass: boolean; owner: boolean; hasSchema: boolean }>(
    `select rolname as name, rolsuper as super, rolbypassrls as bypass, to_regnamespace('public') is not null as "hasSchema",
            exists (select from pg_class c where c.relnamespace = to_regnamespace('public') and c.relkind in ('r', 'p')
                    and pg_has_role(r.oid, c.relowner, 'member')) as owner
     from pg_roles r where rolname = current_user`,
  );
  const role = rows[0];
  if (!role) throw new StartFailure('DATABASE_URL: the role is not visible');
  const fault = role.super ? 'is a superuser' : role.bypass ? 'has BYPASSRLS' : role.owner ? 'owns the tables' : null;
  if (fault) throw new StartFailure(`DATABASE_URL: role ${role.name} ${fault}, so row-level security would not bind it`);
  if (!role.hasSchema) throw new StartFailure('DATABASE_URL: there is no schema public: run migrate first');
  await checkGrants('DATABASE_URL', pool, role.name);
}

/**
 * Refuses a schema in which everybody may create, as in a database that was made before PostgreSQL 15, and one that has a function or an operator which
 * is not the owner's and has the name of one of PostgreSQL's, or of the owner's own: `unnest(uuid[])` would be called by row-level security, and by the
 * owner, in the place of PostgreSQL's own, whose parameter is of any type. The owner is whoever owns `mikro_orm_migrations`, and where there is none yet
 * who migrates. What an extension has is passed over, not what a superuser has: a dump that is restored without the roles of before makes all his own.
 * Throws {@link StartFailure}.
 */
export async function assertRole(variable: Variable, connection: Connection): Promise<void> {
  const isOwners = variable === 'MIGRATION_DATABASE_URL';
  if (await hasRight(connection, 'public', 'create')) {
    const { rows } = await connection.query<{ role: string }>('select current_user as role');
    throw new StartFailure(
      `${variable}: every role may create in schema public, where a function could take the place of one of PostgreSQL's: ` +
        "as the schema's owner, revoke create on schema public from public" +
        (isOwners ? `; grant create on schema public to ${pg.escapeIdentifier(rows[0]?.role ?? '')}` : ''),
    );
  }
  // Everything by its full name and the types that it has: else what is looked for would be called here first.
  const { rows } = await connection.query<{ type: string; identity: string; owner: string }>(
    `with owner as (
       select coalesce(
         (select c.relowner from pg_catalog.pg_class c
          where c.relnamespace = pg_catalog.to_regnamespace('public'::text)::oid and c.relname = 'mikro_orm_migrations'::name),
         (select r.oid from pg_catalog.pg_roles r where r.rolname = current_user and $1::bool)
       ) as oid
     ), found as (
       select p.oid, 'pg_catalog.pg_proc'::regclass::oid as catalog, p.proowner as owner
       from pg_catalog.pg_proc p, owner
       where p.pronamespace = pg_catalog.to_regnamespace('public'::text)::oid and p.proowner <> owner.oid
         and exists (select from pg_catalog.pg_proc own where own.proname = p.proname
               and (own.pronamespace = 'pg_catalog'::regnamespace::oid or own.pronamespace = p.pronamespace and own.proowner = owner.oid))
       union all
       select o.oid, 'pg_catalog.pg_operator'::regclass::oid, o.oprowner
       from pg_catalog.pg_operator o, owner
       where o.oprnamespace = pg_catalog.to_regnamespace('public'::text)::oid and o.oprowner <> owner.oid
         and exists (select from pg_catalog.pg_operator own where own.oprname = o.oprname and own.oprnamespace = 'pg_catalog'::regnamespace::oid)
     )
     select named.type, named.identity, r.rolname::text as owner
     from found f join pg_catalog.pg_roles r on r.oid = f.owner, pg_catalog.pg_identify_object(f.catalog, f.oid, 0) named
     where not exists (select from pg_catalog.pg_depend d where d.classid = f.catalog and d.objid = f.oid and d.deptype = 'e')
     order by f.oid`,
    [isOwners],
  );
  if (rows.length === 0) return;
  const found = rows.map(({ type, identity, owner }) => `${type} ${identity} of role ${owner}`);
  const drops = rows.map(({ type, identity }) => `drop ${type} ${identity}`);
  throw new StartFailure(
    `${variable}: what another role has made in schema public can take the place of what has its name: ${found.join(', ')}: ` +
      `${drops.join('; ')}; or alter its schema to another`,
  );
}

/** Refuses a schema that the service's role may not use: it would see no table there. Throws {@link StartFailure}. */
export async function checkGrants(variable: Variable, connection: Connection, role: string): Promise<void> {
  if ((await hasRight(connection, role, 'usage')) !== false) return;
  const name = pg.escapeIdentifier(role);
  throw new StartFailure(
    `${variable}: role ${role} may not use schema public: as the schema's owner, grant usage on schema public to ${name}`,
  );
}

// `public` is everybody. Null: there is no such schema.
async function hasRight(connection: Connection, role: string, right: 'create' | 'usage'): Promise<boolean | null> {
  const text = `select pg_catalog.has_schema_privilege($1::name, pg_catalog.to_regnamespace('public'::text)::oid, $2::text) as has`;
  const { rows } = await connection.query<{ has: boolean | null }>(text, [role, right]);
  return rows[0]?.has ?? null;
}

async function checkSchema(pool: Pool, migrations: readonly string[]): Promise<void> {
  const done = await pool.query<{ name: string }>('select name from mikro_orm_migrations').catch((error: pg.DatabaseError) => {
    if (error.code === '42P01' || error.code === '42501') return { rows: [] };
    throw error;
  });
  const names = new Set(done.rows.map((row) => row.name));
  const missing = migrations.filter((name) => !names.has(name));
  if (missing.length > 0) {
    throw new StartFailure(`DATABASE_URL: the schema lacks ${missing.join(', ')}: run migrate first`);
  }
}
