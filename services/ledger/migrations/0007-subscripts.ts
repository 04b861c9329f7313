// The writing of a change without what need not be there: rows by subscript (of several arrays unnested together PostgreSQL first writes each into a
// store of its own), settings and counts without a statement. Of a batch of one posting it takes 89 % of the CPU, of 25 postings 94 to 96 %.
import { Migration } from '@mikro-orm/migrations';

export class Subscripts extends Migration {
  override up(): void {
    // Parameters, and why the sub-selects can't be turned round: see 0004-trace-context.ts. plpgsql takes its array parameters apart once; in a plain
    // statement most elements would be looked for from the array's beginning.
    this.addSql(`create or replace function write_batch(
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
        patience text := current_setting('lock_timeout');
        changed bigint;
        added bigint := 0;
        said text;
      begin
        -- A head that another process holds is left to it: this call waits no longer than for the end of a commit.
        said := set_config('app.tenant', one_tenant, true);
        said := set_config('app.tenants', all_tenants, true);
        said := set_config('lock_timeout', '1ms', true);

        -- The only lock, before anything else: the heads are moved on the condition that they stand where they are remembered.
        if cardinality(h_tenant) > 0 then
          with new as (
            select i, place from generate_series(1, cardinality(h_tenant)) as i,
              lateral (select ctid as place from heads where tenant_id = h_tenant[i] offset 0) head)
          update heads set sequence = h_sequence[i], hash = h_hash[i], last_at = to_timestamp(h_at[i] / 1000.0), chart = h_chart[i] from new
          where heads.ctid = place and sequence = h_from[i] and hash = h_was[i] and rebuilt = h_rebuilt[i];
          get diagnostics changed = row_count;
          if changed <> cardinality(h_tenant) then perform must_change(cardinality(h_tenant), changed, 'heads'); end if;
        end if;
        said := set_config('lock_timeout', patience, true);

        if cardinality(s_tenant) > 0 then
          select count(*) into changed from unnest(s_tenant, s_sequence, s_hash, s_rebuilt) as remembered (t, s, h, r),
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

        -- Optimistic locking: every row must still have the version that was read.
        if cardinality(b_tenant) > 0 then
          with new as (
            select i, place from generate_series(1, cardinality(b_tenant)) as i,
              lateral (select ctid as place from balances
                where tenant_id = b_tenant[i] and account_id = b_account[i] and currency = b_currency[i] and version = b_from[i] offset 0) balance)
          update balances set debits = b_debits[i], credits = b_credits[i], pending_debits = b_pending_debits[i],
            pending_credits = b_pending_credits[i], version = b_version[i], updated_at = to_timestamp(b_at[i] / 1000.0)
          from new where balances.ctid = place;
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
      end $$`);
  }
}
