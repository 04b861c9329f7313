// Who may talk to whom in a cluster, by the network policies of the manifests, against whom the processes call.
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { servers } from '../deploy/local/plan.ts';
import { isPublicAddress } from '../services/notifier/addresses.ts';
import { containerOf, everything, hasKubectl, Rendered, selects, variants, type Manifest } from './kubernetes.ts';
import { forgetSecrets, processes, variablesOf } from './required-settings.ts';

afterAll(forgetSecrets);

/** A pod, or an address outside of the cluster. */
type Place = string | { namespace: string; labels: Record<string, string> };

/** Whether the policies of a namespace let a connection through, by the rules of networking.k8s.io/v1. */
function passes(policies: Manifest[], from: Place, to: Place, port: number, protocol = 'TCP'): boolean {
  const namespace = String(policies[0]?.['metadata'].namespace);
  const admits = (direction: 'Ingress' | 'Egress', here: Place, there: Place) => {
    const ofHere = policies.filter(
      ({ spec }) =>
        typeof here !== 'string' &&
        here.namespace === namespace &&
        (spec.policyTypes as string[]).includes(direction) &&
        selects(spec.podSelector, here.labels),
    );
    if (ofHere.length === 0) return true;
    const rules = ofHere.flatMap(({ spec }) => (spec[direction.toLowerCase()] ?? []) as Manifest[]);
    return rules.some((rule) => {
      const peers = (direction === 'Ingress' ? rule['from'] : rule['to']) as Manifest[] | undefined;
      const ports = rule['ports'] as Manifest[];
      return (
        (!peers || peers.some((peer) => isAt(peer, there, namespace))) &&
        ports.some((each) => each['protocol'] === protocol && each['port'] <= port && port <= (each['endPort'] ?? each['port']))
      );
    });
  };
  return admits('Egress', from, to) && admits('Ingress', to, from);
}

function isAt({ ipBlock, namespaceSelector, podSelector }: Manifest, place: Place, namespace: string): boolean {
  if (ipBlock)
    return typeof place === 'string' && isIn(ipBlock.cidr, place) && !(ipBlock.except ?? []).some((range: string) => isIn(range, place));
  if (typeof place === 'string') return false;
  const ofNamespace = namespaceSelector
    ? selects(namespaceSelector, { 'kubernetes.io/metadata.name': place.namespace })
    : place.namespace === namespace;
  return ofNamespace && (!podSelector || selects(podSelector, place.labels));
}

function isIn(range: string, place: string): boolean {
  const [address, network] = [ipaddr.parse(place), ipaddr.parseCIDR(range)];
  return address.kind() === network[0].kind() && address.match(network);
}

const ipv6 = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
  .map((parts) => parts.map((part) => part.toString(16)).join(':'));

const elsewhere = (namespace: string, labels: Record<string, string> = {}): Place => ({ namespace, labels });

/** The addresses at both ends of a range, and those before and after it. */
function around(range: string): string[] {
  const [network, bits] = ipaddr.parseCIDR(range);
  const size = network.kind() === 'ipv4' ? 32n : 128n;
  const first = BigInt(`0x${Buffer.from(network.toByteArray()).toString('hex')}`);
  const last = first + (1n << (size - BigInt(bits))) - 1n;
  return [first - 1n, first, last, last + 1n]
    .filter((each) => each >= 0n && each < 1n << size)
    .map((each) => ipaddr.fromByteArray([...Buffer.from(each.toString(16).padStart(Number(size) / 4, '0'), 'hex')]).toString());
}

(hasKubectl ? describe : describe.skip).each(variants)('the network policies of %s', (path) => {
  let cluster: Rendered;
  let policies: Manifest[];
  let pods: [string, Place & object, Record<string, string>][];

  beforeAll(() => {
    cluster = new Rendered(path);
    // Everything is of one namespace, which the base does not name.
    policies = cluster.all('NetworkPolicy');
    const namespace = String(policies[0]?.['metadata'].namespace);
    for (const each of policies) expect(String(each['metadata'].namespace)).toBe(namespace);
    pods = [...cluster.all('Deployment'), ...cluster.all('Job')].map((owner) => [
      String(owner['metadata'].name),
      { namespace, labels: owner['spec'].template.metadata.labels },
      cluster.environment(containerOf(owner)),
    ]);
  });

  const placeOf = (name: string) => pods.find(([each]) => each === name)![1];

  test('let each process reach those that it calls, on their port, and nobody else any', () => {
    const found = pods.flatMap(([name, from]) =>
      pods.flatMap(([other, to, { PORT }]) =>
        [Number(PORT ?? 1), 9090, 5432].filter((port) => passes(policies, from, to, port)).map((port) => `${name} ${other} ${port}`),
      ),
    );
    const calls = processes.flatMap((caller) =>
      servers
        .filter((name) => variablesOf(caller).includes(`${name.toUpperCase()}_ADDR`))
        .map((callee) => `${caller} ${callee} ${pods.find(([name]) => name === callee)![2]['PORT']}`),
    );
    expect(found.sort()).toEqual(calls.sort());
  });

  test('let in from outside only the proxy, to the gateway, and Prometheus, to the operations ports', () => {
    const outside = {
      proxy: ['traefik', 'envoy-gateway-system'].map((name) => elsewhere(name)),
      prometheus: [elsewhere('monitoring')],
      others: ['203.0.113.9', '8.8.8.8', '10.1.2.3', elsewhere('default', { 'app.kubernetes.io/name': 'gateway' })],
    };
    const enters = (from: Place[], name: string, port: number) => from.filter((each) => passes(policies, each, placeOf(name), port)).length;
    const proxies = { base: 0, 'overlays/dev': 0, 'overlays/production': 1, [everything]: 2 }[path];
    for (const [name, , { PORT }] of pods) {
      expect([name, enters(outside.proxy, name, Number(PORT ?? 1))]).toEqual([name, name === 'gateway' ? proxies : 0]);
      expect(enters(outside.proxy, name, 9090) + enters(outside.prometheus, name, Number(PORT ?? 1))).toBe(0);
      expect([name, enters(outside.prometheus, name, 9090)]).toEqual([name, proxies && processes.includes(name as 'gateway') ? 1 : 0]);
      expect(enters(outside.others, name, 9090) + enters(outside.others, name, Number(PORT ?? 1))).toBe(0);
    }
  });

  test('let out to databases, brokers, mail servers and the internet only who has something there', () => {
    const kafka = elsewhere('kafka');
    const collectorOf = (environment: Record<string, string>) =>
      new URL(environment['OTEL_EXPORTER_OTLP_ENDPOINT'] ?? 'http://otel-collector.observability:4318');
    const ways = (place: Place, environment: Record<string, string>) => ({
      names: passes(policies, place, elsewhere('kube-system', { 'k8s-app': 'kube-dns' }), 53, 'UDP'),
      database: passes(policies, place, '10.0.20.7', 5432),
      brokers: passes(policies, place, kafka, Number(environment['KAFKA_BROKERS']?.split(':')[1] ?? 9093)),
      mail: passes(policies, place, '10.0.0.25', 587),
      traces: passes(
        policies,
        place,
        elsewhere(collectorOf(environment).hostname.split('.')[1] ?? ''),
        Number(collectorOf(environment).port),
      ),
      internet: passes(policies, place, '93.184.215.14', 443) && passes(policies, place, '2606:2800:21f::1', 443),
    });
    for (const [name, place, environment] of pods) {
      const has = (variable: string) => [variable, `${variable}_FILE`].some((each) => (environment[each] ?? '') !== '');
      const calls = name === 'notifier' || (path === everything && (name === 'auditor' || has('OIDC_PROVIDERS')));
      const expected = {
        names: true,
        database: has('DATABASE_URL'),
        brokers: has('KAFKA_BROKERS'),
        mail: has('MAIL_URL'),
        traces: has('OTEL_EXPORTER_OTLP_ENDPOINT') && processes.includes(name as 'gateway'),
        internet: calls,
      };
      expect([name, ways(place, environment)]).toEqual([name, expected]);
      expect([
        passes(policies, place, '169.254.169.254', 80),
        passes(policies, place, 'fd00:ec2::254', 80),
        passes(policies, place, elsewhere('default'), 443),
        passes(policies, place, elsewhere('kube-system', { 'k8s-app': 'kube-dns' }), 9153),
      ]).toEqual([false, false, false, false]);
    }
  });

  test('let the notifier reach an address exactly where it would send a webhook to it', () => {
    const reaches = (address: string) => passes(policies, placeOf('notifier'), address, 443);
    const blocks = policies.find((each) => each['metadata'].name === 'internet')!['spec'].egress[0].to as Manifest[];
    const edges = blocks.flatMap(({ ipBlock }) => [ipBlock.cidr, ...ipBlock.except] as string[]).flatMap(around);
    // 6to4 and NAT64 contain an IPv4 address, which a policy can't look at.
    const sealed = (address: string) => ['2002::/16', '64:ff9b::/96'].some((range) => isIn(range, address));
    for (const address of edges) expect([address, reaches(address)]).toEqual([address, isPublicAddress(address) && !sealed(address)]);
    fc.assert(fc.property(fc.ipV4(), (address) => reaches(address) === isPublicAddress(address)));
    fc.assert(fc.property(ipv6, (address) => reaches(address) === (isPublicAddress(address) && !sealed(address))));
  });
});
