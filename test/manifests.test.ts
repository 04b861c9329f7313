// What a cluster is told about the house, against what the house is: the rendered manifests, the image and the compose file.
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { validate as configMap } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap';
import { validate as deployment } from 'kubernetes-models/_schemas/IoK8sApiAppsV1Deployment';
import { validate as job } from 'kubernetes-models/_schemas/IoK8sApiBatchV1Job';
import { validate as namespace } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Namespace';
import { validate as budget } from 'kubernetes-models/_schemas/IoK8sApiPolicyV1PodDisruptionBudget';
import { validate as service } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Service';
import { validate as serviceAccount } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ServiceAccount';
import { parse, parseAllDocuments } from 'yaml';
import { root, services } from '../deploy/local/plan.ts';
import { readConfig as gatewayConfig } from '../gateway/config.ts';
import { readConfig as identityConfig } from '../services/identity/config.ts';
import { ledgerConfig } from '../services/ledger/config.ts';
import { notifierConfig } from '../services/notifier/config.ts';
import { kafkaSettings } from '../services/platform/kafka.ts';
import { Settings } from '../services/platform/settings.ts';
import { currentRun } from './run.ts';

type Manifest = Record<string, any>;

const processes = ['gateway', ...services] as const;
type Process = (typeof processes)[number];

/** What a process does with its environment first; throws where it would not start. */
const start: Record<Process, (settings: Settings) => unknown> = {
  gateway: gatewayConfig,
  identity: identityConfig,
  ledger: ledgerConfig,
  notifier: (settings) => [notifierConfig(settings), kafkaSettings(settings)],
};

const text = (path: string) => readFileSync(join(root, path), 'utf8');
const directory = mkdtempSync(join(currentRun().directory, 'manifests-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** What an operator puts into the secrets, by file name. */
const secrets: Record<string, string> = {
  'internal-token': 'internal',
  'database-url': 'postgres://service:password@postgresql:5432/database',
  'migration-database-url': 'postgres://owner:password@postgresql:5432/database',
  'jwt-private-key': generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  'webhook-encryption-key': `1:${randomBytes(32).toString('base64')}`,
  'kafka-sasl-password': 'password',
};
for (const [name, value] of Object.entries(secrets)) writeFileSync(join(directory, name), value);

/** The settings of an environment whose secrets lie in this test's directory. */
function settingsOf(environment: Record<string, string>): Settings {
  const moved = Object.entries(environment).map(([name, value]) => [name, value.replace(/^\/run\/secrets(?=\/)/, directory)]);
  return new Settings(Object.fromEntries(moved));
}

/** The variables that a process reads: named in its main, its config, and what these import of the platform. */
function variablesOf(process: Process): string[] {
  const folder = process === 'gateway' ? 'gateway' : `services/${process}`;
  const own = ['main.ts', 'config.ts'].map((file) => join(folder, file));
  const platform = own.flatMap((file) => imports(file).filter((name) => name.startsWith('services/platform/')));
  const calls = [...new Set([...own, ...platform, 'services/platform/settings.ts'])].flatMap((file) => [
    ...text(file).matchAll(/\b(?:[sS]ettings\.[a-zA-Z]+|quota)\(\s*'([A-Z][A-Z0-9_]*)'/g),
  ]);
  return calls.map((match) => match[1] ?? '');
}

/** The files of this tree that a file imports, from the root. */
function imports(file: string): string[] {
  const found = text(file).matchAll(/(?:^(?:import|export)\s[^;'"`]*?from\s+|\bimport\(|\bnew URL\()'(\.[^']+)'/gm);
  return [...found].map((match) => join(dirname(file), match[1] ?? ''));
}

/** Whose process a container runs, by its first argument. */
function processOf(args: string[]): Process {
  const process = processes.find((each) => args[0] === `services/${each}/main.ts` || args[0] === `${each}/main.ts`);
  if (!process || !existsSync(join(root, args[0] ?? ''))) throw new Error(`there is no process ${args.join(' ')}`);
  return process;
}

const unread = (process: Process, environment: Record<string, string>) =>
  Object.keys(environment).filter((name) => !variablesOf(process).includes(name.replace(/_FILE$/, '')));

const schemas: Record<string, typeof deployment> = {
  'v1/ConfigMap': configMap,
  'v1/Namespace': namespace,
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

function render(path: string): Manifest[] {
  const kubectl = spawnSync('kubectl', ['kustomize', join(root, 'deploy/kubernetes', path)], { encoding: 'utf8' });
  if (kubectl.status !== 0) throw new Error(kubectl.stderr);
  return parseAllDocuments(kubectl.stdout).map((document) => document.toJS() as Manifest);
}

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;
if (!hasKubectl) process.stderr.write('tests that render manifests are skipped: kubectl is missing\n');

const overlays = readdirSync(join(root, 'deploy/kubernetes/overlays')).map((name) => `overlays/${name}`);

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
  const projected = (pod: Manifest) => pod['spec'].volumes.flatMap((volume: Manifest) => volume['projected'].sources) as Manifest[];

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
    expect(all('Deployment').map((each) => processOf(container(each)['args']))).toEqual([...processes]);
    for (const kind of ['Deployment', 'Service', 'ServiceAccount', 'PodDisruptionBudget']) {
      expect(all(kind).map((each) => each['metadata'].name)).toEqual([...processes]);
    }
    expect(all('Job').map((each) => container(each)['args'])).toEqual(services.map((name) => [`services/${name}/main.ts`, 'migrate']));
  });

  test('select the pods that they are about, and no others', () => {
    for (const process of processes) {
      const { selector, template } = called('Deployment', process)['spec'];
      const spread = template.spec.topologySpreadConstraints.map((each: Manifest) => each['labelSelector'].matchLabels);
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
      expect([offered.port, more, HOST]).toEqual([Number(PORT), [], '0.0.0.0']);
    }
  });

  test('name every replica of a service to its callers, and one address of the gateway', () => {
    expect(all('Service').map((each) => each['spec'].clusterIP)).toEqual([undefined, 'None', 'None', 'None']);
    for (const caller of processes) {
      const callees = services.filter((name) => variablesOf(caller).includes(`${name.toUpperCase()}_ADDR`));
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

  test('tell the owners of the databases to migrations alone, as files like every secret', () => {
    for (const each of all('Job')) {
      const settings = settingsOf(environment(container(each)));
      for (const name of ['DATABASE_URL', 'MIGRATION_DATABASE_URL']) expect(settings.databaseUrl(name)).toMatch(/^postgres:/);
    }
    const knowing = pods().filter((pod) => projected(pod).some((source) => String(source['secret'].name).endsWith('-owner')));
    expect(knowing).toEqual(all('Job').map((each) => each['spec'].template));
    for (const pod of pods()) {
      const files = projected(pod).flatMap((source) =>
        source['secret'].items.map((item: Manifest) => `/run/secrets/${String(item['path'])}`),
      );
      const named = containers(pod).flatMap((each) => Object.entries(environment(each)).filter(([name]) => name.endsWith('_FILE')));
      for (const [, file] of named) expect(files).toContain(file);
      for (const each of containers(pod)) {
        expect(each['volumeMounts']).toEqual([{ name: 'secrets', mountPath: '/run/secrets', readOnly: true }]);
        expect(Object.keys(environment(each))).not.toEqual(expect.arrayContaining([expect.stringMatching(/TOKEN$|PASSWORD$|KEY$|_URL$/)]));
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

  test('let a process end by itself', () => {
    const grace = Number(/graceSeconds = ([0-9]+)/.exec(text('services/platform/lifetime.ts'))?.[1]);
    for (const { spec } of all('Deployment').map((each) => each['spec'].template)) {
      const { seconds } = spec.containers[0].lifecycle.preStop.sleep;
      expect(spec.terminationGracePeriodSeconds - Number(seconds)).toBeGreaterThan(grace);
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
        for (const amounts of [requests, limits]) expect(Object.keys(amounts)).toEqual(['cpu', 'memory']);
      }
    }
  });

  test('run one image everywhere', () => {
    const images = new Set(
      pods()
        .flatMap(containers)
        .map((each) => each['image']),
    );
    expect(images.size).toBe(1);
  });
});

describe('the files of the processes', () => {
  // What a process alone is told.
  const own = new Set(['clusterIP', 'env', 'envFrom', 'sources']);

  function keys(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(keys);
    if (typeof value !== 'object' || value === null) return null;
    return Object.entries(value)
      .filter(([key]) => key !== 'clusterIP')
      .map(([key, inner]) => [key, own.has(key) ? null : keys(inner)]);
  }

  test('have the same keys in the same order', () => {
    const [first, ...others] = processes.map((process) =>
      parseAllDocuments(text(`deploy/kubernetes/base/${process}.yaml`)).map((document) => keys(document.toJS())),
    );
    for (const other of others) expect(other).toEqual(first);
  });
});

describe('the image', () => {
  const dockerfile = text('deploy/Dockerfile');
  const final = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));
  const copied = [...final.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) => (match[1] ?? '').split(' '));

  test('holds every file that the processes need, and the build may see it', () => {
    const needed = new Set(processes.map((process) => (process === 'gateway' ? 'gateway/main.ts' : `services/${process}/main.ts`)));
    // A set is walked with what is added on the way.
    for (const file of needed) {
      if (file.endsWith('.ts')) imports(file).forEach((name) => needed.add(name));
    }
    const within = (places: string[]) => (file: string) => places.some((place) => file === place || file.startsWith(`${place}/`));
    expect([...needed].filter((file) => !within(copied)(file))).toEqual([]);
    const visible = text('.dockerignore').split('\n');
    expect(visible[0]).toBe('*');
    for (const place of [...copied, 'package-lock.json', '.npmrc']) expect(visible).toContain(`!${place}`);
  });

  test('starts Node as npm start does, and not as root', () => {
    const flag = /'(--max-semi-space-size=[0-9]+)'/.exec(text('deploy/local/plan.ts'))?.[1];
    expect(final).toContain(`\nENTRYPOINT ["node", "${String(flag)}"]\n`);
    const arenas = /^const arenas = '([0-9]+)';$/m.exec(text('deploy/local/plan.ts'))?.[1];
    expect(final).toContain(`\nENV MALLOC_ARENA_MAX=${String(arenas)}\n`);
    expect(final).toMatch(/^USER [1-9][0-9]*:[1-9][0-9]*$/m);
    expect([...dockerfile.matchAll(/^FROM (\S+)/gm)].map((match) => match[1])).toEqual(['node:24-slim', 'node:24-slim']);
  });

  test('keeps the optional packages without which a process does not start', () => {
    expect(dockerfile).toMatch(/^RUN npm ci --omit=dev --ignore-scripts/m);
    const { optionalDependencies } = JSON.parse(text('package.json')) as { optionalDependencies: Record<string, string> };
    for (const name of Object.keys(optionalDependencies)) expect(dockerfile).toContain(`node_modules/${name}`);
  });
});

describe('the compose file', () => {
  const compose = parse(text('deploy/compose.yaml'), { merge: true }) as Manifest;
  const ours = Object.entries<Manifest>(compose['services']).filter(([, each]) => each['image'] === 'ledger' && each['environment']);

  test('runs every process and every migration', () => {
    const commands = [...processes.map((name) => (name === 'gateway' ? 'gateway/main.ts' : `services/${name}/main.ts`))];
    const migrations = services.map((name) => `services/${name}/main.ts migrate`);
    expect(ours.map(([, each]) => each['command'].join(' '))).toEqual([...commands, ...migrations]);
  });

  test('gives each what it reads, nothing else, and all that it needs to start', () => {
    for (const [, each] of ours) {
      const process = processOf(each['command']);
      expect(unread(process, each['environment'])).toEqual([]);
      const settings = settingsOf(each['environment']);
      if (each['command'][1] === 'migrate') expect(settings.databaseUrl('MIGRATION_DATABASE_URL')).toMatch(/^postgres:/);
      else expect(start[process](settings)).toBeDefined();
    }
  });

  test('tells the gateway where the services listen', () => {
    const environment = (name: string) => compose['services'][name].environment as Record<string, string>;
    const addresses = services.map((name) => [`${name.toUpperCase()}_ADDR`, `${name}:${String(environment(name)['PORT'])}`]);
    expect(environment('gateway')).toMatchObject(Object.fromEntries(addresses));
  });

  test('names services, volumes and files that there are', () => {
    for (const each of Object.values<Manifest>(compose['services'])) {
      for (const name of Object.keys(each['depends_on'] ?? {})) expect(compose['services']).toHaveProperty(name);
      for (const volume of each['volumes'] ?? []) expect(compose['volumes']).toHaveProperty(String(volume).split(':')[0] ?? '');
      for (const config of each['configs'] ?? []) expect(compose['configs']).toHaveProperty(config.source);
      if (each['build']) expect(existsSync(join(root, 'deploy', each['build'].context, each['build'].dockerfile))).toBe(true);
    }
    const script = compose['services'].secrets.command[1] as string;
    for (const [, each] of ours) {
      const files = Object.entries<string>(each['environment']).filter(([name]) => name.endsWith('_FILE'));
      for (const [, file] of files) expect(script).toContain(`'${file.replace('/run/secrets/', '')}'`);
    }
  });
});
