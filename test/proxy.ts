// A TCP proxy between two parts of the cluster, that cuts, holds, delays or forgets what passes when a test says so.
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';

/**
 * What a watcher decides about a chunk of bytes: pass it on, cut the connection instead (`cut`) or behind it (`cut after`), or pass it on, and what
 * follows, when a hold ends (`hold`).
 */
export type Verdict = 'pass' | 'cut' | 'cut after' | 'hold';

/** A running proxy. */
export interface Proxy {
  port: number;
  /** Asked about every chunk that the client sends; `cut after` passes it on, waits for the server's answer and swallows that. */
  watch: (chunk: Buffer) => Verdict;
  /** What becomes of every chunk that the server sends. */
  translate: (chunk: Buffer) => Buffer;
  /** Stops passing bytes in either direction while true; nothing is lost. */
  hold(held: boolean): void;
  /** Cuts every connection there is. */
  cut(): void;
  /** Every chunk from now on arrives so many milliseconds later, in its order; 0 ends it. */
  delay(ms: number): void;
  /** Leaves every connection there is half-open: both sides stay open, nothing passes, and neither is ever told. New ones work. */
  forget(): void;
  /** While true nothing passes, on no connection, and new ones are accepted and not answered; then they are all reset. */
  isolate(isolated: boolean): void;
  /** New connections lead to another port of this machine; those that there are are cut, unless they are to stay. */
  lead(target: number, those?: 'cut' | 'stay'): void;
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
    hold: (held) => {
      if (!held) for (const pass of kept.splice(0)) pass();
      for (const socket of [...pairs].flat()) {
        if (held) socket.pause();
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
    lead: (other, those = 'cut') => {
      target = other;
      if (those === 'cut') proxy.cut();
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
