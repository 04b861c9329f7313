// Which tenants have somebody who listens to their events, as far as the relay has learned. Never taken for true: the other side decides
// each time, in the transaction that takes the events or passes them over.

/**
 * So long the events of a busy tenant to whom nobody listened just now are gathered before it is asked about again, milliseconds: its marks, here and in
 * the notifier, then cost next to nothing.
 */
export const restMs = 1_000;

/**
 * Who was quiet for so long is asked about at once, for a webhook that was made meanwhile, milliseconds. It is more than a rest and the asking at its
 * end: with one second many of a hundred busy tenants were asked about twice in each.
 */
const quietMs = 2 * restMs;

/**
 * Who was asked about less often in a row is not busy: he sets up a chart, then a webhook, then posts, and his first delivery is not to wait for a rest.
 */
const busy = 4;

/** So long a tenant's events are published without asking again, milliseconds. */
const heardMs = 60_000;
/** Tenants remembered; of one that was forgotten is asked again. */
const most = 200_000;

/** What was answered of each tenant (UUID). */
export class Subscriptions {
  private readonly askable: boolean;
  private readonly heardUntil = new Map<string, number>();
  /** When that was answered, and how often in a row. */
  private readonly unheard = new Map<string, { at: number; times: number }>();

  /** `askable`: whether the other side says who listens; where it does not, everybody does. */
  constructor(askable: boolean) {
    this.askable = askable;
  }

  /** Whether nobody listened just now to a busy tenant, so that its events may rest. */
  noneFor(tenant: string): boolean {
    return this.lately(tenant) >= busy;
  }

  private lately(tenant: string): number {
    const last = this.unheard.get(tenant);
    return last && performance.now() - last.at < quietMs ? last.times : 0;
  }

  /** Those whose events are to be published, and those of whom is to be asked. */
  split(tenants: string[]): { heard: string[]; unheard: string[] } {
    if (!this.askable) return { heard: tenants, unheard: [] };
    const now = performance.now();
    const { heard = [], unheard = [] } = Object.groupBy(tenants, (tenant) =>
      (this.heardUntil.get(tenant) ?? -Infinity) > now ? 'heard' : 'unheard',
    );
    return { heard, unheard };
  }

  /** Remembers an answer. */
  learn(tenant: string, wanted: boolean): void {
    if (wanted) {
      if (this.heardUntil.size > most) this.heardUntil.clear();
      this.heardUntil.set(tenant, performance.now() + heardMs);
      this.unheard.delete(tenant);
    } else {
      const times = this.lately(tenant) + 1;
      if (this.unheard.size > most) this.unheard.clear();
      this.unheard.set(tenant, { at: performance.now(), times });
      this.heardUntil.delete(tenant);
    }
  }
}
