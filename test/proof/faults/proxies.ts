// A TCP proxy on every route between two processes of a cluster.
import { services, type DeploymentPlan, type Service } from '../../../deploy/local/plan.ts';
import { hostAndPort } from '../../../services/platform/settings.ts';
import { openProxy, type Proxy } from '../../proxy.ts';

interface Route {
  from: string;
  to: Service | 'postgres';
}

/** The route to Kafka, which all processes share. */
export const toKafka = 'clients to kafka';

/** The names of all routes of a cluster of so many replicas: like `ledger-2 to postgres`. `overGrpc`: events travel over gRPC. */
export function routeNames(replicas: Record<Service, number>, overGrpc: boolean): string[] {
  return [...routesOf(replicas, overGrpc).map(nameOf), ...(overGrpc ? [] : [toKafka])];
}

function routesOf(replicas: Record<Service, number>, overGrpc: boolean): Route[] {
  return services.flatMap((service) => {
    const processes = Array.from({ length: replicas[service] }, (_, replica) => (replica === 0 ? service : `${service}-${replica + 1}`));
    const own = processes.flatMap((from): Route[] => [
      { from, to: 'postgres' },
      ...(service === 'ledger' && overGrpc ? [{ from, to: 'notifier' as const }] : []),
    ]);
    return [...own, { from: 'gateway', to: service }];
  });
}

const nameOf = ({ from, to }: Route) => `${from} to ${to}`;

/** The proxies of a cluster. */
export class ClusterProxies {
  private readonly proxies = new Map<string, Proxy[]>();

  /** The proxies of one route: one for each replica that it leads to. */
  of(name: string): Proxy[] {
    return this.proxies.get(name) ?? [];
  }

  /** Puts a proxy in front of a port; resolves to the proxy's port. */
  async add(name: string, port: number): Promise<number> {
    const proxy = await openProxy(port);
    this.proxies.set(name, [...this.of(name), proxy]);
    return proxy.port;
  }

  /** Puts one on every route of a cluster; resolves to the environment that sends its processes there. */
  async between(
    { addresses, databases }: Pick<DeploymentPlan, 'addresses' | 'databases'>,
    overGrpc: boolean,
  ): Promise<Record<string, NodeJS.ProcessEnv>> {
    const environment: Record<string, NodeJS.ProcessEnv> = {};
    const replicas = { identity: addresses.identity.length, ledger: addresses.ledger.length, notifier: addresses.notifier.length };
    for (const { from, to } of routesOf(replicas, overGrpc)) {
      const name = nameOf({ from, to });
      if (to === 'postgres') {
        const url = new URL(databases[from.replace(/-[0-9]+$/, '') as Service].serviceUrl);
        url.port = String(await this.add(name, Number(url.port)));
        environment[from] = { ...environment[from], DATABASE_URL: url.href };
        continue;
      }
      const proxied: string[] = [];
      for (const address of addresses[to]) {
        const { host, port } = hostAndPort(address);
        proxied.push(`${host}:${await this.add(name, port)}`);
      }
      environment[from] = { ...environment[from], [`${to.toUpperCase()}_ADDR`]: proxied.join(',') };
    }
    return environment;
  }

  async close(): Promise<void> {
    await Promise.all([...this.proxies.values()].flat().map((proxy) => proxy.close()));
  }
}
