// Who sends what: deliveries are claimed for a while, set by set. Each claim has an id, and whoever records names it: a worker whose lease ran
// out changes nothing. All times are the database's.
import { v7 as uuidv7 } from 'uuid';
import { plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { errorMessage } from '../platform/lifetime.ts';
import { allSettledOrThrow, inTransaction, epochMs, withClient, setTenants, type Pool } from '../platform/postgres.ts';
import { isDataError, bisect } from '../platform/postgres-errors.ts';
import { secretsAt, secretsOf, type Destination } from './destinations.ts';
import { isRetryScheduled } from './rows.ts';

/** A delivery that this process may send now. */
export interface Lease {
  /** UUIDs. */
  tenant: string;
  id: string;
  claim: string;
  eventId: string;
  eventType: string;
  attempt: number;
  byHand: boolean;
  /** Whether somebody has sent this attempt before, and it is repeated. */
  isBegun: boolean;
  /** When it was due, milliseconds since the Unix epoch. */
  dueMs: number;
  /** When the attempt began. */
  startedMs: number;
  /** As it was when the delivery was claimed. */
  destination: Destination;
  body: string;
  /** Trace context of the event; null: it came without one. */
  traceparent: string | null;
}

/** How much may be claimed. */
export interface LeaseLimits {
  /** Deliveries in all. */
  free: number;
  /** Tenants to look at: each costs some look-ups, here and where it is recorded. */
  tenants: number;
  /**
   * Deliveries to read for each that may be claimed, in equal shares of the tenants. One is enough where all have their share. (All that each may
   * have in flight: a claim of 170 read 1,510 after some minutes with 200 tenants, and claims took half of PostgreSQL's time.)
   */
  lookedAt: number;
  /** Of one tenant (UUID), claimed and not recorded, over all workers. */
  ofTenant: (tenant: string) => number;
  /** Whether a tenant's are looked through for many that are to fail, as `failed` of the round before tells that there may be. */
  sweeps: (tenant: string) => boolean;
  /** Tenants (UUIDs) that are not looked at. */
  except: string[];
  /** Ids of the vault's keys: of a webhook whose secret is sealed with another one nothing is claimed. */
  keys: string[];
  leaseMs: number;
  /** Whether rows of `due` that somebody holds are passed over, instead of waited for. */
  passesOver: boolean;
}

/** A tenant (UUID) who was left for half a minute, see {@link leaveTenant}. */
export interface Left {
  tenant: string;
  why: unknown;
}

/** What a round of claims found. */
export interface LeaseCycle {
  /** Why tenants that are due and have nothing to claim could not be put off; absent where they were. */
  problem?: unknown;
  /** Those of them of whom PostgreSQL refuses that: they were left. */
  left: Left[];
  /** Tenants (UUIDs) without work whose row of `due` somebody holds: they could not be put off, and are due. */
  passedOver: string[];
  /** Keys that webhook secrets of tenants with work are sealed with, and that this process does not have. */
  missingKeys: Set<string>;
  claimed: Lease[];
  /** Of each delivery that failed, because there is nowhere to send it, the tenant. */
  failed: string[];
  /** Other tenants may have work that is due. */
  more: boolean;
  /** Until a tenant may have work, milliseconds; null: no work is known. */
  nextMs: number | null;
}

// Deliveries of tenants whose webhook is gone that fail at once, in equal shares: 50,000 took 2.4 s, on a slow disk more than a statement may, and
// nobody's are claimed meanwhile.
const unsentAtOnce = 2_000;

/**
 * Where the key of a webhook's secret is missing nothing can be attempted, and none of it is an attempt that failed: it waits until an operator has
 * restored the key, or the tenant has made a new secret. So often it is looked at again, seconds, and with each new event.
 */
export const unreadableSeconds = 30;

// Whether this process can't open the newest secret of a row of `webhooks` named `w`.
const unreadable = (keys: string): string => `(w.enabled and split_part(w.secret, ':', 1) <> all (${keys}::text[]))`;

// A claim of a tenant excludes others of it by a lock of its own, so that what is in flight is counted right, and neither events nor records
// wait for claims. (With the tenant's row of `due` locked instead, one busy tenant's events came in at 430/s where it is now 1,500.)
const findWork = {
  name: 'find_work',
  text: `with ready as materialized (
      select tenant_id from due where next_at <= (select clock_timestamp()) and tenant_id <> all ($2::uuid[]) order by next_at limit $1)
    select tenant_id, pg_try_advisory_xact_lock(hashtextextended(tenant_id::text, 0)) as mine from ready`,
};

const nextWork = {
  name: 'next_work',
  // No row where no work is known: of min() it would be null, which greatest() takes for 0, and an idle notifier asked 40 times a second.
  text: `select greatest(0, extract(epoch from next_at - clock_timestamp()) * 1000)::float8 as next_ms
    from due where next_at is not null and tenant_id <> all ($1::uuid[]) order by next_at limit 1`,
};

// Whether a delivery `d` is older than the webhook of its tenant, `t`: it was another one's, which is deleted. A retry by hand is meant for this one.
const outlived = `(not d.by_hand and d.created_at < date_trunc('milliseconds', t.created_at))`;

// Nobody else claims of these tenants meanwhile, and what is claimed has its row in `claims`: so whatever has none is taken without a lock. A
// claim whose lease has run out is taken over by an update of its row, which whoever records late deletes: one of the two finds it gone.
// `claims` was often all but empty when it was analysed last. `offset 0` and the lists of ids keep the planner from reading all of a tenant's
// claims, or everybody's, where one is sought: with 256 in flight that took 160 to 240 µs a delivery instead of 50 to 65.
const claim = {
  name: 'claim',
  text: `with clock as materialized (select clock_timestamp() as at),
    tenants as materialized (
      select t.tenant_id, t.most, t.sweeps, w.url, w.created_at, coalesce(w.enabled, false) as enabled,
             ${secretsAt('at')} as secrets,
             case when ${unreadable('$8')} then 0
               else greatest(t.most - (select count(*) from claims c where c.tenant_id = t.tenant_id and c.until > at), 0) end as room
      from clock, unnest($1::uuid[], $2::int[], $6::boolean[]) as t (tenant_id, most, sweeps) left join webhooks w on w.tenant_id = t.tenant_id
    ), ready as materialized (
      select t.tenant_id, t.url, t.enabled and not r.outlived as enabled,
        t.secrets, t.room, ${epochMs('t.created_at')} as since_ms, r.id, r.event_id, r.event_type, r.by_hand, r.run_at, r.held, r.begun, r.abandoned, r.attempt,
        row_number() over (partition by t.tenant_id, r.outlived order by r.run_at, r.id) as turn
      from tenants t cross join lateral (
        select d.id, d.event_id, d.event_type, d.by_hand, d.run_at, ${outlived} as outlived, c.until is not null as held,
          -- What could not be attempted is held, too.
          coalesce(c.started_at < c.until, false) as begun,
          d.test and d.next_retry_at is null as abandoned,
          -- An attempt that was promised has not been counted.
          d.attempts + case when ${isRetryScheduled} then 1 else 0 end as attempt
        from deliveries d left join lateral (
          select started_at, until from claims where tenant_id = d.tenant_id and delivery_id = d.id offset 0
        ) as c on true
        where d.tenant_id = t.tenant_id and d.status = 'pending' and d.run_at <= (select at from clock)
          and (c.until is null or c.until <= (select at from clock))
        order by d.run_at, d.id limit case when t.enabled and not t.sweeps then least(t.room, $7) else ${unsentAtOnce} / cardinality($1::uuid[]) end
      ) as r
    ), chosen as materialized (
      select * from ready where enabled and not abandoned and turn <= room order by turn, random() limit $3
    ), taken as (
      insert into claims (tenant_id, delivery_id, claim_id, started_at, until)
      select tenant_id, id, $4, at, at + $5::float8 * interval '1 ms' from clock, chosen where not held
    ), taken_over as (
      update claims c set claim_id = $4, started_at = at, until = at + $5::float8 * interval '1 ms'
      from clock, chosen r where r.held and c.tenant_id = r.tenant_id and c.delivery_id = r.id and c.until <= at
        and c.tenant_id = any ($1::uuid[]) and c.delivery_id = any (array(select id from chosen where held))
      returning c.delivery_id
    ), dropped as (
      delete from claims c using clock, ready r
      where r.held and (r.abandoned or not r.enabled) and c.tenant_id = r.tenant_id and c.delivery_id = r.id and c.until <= at
        and c.tenant_id = any ($1::uuid[]) and c.delivery_id = any (array(select id from ready where held))
      returning c.delivery_id, c.started_at, c.until
    ), noted as (
      -- The attempt of a worker that has died, and that is not repeated: whether it was answered nobody knows. It lasted no longer than its lease.
      insert into attempts (tenant_id, delivery_id, number, started_at, duration_ms, error_class)
      select r.tenant_id, r.id, r.attempt, c.started_at, extract(epoch from c.until - c.started_at)::float8 * 1000, 'timeout'
      from dropped c join ready r on r.id = c.delivery_id where r.begun
      on conflict do nothing
    ), failed as (
      -- Nobody waits any longer for a test that its caller's process did not finish.
      update deliveries d set status = 'failed', failed_at = at, next_retry_at = null,
        attempts = case when r.begun then r.attempt else d.attempts end,
        error_class = case when r.abandoned then 'timeout' else 'webhook_disabled' end
      from clock, ready r where (r.abandoned or not r.enabled) and d.tenant_id = r.tenant_id and d.id = r.id
        and (not r.held or r.id in (select delivery_id from dropped))
      returning d.tenant_id, d.id
    )
    select r.tenant_id, r.id, r.event_id, r.event_type, r.attempt, r.by_hand, r.begun, ${epochMs('r.run_at')} as due_ms, ${epochMs('at')} as started_ms, r.url, r.secrets, r.since_ms, p.body, p.traceparent
    from clock, chosen r join payloads p on p.tenant_id = r.tenant_id and p.event_id = r.event_id
    where not r.held or r.id in (select delivery_id from taken_over)
    union all
    select tenant_id, id, null, null, null, null, null, null, null, null, null, null, null, null from failed
    order by 2`,
};

// Where many have work, those that were looked at go to the end of the line. Of whom nothing was claimed moves on from there to where his is due, mostly
// in front again: whose turn it is among them is drawn, see `claim`. Who is locked stays where he is.
const rotate = {
  name: 'rotate',
  text: `update due set next_at = clock_timestamp()
    where tenant_id in (select tenant_id from due where tenant_id = any ($1::uuid[]) for update skip locked)`,
};

// Whoever counts what is in flight in order to move on holds his tenants alone, and waits for whoever records of them.
const holdTenantsAlone = {
  name: 'hold_tenants_alone',
  text: 'select pg_advisory_xact_lock(hashtextextended(t::text, 1)) from unnest($1::uuid[]) as t order by t',
};

const lockDue = {
  name: 'lock_due',
  text: 'select from due where tenant_id = any ($1::uuid[]) order by tenant_id for update',
};

const lockFree = {
  name: 'lock_free',
  text: 'select tenant_id from due where tenant_id = any ($1::uuid[]) for update skip locked',
};

/** When the first delivery of a tenant is due that nobody has claimed; `tenant`: an expression. */
export const firstUnclaimed = (
  tenant: string,
): string => `select d.run_at from deliveries d where d.tenant_id = ${tenant} and d.status = 'pending'
  and not exists (select from claims c where c.tenant_id = d.tenant_id and c.delivery_id = d.id offset 0) order by d.run_at, d.id limit 1`;

// In a statement after the lock: what was committed before is seen, and whoever commits later has to wait, and lowers it again. At a full
// endpoint only the end of a lease helps, or a record, which lowers it too.
const moveOn = {
  name: 'move_on',
  // The clock is read once: leases that ended between two readings would leave nothing to wait for.
  text: `with clock as materialized (select clock_timestamp() as at), found as materialized (
      select t.tenant_id, at + interval '${unreadableSeconds} s' as again,
        case when (select count(*) from claims c where c.tenant_id = t.tenant_id and c.until > at) >= t.most
          then (select min(c.until) from claims c where c.tenant_id = t.tenant_id and c.until > at)
          else least((select min(c.until) from claims c where c.tenant_id = t.tenant_id), (${firstUnclaimed('t.tenant_id')})) end as work,
        (select split_part(w.secret, ':', 1) from webhooks w where w.tenant_id = t.tenant_id and ${unreadable('$3')}) as missing
      from clock, unnest($1::uuid[], $2::int[]) as t (tenant_id, most)
    )
    -- Nobody takes over a claim of these, so one whose lease has run out would keep them due for ever, in front of all others.
    update due q set next_at = case when missing is not null and work < again then again else work end
    from found f where q.tenant_id = f.tenant_id returning case when work is not null then missing end as missing`,
};

// A delivery that failed has its ids alone.
interface ClaimRow {
  tenant_id: string;
  id: string;
  event_id: string;
  event_type: string;
  attempt: number;
  by_hand: boolean;
  begun: boolean;
  due_ms: number;
  started_ms: number;
  url: string;
  secrets: string;
  since_ms: number;
  body: string | null;
  traceparent: string | null;
}

// What a crash of PostgreSQL takes back of these transactions is done again: they need not wait for its disk.
const setNotDurable = `set_config('synchronous_commit', 'off', true)`;
const notDurable = { name: 'not_durable', text: `select ${setNotDurable}` };
const toFindWork = { name: 'to_find_work', text: `select ${setNotDurable}, set_config('app.job', 'find work', true)` };

/** PostgreSQL refuses to claim of these tenants (UUIDs), for something that one of them has. */
export class Unclaimable extends Error {
  readonly tenants: string[];

  constructor(tenants: string[], cause: unknown) {
    super(`nothing can be claimed of ${tenants.length} tenants: ${errorMessage(cause)}`, { cause });
    this.tenants = tenants;
  }
}

/** Has no replica look at a tenant (UUID) for half a minute, or until more of his is due; where PostgreSQL refuses that, too, he stays due, in front of all others. */
export async function leaveTenant(pool: Pool, tenant: string): Promise<void> {
  const text = `update due set next_at = clock_timestamp() + interval '${unreadableSeconds} s' where tenant_id = $1`;
  try {
    await inTransaction(pool, [tenant], (client) => client.query(text, [tenant]));
  } catch (error) {
    if (!isDataError(error)) throw error;
  }
}

/** Claims what is due, fairly over tenants; committed when it resolves. Throws {@link Unclaimable}. */
export async function leaseDue(pool: Pool, bounds: LeaseLimits): Promise<LeaseCycle> {
  const { free, tenants: most, lookedAt, ofTenant, sweeps, leaseMs } = bounds;
  const id = uuidv7();
  const [keys, except] = [textArray(bounds.keys), uuidArray(bounds.except)];
  const round = await withClient(pool, async (client): Promise<LeaseCycle & { idle: string[] }> => {
    const [, , found] = await allSettledOrThrow([
      client.query('begin'),
      client.query(toFindWork),
      client.query<{ tenant_id: string; mine: boolean }>({ ...findWork, values: [most, except] }),
    ]);
    const tenants = found.rows.flatMap((row) => (row.mine ? [row.tenant_id] : []));
    const more = found.rows.length === most;
    if (tenants.length === 0) {
      const [next] = await allSettledOrThrow([
        client.query<{ next_ms: number | null }>({ ...nextWork, values: [except] }),
        client.query('commit'),
      ]);
      const nextMs = next.rows[0]?.next_ms ?? null;
      return { claimed: [], failed: [], more, nextMs, missingKeys: new Set(), left: [], passedOver: [], idle: [] };
    }
    const looked = Math.ceil((free * lookedAt) / tenants.length);
    const taken = allSettledOrThrow([
      client.query(setTenants(tenants)),
      client.query<ClaimRow>({
        ...claim,
        values: [uuidArray(tenants), plainArray(tenants.map(ofTenant)), free, id, leaseMs, plainArray(tenants.map(sweeps)), looked, keys],
      }),
      ...(more ? [client.query({ ...rotate, values: [uuidArray(tenants)] })] : []),
      client.query('commit'),
    ]);
    const [, answer] = await taken.catch((error: unknown) => {
      throw isDataError(error) ? new Unclaimable(tenants, error) : error;
    });
    const served = new Set(answer.rows.map((row) => row.tenant_id));
    const claimed = answer.rows.flatMap((row) => (row.body === null ? [] : [claimedOf(id, row, row.body)]));
    const failed = answer.rows.flatMap((row) => (row.body === null ? [row.tenant_id] : []));
    const idle = tenants.filter((tenant) => !served.has(tenant));
    return { claimed, failed, more, nextMs: 0, missingKeys: new Set(), left: [], passedOver: [], idle };
  });
  const { idle } = round;
  // What was claimed must be sent whatever becomes of this; the next round finds these tenants again.
  if (idle.length > 0) await putOff(pool, idle, bounds, round).catch((error: unknown) => (round.problem = error));
  return round;
}

// Tenants of whom nothing was claimed are due again when they have something. Who can't be put off would keep the others due with him, for ever.
async function putOff(pool: Pool, idle: string[], bounds: LeaseLimits, round: LeaseCycle): Promise<void> {
  const move = async (part: readonly string[]): Promise<void> => {
    const concerned = uuidArray([...part]);
    const [, , , , , answer] = await withClient(pool, (client) =>
      allSettledOrThrow([
        client.query('begin'),
        client.query(notDurable),
        client.query(setTenants([...part])),
        client.query({ ...holdTenantsAlone, values: [concerned] }),
        client.query({ ...lockDue, values: [concerned] }),
        client.query<{ missing: string | null }>({
          ...moveOn,
          values: [concerned, plainArray(part.map(bounds.ofTenant)), textArray(bounds.keys)],
        }),
        client.query('commit'),
      ]),
    );
    for (const { missing } of answer.rows) if (missing !== null) round.missingKeys.add(missing);
  };
  const free = bounds.passesOver ? await freeOf(pool, idle) : idle;
  for (const tenant of idle) if (!free.includes(tenant)) round.passedOver.push(tenant);
  await bisect(free, move, async (tenant, why) => {
    await leaveTenant(pool, tenant);
    round.left.push({ tenant, why });
  });
}

/** Those tenants whose row of `due` nobody holds just now. */
async function freeOf(pool: Pool, tenants: string[]): Promise<string[]> {
  const { rows } = await inTransaction(pool, tenants, (client) =>
    client.query<{ tenant_id: string }>({ ...lockFree, values: [uuidArray(tenants)] }),
  );
  return rows.map((row) => row.tenant_id);
}

function claimedOf(claim: string, row: ClaimRow, body: string): Lease {
  return {
    tenant: row.tenant_id,
    id: row.id,
    claim,
    eventId: row.event_id,
    eventType: row.event_type,
    attempt: row.attempt,
    byHand: row.by_hand,
    isBegun: row.begun,
    dueMs: row.due_ms,
    startedMs: row.started_ms,
    destination: { url: row.url, secrets: secretsOf(row.secrets), since_ms: row.since_ms },
    body,
    traceparent: row.traceparent,
  };
}

/** What is done to the deliveries of many tenants at once, with the types of its parameters, for the test of the plans. */
export const statements = {
  find_work: { ...findWork, types: ['int', 'uuid[]'] },
  claim: { ...claim, types: ['uuid[]', 'int[]', 'int', 'uuid', 'float8', 'boolean[]', 'int', 'text[]'] },
  move_on: { ...moveOn, types: ['uuid[]', 'int[]', 'text[]'] },
};
