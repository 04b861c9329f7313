// The functions that write a whole log into a tenant without events, for the auditor's role, which may not change the ledger's tables.

const tables = [
  ...['log', 'redactions', 'accounts', 'balances', 'transactions', 'entries', 'holds', 'hold_entries', 'parts', 'definitions', 'velocity'],
  ...['books', 'periods', 'shifted_transactions', 'shifted_entries', 'shifted_months', 'subject_transactions', 'transaction_metadata'],
  ...['erased_subjects', 'search_indexes'],
];

/** SQL of the functions `begin_import` and `import_rows`. */
export const importLog = [
  // Locks the head, which is made where it is missing, until the transaction ends, and returns whether the tenant has no events.
  `create function begin_import(tenant uuid) returns boolean language plpgsql security definer set search_path = public, pg_temp as $$
      begin
        perform set_config('app.tenant', tenant::text, true), set_config('app.tenants', '', true);
        insert into heads (tenant_id, sequence, hash, last_at, rebuilt)
        values (tenant, 0, decode(repeat('00', 32), 'hex'), to_timestamp(0), 0) on conflict do nothing;
        perform from heads where tenant_id = tenant for update;
        return not exists (select from heads where tenant_id = tenant and (sequence > 0 or frozen_at is not null))
          and not exists (select from log where tenant_id = tenant);
      end $$`,
  // Adds rows of a table, while the head is at 0. The row of `heads` comes last: nothing may be added after it. The relay goes on after its `published`.
  `create function import_rows(tenant uuid, name text, added json) returns void language plpgsql security definer
      set search_path = public, pg_temp
    as $$
      begin
        perform set_config('app.tenant', tenant::text, true), set_config('app.tenants', '', true);
        perform from heads where tenant_id = tenant and sequence = 0 for update;
        if not found then
          raise exception 'the tenant has events' using errcode = 'object_not_in_prerequisite_state';
        end if;
        if name = 'heads' then
          update heads set sequence = head.sequence, hash = head.hash, last_at = head.last_at, chart = head.chart, rebuilt = rebuilt + 1
          from (select sequence, hash, last_at, chart from json_populate_recordset(null::heads, added)) as head where tenant_id = tenant;
          insert into relay_marks (tenant_id, sequence, open_until)
          values (tenant, (added -> 0 ->> 'published')::bigint, clock_timestamp()) on conflict (tenant_id) do update
            set sequence = greatest(relay_marks.sequence, excluded.sequence), open_until = excluded.open_until;
        elsif name = any (array[${tables.map((table) => `'${table}'`).join(', ')}]) then
          execute format('insert into %1$I select * from json_populate_recordset(null::%1$I, $1) as row where row.tenant_id = $2', name)
            using added, tenant;
        else
          raise exception '% is no table of an import', name using errcode = 'invalid_parameter_value';
        end if;
      end $$`,
];
