// The writing of a posting that is a batch by itself, as each is while little is asked. With 48 arrays of one element `write_batch` makes PostgreSQL
// spend a third more CPU on it and its caller half as much again: from the call to the answer 760 µs; so, 640.
import { Migration } from '@mikro-orm/migrations';

export class LonePosting extends Migration {
  override up(): void {
    // Parameters as those of `write_batch`, see 0004-trace-context.ts; l_ and t_ are of the one posting, e_ are its entries, b_ the balances that
    // it changes, none of which is new. What a posting leaves as it is, pending sums and the head's chart, is not written.
    this.addSql(`create function write_batch_of_one(
      h_tenant uuid, h_from bigint, h_was bytea, h_rebuilt bigint, h_sequence bigint, h_hash bytea, h_at float8,
      l_event uuid, l_actor text, l_request text, l_traceparent text, l_payload bytea,
      t_id uuid, t_key text, t_fingerprint bytea, t_reference text, t_reverses uuid,
      e_account uuid[], e_currency text[], e_side text[], e_amount bigint[], e_after numeric[],
      b_account uuid[], b_currency text[], b_debits numeric[], b_credits numeric[], b_from bigint[]
    ) returns float8 language plpgsql
      set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    as $$
      declare
        patience text := current_setting('lock_timeout');
        happened timestamptz := to_timestamp(h_at / 1000.0);
        said text;
      begin
        said := set_config('app.tenant', h_tenant::text, true);
        said := set_config('app.tenants', '', true);

        -- The only lock, before anything else; no longer waited for than a commit may take.
        said := set_config('lock_timeout', '1ms', true);
        update heads set sequence = h_sequence, hash = h_hash, last_at = happened
        where tenant_id = h_tenant and sequence = h_from and hash = h_was and rebuilt = h_rebuilt;
        if not found then perform must_change(1, 0, 'heads'); end if;
        said := set_config('lock_timeout', patience, true);

        insert into log (tenant_id, sequence, event_id, type, created_at, actor, request_id, traceparent, payload, hash)
        values (h_tenant, h_sequence, l_event, 'transaction.posted', happened, l_actor, l_request, l_traceparent, l_payload, h_hash);

        insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
        values (h_tenant, h_sequence, t_id, t_key, t_fingerprint, t_reference, t_reverses, happened);

        insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
        select h_tenant, e_account[i], e_currency[i], h_sequence, i - 1, e_side[i], e_amount[i], e_after[i]
        from generate_series(1, cardinality(e_account)) as i;

        -- Optimistic locking: every row must still have the version that was read.
        for i in 1 .. cardinality(b_account) loop
          update balances set debits = b_debits[i], credits = b_credits[i], version = b_from[i] + 1, updated_at = happened
          where tenant_id = h_tenant and account_id = b_account[i] and currency = b_currency[i] and version = b_from[i];
          if not found then perform must_change(1, 0, 'balances'); end if;
        end loop;

        return extract(epoch from clock_timestamp()) * 1000;
      end $$`);
  }
}
