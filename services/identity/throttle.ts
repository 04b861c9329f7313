// Slows the guessing of passwords: counts failed logins in PostgreSQL, so that all replicas count together.
import { withClient, type Pool } from '../platform/postgres.ts';
import { rateLimitMetadata, type RateLimitStatus } from '../platform/errors.ts';
import { Refusal } from './refusal.ts';

/** Failures allowed in a rolling window of `seconds`: per account from one address, and per address. */
const { perAccount, perAddress, seconds } = { perAccount: 10, perAddress: 100, seconds: 900 };

interface Counts {
  account_failures: number;
  address_failures: number;
  account_reset: number | null;
  address_reset: number | null;
  account_wait: number | null;
  address_wait: number | null;
}

// A failure to come is of a clock that was set back: it would count, and be waited for, as much longer. Not so one of a transaction that began after this
// one, and was first.
// A wait ends when the failure that fills the quota is forgotten: the tenth from the newest, the hundredth.
const left = (failedAt: string) => `ceil(extract(epoch from ${failedAt} + interval '${seconds} s' - now()))::int`;
const counts = `
  with recent as (
    select account = sha256(convert_to(lower($2), 'UTF8')) as own, failed_at
    from login_failures where address = $1 and failed_at > now() - interval '${seconds} s' and failed_at < now() + interval '1 minute'
  ), counts as (
    select count(*) filter (where own)::int as account_failures, count(*)::int as address_failures,
           ${left('min(failed_at) filter (where own)')} as account_reset, ${left('min(failed_at)')} as address_reset,
           ${left(`(array_agg(failed_at order by failed_at desc) filter (where own))[${perAccount}]`)} as account_wait,
           ${left(`(array_agg(failed_at order by failed_at desc))[${perAddress}]`)} as address_wait
    from recent
  )`;
const look = { name: 'login_look', text: `${counts} select * from counts` };
const record = {
  name: 'login_record',
  text: `${counts}, recorded as (
    insert into login_failures (address, account, failed_at)
    select $1, sha256(convert_to(lower($2), 'UTF8')), now() from counts
    where account_failures < ${perAccount} and address_failures < ${perAddress}
  ) select * from counts`,
};

/**
 * Where this address (as it is limited) stands with this account, by the limit that is nearer to being reached. Throws the refusal `rate_limited`
 * where one is reached.
 */
export async function admitLogin(pool: Pool, email: string, address: string): Promise<RateLimitStatus> {
  const { rows } = await pool.query<Counts>({ ...look, values: [address, email] });
  return admitted(rows[0]);
}

/**
 * Records a failed login and tells how it stands then. Throws `rate_limited` where the limit was reached meanwhile: however many guesses
 * come at once, ten are answered.
 */
export async function recordFailure(pool: Pool, email: string, address: string): Promise<RateLimitStatus> {
  const [, , { rows }] = await withClient(pool, (client) =>
    Promise.all([
      client.query('begin'),
      // In a statement of its own: one that waits for a lock still counts what it saw before.
      client.query({ name: 'login_lock', text: 'select pg_advisory_xact_lock(hashtextextended($1, 0))', values: [address] }),
      client.query<Counts>({ ...record, values: [address, email] }),
      client.query('commit'),
    ]),
  );
  const before = admitted(rows[0]);
  return { ...before, remaining: before.remaining - 1 };
}

// Without an end to it, more than the statement's time allows would never go.
const forgottenAtOnce = 1_000;
const forget = `delete from login_failures where ctid = any (array(
  select ctid from login_failures where failed_at <= now() - interval '${seconds} s' limit ${forgottenAtOnce} for update skip locked))`;

/** Forgets failures that no limit counts any more. */
export async function forgetFailures(pool: Pool): Promise<void> {
  while ((await pool.query(forget)).rowCount === forgottenAtOnce);
}

function admitted(found: Counts | undefined): RateLimitStatus {
  if (!found) throw new Error('the count of failures is one row');
  const limit = (quota: number, failures: number, reset: number | null) => ({ quota, remaining: Math.max(0, quota - failures), reset });
  const account = limit(perAccount, found.account_failures, found.account_reset);
  const address = limit(perAddress, found.address_failures, found.address_reset);
  const nearer = address.remaining < account.remaining ? address : account;
  const standing: RateLimitStatus = {
    policy: 'login',
    quota: nearer.quota,
    window: seconds,
    remaining: nearer.remaining,
    reset: Math.min(seconds, nearer.reset ?? seconds),
  };
  if (nearer.remaining === 0) {
    // Both may be full. No longer than the window: a clock that was set back left failures of the future.
    const wait = Math.min(seconds, Math.max(1, found.account_wait ?? 0, found.address_wait ?? 0));
    throw new Refusal('rate_limited', 'too many failed logins, try again later', {
      retryAfter: wait,
      metadata: rateLimitMetadata({ ...standing, reset: wait }),
    });
  }
  return standing;
}
