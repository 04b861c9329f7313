// The replicas of a service: a grpc-js client for each address of each name, and which of them can be called.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connectivityState, type Client } from '@grpc/grpc-js';
import { hostAndPort } from './settings.ts';

/** One of them. */
export interface Replica {
  /** `ip:port`, or `name:port` before the name is first resolved. */
  address: string;
  client: Client;
  /** Until then it is called only where there is no other one, as it has let a call time out. */
  avoidedUntil: number;
}

/** All addresses of a host. */
export type Resolve = (host: string) => Promise<{ address: string; family: number }[]>;

// grpc-js itself resolves names only when a connection ends, and then not lists of names.
const resolveEveryMs = 5_000;
// Longer than calls wait for a connection.
const closeAfterMs = 15_000;

/** The replicas behind a list of `host:port`. */
export class Replicas {
  private readonly open: (address: string) => Client;
  /** The addresses of each that was given. */
  private readonly resolved: Map<string, string[]>;
  private readonly known = new Map<string, Replica>();
  private readonly closing = new AbortController();
  private turn = 0;

  constructor(addresses: string[], open: (address: string) => Client, resolve: Resolve = (host) => lookup(host, { all: true })) {
    this.open = open;
    this.resolved = new Map(addresses.map((address) => [address, [address]]));
    this.update();
    for (const address of addresses) if (isIP(hostAndPort(address).host) === 0) void this.watch(address, resolve);
  }

  /** Those that can be called, in the order of their addresses: the connected ones that answer in time, else the connected ones, else all. */
  available(): Replica[] {
    const all = [...this.known.values()];
    const now = performance.now();
    const connected = all.filter(({ client }) => client.getChannel().getConnectivityState(true) === connectivityState.READY);
    const prompt = connected.filter(({ avoidedUntil }) => avoidedUntil <= now);
    return [prompt, connected].find((each) => each.length > 0) ?? all;
  }

  /** The next of the available ones in turn; not `previous` where there is another one. */
  next(previous?: Replica): Replica {
    const available = this.available();
    const others = available.filter((each) => each !== previous);
    const candidates = others.length > 0 ? others : available;
    this.turn = (this.turn + 1) % candidates.length;
    return candidates[this.turn] as Replica;
  }

  /** Closes the connections when the calls on them are answered. */
  close(): void {
    this.closing.abort();
    for (const { client } of this.known.values()) client.close();
  }

  // What can't be resolved any more stays as it was.
  private async watch(name: string, resolve: Resolve): Promise<void> {
    const { signal } = this.closing;
    const { host, port } = hostAndPort(name);
    while (!signal.aborted) {
      const found = await resolve(host).catch(() => []);
      if (found.length > 0 && !signal.aborted) {
        this.resolved.set(
          name,
          found.map(({ address, family }) => (family === 6 ? `[${address}]:${port}` : `${address}:${port}`)),
        );
        this.update();
      }
      await pause(resolveEveryMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  private update(): void {
    const wanted = new Set([...this.resolved.values()].flat().sort());
    const before = new Map(this.known);
    this.known.clear();
    for (const address of wanted) {
      this.known.set(address, before.get(address) ?? { address, client: this.open(address), avoidedUntil: 0 });
      before.delete(address);
    }
    // Calls that wait for its connection would fail.
    for (const { client } of before.values()) setTimeout(() => client.close(), closeAfterMs).unref();
  }
}
