// When the event at a tenant's mark was made: what comes again is no younger, and what is younger has not been taken.
import { Migration } from '@mikro-orm/migrations';

export class MarkTimes extends Migration {
  override up(): void {
    this.addSql('alter table inbox add column created_ms bigint');
  }
}
