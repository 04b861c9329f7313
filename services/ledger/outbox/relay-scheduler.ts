// Decides which tenants the relay publishes next, and which wait after a failure.

/** Tenants in one batch, at most. */
const maxTenants = 64;
/** A tenant backs off for so long after its first failure, twice as long with each more in a row, milliseconds. */
const firstBackOffMs = 200;
const maxBackOffMs = 10_000;
/** Events of quiet tenants are collected this long, milliseconds. */
export const quietPeriodMs = 1_000;

/** Tenants (UUIDs) in the order in which they became due. No tenant is in two batches at a time. */
export class RelayScheduler {
  private readonly due = new Set<string>();
  private readonly inBatch = new Set<string>();
  /** Tenants that failed a shared batch: each gets batches of its own until one succeeds. */
  private readonly isolated = new Set<string>();
  /** Failures in a row. */
  private readonly failures = new Map<string, number>();
  /** Tenants that wait for a time of their own, and those that wait for the end of the quiet period. */
  private readonly delayed = new Set<string>();
  private readonly quiet = new Set<string>();
  private isEnding = false;
  private change = Promise.withResolvers<void>();

  /** Makes a tenant due, because its log has grown; with `isQuiet` at the end of the quiet period. A delayed tenant keeps waiting. */
  wake(tenant: string, isQuiet = false): void {
    if (!isQuiet || this.isEnding) return this.repeat([tenant]);
    if (this.quiet.size === 0) setTimeout(() => this.endQuietPeriod(), quietPeriodMs).unref();
    this.quiet.add(tenant);
  }

  /** Makes tenants due again, at once or when their batch is done. */
  repeat(tenants: Iterable<string>): void {
    for (const tenant of tenants) if (!this.delayed.has(tenant)) this.due.add(tenant);
    this.notify();
  }

  /** Takes the next batch, to be passed to `done` after it: up to 64 tenants, or one `isolated` tenant; empty where none is due. */
  take(isolated: boolean): string[] {
    const ready = this.due.values().filter((tenant) => !this.inBatch.has(tenant) && this.isolated.has(tenant) === isolated);
    const tenants = [...ready.take(isolated ? 1 : maxTenants)];
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

  /** Ends the tenant's isolation, and its next back-off is the first again. */
  succeeded(tenant: string): void {
    this.failures.delete(tenant);
    this.isolated.delete(tenant);
  }

  /** Makes tenants due again, each in a batch of its own, because one of them failed the batch. */
  isolate(tenants: string[]): void {
    for (const tenant of tenants) this.isolated.add(tenant);
    this.repeat(tenants);
  }

  /** Makes a tenant due after a failure, later with each one in a row. */
  backOff(tenant: string): void {
    const failures = this.failures.get(tenant) ?? 0;
    this.failures.set(tenant, failures + 1);
    this.delay(tenant, Math.min(firstBackOffMs * 2 ** failures, maxBackOffMs));
  }

  /** Makes a tenant due after so many milliseconds, and not before. */
  delay(tenant: string, ms: number): void {
    this.due.delete(tenant);
    this.delayed.add(tenant);
    const end = () => {
      this.delayed.delete(tenant);
      this.repeat([tenant]);
    };
    setTimeout(end, ms).unref();
  }

  /** Waits until something changes, or for `notify`. */
  changed(): Promise<void> {
    return this.change.promise;
  }

  /** Ends all waits of `changed`. */
  notify(): void {
    this.change.resolve();
    this.change = Promise.withResolvers();
  }

  /** Makes quiet tenants due now, and those to come at once. */
  end(): void {
    this.isEnding = true;
    this.endQuietPeriod();
  }

  private endQuietPeriod(): void {
    this.repeat(this.quiet);
    this.quiet.clear();
  }
}
