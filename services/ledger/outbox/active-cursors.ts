// Which tenants' relay cursors (rows of `relay_marks`) this process knows to be active, so that most postings need not touch them.

/** How long a cursor stays active, milliseconds. The poll reads active cursors only, so it finds what a killed process left behind. */
const activeMs = 10 * 60_000;
/** A cursor is activated again this long before it expires, milliseconds: the database's clock may be set back a little. */
const marginMs = 60_000;
/** Tenants remembered; to activate an evicted one again is harmless. */
const maxTenants = 200_000;

/** Cursors that are active. Nobody deactivates a cursor before its time. */
export class ActiveCursors {
  private readonly until = new Map<string, number>();

  /** Whether a change at this time (the database's clock, milliseconds) must activate the tenant's cursor. */
  isInactive(tenant: string, nowMs: number): boolean {
    return (this.until.get(tenant) ?? 0) - marginMs <= nowMs;
  }

  /** Remembers cursors that a committed transaction activated. */
  activated(tenants: string[], nowMs: number): void {
    if (this.until.size > maxTenants) this.until.clear();
    for (const tenant of tenants) this.until.set(tenant, activeUntil(nowMs));
  }

  /** To be called with each new connection: it may lead to a promoted standby that lacks what was activated. */
  clear(): void {
    this.until.clear();
  }
}

/** Until when a cursor that is activated now stays active, milliseconds. */
export function activeUntil(nowMs: number): number {
  return nowMs + activeMs;
}
