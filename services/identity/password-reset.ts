// Forgotten passwords: a token is mailed to the address of a user, and sets a new password once.
import { raw } from '@mikro-orm/postgresql';
import { auditUser, lockUser, type Origin } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import { User } from './entities.ts';
import * as field from './fields.ts';
import { enqueueMail, mailOfToken, spendToken, tokenInvalid } from './mail/mails.ts';
import type { Parts } from './parts.ts';
import { Refusal } from './refusal.ts';
import { endSessions } from './sessions.ts';
import { endAccessKeysOfUser } from './tenant-changes.ts';

const validMs = 3_600_000;

/**
 * Writes a mail to an address, whether a user has it or not, so that neither answer nor time tells; the worker sends it if one has. Beyond the limit
 * nothing is sent. Throws `validation_failed`, {@link Overloaded}.
 */
export async function forgotPassword(
  { orm, unauthenticated }: Parts,
  given: { email: string; origin?: Origin | undefined },
  signal: AbortSignal,
): Promise<void> {
  const email = field.email('email', given.email);
  const write = () =>
    entityManager(orm).transactional(async (em) => {
      const nowMs = await databaseNow(em);
      await enqueueMail(em, { kind: 'reset', email, data: {}, expiresAt: new Date(nowMs + validMs) }, nowMs);
    });
  await unauthenticated.run(field.clientAddress(given.origin?.clientAddress ?? ''), signal, write).catch((error: unknown) => {
    if (!(error instanceof Refusal && error.reason === 'rate_limited')) throw error;
  });
}

/**
 * Sets a new password, and ends all sessions, access keys and other reset tokens of the user. The second factor stays. Identities of providers stay
 * if the address was verified before; otherwise another person may have linked them. Throws `validation_failed`, `token_invalid`, `overloaded`,
 * {@link Overloaded}.
 */
export async function resetPassword(
  { orm, passwords, unauthenticated }: Parts,
  given: { token: string; password: string; origin?: Origin | undefined },
  signal: AbortSignal,
): Promise<void> {
  const token = field.secret('token', given.token);
  const password = field.newPassword('password', given.password);
  const address = field.clientAddress(given.origin?.clientAddress ?? '');
  // A cheap check before the expensive hash; spending decides.
  const { email } = await unauthenticated.run(address, signal, () => mailOfToken(entityManager(orm), 'reset', token));
  const passwordHash = await passwords.hash(password, { address, signal });
  await unauthenticated.run(address, signal, () =>
    entityManager(orm).transactional(async (em) => {
      const found = await em.findOne(User, { [raw('lower(email)')]: raw('lower(?)', [email]) });
      if (!found) throw tokenInvalid();
      // Before its mails: of two tokens at once the second waits here, and then finds its mail ended.
      await lockUser(em, found.id);
      await spendToken(em, 'reset', token);
      const user = await em.findOneOrFail(User, { id: found.id }, { refresh: true });
      await em.execute(`select set_config('app.user_id', ?, true)`, [user.id]);
      const nowMs = await databaseNow(em);
      await auditUser(em, user.id, { type: 'password.reset', byUser: false, origin: given.origin }, nowMs);
      await em.nativeUpdate(User, { id: user.id }, { passwordHash });
      await endSessions(em, user.id, null, nowMs);
      await endAccessKeysOfUser(em, user.id, nowMs);
      await em.execute(
        `update mails set expires_at = clock_timestamp() where kind = 'reset' and lower(email) = lower(?) and expires_at > now()`,
        [email],
      );
      if (!user.emailVerifiedAt) await em.execute('delete from oidc_identities where user_id = ?', [user.id]);
    }),
  );
}
