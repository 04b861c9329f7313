// Chance that can be had again: the same seed makes the same choices in the same order.

/** A source of choices. */
export interface Chance {
  /** A whole number, both ends inclusive. */
  whole(least: number, most: number): number;
  /** Whether something happens that does so with this probability. */
  happens(probability: number): boolean;
  /** The items in another order. */
  shuffled<Item>(items: readonly Item[]): Item[];
}

/** Opens a source. `stream` parts several of one seed, so that what one asks for changes nothing for the others. */
export function openChance(seed: number, stream = 0): Chance {
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
    shuffled: (items) => {
      const left = [...items];
      return items.map(() => left.splice(whole(0, left.length - 1), 1)[0]!);
    },
  };
}
