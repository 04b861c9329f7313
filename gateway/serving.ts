// The gateway: REST outside, gRPC inside. Opened in order, each part with how it is stopped.
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../proto/gen/grpc/health/v1/health_pb.js';
import { IdentityService } from '../proto/gen/identity/v1/identity_pb.js';
import { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import { openCaller, type Replica } from '../services/platform/caller.ts';
import { cached, serveOps, tokenName, type Readiness } from '../services/platform/health.ts';
import { listening, type Lifetime } from '../services/platform/lifetime.ts';
import type { Settings } from '../services/platform/settings.ts';
import { openLog, openMetrics } from '../services/platform/telemetry.ts';
import { buildApp } from './app.ts';
import { Batcher, type Ledger } from './batcher.ts';
import { gatewayConfig } from './config.ts';
import { ApiKeyCache } from './api-keys.ts';
import { registerRoutes } from './routes/all.ts';
import { TokenVerifier } from './tokens.ts';

/** Opens the gateway and registers how each part is stopped. Throws `BadSetting` or `StartFailure` where it can't. */
export async function serveGateway(settings: Settings, lifetime: Lifetime): Promise<void> {
  const config = gatewayConfig(settings);
  const logger = openLog('gateway', config.logLevel);
  const metrics = openMetrics('gateway');
  const token = config.internalTokens[0] ?? '';
  const maxMessageBytes = config.grpcMaxMessageBytes;
  const { method: ofIdentity } = IdentityService;
  const verifications = [ofIdentity.verifyApiKey, ofIdentity.verifyTenantMember];
  const toIdentity = openCaller({
    addresses: config.identityAddresses,
    token,
    maxMessageBytes,
    retried: [ofIdentity.getKeySet, ofIdentity.getUser, ofIdentity.listTenants, ofIdentity.listApiKeys, ...verifications],
  });
  lifetime.add('channel to identity', () => toIdentity.close());
  const { method: ofLedger } = LedgerService;
  const toLedger = openCaller({
    addresses: config.ledgerAddresses,
    token,
    maxMessageBytes,
    retried: [
      ofLedger.getTransaction,
      ofLedger.listTransactions,
      ofLedger.getHierarchy,
      ofLedger.getAccount,
      ofLedger.listAccounts,
      ofLedger.getBalance,
      ofLedger.listBalanceHistory,
      ofLedger.listEvents,
    ],
  });
  lifetime.add('channel to ledger', () => toLedger.close());
  const { method: ofNotifier } = NotifierService;
  const toNotifier = openCaller({
    addresses: config.notifierAddresses,
    token,
    maxMessageBytes,
    retried: [ofNotifier.checkUrl, ofNotifier.getWebhook, ofNotifier.listDeliveries, ofNotifier.getDelivery],
  });
  lifetime.add('channel to notifier', () => toNotifier.close());
  // Postings have a connection of their own: behind somebody's large pages they would wait for the pages to be read.
  const toWriter = openCaller({
    addresses: config.ledgerAddresses,
    token,
    maxMessageBytes,
  });
  lifetime.add('channel of postings', () => toWriter.close());

  const identity = createClient(IdentityService, toIdentity);
  const ledger = createClient(LedgerService, toLedger);
  const notifier = createClient(NotifierService, toNotifier);
  const tokens = new TokenVerifier(async () => (await identity.getKeySet({}, { timeoutMs: 3_000 })).jwks);
  const keys = new ApiKeyCache(async (key) => (await identity.verifyApiKey({ key }, { timeoutMs: 2_000 })).verified);

  const ledgers = new WeakMap<Replica, Ledger>();
  const ledgerAt = (replica: Replica): Ledger => {
    const known = ledgers.get(replica) ?? { address: replica.address, client: createClient(LedgerService, replica) };
    ledgers.set(replica, known);
    return known;
  };
  const batcher = new Batcher({
    ledgers: () => toWriter.replicas().map(ledgerAt),
    logger,
    metrics,
    mostPostings: config.maxInFlight,
    timeoutMs: 10_000,
  });

  let draining = false;
  const askIdentity = healthOf(toIdentity, IdentityService.typeName, neededMs);
  const askLedger = healthOf(toLedger, LedgerService.typeName, neededMs);
  const askNotifier = healthOf(toNotifier, NotifierService.typeName, spareMs);
  // Told by a ledger that relays over Kafka, and by no other.
  const askKafka = healthOf(toLedger, 'kafka', spareMs, false);
  const readiness = async (): Promise<Readiness> => {
    const [identitySays, ledgerSays, notifierSays, kafka] = await Promise.all([askIdentity(), askLedger(), askNotifier(), askKafka()]);
    // Postings are answered without notifier and Kafka; their events wait in the log.
    const ready = !draining && identitySays === 'ok' && ledgerSays === 'ok';
    const dependencies = { identity: identitySays, ledger: ledgerSays, notifier: notifierSays, ...(kafka !== 'unavailable' && { kafka }) };
    return { ready, dependencies: { ...dependencies, ...(draining && { gateway: 'draining' }) } };
  };

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
      memberRole: async (userId, tenantId) => (await identity.verifyTenantMember({ userId, tenantId }, { timeoutMs: 3_000 })).role,
    },
    routes: (registered) =>
      registerRoutes(registered, {
        identity,
        ledger,
        notifier,
        tokens,
        metrics,
        readiness,
        post: (posting, answer) => batcher.post(posting, answer),
      }),
  });
  await listening({ variable: 'PORT', host: config.host, port }, app.listen({ host, port }));
  lifetime.add('server', () => {
    draining = true;
    return app.close();
  });
  logger.info({ port: (app.server.address() as AddressInfo).port }, 'listening');
}

// Of this one name Fastify listens on all addresses, on each but the first with a server that has nothing of what is put on the other.
async function addressOf(host: string): Promise<string> {
  if (host !== 'localhost') return host;
  const found = await lookup(host, { family: 4 }).catch(() => lookup(host).catch(() => undefined));
  return found?.address ?? host;
}

/**
 * So long the health of a service is waited for without which nothing is answered, milliseconds: it takes up to so long to say that it is well, and
 * is left in service itself (two slow ledgers, ready throughout, had every gateway taken out for ten seconds, where a second was waited). Of the
 * others a second: where they are away, who asks a gateway waits no more than three.
 */
const [neededMs, spareMs] = [2_500, 1_000];

/**
 * Asks a process whether a service of it, or what it depends on, does its work: `ok` or what is wrong; where it `takesCalls`, `refused` if none with
 * this internal token. Many who ask within a second get one answer.
 */
function healthOf(transport: Transport, service: string, timeoutMs: number, takesCalls = true): () => Promise<string> {
  const client = createClient(Health, transport);
  const check = (name: string) => client.check({ service: name }, { timeoutMs }).then(({ status }) => status === Serving.SERVING);
  return cached(() =>
    Promise.all([check(service), takesCalls ? check(tokenName).catch(knowsNoTokens) : true]).then(
      ([isServing, accepted]) => (!accepted ? 'refused' : isServing ? 'ok' : 'not serving'),
      // How its addresses failed is for the log of who asks, not for the public port.
      () => 'unavailable',
    ),
  );
}

// A service of the version before does not know of tokens; whoever says nothing is not known to accept one.
function knowsNoTokens(error: unknown): true {
  if (error instanceof ConnectError && error.code === Code.NotFound) return true;
  throw error;
}
