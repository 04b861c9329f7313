// Every alert on a running deployment: a real Prometheus scrapes real processes while something is really wrong with them.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { ConfigResourceTypes } from 'kafkajs';
import pg from 'pg';
import { kafkaProblem } from '../../deploy/local/broker.ts';
import { withClient } from '../../deploy/local/databases.ts';
import { newEncryptionKey } from '../../deploy/local/secrets.ts';
import { toUuid } from '../../services/platform/ids.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { deposit, newWallet, type Customer } from '../customer.ts';
import { failing } from '../subscriber.ts';
import { newTopic, ownKafka, testClient, withAdmin, type OwnKafka } from '../kafka.ts';
import { startReceiver, unreadable, type Answering, type Receiver } from '../notifier.ts';
import { startOwnPostgres, type OwnPostgres } from '../own-postgres.ts';
import { until } from '../polling.ts';
import { hasPrometheus, startPrometheus, type Prometheus } from '../prometheus.ts';
import { currentRun } from '../run.ts';
import { smtpError, startMailServer, type MailServer } from '../smtp.ts';
import { text } from '../sources.ts';
import { startWitness } from '../witness.ts';
import { alerts, hurriedRules } from './rules.ts';

jest.setTimeout(240_000);

/** What no fault of this file raises; the runbook says so. */
const unraised = ['PoolIsExhausted', 'PostingsWait', 'PasswordsWait'];
/** The witness of this deployment is away from the beginning. */
const always = ['CheckpointsAreNotCosigned'];

const processes = ['gateway', 'identity', 'ledger', 'notifier', 'auditor'] as const;
const topic = newTopic();
const webhookKey = newEncryptionKey();
let postgres: OwnPostgres;
let kafka: OwnKafka;
let mailServer: MailServer;
let mailFault: Error | null = null;
let receiver: Receiver;
let answering: Answering = (_, response) => response.end('ok');
let cluster: Cluster;
let prometheus: Prometheus;
let wallets: Customer[];
const raised = new Set<string>();

const firing = async () => (await prometheus.query('ALERTS{alertstate="firing"}')).map(({ metric }) => metric['alertname'] ?? '');

/** Waits until all of these have fired; what else does is not the fault's own. */
const fire = (...names: string[]) => fireBy(() => Promise.resolve(), ...names);

/** Does something again and again until all of these have fired: a counter that starts with its first failure shows no rate before the next. */
async function fireBy(work: () => Promise<unknown>, ...names: string[]): Promise<void> {
  const silent = new Set(names);
  for (const end = Date.now() + 100_000; ; await pause(250)) {
    await work();
    for (const name of await firing()) silent.delete(name);
    if (silent.size === 0) break;
    if (Date.now() > end) throw new Error(`silent: ${[...silent].join(', ')}`);
  }
  for (const name of names) raised.add(name);
}

/** Waits until for six seconds nothing else has fired. */
async function onlyFiring(names: string[]): Promise<void> {
  let since = Date.now();
  for (const end = since + 100_000; Date.now() - since < 6_000; await pause(250)) {
    const others = (await firing()).filter((name) => !names.includes(name));
    if (others.length > 0) since = Date.now();
    if (Date.now() > end) throw new Error(`not silent: ${others.join(', ')}`);
  }
}

const asAdmin = (service: 'identity' | 'ledger' | 'notifier', sql: string, values: unknown[] = []) =>
  withClient(cluster.databases[service].adminUrl, (client) => client.query(sql, values));

/** Keeps tables from being written while `work` goes on. */
async function locked(service: 'ledger' | 'notifier', tables: string, work: () => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: cluster.databases[service].adminUrl });
  await client.connect();
  try {
    await client.query(`begin; lock table ${tables} in exclusive mode`);
    await work();
  } finally {
    await client.end();
  }
}

const metadataOf = (fields: number) =>
  Object.fromEntries(Array.from({ length: fields }, (_, field) => [`field_${field}`, randomBytes(60).toString('hex')]));

const post = async (wallet = wallets[0]!, more: Record<string, unknown> = {}) =>
  (await wallet.post('transactions/double-entry', deposit('1.00', more))).status;

/** Posts, each client one request at a time, until it is ended. */
function load(clients: number): () => Promise<void> {
  const ending = new AbortController();
  const { signal } = ending;
  const client = async (number: number) => {
    const { key, at } = wallets[number % wallets.length]!;
    while (!signal.aborted) {
      await cluster.rest('POST', at('transactions/double-entry'), { key, body: deposit('1.00'), signal }).catch(() => undefined);
      await pause(200);
    }
  };
  const ended = Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return async () => {
    ending.abort();
    await ended;
  };
}

async function start(): Promise<void> {
  [postgres, kafka, mailServer, receiver] = await Promise.all([
    startOwnPostgres(),
    ownKafka(),
    startMailServer({ fault: () => mailFault }),
    startReceiver((...request) => answering(...request)),
  ]);
  const witness = await startWitness('witness.example');
  await witness.close();
  const overKafka = { KAFKA_BROKERS: kafka.address, KAFKA_TOPIC: topic };
  cluster = await startCluster({
    server: postgres,
    environment: {
      gateway: { MAX_IN_FLIGHT: '40', MAX_CONNECTIONS: '200' },
      identity: { TENANT_DELETE_DAYS: '0.00003', MAIL_URL: `smtp://127.0.0.1:${mailServer.port}` },
      ledger: { ...overKafka, KAFKA_PARTITIONS: '1', WRITER_QUEUE: '32', DUE_POLL_MS: '200' },
      notifier: { ...overKafka, WEBHOOK_RETRY_DELAYS: '0,0', WEBHOOK_ENCRYPTION_KEY: webhookKey },
      auditor: { WITNESSES: witness.line, CHECKPOINT_SECONDS: '0.5', CHECKPOINT_DIR: checkpoints },
    },
  });
  wallets = [await newWallet(cluster), await newWallet(cluster), await newWallet(cluster)];
  const targets = Object.fromEntries(processes.map((name) => [name, cluster.opsUrl(name)]));
  prometheus = await startPrometheus(targets, hurriedRules());
}
const checkpoints = join(mkdtempSync(join(currentRun().directory, 'alerts-')), 'checkpoints');

/** Settings with a certificate for two days. */
function shortLived(): NodeJS.ProcessEnv {
  const directory = mkdtempSync(join(currentRun().directory, 'certificate-'));
  const [cert, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')];
  const args = ['req', '-x509', '-newkey', 'ed25519', '-nodes', '-subj', '/CN=localhost', '-days', '2', '-out', cert, '-keyout', key];
  expect(spawnSync('openssl', args, { encoding: 'utf8' })).toMatchObject({ status: 0 });
  return { TLS_MODE: 'accept', TLS_CERT_FILE: cert, TLS_KEY_FILE: key, TLS_CA_FILE: cert, WEBHOOK_ENCRYPTION_KEY: webhookKey };
}

/** Configures a webhook of the first wallet. */
const subscribe = () => wallets[0]!.post('webhooks', { url: receiver.url, events: ['transaction.posted'] });

const canRun = hasPrometheus && kafkaProblem() === null;
(canRun ? describe : describe.skip)('the alerts of a running deployment', () => {
  beforeAll(start);

  afterAll(async () => {
    await prometheus.stop();
    await cluster.stop();
    await Promise.all([mailServer.close(), receiver.close(), kafka.stop()]);
    await postgres.end();
  });

  test('are silent while nothing is wrong', async () => {
    expect((await subscribe()).status).toBeLessThan(300);
    for (let count = 0; count < 10; count++) expect(await post()).toBe(201);
    await receiver.count(10);
    await fire(...always);
    await onlyFiring(always);
  });

  test('about books and jobs', async () => {
    const damaged = await newWallet(cluster);
    expect(await post(damaged)).toBe(201);
    const role = decodeURIComponent(new URL(cluster.databases.ledger.auditorUrl!).username);
    await asAdmin('ledger', `revoke insert, update on verifications from "${role}"`);
    await asAdmin('ledger', 'update balances set credits = credits + 100 where tenant_id = $1', [toUuid('tenant', damaged.tenant.id)]);
    await asAdmin('ledger', `revoke update on jobs from "${role}"`);
    const order = () => wallets[0]!.post('reports/trial-balance', { as_of: new Date().toISOString() });
    expect((await order()).status).toBe(202);
    await fire('JobsDoNotRun', 'JobsWait');
    await asAdmin('ledger', `grant update on jobs to "${role}"; revoke select on accounts from "${role}"`);
    await fireBy(order, 'JobsFail');
    await asAdmin('ledger', `grant select on accounts to "${role}"`);
    await locked('ledger', 'search_indexes, trees', async () => {
      for (let count = 0; count < 6; count++) await post();
      await fire('IndexLags', 'TreesLag');
    });
    rmSync(checkpoints, { recursive: true });
    writeFileSync(checkpoints, '');
    for (let count = 0; count < 3; count++) await post();
    await fire('CheckpointsAreNotSigned');
    rmSync(checkpoints);
    await fire('BooksAreFrozen');
  });

  test('about people', async () => {
    mailFault = smtpError(451, 'try again later');
    const forget = async () => {
      const { email } = await cluster.signUp();
      expect((await cluster.rest('POST', '/v1/auth/password/forgot', { body: { email } })).status).toBe(202);
    };
    await forget();
    await fire('MailIsNotSent');
    mailFault = smtpError(550, 'no such user');
    await fireBy(forget, 'MailIsRejected');
    mailFault = null;
    const wallet = await newWallet(cluster);
    const personal = [{ subject: 'customer-42', data: { name: 'Ada Lovelace' } }];
    expect(await post(wallet, { personal })).toBe(201);
    await locked('ledger', 'erased_subjects', async () => {
      const erased = wallet.post('subjects/erase', { subject: 'customer-42' }).catch(() => undefined);
      await fire('ErasuresWait');
      await erased;
    });
  });

  test('about events and webhooks', async () => {
    const tenant = toUuid('tenant', wallets[0]!.tenant.id)!;
    const posted = async (count: number) => {
      for (let posting = 0; posting < count; posting++) expect(await post()).toBe(201);
    };
    const inOrder = answering;
    answering = failing;
    await fireBy(() => posted(1), 'DeliveriesFail');
    answering = inOrder;
    await kafka.signal('SIGSTOP');
    await posted(4);
    await fire('EventsAreNotPublished').finally(() => kafka.signal('SIGCONT'));
    await locked('notifier', 'leases', async () => {
      await posted(1);
      await fire('DeliveriesAreLate');
    });
    await locked('notifier', 'inbox', async () => {
      await posted(6);
      await fire('ConsumerLags');
    });

    const producer = testClient(kafka.address).producer();
    await producer.connect();
    await producer.send({ topic, messages: [{ key: 'other', value: 'no event' }] });
    await producer.disconnect();
    await fire('NotifierHasDeadLetters');
    const limit = (value: string) =>
      withAdmin(kafka.address, (admin) =>
        admin.alterConfigs({
          validateOnly: false,
          resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'max.message.bytes', value }] }],
        }),
      );
    await limit('2000');
    expect(await post(wallets[0], { description: randomBytes(200).toString('hex'), metadata: metadataOf(20) })).toBe(201);
    await fire('RelayHasDeadLetters');
    await limit('1048588');

    await asAdmin('notifier', unreadable('payloads', tenant, 'body'));
    await posted(1);
    await fire('LeasesFail');
    await asAdmin('notifier', 'drop policy damaged on payloads');
    await asAdmin('notifier', 'update kafka_offsets set next_offset = next_offset - 2');
    await posted(1);
    await fire('ConsumerRewound');
    await asAdmin('notifier', 'update inbox set sequence = sequence + 3 where tenant_id = $1', [tenant]);
    await posted(1);
    await fire('EventsReissued');
    await posted(3);
  });

  test('about a notifier that was away, lacks a key, and starts again and again', async () => {
    await cluster.restart('notifier', { WEBHOOK_ENCRYPTION_KEY: `other:${randomBytes(32).toString('base64')}` });
    expect(await post()).toBe(201);
    await fire('SecretsUnreadable');
    await cluster.kill('notifier', 'SIGTERM');
    for (let posting = 0; posting < 3; posting++) expect(await post()).toBe(201);
    const isPublished = async () => (await prometheus.query('sum(ledger_relay_lag_events)'))[0]?.value[1];
    await until(isPublished, (events) => events === '0');
    await withAdmin(kafka.address, async (admin) => {
      const partitions = (await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => ({ partition, offset: high }));
      await admin.deleteTopicRecords({ topic, partitions });
    });
    await cluster.restart('notifier', shortLived());
    await fire('MessagesLost', 'CertificateExpires');
    expect(await post()).toBe(201);
    await fire('InboxHasGaps');
    const plain = { TLS_MODE: undefined, TLS_CERT_FILE: undefined, TLS_KEY_FILE: undefined, TLS_CA_FILE: undefined };
    const restarts = async () => Number((await prometheus.query('changes(process_start_time_seconds{job="notifier"}[10m])'))[0]?.value[1]);
    for (let before = await restarts(); before < 4; before = await restarts()) {
      await cluster.restart('notifier', plain);
      await until(restarts, (count) => count > before);
    }
    await fire('ProcessRestarts');
  });

  test('about processes that hang or are gone', async () => {
    const hang = setInterval(() => {
      void cluster.kill('gateway', 'SIGSTOP');
      setTimeout(() => void cluster.kill('gateway', 'SIGCONT'), 700);
    }, 1_000);
    await fire('EventLoopIsBlocked').finally(() => clearInterval(hang));
    await pause(700);
    const closed = await newWallet(cluster);
    await cluster.kill('ledger');
    const { id, owner } = closed.tenant;
    expect((await cluster.rest('POST', `/v1/tenants/${id}/close`, { key: owner.token })).status).toBe(200);
    await fire('ProcessIsDown', 'ProcessIsMissing', 'DeletionIsStuck');
    await cluster.restart('ledger');
    await until(
      () => post(),
      (status) => status === 201,
    );
  });

  test('about logs that are not verified', () => fire('LogsAreNotVerified'));

  test('about requests that PostgreSQL or a gateway does not answer', async () => {
    const hold = { idempotency_key: 'due', entries: deposit().entries, expires_in: 1 };
    expect((await wallets[1]!.post('holds', hold)).status).toBe(201);
    await locked('ledger', 'holds', () => fire('HoldsExpireLate'));
    const sockets: Socket[] = [];
    const port = Number(new URL(cluster.url).port);
    for (let count = 0; count < 300; count++) sockets.push(connect(port, '127.0.0.1').on('error', () => undefined));
    await fire('ConnectionsAreRefused');
    for (const socket of sockets) socket.destroy();

    const endLoad = load(90);
    try {
      await locked('ledger', 'heads', () => fire('GatewayIsFull', 'BatchesFail'));
      await postgres.signal('SIGSTOP');
      await fire('RequestsFail', 'ErrorBudgetBurns', 'NothingIsPosted', 'PostingsAreSlow');
    } finally {
      await postgres.signal('SIGCONT');
      await endLoad();
    }
  });

  test('are all of these, but for those that the runbook names', () => {
    const missing = alerts.map(({ alert }) => alert).filter((alert) => !raised.has(alert));
    expect(missing).toEqual(unraised);
    expect(text('gateway/docs/operate/runbook.md')).toContain(`No test raises ${unraised.map((name) => `\`${name}\``).join(', ')} `);
  });
});
