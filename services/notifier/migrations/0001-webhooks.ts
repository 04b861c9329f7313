// The first schema: webhooks, what has been taken of each tenant's log, deliveries and their attempts.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

const eventTypes = `'transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'test.webhook'`;

export class Webhooks extends Migration {
  override up(): void {
    // Secrets are sealed: key id, then nonce, ciphertext and tag.
    this.addSql(`create table webhooks (
      tenant_id uuid primary key,
      url text not null check (url ~ '^https?://' and length(url) <= 2048),
      events text[] not null check (cardinality(events) > 0 and events <@ array[${eventTypes}]),
      enabled boolean not null,
      secret text not null,
      previous_secret text,
      previous_until timestamptz,
      created_at timestamptz not null,
      updated_at timestamptz not null,
      check ((previous_secret is null) = (previous_until is null))
    )`);

    // The last event taken of a tenant's log, and how many parts its sequence has beside part 0 (null: not known). Updated once a batch,
    // so its pages keep room for the next version.
    this.addSql(`create table inbox (
      tenant_id uuid primary key,
      sequence bigint not null check (sequence >= 0),
      part integer not null check (part >= 0),
      parts integer check (parts >= 0)
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);

    // Places of the log that were passed over, between two events that came (both exclusive): what arrives there later is taken.
    this.addSql(`create table gaps (
      tenant_id uuid not null,
      after_sequence bigint not null,
      after_part integer not null,
      before_sequence bigint not null,
      before_part integer not null,
      found_at timestamptz not null,
      primary key (tenant_id, before_sequence, before_part),
      check ((after_sequence, after_part) < (before_sequence, before_part))
    )`);

    // What has arrived in a gap: taken once.
    this.addSql(`create table late (
      tenant_id uuid not null,
      sequence bigint not null,
      part integer not null,
      primary key (tenant_id, sequence, part)
    )`);

    // run_at is when a worker may take the row: the time of its next attempt, or the end of the lease of whoever has it (claim_id).
    // next_retry_at is a promise: an attempt that has not been counted in attempts yet, unless by_hand, whose one attempt is.
    // Autovacuum comes early: the exact totals of the list are counted in the index alone, as far as pages are known to be visible to all.
    this.addSql(`create table deliveries (
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
      started_at timestamptz,
      claim_id uuid,
      primary key (tenant_id, id),
      check ((status = 'delivered') = (delivered_at is not null)),
      check ((status = 'failed') = (failed_at is not null)),
      check (status = 'pending' or (claim_id is null and next_retry_at is null))
    ) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02,
      autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)`);
    // No other whole index leads with tenant_id than the primary key: before a table is analysed, the planner takes a tenant to have one row,
    // and any such index to be as good as the key for finding a delivery (a claim read 30,000 pages instead of 800).
    // The list: for each status and type asked for, its newest, merged; and its total, counted in the index alone. With status and type
    // in front, a filter that fits one row in a million reads one entry. Also the sweep.
    this.addSql('create index deliveries_list on deliveries (status, event_type, tenant_id, created_at, id)');
    // Claims: what is due next of a tenant, and when the next will be.
    this.addSql(`create index deliveries_due on deliveries (tenant_id, run_at, id) where status = 'pending'`);
    // Claims: how many of a tenant are in flight.
    this.addSql('create index deliveries_in_flight on deliveries (tenant_id, run_at) where claim_id is not null');

    // The bytes that are signed and sent, apart from the row that changes; the key makes an event one delivery at most. No foreign key: it
    // would lock and look up the delivery for every payload, and both are written, and swept, by the same statement. So are attempts.
    this.addSql(`create table payloads (
      tenant_id uuid not null,
      event_id uuid not null,
      body text not null,
      primary key (tenant_id, event_id)
    )`);

    this.addSql(`create table attempts (
      tenant_id uuid not null,
      delivery_id uuid not null,
      number integer not null check (number > 0),
      started_at timestamptz not null,
      duration_ms integer not null check (duration_ms >= 0),
      status_code integer,
      error_class text,
      response_body text,
      primary key (tenant_id, delivery_id, number)
    )`);

    // When a tenant next has work; null: nothing pending. Whoever adds work may only lower it; only who finds nothing to claim
    // raises it, with the row locked. The row stays, and makes this the list of tenants that the sweep goes through.
    this.addSql(`create table due (
      tenant_id uuid primary key,
      next_at timestamptz
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);
    // Claims: tenants with due work, the longest waiting first.
    this.addSql('create index due_next on due (next_at) where next_at is not null');

    // The requests that a rolling window counts.
    this.addSql(`create table limits (
      tenant_id uuid not null,
      policy text not null check (policy in ('webhook-config', 'retries', 'tests')),
      taken timestamptz[] not null,
      primary key (tenant_id, policy)
    )`);

    // What can't be made into a delivery, with the reason. Its tenant may be unknown, so it has no tenant_id to lead with.
    this.addSql(`create table dead_letters (
      id uuid primary key,
      source text not null,
      key bytea,
      value bytea not null,
      reason text not null,
      received_at timestamptz not null
    )`);
    // A message that is read again is the same letter.
    this.addSql('create unique index dead_letters_once on dead_letters (source, sha256(value))');

    for (const table of ['webhooks', 'inbox', 'gaps', 'late', 'deliveries', 'payloads', 'attempts', 'due', 'limits']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
    }
    // Two jobs come before a tenant is known. Finding tenants with work sees when, and nothing of what.
    this.addSql(`create policy find_work on due for select using (current_setting('app.job', true) = 'find work')`);
    this.addSql('alter table dead_letters enable row level security');
    this.addSql('alter table dead_letters force row level security');
    this.addSql(`create policy dead_letters on dead_letters using (current_setting('app.job', true) = 'dead letters')`);
  }
}
