// The manifests and the commands of the guide against a real Kubernetes API server, with the restricted pod security standard enforced.
import { containerOf, everything, hasKubectl, objectsIn, rendered, type Manifest } from './kubernetes.ts';
import { hasApiServer, startApiServer, type ApiServer } from './api-server.ts';
import { text } from './sources.ts';

const enabled = hasKubectl && hasApiServer;
if (!enabled) process.stderr.write('the tests with a Kubernetes API server are skipped: kubectl, etcd or kube-apiserver is missing\n');

/** The commands of the page's console blocks, one by one; those of several lines whole. */
const commands = [...text('gateway/docs/operate/kubernetes.md').matchAll(/```console\n([^]*?)```/g)]
  .flatMap(([, block = '']) => block.trim().split(/(?<!\||\\)\n/))
  .map((command) => command.trim());
const commandsWith = (...words: string[]) => commands.filter((command) => words.some((word) => command.includes(word)));

/** A definition for each kind that is none of Kubernetes itself. Its fields are checked elsewhere, by their own schemas. */
function definitions(objects: Manifest[]): Manifest[] {
  const kinds = new Map<string, Manifest>();
  for (const { apiVersion, kind } of objects) {
    const [group = '', version] = String(apiVersion).split('/');
    const isBuiltIn = !group.includes('.') || (group.endsWith('.k8s.io') && !group.startsWith('gateway.'));
    if (isBuiltIn) continue;
    const singular = String(kind).toLowerCase();
    const names = { kind, singular, plural: `${singular}s` };
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    kinds.set(names.plural, {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${names.plural}.${group}`, annotations: { 'api-approved.kubernetes.io': 'unapproved, for a test' } },
      spec: { group, names, scope: 'Namespaced', versions: [{ name: version, served: true, storage: true, schema }] },
    });
  }
  return [...kinds.values()];
}

(enabled ? describe : describe.skip)('an API server that enforces the restricted pod security standard', () => {
  const whole = enabled ? rendered(everything) : '';
  let server: ApiServer;

  beforeAll(async () => {
    server = await startApiServer();
    const list = { apiVersion: 'v1', kind: 'List', items: definitions(objectsIn(whole)) };
    server.shell('kubectl create -f -', JSON.stringify(list));
    server.shell('kubectl wait --for=condition=established crd --all --timeout=30s');
  }, 120_000);

  afterAll(() => server.end());

  test('takes the commands of the guide as they are: namespaces, Secrets, both overlays, a second time, stop and start', () => {
    const secrets = commandsWith('namespace.yaml', 'create secret');
    expect(secrets.length).toBeGreaterThan(8);
    for (const command of secrets) server.shell(command);
    for (const command of secrets) if (!command.includes('namespace.yaml')) server.shell(command.replace('-n ledger ', '-n ledger-dev '));
    for (const command of commandsWith('delete job', 'apply -k')) server.shell(command);
    for (const overlay of ['dev', 'production']) {
      // The server's defaults are no differences.
      expect(server.shell(`kubectl diff -k deploy/kubernetes/overlays/${overlay}`)).toBe('');
    }
    const [, rotation = ''] = /```console\n([^]*?)```/.exec(text('gateway/docs/operate/rotate-secrets.md')) ?? [];
    expect(server.shell(rotation.replace(/kubectl .* rollout status .*/, ''))).toContain('deployment.apps/gateway restarted');
    expect(server.shell(`kubectl -n ledger get secret internal -o jsonpath='{.data.internal-token}' | base64 -d`)).toMatch(
      /^\w{64},\w{64}$/,
    );
    for (const command of commandsWith(' scale deployment')) expect(server.shell(command)).toMatch(/^(deployment\S+ scaled\n)+$/);
  });

  test('takes every component, also over a deployment without them', () => {
    const first = server.shell('kubectl apply -f -', whole);
    expect(first).toContain('scaledobject.keda.sh/notifier created');
    expect(server.shell('kubectl diff -f -', whole)).toBe('');
  });

  test('admits a pod of each template, whose Secrets have every key that it mounts, and refuses one that runs as root', async () => {
    const workloads = ['apps/v1/namespaces/NS/deployments', 'batch/v1/namespaces/NS/jobs'];
    for (const namespace of ['ledger-dev', 'ledger']) {
      const lists = await Promise.all(workloads.map((path) => server.get(`/apis/${path.replace('NS', namespace)}`)));
      const owners = lists.flatMap((list) => list['items'] as Manifest[]);
      expect(owners).toHaveLength(8);
      for (const { metadata, spec } of owners) {
        const pod = { ...spec.template, apiVersion: 'v1', kind: 'Pod', metadata: { ...spec.template.metadata, name: metadata.name } };
        const { status, body } = await server.tryCreate(`/api/v1/namespaces/${namespace}/pods`, pod);
        expect([metadata.name, status, body['message']]).toEqual([metadata.name, 201, undefined]);
        const mounted = (spec.template.spec.volumes as Manifest[]).flatMap((volume) => (volume['projected']?.sources ?? []) as Manifest[]);
        for (const { secret } of mounted) {
          // The page does not make those of other components.
          if (secret.optional === true || /-tls$|^oidc$/.test(String(secret.name))) continue;
          const { data } = await server.get(`/api/v1/namespaces/${namespace}/secrets/${String(secret.name)}`);
          expect([secret.name, secret.items.filter(({ key }: Manifest) => !(key in data))]).toEqual([secret.name, []]);
        }
      }
      const asRoot = structuredClone(owners[0]!['spec'].template) as Manifest;
      asRoot['metadata'].name = 'root';
      containerOf(asRoot)['securityContext'] = {};
      const { status, body } = await server.tryCreate(`/api/v1/namespaces/${namespace}/pods`, { ...asRoot, apiVersion: 'v1', kind: 'Pod' });
      expect([status, body['message']]).toEqual([403, expect.stringMatching(/violates PodSecurity "restricted/)]);
    }
  });
});
