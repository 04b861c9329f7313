// A proxy on every way between two processes of a house, with the name of the way.
import { hostAndPort, type HousePlan, type Service } from '../../deploy/local/plan.ts';
import { openProxy, type Proxy } from '../proxy.ts';

/** The proxies of a house. */
export class Wires {
  private readonly proxies = new Map<string, Proxy[]>();

  /** The names of all ways, like `ledger to postgres`. */
  get names(): string[] {
    return [...this.proxies.keys()];
  }

  /** The proxies of one way: one for each replica that it leads to. */
  of(name: string): Proxy[] {
    return this.proxies.get(name) ?? [];
  }

  /** Puts a proxy in front of a port; answers its own. */
  async add(name: string, port: number): Promise<number> {
    const proxy = await openProxy(port);
    this.proxies.set(name, [...this.of(name), proxy]);
    return proxy.port;
  }

  /** Puts one on every way of a house; answers what its processes have to be told. */
  async between(
    { addresses, databases }: Pick<HousePlan, 'addresses' | 'databases'>,
    relayed: boolean,
  ): Promise<Record<string, NodeJS.ProcessEnv>> {
    const told: Record<string, NodeJS.ProcessEnv> = { gateway: {} };
    const toReplicas = async (from: string, service: Service) => {
      const proxied: string[] = [];
      for (const address of addresses[service]) {
        const { host, port } = hostAndPort(address);
        proxied.push(`${host}:${await this.add(`${from} to ${service}`, port)}`);
      }
      told[from] = { ...told[from], [`${service.toUpperCase()}_ADDR`]: proxied.join(',') };
    };
    for (const service of ['identity', 'ledger', 'notifier'] as const) {
      for (const replica of addresses[service].keys()) {
        const name = replica === 0 ? service : `${service}-${replica + 1}`;
        const url = new URL(databases[service].serviceUrl);
        url.port = String(await this.add(`${name} to postgres`, Number(url.port)));
        told[name] = { DATABASE_URL: url.href };
        if (service === 'ledger' && relayed) await toReplicas(name, 'notifier');
      }
      await toReplicas('gateway', service);
    }
    return told;
  }

  /** Closes all. */
  async close(): Promise<void> {
    await Promise.all([...this.proxies.values()].flat().map((proxy) => proxy.close()));
  }
}
