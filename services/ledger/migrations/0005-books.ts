// Adds settings of books, periods, postings that count at another time than they are recorded, and the index of transactions' metadata.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

// All of the accounting contract, so that a later version can write one that this version knows.
const eventTypes = [
  ...['transaction.posted', 'account.created', 'account.updated'],
  ...['hold.created', 'hold.voided', 'hold.expired', 'schedule.failed', 'definition.changed'],
  ...['books.updated', 'period.closed', 'period.reopened', 'account.reconciled', 'subject.erased', 'transaction.redacted'],
  ...['log.imported', 'books.unfrozen'],
];

const tables = ['books', 'periods', 'shifted_transactions', 'shifted_entries', 'shifted_months', 'transaction_metadata'];

export class Books extends Migration {
  override up(): void {
    // Not valid: rows that are there have a type of the narrower check, and need no scan.
    this.addSql('alter domain event_type drop constraint event_type');
    this.addSql(`alter domain event_type add constraint event_type check (value in ('${eventTypes.join(`', '`)}')) not valid`);
    this.createPeriods();
    this.createShifted();
    // Newest first under a text of a key that the books index. Only postings with such a key have rows.
    this.addSql(`create table transaction_metadata (
      tenant_id uuid not null,
      key text collate "C" not null,
      value text collate "C" not null,
      sequence bigint not null,
      primary key (tenant_id, sequence, key)
    )`);
    this.addSql('create index transaction_metadata_value on transaction_metadata (tenant_id, key, value, sequence)');
    this.addSql(writeDated);
    for (const table of tables) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    this.addSql(`insert into enabled select 'books' where not exists (select from heads)`);
  }

  private createPeriods(): void {
    // A tenant without a row has the defaults. `record`: a JSON object with the fields of REST; the rest is what the writer and searches need.
    // `indexed_since`: for each key of `indexed_metadata` the sequence of the event that declared it, as a JSON object.
    this.addSql(`create table books (
      tenant_id uuid primary key,
      version bigint not null check (version >= 0),
      record text not null,
      indexed_since text not null default '{}',
      closed_through date,
      final_through date,
      open_from timestamptz,
      updated_at timestamptz not null,
      check ((closed_through is null) = (open_from is null))
    )`);
    this.addSql(`create table periods (
      tenant_id uuid not null,
      sequence positive not null,
      id uuid not null,
      action text not null check (action in ('close', 'reopen')),
      through date,
      final boolean not null,
      year_end boolean not null,
      closing_transactions uuid[] not null,
      reason text not null,
      actor text not null,
      created_at timestamptz not null,
      primary key (tenant_id, sequence),
      unique (tenant_id, id)
    )`);
  }

  private createShifted(): void {
    // Transactions that count at another time than they were recorded, by both.
    this.addSql(`create table shifted_transactions (
      tenant_id uuid not null,
      sequence bigint not null,
      effective_at timestamptz not null,
      primary key (tenant_id, sequence)
    )`);
    this.addSql('create index shifted_transactions_effective on shifted_transactions (tenant_id, effective_at, sequence)');
    // One row per transaction, account and currency: what it moved, and the sums of all shifted ones so far, in the order of the log.
    this.addSql(`create table shifted_entries (
      tenant_id uuid not null,
      account_id uuid not null,
      currency currency_code not null,
      sequence bigint not null,
      effective_at timestamptz not null,
      debits total not null,
      credits total not null,
      running_debits total not null,
      running_credits total not null,
      primary key (tenant_id, account_id, currency, sequence)
    )`);
    this.addSql(`create index shifted_entries_effective on shifted_entries (tenant_id, account_id, currency, effective_at, sequence)
      include (debits, credits)`);
    // Sums by the month (UTC) in which they count, so that a book brought in with its real dates is not read row by row.
    this.addSql(`create table shifted_months (
      tenant_id uuid not null,
      account_id uuid not null,
      currency currency_code not null,
      month date not null,
      debits total not null,
      credits total not null,
      last_sequence bigint not null,
      primary key (tenant_id, account_id, currency, month)
    )`);
  }
}

// Writes what only dated postings and indexed metadata need, after `write_batch` and `write_extras` in the same statement. The heads are locked.
//   d_   shifted transactions
//   e_   their movements, one per transaction, account and currency, ascending by sequence
//   m_   indexed metadata
const writeDated = `create function write_dated(
      now_ms float8,
      d_tenant uuid[], d_sequence bigint[], d_at float8[],
      e_tenant uuid[], e_account uuid[], e_currency text[], e_sequence bigint[], e_at float8[], e_debits numeric[], e_credits numeric[],
      m_tenant uuid[], m_key text[], m_value text[], m_sequence bigint[]
    ) returns float8 language plpgsql
      set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    as $$
      begin
        insert into shifted_transactions (tenant_id, sequence, effective_at)
        select d_tenant[i], d_sequence[i], to_timestamp(d_at[i] / 1000.0) from generate_series(1, cardinality(d_tenant)) as i;

        if cardinality(e_tenant) > 0 then
          with moved as (
            select e_tenant[i] as tenant, e_account[i] as account, e_currency[i] as currency, e_sequence[i] as sequence,
              to_timestamp(e_at[i] / 1000.0) as at, e_debits[i] as debits, e_credits[i] as credits
            from generate_series(1, cardinality(e_tenant)) as i
          ), known as (
            select tenant, account, currency, last.running_debits, last.running_credits
            from (select distinct tenant, account, currency from moved) as wanted left join lateral (
              select running_debits, running_credits from shifted_entries s
              where s.tenant_id = wanted.tenant and s.account_id = wanted.account and s.currency = wanted.currency
              order by sequence desc limit 1) as last on true
          )
          insert into shifted_entries
            (tenant_id, account_id, currency, sequence, effective_at, debits, credits, running_debits, running_credits)
          select tenant, account, currency, sequence, at, debits, credits,
            coalesce(running_debits, 0) + sum(debits) over so_far, coalesce(running_credits, 0) + sum(credits) over so_far
          from moved join known using (tenant, account, currency)
          window so_far as (partition by tenant, account, currency order by sequence);

          insert into shifted_months (tenant_id, account_id, currency, month, debits, credits, last_sequence)
          select e_tenant[i], e_account[i], e_currency[i], date_trunc('month', to_timestamp(e_at[i] / 1000.0) at time zone 'UTC')::date,
            sum(e_debits[i]), sum(e_credits[i]), max(e_sequence[i])
          from generate_series(1, cardinality(e_tenant)) as i group by 1, 2, 3, 4
          on conflict (tenant_id, account_id, currency, month) do update set debits = shifted_months.debits + excluded.debits,
            credits = shifted_months.credits + excluded.credits, last_sequence = excluded.last_sequence;
        end if;

        insert into transaction_metadata (tenant_id, key, value, sequence)
        select m_tenant[i], m_key[i], m_value[i], m_sequence[i] from generate_series(1, cardinality(m_tenant)) as i;
        return now_ms;
      end $$`;
