// A TCP proxy between two processes that cuts, pauses or delays connections, or leaves them half-open.
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';

/** What to do with a chunk: pass it, cut the connection instead (`cut`) or after it (`cut after`), or keep it until `hold(false)` (`hold`). */
export type Verdict = 'pass' | 'cut' | 'cut after' | 'hold';

/** A running proxy. */
export interface Proxy {
  port: number;
  /** Called for every chunk of the client; `cut after` passes it, and swallows the server's answer. */
  watch: (chunk: Buffer) => Verdict;
  /** Changes every chunk of the server. */
  translate: (chunk: Buffer) => Buffer;
  /** While true no bytes pass; none are lost. */
  hold(paused: boolean): void;
  /** Cuts every connection. */
  cut(): void;
  /** Delays every chunk by so many milliseconds, in order; 0: no more. */
  delay(ms: number): void;
  /** Leaves every connection half-open: nothing passes, and neither side notices. New ones work. */
  forget(): void;
  /** While true nothing passes on any connection, new ones included; then all are reset. */
  isolate(isolated: boolean): void;
  /** Leads new connections to another port, and cuts the existing ones. */
  lead(target: number): void;
  close(): Promise<void>;
}

/** Opens a proxy in front of a port of this machine. */
export async function openProxy(target: number): Promise<Proxy> {
  const pairs = new Set<[Socket, Socket]>();
  const forgotten = new Set<Socket>();
  const kept: (() => void)[] = [];
  let delayMs = 0;
  let isolating = false;
  const server = createServer((client) => {
    if (isolating) {
      neglect(client);
      return;
    }
    const upstream = connect(target, '127.0.0.1');
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    const [up, down] = [later(upstream, () => delayMs), later(client, () => delayMs)];
    let swallow = false;
    const end = () => {
      if (!pairs.delete(pair)) return;
      client.destroy();
      upstream.destroy();
    };
    client.on('data', (chunk) => {
      if (!pairs.has(pair)) return;
      const verdict = proxy.watch(chunk);
      if (verdict === 'cut') {
        end();
        return;
      }
      if (verdict === 'hold') {
        client.pause();
        kept.push(() => pairs.has(pair) && up(chunk));
        return;
      }
      if (verdict === 'cut after') swallow = true;
      up(chunk);
    });
    upstream.on('data', (chunk) => {
      if (!pairs.has(pair)) return;
      if (swallow) end();
      else down(proxy.translate(chunk));
    });
    for (const socket of pair) {
      socket.on('error', end);
      socket.on('close', end);
    }
  });
  const neglect = (socket: Socket) => {
    forgotten.add(socket);
    socket.resume();
    socket.on('error', () => socket.destroy());
    socket.on('close', () => forgotten.delete(socket));
  };
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const proxy: Proxy = {
    port: (server.address() as AddressInfo).port,
    watch: () => 'pass',
    translate: (chunk) => chunk,
    hold: (paused) => {
      if (!paused) for (const pass of kept.splice(0)) pass();
      for (const socket of [...pairs].flat()) {
        if (paused) socket.pause();
        else socket.resume();
      }
    },
    cut: () => {
      for (const socket of [...pairs].flat()) socket.destroy();
    },
    delay: (ms) => {
      delayMs = ms;
    },
    forget: () => {
      for (const socket of [...pairs].flat()) neglect(socket);
      pairs.clear();
    },
    isolate: (isolated) => {
      isolating = isolated;
      if (isolated) proxy.forget();
      else for (const socket of forgotten) socket.resetAndDestroy();
    },
    lead: (other) => {
      target = other;
      proxy.cut();
    },
    close: async () => {
      proxy.cut();
      for (const socket of forgotten) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  };
  return proxy;
}

/** Writes to a socket after the delay of the moment, in order also when the delay changes. */
function later(socket: Socket, delayMs: () => number): (chunk: Buffer) => void {
  const waiting: { at: number; chunk: Buffer }[] = [];
  const pass = () => {
    for (let first = waiting[0]; first; first = waiting[0]) {
      const left = first.at - performance.now();
      if (left > 0) {
        setTimeout(pass, left);
        return;
      }
      socket.write(first.chunk);
      waiting.shift();
    }
  };
  return (chunk) => {
    const ms = delayMs();
    if (ms === 0 && waiting.length === 0) {
      socket.write(chunk);
      return;
    }
    waiting.push({ at: performance.now() + ms, chunk });
    if (waiting.length === 1) setTimeout(pass, ms);
  };
}
