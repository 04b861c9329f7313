// The policies for one key alone, as identity asked before it verified several in one statement, go.
import { Migration } from '@mikro-orm/migrations';

export class KeysTogether extends Migration {
  override up(): void {
    this.addSql('drop policy of_key on api_keys');
    this.addSql('drop policy of_key on tenants');
  }
}
