// Large answers of one route are made for one tenant one after the other. Sixteen connections that read pages of 1.8 MB had every other request wait
// behind a piece of work for each of them, in the ledger and here: a posting of another tenant took 150 to 180 ms, 2 alone, and 24 beside one such reader.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { largeMessage } from '../services/platform/large.ts';
import { FairSemaphore } from '../services/platform/fair-semaphore.ts';
import { ApiError } from './errors.ts';

/** So long after a large answer the tenant's next ones take turns, milliseconds: how large one will be nobody knows before it is made. */
const rememberedMs = 10_000;
/** So long one waits for its turn, milliseconds. */
const patienceMs = 10_000;

/** The large answers of a route. */
export class LargePages {
  private readonly turns = new FairSemaphore({ ofOne: 1, waiting: Infinity, patienceMs });
  /** Tenants, and users, that were answered much, until when that is remembered, by `performance.now()`; the first the longest ago. */
  private readonly askers = new Map<string, number>();
  private readonly ends = new WeakMap<FastifyRequest, () => void>();

  /**
   * Waits until no other answer of the route is made for the request's tenant; at once, undefined, where none has been large of late. Rejects with a problem where
   * that takes too long, or the client has gone.
   */
  begin(request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined {
    const whose = whoseIs(request);
    return (this.askers.get(whose) ?? -Infinity) > performance.now() ? this.wait(whose, request, reply) : undefined;
  }

  private async wait(whose: string, request: FastifyRequest, { raw }: FastifyReply): Promise<void> {
    request.clientGone ??= new AbortController();
    try {
      await this.turns.begin(whose, request.clientGone.signal);
    } catch {
      throw new ApiError('overloaded');
    }
    const end = () => {
      if (!this.ends.delete(request)) return;
      this.turns.end(whose);
    };
    this.ends.set(request, end);
    // Whatever becomes of it.
    raw.once('close', end);
  }

  /** The answer of a request is made, of so many bytes. What its client does with it keeps nobody waiting. */
  made(request: FastifyRequest, bytes: number): void {
    this.ends.get(request)?.();
    if (bytes <= largeMessage) return;
    const whose = whoseIs(request);
    const now = performance.now();
    this.askers.delete(whose);
    this.askers.set(whose, now + rememberedMs);
    for (const [asker, until] of this.askers) {
      if (until > now) break;
      this.askers.delete(asker);
    }
  }
}

// A user's own lists are of no tenant.
function whoseIs({ caller: { tenantId, actor } }: FastifyRequest): string {
  return tenantId === '' ? actor : tenantId;
}
