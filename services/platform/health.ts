// Whether a process can do its work: `grpc.health.v1` for gRPC clients, plain HTTP for kubelet and Prometheus.
import type { AddressInfo } from 'node:net';
import { setImmediate, setTimeout as pause } from 'node:timers/promises';
import type { DescService } from '@bufbuild/protobuf';
import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect';
import { fastify } from 'fastify';
import { Gauge, type Registry } from 'prom-client';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { listening, type RunningServer } from './lifetime.ts';
import { version } from './version.ts';

/** Whether a process can do its work, and the state of each of its dependencies. */
export interface Readiness {
  ready: boolean;
  /** `ok`, `degraded`, or what is wrong, by dependency. */
  dependencies: Record<string, string>;
}

/** The health of this name says whether the caller's internal token is accepted. */
export const tokenName = 'internal-token';

const cacheMs = 1_000;
// Kubelet waits 3 s.
const timeoutMs = 2_000;

/** Answers `/healthz`, `/readyz` and `/metrics` over HTTP/1.1. Throws `StartFailure` where it can't listen. */
export async function serveOps(host: string, port: number, metrics: Registry, readiness: () => Promise<Readiness>): Promise<RunningServer> {
  openDependencies(metrics, readiness);
  const readMetrics = metricsText(metrics);
  const app = fastify({ forceCloseConnections: true });
  app.get('/healthz', () => ({ status: 'ok', version }));
  app.get('/readyz', async (_request, reply) => {
    const state = await readiness().catch((): Readiness => ({ ready: false, dependencies: {} }));
    return reply
      .code(state.ready ? 200 : 503)
      .type('application/json')
      .send(readinessBody(state));
  });
  app.get('/metrics', async (_request, reply) => reply.type(metrics.contentType).send(await readMetrics()));
  await listening({ variable: 'OPS_PORT', host, port }, app.listen({ host, port }));
  return { port: (app.server.address() as AddressInfo).port, close: () => app.close() };
}

/** The body of `/readyz`: `ok`, `degraded` (ready, but a dependency is not well) or `unavailable`. */
export function readinessBody(state: Readiness): string {
  const isWell = Object.values(state.dependencies).every((each) => each === 'ok');
  return JSON.stringify({ status: state.ready ? (isWell ? 'ok' : 'degraded') : 'unavailable', dependencies: state.dependencies });
}

// Without it Prometheus would not notice a lost database where nobody sends requests. What the read before found is shown,
// because a dependency that hangs would keep all metrics waiting.
function openDependencies(metrics: Registry, readiness: () => Promise<Readiness>): void {
  let last: Pick<Readiness, 'dependencies'> | undefined;
  const gauge: Gauge = new Gauge<'dependency'>({
    name: 'dependency_up',
    help: '1 while /readyz says ok of the dependency, else 0; as the read before found it',
    labelNames: ['dependency'],
    registers: [metrics],
    collect: async () => {
      const answer = readiness().catch(() => ({ dependencies: {} }));
      void answer.then((state) => (last = state));
      const { dependencies } = last ?? (await answer);
      gauge.reset();
      for (const [dependency, state] of Object.entries(dependencies)) gauge.set({ dependency }, state === 'ok' ? 1 : 0);
    },
  });
}

/** Collects `metrics` as text, once for all who ask meanwhile: a ledger's gauges query its database. */
export function metricsText(metrics: Registry): () => Promise<string> {
  let pending: Promise<string> | undefined;
  // A turn later, so that requests read in the same turn share it.
  const collect = () => setImmediate().then(() => metrics.metrics());
  return () => (pending ??= collect().finally(() => (pending = undefined)));
}

/** Shares one answer among all who ask within a second: anybody may ask for health, and it costs a query. */
export function cached<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
  let answer: Promise<Answer> | undefined;
  return () => {
    if (answer) return answer;
    const expires = performance.now() + cacheMs;
    answer = ask().finally(() => setTimeout(() => (answer = undefined), Math.max(0, expires - performance.now())).unref());
    return answer;
  };
}

/** Rejects where there is no answer within 2 s. */
export async function withTimeout<Answer>(answer: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  return Promise.race([answer, late.promise]).finally(() => clearTimeout(timer));
}

/** Answers `grpc.health.v1` for the services, for each dependency by its name, and for the caller's token as {@link tokenName}. */
export function serveHealth(
  router: ConnectRouter,
  services: DescService[],
  readiness: () => Promise<Readiness>,
  isAccepted: (authorization: string | undefined) => boolean,
): void {
  const names = ['', ...services.map((service) => service.typeName)];
  const status = async (name: string, header: Headers) => {
    if (name === tokenName) return isAccepted(header.get('authorization') ?? '') ? Serving.SERVING : Serving.NOT_SERVING;
    const { ready, dependencies } = await readiness().catch((): Readiness => ({ ready: false, dependencies: {} }));
    if (!names.includes(name) && !Object.hasOwn(dependencies, name)) return Serving.SERVICE_UNKNOWN;
    return (names.includes(name) ? ready : dependencies[name] === 'ok') ? Serving.SERVING : Serving.NOT_SERVING;
  };
  router.service(Health, {
    async check({ service }, { requestHeader }) {
      const found = await status(service, requestHeader);
      if (found === Serving.SERVICE_UNKNOWN) throw new ConnectError('unknown service', Code.NotFound);
      return { status: found };
    },
    async *watch({ service }, { requestHeader, signal }) {
      let last: Serving | undefined;
      while (!signal.aborted) {
        const now = await status(service, requestHeader);
        if (now !== last) yield { status: now };
        last = now;
        await pause(1_000, undefined, { signal }).catch(() => undefined);
      }
      throw signal.reason;
    },
    async list(_request, { requestHeader }) {
      const now = await status('', requestHeader);
      return { statuses: Object.fromEntries(names.map((name) => [name, { status: now }])) };
    },
  });
}
