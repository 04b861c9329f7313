// Adds blocks and limits to accounts, as JSON text; null where an account has none, so that existing rows stay as they are.
import { Migration } from '@mikro-orm/migrations';

export class AccountRules extends Migration {
  override up(): void {
    this.addSql('alter table accounts add column limits text, add column blocked text');
  }
}
