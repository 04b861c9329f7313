// The one table without a key: where all tables are published, to move the database to another server, PostgreSQL refused to forget failures.
import { Migration } from '@mikro-orm/migrations';

export class ReplicaIdentity extends Migration {
  override up(): void {
    this.addSql('alter table login_failures replica identity full');
  }
}
