// Turns the second factor of a user on and off.
import type { EntityManager } from '@mikro-orm/postgresql';
import { Secret } from 'otpauth';
import { auditUser, type Origin } from './audit.ts';
import { hashOf } from './credentials.ts';
import { entityManager, setTenants } from './database.ts';
import * as field from './fields.ts';
import type { Parts } from './parts.ts';
import { checkPassword } from './password-change.ts';
import { Refusal } from './refusal.ts';
import { endAccessKeys } from './tenant-changes.ts';
import { checkInTurn, stepOfCode, totpOf, useCode } from './totp.ts';
import { userById } from './users.ts';

/** A call of a user. */
export interface UserCall {
  userId: string;
  origin?: Origin | undefined;
}

const recoveryCodeCount = 10;
const isOn = () => new Refusal('forbidden', 'a second factor is on: turn it off first');
const isOff = () => new Refusal('forbidden', 'no second factor is on');

/**
 * Creates the secret of a second factor, which is off until it is confirmed; a second call replaces it. Returns the secret (base32) and its URL for
 * authenticators. Throws `validation_failed`, `unauthenticated`, `forbidden`, `rate_limited`, `overloaded`.
 */
export async function startTotp(
  parts: Parts,
  given: UserCall & { password: string },
  signal: AbortSignal,
): Promise<{ secret: string; url: string }> {
  const password = field.password('password', given.password);
  const user = await userById(parts.orm, given.userId);
  if (user.totpSecret !== null) throw isOn();
  await checkPassword(parts, { user, password, origin: given.origin, action: 'totp.start' }, signal);
  const secret = new Secret({ size: 20 }).base32;
  const pending = parts.secrets.encrypt(user.id, secret);
  const stored = await entityManager(parts.orm).execute<unknown[]>(
    'update users set totp_pending = ? where id = ? and totp_secret is null returning id',
    [pending, user.id],
  );
  if (stored.length === 0) throw isOn();
  return { secret, url: totpOf(secret, user.email).toString() };
}

/**
 * Turns the second factor on, and returns its recovery codes. The code can't be used again to log in. Throws `validation_failed`, `unauthenticated`,
 * `forbidden`, `rate_limited`.
 */
export async function confirmTotp({ orm, secrets }: Parts, given: UserCall & { code: string }): Promise<string[]> {
  const code = field.totpCode('code', given.code);
  const user = await userById(orm, given.userId);
  const codes = Array.from({ length: recoveryCodeCount }, newRecoveryCode);
  const check = { user, origin: given.origin, action: 'totp.confirm' };
  const failure = await checkInTurn(orm, check, async (em, { id, totpSecret, totpPending }, nowMs) => {
    if (totpSecret !== null) throw isOn();
    if (totpPending === null) throw new Refusal('forbidden', 'there is no second factor to confirm: create its secret first');
    const step = stepOfCode(secrets.decrypt(id, totpPending), code, nowMs);
    if (step === null) return false;
    const turned = await em.execute<unknown[]>(
      `update users set totp_secret = totp_pending, totp_pending = null, totp_step = ?
       where id = ? and totp_secret is null and totp_pending = ? returning id`,
      [step, id, totpPending],
    );
    // Another start has replaced the secret.
    if (turned.length === 0) return false;
    await em.execute('insert into recovery_codes (user_id, hash) select ?, unnest(?::text[])', [
      id,
      `{${codes.map((text) => hashOf(field.totpCode('code', text))).join()}}`,
    ]);
    await auditUser(em, id, { type: 'totp.enabled', byUser: true, origin: given.origin }, nowMs);
    return true;
  });
  if (failure) throw wrongCode();
  return codes;
}

/**
 * Turns the second factor off, and ends the user's access keys in tenants that require one. Throws `validation_failed`, `unauthenticated`,
 * `forbidden`, `rate_limited`, `overloaded`.
 */
export async function deleteTotp(parts: Parts, given: UserCall & { password: string; code: string }, signal: AbortSignal): Promise<void> {
  const password = field.password('password', given.password);
  const code = field.totpCode('code', given.code);
  const user = await userById(parts.orm, given.userId);
  if (user.totpSecret === null) throw isOff();
  await checkPassword(parts, { user, password, origin: given.origin, action: 'totp.delete' }, signal);
  const check = { user, origin: given.origin, action: 'totp.delete' };
  const failure = await checkInTurn(parts.orm, check, async (em, current, nowMs) => {
    if (current.totpSecret === null) throw isOff();
    // Tenants before users, as everywhere.
    const requiring = await lockTenants(em, current.id);
    if (!(await useCode(em, parts.secrets, current, code, nowMs, given.origin))) return false;
    await em.execute('update users set totp_secret = null, totp_pending = null, totp_step = null where id = ?', [current.id]);
    await em.execute('delete from recovery_codes where user_id = ?', [current.id]);
    await setTenants(em, requiring);
    await endAccessKeys(em, current.id, nowMs);
    await auditUser(em, current.id, { type: 'totp.disabled', byUser: true, origin: given.origin }, nowMs);
    return true;
  });
  if (failure) throw wrongCode();
}

/** Locks all tenants of a user, so that none begins to require a second factor meanwhile; returns those that do (UUIDs). */
async function lockTenants(em: EntityManager, userId: string): Promise<string[]> {
  const own = await em.execute<{ tenant_id: string }[]>('select tenant_id from memberships where user_id = ?', [userId]);
  // Row-level security lets a row be locked only where it may be changed.
  await setTenants(
    em,
    own.map((row) => row.tenant_id),
  );
  const tenants = await em.execute<{ tenant_id: string; require_totp: boolean }[]>(
    `select tenant_id, require_totp from tenants where tenant_id in (select unnest(current_setting('app.tenants')::uuid[]))
     order by tenant_id for share`,
  );
  return tenants.filter((tenant) => tenant.require_totp).map((tenant) => tenant.tenant_id);
}

const wrongCode = () => new Refusal('forbidden', 'wrong code');

/** 80 random bits, which need no slow hash. */
function newRecoveryCode(): string {
  const text = new Secret({ size: 10 }).base32.toLowerCase();
  return (text.match(/.{4}/g) ?? []).join('-');
}
