// How a change is written: everything in one call, so that a batch that was decided on remembered books takes one round trip, its commit
// included. (As statements of their own, a posting alone took two round trips and fourteen statements.)
import { Migration } from '@mikro-orm/migrations';

export class WriteBatch extends Migration {
  override up(): void {
    // Parameters, by what they are about. All arrays of one group are equally long.
    //   one_tenant, all_tenants   whose rows it sees, as the policies read them
    //   held, places              heads to lock, ascending, and where they must stand; null where the caller holds them
    //   o_                        marks of the relay to open, ascending
    //   l_                        events, in their order; those of postings with what transactions hold beside (t_), null for others
    //   h_                        heads, in groups (h_steps, h_ends) that rise by the same number of events
    //   e_                        entries; e_row is the place of their event in l_
    //   b_                        balances, in groups (b_steps, b_ends) that rise by the same number of postings, 0 where they are new
    // Times are milliseconds since the Unix epoch. Answers the clock. Raises where a row is not as it is remembered.
    this.addSql(`create function write_batch(
      one_tenant text, all_tenants text, held uuid[], places text, o_tenant uuid[], o_until float8,
      l_tenant uuid[], l_sequence bigint[], l_event uuid[], l_type text[], l_at float8[], l_actor text[], l_request text[],
      l_payload bytea[], l_hash bytea[],
      t_id uuid[], t_key text[], t_fingerprint bytea[], t_reference text[], t_reverses uuid[],
      h_tenant uuid[], h_sequence bigint[], h_hash bytea[], h_at float8[], h_chart text[], h_steps bigint[], h_ends int[],
      e_row int[], e_account uuid[], e_currency text[], e_position smallint[], e_side text[], e_amount bigint[], e_after numeric[],
      b_tenant uuid[], b_account uuid[], b_currency text[], b_debits numeric[], b_credits numeric[],
      b_pending_debits numeric[], b_pending_credits numeric[], b_version bigint[], b_at float8[], b_steps bigint[], b_ends int[]
    ) returns float8 language plpgsql as $$
      declare
        first int;
        last int;
        changed bigint;
      begin
        perform set_config('app.tenant', one_tenant, true), set_config('app.tenants', all_tenants, true);

        -- The only lock, before anything else, and never waited for here: what another process holds, this call leaves to it.
        if held is not null then
          perform must_be(places, (select string_agg(sequence || '.' || rebuilt || '.' || encode(hash, 'hex'), ',' order by tenant_id) from (
            select tenant_id, sequence, rebuilt, hash from heads where tenant_id = any(held) order by tenant_id for update skip locked) as mine), 'heads');
        end if;

        if cardinality(o_tenant) > 0 then
          insert into relay_marks (tenant_id, sequence, open_until)
          select t, 0, to_timestamp(o_until / 1000.0) from unnest(o_tenant) as opened (t) order by t
          on conflict (tenant_id) do update set open_until = greatest(relay_marks.open_until, excluded.open_until);
        end if;

        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, payload, hash)
        select t, s, e, y, to_timestamp(c / 1000.0), a, r, p, h
        from unnest(l_tenant, l_sequence, l_event, l_type, l_at, l_actor, l_request, l_payload, l_hash) as new (t, s, e, y, c, a, r, p, h);

        -- An insert that conflicts goes by the primary key whatever the planner thinks, as an update with a join does not. A row that was
        -- inserted after all (xmax 0) was not there to be changed.
        first := 1;
        for step in 1..cardinality(h_steps) loop
          last := h_ends[step];
          with moved as (
            insert into heads (tenant_id, sequence, hash, last_at, chart, rebuilt)
            select t, s, h, to_timestamp(l / 1000.0), c, 0
            from unnest(h_tenant[first:last], h_sequence[first:last], h_hash[first:last], h_at[first:last], h_chart[first:last])
              as new (t, s, h, l, c)
            on conflict (tenant_id) do update
              set sequence = excluded.sequence, hash = excluded.hash, last_at = excluded.last_at, chart = excluded.chart
            where heads.sequence = excluded.sequence - h_steps[step]
            returning xmax <> 0 as updated)
          select count(*) filter (where updated) into changed from moved;
          perform must_change(last - first + 1, changed, 'heads');
          first := last + 1;
        end loop;

        if cardinality(e_row) > 0 then
          insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
          select t, s, i, k, f, r, v, to_timestamp(c / 1000.0)
          from unnest(l_tenant, l_sequence, t_id, t_key, t_fingerprint, t_reference, t_reverses, l_at) as new (t, s, i, k, f, r, v, c)
          where i is not null;

          insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
          select l_tenant[r], a, u, l_sequence[r], p, s, m, b
          from unnest(e_row, e_account, e_currency, e_position, e_side, e_amount, e_after) as new (r, a, u, p, s, m, b);
        end if;

        -- Optimistic locking: every row must still have the version that was read, which is the new one less the postings between.
        first := 1;
        for step in 1..cardinality(b_steps) loop
          last := b_ends[step];
          with moved as (
            insert into balances (tenant_id, account_id, currency, debits, credits, pending_debits, pending_credits, version, updated_at)
            select t, a, u, d, c, pd, pc, v, to_timestamp(at / 1000.0)
            from unnest(b_tenant[first:last], b_account[first:last], b_currency[first:last], b_debits[first:last], b_credits[first:last],
              b_pending_debits[first:last], b_pending_credits[first:last], b_version[first:last], b_at[first:last])
              as new (t, a, u, d, c, pd, pc, v, at)
            on conflict (tenant_id, account_id, currency) do update set
              debits = excluded.debits, credits = excluded.credits, pending_debits = excluded.pending_debits,
              pending_credits = excluded.pending_credits, version = excluded.version, updated_at = excluded.updated_at
            where balances.version = excluded.version - b_steps[step] and b_steps[step] > 0
            returning (xmax <> 0) = (b_steps[step] > 0) as expected)
          select count(*) filter (where expected) into changed from moved;
          perform must_change(last - first + 1, changed, 'balances');
          first := last + 1;
        end loop;

        return extract(epoch from clock_timestamp()) * 1000;
      end $$`);
  }
}
