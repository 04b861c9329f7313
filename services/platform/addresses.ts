// Resolves lists of `host:port` for grpc-js, which takes no list of names and resolves a name again only when a connection ends.
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { experimental, type ChannelOptions } from '@grpc/grpc-js';
import { hostAndPort } from './settings.ts';

/** Looks up all addresses of a host. */
export type Resolve = (host: string) => Promise<{ address: string; family: number }[]>;

const resolveEveryMs = 5_000;

/** The addresses behind a list of `host:port`, resolved every 5 s. What can't be resolved any more stays as it was. */
export class Addresses {
  private readonly resolved: Map<string, string[]>;
  private readonly closing = new AbortController();
  /** Called at each change. */
  readonly listeners = new Set<() => void>();
  /** `ip:port`, sorted, so that the order is the same in all processes. */
  current: string[] = [];

  constructor(list: string[], resolve: Resolve = (host) => lookup(host, { all: true })) {
    const names = list.filter((each) => isIP(hostAndPort(each).host) === 0);
    this.resolved = new Map(list.map((each) => [each, names.includes(each) ? [] : [each]]));
    this.update();
    for (const name of names) void this.watch(name, resolve);
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
    const updated = [...new Set([...this.resolved.values()].flat())].sort();
    if (updated.join() === this.current.join()) return;
    this.current = updated;
    for (const listener of this.listeners) listener();
  }
}

const scheme = 'addresses';

/** Target and options of a channel to all of the addresses, also as they change. Calls wait for the first one. */
export function channelTo(addresses: Addresses): { target: string; options: ChannelOptions } {
  return { target: `${scheme}:service`, options: { [scheme]: addresses } };
}

class AddressesResolver implements experimental.Resolver {
  private readonly addresses: Addresses;
  private readonly report: () => void;

  constructor(_target: experimental.GrpcUri, listener: experimental.ResolverListener, options: ChannelOptions) {
    this.addresses = options[scheme] as Addresses;
    this.report = () => {
      const endpoints = this.addresses.current.map((address) => ({ addresses: [hostAndPort(address)] }));
      if (endpoints.length > 0) listener(experimental.statusOrFromValue(endpoints), {}, null, '');
    };
  }

  static getDefaultAuthority(target: experimental.GrpcUri): string {
    return target.path;
  }

  updateResolution(): void {
    const { listeners } = this.addresses;
    listeners.add(this.report);
    // grpc-js expects no report before this returns, and none after `destroy`.
    setImmediate(() => listeners.has(this.report) && this.report());
  }

  destroy(): void {
    this.addresses.listeners.delete(this.report);
  }
}

experimental.registerResolver(scheme, AddressesResolver);
