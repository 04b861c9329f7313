// A webhook's address is kept as it was sent, and a scheme may be sent in capitals.
import { Migration } from '@mikro-orm/migrations';

export class UrlOfAnyCase extends Migration {
  override up(): void {
    this.addSql('alter table webhooks drop constraint webhooks_url_check');
    this.addSql(`alter table webhooks add constraint webhooks_url_check check (url ~* '^https?://' and length(url) <= 2048)`);
  }
}
