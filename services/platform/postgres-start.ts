// What is asked of a database before it is used: whether it answers, can be worked with, and has the schema.
import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import { StartFailure, reasonOf } from './lifetime.ts';
import { isAway, isNotSpokenTo } from './postgres-errors.ts';
import { aboutConnection, faultOf, type Pool } from './postgres.ts';

/** Waits until the database answers. Throws {@link StartFailure} after 30 seconds. */
export async function waitForDatabase(pool: Pool): Promise<void> {
  await answerOf('DATABASE_URL', () => pool.query('select 1'));
}

/**
 * Asks a database, whose address is in a variable, until it answers, as it may come up later than who needs it. Throws {@link StartFailure}
 * after so many seconds, and at once where the owner is refused, or can't be spoken to by TLS: what a service needs may yet be made by the migration.
 */
export async function answerOf<Answer>(
  variable: 'DATABASE_URL' | 'MIGRATION_DATABASE_URL',
  ask: () => Promise<Answer>,
  seconds = 30,
): Promise<Answer> {
  for (const until = performance.now() + seconds * 1000; ; await pause(250)) {
    try {
      return await ask();
    } catch (error) {
      const { code = '' } = error as { code?: string };
      const isRefused = !isAway(error) || /^(28|3D|42|55000)/.test(code) || isNotSpokenTo(error as Error);
      // 08P01: a setting of the connection that who answers does not take, as PgBouncer says of `options`, or has lost.
      if (code === '08P01' || (variable === 'MIGRATION_DATABASE_URL' && isRefused))
        throw new StartFailure(`${variable}: ${reasonOf(error)}`);
      if (performance.now() > until) throw new StartFailure(`${variable}: no answer within ${seconds} s: ${reasonOf(error)}`);
    }
  }
}

const oldest = 150_000;

/**
 * Refuses a way to a database, named by its variable, on which the settings of a connection are lost or triggers do not hold, a server that is too old
 * and an encoding other than UTF8. Throws {@link StartFailure}.
 */
export async function checkConnection(variable: 'DATABASE_URL' | 'MIGRATION_DATABASE_URL', connection: Pool | pg.Client): Promise<void> {
  const { rows } = await connection.query<{ settings: string | null; triggers: string; version: number; encoding: string }>(
    `select ${aboutConnection}, current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding`,
  );
  const about = rows[0] as (typeof rows)[number];
  const fault = faultOf(about);
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
 * Refuses what {@link checkConnection} does, a role that row-level security does not bind (superuser, owner of a table, `BYPASSRLS`) and a schema older
 * than the code. Throws {@link StartFailure}.
 */
export async function checkDatabase(pool: Pool, migrations: readonly string[]): Promise<void> {
  await checkConnection('DATABASE_URL', pool);
  const { rows } = await pool.query<{ name: string; super: boolean; bypass: boolean; owner: boolean }>(
    `select rolname as name, rolsuper as super, rolbypassrls as bypass,
            exists (select from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
                    and pg_has_role(r.oid, c.relowner, 'member')) as owner
     from pg_roles r where rolname = current_user`,
  );
  const role = rows[0];
  if (!role) throw new StartFailure('DATABASE_URL: the role is not visible');
  const fault = role.super ? 'is a superuser' : role.bypass ? 'has BYPASSRLS' : role.owner ? 'owns the tables' : null;
  if (fault) throw new StartFailure(`DATABASE_URL: role ${role.name} ${fault}, so row-level security would not bind it`);
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
