// A TCP proxy between two parts of the house, that cuts or holds what passes when a test says so.
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';

/** What a watcher decides about a chunk of bytes: pass it on, or cut the connection instead (`cut`), also before it (`cut before`). */
export type Verdict = 'pass' | 'cut' | 'cut after';

/** A running proxy. */
export interface Proxy {
  port: number;
  /** Asked about every chunk that the client sends; `cut after` passes it on, waits for the server's answer and swallows that. */
  watch: (chunk: Buffer) => Verdict;
  /** Stops passing bytes in either direction while true; nothing is lost. */
  hold(held: boolean): void;
  /** Cuts every connection there is. */
  cut(): void;
  close(): Promise<void>;
}

/** Opens a proxy in front of a port of this machine. */
export async function openProxy(target: number): Promise<Proxy> {
  const pairs = new Set<[Socket, Socket]>();
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    let swallow = false;
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    client.on('data', (chunk) => {
      const verdict = proxy.watch(chunk);
      if (verdict === 'cut') {
        end();
        return;
      }
      if (verdict === 'cut after') swallow = true;
      upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      if (swallow) end();
      else client.write(chunk);
    });
    for (const socket of pair) {
      socket.on('error', end);
      socket.on('close', end);
    }
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const proxy: Proxy = {
    port: (server.address() as AddressInfo).port,
    watch: () => 'pass',
    hold: (held) => {
      for (const socket of [...pairs].flat()) {
        if (held) socket.pause();
        else socket.resume();
      }
    },
    cut: () => {
      for (const socket of [...pairs].flat()) socket.destroy();
    },
    close: async () => {
      proxy.cut();
      await new Promise((done) => server.close(done));
    },
  };
  return proxy;
}
