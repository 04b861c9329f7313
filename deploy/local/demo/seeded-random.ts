// Random numbers that are the same for the same seed, on every machine.

/** A generator of numbers (mulberry32). */
export class SeededRandom {
  private state: number;

  constructor(seed: number) {
    this.state = seed | 0;
  }

  private next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** A whole number, both bounds included. */
  between(min: number, max: number): number {
    return min + (this.next() % (max - min + 1));
  }

  /** The same, small ones more often. */
  skewed(min: number, max: number): number {
    return this.between(min, this.between(min, max));
  }

  /** True in so many of a thousand cases. */
  perMille(cases: number): boolean {
    return this.next() % 1000 < cases;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.next() % items.length] as Item;
  }

  /** One of the names, each as often as its weight says. */
  weighted<Name extends string>(weights: readonly (readonly [Name, number])[]): Name {
    let left = this.next() % weights.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of weights) if ((left -= weight) < 0) return name;
    throw new Error('weights are whole numbers above zero');
  }
}
