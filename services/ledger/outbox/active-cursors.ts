// How the relay learns that a tenant's log may hold more than was published, also when the process that wrote it is gone: the tenant's mark
// is opened with the first change, in its transaction, and stays open for ten minutes, so that a busy tenant's postings pay nothing for it
// (a flag of every posting would be a second row that every posting dirties). The relay looks through the open marks alone, and closes one
// when its time is over and everything is published, and looks through all of them once when it starts.
/** How long a mark stays open, milliseconds. */
const openMs = 10 * 60_000;
/**
 * A mark is opened again so long before it may be closed, milliseconds: the database's clock may be set back a little, and a batch reads it
 * before it locks. Who stalls longer in between relays what it writes by itself, or is killed, and then somebody starts.
 */
const marginMs = 60_000;
/** Tenants remembered; one that was forgotten is opened again, which does no harm. */
const most = 200_000;

/** Which marks this process knows to be open. True for as long as it says, whatever other processes of the same server do: nobody closes a mark early. */
export class ActiveCursors {
  private readonly until = new Map<string, number>();

  /** Whether the tenant's mark must be opened by a change at this time (the database's clock, milliseconds). */
  isInactive(tenant: string, nowMs: number): boolean {
    return (this.until.get(tenant) ?? 0) - marginMs <= nowMs;
  }

  /** Remembers what was opened and committed. */
  activated(tenants: string[], nowMs: number): void {
    if (this.until.size > most) this.until.clear();
    for (const tenant of tenants) this.until.set(tenant, activeUntil(nowMs));
  }

  /**
   * To be called with each new connection: it may lead to a server that has not what was opened, as a standby that was behind, and what is then posted
   * would not be looked for. To open them again does no harm.
   */
  clear(): void {
    this.until.clear();
  }
}

/** Until when a mark that is opened now stays open. */
export function activeUntil(nowMs: number): number {
  return nowMs + openMs;
}
