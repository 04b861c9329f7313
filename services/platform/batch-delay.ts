// The delay between batches whose cost hardly depends on their size.

/** Milliseconds from the start of a batch to that of the next, by its number of items: more items wait for fuller batches, a single one does not wait. */
export function batchDelayMs(items: number): number {
  return Math.min(50, 25 + 2 * items);
}
