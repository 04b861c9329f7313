// Large answers of one route are made for one tenant one after the other. Sixteen connections that read pages of 1.8 MB had every other request wait
// behind a piece of work for each of them, in the ledger and here: a posting of another tenant took 200 ms, 2 alone, and 24 beside one such reader.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { largeMessage } from '../services/platform/large.ts';
import { Turns } from '../services/platform/turns.ts';
import { Problem } from './problem.ts';

/** So long after a large answer the tenant's next ones take turns, milliseconds: how large one will be nobody knows before it is made. */
const rememberedMs = 10_000;
/** So long one waits for its turn, milliseconds. */
const patienceMs = 10_000;

/** The large answers of a route. */
export class LargePages {
  private readonly turns = new Turns({ ofOne: 1, waiting: Infinity, patienceMs });
  /** Tenants that were answered much, until when that is remembered, by `performance.now()`; the first the longest ago. */
  private readonly tenants = new Map<string, number>();
  private readonly ends = new WeakMap<FastifyRequest, () => void>();

  /**
   * Waits until no other large answer is made for the request's tenant; at once, undefined, where none has been of late. Rejects with a problem where
   * that takes too long, or the client has gone.
   */
  begin(request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined {
    const { tenantId } = request.caller;
    return (this.tenants.get(tenantId) ?? -Infinity) > performance.now() ? this.wait(tenantId, request, reply) : undefined;
  }

  private async wait(tenantId: string, request: FastifyRequest, { raw }: FastifyReply): Promise<void> {
    request.leaving ??= new AbortController();
    try {
      await this.turns.begin(tenantId, request.leaving.signal);
    } catch {
      throw new Problem('overloaded');
    }
    const end = () => {
      if (!this.ends.delete(request)) return;
      this.turns.end(tenantId);
    };
    this.ends.set(request, end);
    // Whatever becomes of it.
    raw.once('close', end);
  }

  /** The answer of a request is made, of so many bytes. What its client does with it keeps nobody waiting. */
  made(request: FastifyRequest, bytes: number): void {
    this.ends.get(request)?.();
    if (bytes <= largeMessage) return;
    const { tenantId } = request.caller;
    const now = performance.now();
    this.tenants.delete(tenantId);
    this.tenants.set(tenantId, now + rememberedMs);
    for (const [tenant, until] of this.tenants) {
      if (until > now) break;
      this.tenants.delete(tenant);
    }
  }
}
