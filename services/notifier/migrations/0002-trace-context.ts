// The trace context that a delivery's request carries on.
import { Migration } from '@mikro-orm/migrations';

export class TraceContext extends Migration {
  override up(): void {
    // Null: the event came without one, or before this column.
    this.addSql(`alter table payloads add column traceparent text check (octet_length(traceparent) = 55)`);
  }
}
