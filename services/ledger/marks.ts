// How the relay learns that a tenant's log may hold more than was published, also when the process that wrote it is gone: the tenant's mark
// is opened with the first change, in its transaction, and stays open for ten minutes, so that a busy tenant's postings pay nothing for it
// (a flag of every posting would be a second row that every posting dirties). The relay looks through the open marks alone, and closes one
// when its time is over and everything is published, and looks through all of them once when it starts.
import type { Client } from '../platform/postgres.ts';

/** How long a mark stays open, milliseconds. */
const openMs = 10 * 60_000;
/**
 * A mark is opened again so long before it may be closed, milliseconds: the database's clock may be set back a little, and a batch reads it
 * before it locks. Who stalls longer in between relays what it writes by itself, or is killed, and then somebody starts.
 */
const marginMs = 60_000;
/** Tenants remembered; one that was forgotten is opened again, which does no harm. */
const most = 200_000;

/** Which marks this process knows to be open. True for as long as it says, whatever other processes do: nobody closes a mark early. */
export class OpenMarks {
  private readonly until = new Map<string, number>();

  /** Whether the tenant's mark must be opened by a change at this time (the database's clock, milliseconds). */
  mustOpen(tenant: string, nowMs: number): boolean {
    return (this.until.get(tenant) ?? 0) - marginMs <= nowMs;
  }

  /** Remembers what was opened and committed. */
  opened(tenants: string[], nowMs: number): void {
    if (this.until.size > most) this.until.clear();
    for (const tenant of tenants) this.until.set(tenant, nowMs + openMs);
  }
}

/** Opens the tenants' marks in the transaction that appends to their logs, after their heads are locked. */
export function openMarks(client: Client, tenants: string[], nowMs: number): Promise<unknown> {
  return client.query({
    name: 'open_marks',
    // In one order, as whoever locks several marks does.
    text: `insert into relay_marks (tenant_id, sequence, open_until)
      select t, 0, to_timestamp($2::float8 / 1000.0) from unnest($1::uuid[]) as opened (t) order by t
      on conflict (tenant_id) do update set open_until = greatest(relay_marks.open_until, excluded.open_until)`,
    values: [tenants, nowMs + openMs],
  });
}
