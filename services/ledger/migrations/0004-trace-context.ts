// The caller's trace context beside each event, and the writing of a change with fewer statements: one for all heads and one for all
// balances, however far each rises. (As one for each distance, a batch over 100 tenants cost PostgreSQL 68 µs a posting; so, 50.)
import { Migration } from '@mikro-orm/migrations';

export class TraceContext extends Migration {
  override up(): void {
    // As https://www.w3.org/TR/trace-context/ has it. Not hashed: it says how an event is watched, not what happened.
    this.addSql(`alter table log add column traceparent text check (octet_length(traceparent) = 55)`);

    // The function of the same name with other parameters stays for ledgers of the version before, which run on while this one is deployed.
    //
    // Parameters, by what they are about. All arrays of one group are equally long.
    //   one_tenant, all_tenants   whose rows it sees, as the policies read them
    //   s_                        heads that must stand as they are remembered, and are not moved
    //   h_                        heads to move, ascending; _from, _was: where each must stand
    //   o_                        marks of the relay to open, ascending
    //   l_                        events, in their order; those of postings with what transactions hold beside (t_), null for others
    //   e_                        entries; e_row is the place of their event in l_
    //   b_                        balances; b_from is the version that was read, 0 where they are new
    // Times are milliseconds since the Unix epoch. Answers the clock. Raises where a row is not as it is remembered.
    //
    // Rows to change are found by key in a sub-select that can't be turned round (offset 0) and changed by their place: with the settings
    // below no other plan is left, whatever the planner thinks of a table that was empty when it looked. An insert that conflicts goes by
    // key, too, but locks each row first and asks the policies three times.
    this.addSql(`create function write_batch(
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
      begin
        -- A head that another process holds is left to it: this call waits no longer than for the end of a commit.
        perform set_config('app.tenant', one_tenant, true), set_config('app.tenants', all_tenants, true),
          set_config('lock_timeout', '1ms', true);

        -- The only lock, before anything else: the heads are moved on the condition that they stand where they are remembered.
        if cardinality(h_tenant) > 0 then
          with new as (
            select place, new.* from unnest(h_tenant, h_from, h_was, h_rebuilt, h_sequence, h_hash, h_at, h_chart)
                as new (tenant, was_sequence, was_hash, was_rebuilt, to_sequence, to_hash, at, to_chart),
              lateral (select ctid as place from heads where tenant_id = tenant offset 0) head)
          update heads set sequence = to_sequence, hash = to_hash, last_at = to_timestamp(at / 1000.0), chart = to_chart from new
          where heads.ctid = place and sequence = was_sequence and hash = was_hash and rebuilt = was_rebuilt;
          get diagnostics changed = row_count;
          perform must_change(cardinality(h_tenant), changed, 'heads');
        end if;
        perform set_config('lock_timeout', patience, true);

        if cardinality(s_tenant) > 0 then
          select count(*) into changed from unnest(s_tenant, s_sequence, s_hash, s_rebuilt) as remembered (t, s, h, r),
            lateral (select from heads where tenant_id = t and sequence = s and hash = h and rebuilt = r offset 0) head;
          perform must_change(cardinality(s_tenant), changed, 'heads');
        end if;

        if cardinality(o_tenant) > 0 then
          insert into relay_marks (tenant_id, sequence, open_until)
          select t, 0, to_timestamp(o_until / 1000.0) from unnest(o_tenant) as opened (t) order by t
          on conflict (tenant_id) do update set open_until = greatest(relay_marks.open_until, excluded.open_until);
        end if;

        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, traceparent, payload, hash)
        select t, s, e, y, to_timestamp(c / 1000.0), a, r, tp, p, h
        from unnest(l_tenant, l_sequence, l_event, l_type, l_at, l_actor, l_request, l_traceparent, l_payload, l_hash)
          as new (t, s, e, y, c, a, r, tp, p, h);

        if cardinality(e_row) > 0 then
          insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
          select t, s, i, k, f, r, v, to_timestamp(c / 1000.0)
          from unnest(l_tenant, l_sequence, t_id, t_key, t_fingerprint, t_reference, t_reverses, l_at) as new (t, s, i, k, f, r, v, c)
          where i is not null;

          insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
          select l_tenant[r], a, u, l_sequence[r], p, s, m, b
          from unnest(e_row, e_account, e_currency, e_position, e_side, e_amount, e_after) as new (r, a, u, p, s, m, b);
        end if;

        -- Optimistic locking: every row must still have the version that was read.
        if cardinality(b_tenant) > 0 then
          with new as (
            select place, new.* from unnest(b_tenant, b_account, b_currency, b_debits, b_credits, b_pending_debits, b_pending_credits,
                b_from, b_version, b_at) as new (tenant, account, unit, d, c, pd, pc, was_version, to_version, at),
              lateral (select ctid as place from balances
                where tenant_id = tenant and account_id = account and currency = unit and version = was_version offset 0) balance)
          update balances set debits = d, credits = c, pending_debits = pd, pending_credits = pc, version = to_version,
            updated_at = to_timestamp(at / 1000.0)
          from new where balances.ctid = place;
          get diagnostics changed = row_count;
          if 0 = any(b_from) then
            insert into balances (tenant_id, account_id, currency, debits, credits, pending_debits, pending_credits, version, updated_at)
            select t, a, u, d, c, pd, pc, v, to_timestamp(at / 1000.0)
            from unnest(b_tenant, b_account, b_currency, b_debits, b_credits, b_pending_debits, b_pending_credits, b_from, b_version, b_at)
              as new (t, a, u, d, c, pd, pc, f, v, at)
            where f = 0 on conflict do nothing;
            get diagnostics added = row_count;
          end if;
          perform must_change(cardinality(b_tenant), changed + added, 'balances');
        end if;

        return extract(epoch from clock_timestamp()) * 1000;
      end $$`);
  }
}
