// Lets a webhook subscribe to events of holds and rules.
import { Migration } from '@mikro-orm/migrations';

const eventTypes = [
  ...['transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'test.webhook'],
  ...['hold.created', 'hold.captured', 'hold.voided', 'hold.expired', 'definition.changed'],
];
const list = `'${eventTypes.join(`', '`)}'`;

export class Payments extends Migration {
  override up(): void {
    // Not valid: rows that are there have a type of the narrower check, and need no scan.
    this.addSql(`alter table webhooks drop constraint webhooks_events_check,
      add constraint webhooks_events_check check (cardinality(events) > 0 and events <@ array[${list}]) not valid`);
    this.addSql(`alter table deliveries drop constraint deliveries_event_type_check,
      add constraint deliveries_event_type_check check (event_type in (${list})) not valid`);
  }
}
