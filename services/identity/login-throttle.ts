// Limits failed logins by account and address, counted in PostgreSQL, so that all replicas share the count.
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { v7 as uuidv7 } from 'uuid';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { toId } from '../platform/ids.ts';
import type { Pool } from '../platform/postgres.ts';
import { auditUser, type Origin } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import { Refusal } from './refusal.ts';

/** Failures in a rolling window: per account from one address, and per address. */
const maxPerAccount = 10;
const maxPerAddress = 100;
/** For so long failures count. */
export const failureWindowSeconds = 900;

/** A failed login, or a failed check of a user's password or second factor. */
export interface FailedLogin {
  email: string;
  /** As `clientAddress` returns it. */
  address: string;
  /** UUID of the user with this email; null: there is none. */
  userId: string | null;
  /** What was wrong. */
  reason: 'password' | 'totp_code';
  origin: Origin | undefined;
  /** Where the user is logged in already: what was tried. */
  action?: string;
}

interface Counts {
  account_failures: number;
  address_failures: number;
  account_reset: number | null;
  address_reset: number | null;
  account_wait: number | null;
  address_wait: number | null;
}

// Failures of the future were recorded before the clock was set back and do not count. A wait ends when the failure that fills the quota leaves the
// window: the tenth from the newest, the hundredth.
const secondsLeft = (failedAt: string) => `ceil(extract(epoch from ${failedAt} + interval '${failureWindowSeconds} s' - now()))::int`;
const counts = (address: string, email: string) => `
  with given as (
    select ${address}::text as address, sha256(convert_to(lower(${email}), 'UTF8')) as account
  ), recent as (
    select login_failures.account = given.account as own, failed_at from login_failures, given
    where login_failures.address = given.address and failed_at > now() - interval '${failureWindowSeconds} s' and failed_at < now() + interval '1 minute'
  ), counts as (
    select count(*) filter (where own)::int as account_failures, count(*)::int as address_failures,
           ${secondsLeft('min(failed_at) filter (where own)')} as account_reset, ${secondsLeft('min(failed_at)')} as address_reset,
           ${secondsLeft(`(array_agg(failed_at order by failed_at desc) filter (where own))[${maxPerAccount}]`)} as account_wait,
           ${secondsLeft(`(array_agg(failed_at order by failed_at desc))[${maxPerAddress}]`)} as address_wait
    from recent
  )`;
// Codes have six digits: however many addresses guess, a user has one limit for all of them.
const ofSecondFactor = (userId: string): string => `totp:${toId('user', userId)}`;
const countQuery = { name: 'login_look', text: `${counts('$1', '$2')} select * from counts` };
const recordStatement = `${counts('?', '?')}, recorded as (
    insert into login_failures (address, account, failed_at)
    select address, account, now() from counts, given
    where account_failures < ${maxPerAccount} and address_failures < ${maxPerAddress}
  ) select * from counts`;

/**
 * The rate-limit status of logins to this account from this address (as `clientAddress` returns it), by the limit with fewer failures left. Throws
 * `rate_limited` where one is reached.
 */
export async function admitLogin(pool: Pool, email: string, address: string): Promise<RateLimitStatus> {
  const { rows } = await pool.query<Counts>({ ...countQuery, values: [address, email] });
  return statusOf(rows[0]);
}

/**
 * Records a failed login, also in the audit log of the user, and returns the status after it. Throws `rate_limited` where the limit was reached
 * meanwhile: of many guesses at once, ten are answered. An unknown email takes as long as a known one.
 */
export async function recordFailure(orm: MikroORM, failed: FailedLogin): Promise<RateLimitStatus> {
  return entityManager(orm).transactional(async (em) => {
    await takeTurn(em, failed);
    return recordInTurn(em, failed);
  });
}

/** Lets the failures of an account and of an address be counted one after the other until the transaction ends. */
export async function takeTurn(em: EntityManager, { address, email }: Pick<FailedLogin, 'address' | 'email'>): Promise<void> {
  // A statement of its own: one that waits for a lock counts by its old snapshot. By email too, or only those of a known one would wait for a user.
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0)), pg_advisory_xact_lock(hashtextextended(lower(?), 2))', [
    address,
    email,
  ]);
}

/** Throws `rate_limited` where no more codes of a second factor may be guessed, in a transaction that has taken its turn. */
export async function admitCode(em: EntityManager, userId: string, email: string, address: string): Promise<void> {
  for (const each of [address, ofSecondFactor(userId)]) {
    const [found] = await em.execute<Counts[]>(`${counts('?', '?')} select * from counts`, [each, email]);
    statusOf(found);
  }
}

/** As {@link recordFailure}, in a transaction that has taken its turn. */
export async function recordInTurn(em: EntityManager, failed: FailedLogin): Promise<RateLimitStatus> {
  const { email, address, userId, reason, origin, action } = failed;
  const record = async (by: string) => statusOf((await em.execute<Counts[]>(recordStatement, [by, email]))[0]);
  const ofAddress = await record(address);
  const ofCodes = reason === 'totp_code' && userId !== null ? await record(ofSecondFactor(userId)) : ofAddress;
  const status = ofCodes.remaining < ofAddress.remaining ? ofCodes : ofAddress;
  const change = { type: 'login.failed', byUser: action !== undefined, origin, data: { reason, ...(action !== undefined && { action }) } };
  await auditUser(em, userId ?? uuidv7(), change, await databaseNow(em));
  return { ...status, remaining: status.remaining - 1 };
}

function statusOf(found: Counts | undefined): RateLimitStatus {
  if (!found) throw new Error('the count of failures is one row');
  const limit = (quota: number, failures: number, reset: number | null) => ({ quota, remaining: Math.max(0, quota - failures), reset });
  const account = limit(maxPerAccount, found.account_failures, found.account_reset);
  const address = limit(maxPerAddress, found.address_failures, found.address_reset);
  const nearer = address.remaining < account.remaining ? address : account;
  const status: RateLimitStatus = {
    policy: 'login',
    quota: nearer.quota,
    window: failureWindowSeconds,
    remaining: nearer.remaining,
    reset: Math.min(failureWindowSeconds, nearer.reset ?? failureWindowSeconds),
  };
  if (nearer.remaining === 0) {
    // Both limits may be reached.
    const wait = Math.min(failureWindowSeconds, Math.max(1, found.account_wait ?? 0, found.address_wait ?? 0));
    throw new Refusal('rate_limited', 'too many failed logins, try again later', {
      retryAfter: wait,
      metadata: rateLimitMetadata({ ...status, reset: wait }),
    });
  }
  return status;
}
