// Zipf's law: of what is ranked by how often it occurs, the second occurs half as often as the first, the third a third as often, and so on.
import type { Chance } from './chance.ts';

/** Draws ranks, 0 the most frequent, as often as Zipf's law has it (exponent 1). */
export class Zipf {
  /** The probability of each rank or one before it. */
  private readonly upTo: number[] = [];

  /** `count`: how many ranks there are. */
  constructor(count: number) {
    const weights = Array.from({ length: count }, (_, rank) => 1 / (rank + 1));
    const all = weights.reduce((sum, weight) => sum + weight, 0);
    let sum = 0;
    for (const weight of weights) this.upTo.push((sum += weight / all));
  }

  /** The rank of a number of at least 0 and less than 1. */
  rankOf(number: number): number {
    let low = 0;
    let high = this.upTo.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (number < this.upTo[middle]!) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** A rank by chance. */
  draw(chance: Chance): number {
    return this.rankOf(chance.whole(0, 2 ** 32 - 1) / 2 ** 32);
  }
}
