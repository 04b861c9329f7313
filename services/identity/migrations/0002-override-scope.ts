// Adds the scope that lets a key post in spite of blocks and limits.
import { Migration } from '@mikro-orm/migrations';

export class OverrideScope extends Migration {
  override up(): void {
    this.addSql('alter table api_keys drop constraint api_keys_scopes_check');
    this
      .addSql(`alter table api_keys add constraint api_keys_scopes_check check (cardinality(scopes) > 0 and scopes <@ array['accounts:read',
      'accounts:write', 'balances:read', 'transactions:read', 'transactions:write', 'webhooks:manage', 'reports:read', 'limits:override'])`);
  }
}
