// Opens the parts of the gateway in order: calls to the services, the batcher, readiness, the HTTP server.
import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { createClient, type Transport } from '@connectrpc/connect';
import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../proto/gen/grpc/health/v1/health_pb.js';
import { IdentityService } from '../proto/gen/identity/v1/identity_pb.js';
import { VaultService } from '../proto/gen/identity/v1/vault_pb.js';
import { AuditService } from '../proto/gen/ledger/v1/audit_pb.js';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import { openCaller, type Caller, type Replica } from '../services/platform/caller.ts';
import { measureCertificates } from '../services/platform/certificate-metrics.ts';
import { cached, serveOps, tokenName, type Readiness } from '../services/platform/health.ts';
import { listening, type Lifetime } from '../services/platform/lifetime.ts';
import type { Settings } from '../services/platform/settings.ts';
import { openLog, openMetrics } from '../services/platform/telemetry.ts';
import { openTracing } from '../services/platform/tracing.ts';
import { BooksTimes } from './books.ts';
import { buildApp } from './app.ts';
import { Batcher } from './batcher.ts';
import { gatewayConfig, type GatewayConfig } from './config.ts';
import { ApiKeyCache } from './api-keys.ts';
import { registerRoutes } from './routes/all.ts';
import type { Services } from './services.ts';
import { ledgerOf, type Ledger } from './tenant-replica.ts';
import { TokenVerifier } from './tokens.ts';

/** Calls to the services. */
interface Callers {
  toIdentity: Caller;
  toLedger: Caller;
  toNotifier: Caller;
  toAuditor: Caller;
}

/** Opens the gateway and registers how each part is stopped. Throws `BadSetting` or `StartFailure` where it can't. */
export async function serveGateway(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = gatewayConfig(settings);
  const logger = openLog('gateway', config.logLevel);
  const metrics = openMetrics('gateway');
  await openTracing('gateway', config.tracing, { lifetime, logger, metrics });
  const { toIdentity, toLedger, toNotifier, toAuditor, toWriter } = openCallers(config, lifetime, metrics);
  if (config.tls) measureCertificates(metrics, config.tls);
  const identity = createClient(IdentityService, toIdentity);
  const vault = createClient(VaultService, toIdentity);
  const ledger = createClient(LedgerService, toLedger);
  const notifier = createClient(NotifierService, toNotifier);
  const auditor = createClient(AuditService, toAuditor);
  const tokens = new TokenVerifier(async () => (await identity.getKeySet({}, { timeoutMs: 3_000 })).jwks);
  const keys = new ApiKeyCache(async (key) => (await identity.verifyApiKey({ key }, { timeoutMs: 2_000 })).verified);

  const ledgers = new WeakMap<Replica, Ledger>();
  const ledgerAt = (replica: Replica): Ledger => {
    const known = ledgers.get(replica) ?? { address: replica.address, client: createClient(LedgerService, replica) };
    ledgers.set(replica, known);
    return known;
  };
  const ledgersNow = () => toWriter.replicas().map(ledgerAt);
  const batcher = new Batcher({ ledgers: ledgersNow, logger, metrics, maxPostings: config.maxInFlight, timeoutMs: 10_000 });

  const closing = new AbortController();
  const readiness = readinessOf({ toIdentity, toLedger, toNotifier, toAuditor }, () => closing.signal.aborted);

  const { port } = config;
  const host = await addressOf(config.host);
  if (config.opsPort !== undefined) {
    const ops = await serveOps(host, config.opsPort, metrics, readiness);
    lifetime.add('ops', ops.close);
  }
  const app = await buildApp({
    ...config,
    logger,
    metrics,
    authenticators: {
      keys,
      tokens,
      verifyUser: (user) => identity.verifyUser(user, { timeoutMs: 3_000 }),
      verifyMember: (user, tenantId) => identity.verifyTenantMember({ ...user, tenantId }, { timeoutMs: 3_000 }),
    },
    routes: (registered) => {
      const post: Services['post'] = (posting, response) => batcher.post(posting, response);
      const writerOf: Services['writerOf'] = (tenantId) => ledgerOf(tenantId, ledgersNow()).client;
      const shutdown = closing.signal;
      registerRoutes(registered, {
        ...config,
        identity,
        vault,
        ledger,
        notifier,
        auditor,
        tokens,
        metrics,
        readiness,
        post,
        writerOf,
        times: new BooksTimes(ledger),
        shutdown,
      });
    },
  });
  await listening({ variable: 'PORT', host: config.host, port }, app.listen({ host, port }));
  lifetime.add('server', () => {
    closing.abort();
    return app.close();
  });
  logger.info({ port: (app.server.address() as AddressInfo).port }, 'listening');
}

/** Opens the connections to the services. */
function openCallers(config: GatewayConfig, lifetime: Lifetime, metrics: Registry): Callers & { toWriter: Caller } {
  const [token = ''] = config.internalTokens;
  const open = (name: string, addresses: string[], retried: DescMethod[] = []): Caller => {
    const caller = openCaller({ addresses, token, tls: config.tls, maxMessageBytes: config.grpcMaxMessageBytes, retried, metrics });
    lifetime.add(`channel to ${name}`, () => caller.close());
    return caller;
  };
  return {
    toIdentity: open('identity', config.identityAddresses, [...readsOf(IdentityService), ...readsOf(VaultService)]),
    toLedger: open('ledger', config.ledgerAddresses, readsOf(LedgerService)),
    toNotifier: open('notifier', config.notifierAddresses, readsOf(NotifierService)),
    toAuditor: open('auditor', config.auditorAddresses, readsOf(AuditService)),
    // Postings have connections of their own, so that they never wait behind large pages.
    toWriter: open('ledger for postings', config.ledgerAddresses),
  };
}

/** The calls that may be sent again, because a second one changes nothing. */
function readsOf({ methods }: DescService): DescMethod[] {
  return methods.filter(({ name }) => /^(Get|List|Stream|Verify|Check|Find|Open|Seal)([A-Z]|$)/.test(name));
}

/** Whether the gateway can answer, and the state of each service behind it. */
function readinessOf({ toIdentity, toLedger, toNotifier, toAuditor }: Callers, isClosing: () => boolean): () => Promise<Readiness> {
  const health = {
    identity: healthOf(toIdentity, IdentityService.typeName, requiredTimeoutMs),
    ledger: healthOf(toLedger, LedgerService.typeName, requiredTimeoutMs),
    notifier: healthOf(toNotifier, NotifierService.typeName, optionalTimeoutMs),
    auditor: healthOf(toAuditor, AuditService.typeName, optionalTimeoutMs),
    // Known only to a ledger that relays over Kafka.
    kafka: healthOf(toLedger, 'kafka', optionalTimeoutMs, false),
  };
  return async () => {
    const [identity, ledger, notifier, auditor, kafka] = await Promise.all([
      health.identity(),
      health.ledger(),
      health.notifier(),
      health.auditor(),
      health.kafka(),
    ]);
    const closing = isClosing();
    // Postings are answered without notifier, auditor and Kafka; their events wait in the log.
    const ready = !closing && identity === 'ok' && ledger === 'ok';
    const dependencies = {
      identity,
      ledger,
      notifier,
      auditor,
      ...(kafka !== 'unavailable' && { kafka }),
      ...(closing && { gateway: 'draining' }),
    };
    return { ready, dependencies };
  };
}

// Fastify would listen on every address of `localhost`, with one configured server and bare ones for the others.
async function addressOf(host: string): Promise<string> {
  if (host !== 'localhost') return host;
  const found = await lookup(host, { family: 4 }).catch(() => lookup(host).catch(() => undefined));
  return found?.address ?? host;
}

// A required service may take 2 s to report its own health. The sum stays below kubelet's 3 s.
const [requiredTimeoutMs, optionalTimeoutMs] = [2_500, 1_000];

/**
 * Asks a process for the health of a service or a dependency of it, at most once a second: `ok`, `not serving` or `unavailable`; with
 * `checksToken` also `refused`, where it does not accept our internal token.
 */
function healthOf(transport: Transport, service: string, timeoutMs: number, checksToken = true): () => Promise<string> {
  const client = createClient(Health, transport);
  const check = (name: string) => client.check({ service: name }, { timeoutMs }).then(({ status }) => status === Serving.SERVING);
  return cached(() =>
    Promise.all([check(service), checksToken ? check(tokenName) : true]).then(
      ([isServing, isAccepted]) => (!isAccepted ? 'refused' : isServing ? 'ok' : 'not serving'),
      // The public port does not name addresses and failures.
      () => 'unavailable',
    ),
  );
}
