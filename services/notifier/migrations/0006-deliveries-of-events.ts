// Finds the deliveries of an event, for the filters `event_id` and `transaction_id` of the list.
import { Migration } from '@mikro-orm/migrations';

export class DeliveriesOfEvents extends Migration {
  override up(): void {
    this.addSql('create index deliveries_of_event on deliveries (tenant_id, event_id)');
  }
}
