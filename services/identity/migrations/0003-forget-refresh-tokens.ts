// Refresh tokens are forgotten when they expire, not when their whole session does: one that is refreshed never does.
import { Migration } from '@mikro-orm/migrations';

export class ForgetRefreshTokens extends Migration {
  override up(): void {
    // The sweep of what has expired.
    this.addSql('create index refresh_tokens_expiry on refresh_tokens (expires_at)');
  }
}
