// The function that freezes a tenant: the auditor's role may mark a head so, and change nothing else of it.

/**
 * SQL of the function `freeze_tenant`: marks the tenant's head, records why, and makes void what ledgers have cached of it. Returns whether it was
 * this call that froze it; false also until `proof` is enabled, because ledgers of before would not see the mark, and of a deleted tenant.
 */
export const freezeTenant = `create function freeze_tenant(tenant uuid, why text) returns boolean language plpgsql security definer
      set search_path = public, pg_temp
    as $$
      begin
        perform set_config('app.tenant', tenant::text, true), set_config('app.tenants', '', true);
        if not exists (select from enabled where feature = 'proof') or exists (select from deleted_tenants where tenant_id = tenant) then
          return false;
        end if;
        -- Where the head is lost, so that nothing makes one and begins a second log.
        insert into heads (tenant_id, sequence, hash, last_at, rebuilt)
        values (tenant, 0, decode(repeat('00', 32), 'hex'), to_timestamp(0), extract(epoch from clock_timestamp()) * 1000) on conflict do nothing;
        update heads set frozen_at = clock_timestamp(), rebuilt = rebuilt + 1 where tenant_id = tenant and frozen_at is null;
        if not found then return false; end if;
        insert into freezes (tenant_id, sequence, at, reason)
        select tenant_id, sequence, frozen_at, why from heads where tenant_id = tenant on conflict do nothing;
        return true;
      end $$`;
