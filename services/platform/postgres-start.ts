// Checks of a database at start: it answers, is supported, binds the role by row-level security, and has the schema.
import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import { StartFailure, errorMessage } from './lifetime.ts';
import { isTransient, isTlsFailure } from './postgres-errors.ts';
import { connectionSettings, stateOf, type Pool } from './postgres.ts';

/** The variable with the URL: the service's or the owner's. */
type Variable = 'DATABASE_URL' | 'MIGRATION_DATABASE_URL';

/**
 * Calls `ask` until it succeeds, because a database may start after its services. Throws {@link StartFailure} after so many seconds, or at once
 * where waiting is pointless: for the owner also a rejected login, a missing database or a failure of TLS.
 */
export async function waitForAnswer<Answer>(variable: Variable, ask: () => Promise<Answer>, seconds = 30): Promise<Answer> {
  for (const until = performance.now() + seconds * 1000; ; await pause(250)) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof StartFailure) throw error;
      const { code = '' } = error as { code?: string };
      // A service may wait for what the migration will create; the owner can't.
      const isOwnerRejected = !isTransient(error) || /^(28|3D|42|55000)/.test(code) || isTlsFailure(error as Error);
      // 08P01: a pooler that rejects or loses the settings of the connection.
      if (code === '08P01' || (variable === 'MIGRATION_DATABASE_URL' && isOwnerRejected))
        throw new StartFailure(`${variable}: ${errorMessage(error)}`);
      if (performance.now() > until) throw new StartFailure(`${variable}: no answer within ${seconds} s: ${errorMessage(error)}`);
    }
  }
}

/** Throws {@link StartFailure} for a server older than PostgreSQL 15, an encoding other than UTF8, and a pooler that dropped one of the settings. */
export async function checkConnection(
  variable: Variable,
  connection: Pick<pg.ClientBase, 'query'>,
  settings: Record<string, string>,
): Promise<void> {
  const { lost } = await stateOf(connection, settings);
  if (lost !== null) throw new StartFailure(`${variable}: ${lost}`);
  const { rows } = await connection.query<{ version: number; encoding: string }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding`,
  );
  const { version, encoding } = rows[0] as (typeof rows)[number];
  if (version < 150_000)
    throw new StartFailure(`${variable}: PostgreSQL ${Math.trunc(version / 10_000)} is too old: it must be 15 or newer`);
  if (encoding !== 'UTF8')
    throw new StartFailure(
      `${variable}: the database's encoding is ${encoding}: it must be UTF8 (create database ... encoding 'UTF8' template template0)`,
    );
}

/**
 * Waits until the database answers and checks it for a service. Throws {@link StartFailure} as {@link checkConnection}, for a role that row-level
 * security does not bind or that may not use the schema, for a schema older than the code, and after 30 s without an answer.
 */
export async function checkDatabase(pool: Pool, migrations: readonly string[]): Promise<void> {
  await waitForAnswer('DATABASE_URL', async () => {
    await checkConnection('DATABASE_URL', pool, connectionSettings());
    await checkRole(pool);
    await checkSchema(pool, migrations);
  });
}

async function checkRole(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ name: string; fault: string | null; mayUse: boolean | null }>(
    `select rolname as name, has_schema_privilege(oid, to_regnamespace('public'), 'usage') as "mayUse",
       case when rolsuper then 'is a superuser' when rolbypassrls then 'has BYPASSRLS'
         when exists (select from pg_class c where c.relnamespace = to_regnamespace('public') and c.relkind in ('r', 'p')
           and pg_has_role(r.oid, c.relowner, 'member')) then 'owns the tables' end as fault
     from pg_roles r where rolname = current_user`,
  );
  const { name, fault, mayUse } = rows[0] as (typeof rows)[number];
  if (fault !== null) throw new StartFailure(`DATABASE_URL: role ${name} ${fault}, so row-level security would not bind it`);
  if (mayUse === null) throw new StartFailure('DATABASE_URL: there is no schema public: run migrate first');
  if (!mayUse)
    throw new StartFailure(
      `DATABASE_URL: role ${name} may not use schema public: as the schema's owner, grant usage on schema public to "${name}"`,
    );
}

async function checkSchema(pool: Pool, migrations: readonly string[]): Promise<void> {
  const done = await pool.query<{ name: string }>('select name from mikro_orm_migrations').catch((error: pg.DatabaseError) => {
    if (error.code === '42P01' || error.code === '42501') return { rows: [] };
    throw error;
  });
  const names = new Set(done.rows.map((row) => row.name));
  const missing = migrations.filter((name) => !names.has(name));
  if (missing.length > 0) throw new StartFailure(`DATABASE_URL: the schema lacks ${missing.join(', ')}: run migrate first`);
}
