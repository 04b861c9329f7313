// Cache: which tenants have a webhook. It is a hint: the sink decides each time, in the transaction that takes or skips events.
import { quietPeriodMs } from './relay-scheduler.ts';

/** The next answer counts as repeated within this time, milliseconds. It is more than a quiet period and the question at its end. */
const recentMs = 2 * quietPeriodMs;
/** A tenant is busy after so many recent answers: one that sets up accounts, then a webhook, then posts, must not wait. */
const busyAnswers = 4;
/** How long events are published without asking again, milliseconds. */
const subscribedMs = 60_000;
/** Tenants remembered. */
const maxTenants = 200_000;

/** What the sink answered last, by tenant (UUID). */
export class Subscriptions {
  private readonly answers = new Map<string, { isSubscribed: boolean; at: number; repeated: number }>();

  /** Whether the tenant's events are published without asking the sink. */
  isSubscribed(tenant: string): boolean {
    return this.recent(tenant, true, subscribedMs) !== undefined;
  }

  /** Whether the tenant is busy and had no webhook just now, so that its events may wait for the end of a quiet period. */
  isQuiet(tenant: string): boolean {
    return (this.recent(tenant, false, recentMs)?.repeated ?? 0) >= busyAnswers;
  }

  /** Remembers an answer. */
  record(tenant: string, isSubscribed: boolean): void {
    const repeated = (this.recent(tenant, isSubscribed, recentMs)?.repeated ?? 0) + 1;
    if (this.answers.size > maxTenants) this.answers.clear();
    this.answers.set(tenant, { isSubscribed, at: performance.now(), repeated });
  }

  private recent(tenant: string, isSubscribed: boolean, ms: number) {
    const last = this.answers.get(tenant);
    return last?.isSubscribed === isSubscribed && performance.now() - last.at < ms ? last : undefined;
  }
}
