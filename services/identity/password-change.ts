// The password of a user that is logged in: checks it, and replaces it.
import { auditUser, type Origin } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import type { UserRow } from './entities.ts';
import * as field from './fields.ts';
import { admitLogin, recordFailure } from './login-throttle.ts';
import type { Parts } from './parts.ts';
import { Refusal } from './refusal.ts';
import { endSessions } from './sessions.ts';
import { endAccessKeysOfUser } from './tenant-changes.ts';
import { userById } from './users.ts';

/** A check of a password. */
export interface PasswordCheck {
  user: UserRow;
  password: string;
  origin: Origin | undefined;
  /** What the user tries. */
  action: string;
}

const wrongPassword = () => new Refusal('forbidden', 'wrong password');

/** Checks the password of a user that is logged in. Throws `forbidden` (wrong, which counts as a failed login), `rate_limited`, `overloaded`. */
export async function checkPassword(
  { orm, pool, passwords, users }: Parts,
  { user, password, origin, action }: PasswordCheck,
  signal: AbortSignal,
): Promise<void> {
  const { id, email, passwordHash } = user;
  if (passwordHash === null) throw new Refusal('forbidden', 'the user has no password: set one with the mail of a password reset');
  const address = field.clientAddress(origin?.clientAddress ?? '');
  await users.run(id, signal, () => admitLogin(pool, email, address));
  const isRight = await passwords.verify(passwordHash, password, { address, signal });
  // As at a login: without the signal, and admitted again.
  await users.run(id, undefined, async () => {
    if (isRight) return admitLogin(pool, email, address);
    await recordFailure(orm, { email, address, userId: id, reason: 'password', origin, action });
    throw wrongPassword();
  });
}

/** A call that changes a password. */
export interface PasswordChange {
  userId: string;
  /** The session that stays; empty: none. */
  sessionId: string;
  current: string;
  password: string;
  origin?: Origin | undefined;
}

/** Sets a new password and ends all other sessions and all access keys. Throws `validation_failed`, `unauthenticated`, and as {@link checkPassword}. */
export async function changePassword(parts: Parts, given: PasswordChange, signal: AbortSignal): Promise<void> {
  const { orm, passwords, users } = parts;
  const { origin } = given;
  const current = field.password('current', given.current);
  const password = field.newPassword('password', given.password);
  const user = await userById(orm, given.userId);
  await checkPassword(parts, { user, password: current, origin, action: 'password.change' }, signal);
  const passwordHash = await passwords.hash(password, { address: field.clientAddress(origin?.clientAddress ?? ''), signal });
  await users.run(user.id, signal, () =>
    entityManager(orm).transactional(async (em) => {
      // Of two changes at once the second has a wrong current password.
      const changed = await em.execute<unknown[]>('update users set password_hash = ? where id = ? and password_hash = ? returning id', [
        passwordHash,
        user.id,
        user.passwordHash,
      ]);
      if (changed.length === 0) throw wrongPassword();
      await em.execute(`select set_config('app.user_id', ?, true)`, [user.id]);
      const nowMs = await databaseNow(em);
      await endSessions(em, user.id, given.sessionId, nowMs);
      // Those of the session that stays are got again.
      await endAccessKeysOfUser(em, user.id, nowMs);
      await auditUser(em, user.id, { type: 'password.changed', byUser: true, origin }, nowMs);
    }),
  );
}
