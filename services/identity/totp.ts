// The second factor of users: checks time-based codes (RFC 6238) and recovery codes, each good once.
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { TOTP } from 'otpauth';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import type { SecretEncryption } from '../platform/secret-encryption.ts';
import { auditUser, type Origin } from './audit.ts';
import { hashOf } from './credentials.ts';
import { databaseNow, entityManager } from './database.ts';
import { User, type UserRow } from './entities.ts';
import * as field from './fields.ts';
import { admitCode, recordInTurn, takeTurn } from './login-throttle.ts';
import type { Parts } from './parts.ts';
import { Refusal } from './refusal.ts';

/** Seconds of a step, as every authenticator expects. */
const period = 30;

/** The codes of a secret (base32). `label`: the account that the authenticator shows. */
export function totpOf(secret: string, label: string): TOTP {
  return new TOTP({ issuer: 'Ledger', label, secret, algorithm: 'SHA1', digits: 6, period });
}

/** The step of 30 s that has this code: the one at `nowMs` (Unix, milliseconds), the one before or the one after; null: none of them. */
export function stepOfCode(secret: string, code: string, nowMs: number): number | null {
  const delta = totpOf(secret, '').validate({ token: code, timestamp: nowMs, window: 1 });
  return delta === null ? null : TOTP.counter({ period, timestamp: nowMs }) + delta;
}

/**
 * Checks the second factor at a login whose other credential is right, and uses the code up; does nothing where none is on. `userId`: UUID. `code`:
 * six digits or a recovery code. Throws `totp_required`, `unauthenticated` (wrong or used, which counts as a failed login), `rate_limited`,
 * `validation_failed`.
 */
export async function checkSecondFactor(
  { orm, secrets }: Parts,
  userId: string,
  code: string | undefined,
  origin: Origin | undefined,
): Promise<void> {
  const user = await entityManager(orm).findOneOrFail(User, { id: userId });
  if (user.totpSecret === null) return;
  if (code === undefined) throw new Refusal('totp_required', 'a code of the second factor is required');
  const given = field.totpCode('totp_code', code);
  const failure = await checkInTurn(orm, { user, origin }, (em, current, nowMs) => useCode(em, secrets, current, given, nowMs, origin));
  if (failure) throw new Refusal('unauthenticated', 'wrong code of the second factor', { metadata: rateLimitMetadata(failure) });
}

/** A check of a code. `action`: what the user tries, where it is logged in already. */
export interface CodeCheck {
  user: UserRow;
  origin: Origin | undefined;
  action?: string;
}

/**
 * Runs a check in a transaction, after all others of this user. Where it is false, records a failed login and returns the status of the limit.
 * Throws `rate_limited` and what the check throws, which undoes it.
 */
export async function checkInTurn(
  orm: MikroORM,
  { user, origin, action }: CodeCheck,
  check: (em: EntityManager, user: UserRow, nowMs: number) => Promise<boolean>,
): Promise<RateLimitStatus | null> {
  const address = field.clientAddress(origin?.clientAddress ?? '');
  const { id, email } = user;
  const failed = { email, address, userId: id, reason: 'totp_code' as const, origin, ...(action !== undefined && { action }) };
  return entityManager(orm, { user: id }).transactional(async (em) => {
    await takeTurn(em, failed);
    await admitCode(em, id, email, address);
    const current = await em.findOneOrFail(User, { id }, { refresh: true });
    return (await check(em, current, await databaseNow(em))) ? null : recordInTurn(em, failed);
  });
}

/** Uses up a code, as `field.totpCode` returns it; whether it was good. True where no second factor is on. */
export async function useCode(
  em: EntityManager,
  secrets: SecretEncryption,
  { id, totpSecret }: UserRow,
  code: string,
  nowMs: number,
  origin: Origin | undefined,
): Promise<boolean> {
  if (totpSecret === null) return true;
  if (!/^[0-9]{6}$/.test(code)) return useRecoveryCode(em, id, code, nowMs, origin);
  const secret = secrets.decrypt(id, totpSecret);
  const step = stepOfCode(secret, code, nowMs);
  if (step === null) return false;
  const encrypted = totpSecret.startsWith(`${secrets.keyIds[0]}:`) ? totpSecret : secrets.encrypt(id, secret);
  // The update decides: a step that was used, or one before it, changes no row.
  const used = await em.execute<unknown[]>(
    'update users set totp_step = ?, totp_secret = ? where id = ? and totp_secret = ? and (totp_step is null or totp_step < ?) returning id',
    [step, encrypted, id, totpSecret, step],
  );
  return used.length === 1;
}

async function useRecoveryCode(
  em: EntityManager,
  userId: string,
  code: string,
  nowMs: number,
  origin: Origin | undefined,
): Promise<boolean> {
  const spent = await em.execute<unknown[]>(
    'update recovery_codes set spent_at = ? where user_id = ? and hash = ? and spent_at is null returning hash',
    [new Date(nowMs), userId, hashOf(code)],
  );
  if (spent.length === 0) return false;
  const [left] = await em.execute<[{ count: number }]>(
    'select count(*)::int as count from recovery_codes where user_id = ? and spent_at is null',
    [userId],
  );
  await auditUser(em, userId, { type: 'recovery_code.used', byUser: true, origin, data: { remaining: left.count } }, nowMs);
  return true;
}
