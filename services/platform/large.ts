// Large messages are worked on one in a turn of the event loop, and of smaller ones so many.
import { setTimeout as pause } from 'node:timers/promises';

/** Bytes beyond which a message has a turn of its own: the answers to 250 postings, which a gateway asks for at once, have fewer. */
export const largeMessage = 256 << 10;

/**
 * Bytes of messages that share a turn, where they are no larger than that. (With a turn for each of them 64 connections posted
 * 0.79 to 1.07 times as many postings of 3 KiB as without turns.)
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

/** A piece of large work takes so long, milliseconds: then others have a turn, and as long again. */
const sliceMs = 4;

/**
 * A piece takes no longer, milliseconds: what seems to is a process that stood still. (When one had for five seconds, all large work rested for five more.)
 */
export const longestPieceMs = 500;

const restAfter = (tookMs: number) => pause(Math.min(tookMs, longestPieceMs));

/** Ends when others have had as long as the last piece took, of whatever large work: with a rest for each alone, those of many filled each other's. */
let rest = Promise.resolve();

/**
 * Large work by its parts, some in a turn of the event loop that no other such work has, and after each turn as long for everybody else: a thousand postings
 * with 1,400 names in the metadata of each took two seconds, in which nobody was answered. `gone`: aborted where nobody waits for it any more; its reason is
 * thrown then.
 */
export async function inSlices<Part>(parts: Iterable<Part>, work: (part: Part) => void, gone: AbortSignal): Promise<void> {
  let began = performance.now();
  let end: (() => void) | undefined;
  try {
    for (const part of parts) {
      work(part);
      const took = performance.now() - began;
      if (took < sliceMs) continue;
      if (end) void restAfter(took).then(end);
      else rest = Promise.all([rest, restAfter(took)]).then(() => undefined);
      const before = rest;
      const mine = Promise.withResolvers<void>();
      end = mine.resolve;
      rest = mine.promise;
      await before;
      await turnOf(Infinity);
      began = performance.now();
      gone.throwIfAborted();
    }
  } finally {
    if (end) void restAfter(performance.now() - began).then(end);
  }
}
