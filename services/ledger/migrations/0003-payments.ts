// Adds holds, partial reversals, velocity limits, and the switch that says whether they may be used.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

const eventTypes = [
  ...['transaction.posted', 'account.created', 'account.updated'],
  ...['hold.created', 'hold.voided', 'hold.expired', 'schedule.failed', 'definition.changed'],
];

// Rows are changed once or twice, and then the indexes of what is open point to dead ones until a vacuum, however large the table is.
const updatedOnce = 'fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01';

export class Payments extends Migration {
  override up(): void {
    // Not valid: rows that are there have a type of the narrower check, and need no scan.
    this.addSql('alter domain event_type drop constraint event_type');
    this.addSql(`alter domain event_type add constraint event_type check (value in ('${eventTypes.join(`', '`)}')) not valid`);
    this.addSql(`create domain hold_status as text constraint hold_status check (value in ('pending', 'captured', 'voided', 'expired'))`);
    this.createHolds();
    this.createDefinitions();
    this.addSql(writeExtras);
    for (const table of ['holds', 'hold_entries', 'parts', 'definitions', 'velocity']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    // The expiry loop looks for due holds across tenants in this table only.
    this.addSql(`create policy due on holds for select using ((select current_setting('app.due', true)) = 'on')`);
    // A ledger of the version before would ignore limits, so that books it may still write to begin without.
    this.addSql('create table enabled (feature text primary key)');
    this.addSql(`insert into enabled select 'payments' where not exists (select from heads)`);
  }

  private createHolds(): void {
    // What a hold is found by. The rest is in the log: as it is now in the payload of its newest part, or else of its `hold.created`.
    this.addSql(`create table holds (
      tenant_id uuid not null,
      sequence positive not null,
      id uuid not null,
      idempotency_key text collate "C" not null,
      fingerprint request_fingerprint not null,
      reference text collate "C",
      status hold_status not null,
      expires_at timestamptz,
      created_at timestamptz not null,
      primary key (tenant_id, sequence),
      unique (tenant_id, id),
      unique (tenant_id, idempotency_key)
    ) with (${updatedOnce})`);
    this.addSql(`create index holds_due on holds (expires_at, tenant_id, id) where status = 'pending' and expires_at is not null`);
    // The list filtered by status.
    this.addSql(`create index holds_status on holds (tenant_id, status, sequence)`);
    this.addSql(`create index holds_reference on holds (tenant_id, reference, sequence) where reference is not null`);

    this.addSql(`create table hold_entries (
      tenant_id uuid not null,
      hold_sequence bigint not null,
      position place not null,
      account_id uuid not null,
      currency currency_code not null,
      side entry_side not null,
      amount positive not null,
      captured not_negative not null,
      remaining not_negative not null,
      primary key (tenant_id, hold_sequence, position),
      check (captured + remaining <= amount)
    ) with (${updatedOnce})`);
    // The list filtered by account; and what an account's pending sums must add up to.
    this.addSql(`create index hold_entries_account on hold_entries (tenant_id, account_id, hold_sequence)`);
    this.addSql(`create index hold_entries_open on hold_entries (tenant_id, account_id, currency) where remaining > 0`);

    // Events that change a hold or reverse a transaction in parts (`of`: its id), numbered from 1, without gaps. Two writers that read the same
    // number before can't both take the next. A transaction that is reversed at once has none.
    this.addSql(`create table parts (
      tenant_id uuid not null,
      of uuid not null,
      number integer not null check (number > 0),
      sequence positive not null,
      primary key (tenant_id, of, number)
    )`);
  }

  private createDefinitions(): void {
    this.addSql(`create table definitions (
      tenant_id uuid not null,
      kind text not null check (kind in ('limit', 'monitor', 'template', 'schedule')),
      id text collate "C" not null,
      version positive not null,
      record text not null,
      primary key (tenant_id, kind, id)
    )`);
    // What a limit has counted, by account or group: live steps as JSON text, oldest first: [start in milliseconds, minor units, count].
    this.addSql(`create table velocity (
      tenant_id uuid not null,
      limit_id text collate "C" not null,
      subject text collate "C" not null,
      steps text not null,
      primary key (tenant_id, limit_id, subject)
    )`);
  }
}

// Writes what few batches have, after `write_batch` in the same statement: `select write_extras(write_batch(…), …)`. Arguments are evaluated
// first, so the heads are locked, and the tenants set, before anything here. All arrays of one group are equally long.
//   now_ms   what `write_batch` has returned, which this returns
//   p_       parts
//   n_       new holds, as they are after the batch
//   l_       lines of new holds
//   c_       changed lines of other holds, each once; c_from is what remained when it was read
//   e_       other holds that end
//   v_       what velocity limits have counted
// Times are milliseconds since the Unix epoch. Raises 40001 where a row is not as it was read, 23505 where another took the same number.
const writeExtras = `create function write_extras(
      now_ms float8,
      p_tenant uuid[], p_of uuid[], p_number int[], p_sequence bigint[],
      n_tenant uuid[], n_sequence bigint[], n_id uuid[], n_key text[], n_fingerprint bytea[], n_reference text[], n_status text[],
      n_expires float8[], n_at float8[],
      l_tenant uuid[], l_hold bigint[], l_position smallint[], l_account uuid[], l_currency text[], l_side text[],
      l_amount bigint[], l_captured bigint[], l_remaining bigint[],
      c_tenant uuid[], c_hold bigint[], c_position smallint[], c_from bigint[], c_captured bigint[], c_remaining bigint[],
      e_tenant uuid[], e_hold bigint[], e_status text[],
      v_tenant uuid[], v_limit text[], v_subject text[], v_steps text[]
    ) returns float8 language plpgsql
      set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    as $$
      declare
        changed bigint;
      begin
        insert into parts (tenant_id, of, number, sequence)
        select p_tenant[i], p_of[i], p_number[i], p_sequence[i] from generate_series(1, cardinality(p_tenant)) as i;

        if cardinality(n_tenant) > 0 then
          insert into holds (tenant_id, sequence, id, idempotency_key, fingerprint, reference, status, expires_at, created_at)
          select n_tenant[i], n_sequence[i], n_id[i], n_key[i], n_fingerprint[i], n_reference[i], n_status[i],
            to_timestamp(n_expires[i] / 1000.0), to_timestamp(n_at[i] / 1000.0)
          from generate_series(1, cardinality(n_tenant)) as i;

          insert into hold_entries (tenant_id, hold_sequence, position, account_id, currency, side, amount, captured, remaining)
          select l_tenant[i], l_hold[i], l_position[i], l_account[i], l_currency[i], l_side[i], l_amount[i], l_captured[i], l_remaining[i]
          from generate_series(1, cardinality(l_tenant)) as i;
        end if;

        if cardinality(c_tenant) > 0 then
          with new as (
            select i, row_id from generate_series(1, cardinality(c_tenant)) as i,
              lateral (select ctid as row_id from hold_entries where tenant_id = c_tenant[i] and hold_sequence = c_hold[i]
                and position = c_position[i] and remaining = c_from[i] offset 0) line)
          update hold_entries set captured = c_captured[i], remaining = c_remaining[i] from new where hold_entries.ctid = row_id;
          get diagnostics changed = row_count;
          perform must_change(cardinality(c_tenant), changed, 'hold entries');
        end if;

        if cardinality(e_tenant) > 0 then
          with new as (
            select i, row_id from generate_series(1, cardinality(e_tenant)) as i,
              lateral (select ctid as row_id from holds where tenant_id = e_tenant[i] and sequence = e_hold[i] and status = 'pending' offset 0) hold)
          update holds set status = e_status[i] from new where holds.ctid = row_id;
          get diagnostics changed = row_count;
          perform must_change(cardinality(e_tenant), changed, 'holds');
        end if;

        if cardinality(v_tenant) > 0 then
          insert into velocity (tenant_id, limit_id, subject, steps)
          select v_tenant[i], v_limit[i], v_subject[i], v_steps[i] from generate_series(1, cardinality(v_tenant)) as i
          on conflict (tenant_id, limit_id, subject) do update set steps = excluded.steps;
        end if;

        return now_ms;
      end $$`;
