// The database's clock, as last heard: a posting needs its time before it is sent, and asking for it would cost a round trip.

/** What was heard is believed for so long, milliseconds. */
const validMs = 2_000;
/** The answers of so long, and of as long before that, are compared, milliseconds. */
const windowMs = 5_000;

/** Follows the database's clock by what its answers say. Behind it by the quickest answer's way back at most, and never before it, unless it was set back. */
export class Clock {
  private heardAt = -Infinity;
  private windowFrom = -Infinity;
  /** The database's clock less this process's, by the quickest answer of this window and of the one before. */
  private offset = -Infinity;
  private offsetBefore = -Infinity;

  /** What an answer said that has just come, milliseconds since the Unix epoch. */
  heard(ms: number): void {
    const now = performance.now();
    if (now - this.windowFrom > windowMs) {
      this.offsetBefore = now - this.windowFrom > 2 * windowMs ? -Infinity : this.offset;
      this.offset = -Infinity;
      this.windowFrom = now;
    }
    this.heardAt = now;
    // The later an answer is looked at, the less it says.
    this.offset = Math.max(this.offset, ms - now);
  }

  /** Milliseconds since the Unix epoch, whole; null where it was not heard of lately. */
  now(): number | null {
    const now = performance.now();
    return now - this.heardAt > validMs ? null : Math.floor(now + Math.max(this.offset, this.offsetBefore));
  }
}
