// Drops what is stored of a transaction's event, delivered or not, when texts of the transaction are redacted.
import { textArray, uuidArray } from '../platform/arrays.ts';
import { toUuid } from '../platform/ids.ts';
import type { Client } from '../platform/postgres.ts';
import { deadLettersJob } from './dead-letters.ts';
import { lockLeases } from './leases.ts';
import type { IdentifiedEvent } from './new-deliveries.ts';

/**
 * Deletes deliveries of the events that redactions name, with their bodies and attempts, and dead letters; other events are ignored. Those derived
 * from the same posting stay: they have none of its texts. An attempt that is under way ends without a trace.
 */
export async function dropRedacted(client: Client, events: readonly IdentifiedEvent[]): Promise<void> {
  for (const { tenant, event } of events) {
    if (event.data.case !== 'transactionRedacted') continue;
    const { eventId, sequence } = event.data.value;
    const values = [tenant, toUuid('evt', eventId)];
    // No delivery is leased meanwhile. Leases before deliveries, as the result of an attempt locks them.
    await client.query(lockLeases, [tenant]);
    const found = 'select id from deliveries where tenant_id = $1 and event_id = $2';
    await client.query(`delete from leases where tenant_id = $1 and delivery_id = any (array(${found}))`, values);
    const { rows } = await client.query<{ id: string }>(
      'delete from deliveries where tenant_id = $1 and event_id = $2 returning id',
      values,
    );
    await client.query('delete from attempts where tenant_id = $1 and delivery_id = any ($2::uuid[])', [
      tenant,
      uuidArray(rows.map(({ id }) => id)),
    ]);
    await client.query('delete from payloads where tenant_id = $1 and event_id = $2', values);
    await client.query(deadLettersJob);
    await client.query('delete from dead_letters where source = any ($1::text[])', [textArray([`${event.tenantId} ${sequence}.0`])]);
  }
}
