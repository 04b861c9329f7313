// The database's clock, as last heard: a posting needs its time before it is sent, and asking for it would cost a round trip.

/** What was heard is believed for so long, milliseconds. */
const validMs = 2_000;
/** The answers of so long, and of as long before that, are compared, milliseconds. */
const windowMs = 5_000;
/**
 * What was heard is believed if it can't be wrong by more, milliseconds. An event dated back by more than a tenant needs from the answer about
 * his new webhook to his next posting would count as older than the webhook, and not be delivered.
 */
const mostDoubtMs = 5;

/** What answers say of the database's clock less this process's: each was given after it was asked for and before it was heard. */
interface Bounds {
  least: number;
  most: number;
}

const unknown: Bounds = { least: -Infinity, most: Infinity };

/** Follows the database's clock by what its answers say. Behind it by the quickest answer's way back at most, and never before it. */
export class DatabaseClock {
  private heardAt = -Infinity;
  private windowFrom = -Infinity;
  private window = unknown;
  private windowBefore = unknown;

  /** What an answer said that has just come, milliseconds since the Unix epoch, and when it was asked for, as `performance.now()` has it. */
  observe(ms: number, askedAt: number): void {
    const now = performance.now();
    if (now - this.windowFrom > windowMs) {
      this.windowBefore = now - this.windowFrom > 2 * windowMs ? unknown : this.window;
      this.window = unknown;
      this.windowFrom = now;
    }
    this.heardAt = now;
    const heard = { least: ms - now, most: ms - askedAt };
    this.window = common(this.window, heard);
    // The clock was set: what was heard before says nothing any more.
    if (width(this.bounds) < 0) [this.window, this.windowBefore] = [heard, unknown];
  }

  /** Milliseconds since the Unix epoch, whole; null where it is not known well, or was not heard of lately. */
  now(): number | null {
    const now = performance.now();
    const known = now - this.heardAt <= validMs && width(this.bounds) <= mostDoubtMs;
    return known ? Math.floor(now + this.bounds.least) : null;
  }

  private get bounds(): Bounds {
    return common(this.window, this.windowBefore);
  }
}

function common(one: Bounds, other: Bounds): Bounds {
  return { least: Math.max(one.least, other.least), most: Math.min(one.most, other.most) };
}

function width({ least, most }: Bounds): number {
  return most - least;
}
