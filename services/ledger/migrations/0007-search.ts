// Adds the auditor's indexes of the log: words and volumes of transactions, progress of each index; and filters under names.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';
import { deleteTenant } from './delete-tenant.ts';

const tables = ['search_indexes', 'transaction_texts', 'volumes', 'filters'];

export class Search extends Migration {
  override up(): void {
    // `name` is a key of metadata, or empty for words and volumes. What stands in the log from `since` on is not the auditor's to index; 0: all is.
    // `caught_up`: it has been at the end of what is to be indexed.
    this.addSql(`create table search_indexes (
      tenant_id uuid not null,
      name text collate "C" not null,
      since bigint not null,
      through bigint not null,
      caught_up boolean not null default false,
      primary key (tenant_id, name)
    )`);
    // Besides the words of description and reference a row has one lexeme for its tenant and the span of its sequence.
    this.addSql(`create table transaction_texts (
      tenant_id uuid not null,
      sequence bigint not null,
      words tsvector not null,
      primary key (tenant_id, sequence)
    )`);
    // Without a list of pending rows, which each of a search's steps would read.
    this.addSql('create index transaction_texts_words on transaction_texts using gin (words) with (fastupdate = off)');
    // By the quarter of an hour in which transactions count: no day of a time zone begins within one.
    this.addSql(`create table volumes (
      tenant_id uuid not null,
      currency currency_code not null,
      quarter timestamptz not null,
      transactions bigint not null,
      debits total not null,
      primary key (tenant_id, currency, quarter)
    )`);
    this.addSql(`create table filters (
      tenant_id uuid not null,
      name text collate "C" not null,
      query text not null,
      primary key (tenant_id, name)
    )`);
    for (const table of tables) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    // The indexer looks for work across tenants in these tables only.
    for (const table of ['heads', 'books', 'search_indexes']) {
      this.addSql(`create policy indexer on ${table} for select using ((select current_setting('app.indexer', true)) = 'on')`);
    }
    this.addSql(findTexts);
    this.addSql('revoke execute on function find_texts from public');
    this.addSql(
      deleteTenant([
        ...['search_indexes', 'transaction_texts', 'volumes', 'filters', 'job_chunks', 'jobs', 'holds', 'hold_entries', 'parts'],
        ...['definitions', 'velocity', 'balances', 'accounts', 'entries', 'shifted_entries', 'shifted_months', 'shifted_transactions'],
        ...['transaction_metadata', 'periods', 'books', 'transactions', 'log'],
      ]),
    );
  }
}

// Positions of texts that fit, newest first, at least `first` and before `before`. It searches span after span, so that a frequent word costs no more
// than the spans that fill a page. After `max_spans` the last row is `cut`: the position at which it stopped. As the owner, because row-level
// security keeps a text search from its index; the lexeme of tenant and span comes from the transaction's own tenant.
const findTexts = `create function find_texts(query text, first bigint, before bigint, wanted bigint, max_spans bigint)
      returns table (sequence bigint, cut boolean) language plpgsql stable security definer
      set search_path = public, pg_temp set enable_bitmapscan = on set enable_seqscan = off
    as $$
      declare
        own uuid := nullif(current_setting('app.tenant', true), '')::uuid;
        span bigint := (before - 1) >> 14;
        spans bigint := 0;
        found bigint := 0;
        more bigint;
      begin
        while own is not null and span >= first >> 14 and found < wanted loop
          if spans = max_spans then
            return query select (span + 1) << 14, true;
            return;
          end if;
          return query select t.sequence, false from transaction_texts t
            where t.words @@ (query || ' & ''@' || replace(own::text, '-', '') || span || '''')::tsquery
              and (t.tenant_id = own) is true and (t.sequence >= find_texts.first and t.sequence < before) is true
            order by t.sequence desc limit wanted - found;
          get diagnostics more = row_count;
          found := found + more;
          spans := spans + 1;
          span := span - 1;
        end loop;
      end $$`;
