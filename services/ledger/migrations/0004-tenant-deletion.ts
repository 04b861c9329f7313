// Lets all rows of a tenant be deleted, which keeps the end of its log and refuses its return.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class TenantDeletion extends Migration {
  override up(): void {
    this.addSql(`create table deleted_tenants (
      tenant_id uuid primary key,
      last_sequence not_negative not null,
      last_hash event_hash not null,
      deleted_at timestamptz not null
    )`);
    for (const statement of tenantPolicy('deleted_tenants')) this.addSql(statement);
    this.addSql('create policy operator on deleted_tenants for select to current_user using (true)');

    // The head is deleted first, so that nothing is written while the rest is deleted. Without it no change is decided.
    this.addSql('alter table accounts drop constraint accounts_tenant_id_fkey');
    // After the insert, because it may have waited for a deletion that was not committed.
    this.addSql(`create function heads_must_not_return() returns trigger language plpgsql as $$
      begin
        if exists (select from deleted_tenants where tenant_id = new.tenant_id) then
          raise exception 'the tenant was deleted' using errcode = 'check_violation', constraint = 'heads_must_not_return';
        end if;
        return null;
      end $$`);
    this.addSql('create trigger heads_must_not_return after insert on heads for each row execute function heads_must_not_return()');
    this.addSql(deleteTenant);
    // Functions may be executed by everyone unless that is revoked. `migrate` grants it to the service's role.
    this.addSql('revoke execute on function delete_tenant from public');
  }
}

// Deletes at most so many rows of a tenant and returns whether some may be left. As the owner, because the service's role deletes no rows of a log.
// Children come before their parents, and so do accounts before their groups.
const deleteTenant = `create function delete_tenant(tenant uuid, max_rows bigint) returns boolean language plpgsql security definer
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

        foreach name in array array['holds', 'hold_entries', 'parts', 'definitions', 'velocity', 'balances', 'accounts', 'entries',
          'transactions', 'log']
        loop
          condition := case name when 'accounts' then
            'and not exists (select from accounts child where child.tenant_id = $1 and child.parent_code = item.code)' else '' end;
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
