// A TCP balancer that sends new connections to ready replicas only, as a Service of Kubernetes does with those of its endpoints.
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A replica behind a balancer. */
export interface Backend {
  name: string;
  port: number;
  /** Where its `/readyz` is. */
  ops: string;
}

/** A running balancer. */
export interface Balancer {
  /** `http://127.0.0.1:…`. */
  url: string;
  /** Sends it no more new connections, as when a pod is about to stop; those it has stay open. */
  leave(name: string): void;
  /** Sends it new connections as soon as it is ready. */
  join(name: string): void;
  close(): Promise<void>;
}

const pollMs = 50;

/** Opens a balancer. A replica that has not left gets connections while its `/readyz` answers 200. */
export async function openBalancer(backends: Backend[]): Promise<Balancer> {
  const left = new Set<string>();
  const ready = new Set<string>();
  const sockets = new Set<Socket>();
  const closing = new AbortController();
  let turn = 0;
  const poll = async ({ name, ops }: Backend): Promise<void> => {
    while (!closing.signal.aborted) {
      const answer = await fetch(`${ops}/readyz`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
      await answer?.body?.cancel();
      if (answer?.ok === true && !left.has(name)) ready.add(name);
      else ready.delete(name);
      await pause(pollMs);
    }
  };
  const server = createServer((client) => {
    const able = backends.filter(({ name }) => ready.has(name));
    const backend = able[turn++ % able.length];
    if (!backend) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({ port: backend.port, host: '127.0.0.1', noDelay: true });
    client.setNoDelay(true);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.resetAndDestroy());
      one.on('close', () => sockets.delete(one));
      one.pipe(other);
    }
  });
  const polls = backends.map(poll);
  while (ready.size < backends.length) await pause(pollMs);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leave: (name) => {
      left.add(name);
      ready.delete(name);
    },
    join: (name) => void left.delete(name),
    close: async () => {
      closing.abort();
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => server.close(done));
      await Promise.all(polls);
    },
  };
}
