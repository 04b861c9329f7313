// The rounds of the relay: which tenants may have events, which are being seen to, which wait for another look.
import { batchDelayMs } from '../../platform/batch-delay.ts';
import { restMs } from './subscriptions.ts';

/** Tenants in one round, at most. */
const mostTenants = 64;

/** The tenants (UUIDs) of each next round. None is in two rounds at a time. */
export class Rounds {
  private readonly mayRest: (tenant: string) => boolean;
  /** May have events to publish, the one that waits longest first. */
  private readonly due = new Set<string>();
  private readonly working = new Set<string>();
  /** Times a tenant was held by another replica or not taken, in a row. */
  private readonly misses = new Map<string, number>();
  /** Those whose events were not taken: what they post meanwhile waits with them. */
  private readonly postponed = new Set<string>();
  /** Those who kept the others of a round back, until something of theirs is taken: each takes a round alone. */
  private readonly alone = new Set<string>();
  /** Those that rest before their events are passed over. */
  private readonly resting = new Set<string>();
  private rest: NodeJS.Timeout | undefined;
  /** By tenant, of those that are looked at again. */
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private sleepers: (() => void)[] = [];
  private gatheredAt = 0;
  private state: 'open' | 'ending' | 'closed' = 'open';

  /** `mayRest`: whether a tenant's events need not be seen to at once. */
  constructor(mayRest: (tenant: string) => boolean) {
    this.mayRest = mayRest;
  }

  /** Says that a tenant's log has grown. */
  wake(tenant: string): void {
    if (this.postponed.has(tenant)) return;
    if (this.state === 'open' && this.mayRest(tenant)) {
      this.resting.add(tenant);
      this.rest ??= setTimeout(() => this.endRest(), restMs);
      return;
    }
    this.due.add(tenant);
    this.rouse();
  }

  /** Those of the next round, who are to be given to `done` after it; none where nobody is due. `carried`: events of the round before. */
  take(carried: number): string[] {
    const tenants: string[] = [];
    for (const tenant of this.due) {
      if (tenants.length === mostTenants) break;
      const isAlone = this.alone.has(tenant);
      if (this.working.has(tenant) || (isAlone && tenants.length > 0)) continue;
      tenants.push(tenant);
      this.working.add(tenant);
      if (isAlone) break;
    }
    for (const tenant of tenants) this.due.delete(tenant);
    if (tenants.length > 0) this.gatheredAt = performance.now() + batchDelayMs(carried);
    return tenants;
  }

  /** Ends a round. */
  done(tenants: string[]): void {
    for (const tenant of tenants) this.working.delete(tenant);
  }

  /** When the next round may begin, of `performance.now()`. */
  get from(): number {
    return this.due.size > 0 ? this.gatheredAt : 0;
  }

  /** Whether somebody is due or in a round. */
  get isBusy(): boolean {
    return this.due.size > 0 || this.working.size > 0;
  }

  /** They are due again as soon as this round is done. */
  repeat(tenants: string[]): void {
    for (const tenant of tenants) this.due.add(tenant);
  }

  /** Something of the tenant's was taken, or there was nothing. */
  reached(tenant: string): void {
    this.misses.delete(tenant);
    this.postponed.delete(tenant);
    this.alone.delete(tenant);
  }

  /** Another replica has the tenant: looked at again soon, and then less often. */
  missed(tenant: string): void {
    this.later(tenant, 25, 1_000);
  }

  /** Whether the tenant is looked at again without being woken. */
  isMissed(tenant: string): boolean {
    return this.misses.has(tenant);
  }

  /** Something of the tenant's can't be taken or written down, which kept the others of its round back, unless they were `spared`. */
  putOff(tenant: string, { spared = false } = {}): void {
    this.postponed.add(tenant);
    if (!spared) this.alone.add(tenant);
    // What he posted during the round waits, too.
    this.due.delete(tenant);
    this.later(tenant, 200, 10_000);
  }

  private later(tenant: string, firstMs: number, mostMs: number): void {
    if (this.state === 'closed') return;
    const misses = this.misses.get(tenant) ?? 0;
    this.misses.set(tenant, misses + 1);
    // One look for all that were in vain: each would otherwise be made again for ever.
    clearTimeout(this.timers.get(tenant));
    const again = () => {
      this.timers.delete(tenant);
      this.postponed.delete(tenant);
      this.wake(tenant);
    };
    this.timers.set(tenant, setTimeout(again, Math.min(firstMs * 2 ** misses, mostMs)));
  }

  /** Until somebody is due, or this closes. */
  async idle(): Promise<void> {
    if (this.state !== 'closed') await new Promise<void>((done) => this.sleepers.push(done));
  }

  /** Nobody rests any more. */
  end(): void {
    this.state = 'ending';
    this.endRest();
  }

  /** Nobody is looked at again. */
  close(): void {
    this.state = 'closed';
    clearTimeout(this.rest);
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.rouse();
  }

  private endRest(): void {
    clearTimeout(this.rest);
    this.rest = undefined;
    for (const tenant of this.resting) this.due.add(tenant);
    this.resting.clear();
    this.rouse();
  }

  private rouse(): void {
    const sleepers = this.sleepers;
    this.sleepers = [];
    for (const wake of sleepers) wake();
  }
}
