// The Kubernetes manifests as kubectl renders them, and what Kubernetes would not take of them.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Certificate } from '@kubernetes-models/cert-manager/cert-manager.io/v1/Certificate';
import { Issuer } from '@kubernetes-models/cert-manager/cert-manager.io/v1/Issuer';
import { Gateway } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/Gateway';
import { HTTPRoute } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute';
import { ScaledObject } from '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject';
import { TriggerAuthentication } from '@kubernetes-models/keda/keda.sh/v1alpha1/TriggerAuthentication';
import { PodMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor';
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule';
import { validate as deployment } from 'kubernetes-models/_schemas/IoK8sApiAppsV1Deployment';
import { validate as autoscaler } from 'kubernetes-models/_schemas/IoK8sApiAutoscalingV2HorizontalPodAutoscaler';
import { validate as job } from 'kubernetes-models/_schemas/IoK8sApiBatchV1Job';
import { validate as configMap } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap';
import { validate as namespace } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Namespace';
import { validate as volumeClaim } from 'kubernetes-models/_schemas/IoK8sApiCoreV1PersistentVolumeClaim';
import { validate as service } from 'kubernetes-models/_schemas/IoK8sApiCoreV1Service';
import { validate as serviceAccount } from 'kubernetes-models/_schemas/IoK8sApiCoreV1ServiceAccount';
import { validate as ingress } from 'kubernetes-models/_schemas/IoK8sApiNetworkingV1Ingress';
import { validate as networkPolicy } from 'kubernetes-models/_schemas/IoK8sApiNetworkingV1NetworkPolicy';
import { validate as budget } from 'kubernetes-models/_schemas/IoK8sApiPolicyV1PodDisruptionBudget';
import { parse, parseAllDocuments } from 'yaml';
import { root } from '../deploy/local/plan.ts';
import { currentRun } from './run.ts';
import { text } from './sources.ts';

/** An object, or a part of one. */
export type Manifest = Record<string, any>;

type Schema = typeof deployment & { errors?: { instancePath: string; params: object }[] };

const schemas: Record<string, Schema> = {
  'v1/ConfigMap': configMap,
  'v1/Namespace': namespace,
  'v1/PersistentVolumeClaim': volumeClaim,
  'v1/Service': service,
  'v1/ServiceAccount': serviceAccount,
  'apps/v1/Deployment': deployment,
  'autoscaling/v2/HorizontalPodAutoscaler': autoscaler,
  'batch/v1/Job': job,
  'networking.k8s.io/v1/Ingress': ingress,
  'networking.k8s.io/v1/NetworkPolicy': networkPolicy,
  'policy/v1/PodDisruptionBudget': budget,
};

/** What operators add to a cluster. */
const models = [Certificate, Issuer, Gateway, HTTPRoute, ScaledObject, TriggerAuthentication, PodMonitor, PrometheusRule];

/** What Kubernetes would not take. The schemas let unknown fields pass, so a field that they never ask for is told as well. */
export function faults(object: Manifest): string[] {
  const kind = `${String(object['apiVersion'])}/${String(object['kind'])}`;
  const unasked = new Set<string>();
  const name = `${kind} ${String(object['metadata'].name)}`;
  const copy = watched(object, name, unasked);
  const unknown = () => [...unasked].map((field) => `${field} is unknown`);
  const model = models.find((each) => `${each.apiVersion}/${each.kind}` === kind);
  const schema = schemas[kind];
  if (schema?.(copy)) return unknown();
  if (schema) return (schema.errors ?? []).map((error) => `${name}${error.instancePath} ${JSON.stringify(error.params)}`);
  if (!model) return [`no schema for ${kind}`];
  try {
    // Not of an instance, whose constructor would ask for every field.
    model.prototype.validate.call(copy);
    return unknown();
  } catch (error) {
    return [`${name} ${(error as Error).message}`];
  }
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

/** Whether labels fit a label selector. */
export function selects({ matchLabels = {}, matchExpressions = [] }: Manifest, labels: Record<string, string>): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    (matchExpressions as Manifest[]).every(
      ({ key, operator, values }) => (operator === 'In') === (values as string[]).includes(labels[key as string] ?? ''),
    )
  );
}

/** The documents of a file or of what was rendered. */
export const objectsIn = (yaml: string): Manifest[] => parseAllDocuments(yaml).map((document) => document.toJS() as Manifest);

/** The overlays, from deploy/kubernetes. */
export const overlays = readdirSync(join(root, 'deploy/kubernetes/overlays')).map((name) => `overlays/${name}`);

/** The production overlay with all components that it lacks. */
export const everything = 'overlays/production and every component';

/** All that is rendered. */
export const variants = ['base', ...overlays, everything];

/** Whether there is kubectl, which renders. */
export const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;
if (!hasKubectl) process.stderr.write('tests that render manifests are skipped: kubectl is missing\n');

/** What kubectl makes of one of {@link variants}. */
export function rendered(path: string): string {
  const directory = path === everything ? withEveryComponent() : join(root, 'deploy/kubernetes', path);
  const kubectl = spawnSync('kubectl', ['kustomize', directory], { encoding: 'utf8' });
  if (kubectl.status !== 0) throw new Error(kubectl.stderr);
  return kubectl.stdout;
}

function withEveryComponent(): string {
  const directory = mkdtempSync(join(currentRun().directory, 'kustomization-'));
  const from = relative(directory, join(root, 'deploy/kubernetes'));
  const { namespace, components } = parse(text('deploy/kubernetes/overlays/production/kustomization.yaml')) as Manifest;
  const more = readdirSync(join(root, 'deploy/kubernetes/components')).filter((name) => !components.includes(`../../components/${name}`));
  const resources = [`${from}/overlays/production`];
  const kustomization = { namespace, resources, components: more.map((name) => `${from}/components/${name}`) };
  writeFileSync(join(directory, 'kustomization.yaml'), JSON.stringify(kustomization));
  return directory;
}

/** The objects of one of {@link variants}, by what they are. */
export class Rendered {
  readonly objects: Manifest[];

  constructor(path: string) {
    this.objects = objectsIn(rendered(path));
  }

  all(kind: string): Manifest[] {
    return this.objects.filter((each) => each['kind'] === kind);
  }

  called(kind: string, name: string): Manifest {
    const found = this.all(kind).find((each) => each['metadata'].name === name);
    if (!found) throw new Error(`there is no ${kind} ${name}`);
    return found;
  }

  /** The templates of all pods. */
  pods(): Manifest[] {
    return [...this.all('Deployment'), ...this.all('Job')].map((each) => each['spec'].template as Manifest);
  }

  /** The variables of a container. */
  environment(container: Manifest): Record<string, string> {
    const shared = (container['envFrom'] ?? []).map((from: Manifest) => this.called('ConfigMap', from['configMapRef'].name)['data']);
    const own = (container['env'] ?? []).map(({ name, value }: Manifest) => [name, value]);
    return Object.assign({}, ...shared, Object.fromEntries(own)) as Record<string, string>;
  }
}

/** The first container of a deployment, a job or a template of these. */
export function containerOf(owner: Manifest): Manifest {
  return ((owner['spec'].template ?? owner) as Manifest)['spec'].containers[0] as Manifest;
}
