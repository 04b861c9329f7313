// Follows the log of events as it grows, over Server-Sent Events; after a break it goes on where it was.
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { LedgerError, pause, type CallOptions } from './call.ts';
import type { Event, LiveWebhookEvent } from './gen/types.gen.ts';

/** What to follow. */
export interface ListenOptions {
  /** Only events after this sequence; default 0: all. */
  after?: number;
  /** Types of events; default: all of the log. `balance.updated` and `hold.captured` come only if named. */
  types?: LiveWebhookEvent['type'][];
  signal?: AbortSignal;
  /** Called at each break, before the next attempt. */
  onBreak?: (reason: unknown) => void;
}

/** An event of the log; of a derived one too. */
export type StreamedEvent = Omit<Event, 'type'> & { type: LiveWebhookEvent['type'] };

type Open = (options: CallOptions & { types?: string; after_sequence?: number }) => Promise<Response>;

const [shortestPauseMs, longestPauseMs] = [200, 10_000];
// A comment comes every 15 s.
const silenceMs = 45_000;

/** Yields every event once, in order. Ends with the signal; throws where the credential ends. */
export async function* listen(open: Open, options: ListenOptions = {}): AsyncGenerator<StreamedEvent, void, undefined> {
  const { types, signal, onBreak } = options;
  let after = options.after ?? 0;
  // Messages of one sequence that came before a break: they come again.
  let seen = 0;
  let pauseMs = shortestPauseMs;
  const isOver = (): boolean => signal?.aborted === true;
  while (!isOver()) {
    const silence = new AbortController();
    const ending = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
    try {
      const query = { after_sequence: after, ...(types && { types: types.join(',') }) };
      const response = await open({ ...query, signal: ending, retries: 0 });
      let skip = seen;
      for await (const { event, id, data } of messages(response, silence)) {
        pauseMs = shortestPauseMs;
        if (isOver()) return;
        if (event === 'end') throw endOf(data);
        if (skip > 0) skip -= 1;
        else yield JSON.parse(data) as StreamedEvent;
        seen = id === undefined ? seen + 1 : 0;
        if (id !== undefined) after = Number(id);
      }
      throw new LedgerError('the stream ended', { code: 'no_answer' });
    } catch (thrown) {
      if (isOver()) return;
      if (!isPassing(thrown)) throw thrown;
      onBreak?.(thrown);
      await pause(pauseMs, signal).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 2, longestPauseMs);
    } finally {
      silence.abort();
    }
  }
}

async function* messages(
  { body }: Response,
  silence: AbortController,
): AsyncGenerator<{ event?: string | undefined; id?: string | undefined; data: string }> {
  if (!body) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listenAgain = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Error('the stream is silent')), silenceMs);
  };
  const watch = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (piece, out) => {
      listenAgain();
      out.enqueue(piece);
    },
  });
  listenAgain();
  const reader = body.pipeThrough(watch).pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    clearTimeout(timer);
    await reader.cancel().catch(() => undefined);
  }
}

// Also where the credential ended: opening again renews it, and refuses where it can't.
const endOf = (data: string): LedgerError => new LedgerError((JSON.parse(data) as { message: string }).message, { code: 'no_answer' });

const isPassing = (thrown: unknown): boolean =>
  !(thrown instanceof LedgerError) || [0, 408, 429, 500, 502, 503, 504].includes(thrown.status);
