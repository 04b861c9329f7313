// Resolves lists of `host:port`, because grpc-js resolves a name again only when a connection ends.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { hostAndPort } from './settings.ts';

/** Looks up all addresses of a host. */
export type Resolve = (host: string) => Promise<{ address: string; family: number }[]>;

const resolveEveryMs = 5_000;

/** The addresses behind a list of `host:port`, resolved every 5 s. What can't be resolved any more stays as it was. */
export class Addresses {
  private readonly resolved: Map<string, string[]>;
  private readonly closing = new AbortController();
  private readonly found = Promise.withResolvers<void>();
  /** `ip:port`, sorted, so that the order is the same in all processes. */
  current: string[] = [];
  /** Resolves when there is an address. */
  readonly known = this.found.promise;

  constructor(list: string[], resolve: Resolve = (host) => lookup(host, { all: true })) {
    const names = list.filter((each) => isIP(hostAndPort(each).host) === 0);
    this.resolved = new Map(list.map((each) => [each, names.includes(each) ? [] : [each]]));
    this.update();
    for (const name of names) void this.watch(name, resolve);
  }

  /** The host of the list behind a current address. */
  hostOf(address: string): string {
    const [listed] = [...this.resolved].find(([, addresses]) => addresses.includes(address)) ?? [address];
    return hostAndPort(listed).host;
  }

  /** Stops resolving. */
  close(): void {
    this.closing.abort();
  }

  private async watch(name: string, resolve: Resolve): Promise<void> {
    const { signal } = this.closing;
    const { host, port } = hostAndPort(name);
    while (!signal.aborted) {
      const found = await resolve(host).catch(() => []);
      const addresses = found.map(({ address, family }) => (family === 6 ? `[${address}]:${port}` : `${address}:${port}`));
      if (addresses.length > 0) this.resolved.set(name, addresses);
      this.update();
      await pause(resolveEveryMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  private update(): void {
    this.current = [...new Set([...this.resolved.values()].flat())].sort();
    if (this.current.length > 0) this.found.resolve();
  }
}
