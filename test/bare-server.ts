// A server of Node's own HTTP/2, without the cluster's bounds, and a channel to it, for the tests of how calls end.
import { createServer, type IncomingHttpHeaders, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Channel } from '../services/platform/channel.ts';

/** Takes up a call. */
export type StreamHandler = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => unknown;

/** One that answers. */
export interface BareServer {
  channel: Channel;
  port: number;
  sessions: ServerHttp2Session[];
  /** Paths of the streams that came. */
  paths: string[];
  close: () => void;
}

/** Starts one; `most`: the largest message of the channel, bytes. */
export async function startBareServer(handle: StreamHandler, most: number): Promise<BareServer> {
  const server = createServer();
  const sessions: ServerHttp2Session[] = [];
  const paths: string[] = [];
  server.on('session', (session) => sessions.push(session.on('error', () => undefined)));
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    paths.push(String(headers[':path']));
    handle(stream, headers);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const channel = new Channel(`127.0.0.1:${port}`, most);
  const close = () => {
    channel.close();
    for (const session of sessions) session.destroy();
    server.close();
  };
  return { channel, port, sessions, paths, close };
}
