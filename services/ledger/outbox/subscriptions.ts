// Cache of which tenants have a webhook. Only a hint: the sink decides each time, in the transaction that takes or skips events.

/** Events of busy tenants without a webhook are collected this long before they are skipped, milliseconds. */
export const quietPeriodMs = 1_000;

/** An answer older than this counts as none, milliseconds. It is more than a quiet period and the question at its end. */
const recentMs = 2 * quietPeriodMs;
/** A tenant is busy after so many recent answers: one that sets up accounts, then a webhook, then posts, must not wait. */
const busyAnswers = 4;
/** How long events are published without asking again, milliseconds. */
const subscribedMs = 60_000;
/** Tenants remembered of each kind. */
const maxTenants = 200_000;

/** What the sink answered, by tenant (UUID). */
export class Subscriptions {
  private readonly canAsk: boolean;
  private readonly subscribedUntil = new Map<string, number>();
  private readonly unsubscribed = new Map<string, { at: number; answers: number }>();

  /** `canAsk`: whether the sink reports subscriptions; otherwise every tenant counts as subscribed. */
  constructor(canAsk: boolean) {
    this.canAsk = canAsk;
  }

  /** Whether the tenant is busy and had no webhook just now, so that its events may wait for a quiet period. */
  isQuiet(tenant: string): boolean {
    return this.recentAnswers(tenant) >= busyAnswers;
  }

  private recentAnswers(tenant: string): number {
    const last = this.unsubscribed.get(tenant);
    return last && performance.now() - last.at < recentMs ? last.answers : 0;
  }

  /** Tenants whose events are published, and those for which the sink is asked to skip them. */
  split(tenants: string[]): { subscribed: string[]; unsubscribed: string[] } {
    const now = performance.now();
    const isSubscribed = (tenant: string) => !this.canAsk || (this.subscribedUntil.get(tenant) ?? -Infinity) > now;
    const { subscribed = [], unsubscribed = [] } = Object.groupBy(tenants, (each) => (isSubscribed(each) ? 'subscribed' : 'unsubscribed'));
    return { subscribed, unsubscribed };
  }

  /** Remembers an answer. */
  record(tenant: string, isSubscribed: boolean): void {
    if (isSubscribed) {
      if (this.subscribedUntil.size > maxTenants) this.subscribedUntil.clear();
      this.subscribedUntil.set(tenant, performance.now() + subscribedMs);
      this.unsubscribed.delete(tenant);
    } else {
      const answers = this.recentAnswers(tenant) + 1;
      if (this.unsubscribed.size > maxTenants) this.unsubscribed.clear();
      this.unsubscribed.set(tenant, { at: performance.now(), answers });
      this.subscribedUntil.delete(tenant);
    }
  }
}
