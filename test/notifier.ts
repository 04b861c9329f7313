// Notifiers inside the test's process, on a database of their own, and receivers for them, for the tests of their rules.
import { createSecretKey } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { createClient, type Client } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { EventSchema, type Event } from '../proto/gen/ledger/v1/events_pb.js';
import { NotifierService } from '../proto/gen/notifier/v1/notifier_pb.js';
import type { NotifierConfig } from '../services/notifier/config.ts';
import { assemble, type Notifier, type Tuning } from '../services/notifier/notifier.ts';
import { notifierRoutes } from '../services/notifier/rpc.ts';
import { openCaller } from '../services/platform/caller.ts';
import { newId, toUuid } from '../services/platform/ids.ts';
import { queryPlanSettings } from '../services/platform/query-plans.ts';
import { openPool, type Pool } from '../services/platform/postgres.ts';
import { openLog, type Logger } from '../services/platform/telemetry.ts';
import { withLongDeadline } from './polling.ts';
import { startGrpcServer } from './grpc-server.ts';
import { freshDatabase, longTransactionTimeouts, type FreshDatabase } from './cluster.ts';

export type NotifierClient = Client<typeof NotifierService>;

/** A notifier that answers. */
export interface RunningNotifier extends Notifier {
  client: NotifierClient;
  database: FreshDatabase;
  /** Connections of the service's role. */
  work: Pool;
  metrics: Registry;
  end: () => Promise<void>;
}

export interface NotifierOptions extends Tuning {
  config?: Partial<NotifierConfig>;
  /** Another notifier's, for a replica. */
  database?: FreshDatabase;
  /** Whether it leases deliveries by itself; default true. */
  claims?: boolean;
  logger?: Logger;
  /** PostgreSQL settings of its connections, in addition to the usual ones. */
  settings?: Record<string, string>;
}

/** A key for secrets. */
export const testKey = { id: 'k1', key: createSecretKey(Buffer.alloc(32, 7)) };

/** Starts a notifier, on a new database unless one is given; without other words local targets are admitted and no attempt waits. */
export async function startNotifier(options: NotifierOptions = {}): Promise<RunningNotifier> {
  const {
    config: changes = {},
    database: given,
    claims = true,
    logger = openLog('test', 'silent'),
    settings: own = {},
    ...tuning
  } = options;
  const database = given ?? (await freshDatabase('notifier', { migrated: true }));
  const config = {
    encryptionKeys: [testKey] as NotifierConfig['encryptionKeys'],
    insecureTargets: true,
    retryDelays: [0, 0],
    // Longer than a test may take: on however busy a machine no attempt ends of it.
    timeoutMs: 300_000,
    quotas: { 'webhook-config': 1_000, retries: 1_000, tests: 1_000 },
    concurrency: 64,
    endpointConcurrency: 8,
    ...changes,
  };
  const metrics = new Registry();
  const settings = { ...queryPlanSettings, ...longTransactionTimeouts, ...own };
  const calls = openPool(database.serviceUrl, { name: 'calls', max: 4, logger, settings });
  const work = openPool(database.serviceUrl, { name: 'work', max: 4, logger, settings });
  const consuming = openPool(database.serviceUrl, { name: 'consumer', max: 3, logger, settings });
  const notifier = assemble(config, { calls, work, consuming, logger, metrics }, { pollMs: 50, ...tuning });
  if (claims) notifier.worker.start();
  const served = await startGrpcServer({
    services: [NotifierService],
    routes: notifierRoutes(notifier),
    maxMessageBytes: 32 << 20,
    logger,
    metrics,
  });
  const caller = openCaller({ addresses: [`127.0.0.1:${served.port}`], token: 'token', maxMessageBytes: 32 << 20 });
  return {
    ...notifier,
    client: createClient(NotifierService, withLongDeadline(caller)),
    database,
    work,
    metrics,
    async end() {
      caller.close();
      await served.close();
      await notifier.worker.stop(0);
      await notifier.httpClient.close();
      await Promise.all([calls.end(), work.end(), consuming.end()]);
      if (!given) await database.drop();
    },
  };
}

/** A request as a receiver got it. */
export interface Received {
  headers: IncomingMessage['headers'];
  body: string;
  path: string;
}

/** A receiver of deliveries. */
export interface Receiver {
  url: string;
  received: Received[];
  /** Resolves when so many requests have come in all. */
  count: (requests: number) => Promise<Received[]>;
  /** Connections that are open. */
  sockets: Set<Socket>;
  close: () => Promise<void>;
}

/** Answers a request whose body has come. */
export type Answering = (request: Received, response: ServerResponse, place: number) => unknown;

/** Starts a receiver on 127.0.0.1; without other words it answers 200. */
export async function startReceiver(
  answer: Answering = (_, response) => response.end('ok'),
  tls?: { key: string; cert: string },
  on = 0,
): Promise<Receiver> {
  const received: Received[] = [];
  const waiting: { requests: number; done: (all: Received[]) => void }[] = [];
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const one = { headers: request.headers, body: Buffer.concat(chunks).toString(), path: request.url ?? '' };
      received.push(one);
      for (const each of waiting) if (received.length >= each.requests) each.done(received);
      answer(one, response, received.length - 1);
    });
  };
  const server: Server = tls ? createTlsServer(tls, handle) : createServer(handle);
  const sockets = new Set<Socket>();
  server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
  });
  await new Promise<void>((done) => server.listen(on, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}/hook`,
    received,
    count: (requests) =>
      received.length >= requests ? Promise.resolve(received) : new Promise((done) => waiting.push({ requests, done })),
    sockets,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

/** An unused tenant, as TypeID and UUID, and the events of its log. */
export interface TestTenant {
  tenantId: string;
  tenant: string;
  /** The next event of its log: a posting. */
  posting: (change?: MessageInitShape<typeof EventSchema>) => Event;
}

/** A new tenant with an empty log. */
export function newTenant(): TestTenant {
  const tenantId = newId('tenant');
  let sequence = 0n;
  return {
    tenantId,
    tenant: toUuid('tenant', tenantId)!,
    posting: (change = {}) => postingEvent(tenantId, ++sequence, change),
  };
}

// The same accounts each time, so that making events costs a benchmark little.
const [debited, credited] = [newId('acc'), newId('acc')];

/** The event of a posting without changed balances, which would be events of their own. */
export function postingEvent(tenantId: string, sequence: bigint, change: MessageInitShape<typeof EventSchema> = {}): Event {
  const line = { accountCode: 'CASH', amount: '10.00', currency: 'NGN', counter: false, balanceAfter: '10.00' };
  return create(EventSchema, {
    id: newId('evt'),
    tenantId,
    sequence,
    type: 'transaction.posted',
    createdMs: BigInt(Date.now() + 1_000),
    actor: 'test',
    requestId: `request-${sequence}`,
    data: {
      case: 'transactionPosted',
      value: {
        transactionId: newId('txn'),
        kind: 'double',
        idempotencyKey: `key-${sequence}`,
        description: 'Ünïcode ✓',
        reference: 'INV-1',
        entries: [
          { ...line, accountId: debited, side: 'debit' },
          { ...line, accountId: credited, accountCode: 'SALES', side: 'credit' },
        ],
        metadata: '{"order":12345678901234567890,"b":1,"a":2}',
      },
    },
    ...change,
  });
}

/** SQL of a policy `damaged`, by which the rows of one tenant (UUID) in a table can't be read, as on a damaged page; `column` is a text of it. */
export function unreadable(table: string, tenant: string, column: string): string {
  return `create policy damaged on ${table} as restrictive for select
    using (case when tenant_id = '${tenant}' then 1 / (length(${column}) - length(${column})) = 1 else true end)`;
}

/** Waits until a look finds something; the test's own time limit ends it. */
export async function until<Found>(look: () => Promise<Found | null | undefined | false>): Promise<Found> {
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    // Of a test that ran out of time the looks go on: they alone keep no process.
    await new Promise((done) => setTimeout(done, 20).unref());
  }
}

/** All deliveries of a tenant, when none is pending any longer, newest first. */
export function settled(
  client: NotifierClient,
  tenantId: string,
  count: number,
): Promise<Awaited<ReturnType<NotifierClient['listDeliveries']>>['deliveries']> {
  return until(async () => {
    const { deliveries } = await client.listDeliveries({ tenantId, limit: 100 });
    return deliveries.length >= count && deliveries.every(({ status }) => status !== 'pending') ? deliveries : null;
  });
}
