// What a cluster is told about the cluster, against what the cluster is: the rendered manifests.
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { validate as configMap } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap';
import { validate as deployment } from 'kubernetes-models/_schemas/IoK8sApiAppsV1Deployment';
import { validate as job } from 'kubernetes-models/_schemas/IoK8sApiBatchV1Job';
import { validate as namespace } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Namespace';
import { validate as budget } from 'kubernetes-models/_schemas/IoK8sApiPolicyV1PodDisruptionBudget';
import { validate as volumeClaim } from 'kubernetes-models/_schemas/IoK8sApiCoreV1PersistentVolumeClaim';
import { validate as service } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Service';
import { validate as serviceAccount } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ServiceAccount';
import { parseAllDocuments } from 'yaml';
import { root, servers, services } from '../deploy/local/plan.ts';
import { forgetSecrets, processOf, processes, settingsOf, start, unread, variablesOf } from './required-settings.ts';
import { text } from './sources.ts';

type Manifest = Record<string, any>;

afterAll(forgetSecrets);

const schemas: Record<string, typeof deployment> = {
  'v1/ConfigMap': configMap,
  'v1/Namespace': namespace,
  'v1/PersistentVolumeClaim': volumeClaim,
  'v1/Service': service,
  'v1/ServiceAccount': serviceAccount,
  'apps/v1/Deployment': deployment,
  'batch/v1/Job': job,
  'policy/v1/PodDisruptionBudget': budget,
};

/** What Kubernetes would not take. The schemas let unknown fields pass, so a field that they never ask for is told as well. */
function faults(object: Manifest): string[] {
  const kind = `${String(object['apiVersion'])}/${String(object['kind'])}`;
  const schema = schemas[kind];
  if (!schema) return [`no schema for ${kind}`];
  const unasked = new Set<string>();
  const name = `${kind} ${String(object['metadata'].name)}`;
  if (schema(watched(object, name, unasked))) return [...unasked].map((field) => `${field} is unknown`);
  const { errors } = schema as { errors?: { instancePath: string; message?: string; params: object }[] };
  return (errors ?? []).map((error) => `${name}${error.instancePath} ${JSON.stringify(error.params)}`);
}

/** A copy that notes which of its fields have been asked for. */
function watched(value: unknown, place: string, unasked: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const copy = Array.isArray(value) ? [] : {};
  for (const [key, inner] of Object.entries(value)) {
    const field = `${place}.${key}`;
    unasked.add(field);
    const seen = watched(inner, field, unasked);
    const get = () => {
      unasked.delete(field);
      return seen;
    };
    Object.defineProperty(copy, key, { enumerable: true, get });
  }
  return copy;
}

const matches = (labels: Record<string, string>, selector: Record<string, string>) =>
  Object.entries(selector).every(([key, value]) => labels[key] === value);

function rendered(path: string): string {
  const kubectl = spawnSync('kubectl', ['kustomize', join(root, 'deploy/kubernetes', path)], { encoding: 'utf8' });
  if (kubectl.status !== 0) throw new Error(kubectl.stderr);
  return kubectl.stdout;
}

const render = (path: string) => parseAllDocuments(rendered(path)).map((document) => document.toJS() as Manifest);

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;
if (!hasKubectl) process.stderr.write('tests that render manifests are skipped: kubectl is missing\n');

const overlays = readdirSync(join(root, 'deploy/kubernetes/overlays')).map((name) => `overlays/${name}`);

test.each(overlays)('the namespace of %s, which is applied by itself, is one that takes restricted pods alone', (path) => {
  const [object, ...more] = parseAllDocuments(readFileSync(join(root, 'deploy/kubernetes', path, 'namespace.yaml'), 'utf8')).map(
    (document) => document.toJS() as Manifest,
  );
  expect([faults(object!), more]).toEqual([[], []]);
  expect(object!['metadata'].labels).toMatchObject({ 'pod-security.kubernetes.io/enforce': 'restricted' });
});

test.each(overlays)(
  'the volume of checkpoints of %s, which is applied by itself, is one that auditors on several nodes write to',
  (path) => {
    const text = readFileSync(join(root, 'deploy/kubernetes', path, 'checkpoints.yaml'), 'utf8');
    const [claim, ...more] = parseAllDocuments(text).map((document) => document.toJS() as Manifest);
    expect([faults(claim!), more]).toEqual([[], []]);
    expect([claim!['metadata'].name, claim!['spec'].accessModes]).toEqual(['checkpoints', ['ReadWriteMany']]);
  },
);

(hasKubectl ? describe : describe.skip).each(['base', ...overlays])('the manifests of %s', (path) => {
  let objects: Manifest[] = [];
  const all = (kind: string) => objects.filter((each) => each['kind'] === kind);
  const pods = () => [...all('Deployment'), ...all('Job')].map((each) => each['spec'].template as Manifest);
  const containers = (pod: Manifest) => [...(pod['spec'].initContainers ?? []), ...pod['spec'].containers] as Manifest[];
  const container = (owner: Manifest) => owner['spec'].template.spec.containers[0] as Manifest;
  const called = (kind: string, name: string): Manifest => {
    const found = all(kind).find((each) => each['metadata'].name === name);
    if (!found) throw new Error(`there is no ${kind} ${name}`);
    return found;
  };
  const environment = (of: Manifest): Record<string, string> => {
    const shared = (of['envFrom'] ?? []).map((from: Manifest) => called('ConfigMap', from['configMapRef'].name)['data']);
    const own = (of['env'] ?? []).map(({ name, value }: Manifest) => [name, value]);
    return Object.assign({}, ...shared, Object.fromEntries(own)) as Record<string, string>;
  };
  const projected = (pod: Manifest) => pod['spec'].volumes.flatMap((volume: Manifest) => volume['projected']?.sources ?? []) as Manifest[];

  beforeAll(() => {
    objects = render(path);
  });

  test('are what Kubernetes knows, field by field', () => {
    expect(objects.flatMap(faults)).toEqual([]);
    const misspelt = structuredClone(called('Deployment', 'ledger'));
    container(misspelt)['readinesProbe'] = container(misspelt)['readinessProbe'];
    expect(faults(misspelt)).toContainEqual(expect.stringMatching(/readinesProbe is unknown$/));
  });

  test('have every process once, and a migration for each that has a database', () => {
    expect(
      all('Deployment')
        .map((each) => processOf(container(each)['args']))
        .sort(),
    ).toEqual([...processes].sort());
    for (const kind of ['Deployment', 'Service', 'ServiceAccount', 'PodDisruptionBudget']) {
      expect(
        all(kind)
          .map((each) => String(each['metadata'].name))
          .sort(),
      ).toEqual([...processes].sort());
    }
    expect(all('Job').map((each) => container(each)['args'])).toEqual(services.map((name) => [`services/${name}/main.ts`, 'migrate']));
  });

  test('select the pods that they are about, and no others', () => {
    for (const process of processes) {
      const { selector, template } = called('Deployment', process)['spec'];
      const { topologySpreadConstraints, affinity } = template.spec;
      // A node without all keys of these counts for none of them.
      expect(topologySpreadConstraints.map((each: Manifest) => each['topologyKey'])).toEqual(['topology.kubernetes.io/zone']);
      const { podAffinityTerm } = affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0];
      const { labelSelector, ...term } = podAffinityTerm;
      expect(term).toEqual({ topologyKey: 'kubernetes.io/hostname', matchLabelKeys: ['pod-template-hash'] });
      const spread = [...topologySpreadConstraints.map((each: Manifest) => each['labelSelector']), labelSelector].map(
        (each) => each.matchLabels,
      );
      const others = [called('Service', process)['spec'].selector, called('PodDisruptionBudget', process)['spec'].selector.matchLabels];
      for (const labels of [selector.matchLabels, ...spread, ...others]) {
        expect(pods().filter((pod) => matches(pod['metadata'].labels, labels))).toEqual([template]);
      }
      expect(template.spec.serviceAccountName).toBe(process);
    }
  });

  test('lead to the ports on which the processes listen', () => {
    for (const process of processes) {
      const { ports, ...rest } = container(called('Deployment', process));
      const { PORT, OPS_PORT, HOST } = environment(rest);
      const [offered, ...more] = called('Service', process)['spec'].ports;
      expect(ports.map((each: Manifest) => [each['name'], each['containerPort']])).toEqual([
        [offered.targetPort, Number(PORT)],
        ['ops', Number(OPS_PORT)],
      ]);
      expect([offered.port, more, HOST]).toEqual([Number(PORT), [], '::']);
    }
  });

  test('name every replica of a service to its callers, and one address of the gateway', () => {
    for (const name of processes) {
      expect([name, called('Service', name)['spec'].clusterIP]).toEqual([name, name === 'gateway' ? undefined : 'None']);
    }
    for (const caller of processes) {
      const callees = servers.filter((name) => variablesOf(caller).includes(`${name.toUpperCase()}_ADDR`));
      const given = environment(container(called('Deployment', caller)));
      const addresses = callees.map((name) => `${name}:${String(called('Service', name)['spec'].ports[0].port)}`);
      expect(callees.map((name) => given[`${name.toUpperCase()}_ADDR`])).toEqual(addresses);
    }
  });

  test('give a process what it reads and nothing else', () => {
    for (const pod of pods()) {
      for (const each of containers(pod)) expect(unread(processOf(each['args']), environment(each))).toEqual([]);
    }
  });

  test('give a process all that it needs to start, in production', () => {
    for (const process of processes) {
      const given = environment(container(called('Deployment', process)));
      expect(start[process](settingsOf(given))).toBeDefined();
      expect(given['NODE_ENV']).toBe('production');
    }
  });

  test('tell ledger and notifier of Kafka apart, so that one can go there, or back, before the other', () => {
    const told = (['ledger', 'notifier'] as const).map((process) => {
      const maps = container(called('Deployment', process))['envFrom'].map((from: Manifest) =>
        String(from['configMapRef'].name),
      ) as string[];
      const given = environment(container(called('Deployment', process)));
      expect(start[process](settingsOf({ ...given, KAFKA_BROKERS: '' }))).toBeDefined();
      return maps.filter((name) => 'KAFKA_BROKERS' in called('ConfigMap', name)['data']);
    });
    expect(new Set(told.flat()).size).toBe(2);
  });

  test('tell the owners of the databases to migrations alone, as files like every secret', () => {
    for (const each of all('Job')) {
      const settings = settingsOf(environment(container(each)));
      for (const name of ['DATABASE_URL', 'MIGRATION_DATABASE_URL']) expect(settings.databaseUrl(name)).toMatch(/^postgres:/);
    }
    const knowing = pods().filter((pod) => projected(pod).some((source) => String(source['secret'].name).endsWith('-owner')));
    expect(knowing).toEqual(all('Job').map((each) => each['spec'].template));
    for (const pod of pods()) {
      const files = projected(pod).flatMap((source) =>
        source['secret'].items.map((item: Manifest) => `/etc/ledger/${String(item['path'])}`),
      );
      const named = containers(pod).flatMap((each) => Object.entries(environment(each)).filter(([name]) => name.endsWith('_FILE')));
      for (const [, file] of named) expect(files).toContain(file);
      for (const each of containers(pod)) {
        const directory = environment(each)['CHECKPOINT_DIR'];
        const writable = directory === undefined ? [] : [{ name: 'checkpoints', mountPath: directory }];
        expect(each['volumeMounts']).toEqual([{ name: 'secrets', mountPath: '/etc/ledger', readOnly: true }, ...writable]);
        expect(Object.keys(environment(each))).not.toEqual(
          expect.arrayContaining([expect.stringMatching(/TOKEN$|PASSWORD$|KEY$|(?<!PUBLIC)_URL$/)]),
        );
      }
    }
    expect(objects.filter((each) => each['kind'] === 'Secret')).toEqual([]);
  });

  test('ask the operations port whether a process lives and is ready', () => {
    for (const process of processes) {
      const { startupProbe, livenessProbe, readinessProbe } = container(called('Deployment', process));
      const asked = [startupProbe, livenessProbe, readinessProbe].map((probe: Manifest) => probe['httpGet']);
      expect(asked).toEqual(['/healthz', '/healthz', '/readyz'].map((at) => ({ path: at, port: 'ops' })));
      // A process waits 30 s for its database before it listens.
      expect(startupProbe.periodSeconds * startupProbe.failureThreshold).toBeGreaterThan(45);
    }
  });

  // What the name server of a cluster may say again without looking, what the cluster takes to tell it, and how often callers ask, seconds.
  const [cached, told] = [5, 2];
  const asked = Number(/resolveEveryMs = ([0-9_]+)/.exec(text('services/platform/addresses.ts'))?.[1]?.replaceAll('_', '')) / 1000;

  test('let an old replica go when all callers know the new one, and wait for migrations', () => {
    const migration = Math.max(...all('Job').map((each) => Number(each['spec'].activeDeadlineSeconds)));
    for (const { strategy, minReadySeconds, progressDeadlineSeconds } of all('Deployment').map((each) => each['spec'])) {
      expect(strategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
      expect(minReadySeconds).toBeGreaterThan(cached + told + asked);
      // Five minutes is the longest that Kubernetes waits before it starts a container again.
      expect(progressDeadlineSeconds).toBeGreaterThan(migration + 300);
    }
  });

  test('let a process end by itself, and a service answer until all callers know another', () => {
    const grace = Number(/stopTimeoutSeconds = ([0-9]+)/.exec(text('services/platform/lifetime.ts'))?.[1]);
    for (const { spec } of all('Deployment').map((each) => each['spec'].template)) {
      const { seconds } = spec.containers[0].lifecycle.preStop.sleep;
      expect(spec.terminationGracePeriodSeconds - Number(seconds)).toBeGreaterThan(grace);
      if (!spec.containers[0].args[0].startsWith('gateway/')) expect(Number(seconds)).toBeGreaterThan(cached + told + asked);
    }
  });

  test('give every pod the least that it can run with, and bounds', () => {
    for (const pod of pods()) {
      expect(pod['spec']).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      });
      for (const key of ['hostNetwork', 'hostPID', 'hostIPC']) expect(pod['spec']).not.toHaveProperty(key);
      for (const each of containers(pod)) {
        expect(each['securityContext']).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        const { requests, limits } = each['resources'];
        for (const amounts of [requests, limits]) expect(Object.keys(amounts)).toEqual(['cpu', 'ephemeral-storage', 'memory']);
      }
    }
  });

  const hasKubeScore = spawnSync('kube-score', ['version']).status === 0;
  (hasKubeScore ? test : test.skip)('have no critical finding of kube-score', () => {
    const { stdout } = spawnSync('kube-score', ['score', '-', '--output-format', 'ci'], { input: rendered(path), encoding: 'utf8' });
    expect(stdout).toContain('[OK]');
    // The base names no image tag: an overlay does.
    const expected = path === 'base' ? / Image with latest tag$/ : /^$/;
    expect(stdout.split('\n').filter((line) => line.startsWith('[CRITICAL]') && !expected.test(line))).toEqual([]);
  });
});
