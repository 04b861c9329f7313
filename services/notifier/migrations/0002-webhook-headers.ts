// Adds the headers that a webhook sends with each delivery: their names, and all of them encrypted.
import { Migration } from '@mikro-orm/migrations';

export class WebhookHeaders extends Migration {
  override up(): void {
    // Encrypted as the secret is: key id, then nonce, ciphertext and tag. A replica of the version before leaves both columns alone.
    this.addSql(`alter table webhooks
      add column header_names text[] not null default '{}' check (cardinality(header_names) <= 10),
      add column headers text,
      add check ((headers is null) = (cardinality(header_names) = 0))`);
  }
}
