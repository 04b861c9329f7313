// A proxy on every way between two processes of a cluster, with the name of the way.
import { services, type DeploymentPlan, type Service } from '../../deploy/local/plan.ts';
import { hostAndPort } from '../../services/platform/settings.ts';
import { openProxy, type Proxy } from '../proxy.ts';

/** A way between two processes. */
interface Way {
  from: string;
  to: Service | 'postgres';
}

/** The names of all ways of a cluster of so many replicas: like `ledger-2 to postgres`. `relayed`: events travel over gRPC. */
export function wayNames(replicas: Record<Service, number>, relayed: boolean): string[] {
  return [...waysOf(replicas, relayed).map(nameOf), ...(relayed ? [] : [toKafka])];
}

/** The name of the way to Kafka, which all take. */
export const toKafka = 'clients to kafka';

function waysOf(replicas: Record<Service, number>, relayed: boolean): Way[] {
  return services.flatMap((service) => [
    ...Array.from({ length: replicas[service] }, (_, replica) => (replica === 0 ? service : `${service}-${replica + 1}`)).flatMap(
      (from): Way[] => [{ from, to: 'postgres' }, ...(service === 'ledger' && relayed ? [{ from, to: 'notifier' as const }] : [])],
    ),
    { from: 'gateway', to: service },
  ]);
}

function nameOf({ from, to }: Way): string {
  return `${from} to ${to}`;
}

function serviceOf(process: string): Service {
  return process.replace(/-[0-9]+$/, '') as Service;
}

/** The proxies of a cluster. */
export class Wires {
  private readonly proxies = new Map<string, Proxy[]>();

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

  /** Puts one on every way of a cluster; answers what its processes have to be told. */
  async between(
    { addresses, databases }: Pick<DeploymentPlan, 'addresses' | 'databases'>,
    relayed: boolean,
  ): Promise<Record<string, NodeJS.ProcessEnv>> {
    const told: Record<string, NodeJS.ProcessEnv> = {};
    const replicas = { identity: addresses.identity.length, ledger: addresses.ledger.length, notifier: addresses.notifier.length };
    for (const { from, to } of waysOf(replicas, relayed)) {
      const name = nameOf({ from, to });
      if (to === 'postgres') {
        const url = new URL(databases[serviceOf(from)].serviceUrl);
        url.port = String(await this.add(name, Number(url.port)));
        told[from] = { ...told[from], DATABASE_URL: url.href };
        continue;
      }
      const proxied: string[] = [];
      for (const address of addresses[to]) {
        const { host, port } = hostAndPort(address);
        proxied.push(`${host}:${await this.add(name, port)}`);
      }
      told[from] = { ...told[from], [`${to.toUpperCase()}_ADDR`]: proxied.join(',') };
    }
    return told;
  }

  /** Closes all. */
  async close(): Promise<void> {
    await Promise.all([...this.proxies.values()].flat().map((proxy) => proxy.close()));
  }
}
