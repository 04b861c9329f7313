// Who sends what: deliveries are claimed for a while, and what became of them is recorded, set by set. Each claim has an id, and whoever
// records names it: a worker whose lease ran out changes nothing. All times are the database's.
import { v7 as uuidv7 } from 'uuid';
import { plainArray, seeing, textArray, uuidArray, type Pool } from '../platform/postgres.ts';
import { ms, promised } from './rows.ts';
import { onClient } from './transaction.ts';
import type { ErrorClass, Status } from './webhook.ts';

/** A delivery that this process may send now. */
export interface Claimed {
  /** UUIDs. */
  tenant: string;
  id: string;
  claim: string;
  eventId: string;
  eventType: string;
  attempt: number;
  byHand: boolean;
  /** When the attempt began, milliseconds since the Unix epoch. */
  startedMs: number;
  url: string;
  /** Sealed; the newest first. */
  secrets: string[];
  body: string;
  /** Trace context of the event; null: it came without one. */
  traceparent: string | null;
}

/** How much may be claimed. */
export interface ClaimBounds {
  /** Deliveries in all. */
  free: number;
  /** Tenants to look at: each costs some look-ups, here and where it is recorded. */
  tenants: number;
  /** Of one tenant (UUID), claimed and not recorded, over all workers. */
  ofTenant: (tenant: string) => number;
  leaseMs: number;
}

/** What a round of claims found. */
export interface ClaimRound {
  claimed: Claimed[];
  /** Deliveries that failed because there is nowhere to send them. */
  failed: number;
  /** Other tenants may have work that is due. */
  more: boolean;
  /** Until a tenant may have work, milliseconds; null: no work is known. */
  nextMs: number | null;
}

// Deliveries of a tenant without webhook that fail at once.
const unsentAtOnce = 500;

// A claim of a tenant excludes others of it by a lock of its own, so that what is in flight is counted right, and neither events nor records
// wait for claims. (With the tenant's row of `due` locked instead, one busy tenant's events came in at 430/s where it is now 1,500.)
const findWork = {
  name: 'find_work',
  text: `with ready as materialized (select tenant_id from due where next_at <= clock_timestamp() order by next_at limit $1)
    select tenant_id, pg_try_advisory_xact_lock(hashtextextended(tenant_id::text, 0)) as mine from ready`,
};

const nextWork = {
  name: 'next_work',
  // No row where no work is known: of min() it would be null, which greatest() takes for 0, and an idle notifier asked 40 times a second.
  text: `select greatest(0, extract(epoch from next_at - clock_timestamp()) * 1000)::float8 as next_ms
    from due where next_at is not null order by next_at limit 1`,
};

// Nobody else claims of these tenants meanwhile, and what is claimed has its row in `claims`: so whatever has none is taken without a lock. A
// claim whose lease has run out is taken over by an update of its row, which whoever records late deletes: one of the two finds it gone.
const claim = {
  name: 'claim',
  text: `with clock as materialized (select clock_timestamp() as at),
    tenants as materialized (
      select t.tenant_id, t.most, w.url, coalesce(w.enabled, false) as enabled,
             array[w.secret] || case when w.previous_until > at then array[w.previous_secret] else '{}' end as secrets,
             (select count(*) from claims c where c.tenant_id = t.tenant_id and c.until > at) as in_flight
      from clock, unnest($1::uuid[], $2::int[]) as t (tenant_id, most) left join webhooks w on w.tenant_id = t.tenant_id
    ), ready as materialized (
      select t.tenant_id, t.url, t.enabled, t.secrets, r.*, row_number() over (partition by t.tenant_id order by r.run_at, r.id) as turn
      from tenants t cross join lateral (
        select d.id, d.event_id, d.event_type, d.by_hand, d.run_at, c.until is not null as held, d.test and c.until is not null as abandoned,
          -- An attempt that was promised has not been counted.
          d.attempts + case when ${promised} then 1 else 0 end as attempt
        from deliveries d left join claims c on c.tenant_id = d.tenant_id and c.delivery_id = d.id
        where d.tenant_id = t.tenant_id and d.status = 'pending' and d.run_at <= (select at from clock)
          and (c.until is null or c.until <= (select at from clock))
        order by d.run_at, d.id limit case when t.enabled then greatest(t.most - t.in_flight, 0) else ${unsentAtOnce} end
      ) as r
    ), chosen as materialized (
      select * from ready where enabled and not abandoned order by turn limit $3
    ), taken as (
      insert into claims (tenant_id, delivery_id, claim_id, started_at, until)
      select tenant_id, id, $4, at, at + $5::float8 * interval '1 ms' from clock, chosen where not held
    ), taken_over as (
      update claims c set claim_id = $4, started_at = at, until = at + $5::float8 * interval '1 ms'
      from clock, chosen r where r.held and c.tenant_id = r.tenant_id and c.delivery_id = r.id and c.until <= at
      returning c.delivery_id
    ), dropped as (
      delete from claims c using clock, ready r
      where r.held and (r.abandoned or not r.enabled) and c.tenant_id = r.tenant_id and c.delivery_id = r.id and c.until <= at
      returning c.delivery_id
    ), failed as (
      -- Nobody waits any longer for a test that its caller's process did not finish.
      update deliveries d set status = 'failed', failed_at = at, next_retry_at = null,
        attempts = case when r.held then r.attempt else d.attempts end,
        error_class = case when r.abandoned then 'timeout' else 'webhook_disabled' end
      from clock, ready r where (r.abandoned or not r.enabled) and d.tenant_id = r.tenant_id and d.id = r.id
        and (not r.held or r.id in (select delivery_id from dropped))
      returning d.tenant_id, d.id
    )
    select r.tenant_id, r.id, r.event_id, r.event_type, r.attempt, r.by_hand, ${ms('at')} as started_ms, r.url, r.secrets, p.body, p.traceparent
    from clock, chosen r join payloads p on p.tenant_id = r.tenant_id and p.event_id = r.event_id
    where not r.held or r.id in (select delivery_id from taken_over)
    union all
    select tenant_id, id, null, null, null, null, null, null, null, null, null from failed
    order by 2`,
};

// Where many have work, those that were served go to the end of the line. Who is locked stays where he is.
const rotate = {
  name: 'rotate',
  text: `update due set next_at = clock_timestamp()
    where tenant_id in (select tenant_id from due where tenant_id = any ($1::uuid[]) for update skip locked)`,
};

// Whoever records outcomes holds his tenants for himself and his like until he has committed; whoever counts what is in flight in order to
// move on holds them alone. (Row locks of `due` for both cost every record a write.)
const holdTenants = {
  name: 'hold_tenants',
  text: 'select pg_advisory_xact_lock_shared(hashtextextended(t::text, 1)) from unnest($1::uuid[]) as t order by t',
};
const holdTenantsAlone = {
  name: 'hold_tenants_alone',
  text: 'select pg_advisory_xact_lock(hashtextextended(t::text, 1)) from unnest($1::uuid[]) as t order by t',
};

const lockDue = {
  name: 'lock_due',
  text: 'select from due where tenant_id = any ($1::uuid[]) order by tenant_id for update',
};

const firstUnclaimed = (tenant: string) => `select d.run_at from deliveries d where d.tenant_id = ${tenant} and d.status = 'pending'
  and not exists (select from claims c where c.tenant_id = d.tenant_id and c.delivery_id = d.id) order by d.run_at, d.id limit 1`;

// In a statement after the lock: what was committed before is seen, and whoever commits later has to wait, and lowers it again. At a full
// endpoint only the end of a lease helps, or a record, which lowers it too.
const moveOn = {
  name: 'move_on',
  text: `update due q set next_at = case
      when (select count(*) from claims c where c.tenant_id = q.tenant_id and c.until > clock_timestamp()) >= t.most
      then (select min(c.until) from claims c where c.tenant_id = q.tenant_id and c.until > clock_timestamp())
      else least((select min(c.until) from claims c where c.tenant_id = q.tenant_id), (${firstUnclaimed('q.tenant_id')})) end
    from unnest($1::uuid[], $2::int[]) as t (tenant_id, most) where q.tenant_id = t.tenant_id`,
};

// A delivery that failed has its ids alone.
interface ClaimRow {
  tenant_id: string;
  id: string;
  event_id: string;
  event_type: string;
  attempt: number;
  by_hand: boolean;
  started_ms: number;
  url: string;
  secrets: string[];
  body: string | null;
  traceparent: string | null;
}

// What a crash of PostgreSQL takes back of these transactions is done again: they need not wait for its disk.
const notDurable = { name: 'not_durable', text: `select set_config('synchronous_commit', 'off', true)` };

/** Claims what is due, fairly over tenants; committed when it resolves. */
export async function claimDue(pool: Pool, { free, tenants: most, ofTenant, leaseMs }: ClaimBounds): Promise<ClaimRound> {
  const id = uuidv7();
  const round = await onClient(pool, async (client): Promise<ClaimRound & { idle: string[] }> => {
    const [, , , found] = await Promise.all([
      client.query('begin'),
      client.query(notDurable),
      client.query({ name: 'job_find_work', text: `select set_config('app.job', 'find work', true)` }),
      client.query<{ tenant_id: string; mine: boolean }>({ ...findWork, values: [most] }),
    ]);
    const tenants = found.rows.flatMap((row) => (row.mine ? [row.tenant_id] : []));
    const more = found.rows.length === most;
    if (tenants.length === 0) {
      const [next] = await Promise.all([client.query<{ next_ms: number | null }>(nextWork), client.query('commit')]);
      return { claimed: [], failed: 0, more, nextMs: next.rows[0]?.next_ms ?? null, idle: [] };
    }
    const [, answer] = await Promise.all([
      client.query(seeing(tenants)),
      client.query<ClaimRow>({ ...claim, values: [tenants, tenants.map(ofTenant), free, id, leaseMs] }),
      ...(more ? [client.query({ ...rotate, values: [tenants] })] : []),
      client.query('commit'),
    ]);
    const served = new Set(answer.rows.map((row) => row.tenant_id));
    const claimed = answer.rows.flatMap((row) => (row.body === null ? [] : [claimedOf(id, row, row.body)]));
    const idle = tenants.filter((tenant) => !served.has(tenant));
    return { claimed, failed: answer.rows.length - claimed.length, more, nextMs: 0, idle };
  });
  const { idle } = round;
  if (idle.length > 0) {
    await onClient(pool, (client) =>
      Promise.all([
        client.query('begin'),
        client.query(notDurable),
        client.query(seeing(idle)),
        client.query({ ...holdTenantsAlone, values: [idle] }),
        client.query({ ...lockDue, values: [idle] }),
        client.query({ ...moveOn, values: [idle, idle.map(ofTenant)] }),
        client.query('commit'),
      ]),
    );
  }
  return round;
}

function claimedOf(claim: string, row: ClaimRow, body: string): Claimed {
  return {
    tenant: row.tenant_id,
    id: row.id,
    claim,
    eventId: row.event_id,
    eventType: row.event_type,
    attempt: row.attempt,
    byHand: row.by_hand,
    startedMs: row.started_ms,
    url: row.url,
    secrets: row.secrets,
    body,
    traceparent: row.traceparent,
  };
}

/** What became of a claimed delivery. */
export interface Outcome {
  tenant: string;
  id: string;
  claim: string;
  status: Status;
  statusCode: number | null;
  errorClass: ErrorClass | null;
  responseBody: string | null;
  durationMs: number;
  /** Seconds from the beginning of the attempt to the next one, where the status is `pending`; null hands the attempt back, unmade. */
  delay: number | null;
}

const record = {
  name: 'record',
  text: `with mine as (
      delete from claims c using unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int[], $6::text[], $7::text[], $8::int[], $9::float8[])
        as o (tenant_id, id, claim_id, status, status_code, error_class, response_body, duration_ms, delay)
      where c.tenant_id = o.tenant_id and c.delivery_id = o.id and c.claim_id = o.claim_id returning o.*, c.started_at
    ), settled as (
      -- Handed back, a delivery is as it was before the claim.
      update deliveries d set status = m.status, status_code = m.status_code, error_class = m.error_class,
        attempts = d.attempts + case when ${promised} then 1 else 0 end,
        next_retry_at = m.started_at + m.delay * interval '1 second',
        run_at = coalesce(m.started_at + m.delay * interval '1 second', d.run_at),
        delivered_at = case when m.status = 'delivered' then clock_timestamp() end,
        failed_at = case when m.status = 'failed' then clock_timestamp() end
      from mine m where d.tenant_id = m.tenant_id and d.id = m.id and (m.status <> 'pending' or m.delay is not null)
      returning d.tenant_id, d.id, d.attempts, m.started_at, m.duration_ms, m.status_code, m.error_class, m.response_body
    ), noted as (
      insert into attempts (tenant_id, delivery_id, number, started_at, duration_ms, status_code, error_class, response_body)
      select tenant_id, id, attempts, started_at, duration_ms, status_code, error_class, response_body from settled
    )
    select id from mine`,
};

// What is left to do of these tenants. Lowers only, and leaves alone who is due already: whoever finds nothing to claim there waits for this
// commit before he counts and moves on.
const lower = {
  name: 'lower',
  text: `with later as materialized (
      select tenant_id from due where tenant_id = any ($1::uuid[]) and (next_at is null or next_at > clock_timestamp())
      order by tenant_id for update
    )
    update due q set next_at = f.run_at from later cross join lateral (${firstUnclaimed('later.tenant_id')}) as f
    where q.tenant_id = later.tenant_id and (q.next_at is null or q.next_at > f.run_at)`,
};

/** What is done to the deliveries of many tenants at once, with the types of its parameters, for the test of the plans. */
export const statements = {
  claim: { ...claim, types: ['uuid[]', 'int[]', 'int', 'uuid', 'float8'] },
  move_on: { ...moveOn, types: ['uuid[]', 'int[]'] },
  record: { ...record, types: ['uuid[]', 'uuid[]', 'uuid[]', 'text[]', 'int[]', 'text[]', 'text[]', 'int[]', 'float8[]'] },
  lower: { ...lower, types: ['uuid[]'] },
};

/** Records outcomes; answers the deliveries whose claim still held. */
export async function recordOutcomes(pool: Pool, outcomes: Outcome[]): Promise<Set<string>> {
  const tenants = [...new Set(outcomes.map(({ tenant }) => tenant))];
  const column = <Name extends keyof Outcome>(name: Name) => outcomes.map((each) => each[name]);
  const values = [
    uuidArray(column('tenant')),
    uuidArray(column('id')),
    uuidArray(column('claim')),
    textArray(column('status')),
    plainArray(column('statusCode')),
    textArray(column('errorClass')),
    textArray(column('responseBody')),
    plainArray(column('durationMs')),
    plainArray(column('delay')),
  ];
  return onClient(pool, async (client) => {
    const [, , settled] = await Promise.all([
      client.query('begin'),
      client.query(seeing(tenants)),
      client.query<{ id: string }>({ ...record, values }),
      client.query({ ...holdTenants, values: [tenants] }),
      client.query({ ...lower, values: [tenants] }),
      client.query('commit'),
    ]);
    return new Set(settled.rows.map((row) => row.id));
  });
}
