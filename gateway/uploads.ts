// Bodies of any length, which are read as they arrive.
import { PassThrough, type Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from './errors.ts';
import { longUploads } from './malformed-http.ts';
import type { App } from './request-context.ts';

/** The media type of such bodies. */
export const ndjson = 'application/x-ndjson';

/** How long a client may go on sending after an answer that ended early. */
const lingerMs = 5_000;

/** Registers routes whose parser of bodies is not that of the others: they get the stream. */
export function withUploads(app: App, routes: (app: App) => void): void {
  void app.register((scoped: App, _options, done) => {
    scoped.removeAllContentTypeParsers();
    scoped.addContentTypeParser(ndjson, (_request, payload, parsed) => parsed(null, payload));
    const message = `the body must be ${ndjson} in UTF-8`;
    scoped.addContentTypeParser('*', (_request, _payload, parsed) => parsed(new ApiError('unsupported_media_type', { message })));
    routes(scoped);
    done();
  });
}

/** Rejects a body that is compressed. */
export function refuseCompressed({ headers }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const isPlain = (headers['content-encoding'] ?? 'identity').toLowerCase() === 'identity';
  const options = { message: 'the body must not be compressed', headers: { 'accept-encoding': 'identity' } };
  done(isPlain ? undefined : new ApiError('unsupported_media_type', options));
}

/** The bytes of a request, which end early when the process begins to stop. A body may take any time; what is left of it is read and dropped. */
export function openBytes({ raw }: FastifyRequest, reply: FastifyReply, body: Readable, shutdown: AbortSignal): Readable {
  const { socket } = raw;
  const bytes = new PassThrough();
  const end = () => {
    body.unpipe(bytes);
    bytes.end();
  };
  // The reader gets the error; it may not have begun to read.
  bytes.on('error', () => undefined);
  body.pipe(bytes);
  shutdown.addEventListener('abort', end);
  longUploads.add(socket);
  reply.raw.once('finish', () => {
    raw.resume();
    setTimeout(() => raw.complete || raw.destroy(), lingerMs).unref();
  });
  reply.raw.once('close', () => {
    shutdown.removeEventListener('abort', end);
    longUploads.delete(socket);
    body.unpipe(bytes);
    bytes.destroy(raw.complete ? undefined : new Error('the client has left'));
  });
  return bytes;
}
