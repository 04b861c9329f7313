// Estimates the database's clock from its answers: a posting needs its time before it is sent, without a round trip.

/** How long the newest answer is used, milliseconds. */
const validMs = 2_000;
/** Answers of this and the previous window are combined, milliseconds. */
const windowMs = 5_000;
/** Largest error allowed, milliseconds: an event dated back further could be older than a webhook made before it, and be missed. */
const maxErrorMs = 5;

/** The database's clock minus this process's, from answers that were given between request and arrival. */
interface Bounds {
  min: number;
  max: number;
}

const unbounded: Bounds = { min: -Infinity, max: Infinity };

/** Follows the database's clock. Never ahead of it, and behind it by the quickest answer's way back at most. */
export class DatabaseClock {
  private observedAt = -Infinity;
  private windowFrom = -Infinity;
  private window = unbounded;
  private previousWindow = unbounded;

  /** Adds an answer that has just arrived: its time in milliseconds since the Unix epoch, and when it was requested (`performance.now()`). */
  observe(ms: number, requestedAt: number): void {
    const now = performance.now();
    if (now - this.windowFrom > windowMs) {
      this.previousWindow = now - this.windowFrom > 2 * windowMs ? unbounded : this.window;
      this.window = unbounded;
      this.windowFrom = now;
    }
    this.observedAt = now;
    const observed = { min: ms - now, max: ms - requestedAt };
    this.window = intersect(this.window, observed);
    // Contradicting bounds mean that the clock was set.
    if (widthOf(this.bounds) < 0) [this.window, this.previousWindow] = [observed, unbounded];
  }

  /** Whole milliseconds since the Unix epoch; null if it is not known precisely, or was not observed lately. */
  now(): number | null {
    const now = performance.now();
    const isKnown = now - this.observedAt <= validMs && widthOf(this.bounds) <= maxErrorMs;
    return isKnown ? Math.floor(now + this.bounds.min) : null;
  }

  private get bounds(): Bounds {
    return intersect(this.window, this.previousWindow);
  }
}

function intersect(one: Bounds, other: Bounds): Bounds {
  return { min: Math.max(one.min, other.min), max: Math.min(one.max, other.max) };
}

function widthOf({ min, max }: Bounds): number {
  return max - min;
}
