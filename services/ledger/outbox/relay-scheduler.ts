// Decides which tenants the relay publishes next, and which wait after a failure.

/** Tenants in one batch, at most. */
const maxTenants = 64;

/** Delays before the next try, milliseconds: the first one, doubled with each failure in a row, at most `maxMs`. */
export interface BackOff {
  firstMs: number;
  maxMs: number;
}

/** Tenants (UUIDs) in the order in which they became due. No tenant is in two batches at a time. */
export class RelayScheduler {
  private readonly isQuiet: (tenant: string) => boolean;
  private readonly quietPeriodMs: number;
  private readonly due = new Set<string>();
  private readonly inBatch = new Set<string>();
  /** Tenants that failed a shared batch: each gets batches of its own until one succeeds. */
  private readonly isolated = new Set<string>();
  private readonly failures = new Map<string, number>();
  /** Tenants that back off. */
  private readonly timers = new Map<string, NodeJS.Timeout>();
  /** Tenants that wait for the end of the quiet period. */
  private readonly quiet = new Set<string>();
  private quietTimer: NodeJS.Timeout | undefined;
  private waiters: (() => void)[] = [];
  private state: 'open' | 'ending' | 'closed' = 'open';

  /** `isQuiet`: whether a tenant's events may wait for a quiet period. */
  constructor(isQuiet: (tenant: string) => boolean, quietPeriodMs: number) {
    this.isQuiet = isQuiet;
    this.quietPeriodMs = quietPeriodMs;
  }

  /** Makes a tenant due, because its log has grown. A tenant that backs off keeps waiting. */
  wake(tenant: string): void {
    if (this.state === 'open' && this.isQuiet(tenant)) {
      this.quiet.add(tenant);
      this.quietTimer ??= setTimeout(() => this.endQuietPeriod(), this.quietPeriodMs);
    } else this.repeat([tenant]);
  }

  /** Makes tenants due again, at once or when their batch is done. */
  repeat(tenants: string[]): void {
    for (const tenant of tenants) if (!this.timers.has(tenant)) this.due.add(tenant);
    this.notify();
  }

  /** Takes the next batch, to be passed to `done` after it: up to 64 tenants, or one `isolated` tenant; empty where none is due. */
  take(isolated: boolean): string[] {
    const tenants: string[] = [];
    for (const tenant of this.due) {
      if (tenants.length === (isolated ? 1 : maxTenants)) break;
      if (!this.inBatch.has(tenant) && this.isolated.has(tenant) === isolated) tenants.push(tenant);
    }
    for (const tenant of tenants) {
      this.due.delete(tenant);
      this.inBatch.add(tenant);
    }
    return tenants;
  }

  /** Ends a batch. */
  done(tenants: string[]): void {
    for (const tenant of tenants) this.inBatch.delete(tenant);
    this.notify();
  }

  /** Whether a tenant is due or in a batch. */
  get isBusy(): boolean {
    return this.due.size > 0 || this.inBatch.size > 0;
  }

  /** Ends the tenant's back-off and isolation. */
  succeeded(tenant: string): void {
    this.failures.delete(tenant);
    this.isolated.delete(tenant);
  }

  /** Makes tenants due again, each in a batch of its own, because one of them failed the batch. */
  isolate(tenants: string[]): void {
    for (const tenant of tenants) this.isolated.add(tenant);
    this.repeat(tenants);
  }

  /** Keeps a tenant waiting, longer with each failure in a row. */
  backOff(tenant: string, { firstMs, maxMs }: BackOff): void {
    this.due.delete(tenant);
    if (this.state === 'closed' || this.timers.has(tenant)) return;
    const failures = this.failures.get(tenant) ?? 0;
    this.failures.set(tenant, failures + 1);
    const again = () => {
      this.timers.delete(tenant);
      this.repeat([tenant]);
    };
    this.timers.set(tenant, setTimeout(again, Math.min(firstMs * 2 ** failures, maxMs)));
  }

  /** Waits until something changes. */
  async changed(): Promise<void> {
    if (this.state !== 'closed') await new Promise<void>((resolve) => this.waiters.push(resolve));
  }

  /** Ends all quiet periods. */
  end(): void {
    this.state = 'ending';
    this.endQuietPeriod();
  }

  /** Stops all timers. */
  close(): void {
    this.state = 'closed';
    clearTimeout(this.quietTimer);
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.notify();
  }

  private endQuietPeriod(): void {
    clearTimeout(this.quietTimer);
    this.quietTimer = undefined;
    this.repeat([...this.quiet]);
    this.quiet.clear();
  }

  private notify(): void {
    const waiters = this.waiters;
    this.waiters = [];
    for (const resolve of waiters) resolve();
  }
}
