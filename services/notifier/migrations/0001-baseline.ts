// The notifier's whole schema: webhooks, inbox, deliveries with their leases and attempts, limits, dead letters, Kafka offsets.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

const eventTypes = `'transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'test.webhook'`;

// For tables whose rows are few and change all the time: space for the next version in the page, and vacuum early.
const hotRows = 'autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0';

const tenantTables = ['webhooks', 'inbox', 'gaps', 'late', 'deliveries', 'payloads', 'attempts', 'due', 'leases', 'limits'];

export class Baseline extends Migration {
  override up(): void {
    for (const statement of [...webhooks, ...inbox, ...deliveries, ...others, ...policies()]) this.addSql(statement);
  }
}

const webhooks = [
  // A secret is encrypted: key id, then nonce, ciphertext and tag.
  `create table webhooks (
    tenant_id uuid primary key,
    url text not null check (url ~* '^https?://' and length(url) <= 2048),
    events text[] not null check (cardinality(events) > 0 and events <@ array[${eventTypes}]),
    enabled boolean not null,
    secret text not null,
    previous_secret text,
    previous_until timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    check ((previous_secret is null) = (previous_until is null))
  )`,
];

const inbox = [
  // Each tenant's consumed offset: the last event consumed, how many parts its sequence has after part 0 (null: unknown), and when the ledger made it.
  `create table inbox (
    tenant_id uuid primary key,
    sequence bigint not null check (sequence >= 0),
    part integer not null check (part >= 0),
    parts integer check (parts >= 0),
    created_ms bigint
  ) with (fillfactor = 50, ${hotRows})`,

  // Positions of the log that were skipped, between two events that came (both exclusive). An event that comes late for one of them is consumed.
  `create table gaps (
    tenant_id uuid not null,
    after_sequence bigint not null,
    after_part integer not null,
    before_sequence bigint not null,
    before_part integer not null,
    found_at timestamptz not null,
    primary key (tenant_id, before_sequence, before_part),
    check ((after_sequence, after_part) < (before_sequence, before_part))
  )`,

  // Events that came late for a gap: consumed once.
  `create table late (
    tenant_id uuid not null,
    sequence bigint not null,
    part integer not null,
    primary key (tenant_id, sequence, part)
  )`,
];

const deliveries = [
  // run_at is when a worker may lease the row: the time of its next attempt, or the end of its lease. next_retry_at is the attempt that is
  // announced and not counted in attempts yet, unless by_hand. Vacuum comes early, because totals are counted by index-only scans.
  `create table deliveries (
    tenant_id uuid not null,
    id uuid not null,
    event_id uuid not null,
    event_type text collate "C" not null check (event_type in (${eventTypes})),
    test boolean not null,
    status text collate "C" not null check (status in ('pending', 'delivered', 'failed')),
    attempts integer not null check (attempts > 0),
    by_hand boolean not null,
    status_code integer,
    error_class text,
    next_retry_at timestamptz,
    delivered_at timestamptz,
    failed_at timestamptz,
    created_at timestamptz not null,
    run_at timestamptz not null,
    primary key (tenant_id, id),
    check ((status = 'delivered') = (delivered_at is not null)),
    check ((status = 'failed') = (failed_at is not null)),
    check (status = 'pending' or next_retry_at is null)
  ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)`,
  // The list and its total per status and type, and the retention job. It must not lead with tenant_id: before the first ANALYZE the planner
  // would prefer it to the primary key for finding one delivery.
  'create index deliveries_list on deliveries (status, event_type, tenant_id, created_at, id)',
  // Leasing: what is due next of a tenant, and when the next will be.
  `create index deliveries_due on deliveries (tenant_id, run_at, id) where status = 'pending'`,

  // The bytes that are signed and sent. The key makes an event one delivery at most. No foreign key, because it would lock and look up the
  // delivery for each payload, and the same statements write and delete both. The same goes for attempts.
  `create table payloads (
    tenant_id uuid not null,
    event_id uuid not null,
    body text not null,
    traceparent text check (octet_length(traceparent) = 55),
    primary key (tenant_id, event_id)
  )`,

  `create table attempts (
    tenant_id uuid not null,
    delivery_id uuid not null,
    number integer not null check (number > 0),
    started_at timestamptz not null,
    duration_ms integer not null check (duration_ms >= 0),
    status_code integer,
    error_class text,
    response_body text,
    primary key (tenant_id, delivery_id, number)
  )`,

  // Leases. Unlogged: after a crash of PostgreSQL its deliveries are leased and sent again, as after the crash of a worker.
  `create unlogged table leases (
    tenant_id uuid not null,
    delivery_id uuid not null,
    lease_id uuid not null,
    started_at timestamptz not null,
    until timestamptz not null,
    primary key (tenant_id, delivery_id)
  ) with (${hotRows})`,

  // When a tenant next has work; null: nothing is pending. New work may only lower it; only a worker that finds nothing due raises it, with the row
  // locked. The row stays, which makes this the list of tenants for the retention job.
  `create table due (
    tenant_id uuid primary key,
    next_at timestamptz
  ) with (fillfactor = 50, ${hotRows})`,
  // Leasing: tenants with due work, the longest waiting first.
  'create index due_next on due (next_at) where next_at is not null',

  // Small samples, because autovacuum analyses growing tables again and again, and the plans do not depend on how values are spread.
  `do $$
    declare
      item record;
    begin
      for item in
        select attrelid::regclass as of_table, attname as of_column from pg_attribute
        where attrelid in ('deliveries'::regclass, 'payloads'::regclass, 'attempts'::regclass) and attnum > 0 and not attisdropped
      loop
        execute format('alter table %s alter column %I set statistics 10', item.of_table, item.of_column);
      end loop;
    end $$`,
];

const others = [
  // The requests that a rolling window counts.
  `create table limits (
    tenant_id uuid not null,
    policy text not null check (policy in ('webhook-config', 'retries', 'tests')),
    taken timestamptz[] not null,
    primary key (tenant_id, policy)
  )`,

  // Messages that can't be made into deliveries, with the reason. The tenant may be unknown, so there is no tenant_id.
  `create table dead_letters (
    id uuid primary key,
    source text not null,
    key bytea,
    value bytea not null,
    reason text not null,
    received_at timestamptz not null
  )`,
  // A message that is read again is the same dead letter.
  'create unique index dead_letters_once on dead_letters (source, sha256(value))',

  // Consumed offsets of the topic, next to the data: a restored database brings its offsets with it, while the consumer group's stay ahead.
  `create table kafka_offsets (
    topic text not null,
    partition int not null,
    next_offset bigint not null check (next_offset >= 0),
    primary key (topic, partition)
  )`,
];

function policies(): string[] {
  const forced = (table: string) => [`alter table ${table} enable row level security`, `alter table ${table} force row level security`];
  return [
    ...tenantTables.flatMap(tenantPolicy),
    // Two jobs run before a tenant is known. The one that finds tenants with work sees when they have some, and nothing else.
    `create policy find_work on due for select using (current_setting('app.job', true) = 'find work')`,
    ...forced('dead_letters'),
    `create policy dead_letters on dead_letters using (current_setting('app.job', true) = 'dead letters')`,
    // Belongs to no tenant.
    ...forced('kafka_offsets'),
    'create policy kafka_offsets on kafka_offsets using (true)',
  ];
}
