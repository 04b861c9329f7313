// Several keys are verified in one statement. The policies for one key stay for replicas of the version before, which run on while this one is
// deployed.
import { Migration } from '@mikro-orm/migrations';

export class VerifyManyKeys extends Migration {
  override up(): void {
    const keys = `(select unnest(nullif(current_setting('app.key_ids', true), '')::uuid[]))`;
    this.addSql(`create policy of_keys on api_keys for select using (id in ${keys})`);
    this.addSql(`create policy of_keys on tenants for select using (
      tenant_id in (select k.tenant_id from api_keys k where k.id in ${keys}))`);
  }
}
