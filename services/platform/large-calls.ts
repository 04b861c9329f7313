// Calls with large messages: how many of them a process works on at once, what waits, and what it holds meanwhile.
import type { Http2ServerRequest } from 'node:http2';
import { Code } from '@connectrpc/connect';
import { refuse } from './errors.ts';
import { Overloaded, FairSemaphore } from './fair-semaphore.ts';
import type { Unfinished } from './unfinished.ts';

/** Bytes of a message beyond which a call waits for its turn. */
export const largeCall = 1 << 20;

/**
 * Calls with messages beyond so many bytes take such turns, one behind the other. First among those of their connection, without a turn that others wait for:
 * with the one of the largest, nine calls for books that somebody held kept another connection's waiting for 26 s. Four of them wait there, as eight of 32 MiB
 * are all that may, and 106 of another's 108 calls were refused. Then among the largest, and then among all: of a thousand postings of 200 entries the 7.6 MiB
 * are more than a hundred when they are decoded, and four such calls at once had a ledger hold 776 MiB. Ten of 16.8 MiB had it hold 980, and 682 with a turn
 * of their own, where a pod has 1,024.
 */
const lines = [
  { beyond: largeCall, turns: new FairSemaphore({ maxPerKey: 1, maxWaiting: 8, maxWaitingPerKey: 4 }) },
  { beyond: 8 << 20, turns: new FairSemaphore({ max: 1, maxPerKey: 1, maxWaiting: 8, maxWaitingPerKey: 8 }) },
  { beyond: largeCall, turns: new FairSemaphore({ max: 2, maxPerKey: 1, maxWaiting: 8, maxWaitingPerKey: 8 }) },
];

// By their connections: who posts to books that somebody holds, ten seconds a call, kept all other callers waiting where there was one line for all.
const callers = new WeakMap<object, string>();
let lastCaller = 0;

function callerOf({ stream }: Http2ServerRequest): string {
  const connection = stream.session ?? stream;
  const known = callers.get(connection) ?? String(++lastCaller);
  callers.set(connection, known);
  return known;
}

/**
 * Waits until a call with a message of so many bytes may be worked on; answers what ends it, to be called once. What waits counts among the messages that
 * have not ended. Throws a refusal (`overloaded`) where too much waits, and the signal's reason.
 */
export async function placeOf(
  request: Http2ServerRequest,
  bytes: number,
  unfinished: Unfinished,
  signal: AbortSignal,
): Promise<() => void> {
  const caller = callerOf(request);
  const taken: FairSemaphore[] = [];
  const end = () => {
    for (const turns of taken) turns.release(caller);
  };
  const waiting = unfinished.begin(Infinity);
  try {
    const refusal = waiting.add({ length: bytes });
    if (refusal) throw refusal;
    for (const { beyond, turns } of lines) {
      if (bytes <= beyond) continue;
      await turns.acquire(caller, signal);
      taken.push(turns);
    }
    return end;
  } catch (error) {
    end();
    if (!(error instanceof Overloaded)) throw error;
    throw refuse(Code.ResourceExhausted, { reason: 'overloaded', message: error.message, retryAfter: 1 });
  } finally {
    waiting.end();
  }
}
