// What the components of the Kubernetes manifests say, against the code, the alerts and each other.
import { parse } from 'yaml';
import { openApiDocument } from '../gateway/clients/document.ts';
import { containerOf, everything, hasKubectl, Rendered, selects, type Manifest } from './kubernetes.ts';
import { processes } from './required-settings.ts';
import { text } from './sources.ts';

(hasKubectl ? describe : describe.skip)('the components', () => {
  let cluster: Rendered;
  const specOf = (kind: string, name: string) => cluster.called(kind, name)['spec'] as Manifest;

  beforeAll(() => {
    cluster = new Rendered(everything);
  });

  test('give the Prometheus operator the rules of deploy/monitoring', () => {
    const groups = ['recording', 'alerts'].flatMap((name) => parse(text(`deploy/monitoring/${name}.yaml`)).groups as Manifest[]);
    expect(specOf('PrometheusRule', 'ledger')).toEqual({ groups });
  });

  test('scrape each process on its operations port, and nothing else', () => {
    const { selector, podMetricsEndpoints } = specOf('PodMonitor', 'ledger');
    const scraped = cluster.pods().filter((pod) => selects(selector, pod['metadata'].labels));
    expect(scraped.map((pod) => String(containerOf(pod)['name'])).sort()).toEqual([...processes].sort());
    expect(podMetricsEndpoints.map((each: Manifest) => [each['port'], each['path']])).toEqual([['ops', '/metrics']]);
  });

  test('let each process send its spans to the collector, and the gateway record one request in a hundred', () => {
    const rule = specOf('NetworkPolicy', 'tracing')['egress'][0] as Manifest;
    const namespace = String(rule['to'][0].namespaceSelector.matchLabels['kubernetes.io/metadata.name']);
    for (const process of processes) {
      const given = cluster.environment(containerOf(cluster.called('Deployment', process)));
      expect(given['OTEL_EXPORTER_OTLP_ENDPOINT']).toBe(`http://otel-collector.${namespace}:${String(rule['ports'][0].port)}`);
      if (process === 'gateway') expect(given['OTEL_TRACES_SAMPLER_ARG']).toBe('0.01');
    }
  });

  test('send the same paths to the gateway: all of the API, and no metrics', async () => {
    const { tls, rules } = specOf('Ingress', 'gateway');
    const byIngress = rules[0].http.paths.map(({ path, pathType, backend }: Manifest) => {
      expect(backend.service).toEqual({ name: 'gateway', port: { name: specOf('Service', 'gateway')['ports'][0].name } });
      return [path, pathType];
    }) as [string, string][];
    const route = specOf('HTTPRoute', 'gateway');
    const byRoute = route['rules'][0].matches.map(({ path }: Manifest) => [path.value, path.type.replace(/^Path/, '')]);
    expect(byRoute).toEqual(byIngress);
    expect(route['rules'][0].backendRefs).toEqual([{ name: 'gateway', port: specOf('Service', 'gateway')['ports'][0].port }]);

    const passed = (path: string) => byIngress.some(([prefix]) => path === prefix || path.startsWith(`${prefix}/`));
    const paths = [...Object.keys((await openApiDocument())['paths'] as object), '/openapi.json', '/console', '/docs', '/mail/verify'];
    expect(paths.filter((path) => !passed(path))).toEqual(['/healthz', '/readyz', '/metrics']);

    const host = new URL(cluster.environment(containerOf(cluster.called('Deployment', 'gateway')))['PUBLIC_URL'] ?? '').hostname;
    const { listeners } = specOf('Gateway', 'ledger');
    const hosts = [...tls[0].hosts, rules[0].host, ...route['hostnames'], ...listeners.map((each: Manifest) => each['hostname'])];
    expect(new Set(hosts)).toEqual(new Set([host]));
    const [byListener] = listeners.filter((each: Manifest) => each['name'] === route['parentRefs'][0].sectionName);
    expect([tls[0].secretName, byListener.tls.certificateRefs[0].name, byListener.protocol]).toEqual(['ledger-tls', 'ledger-tls', 'HTTPS']);
  });

  test('have a certificate for each process, under the name by which others call it, where the process reads it', () => {
    for (const process of processes) {
      const { secretName, dnsNames, usages } = specOf('Certificate', process);
      expect([dnsNames, usages]).toEqual([[process], expect.arrayContaining(['server auth', 'client auth'])]);
      const { sources } = specOf('Deployment', process)['template'].spec.volumes[0].projected as Manifest;
      const { items } = (sources as Manifest[]).find((each) => each['secret'].name === secretName)!['secret'] as Manifest;
      expect(items.map((each: Manifest) => each['key']).sort()).toEqual(['ca.crt', 'tls.crt', 'tls.key']);
    }
    const callees = Object.values(cluster.environment(containerOf(cluster.called('Deployment', 'gateway')))).map(String);
    for (const name of processes.slice(1)) expect(callees).toContainEqual(expect.stringMatching(`^${name}:`));
  });

  test('scale the notifier on the lag of the group in which it consumes', () => {
    const notifier = containerOf(cluster.called('Deployment', 'notifier'));
    const environment = cluster.environment(notifier);
    const { scaleTargetRef, triggers } = specOf('ScaledObject', 'notifier');
    const [{ metadata }] = triggers as [Manifest];
    const group = /group: '(\w+)'/.exec(text('services/notifier/serving.ts'))?.[1];
    expect(text('services/notifier/kafka-consumer.ts')).toContain('groupId: `${options.group}.${options.topic}`');
    expect(metadata['consumerGroup']).toBe(`${String(group)}.${String(environment['KAFKA_TOPIC'])}`);
    expect(metadata['sasl']).toBe(environment['KAFKA_SASL_MECHANISM']?.replaceAll('-', '_').replace('scram_sha_', 'scram_sha'));
    expect(metadata['tls']).toBe(environment['KAFKA_SSL'] === 'true' ? 'enable' : 'disable');
    const { env } = specOf('TriggerAuthentication', 'notifier-kafka');
    const read = [metadata['bootstrapServersFromEnv'], metadata['topicFromEnv'], env[0].name] as string[];
    for (const name of read) expect(environment[name]).toMatch(/./);
    expect([scaleTargetRef.name, env[0].containerName]).toEqual(['notifier', notifier['name']]);
  });
});
