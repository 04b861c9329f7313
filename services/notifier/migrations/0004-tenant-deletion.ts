// Remembers deleted tenants, so that nothing makes rows for them again.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class TenantDeletion extends Migration {
  override up(): void {
    this.addSql('create table deleted_tenants (tenant_id uuid primary key, deleted_at timestamptz not null)');
    for (const statement of tenantPolicy('deleted_tenants')) this.addSql(statement);
    // As a conflict, not as a fault of the data: what is tried again finds the tenant deleted.
    this.addSql(`create function tenant_must_not_return() returns trigger language plpgsql as $$
      begin
        if exists (select from deleted_tenants where tenant_id = new.tenant_id) then
          raise exception 'the tenant was deleted' using errcode = 'serialization_failure', constraint = 'tenant_must_not_return';
        end if;
        return null;
      end $$`);
    // Each tenant's first rows, which come before any others. After the insert, because it may have waited for the deletion.
    for (const table of ['inbox', 'webhooks', 'limits']) {
      this.addSql(`create trigger tenant_must_not_return after insert on ${table} for each row execute function tenant_must_not_return()`);
    }
  }
}
