// How connections end: each with an answer that says so. And how the server does: it takes no more of them, and answers what was asked.
import { ServerResponse, type IncomingMessage, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { closeGently, isComing } from './body.ts';
import { paceNoMore } from './large-bodies.ts';
import type { Load } from './load.ts';
import type { App } from './request-context.ts';

// Longer than any request that has been read takes to be answered, but for a test delivery to a slow receiver.
const drainMs = 15_000;

// So long connections stay that idle, milliseconds: whoever asks again and again is told in an answer by then. Closed in the moment of his next
// posting, he would have none, and no client repeats that by itself.
const lastAskedMs = 250;

// Connections of which an answer is the last, from when that is decided.
const ended = new WeakSet<Socket>();

/** Has nothing begin that comes behind on a connection: it would be done, and nobody would be told what came of it. */
export function beginNoMore(socket: Socket): void {
  ended.add(socket);
}

/** Whether nothing begins on a connection any more. */
export function isEnded(socket: Socket): boolean {
  return ended.has(socket);
}

/**
 * Ends a connection that has idled for as long as it may, but for one on which something has come: a process that stood still runs its timers before
 * it reads what came meanwhile. (Of 100 postings that a proxy had sent over such connections in 3.6 s of standing still, 96 were lost.)
 */
export function endIdle(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    const { bytesRead } = socket;
    setImmediate(() => {
      if (socket.bytesRead === bytesRead) socket.destroy();
    });
  });
}

const begun = Symbol('requests of a connection that have begun');
type Counted = Socket & { [begun]?: number };

/** The end of connections, and of a server. */
export class Drain {
  private began: number | undefined;
  /**
   * Its answers: each that must be the last of its connection says so. That is one before its request's body has come, and, once it has begun to
   * close, the last that was asked for.
   */
  readonly ServerResponse: typeof ServerResponse;

  constructor() {
    const isClosing = () => this.began !== undefined;
    this.ServerResponse = class<Request extends IncomingMessage> extends ServerResponse<Request> {
      private readonly place: number;

      constructor(...given: [Request]) {
        super(...given);
        const socket: Counted = given[0].socket;
        this.place = socket[begun] = (socket[begun] ?? 0) + 1;
      }

      override writeHead(...head: unknown[]): this {
        // Kept, it is used for another's request by a proxy whose own client has left in the middle of his body (HAProxy 2.6, over HTTP/2): that request
        // was read as the rest of the body, and nobody answered it.
        if (isComing(this.req)) {
          closeGently(this.req);
          this.shouldKeepAlive = false;
        }
        // What was pipelined behind has been done, and Node would not answer it any more.
        if (isClosing() && this.place === (this.req.socket as Counted)[begun]) this.shouldKeepAlive = false;
        if (!this.shouldKeepAlive) beginNoMore(this.req.socket);
        return super.writeHead(...(head as [number]));
      }
    };
  }

  /** Ends all connections while the server closes, when everything has been answered or takes too long. */
  endConnections(app: App, load: Load): void {
    app.addHook('preClose', (done) => {
      const began = (this.began = performance.now());
      paceNoMore();
      // Node would close those that idle now, and takes for one of them whose answer is written, be it unread.
      app.server.closeIdleConnections = () => undefined;
      const end = () => {
        const lastedMs = performance.now() - began;
        // What is still coming in then, a body that nobody reads or half a request, has not begun.
        if (lastedMs > drainMs || (lastedMs > lastAskedMs && load.requests === 0)) app.server.closeAllConnections();
      };
      // A process that stood still runs its timers before it reads what came meanwhile.
      const sweep = setInterval(() => setImmediate(end), 50);
      app.server.once('close', () => clearInterval(sweep));
      done();
    });
  }
}
