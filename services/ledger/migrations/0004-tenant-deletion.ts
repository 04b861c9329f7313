// Lets all rows of a tenant be deleted, which keeps the end of its log and refuses its return.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';
import { deleteTenant } from './delete-tenant.ts';

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
    this.addSql(
      deleteTenant(['holds', 'hold_entries', 'parts', 'definitions', 'velocity', 'balances', 'accounts', 'entries', 'transactions', 'log']),
    );
    // Functions may be executed by everyone unless that is revoked. `migrate` grants it to the service's role.
    this.addSql('revoke execute on function delete_tenant from public');
  }
}
