// How much is worked on at once: requests in all, one tenant's share of them, bytes of bodies. What comes beyond is refused at once, before
// memory grows.
import type { FastifyRequest } from 'fastify';
import { Problem } from './problem.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request holds until it ends. */
    held: { tenantId: string; bytes: number } | null;
  }
}

/** The largest body, bytes. */
export const bodyLimit = 1 << 20;

// A body is some ten times as large once it is read: this many bytes are what the process can bear.
const mostBytes = 16 << 20;

/** What is being worked on. */
export class Load {
  /** Requests that have begun and not ended. */
  requests = 0;
  private bytes = 0;
  private readonly perTenant = new Map<string, number>();
  private readonly most: number;

  /** `most`: requests at once; one tenant may have half of them. */
  constructor(most: number) {
    this.most = most;
  }

  /** Counts a request; `end` takes it back. */
  begin(): void {
    this.requests++;
  }

  /** Refuses what is too much, before anything is done for it. */
  bound(): Problem | undefined {
    return this.requests > this.most ? new Problem('overloaded') : undefined;
  }

  /** Takes the request's share, once it is known whose it is; refuses what is beyond it, before the body is read. */
  take(request: FastifyRequest): Problem | undefined {
    const { tenantId } = request.caller;
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
    // A larger body is refused for its size, and not read.
    const bytes = encoding === undefined ? Math.min(Number(length ?? 0), bodyLimit) : bodyLimit;
    // Users and those who log in share one half, too, so that they can't keep postings out.
    const ofTenant = (this.perTenant.get(tenantId) ?? 0) + 1;
    if (this.bytes + bytes > mostBytes || ofTenant > Math.max(1, this.most / 2)) return new Problem('overloaded');
    this.bytes += bytes;
    this.perTenant.set(tenantId, ofTenant);
    request.held = { tenantId, bytes };
    return undefined;
  }

  /** Takes a request back. */
  end(request: FastifyRequest): void {
    this.requests--;
    if (!request.held) return;
    const { tenantId, bytes } = request.held;
    this.bytes -= bytes;
    const left = (this.perTenant.get(tenantId) ?? 1) - 1;
    if (left > 0) this.perTenant.set(tenantId, left);
    else this.perTenant.delete(tenantId);
  }
}
