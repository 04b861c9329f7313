// Large bodies are read in turns of the event loop of their own. Who sends some that take long is paced, so that most of the time is everybody else's.
import { longestPieceMs, turnOf } from '../services/platform/large.ts';

/** What is in it may be 200 fields, some three tenths of a millisecond's work. (Where it was 16 KiB, as many connections' bodies of that came in one turn.) */
const largeBody = 2 << 10;

/** Smaller ones are not paced: whatever takes long of them is the machine's matter, a collection of garbage or another process. */
const pacedBody = 16 << 10;

/**
 * A body that takes longer, milliseconds, makes its sender's dear for a while: these wait for each other, after each for `pace` times as long as it
 * took. (A megabyte of odd numbers and distinct keys took 300 ms, and three of them a second made others' postings 87 times as slow.)
 */
const dearMs = 20;
let pace = 3;
const rememberedMs = 10_000;

/** Whose bodies are dear, until when, by `performance.now()`. */
const dear = new Map<string, number>();
/** Their bodies that wait; tenants take turns. */
const waiting = new Map<string, (() => void)[]>();
/** When the next of them may be read, by `performance.now()`. */
let resumesAt = 0;
let timer: NodeJS.Timeout | undefined;

/**
 * Does what a body of so many bytes needs done, `work`, when it is its turn: at once where it is small. `whose`: a tenant's id, empty where nobody has said
 * who he is. `gone`: aborted where the client leaves, for whom nothing is read or kept.
 */
export function readInTurn(whose: string, bytes: number, work: () => void, gone: () => AbortSignal): void {
  const turn = turnOf(bytes, largeBody);
  if (!turn) {
    work();
    return;
  }
  const signal = gone();
  void turn.then(() => {
    if (signal.aborted) return;
    if (bytes <= pacedBody) {
      work();
      return;
    }
    if (!isDear(whose)) {
      measure(whose, work);
      return;
    }
    waiting.set(whose, [...(waiting.get(whose) ?? []), work]);
    signal.addEventListener('abort', () => forget(whose, work), { once: true });
    schedule();
  });
}

/** Paces nobody any more: in a process that ends there is little to protect, and who still waits when its time is over has no answer. */
export function paceNoMore(): void {
  pace = 0;
  resumesAt = 0;
  clearTimeout(timer);
  timer = undefined;
  schedule();
}

function forget(whose: string, work: () => void): void {
  const left = waiting.get(whose)?.filter((each) => each !== work) ?? [];
  if (left.length > 0) waiting.set(whose, left);
  else waiting.delete(whose);
}

function schedule(): void {
  if (waiting.size > 0) timer ??= setTimeout(next, Math.max(0, resumesAt - performance.now()));
}

function next(): void {
  timer = undefined;
  // One that nobody knew to be dear may have come between.
  if (performance.now() < resumesAt) {
    schedule();
    return;
  }
  for (const [whose, [work, ...others]] of waiting) {
    waiting.delete(whose);
    if (others.length > 0) waiting.set(whose, others);
    measure(whose, work as () => void);
    break;
  }
  schedule();
}

function measure(whose: string, work: () => void): void {
  const began = performance.now();
  work();
  const now = performance.now();
  const took = now - began;
  if (took > dearMs) {
    for (const [each, until] of dear) if (until < now) dear.delete(each);
    dear.set(whose, now + rememberedMs);
  }
  if (isDear(whose)) resumesAt = now + pace * Math.min(took, longestPieceMs);
}

function isDear(whose: string): boolean {
  return (dear.get(whose) ?? -Infinity) > performance.now();
}
