// The function that deletes the rows of a tenant, which learns the tables of each migration.

/**
 * SQL of the function `delete_tenant`: deletes at most so many rows of a tenant and returns whether some may be left. As the owner, because the
 * service's role deletes no rows of a log. `tables`: children before their parents.
 */
export const deleteTenant = (
  tables: readonly string[],
): string => `create or replace function delete_tenant(tenant uuid, max_rows bigint) returns boolean language plpgsql security definer
      set search_path = public, pg_temp set enable_seqscan = off
    as $$
      declare
        name text;
        condition text;
        deleted bigint;
        rest bigint := max_rows;
      begin
        perform set_config('app.tenant', tenant::text, true), set_config('app.tenants', '', true);
        -- One deletion of a tenant at a time.
        perform pg_advisory_xact_lock(hashtextextended('delete ' || tenant, 0));

        if not exists (select from deleted_tenants where tenant_id = tenant) then
          -- A tenant without a head gets one, so that this waits for a transaction that makes it, or that one for this.
          insert into heads (tenant_id, sequence, hash, last_at, rebuilt)
          values (tenant, 0, decode(repeat('00', 32), 'hex'), to_timestamp(0), 0) on conflict do nothing;
          with head as (delete from heads where tenant_id = tenant returning sequence, hash)
          insert into deleted_tenants select tenant, sequence, hash, clock_timestamp() from head;
        end if;

        -- A row that the relay updates meanwhile would be missed by its ctid.
        delete from relay_marks where tenant_id = tenant;
        delete from relay_dead_letters where tenant_id = tenant;

        foreach name in array array[${tables.map((table) => `'${table}'`).join(', ')}]
        loop
          -- The last checkpoint stays, to be compared with what others have kept.
          condition := case name when 'accounts' then
            'and not exists (select from accounts child where child.tenant_id = $1 and child.parent_code = item.code)'
            when 'checkpoints' then
            'and exists (select from checkpoints later where later.tenant_id = $1 and (later.origin, later.size) > (item.origin, item.size))' else '' end;
          loop
            if rest <= 0 then return true; end if;
            execute format('delete from %1$I where ctid = any (array(select ctid from %1$I item where tenant_id = $1 %2$s limit $2))', name, condition)
              using tenant, rest;
            get diagnostics deleted = row_count;
            exit when deleted = 0;
            rest := rest - deleted;
          end loop;
        end loop;
        return false;
      end $$`;
