// Whether a process can do its work, for whoever asks: `grpc.health.v1` beside its services, plain HTTP for kubelet, and Prometheus' figures.
import { createServer } from 'node:http';
import { setImmediate, setTimeout as pause } from 'node:timers/promises';
import type { DescService } from '@bufbuild/protobuf';
import { Code, ConnectError, type ConnectRouter, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { runningServer, type RunningServer } from './lifetime.ts';
import { refuse } from './errors.ts';

/** Whether a process can do its work, and what each of its dependencies says. */
export interface Readiness {
  ready: boolean;
  /** `ok`, `degraded`, or what is wrong, by dependency. */
  dependencies: Record<string, string>;
}

// Streams of who has no token, which stay open for as long as he likes.
const mostWatchers = 100;
const recentMs = 1_000;
const soonMs = 2_000;

/** Of a question for health: it holds the name of a service. */
export const mostBytesOfHealthCheck = 4096;

// Who has sent half a request, or reads no answer, would keep a process from ending for a minute.
const opsClosingMs = 1_000;

/** Answers `/healthz`, `/readyz` and `/metrics` as plain HTTP/1.1; `close` waits up to 1 s for what is under way. */
export async function serveOps(host: string, port: number, metrics: Registry, readiness: () => Promise<Readiness>): Promise<RunningServer> {
  const figures = metricsText(metrics);
  const server = createServer((request, response) => {
    const answer = (status: number, type: string, body: string) => {
      response.writeHead(status, { 'content-type': type });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    const path = request.url?.split('?')[0];
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      answer(405, 'application/json', '{"status":"method not allowed"}');
    } else if (path === '/healthz') answer(200, 'application/json', '{"status":"ok"}');
    else if (path === '/readyz') {
      readiness().then(
        (state) => answer(state.ready ? 200 : 503, 'application/json', readinessBody(state)),
        () => answer(503, 'application/json', '{"status":"unavailable"}'),
      );
    } else if (path === '/metrics') {
      figures().then(
        (text) => answer(200, metrics.contentType, text),
        () => answer(500, 'text/plain', 'no metrics'),
      );
    } else answer(404, 'application/json', '{"status":"not found"}');
  });
  return runningServer(
    server,
    { variable: 'OPS_PORT', host, port },
    { release: () => server.closeIdleConnections(), forceClose: () => server.closeAllConnections(), ms: opsClosingMs },
  );
}

/** The body of `/readyz`: `ok`, `degraded` (ready, but a dependency is not well) or `unavailable`. */
export function readinessBody(state: Readiness): string {
  const well = Object.values(state.dependencies).every((each) => each === 'ok');
  return JSON.stringify({ status: state.ready ? (well ? 'ok' : 'degraded') : 'unavailable', dependencies: state.dependencies });
}

/**
 * Takes the figures of `metrics` as Prometheus reads them, once for all who ask until they are there: a gateway's cost 4 ms in which it does nothing
 * else, and a ledger's a look at its database. They are taken a turn of the event loop later, or else they were there before the next request of the
 * same turn is read.
 */
export function metricsText(metrics: Registry): () => Promise<string> {
  let asked: Promise<string> | undefined;
  const take = async (): Promise<string> => {
    await setImmediate();
    return metrics.metrics();
  };
  return () => (asked ??= take().finally(() => (asked = undefined)));
}

/**
 * Asks once for all who ask meanwhile, or within a second of its beginning: anybody may ask for health, and the answer costs a round trip to the
 * database.
 */
export function cached<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
  let asked: Promise<Answer> | undefined;
  return () => {
    if (asked) return asked;
    const until = performance.now() + recentMs;
    const forget = () => (asked = undefined);
    asked = ask().finally(() => {
      // Of less than nothing Node warns, in the midst of the log.
      setTimeout(forget, Math.max(0, until - performance.now())).unref();
    });
    return asked;
  };
}

/**
 * The answer to what is asked for health or figures; throws where there is none within 2 s. Kubelet waits three, and a database that stands still
 * is given up only after 15 s.
 */
export async function withTimeout<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('no answer within 2 s')), soonMs);
  try {
    return await Promise.race([asked, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function authorizationOf(context: HandlerContext): string {
  return context.requestHeader.get('authorization') ?? '';
}

/** Who asks for the health of this is told whether his internal token is accepted: health itself is answered without one. */
export const tokenName = 'internal-token';

/**
 * Answers `grpc.health.v1`, of which connect-es has no service of its own. Beside the services it tells of each dependency under its name,
 * `kafka` for example, and of the caller's token under {@link tokenName}. Of whom `isKnown` does not know by the header `authorization`, a hundred may watch at a time.
 */
export function serveHealth(
  router: ConnectRouter,
  services: DescService[],
  readiness: () => Promise<Readiness>,
  isKnown: (authorization: string) => boolean,
): void {
  const strangers = new Set<HandlerContext>();
  const names = new Set(['', ...services.map((service) => service.typeName)]);
  const status = async (name: string, authorization: string) => {
    if (name === tokenName) return isKnown(authorization) ? Serving.SERVING : Serving.NOT_SERVING;
    const { ready, dependencies } = await readiness().catch(() => ({ ready: false, dependencies: {} }));
    const known = new Map<string, boolean>(Object.entries(dependencies).map(([each, says]) => [each, says === 'ok']));
    const well = names.has(name) ? ready : known.get(name);
    return well === undefined ? Serving.SERVICE_UNKNOWN : well ? Serving.SERVING : Serving.NOT_SERVING;
  };
  const implementation: Partial<ServiceImpl<typeof Health>> = {
    async check(request, context) {
      const found = await status(request.service, authorizationOf(context));
      if (found === Serving.SERVICE_UNKNOWN) throw new ConnectError('unknown service', Code.NotFound);
      return { status: found };
    },
    async *watch(request, context) {
      // With a deadline of nothing, of which no event tells any more.
      const isOver = () => context.signal.aborted;
      if (isOver()) return endWatch(context);
      if (!isKnown(authorizationOf(context))) {
        if (strangers.size >= mostWatchers) {
          const message = 'too many watch the health of this process';
          throw refuse(Code.ResourceExhausted, { reason: 'overloaded', message, retryAfter: 1 });
        }
        strangers.add(context);
        // Who reads nothing keeps what is yielded waiting, and is gone all the same.
        context.signal.addEventListener('abort', () => strangers.delete(context), { once: true });
      }
      try {
        let last: Serving | undefined;
        while (!isOver()) {
          const now = await status(request.service, authorizationOf(context));
          if (now !== last) yield { status: now };
          last = now;
          await pause(1000, undefined, { signal: context.signal }).catch(() => undefined);
        }
        endWatch(context);
      } finally {
        strangers.delete(context);
      }
    },
    async list() {
      const now = await status('', '');
      return { statuses: Object.fromEntries([...names].map((name) => [name, { status: now }])) };
    },
  };
  // Connect makes room for a message when its length is promised.
  router.service(Health, implementation, { readMaxBytes: mostBytesOfHealthCheck });
}

// Who set a deadline, and reads that all went well, takes it that the server has ended the watch.
function endWatch({ signal }: HandlerContext): void {
  const reason: unknown = signal.reason;
  if (reason instanceof ConnectError && reason.code === Code.DeadlineExceeded) throw reason;
}
