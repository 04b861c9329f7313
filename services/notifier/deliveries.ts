// Deliveries as the tenant sees them: the list, one with its attempts, manual retries.
import { inTransaction, epochMs, readTenant, type Connections } from '../platform/postgres.ts';
import type { RateLimitStatus } from '../platform/errors.ts';
import { isRetryScheduled, keepEarlierDueTime } from './leases.ts';
import { admit, type Quotas } from './limits.ts';
import { Refusal } from './refusal.ts';
import { selectWebhook, type WebhookRow } from './webhooks.ts';

/** A delivery without its payload and answers. */
export interface DeliveryRow {
  /** UUIDs. */
  id: string;
  event_id: string;
  event_type: string;
  status: string;
  status_code: number | null;
  attempts: number;
  error_class: string | null;
  /** Milliseconds since the Unix epoch. */
  next_retry_ms: number | null;
  delivered_ms: number | null;
  failed_ms: number | null;
  created_ms: number;
}

const isLeased = 'exists (select from leases l where l.tenant_id = d.tenant_id and l.delivery_id = d.id)';

// An attempt that is under way is counted, and no longer scheduled.
const deliveryColumns = `d.id, d.event_id, d.event_type, d.status, d.status_code, d.error_class,
  d.attempts + case when ${isRetryScheduled} and ${isLeased} then 1 else 0 end as attempts,
  case when d.next_retry_at is not null and not ${isLeased} then ${epochMs('d.next_retry_at')} end as next_retry_ms,
  ${epochMs('d.delivered_at')} as delivered_ms, ${epochMs('d.failed_at')} as failed_ms, ${epochMs('d.created_at')} as created_ms`;

/** Selection of a list: every combination of the statuses and types, between two times (milliseconds; start inclusive, end exclusive). */
export interface Filter {
  statuses: string[];
  types: string[];
  startMs: number | null;
  endMs: number | null;
  /** UUIDs; null: any event. */
  eventIds: string[] | null;
  limit: number;
  offset: number;
}

// `coalesce` is not leakproof, so under row-level security it would not become an index condition.
const timeRange = `d.created_at >= $4::timestamptz and d.created_at < $5::timestamptz`;

/** A page of a filter's deliveries and how many there are in all: tenant, statuses, types, start, end, limit and offset. */
export const pageStatement = {
  name: 'deliveries_page',
  // The newest of each status and type come ordered from the index and are merged. A page behind the last one reads nothing.
  text: `with counted as materialized (
      select count(*)::int8 as total from deliveries d
      where d.tenant_id = $1 and d.status = any ($2::text[]) and d.event_type = any ($3::text[]) and ${timeRange}
    ), page as materialized (
      select n.id, n.created_at from unnest($2::text[]) as s (status) cross join unnest($3::text[]) as e (event_type)
      cross join lateral (
        select d.id, d.created_at from deliveries d
        where d.tenant_id = $1 and d.status = s.status and d.event_type = e.event_type and ${timeRange}
        order by d.created_at desc, d.id desc limit $6::bigint + $7::bigint
      ) as n
      where $7 < (select total from counted)
      order by n.created_at desc, n.id desc limit $6 offset $7
    ) select total, ${deliveryColumns} from counted left join (page p join deliveries d on d.tenant_id = $1 and d.id = p.id) on true
      order by p.created_at desc, p.id desc`,
};

/** The same for the deliveries of some events, which have another index. */
export const eventsPageStatement = {
  name: 'deliveries_of_events',
  text: `with found as materialized (
      select d.id, d.created_at, count(*) over () as total from deliveries d where d.tenant_id = $1 and d.event_id = any ($8::uuid[])
        and d.status = any ($2::text[]) and d.event_type = any ($3::text[]) and ${timeRange}
    ), page as materialized (
      select * from found order by created_at desc, id desc limit $6 offset $7
    ) select coalesce((select max(total) from found), 0)::int8 as total, ${deliveryColumns}
      from (values (1)) as one left join (page p join deliveries d on d.tenant_id = $1 and d.id = p.id) on true
      order by p.created_at desc, p.id desc`,
};

/** A page of the tenant's deliveries, newest first, how many there are in all, and the webhook. */
export async function listDeliveries(
  pool: Connections,
  tenant: string,
  { statuses, types, startMs, endMs, eventIds, limit, offset }: Filter,
): Promise<{ webhook: WebhookRow | null; deliveries: DeliveryRow[]; total: bigint }> {
  const filter = [tenant, statuses, types, timeText(startMs, '-infinity'), timeText(endMs, 'infinity')];
  const [webhooks, rows] = await readTenant<[WebhookRow[], (DeliveryRow & { total: bigint })[]]>(
    pool,
    tenant,
    { ...selectWebhook, values: [tenant] },
    eventIds === null
      ? { ...pageStatement, values: [...filter, limit, offset] }
      : { ...eventsPageStatement, values: [...filter, limit, offset, eventIds] },
  );
  const total = rows[0]?.total ?? 0n;
  // An empty page is one row, with the total alone.
  return { webhook: webhooks[0] ?? null, deliveries: total > offset ? rows : [], total };
}

function timeText(ms: number | null, unbounded: string): string {
  return ms === null ? unbounded : new Date(ms).toISOString();
}

/** One attempt. */
export interface AttemptRow {
  number: number;
  started_ms: number;
  duration_ms: number;
  status_code: number | null;
  error_class: string | null;
}

/** A delivery with its payload and attempts. */
export interface DeliveryDetails {
  delivery: DeliveryRow;
  payload: string;
  /** Body of the receiver's last answer. */
  responseBody: string | null;
  attempts: AttemptRow[];
}

/** One delivery. Refused: `delivery_not_found`. */
export async function readDelivery(pool: Connections, tenant: string, id: string): Promise<DeliveryDetails> {
  const values = [tenant, id];
  const [rows, attempts] = await readTenant<[(DeliveryRow & { body: string })[], (AttemptRow & { response_body: string | null })[]]>(
    pool,
    tenant,
    {
      name: 'delivery',
      text: `select ${deliveryColumns}, p.body from deliveries d
        join payloads p on p.tenant_id = d.tenant_id and p.event_id = d.event_id where d.tenant_id = $1 and d.id = $2`,
      values,
    },
    {
      name: 'attempts',
      text: `select number, ${epochMs('started_at')} as started_ms, duration_ms, status_code, error_class, response_body from attempts
        where tenant_id = $1 and delivery_id = $2 order by number`,
      values,
    },
  );
  if (!rows[0]) throw notFound();
  const { body, ...delivery } = rows[0];
  return { delivery, payload: body, responseBody: attempts.at(-1)?.response_body ?? null, attempts };
}

// What a manual retry changes in a delivery; `clock.at`: now.
const queueAgain = `status = 'pending', by_hand = true, attempts = attempts + 1, failed_at = null, next_retry_at = clock.at, run_at = clock.at`;

/**
 * Queues one more attempt of a failed delivery, due at once. Refused: `rate_limited`, `delivery_not_found`, `delivery_not_failed`,
 * `webhook_disabled`.
 */
export async function retryDelivery(
  pool: Connections,
  quotas: Quotas,
  tenant: string,
  id: string,
): Promise<{ delivery: DeliveryRow; rateLimit: RateLimitStatus }> {
  const rateLimit = await admit(pool, quotas, tenant, 'retries');
  const delivery = await inTransaction(pool, [tenant], async (client) => {
    const found = await client.query<{ status: string; enabled: boolean }>(
      `select d.status, coalesce((select enabled from webhooks where tenant_id = $1), false) as enabled
       from deliveries d where d.tenant_id = $1 and d.id = $2 for update of d`,
      [tenant, id],
    );
    const [row] = found.rows;
    if (!row) throw notFound();
    if (row.status !== 'failed') throw new Refusal('delivery_not_failed', `the delivery is ${row.status}, not failed`);
    if (!row.enabled) throw disabled();
    const { rows } = await client.query<DeliveryRow>(
      `update deliveries d set ${queueAgain} from (select clock_timestamp() as at) as clock where tenant_id = $1 and id = $2 returning ${deliveryColumns}`,
      [tenant, id],
    );
    await client.query(dueNow, [tenant]);
    return rows[0] as DeliveryRow;
  });
  return { delivery, rateLimit };
}

/** Of one bulk retry. */
const maxQueued = 1_000;

/** Queues failed deliveries again, the oldest first: tenant, statuses (failed alone), types, start and end. */
export const retryStatement = {
  name: 'deliveries_retry',
  // Skips rows that another retry has locked, so that two retries never wait for each other.
  text: `with chosen as materialized (
      select n.id from unnest($2::text[]) as s (status) cross join unnest($3::text[]) as e (event_type)
      cross join lateral (
        select d.id, d.created_at from deliveries d
        where d.tenant_id = $1 and d.status = s.status and d.event_type = e.event_type and ${timeRange}
        order by d.created_at, d.id limit ${maxQueued} for update skip locked
      ) as n
      order by n.created_at, n.id limit ${maxQueued}
    ), queued as (
      update deliveries d set ${queueAgain} from (select clock_timestamp() as at) as clock
      where d.tenant_id = $1 and d.id = any (array(select id from chosen)) returning d.id
    ) select (select count(*)::int from queued) as queued, (select count(*)::int8 from deliveries d
      where d.tenant_id = $1 and d.status = any ($2::text[]) and d.event_type = any ($3::text[]) and ${timeRange}) as failed`,
};

/**
 * Queues one more attempt of each failed delivery of a filter, the oldest first, up to 1,000 of them; due at once. `remaining` are those that
 * were not queued. Refused: `rate_limited`, `webhook_disabled`.
 */
export async function retryDeliveries(
  pool: Connections,
  quotas: Quotas,
  tenant: string,
  { types, startMs, endMs }: Pick<Filter, 'types' | 'startMs' | 'endMs'>,
): Promise<{ queued: number; remaining: bigint; rateLimit: RateLimitStatus }> {
  const rateLimit = await admit(pool, quotas, tenant, 'retries');
  const values = [tenant, ['failed'], types, timeText(startMs, '-infinity'), timeText(endMs, 'infinity')];
  return inTransaction(pool, [tenant], async (client) => {
    const webhook = await client.query('select from webhooks where tenant_id = $1 and enabled', [tenant]);
    if (webhook.rowCount === 0) throw disabled();
    // The statement counts failed deliveries as they were before it, so the queued ones are among them.
    const { rows } = await client.query<{ queued: number; failed: bigint }>({ ...retryStatement, values });
    const { queued, failed } = rows[0] as (typeof rows)[0];
    if (queued > 0) await client.query(dueNow, [tenant]);
    return { queued, remaining: failed - BigInt(queued), rateLimit };
  });
}

// The last statement of a transaction that queues attempts, because it locks the tenant's row of `due`.
const dueNow = `insert into due (tenant_id, next_at) values ($1, clock_timestamp()) ${keepEarlierDueTime}`;

function disabled(): Refusal {
  return new Refusal('webhook_disabled', 'the webhook is disabled or not configured');
}

function notFound(): Refusal {
  return new Refusal('delivery_not_found', 'Webhook delivery not found');
}
