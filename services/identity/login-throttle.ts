// Limits failed logins by account and address, counted in PostgreSQL, so that all replicas share the count.
import { withClient, type Pool } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { Refusal } from './refusal.ts';

/** Failures in a rolling window: per account from one address, and per address. */
const maxPerAccount = 10;
const maxPerAddress = 100;
const windowSeconds = 900;

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
const secondsLeft = (failedAt: string) => `ceil(extract(epoch from ${failedAt} + interval '${windowSeconds} s' - now()))::int`;
const counts = `
  with recent as (
    select account = sha256(convert_to(lower($2), 'UTF8')) as own, failed_at
    from login_failures where address = $1 and failed_at > now() - interval '${windowSeconds} s' and failed_at < now() + interval '1 minute'
  ), counts as (
    select count(*) filter (where own)::int as account_failures, count(*)::int as address_failures,
           ${secondsLeft('min(failed_at) filter (where own)')} as account_reset, ${secondsLeft('min(failed_at)')} as address_reset,
           ${secondsLeft(`(array_agg(failed_at order by failed_at desc) filter (where own))[${maxPerAccount}]`)} as account_wait,
           ${secondsLeft(`(array_agg(failed_at order by failed_at desc))[${maxPerAddress}]`)} as address_wait
    from recent
  )`;
const countQuery = { name: 'login_look', text: `${counts} select * from counts` };
const recordQuery = {
  name: 'login_record',
  text: `${counts}, recorded as (
    insert into login_failures (address, account, failed_at)
    select $1, sha256(convert_to(lower($2), 'UTF8')), now() from counts
    where account_failures < ${maxPerAccount} and address_failures < ${maxPerAddress}
  ) select * from counts`,
};

/**
 * The rate-limit status of logins to this account from this address (as `clientAddress` returns it), by the limit with fewer failures left. Throws
 * `rate_limited` where one is reached.
 */
export async function admitLogin(pool: Pool, email: string, address: string): Promise<RateLimitStatus> {
  const { rows } = await pool.query<Counts>({ ...countQuery, values: [address, email] });
  return statusOf(rows[0]);
}

/**
 * Records a failed login and returns the status after it. Throws `rate_limited` where the limit was reached meanwhile: of many guesses at once, ten
 * are answered.
 */
export async function recordFailure(pool: Pool, email: string, address: string): Promise<RateLimitStatus> {
  const [, , { rows }] = await withClient(pool, (client) =>
    Promise.all([
      client.query('begin'),
      // A statement of its own: one that waits for a lock counts by its old snapshot.
      client.query({ name: 'login_lock', text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))', values: [address] }),
      client.query<Counts>({ ...recordQuery, values: [address, email] }),
      client.query('commit'),
    ]),
  );
  const before = statusOf(rows[0]);
  return { ...before, remaining: before.remaining - 1 };
}

// Without a limit, a delete of many rows would always exceed the statement timeout.
const deleteLimit = 1_000;
const deletion = `delete from login_failures where ctid = any (array(
  select ctid from login_failures where failed_at <= now() - interval '${windowSeconds} s' limit ${deleteLimit} for update skip locked))`;

/** Deletes failures outside the window. */
export async function deleteExpiredFailures(pool: Pool): Promise<void> {
  while ((await pool.query(deletion)).rowCount === deleteLimit);
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
    window: windowSeconds,
    remaining: nearer.remaining,
    reset: Math.min(windowSeconds, nearer.reset ?? windowSeconds),
  };
  if (nearer.remaining === 0) {
    // Both limits may be reached.
    const wait = Math.min(windowSeconds, Math.max(1, found.account_wait ?? 0, found.address_wait ?? 0));
    throw new Refusal('rate_limited', 'too many failed logins, try again later', {
      retryAfter: wait,
      metadata: rateLimitMetadata({ ...status, reset: wait }),
    });
  }
  return status;
}
