// What became of deliveries, recorded set by set: by whoever still has the claim.
import { plainArray, textArray, uuidArray } from '../platform/arrays.ts';
import { allSettledOrThrow, inTransaction, withClient, setTenants, type Pool } from '../platform/postgres.ts';
import { firstUnclaimed } from './leases.ts';
import { isRetryScheduled } from './rows.ts';
import type { ErrorClass, Status } from './webhook.ts';

/** What became of a claimed delivery. */
export interface DeliveryResult {
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
  /** So many milliseconds from now what is handed back stays claimed, by nobody. */
  heldMs?: number;
  /** What is handed back so has been sent: whoever takes it over repeats the attempt, or notes it where the webhook is gone meanwhile. */
  isBegun?: boolean;
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
        attempts = d.attempts + case when ${isRetryScheduled} then 1 else 0 end,
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

const hold = {
  name: 'hold',
  // Where it was not begun, from when until when it is held is nothing.
  text: `with held as (
      select o.*, clock_timestamp() + milliseconds * interval '1 ms' as at
      from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::float8[], $5::boolean[]) as o (tenant_id, id, claim_id, milliseconds, begun)
    )
    update claims c set started_at = case when begun then c.started_at else at end, until = at from held o
    where c.tenant_id = o.tenant_id and c.delivery_id = o.id and c.claim_id = o.claim_id returning o.id`,
};

// Whoever records holds his tenants for himself and his like until he has committed. (Row locks of `due` cost every record a write.)
const holdTenants = {
  name: 'hold_tenants',
  text: 'select pg_advisory_xact_lock_shared(hashtextextended(t::text, 1)) from unnest($1::uuid[]) as t order by t',
};

// What is left to do of these tenants. Lowers only, and leaves alone who is due already: whoever finds nothing to claim there waits for this
// commit before he counts and moves on.
const lower = {
  name: 'lower',
  text: `with later as materialized (
      select tenant_id from due where tenant_id = any ($1::uuid[]) and (next_at is null or next_at > clock_timestamp())
      order by tenant_id for update
    )
    update due q set next_at = f.at from later cross join lateral (
      select least((select min(c.until) from claims c where c.tenant_id = later.tenant_id), (${firstUnclaimed('later.tenant_id')})) as at
    ) as f
    where q.tenant_id = later.tenant_id and (q.next_at is null or q.next_at > f.at)`,
};

/** Records outcomes; answers the deliveries whose claim still held. */
export async function recordResults(pool: Pool, outcomes: DeliveryResult[]): Promise<Set<string>> {
  const tenants = [...new Set(outcomes.map(({ tenant }) => tenant))];
  const concerned = uuidArray(tenants);
  const { true: kept = [], false: settled = [] } = Object.groupBy(outcomes, ({ heldMs }) => `${heldMs !== undefined}`);
  return withClient(pool, async (client) => {
    const begun = [client.query('begin'), client.query(setTenants(tenants))];
    const changed = [
      ...(settled.length > 0 ? [client.query<{ id: string }>({ ...record, values: recordedOf(settled) })] : []),
      ...(kept.length > 0 ? [client.query<{ id: string }>({ ...hold, values: heldOf(kept) })] : []),
    ];
    const ended = [
      client.query({ ...holdTenants, values: [concerned] }),
      client.query({ ...lower, values: [concerned] }),
      client.query('commit'),
    ];
    await allSettledOrThrow([...begun, ...changed, ...ended]);
    return new Set((await Promise.all(changed)).flatMap(({ rows }) => rows.map(({ id }) => id)));
  });
}

function recordedOf(outcomes: DeliveryResult[]): unknown[] {
  const column = <Name extends keyof DeliveryResult>(name: Name) => outcomes.map((each) => each[name]);
  return [
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
}

function heldOf(outcomes: DeliveryResult[]): unknown[] {
  return [
    uuidArray(outcomes.map(({ tenant }) => tenant)),
    uuidArray(outcomes.map(({ id }) => id)),
    uuidArray(outcomes.map(({ claim }) => claim)),
    plainArray(outcomes.map(({ heldMs }) => heldMs ?? null)),
    plainArray(outcomes.map(({ isBegun = false }) => isBegun)),
  ];
}

const notHeld = {
  name: 'not_held',
  text: `select d.id from unnest($1::uuid[], $2::uuid[]) as o (tenant_id, id)
      join claims c on c.tenant_id = o.tenant_id and c.delivery_id = o.id
      join deliveries d on d.tenant_id = o.tenant_id and d.id = o.id
      join due q on q.tenant_id = o.tenant_id
    for update of c, d, q skip locked`,
};

/** Those of the outcomes that could be recorded at once, as nobody holds a row that is changed by it. */
export async function withoutHeld(pool: Pool, outcomes: DeliveryResult[]): Promise<DeliveryResult[]> {
  const values = [uuidArray(outcomes.map(({ tenant }) => tenant)), uuidArray(outcomes.map(({ id }) => id))];
  const tenants = [...new Set(outcomes.map(({ tenant }) => tenant))];
  const { rows } = await inTransaction(pool, tenants, (client) => client.query<{ id: string }>({ ...notHeld, values }));
  const free = new Set(rows.map(({ id }) => id));
  return outcomes.filter(({ id }) => free.has(id));
}

/** As those of the claims, for the test of the plans. */
export const statements = {
  record: { ...record, types: ['uuid[]', 'uuid[]', 'uuid[]', 'text[]', 'int[]', 'text[]', 'text[]', 'int[]', 'float8[]'] },
  lower: { ...lower, types: ['uuid[]'] },
  not_held: { ...notHeld, types: ['uuid[]', 'uuid[]'] },
  hold: { ...hold, types: ['uuid[]', 'uuid[]', 'uuid[]', 'float8[]', 'boolean[]'] },
};
