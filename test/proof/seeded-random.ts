// Random choices that repeat: the same seed gives the same choices in the same order.

/** A source of choices. */
export interface SeededRandom {
  /** A whole number, both ends inclusive. */
  whole(least: number, most: number): number;
  /** True with this probability. */
  happens(probability: number): boolean;
  /** One of the items. Throws where there is none. */
  pick<Item>(items: readonly Item[]): Item;
  shuffled<Item>(items: readonly Item[]): Item[];
}

/** Opens a source. Streams of one seed are independent: what one draws does not change the others. */
export function seededRandom(seed: number, stream = 0): SeededRandom {
  // mulberry32, public domain.
  let state = (seed ^ Math.imul(stream + 1, 0x9e3779b9)) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const whole = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));
  return {
    whole,
    happens: (probability) => next() < probability,
    pick: (items) => {
      if (items.length === 0) throw new Error('nothing to pick from');
      return items[whole(0, items.length - 1)]!;
    },
    shuffled: (items) => {
      const left = [...items];
      return items.map(() => left.splice(whole(0, left.length - 1), 1)[0]!);
    },
  };
}
