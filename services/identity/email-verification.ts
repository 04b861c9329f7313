// Verification of email addresses, by a token that is mailed.
import type { MikroORM } from '@mikro-orm/postgresql';
import { auditUser, type Origin } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import { User, type UserRow } from './entities.ts';
import * as field from './fields.ts';
import { enqueueMail, spendToken, tokenInvalid } from './mail/mails.ts';

const validMs = 24 * 3_600_000;

/** Mails a token to the user's address, unless that is verified. Throws `unauthenticated`, `rate_limited`. */
export async function sendVerificationEmail(orm: MikroORM, userId: string): Promise<void> {
  const id = field.userUuid(userId);
  await entityManager(orm).transactional(async (em) => {
    const user = await em.findOne(User, { id });
    if (!user) throw field.unknownUser();
    if (user.emailVerifiedAt) return;
    const nowMs = await databaseNow(em);
    const { email } = user;
    await enqueueMail(em, { kind: 'verification', email, userId: id, data: {}, expiresAt: new Date(nowMs + validMs) }, nowMs);
  });
}

/** Marks the address of a mailed token as verified, if its user still has that address. Throws `token_invalid`. */
export async function verifyEmail(orm: MikroORM, token: string, origin: Origin | undefined): Promise<UserRow> {
  return entityManager(orm).transactional(async (em) => {
    const { userId, email } = await spendToken(em, 'verification', token);
    const user = await em.findOne(User, { id: userId ?? '', email });
    if (!user) throw tokenInvalid();
    if (user.emailVerifiedAt) return user;
    const nowMs = await databaseNow(em);
    const emailVerifiedAt = new Date(nowMs);
    await em.nativeUpdate(User, { id: user.id }, { emailVerifiedAt });
    await auditUser(em, user.id, { type: 'email.verified', byUser: false, origin, data: { email } }, nowMs);
    return { ...user, emailVerifiedAt };
  });
}
