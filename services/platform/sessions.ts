// What one HTTP/2 connection may make a gRPC server do. Node and nghttp2 bound PING, SETTINGS, CONTINUATION and empty frames by
// themselves; streams that are opened and reset, left open or opened without the token are work for this process, and are bounded here.
import {
  constants,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Registry } from 'prom-client';
import { openGauge } from './gauges.ts';
import { runningServer, type RunningServer } from './lifetime.ts';
import type { Logger } from './telemetry.ts';

// A gRPC client looks names up again only when a connection ends, grpc-js for one, so that new replicas get load only if connections are bounded
// in age.
const connectionAgeMs = 5 * 60_000;
// Longer than any call takes: what is still open then will never end.
const connectionGraceMs = 60_000;

// A server that closes waits so long for what is under way: whoever watches health, or never ends his request, would keep it for ever.
const closingMs = 5_000;

/** What either side may send before the other has read it: with HTTP/2's own 64 KiB a call of a megabyte waits for a round trip sixteen times. */
export const windowBytes = 4 * 1024 * 1024;

// Streams that one connection may have open, may have refused before it is ended, and may reset at once and then each second. A gateway works
// on 4,096 requests: where all who sent them leave at the same moment, nghttp2's own bound, 1,000 resets, would end the connection and every
// call on it. A stream holds some 70 KiB: without a bound connections that never ended theirs held 2.6 GB.
const mostStreams = 5_000;
const mostRefused = 5_000;
const mostResets = { burst: 10_000, perSecond: 1_000 };

// Streams without the token, health checks included, which a connection may open at once, and then each second, and may have open. A call that
// is refused costs as much as one that is answered: 112 connections of 5,000 such streams kept a ledger from all else for 22 s. Who takes no
// answer keeps his streams open, at 70 KiB each. Who tries each method once without the token is told each time what is wrong.
const strangersStreams = { burst: 200, perSecond: 20, open: 200 };

/** What answers a request. */
export type NodeHandler = (request: Http2ServerRequest, response: Http2ServerResponse) => void;

/** Where to listen, and for whom. */
export interface BoundedOptions {
  host: string;
  port: number;
  /** Whether a value of the header `authorization` is right. */
  isKnown: (authorization: string) => boolean;
  logger: Logger;
  metrics: Registry;
}

/** Listens for HTTP/2; `close` waits up to 5 s for what is under way, then ends every connection. Throws {@link StartFailure} where it can't. */
export async function listenBounded(
  handler: NodeHandler,
  { host, port, isKnown, logger, metrics }: BoundedOptions,
): Promise<RunningServer> {
  const server = createServer(
    {
      // MB. Node's 10 a session are less than a few large answers on their way: it then refuses every further call of that caller. What is worked on
      // at once bounds no answers that nobody reads: 380 pages of a megabyte on one connection were 620 MiB.
      maxSessionMemory: 256,
      maxSessionRejectedStreams: mostRefused,
      streamResetBurst: mostResets.burst,
      streamResetRate: mostResets.perSecond,
      // Node's bound of a call's metadata, beyond which it ends the session with all calls on it: said, so that clients hold such a call back.
      settings: { initialWindowSize: windowBytes, maxConcurrentStreams: mostStreams, maxHeaderListSize: 65_536 },
    },
    // Taken up when everything has been read that came with it: of streams that are opened and reset at once, nothing is begun.
    (request, response) => {
      setImmediate(() => {
        if (request.stream.destroyed) return;
        try {
          handler(request, response);
        } catch (error) {
          // Of an authority that is none, for example, such as `[`. It must not end the process.
          logger.warn({ err: error }, 'a request could not be taken up');
          request.stream.close(constants.NGHTTP2_PROTOCOL_ERROR);
        }
      });
    },
  );
  // A session that is closed or destroyed ends its half of the connection, and waits for the other: only its socket can be cut.
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    const end = setTimeout(() => socket.destroy(), connectionAgeMs * 1.1 + connectionGraceMs).unref();
    socket.once('close', () => {
      sockets.delete(socket);
      clearTimeout(end);
    });
  });
  const sessions = new Set<ServerHttp2Session>();
  let streams = 0;
  openGauge(metrics, 'grpc_server_connections', 'Connections that are open', () => sessions.size);
  openGauge(metrics, 'grpc_server_streams', 'Streams that are open: calls, and what carries many of them', () => streams);
  const strangers = new WeakMap<ServerHttp2Session, { left: number; since: number; open: number }>();
  server.on('session', (session) => {
    sessions.add(session);
    strangers.set(session, { left: strangersStreams.burst, since: performance.now(), open: 0 });
    session.setLocalWindowSize(windowBytes);
    const age = setTimeout(() => session.close(), connectionAgeMs * (0.9 + Math.random() * 0.2)).unref();
    session.on('close', () => {
      sessions.delete(session);
      clearTimeout(age);
    });
    session.on('error', (error) => logger.debug({ err: error }, 'session failed'));
  });
  server.prependListener('stream', (stream, headers: IncomingHttpHeaders) => {
    streams++;
    stream.once('close', () => streams--);
    const { session } = stream;
    const stranger = session && strangers.get(session as ServerHttp2Session);
    if (!stranger) return;
    if (isKnown(headers.authorization ?? '')) {
      strangers.delete(session as ServerHttp2Session);
      return;
    }
    const now = performance.now();
    const earned = ((now - stranger.since) / 1000) * strangersStreams.perSecond;
    stranger.left = Math.min(strangersStreams.burst, stranger.left + earned) - 1;
    stranger.since = now;
    stranger.open++;
    stream.once('close', () => stranger.open--);
    if (stranger.left < 0 || stranger.open > strangersStreams.open)
      session.destroy(new Error('too many calls without the token'), constants.NGHTTP2_ENHANCE_YOUR_CALM);
  });
  return runningServer(
    server,
    { variable: 'PORT', host, port },
    {
      // A caller that idles would keep the server open.
      release: () => sessions.forEach((session) => session.close()),
      forceClose: () => sockets.forEach((socket) => socket.destroy()),
      ms: closingMs,
    },
  );
}
