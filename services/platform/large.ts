// Large messages are worked on one in a turn of the event loop, and of smaller ones so many.

/** Bytes beyond which a message has a turn of its own: the answers to 250 postings, which a gateway asks for at once, have fewer. */
export const largeMessage = 256 << 10;

/**
 * Bytes of messages that share a turn, where they are no larger than that. (Of postings of 3 KiB some had come at once in most turns: with a turn for each, 64
 * connections posted 13 % fewer.)
 */
const together = 16 << 10;

const waiting: { bytes: number; resolve: () => void }[] = [];

/**
 * Resolves in a turn of the event loop that this process has for so much alone; undefined for what is no larger than `large`. A megabyte of odd JSON is a
 * tenth of a second's work, a page of a megabyte a fiftieth: of whatever had come in one turn everybody else waited for all, and again in each of the five
 * turns until a posting was answered.
 */
export function turnOf(bytes: number, large = largeMessage): Promise<void> | undefined {
  if (bytes <= large) return undefined;
  return new Promise((resolve) => {
    if (waiting.push({ bytes, resolve }) === 1) setImmediate(begin);
  });
}

function begin(): void {
  let taken = 0;
  const others = waiting.findIndex(({ bytes }, place) => (taken += bytes) > together && place > 0);
  const these = waiting.splice(0, others < 0 ? waiting.length : others);
  if (waiting.length > 0) setImmediate(begin);
  for (const { resolve } of these) resolve();
}
