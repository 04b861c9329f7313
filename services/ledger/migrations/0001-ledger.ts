// The ledger's baseline schema: log heads, the log, its projections, the relay's tables, and the functions that write a batch.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

// Domains, not CHECKs: PostgreSQL parses a table's CHECKs anew for each statement, those of a domain once a connection.
const domains = {
  currency_code: ['text', `value in ('NGN', 'USD', 'EUR', 'GBP')`],
  chart_name: ['text', `value in ('wallet', 'exchange', 'lending', 'payment_processor', 'other')`],
  event_type: ['text', `value in ('transaction.posted', 'account.created', 'account.updated')`],
  entry_side: ['text', `value in ('debit', 'credit')`],
  trace_parent: ['text', 'octet_length(value) = 55'],
  event_hash: ['bytea', 'octet_length(value) = 32'],
  request_fingerprint: ['bytea', 'octet_length(value) = 33'],
  total: ['numeric(38, 0)', 'value >= 0'],
  positive: ['bigint', 'value > 0'],
  not_negative: ['bigint', 'value >= 0'],
  place: ['smallint', 'value >= 0'],
} as const;

// For tables with one hot row per tenant: pages keep free space for the next row version and are vacuumed early.
const updatedOften =
  'fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0';

export class Ledger extends Migration {
  override up(): void {
    for (const [name, [type, check]] of Object.entries(domains)) {
      this.addSql(`create domain ${name} as ${type} constraint ${name} check (${check})`);
    }
    this.createLog();
    this.createAccounts();
    this.createPostings();
    this.createRelay();
    this.createChecks();
    this.addSql(writeBatch);
    this.addSql(writeBatchOfOne);
    this.createPolicies();
    this.setStatistics();
  }

  private createLog(): void {
    // One row per tenant, the only lock of a change. It hands out the gapless sequence and carries the hash chain.
    // `rebuilt` counts rebuilds: cached ledger state is valid for one sequence and one count.
    this.addSql(`create table heads (
      tenant_id uuid primary key,
      sequence not_negative not null,
      hash event_hash not null,
      last_at timestamptz not null,
      chart chart_name,
      rebuilt not_negative not null
    ) with (${updatedOften})`);

    // No foreign key to heads: each event would share-lock the row that every writer of the tenant waits for.
    // `traceparent` is not hashed: it says how an event is traced, not what happened.
    this.addSql(`create table log (
      tenant_id uuid not null,
      sequence positive not null,
      event_id uuid not null,
      type event_type not null,
      created_at timestamptz not null,
      actor text not null,
      request_id text not null,
      payload bytea not null,
      hash event_hash not null,
      traceparent trace_parent,
      primary key (tenant_id, sequence)
    )`);
  }

  private createAccounts(): void {
    this.addSql(`create table accounts (
      tenant_id uuid not null references heads,
      id uuid not null,
      code text collate "C" not null check (code ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$'),
      name text not null,
      type text not null check (type in ('asset', 'liability', 'equity', 'revenue', 'expense')),
      normal_balance text not null check (normal_balance in ('debit', 'credit')),
      currency text check (currency in ('NGN', 'USD', 'EUR', 'GBP')),
      parent_code text collate "C",
      is_group boolean not null,
      description text,
      allow_negative boolean not null,
      status text not null check (status in ('active', 'closed')),
      system boolean not null,
      metadata text not null,
      version bigint not null check (version > 0),
      created_at timestamptz not null,
      updated_at timestamptz not null,
      primary key (tenant_id, id),
      unique (tenant_id, code),
      foreign key (tenant_id, parent_code) references accounts (tenant_id, code)
    )`);
    // Whether a group has active accounts, the list filtered by parent, and the foreign key to the parent.
    this.addSql(`create index accounts_parent on accounts (tenant_id, parent_code, id) where parent_code is not null`);

    // The foreign key is checked when a balance is inserted, not when it changes. Accounts are never deleted.
    this.addSql(`create table balances (
      tenant_id uuid not null,
      account_id uuid not null,
      currency currency_code not null,
      debits total not null,
      credits total not null,
      pending_debits total not null,
      pending_credits total not null,
      version positive not null,
      updated_at timestamptz not null,
      primary key (tenant_id, account_id, currency),
      foreign key (tenant_id, account_id) references accounts (tenant_id, id)
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)`);
  }

  private createPostings(): void {
    // What a posting is found by. Description, entries and metadata are stored once, in the log's payload.
    this.addSql(`create table transactions (
      tenant_id uuid not null,
      sequence bigint not null,
      id uuid not null,
      idempotency_key text collate "C" not null,
      fingerprint request_fingerprint not null,
      reference text collate "C",
      reverses uuid,
      created_at timestamptz not null,
      primary key (tenant_id, sequence),
      unique (tenant_id, id),
      unique (tenant_id, idempotency_key)
    )`);
    // A transaction is reversed at most once; also answers what it was reversed by.
    this.addSql(`create unique index transactions_reverses on transactions (tenant_id, reverses) where reverses is not null`);
    // The list filtered by reference, newest first.
    this.addSql(`create index transactions_reference on transactions (tenant_id, reference, sequence) where reference is not null`);

    // Ordered as an account's history is read. The entries of one transaction are read from its event.
    this.addSql(`create table entries (
      tenant_id uuid not null,
      account_id uuid not null,
      currency currency_code not null,
      sequence bigint not null,
      position place not null,
      side entry_side not null,
      amount positive not null,
      balance_after numeric(38, 0) not null,
      primary key (tenant_id, account_id, currency, sequence, position)
    )`);
  }

  private createRelay(): void {
    // Not columns of the head: the writer would wait for the relay. A claim is a lease; `open_until` is set by the writer when there may be
    // events after `sequence`, at most once in ten minutes, so that the index seldom changes.
    this.addSql(`create table relay_marks (
      tenant_id uuid primary key,
      sequence bigint not null check (sequence >= 0),
      claim_id uuid,
      claimed_until timestamptz,
      open_until timestamptz,
      check ((claim_id is null) = (claimed_until is null))
    ) with (${updatedOften})`);
    // For the poll that looks for tenants which other replicas have left.
    this.addSql(`create index relay_marks_open on relay_marks (tenant_id) where open_until is not null`);
    // An offset above what was published would lose events, so it only rises.
    this.addSql(`create function relay_marks_must_rise() returns trigger language plpgsql as $$
      begin
        raise exception 'the mark of a tenant can not go back' using errcode = 'check_violation';
      end $$`);
    this.addSql(`create trigger relay_marks_must_rise before update on relay_marks
      for each row when (new.sequence < old.sequence) execute function relay_marks_must_rise()`);

    // Events that the receiver rejected. `part` is the position among the events of one posting; `due`: you asked to publish it again.
    this.addSql(`create table relay_dead_letters (
      tenant_id uuid not null,
      sequence bigint not null check (sequence > 0),
      part integer not null check (part >= 0),
      event_id uuid not null,
      type text not null,
      reason text not null,
      refused_at timestamptz not null default clock_timestamp(),
      refusals integer not null default 1,
      due boolean not null default false,
      claimed_until timestamptz,
      published_at timestamptz,
      primary key (tenant_id, sequence, part)
    )`);
    // For the alert's count, and for the relay's search.
    this.addSql(`create index relay_dead_letters_left on relay_dead_letters (tenant_id, sequence, part) where published_at is null`);
  }

  private createChecks(): void {
    // The database's own check of double entry. All entries of a transaction are inserted by one statement.
    this.addSql(`create function entries_must_balance() returns trigger language plpgsql as $$
      begin
        if exists (
          select from added group by tenant_id, sequence, currency
          having sum(case side when 'debit' then amount else -amount end) <> 0
        ) then
          raise exception 'the entries of a transaction do not balance' using errcode = 'check_violation';
        end if;
        return null;
      end $$`);
    this.addSql(`create trigger entries_must_balance after insert on entries
      referencing new table as added for each statement execute function entries_must_balance()`);

    // Called when a set-based write touched other rows than the decision was based on: the transaction rolls back.
    this.addSql(`create function must_change(expected bigint, changed bigint, what text) returns void language plpgsql as $$
      begin
        if changed <> expected then
          raise exception '% of % % were as they had been read', changed, expected, what using errcode = 'serialization_failure';
        end if;
      end $$`);
  }

  private createPolicies(): void {
    for (const table of ['heads', 'log', 'accounts', 'balances', 'transactions', 'entries']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      // The owner runs `verify` and `rebuild`: it reads every tenant's rows, but changes only those of the tenants it names.
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    for (const table of ['relay_marks', 'relay_dead_letters']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      // The relay looks for work across tenants in these tables only. A log it reads as the tenants it has claimed.
      this.addSql(`create policy relay on ${table} using ((select current_setting('app.relay', true)) = 'on')
        with check ((select current_setting('app.relay', true)) = 'on')`);
      this.addSql(`create policy operator on ${table} to current_user using (true) with check (true)`);
    }
  }

  private setStatistics(): void {
    // Small samples: autovacuum analyses growing tables again and again, and these plans do not depend on how values are spread.
    this.addSql(`do $$
      declare
        col record;
      begin
        for col in
          select attrelid::regclass as of_table, attname as of_column from pg_attribute
          where attrelid in ('log'::regclass, 'transactions'::regclass, 'entries'::regclass, 'balances'::regclass) and attnum > 0 and not attisdropped
        loop
          execute format('alter table %s alter column %I set statistics 10', col.of_table, col.of_column);
        end loop;
      end $$`);
    // Analysed while most tenants have one row, any index that begins with the tenant would look as good as the full key.
    for (const table of ['transactions', 'accounts']) this.addSql(`alter table ${table} alter column tenant_id set (n_distinct = -0.001)`);
  }
}

// Writes a batch in one call, so that it takes one round trip, its commit included. All arrays of one group are equally long.
//   one_tenant, all_tenants   whose rows it sees, as the policies read them
//   s_                        heads that must be as cached, and are not moved
//   h_                        heads to move, ascending; _from, _was: where each must be
//   o_                        published offsets of the relay to open, ascending
//   l_                        events in order; t_ is what `transactions` stores of a posting's event, null for other events
//   e_                        entries; e_row is the index of their event in l_
//   b_                        balances; b_from is the version that was read, 0 where they are new
// Times are milliseconds since the Unix epoch. Returns the database's clock. Raises 40001 where a row is not as cached.
//
// Rows are found by key in a sub-select that cannot be reordered (offset 0) and updated by ctid, so only index plans are possible.
// Arrays are read by subscript: unnesting several together writes each into a tuplestore first.
const writeBatch = `create function write_batch(
      one_tenant text, all_tenants text, s_tenant uuid[], s_sequence bigint[], s_hash bytea[], s_rebuilt bigint[],
      h_tenant uuid[], h_from bigint[], h_was bytea[], h_rebuilt bigint[], h_sequence bigint[], h_hash bytea[], h_at float8[], h_chart text[],
      o_tenant uuid[], o_until float8,
      l_tenant uuid[], l_sequence bigint[], l_event uuid[], l_type text[], l_at float8[], l_actor text[], l_request text[],
      l_traceparent text[], l_payload bytea[], l_hash bytea[],
      t_id uuid[], t_key text[], t_fingerprint bytea[], t_reference text[], t_reverses uuid[],
      e_row int[], e_account uuid[], e_currency text[], e_position smallint[], e_side text[], e_amount bigint[], e_after numeric[],
      b_tenant uuid[], b_account uuid[], b_currency text[], b_debits numeric[], b_credits numeric[],
      b_pending_debits numeric[], b_pending_credits numeric[], b_from bigint[], b_version bigint[], b_at float8[]
    ) returns float8 language plpgsql
      set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    as $$
      declare
        previous_timeout text := current_setting('lock_timeout');
        changed bigint;
        added bigint := 0;
        ignored text;
      begin
        -- If another replica has locked a head, fail after 1 ms: the caller retries on the locking path.
        ignored := set_config('app.tenant', one_tenant, true);
        ignored := set_config('app.tenants', all_tenants, true);
        ignored := set_config('lock_timeout', '1ms', true);

        -- The only lock, before anything else: heads move on condition that they are as cached.
        if cardinality(h_tenant) > 0 then
          with new as (
            select i, row_id from generate_series(1, cardinality(h_tenant)) as i,
              lateral (select ctid as row_id from heads where tenant_id = h_tenant[i] offset 0) head)
          update heads set sequence = h_sequence[i], hash = h_hash[i], last_at = to_timestamp(h_at[i] / 1000.0), chart = h_chart[i] from new
          where heads.ctid = row_id and sequence = h_from[i] and hash = h_was[i] and rebuilt = h_rebuilt[i];
          get diagnostics changed = row_count;
          if changed <> cardinality(h_tenant) then perform must_change(cardinality(h_tenant), changed, 'heads'); end if;
        end if;
        ignored := set_config('lock_timeout', previous_timeout, true);

        if cardinality(s_tenant) > 0 then
          select count(*) into changed from unnest(s_tenant, s_sequence, s_hash, s_rebuilt) as cached (t, s, h, r),
            lateral (select from heads where tenant_id = t and sequence = s and hash = h and rebuilt = r offset 0) head;
          if changed <> cardinality(s_tenant) then perform must_change(cardinality(s_tenant), changed, 'heads'); end if;
        end if;

        if cardinality(o_tenant) > 0 then
          insert into relay_marks (tenant_id, sequence, open_until)
          select t, 0, to_timestamp(o_until / 1000.0) from unnest(o_tenant) as opened (t) order by t
          on conflict (tenant_id) do update set open_until = greatest(relay_marks.open_until, excluded.open_until);
        end if;

        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, traceparent, payload, hash)
        select l_tenant[i], l_sequence[i], l_event[i], l_type[i], to_timestamp(l_at[i] / 1000.0), l_actor[i], l_request[i], l_traceparent[i],
          l_payload[i], l_hash[i]
        from generate_series(1, cardinality(l_tenant)) as i;

        if cardinality(e_row) > 0 then
          insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
          select l_tenant[i], l_sequence[i], t_id[i], t_key[i], t_fingerprint[i], t_reference[i], t_reverses[i], to_timestamp(l_at[i] / 1000.0)
          from generate_series(1, cardinality(l_tenant)) as i
          where t_id[i] is not null;

          insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
          select l_tenant[e_row[i]], e_account[i], e_currency[i], l_sequence[e_row[i]], e_position[i], e_side[i], e_amount[i], e_after[i]
          from generate_series(1, cardinality(e_row)) as i;
        end if;

        -- Every row must still have the version that was read.
        if cardinality(b_tenant) > 0 then
          with new as (
            select i, row_id from generate_series(1, cardinality(b_tenant)) as i,
              lateral (select ctid as row_id from balances
                where tenant_id = b_tenant[i] and account_id = b_account[i] and currency = b_currency[i] and version = b_from[i] offset 0) balance)
          update balances set debits = b_debits[i], credits = b_credits[i], pending_debits = b_pending_debits[i],
            pending_credits = b_pending_credits[i], version = b_version[i], updated_at = to_timestamp(b_at[i] / 1000.0)
          from new where balances.ctid = row_id;
          get diagnostics changed = row_count;
          if 0 = any(b_from) then
            insert into balances (tenant_id, account_id, currency, debits, credits, pending_debits, pending_credits, version, updated_at)
            select b_tenant[i], b_account[i], b_currency[i], b_debits[i], b_credits[i], b_pending_debits[i], b_pending_credits[i], b_version[i],
              to_timestamp(b_at[i] / 1000.0)
            from generate_series(1, cardinality(b_tenant)) as i
            where b_from[i] = 0 on conflict do nothing;
            get diagnostics added = row_count;
          end if;
          if changed + added <> cardinality(b_tenant) then perform must_change(cardinality(b_tenant), changed + added, 'balances'); end if;
        end if;

        return extract(epoch from clock_timestamp()) * 1000;
      end $$`;

// The same for a batch of one posting that opens no balance: one-element arrays cost a third more CPU. l_ and t_ are of the one posting,
// e_ its entries, b_ the balances that it changes. What a posting leaves as it is, pending sums and the chart, is not written.
const writeBatchOfOne = `create function write_batch_of_one(
      h_tenant uuid, h_from bigint, h_was bytea, h_rebuilt bigint, h_sequence bigint, h_hash bytea, h_at float8,
      l_event uuid, l_actor text, l_request text, l_traceparent text, l_payload bytea,
      t_id uuid, t_key text, t_fingerprint bytea, t_reference text, t_reverses uuid,
      e_account uuid[], e_currency text[], e_side text[], e_amount bigint[], e_after numeric[],
      b_account uuid[], b_currency text[], b_debits numeric[], b_credits numeric[], b_from bigint[]
    ) returns float8 language plpgsql
      set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    as $$
      declare
        previous_timeout text := current_setting('lock_timeout');
        occurred_at timestamptz := to_timestamp(h_at / 1000.0);
        ignored text;
      begin
        ignored := set_config('app.tenant', h_tenant::text, true);
        ignored := set_config('app.tenants', '', true);

        -- The only lock, before anything else; fails after 1 ms where another replica has it.
        ignored := set_config('lock_timeout', '1ms', true);
        update heads set sequence = h_sequence, hash = h_hash, last_at = occurred_at
        where tenant_id = h_tenant and sequence = h_from and hash = h_was and rebuilt = h_rebuilt;
        if not found then perform must_change(1, 0, 'heads'); end if;
        ignored := set_config('lock_timeout', previous_timeout, true);

        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, traceparent, payload, hash)
        values (h_tenant, h_sequence, l_event, 'transaction.posted', occurred_at, l_actor, l_request, l_traceparent, l_payload, h_hash);

        insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
        values (h_tenant, h_sequence, t_id, t_key, t_fingerprint, t_reference, t_reverses, occurred_at);

        insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
        select h_tenant, e_account[i], e_currency[i], h_sequence, i - 1, e_side[i], e_amount[i], e_after[i]
        from generate_series(1, cardinality(e_account)) as i;

        -- Every row must still have the version that was read.
        for i in 1 .. cardinality(b_account) loop
          update balances set debits = b_debits[i], credits = b_credits[i], version = b_from[i] + 1, updated_at = occurred_at
          where tenant_id = h_tenant and account_id = b_account[i] and currency = b_currency[i] and version = b_from[i];
          if not found then perform must_change(1, 0, 'balances'); end if;
        end loop;

        return extract(epoch from clock_timestamp()) * 1000;
      end $$`;
