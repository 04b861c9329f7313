// Large messages are worked on one in a turn of the event loop.

/** Bytes beyond which a message has a turn of its own: the answers to 250 postings, which a gateway asks for at once, have fewer. */
export const largeMessage = 256 << 10;

const waiting: (() => void)[] = [];

/**
 * Resolves in a turn of the event loop that no other large message of this process has; undefined for what is no larger than `large`. A megabyte of odd JSON is a
 * tenth of a second's work, a page of a megabyte a fiftieth: of whatever had come in one turn everybody else waited for all, and again in each of the five
 * turns until a posting was answered.
 */
export function turnOf(bytes: number, large = largeMessage): Promise<void> | undefined {
  if (bytes <= large) return undefined;
  return new Promise((begin) => {
    if (waiting.push(begin) === 1) setImmediate(next);
  });
}

function next(): void {
  const begin = waiting.shift();
  if (waiting.length > 0) setImmediate(next);
  begin?.();
}
