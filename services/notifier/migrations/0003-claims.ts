// Who sends what, in a table of its own: a claim and its end rewrote a delivery with all of its indexes.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class Claims extends Migration {
  override up(): void {
    // A row is a worker's until its lease ends, or while it stays: who records deletes it. Unlogged: what PostgreSQL forgets in a crash is
    // claimed and sent again, as it is after the crash of a worker, and whoever held it records nothing.
    this.addSql(`create unlogged table claims (
      tenant_id uuid not null,
      delivery_id uuid not null,
      claim_id uuid not null,
      started_at timestamptz not null,
      until timestamptz not null,
      primary key (tenant_id, delivery_id)
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);
    for (const statement of tenantPolicy('claims')) this.addSql(statement);
    // What is in flight meanwhile is due when its lease ends. A service of the version before takes events on, and sends nothing more.
    this.addSql('alter table deliveries drop column claim_id, drop column started_at');
    this.addSql(`alter table deliveries add constraint deliveries_promised check (status = 'pending' or next_retry_at is null)`);
  }
}
