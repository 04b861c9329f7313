// What a cluster is told about the cluster, against what the cluster is: the rendered manifests.
import { spawnSync } from 'node:child_process';
import { servers, services } from '../deploy/local/plan.ts';
import {
  containerOf,
  faults,
  hasKubectl,
  objectsIn,
  overlays,
  Rendered,
  rendered,
  selects,
  variants,
  type Manifest,
} from './kubernetes.ts';
import { forgetSecrets, missing, processOf, processes, settingsOf, start, unread, variablesOf } from './required-settings.ts';
import { text } from './sources.ts';

afterAll(forgetSecrets);

test.each(overlays)('the namespace of %s, which is applied by itself, is one that takes restricted pods alone', (path) => {
  const [object, ...more] = objectsIn(text(`deploy/kubernetes/${path}/namespace.yaml`));
  expect([faults(object!), more]).toEqual([[], []]);
  expect(object!['metadata'].labels).toMatchObject({ 'pod-security.kubernetes.io/enforce': 'restricted' });
});

test.each(overlays)('the volume of checkpoints of %s is applied by itself; auditors on several nodes write to it in production', (path) => {
  const [claim, ...more] = objectsIn(text(`deploy/kubernetes/${path}/checkpoints.yaml`));
  expect([faults(claim!), more]).toEqual([[], []]);
  const mode = path.endsWith('dev') ? 'ReadWriteOnce' : 'ReadWriteMany';
  expect([claim!['metadata'].name, claim!['spec'].accessModes]).toEqual(['checkpoints', [mode]]);
});

(hasKubectl ? describe : describe.skip).each(variants)('the manifests of %s', (path) => {
  let cluster: Rendered;
  const all = (kind: string) => cluster.all(kind);
  const called = (kind: string, name: string) => cluster.called(kind, name);
  const environment = (of: Manifest) => cluster.environment(of);
  const pods = () => cluster.pods();
  const containers = (pod: Manifest) => [...(pod['spec'].initContainers ?? []), ...pod['spec'].containers] as Manifest[];
  const projected = (pod: Manifest) => pod['spec'].volumes.flatMap((volume: Manifest) => volume['projected']?.sources ?? []) as Manifest[];
  const names = (kind: string) => all(kind).map((each) => String(each['metadata'].name));

  beforeAll(() => {
    cluster = new Rendered(path);
  });

  test('are what Kubernetes knows, field by field', () => {
    expect(cluster.objects.flatMap(faults)).toEqual([]);
    const misspelt = structuredClone(called('Deployment', 'ledger'));
    containerOf(misspelt)['readinesProbe'] = containerOf(misspelt)['readinessProbe'];
    expect(faults(misspelt)).toContainEqual(expect.stringMatching(/readinesProbe is unknown$/));
  });

  test('have every process once, and a migration for each that has a database', () => {
    expect(
      all('Deployment')
        .map((each) => processOf(containerOf(each)['args']))
        .sort(),
    ).toEqual([...processes].sort());
    for (const kind of ['Deployment', 'Service', 'ServiceAccount', 'PodDisruptionBudget']) {
      expect(names(kind).sort()).toEqual([...processes].sort());
    }
    expect(all('Job').map((each) => containerOf(each)['args'])).toEqual(services.map((name) => [`services/${name}/main.ts`, 'migrate']));
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
        expect(pods().filter((pod) => selects({ matchLabels: labels }, pod['metadata'].labels))).toEqual([template]);
      }
      expect(template.spec.serviceAccountName).toBe(process);
    }
  });

  test('lead to the ports on which the processes listen', () => {
    for (const process of processes) {
      const { ports, ...rest } = containerOf(called('Deployment', process));
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
      const given = environment(containerOf(called('Deployment', caller)));
      const addresses = callees.map((name) => `${name}:${String(called('Service', name)['spec'].ports[0].port)}`);
      expect(callees.map((name) => given[`${name.toUpperCase()}_ADDR`])).toEqual(addresses);
    }
  });

  test('give a process what it reads and nothing else', () => {
    for (const pod of pods()) {
      for (const each of containers(pod)) expect(unread(processOf(each['args']), environment(each))).toEqual([]);
    }
  });

  test('give a process every variable that has no default of its own', () => {
    for (const process of processes) {
      const own = [...all('Deployment'), ...all('Job')].map(containerOf).filter(({ args }) => processOf(args) === process);
      expect(missing(process)).toContain('INTERNAL_TOKEN');
      expect(missing(process, ...own.map(environment))).toEqual([]);
    }
  });

  test('leave the number of replicas to who scales, and bound it', () => {
    const scaled = all('HorizontalPodAutoscaler').map(({ spec }) => [spec.scaleTargetRef.name, spec.minReplicas, spec.maxReplicas]);
    const onLag = all('ScaledObject').map(({ spec }) => [spec.scaleTargetRef.name, spec.minReplicaCount, spec.maxReplicaCount]);
    const targets = [...scaled, ...onLag].map(([name]) => String(name)).sort();
    expect(targets).toEqual(['base', 'overlays/dev'].includes(path) ? [] : ['gateway', 'ledger', 'notifier']);
    for (const [, min, max] of [...scaled, ...onLag]) expect([min >= 2, max > min]).toEqual([true, true]);
    const counted = all('Deployment').filter(({ spec }) => spec.replicas !== undefined);
    expect(counted.map((each) => String(each['metadata'].name)).sort()).toEqual(processes.filter((name) => !targets.includes(name)).sort());
  });

  test('give a process all that it needs to start, in production', () => {
    for (const process of processes) {
      const given = environment(containerOf(called('Deployment', process)));
      expect(start[process](settingsOf(given))).toBeDefined();
      expect(given['NODE_ENV']).toBe('production');
    }
  });

  test('tell ledger and notifier of Kafka apart, so that one can go there, or back, before the other', () => {
    const told = (['ledger', 'notifier'] as const).map((process) => {
      const maps = containerOf(called('Deployment', process))['envFrom'].map((from: Manifest) =>
        String(from['configMapRef'].name),
      ) as string[];
      const given = environment(containerOf(called('Deployment', process)));
      expect(start[process](settingsOf({ ...given, KAFKA_BROKERS: '' }))).toBeDefined();
      return maps.filter((name) => 'KAFKA_BROKERS' in called('ConfigMap', name)['data']);
    });
    expect(new Set(told.flat()).size).toBe(2);
  });

  test('tell the owners of the databases to migrations alone, as files like every secret', () => {
    for (const each of all('Job')) {
      const settings = settingsOf(environment(containerOf(each)));
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
        const { CHECKPOINT_DIR, MAIL_DIR } = environment(each);
        const directories = Object.entries({ checkpoints: CHECKPOINT_DIR, mail: MAIL_DIR });
        const writable = directories.flatMap(([name, mountPath]) => (mountPath === undefined ? [] : [{ name, mountPath }]));
        const mounts = [{ name: 'secrets', mountPath: '/etc/ledger', readOnly: true }, ...writable];
        expect(each['volumeMounts']).toHaveLength(mounts.length);
        expect(each['volumeMounts']).toEqual(expect.arrayContaining(mounts));
        expect(Object.keys(environment(each))).not.toEqual(
          expect.arrayContaining([expect.stringMatching(/TOKEN$|PASSWORD$|KEY$|(?<!PUBLIC)_URL$/)]),
        );
      }
    }
    expect(all('Secret')).toEqual([]);
  });

  test('ask the operations port whether a process lives and is ready', () => {
    for (const process of processes) {
      const { startupProbe, livenessProbe, readinessProbe } = containerOf(called('Deployment', process));
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
    expect(all('Deployment').filter((each) => each['spec'].strategy.type === 'Recreate')).toHaveLength(path.endsWith('dev') ? 1 : 0);
    for (const { strategy, minReadySeconds, progressDeadlineSeconds } of all('Deployment').map((each) => each['spec'])) {
      if (strategy.type !== 'Recreate') expect(strategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
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
      const volumes = pod['spec'].volumes.flatMap(({ name: _, ...source }: Manifest) => Object.keys(source)) as string[];
      expect(['projected', 'persistentVolumeClaim', 'emptyDir']).toEqual(expect.arrayContaining(volumes));
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
