// Users: who they are, and how they show it.
import { raw, type MikroORM, type QueryResult } from '@mikro-orm/postgresql';
import { v7 as uuidv7 } from 'uuid';
import type { Pool } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { FairSemaphore } from '../platform/fair-semaphore.ts';
import { clockOf, rows } from './database.ts';
import * as field from './fields.ts';
import type { Passwords } from './passwords.ts';
import { Refusal } from './refusal.ts';
import { User, type UserRow } from './entities.ts';
import { openSession, type Session, type Signer } from './sessions.ts';
import { admitLogin, recordFailure } from './throttle.ts';

/**
 * The turns of callers who have shown no credential, by address, at what is looked up and written for them: of five connections of each pool two
 * are left, so that keys are verified and health is told however many log in. Whoever takes one gets {@link Overloaded} where too many wait.
 */
export const strangersTurns = (): FairSemaphore =>
  new FairSemaphore({ max: 3, maxPerKey: 3, maxWaiting: 1_000, maxWaitingPerKey: 1_000, timeoutMs: 5_000 });

/** The turns of users at the pool of MikroORM, by user: whoever lists his tenants by the hundred leaves connections for the others. */
export const usersTurns = (): FairSemaphore => new FairSemaphore({ max: 5, maxPerKey: 3, timeoutMs: 5_000 });

/** What a registration and a login need. */
export interface LoginParts {
  orm: MikroORM;
  pool: Pool;
  passwords: Passwords;
  signer: Signer;
  strangers: FairSemaphore;
}

/** What a new user gives. */
export interface Registration {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
  /** For his share of what is computed. */
  clientAddress: string;
}

/** Makes a user. Throws `validation_failed`, `email_taken`, `overloaded`, {@link Overloaded}. */
export async function register({ orm, passwords, strangers }: LoginParts, given: Registration, signal: AbortSignal): Promise<UserRow> {
  const email = field.email('email', given.email);
  const password = field.newPassword('password', given.password);
  const firstName = field.text('first_name', given.firstName, 255);
  const lastName = field.text('last_name', given.lastName, 255);
  const address = field.clientAddress(given.clientAddress);
  const taken = () => new Refusal('email_taken', 'email already registered', { field: 'email', tag: 'unique', value: email });
  // Asked before the expensive part, decided by the unique key after it.
  if (await strangers.run(address, signal, () => byEmail(orm, email))) throw taken();
  const passwordHash = await passwords.hash(password, { address, signal });
  return strangers.run(address, signal, async () => {
    const em = rows(orm);
    const createdAt = new Date(await clockOf(em));
    const user: UserRow = { id: uuidv7(), email, firstName, lastName, status: 'active', passwordHash, createdAt };
    // A key that is taken would be an error, with the email in PostgreSQL's log.
    const { affectedRows } = await em.createQueryBuilder(User).insert(user).onConflict().ignore().execute<QueryResult>('run');
    if (affectedRows === 0) throw taken();
    return user;
  });
}

/**
 * Opens a session for email and password. An unknown email costs the same work and gets the same answer as a wrong password. Throws
 * `validation_failed`, `unauthenticated`, `rate_limited`, `overloaded`, {@link Overloaded}.
 */
export async function login(
  { orm, pool, passwords, signer, strangers }: LoginParts,
  given: { email: string; password: string; clientAddress: string },
  signal: AbortSignal,
): Promise<{ session: Session; user: UserRow; standing: RateLimitStatus }> {
  const email = field.text('email', given.email, 254);
  const password = field.password('password', given.password);
  const address = field.clientAddress(given.clientAddress);
  const user = await strangers.run(address, signal, async () => {
    await admitLogin(pool, email, address);
    return byEmail(orm, email);
  });
  const verify = (shown: string) => passwords.verify(user?.passwordHash ?? null, shown, { address, signal });
  // As it was typed, too: so the hashes were made before passwords had a form.
  const right = (await verify(password)) || (password !== given.password && (await verify(given.password)));
  // Whoever has gone meanwhile failed all the same.
  return strangers.run(address, undefined, async () => {
    if (!user || !right) {
      const standing = await recordFailure(pool, email, address);
      throw new Refusal('unauthenticated', 'invalid email or password', { metadata: rateLimitMetadata(standing) });
    }
    // Asked again: of a thousand guesses that came in together, those beyond the limit learn nothing, not even that one is right.
    const standing = await admitLogin(pool, email, address);
    return { session: await openSession(orm, signer, user.id), user, standing };
  });
}

/** The user of an identifier. Throws `unauthenticated`: the bearer of a good token is gone, or is nobody. */
export async function userById(orm: MikroORM, id: string): Promise<UserRow> {
  const nobody = () => new Refusal('unauthenticated', 'unknown user');
  const user = await rows(orm).findOne(User, { id: field.uuidOf('user', id, nobody) });
  if (!user) throw nobody();
  return user;
}

async function byEmail(orm: MikroORM, email: string): Promise<UserRow | null> {
  return rows(orm).findOne(User, { [raw('lower(email)')]: raw('lower(?)', [email]) });
}
