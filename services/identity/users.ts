// Users: registration, login and look-up.
import { raw, type EntityManager, type MikroORM, type QueryResult } from '@mikro-orm/postgresql';
import { v7 as uuidv7 } from 'uuid';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { auditUser } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import * as field from './fields.ts';
import type { Parts } from './parts.ts';
import { Refusal } from './refusal.ts';
import { User, type UserRow } from './entities.ts';
import { openSession, type Session } from './sessions.ts';
import { admitLogin, recordFailure } from './login-throttle.ts';
import { checkSecondFactor } from './totp.ts';

const noFactors = { emailVerifiedAt: null, totpSecret: null, totpPending: null, totpStep: null };

/** The fields of a new user. */
export interface Registration {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
  /** The key of fair sharing. */
  clientAddress: string;
  /** For the audit log. */
  userAgent: string;
}

/** Creates a user. Throws `validation_failed`, `email_taken`, `overloaded`, {@link Overloaded}. */
export async function register({ orm, passwords, unauthenticated }: Parts, given: Registration, signal: AbortSignal): Promise<UserRow> {
  const email = field.email('email', given.email);
  const password = field.newPassword('password', given.password);
  const firstName = field.text('first_name', given.firstName, 255);
  const lastName = field.text('last_name', given.lastName, 255);
  const address = field.clientAddress(given.clientAddress);
  const taken = () => new Refusal('email_taken', 'email already registered', { field: 'email', tag: 'unique', value: given.email });
  // A cheap check before the expensive hash; the unique key decides.
  if (await unauthenticated.run(address, signal, () => byEmail(orm, email))) throw taken();
  const passwordHash = await passwords.hash(password, { address, signal });
  const work = async (em: EntityManager) => {
    const createdAt = new Date(await databaseNow(em));
    const user: UserRow = { id: uuidv7(), email, firstName, lastName, status: 'active', passwordHash, createdAt, ...noFactors };
    // A unique violation would put the email into PostgreSQL's log.
    const { affectedRows } = await em.createQueryBuilder(User).insert(user).onConflict().ignore().execute<QueryResult>('run');
    if (affectedRows === 0) throw taken();
    await auditUser(em, user.id, { type: 'user.registered', byUser: true, origin: given }, createdAt.getTime());
    return user;
  };
  return unauthenticated.run(address, signal, () => entityManager(orm).transactional(work));
}

/**
 * Opens a session for email and password, and a code where a second factor is on. An unknown email costs the same work and gets the same answer as
 * a wrong password. Throws `validation_failed`, `unauthenticated`, `totp_required`, `rate_limited`, `overloaded`, {@link Overloaded}.
 */
export async function login(
  parts: Parts,
  given: { email: string; password: string; totpCode?: string | undefined; clientAddress: string; userAgent: string },
  signal: AbortSignal,
): Promise<{ session: Session; user: UserRow; rateLimit: RateLimitStatus }> {
  const { orm, pool, passwords, signer, unauthenticated } = parts;
  const email = field.text('email', given.email.normalize('NFC'), 254);
  const password = field.password('password', given.password);
  const address = field.clientAddress(given.clientAddress);
  const user = await unauthenticated.run(address, signal, async () => {
    await admitLogin(pool, email, address);
    return byEmail(orm, email);
  });
  const isRight = await passwords.verify(user?.passwordHash ?? null, password, { address, signal });
  // Without the signal: a client that disconnects does not escape the count.
  return unauthenticated.run(address, undefined, async () => {
    if (!user || !isRight) {
      const rateLimit = await recordFailure(orm, { email, address, userId: user?.id ?? null, reason: 'password', origin: given });
      throw new Refusal('unauthenticated', 'invalid email or password', { metadata: rateLimitMetadata(rateLimit) });
    }
    // Checked again: of many guesses at once, those beyond the limit must not learn that one is right.
    const rateLimit = await admitLogin(pool, email, address);
    await checkSecondFactor(parts, user.id, given.totpCode, given);
    const how = { method: 'password' as const, origin: given, passwordHash: user.passwordHash };
    return { session: await openSession(orm, signer, user.id, how), user, rateLimit };
  });
}

/** The user of an identifier. Throws `unauthenticated`: the token is valid, but its user is unknown. */
export async function userById(orm: MikroORM, id: string): Promise<UserRow> {
  const user = await entityManager(orm).findOne(User, { id: field.userUuid(id) });
  if (!user) throw field.unknownUser();
  return user;
}

async function byEmail(orm: MikroORM, email: string): Promise<UserRow | null> {
  return entityManager(orm).findOne(User, { [raw('lower(email)')]: raw('lower(?)', [email]) });
}
