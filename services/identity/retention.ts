// Deletes what has expired.
import type { Pool } from '../platform/postgres.ts';
import { failureWindowSeconds } from './login-throttle.ts';
import { mailWindowSeconds } from './mail/mails.ts';

/** For so long users' audit logs are kept. */
const auditDays = 400;
// Rows of a statement: a delete of many would always exceed the statement timeout.
const maxRows = 1_000;

/** All jobs, which can run at the same time, also in several replicas. */
export async function deleteExpired(pool: Pool): Promise<void> {
  await Promise.all([deleteFailures, deleteSessions, deleteMails, deleteCodes, deleteAudit].map((job) => job(pool)));
}

/** Deletes rows of a table, found by `key`, that fulfil the condition. */
async function deleteRows(pool: Pool, table: string, key: string, time: string, condition: string): Promise<void> {
  // Replicas pass each other by.
  const statement = `delete from ${table} where ${key} = any (array(
    select ${key} from ${table} where ${condition} order by ${time} limit ${maxRows} for update skip locked))`;
  while ((await pool.query(statement)).rowCount === maxRows);
}

/** Deletes failed logins that no longer count. */
export async function deleteFailures(pool: Pool): Promise<void> {
  await deleteRows(pool, 'login_failures', 'ctid', 'failed_at', `failed_at <= now() - interval '${failureWindowSeconds} s'`);
}

/** Deletes expired refresh tokens, then expired sessions without tokens. */
export async function deleteSessions(pool: Pool): Promise<void> {
  await deleteRows(pool, 'refresh_tokens', 'hash', 'expires_at', 'expires_at < now()');
  // Tokens first: the cascade would delete all tokens of a long session in one statement.
  const hasNone = 'not exists (select from refresh_tokens where session_id = sessions.id)';
  await deleteRows(pool, 'sessions', 'id', 'expires_at', `expires_at < now() and ${hasNone}`);
}

/** Deletes mails that have expired and no longer count, and their tokens. */
export async function deleteMails(pool: Pool): Promise<void> {
  const counts = `created_at >= now() - interval '${mailWindowSeconds} s'`;
  await deleteRows(pool, 'mails', 'id', 'expires_at', `expires_at < now() and not ${counts}`);
}

/** Deletes codes of identity providers that have expired. */
export async function deleteCodes(pool: Pool): Promise<void> {
  await deleteRows(pool, 'oidc_codes', 'hash', 'expires_at', 'expires_at < now()');
}

// Steps continue after each other, because what stays would be read again in each.
const auditDeletion = `
  with expired as materialized (
    select created_at, user_id, sequence from user_audit
    where created_at < now() - interval '${auditDays} days' and (created_at, user_id, sequence) > ($1::timestamptz, $2::uuid, $3::bigint)
    order by created_at, user_id, sequence limit ${maxRows} for update skip locked
  ), deleted as (
    delete from user_audit old using expired where old.user_id = expired.user_id and old.sequence = expired.sequence
      and exists (select from user_audit newer where newer.user_id = old.user_id and newer.sequence > old.sequence)
  )
  select created_at::text, user_id, sequence, count(*) over () = ${maxRows} as "isFull" from expired
  order by expired.created_at desc, user_id desc, sequence desc limit 1`;

/** Deletes what users' logs keep longer than 400 days, but no user's newest entry, on which the next one builds. */
export async function deleteAudit(pool: Pool): Promise<void> {
  let position: unknown[] = ['-infinity', '00000000-0000-0000-0000-000000000000', 0];
  for (let isFull = true; isFull;) {
    const { rows } = await pool.query<{ created_at: string; user_id: string; sequence: bigint; isFull: boolean }>(auditDeletion, position);
    const [last] = rows;
    if (last) position = [last.created_at, last.user_id, last.sequence];
    isFull = last?.isFull ?? false;
  }
}
