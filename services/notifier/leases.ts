// Leases due deliveries: each goes to one worker for a limited time, fairly over tenants. All times are the database's.
import { v7 as uuidv7 } from 'uuid';
import { textArray, uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, epochMs, inTransaction, setTenants, withClient, type Pool } from '../platform/postgres.ts';
import { bisect } from '../platform/postgres-errors.ts';

/** A delivery that this process may send until its lease ends. */
export interface Lease {
  /** UUIDs. */
  tenant: string;
  id: string;
  /** Fences the result: one with the id of an earlier lease is not recorded. */
  leaseId: string;
  eventId: string;
  eventType: string;
  /** Number of the attempt. */
  attempt: number;
  /** A manual retry or a test: no further attempt follows. */
  byHand: boolean;
  /** When it was due, milliseconds since the Unix epoch. */
  dueMs: number;
  /** When the lease began, which is when the attempt begins. */
  startedMs: number;
  url: string;
  /** Encrypted; the newest first, and during a rotation the one before. */
  secrets: string[];
  /** The webhook's own headers, encrypted; null: none. */
  headers: string | null;
  body: string;
  /** Trace context of the event, if any. */
  traceparent: string | null;
}

/** How much may be leased. */
export interface LeaseLimits {
  /** Deliveries in all. */
  free: number;
  /** Deliveries of one tenant in flight, over all workers. */
  perTenant: number;
  /** Encryption keys of this process. Without the keys of its secret and headers, nothing of a webhook is leased. */
  keyIds: string[];
  leaseMs: number;
}

/** A tenant (UUID) that PostgreSQL reports a data error for, such as a damaged page. */
export interface PostponedTenant {
  tenant: string;
  error: unknown;
}

/** Result of one look for due deliveries. */
export interface LeaseCycle {
  leased: Lease[];
  /** Deliveries that failed without an attempt, because their webhook is gone. */
  failed: number;
  /** Due tenants (UUIDs) without anything to lease, for {@link postponeIdle}. */
  idle: string[];
  /** Other tenants may be due. */
  hasMore: boolean;
  /** Milliseconds until a tenant is due; null: no work is known. */
  nextMs: number | null;
  postponed: PostponedTenant[];
}

/** On insert into `due`: keeps an earlier time. */
export const keepEarlierDueTime =
  'on conflict (tenant_id) do update set next_at = excluded.next_at where due.next_at is null or due.next_at > excluded.next_at';

/** Whether a delivery `d` waits for an automatic retry, which is not counted in `attempts` yet. */
export const isRetryScheduled = '(d.next_retry_at is not null and not d.by_hand)';

/**
 * The encrypted secrets of a row `w` of `webhooks`, for {@link splitSecrets}; `at`: an expression of the time. Text, because pg parses arrays
 * character by character.
 */
export const secretsAt = (at: string): string => `w.secret || case when w.previous_until > ${at} then ' ' || w.previous_secret else '' end`;

/** The secrets that {@link secretsAt} has joined. */
export const splitSecrets = (text: string): string[] => (text.includes(' ') ? text.split(' ') : [text]);

/** When the first delivery of a tenant without a lease is due; `tenant`: an expression. */
export const firstUnleased = (
  tenant: string,
): string => `select d.run_at from deliveries d where d.tenant_id = ${tenant} and d.status = 'pending'
  and not exists (select from leases l where l.tenant_id = d.tenant_id and l.delivery_id = d.id offset 0) order by d.run_at, d.id limit 1`;

// Deliveries of disabled and deleted webhooks that fail in one cycle: more would take longer than a statement may.
const maxFailed = 2_000;

/** Seconds until a tenant with a data error, or with a secret or headers of an unknown key, is looked at again. */
const postponeSeconds = 30;

/** The key that the secret or the headers of an enabled webhook `w` are encrypted with and that `keyIds` lacks; null: none. */
const missingKey = (keyIds: string): string => `(select split_part(encrypted, ':', 1) from unnest(array[w.secret, w.headers]) as encrypted
  where w.enabled and split_part(encrypted, ':', 1) <> all (${keyIds}::text[]) limit 1)`;

const findDue = {
  name: 'find_due',
  text: 'select tenant_id from due where next_at <= (select clock_timestamp()) order by next_at limit $1',
};

const nextDue = {
  name: 'next_due',
  text: `select greatest(0, extract(epoch from next_at - clock_timestamp()) * 1000)::float8 as next_ms
    from due where next_at is not null order by next_at limit 1`,
};

// A tenant's leases are counted under a lock of their own. Locking its row of `due` would block events and results.
const lockDue = {
  name: 'lock_due',
  text: 'select t::text as tenant from unnest($1::uuid[]) as t where pg_try_advisory_xact_lock(hashtextextended(t::text, 0))',
};

/** Keeps a tenant's ($1, a UUID) deliveries from being leased during a transaction. */
export const lockLeases = 'select pg_advisory_xact_lock(hashtextextended($1::uuid::text, 0))';

// Made before its tenant's webhook, so meant for a deleted one; a manual retry is meant for this one.
const outlived = `(not d.by_hand and d.created_at < date_trunc('milliseconds', t.created_at))`;

// No row is locked: other workers are excluded by the tenants' locks, and a late result finds its lease replaced.
// `offset 0` and the arrays of ids keep the planner from reading all leases of a tenant for each delivery.
const lease = {
  name: 'lease',
  text: `with clock as materialized (select clock_timestamp() as at),
    tenants as materialized (
      select t.tenant_id, w.url, w.headers, w.created_at, coalesce(w.enabled, false) as enabled, ${secretsAt('at')} as secrets,
        case when ${missingKey('$7')} is not null then 0
          else greatest($2::int - (select count(*) from leases l where l.tenant_id = t.tenant_id and l.until > at), 0) end as capacity
      from clock, unnest($1::uuid[]) as t (tenant_id) left join webhooks w on w.tenant_id = t.tenant_id
    ), ready as materialized (
      select t.tenant_id, t.url, t.headers, t.enabled and not r.outlived as enabled, t.secrets, t.capacity,
        r.id, r.event_id, r.event_type, r.by_hand, r.run_at, r.expired, r.abandoned, r.attempt,
        row_number() over (partition by t.tenant_id, r.outlived order by r.run_at, r.id) as turn
      from tenants t cross join lateral (
        select d.id, d.event_id, d.event_type, d.by_hand, d.run_at, ${outlived} as outlived, l.until is not null as expired,
          d.test and d.next_retry_at is null as abandoned, d.attempts + case when ${isRetryScheduled} then 1 else 0 end as attempt
        from deliveries d left join lateral (
          select until from leases where tenant_id = d.tenant_id and delivery_id = d.id offset 0
        ) as l on true
        where d.tenant_id = t.tenant_id and d.status = 'pending' and d.run_at <= (select at from clock)
          and (l.until is null or l.until <= (select at from clock))
        order by d.run_at, d.id limit case when t.enabled then least(t.capacity, $6) else ${maxFailed} / cardinality($1::uuid[]) end
      ) as r
    ), chosen as materialized (
      select * from ready where enabled and not abandoned and turn <= capacity order by turn, random() limit $3
    ), taken as (
      insert into leases (tenant_id, delivery_id, lease_id, started_at, until)
      select tenant_id, id, $4, at, at + $5::float8 * interval '1 ms' from clock, chosen where not expired
    ), taken_over as (
      update leases l set lease_id = $4, started_at = at, until = at + $5::float8 * interval '1 ms'
      from clock, chosen r where r.expired and l.tenant_id = r.tenant_id and l.delivery_id = r.id and l.until <= at
        and l.tenant_id = any ($1::uuid[]) and l.delivery_id = any (array(select id from chosen where expired))
      returning l.delivery_id
    ), dropped as (
      delete from leases l using clock, ready r
      where r.expired and (r.abandoned or not r.enabled) and l.tenant_id = r.tenant_id and l.delivery_id = r.id and l.until <= at
        and l.tenant_id = any ($1::uuid[]) and l.delivery_id = any (array(select id from ready where expired))
      returning l.delivery_id, l.started_at, l.until
    ), noted as (
      -- The attempt of a worker that was killed, which is not repeated. Its answer is unknown.
      insert into attempts (tenant_id, delivery_id, number, started_at, duration_ms, error_class)
      select r.tenant_id, r.id, r.attempt, l.started_at, extract(epoch from l.until - l.started_at)::float8 * 1000, 'timeout'
      from dropped l join ready r on r.id = l.delivery_id
      on conflict do nothing
    ), failed as (
      update deliveries d set status = 'failed', failed_at = at, next_retry_at = null,
        attempts = case when r.expired then r.attempt else d.attempts end,
        error_class = case when r.abandoned then 'timeout' else 'webhook_disabled' end
      from clock, ready r where (r.abandoned or not r.enabled) and d.tenant_id = r.tenant_id and d.id = r.id
        and (not r.expired or r.id in (select delivery_id from dropped))
      returning d.tenant_id, d.id
    )
    select r.tenant_id as tenant, r.id, r.event_id as "eventId", r.event_type as "eventType", r.attempt, r.by_hand as "byHand",
      ${epochMs('r.run_at')} as "dueMs", ${epochMs('at')} as "startedMs", r.url, r.secrets, r.headers, p.body, p.traceparent
    from clock, chosen r join payloads p on p.tenant_id = r.tenant_id and p.event_id = r.event_id
    where not r.expired or r.id in (select delivery_id from taken_over)
    union all
    select tenant_id, id, null, null, null, null, null, null, null, null, null, null, null from failed
    order by 2`,
};

// Where many tenants are due, those of this cycle go to the end of the line.
const rotate = {
  name: 'rotate',
  text: `update due set next_at = clock_timestamp()
    where tenant_id in (select tenant_id from due where tenant_id = any ($1::uuid[]) for update skip locked)`,
};

// A result writer has the shared form of this lock until its commit, whose work this process does not see yet.
const lockIdle = {
  name: 'lock_idle',
  text: `select tenant_id from due
    where tenant_id = any ($1::uuid[]) and pg_try_advisory_xact_lock(hashtextextended(tenant_id::text, 1))
    order by tenant_id for update skip locked`,
};

// A statement of its own after the lock, so that it sees all earlier commits. At a full endpoint a tenant is next due when its first lease ends.
// The clock is read once: a lease that ends between two readings would count as neither running nor ended.
const moveOn = {
  name: 'move_on',
  text: `with clock as materialized (select clock_timestamp() as at), found as materialized (
      select t.tenant_id, at + interval '${postponeSeconds} s' as again,
        case when (select count(*) from leases l where l.tenant_id = t.tenant_id and l.until > at) >= $2::int
          then (select min(l.until) from leases l where l.tenant_id = t.tenant_id and l.until > at)
          else least((select min(l.until) from leases l where l.tenant_id = t.tenant_id), (${firstUnleased('t.tenant_id')})) end as work,
        (select ${missingKey('$3')} from webhooks w where w.tenant_id = t.tenant_id) as missing
      from clock, unnest($1::uuid[]) as t (tenant_id)
    )
    update due q set next_at = case when missing is not null and work < again then again else work end
    from found f where q.tenant_id = f.tenant_id returning case when work is not null then missing end as missing`,
};

// Of a delivery that failed, all but its ids is null.
type LeaseRow = Omit<Lease, 'leaseId' | 'secrets' | 'body'> & { secrets: string; body: string | null };

// A crash of PostgreSQL undoes leases, which are made again: their commits need not wait for its disk.
const notDurable = { name: 'not_durable', text: `select set_config('synchronous_commit', 'off', true)` };
const toFindWork = { name: 'to_find_work', text: `select set_config('app.job', 'find work', true)` };

/** Leases due deliveries, fairly over tenants; committed when it resolves. Tenants with data errors are postponed, and the others served. */
export async function leaseDue(pool: Pool, limits: LeaseLimits): Promise<LeaseCycle> {
  // Several deliveries of each tenant cost less than one of each of many.
  const maxTenants = Math.min(100, Math.max(16, Math.ceil(limits.free / 4)));
  const [, , due, next] = await withClient(pool, (client) =>
    allSettledOrThrow([
      client.query('begin'),
      client.query(toFindWork),
      client.query<{ tenant_id: string }>({ ...findDue, values: [maxTenants] }),
      client.query<{ next_ms: number }>(nextDue),
      client.query('commit'),
    ]),
  );
  const tenants = due.rows.map((row) => row.tenant_id);
  const nextMs = tenants.length > 0 ? 0 : (next.rows[0]?.next_ms ?? null);
  const cycle: LeaseCycle = { leased: [], failed: 0, idle: [], hasMore: tenants.length === maxTenants, nextMs, postponed: [] };
  const postpone = async (tenant: string, why: unknown) => cycle.postponed.push(await postponeTenant(pool, tenant, why));
  if (tenants.length > 0) await bisect(tenants, (some) => leaseOf(pool, some, limits, cycle), postpone);
  return cycle;
}

/** Adds what is leased of some tenants (UUIDs) to the cycle. Skips tenants that another worker has locked. */
async function leaseOf(pool: Pool, some: readonly string[], limits: LeaseLimits, cycle: LeaseCycle): Promise<void> {
  const { perTenant, keyIds, leaseMs } = limits;
  const free = limits.free - cycle.leased.length;
  if (free <= 0) return;
  const leaseId = uuidv7();
  const { tenants, rows } = await withClient(pool, async (client) => {
    const [, , , locked] = await allSettledOrThrow([
      client.query('begin'),
      client.query(notDurable),
      client.query(setTenants([...some])),
      client.query<{ tenant: string }>({ ...lockDue, values: [uuidArray([...some])] }),
    ]);
    const lockedTenants = locked.rows.map(({ tenant }) => tenant);
    if (lockedTenants.length === 0) {
      await client.query('commit');
      return { tenants: lockedTenants, rows: [] };
    }
    // Twice an equal share, so that some may use what others leave.
    const readPerTenant = Math.ceil((2 * free) / lockedTenants.length);
    const values = [uuidArray(lockedTenants), perTenant, free, leaseId, leaseMs, readPerTenant, textArray(keyIds)];
    const [taken] = await allSettledOrThrow([
      client.query<LeaseRow>({ ...lease, values }),
      ...(cycle.hasMore ? [client.query({ ...rotate, values: [uuidArray(lockedTenants)] })] : []),
      client.query('commit'),
    ]);
    return { tenants: lockedTenants, rows: taken.rows };
  });
  for (const { secrets, body, ...row } of rows) {
    if (body === null) cycle.failed++;
    else cycle.leased.push({ ...row, leaseId, secrets: splitSecrets(secrets), body });
  }
  const served = new Set(rows.map(({ tenant }) => tenant));
  cycle.idle.push(...tenants.filter((tenant) => !served.has(tenant)));
}

/**
 * Moves tenants (UUIDs) without anything to lease to when they next have work. Those that another transaction has locked stay due. Answers the
 * unknown keys that secrets are encrypted with, and the tenants with data errors.
 */
export async function postponeIdle(
  pool: Pool,
  idle: string[],
  { perTenant, keyIds }: LeaseLimits,
): Promise<{ missingKeys: Set<string>; postponed: PostponedTenant[] }> {
  const missingKeys = new Set<string>();
  const postponed: PostponedTenant[] = [];
  const move = async (tenants: readonly string[]): Promise<void> => {
    if (tenants.length === 0) return;
    await withClient(pool, async (client) => {
      const [, , , locked] = await allSettledOrThrow([
        client.query('begin'),
        client.query(notDurable),
        client.query(setTenants([...tenants])),
        client.query<{ tenant_id: string }>({ ...lockIdle, values: [uuidArray([...tenants])] }),
      ]);
      const values = [uuidArray(locked.rows.map((row) => row.tenant_id)), perTenant, textArray(keyIds)];
      const [moved] = await allSettledOrThrow([client.query<{ missing: string | null }>({ ...moveOn, values }), client.query('commit')]);
      for (const { missing } of moved.rows) if (missing !== null) missingKeys.add(missing);
    });
  };
  await bisect(idle, move, async (tenant, why) => postponed.push(await postponeTenant(pool, tenant, why)));
  return { missingKeys, postponed };
}

async function postponeTenant(pool: Pool, tenant: string, error: unknown): Promise<PostponedTenant> {
  const text = `update due set next_at = clock_timestamp() + interval '${postponeSeconds} s' where tenant_id = $1`;
  await inTransaction(pool, [tenant], (client) => client.query(text, [tenant]));
  return { tenant, error };
}

/** Statements with the types of their parameters, for the test of their plans. */
export const statements = {
  find_due: { ...findDue, types: ['int'] },
  lease: { ...lease, types: ['uuid[]', 'int', 'int', 'uuid', 'float8', 'int', 'text[]'] },
  move_on: { ...moveOn, types: ['uuid[]', 'int', 'text[]'] },
};
