// Streams a tenant's events as Server-Sent Events (WHATWG HTML, section 9.2), at the pace of the slowest part: log, network or reader.
import { setTimeout as pause } from 'node:timers/promises';
import { ConnectError } from '@connectrpc/connect';
import type { Event } from '../proto/gen/ledger/v1/events_pb.js';
import { derivedEventsOf } from '../services/platform/derived-events.ts';
import { ApiError, apiErrorOf } from './errors.ts';
import { eventJson } from './mapping.ts';

/** Events after a sequence, oldest first. */
export interface EventPage {
  events: Event[];
  hasMore: boolean;
}

/** Reads a page of a tenant's events after a sequence. */
export type ReadEvents = (tenantId: string, afterSequence: bigint) => Promise<EventPage>;

/** Shares one read among the streams of a tenant that are at the same sequence: those at the end of the log all are. */
export function sharedReads(read: ReadEvents): ReadEvents {
  const running = new Map<string, Promise<EventPage>>();
  return (tenantId, afterSequence) => {
    const key = `${tenantId} ${afterSequence}`;
    const page = running.get(key) ?? read(tenantId, afterSequence).finally(() => running.delete(key));
    running.set(key, page);
    return page;
  };
}

/** Counts streams: each holds a connection and buffers for as long as its client likes. */
export class StreamLimit {
  private count = 0;
  private readonly perTenant = new Map<string, number>();
  private readonly max: number;
  private readonly maxPerTenant: number;

  constructor(max: number, maxPerTenant: number) {
    this.max = max;
    this.maxPerTenant = maxPerTenant;
  }

  /** Counts a stream; returns what ends it. Throws `overloaded`. */
  enter(tenantId: string): () => void {
    const own = this.perTenant.get(tenantId) ?? 0;
    if (own >= this.maxPerTenant) throw new ApiError('overloaded', { message: `a tenant may have ${this.maxPerTenant} streams at once` });
    if (this.count >= this.max) throw new ApiError('overloaded');
    this.count++;
    this.perTenant.set(tenantId, own + 1);
    return () => {
      this.count--;
      const rest = (this.perTenant.get(tenantId) ?? 1) - 1;
      if (rest > 0) this.perTenant.set(tenantId, rest);
      else this.perTenant.delete(tenantId);
    };
  }
}

/** What a stream needs. */
export interface EventStream {
  tenantId: string;
  afterSequence: bigint;
  /** Types to send; undefined: all of the log. */
  types: ReadonlySet<string> | undefined;
  read: ReadEvents;
  /** Why the stream has to end, if it has. */
  mustEnd: () => Promise<ApiError | undefined>;
  /** Aborted when the reader has left; also ends waiting at the end of the log. */
  signal: AbortSignal;
  /** Called where a reader takes nothing at all. */
  giveUp: () => void;
  times?: typeof usualTimes;
}

// Streams wait for the same moments, so that they share reads. `slowMs`: how long a reader may take for a piece.
const usualTimes = { pollMs: 500, heartbeatMs: 15_000, slowMs: 30_000 };

// A reader has `slowMs` for each piece, and the process keeps not much more than one for each.
const pieceLength = 65_536;

/** Yields the stream's text piece by piece; ends with an `end` event that says why. */
export async function* eventStream(stream: EventStream): AsyncGenerator<string> {
  const { tenantId, types, read, signal, giveUp, times = usualTimes } = stream;
  let sequence = stream.afterSequence;
  let quietSince = performance.now();
  const pace = new ReaderPace(times.slowMs, giveUp);
  try {
    yield ': connected\n\n';
    for (;;) {
      const stop = await stream.mustEnd();
      if (stop) throw stop;
      if (signal.aborted) return;
      const { events, hasMore } = await read(tenantId, sequence);
      let text = '';
      for (const event of events) {
        text += messagesOf(event, types);
        // What a filter left out counts too, so that a client that returns does not read it again.
        sequence = event.sequence;
        if (text.length < pieceLength) continue;
        yield pace.begin(text);
        pace.end();
        text = '';
      }
      if (text === '' && performance.now() - quietSince >= times.heartbeatMs) text = heartbeat(sequence);
      if (text !== '') {
        yield pace.begin(text);
        pace.end();
        quietSince = performance.now();
      }
      if (!hasMore) await pause(times.pollMs - (Date.now() % times.pollMs), undefined, { signal }).catch(() => undefined);
    }
  } catch (error) {
    yield endMessage(reasonOf(error), sequence);
  } finally {
    pace.close();
  }
}

class SlowReader extends Error {
  readonly code = 'too_slow';
}

function reasonOf(error: unknown): { code: string; message: string } {
  if (error instanceof ApiError || error instanceof SlowReader) return error;
  return (error instanceof ConnectError ? apiErrorOf(error, undefined) : null) ?? new ApiError('internal');
}

/** Notices a reader that does not take its piece in time. */
class ReaderPace {
  private timer: NodeJS.Timeout | undefined;
  private isSlow = false;
  private readonly slowMs: number;
  private readonly giveUp: () => void;

  constructor(slowMs: number, giveUp: () => void) {
    this.slowMs = slowMs;
    this.giveUp = giveUp;
  }

  /** Begins to wait for the reader. */
  begin(text: string): string {
    this.timer = setTimeout(() => {
      this.isSlow = true;
      this.timer = setTimeout(this.giveUp, this.slowMs).unref();
    }, this.slowMs).unref();
    return text;
  }

  /** The reader is back. Throws where it was too slow. */
  end(): void {
    this.close();
    if (this.isSlow) throw new SlowReader('the client reads too slowly');
  }

  close(): void {
    clearTimeout(this.timer);
  }
}

/** An event and what is derived from it, of these types. Only the last message has an id, so that none is lost in a cut between them. */
function messagesOf(event: Event, types: ReadonlySet<string> | undefined): string {
  const wanted = types === undefined ? [event] : [event, ...derivedEventsOf(event)].filter(({ type }) => types.has(type));
  return wanted
    .map(
      (each, index) => `${index === wanted.length - 1 ? `id: ${event.sequence}\n` : ''}event: ${each.type}\ndata: ${eventJson(each)}\n\n`,
    )
    .join('');
}

// Without data it is no event, but the client's last id is this one from now on.
function heartbeat(sequence: bigint): string {
  return `: heartbeat\nid: ${sequence}\n\n`;
}

function endMessage({ code, message }: { code: string; message: string }, sequence: bigint): string {
  return `id: ${sequence}\nevent: end\ndata: ${JSON.stringify({ code, message, sequence: Number(sequence) })}\n\n`;
}
