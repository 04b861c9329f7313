// How the server ends: everything that was asked is answered, and whoever keeps his connection is told that it ends before it does.
import { ServerResponse, type IncomingMessage } from 'node:http';
import type { App } from './app.ts';
import type { Load } from './load.ts';

// Longer than any request that has been read takes to be answered, but for a test delivery to a slow receiver.
const drainMs = 15_000;

// So long a connection may idle while the server closes, milliseconds: whoever asks again and again is told by then. Closed in the moment of its next
// posting it would leave him without an answer, and no client repeats that by itself.
const lastAskedMs = 250;

/** The end of a server. */
export class Drain {
  private began: number | undefined;
  /** Its answers: once it has begun to close each tells that its connection ends with it, whenever it was asked for. */
  readonly ServerResponse: typeof ServerResponse;

  constructor() {
    const isClosing = () => this.began !== undefined;
    this.ServerResponse = class<Request extends IncomingMessage> extends ServerResponse<Request> {
      override writeHead(...head: unknown[]): this {
        if (isClosing()) this.shouldKeepAlive = false;
        return super.writeHead(...(head as [number]));
      }
    };
  }

  /** Ends connections while the server closes: those that idle, and when everything has been answered, or takes too long, all of them. */
  endConnections(app: App, load: Load): void {
    app.addHook('preClose', (done) => {
      const began = (this.began = performance.now());
      // Until it is done the server takes connections.
      app.server.getConnections((_, count) => setTimeout(done, count > 0 ? lastAskedMs : 0));
      const sweep = setInterval(() => {
        const lastedMs = performance.now() - began;
        if (lastedMs < lastAskedMs) return;
        // What is still coming in then, a body that nobody reads or half a request, has not begun.
        if (load.requests === 0 || lastedMs > drainMs) app.server.closeAllConnections();
        else app.server.closeIdleConnections();
      }, 50);
      app.server.once('close', () => clearInterval(sweep));
    });
  }
}
