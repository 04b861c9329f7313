// The first schema: heads, log and the projections of the log, each bound to the tenants of the transaction.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class Books extends Migration {
  override up(): void {
    // One row a tenant: the only lock of a change. It hands out the gapless sequence and carries the chain. Updated once a batch, so its
    // pages keep room for the next version (fillfactor) and are vacuumed early. `rebuilt` counts how often an operator has replaced the
    // projections: what a process remembers of the books is valid for one sequence and one count.
    this.addSql(`create table heads (
      tenant_id uuid primary key,
      sequence bigint not null check (sequence >= 0),
      hash bytea not null check (octet_length(hash) = 32),
      last_at timestamptz not null,
      chart text check (chart in ('wallet', 'exchange', 'lending', 'payment_processor', 'other')),
      rebuilt bigint not null check (rebuilt >= 0)
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);

    // The truth: append-only, gapless, chained by hash. No foreign key to heads: it would share-lock and dirty the row that every writer
    // of the tenant waits for, once an event, and the sequence is handed out by that row anyway.
    this.addSql(`create table log (
      tenant_id uuid not null,
      sequence bigint not null check (sequence > 0),
      event_id uuid not null,
      type text not null check (type in ('transaction.posted', 'account.created', 'account.updated')),
      created_at timestamptz not null,
      actor text not null,
      request_id text not null,
      payload bytea not null,
      hash bytea not null check (octet_length(hash) = 32),
      primary key (tenant_id, sequence)
    )`);

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

    // The foreign key is checked when a balance is first made, not when it changes; accounts are never deleted.
    this.addSql(`create table balances (
      tenant_id uuid not null,
      account_id uuid not null,
      currency text not null check (currency in ('NGN', 'USD', 'EUR', 'GBP')),
      debits numeric(38, 0) not null check (debits >= 0),
      credits numeric(38, 0) not null check (credits >= 0),
      pending_debits numeric(38, 0) not null check (pending_debits >= 0),
      pending_credits numeric(38, 0) not null check (pending_credits >= 0),
      version bigint not null check (version > 0),
      updated_at timestamptz not null,
      primary key (tenant_id, account_id, currency),
      foreign key (tenant_id, account_id) references accounts (tenant_id, id)
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)`);

    // What a posting is found by. Description, entries and metadata stand once, in the log's payload. Foreign keys: none, for the reason
    // given at the log; a reversal reads what it reverses under the head's lock.
    this.addSql(`create table transactions (
      tenant_id uuid not null,
      sequence bigint not null,
      id uuid not null,
      idempotency_key text collate "C" not null,
      fingerprint bytea not null check (octet_length(fingerprint) = 33),
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
      currency text not null check (currency in ('NGN', 'USD', 'EUR', 'GBP')),
      sequence bigint not null,
      position smallint not null check (position >= 0),
      side text not null check (side in ('debit', 'credit')),
      amount bigint not null check (amount > 0),
      balance_after numeric(38, 0) not null,
      primary key (tenant_id, account_id, currency, sequence, position)
    )`);
    // The second witness of the first rule of bookkeeping. All entries of a transaction come in one statement.
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

    // Raised where a set-based write touched other rows than the decision was made on: the transaction then rolls back whole.
    this.addSql(`create function must_change(expected bigint, changed bigint, what text) returns void language plpgsql as $$
      begin
        if changed <> expected then
          raise exception '% of % % were as they had been read', changed, expected, what using errcode = 'serialization_failure';
        end if;
      end $$`);

    this.addSql(`create function must_be(expected text, actual text, what text) returns void language plpgsql as $$
      begin
        if actual is distinct from expected then
          raise exception '% are not as they are remembered', what using errcode = 'serialization_failure';
        end if;
      end $$`);

    for (const table of ['heads', 'log', 'accounts', 'balances', 'transactions', 'entries']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      // The owner, who runs `verify` and `rebuild`, sees every tenant's rows, to find the tenants there are; he changes only those of the
      // tenants he names. The service's role is no member of his.
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
  }
}
