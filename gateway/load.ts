// How much is worked on at once: requests in all, one tenant's share of them, bytes of bodies, bytes of answers that are not read yet. What comes
// beyond is refused at once, before memory grows.
import type { FastifyRequest } from 'fastify';
import { Yallist, type Node } from 'yallist';
import { ApiError } from './errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether the request was let in, and was neither refused nor has ended. */
    isWorkedOn: boolean;
    /** The request's place among those whose bodies are coming in. */
    arriving: Node<Arriving> | null;
    /** What the request holds until it ends. */
    held: Held | null;
  }
}

// A body is some ten times as large once it is read: this many bytes are what the process can bear.
const mostBytes = 16 << 20;
// Where nobody has said who he is yet, nothing large is to be read.
const mostOfNobody = 2 << 20;
// The number of requests bounds these: with the largest that is usual, they are as many bytes again.
const smallBody = 4 << 10;
// A chart is up to 8 MiB, a page of postings as much: who asks and does not read would have the process keep them all.
const mostAnswered = 64 << 20;
const smallAnswer = 64 << 10;
// Who is slow keeps his place while nobody else needs it: milliseconds after which a body gives way that has not come, an answer that is not read.
const slowBodyMs = 1_000;
const slowReaderMs = 10_000;

/** What a request holds of the bounds. */
interface Held {
  share: Share;
  /** Of its body, as they have come. */
  bytes: number;
}

/** A request whose body is coming in, since when (`performance.now()`), and what refuses it. */
interface Arriving {
  request: FastifyRequest;
  since: number;
  refuse: (problem: ApiError) => void;
}

/** What one tenant holds, or all callers together who name none. */
interface Share {
  tenantId: string;
  requests: number;
  bytes: number;
  answered: number;
}

/** What is being worked on. */
export class Load {
  /** Requests that have begun and not ended: some of them are answered, and their clients have not read it. */
  requests = 0;
  // Figures and a list, not a Set or a Map of requests: V8's keep hold of much of what was ever in them. A table that has grown old leads to those
  // that followed it until the old generation is collected; every request that was in one when it was rebuilt outlived its time by seconds.
  private working = 0;
  private bytes = 0;
  private answered = 0;
  /** Of those answers that belong to nobody: figures. */
  private readonly public: Pick<Share, 'answered'> = { answered: 0 };
  /** Requests whose bodies are coming in, and those whose large answers are not read yet; the first since longest. */
  private readonly arriving = new Yallist<Arriving>();
  private readonly unread = new Map<FastifyRequest, { since: number; share: Pick<Share, 'answered'>; bytes: number }>();
  private readonly shares = new Map<string, Share>();
  private readonly most: number;

  /** `most`: requests at once; one tenant may have half of them, and half of the bytes. */
  constructor(most: number) {
    this.most = most;
  }

  /** Counts a request; `end` takes it back. */
  begin(): void {
    this.requests++;
  }

  /** Lets a request in, or refuses what is too much, before anything is done for it. */
  enter(request: FastifyRequest): ApiError | undefined {
    if (this.working >= this.most && !this.dropSlowBody()) return new ApiError('overloaded');
    this.working++;
    request.isWorkedOn = true;
    return undefined;
  }

  /**
   * Nothing more is worked on for a request that is refused. It keeps its share until it ends; but who has no credential could otherwise keep out
   * everybody with refusals that he does not read, 60 of them on one connection.
   */
  refuse(request: FastifyRequest): void {
    if (!request.isWorkedOn) return;
    request.isWorkedOn = false;
    this.working--;
  }

  /** Takes the request's share, once it is known whose it is; refuses what is beyond it, before the body is read. */
  take(request: FastifyRequest): ApiError | undefined {
    const { tenantId } = request.caller;
    // Users and those who log in share one half, too, so that they can't keep postings out.
    const share = this.shares.get(tenantId) ?? { tenantId, requests: 0, bytes: 0, answered: 0 };
    if (share.requests + 1 > Math.max(1, this.most / 2) && !this.dropSlowBody(share)) return new ApiError('overloaded');
    share.requests++;
    this.shares.set(tenantId, share);
    request.held = { share, bytes: 0 };
    return undefined;
  }

  /** Tells that a request's body is coming in, until `arrived` does; `refuse` is called where it is slow and another needs its place. */
  await(request: FastifyRequest, refuse: (problem: ApiError) => void): void {
    this.arriving.push({ request, since: performance.now(), refuse });
    request.arriving = this.arriving.tail ?? null;
  }

  /** The body has come, or will not. */
  arrived(request: FastifyRequest): void {
    if (!request.arriving) return;
    this.arriving.removeNode(request.arriving);
    request.arriving = null;
  }

  /**
   * Counts bytes of a body as they come: what was only announced takes no room from others. Where a large body does not fit, it is refused
   * and lets go of all it held.
   */
  arrive(request: FastifyRequest, bytes: number): ApiError | undefined {
    const { held } = request;
    if (!held) return undefined;
    this.grow(held, bytes);
    const most = held.share.tenantId === '' ? mostOfNobody : mostBytes / 2;
    if (held.bytes <= smallBody || (held.share.bytes <= most && this.bytes <= mostBytes)) return undefined;
    this.grow(held, -held.bytes);
    return new ApiError('overloaded');
  }

  /**
   * Counts an answer until it has been read, or its client has gone; refuses a large one where too many wait to be read. Where they are others'
   * who are slow, one of these is cut off instead.
   */
  answer(request: FastifyRequest, bytes: number): ApiError | undefined {
    if (bytes <= smallAnswer) return undefined;
    const share = request.held?.share ?? this.public;
    if (share.answered + bytes > mostAnswered / 2) return new ApiError('overloaded');
    while (this.answered + bytes > mostAnswered) if (!this.dropSlowReader()) return new ApiError('overloaded');
    this.unread.set(request, { since: performance.now(), share, bytes });
    this.answered += bytes;
    share.answered += bytes;
    return undefined;
  }

  /** Takes a request back. */
  end(request: FastifyRequest): void {
    this.requests--;
    this.refuse(request);
    this.arrived(request);
    this.forgetAnswer(request);
    this.letGo(request);
  }

  /** Refuses the slowest body, of one share if given; false: there is none that is slow. */
  private dropSlowBody(share?: Share): boolean {
    const now = performance.now();
    for (const { request, since, refuse } of this.arriving) {
      if (now - since < slowBodyMs) return false;
      if (share && request.held?.share !== share) continue;
      this.arrived(request);
      this.refuse(request);
      this.letGo(request);
      refuse(new ApiError('overloaded'));
      return true;
    }
    return false;
  }

  /** Cuts off the slowest reader of those who have most to read; false: nobody is slow. */
  private dropSlowReader(): boolean {
    const now = performance.now();
    let slowest: { request: FastifyRequest; answered: number } | undefined;
    for (const [request, { since, share }] of this.unread) {
      if (now - since < slowReaderMs) break;
      if (!slowest || share.answered > slowest.answered) slowest = { request, answered: share.answered };
    }
    if (!slowest) return false;
    this.forgetAnswer(slowest.request);
    slowest.request.raw.socket.destroy();
    return true;
  }

  private forgetAnswer(request: FastifyRequest): void {
    const found = this.unread.get(request);
    if (!found) return;
    this.unread.delete(request);
    this.answered -= found.bytes;
    found.share.answered -= found.bytes;
  }

  private letGo(request: FastifyRequest): void {
    const { held } = request;
    if (!held) return;
    request.held = null;
    this.grow(held, -held.bytes);
    if (--held.share.requests === 0) this.shares.delete(held.share.tenantId);
  }

  private grow(held: Held, bytes: number): void {
    this.bytes += bytes;
    held.share.bytes += bytes;
    held.bytes += bytes;
  }
}
