import { randomBytes } from 'node:crypto';
import { createClient } from '@connectrpc/connect';
import { type Children, type Child } from '../../deploy/local/children.ts';
import { withClient } from '../../deploy/local/databases.ts';
import { root } from '../../deploy/local/plan.ts';
import { Health, HealthCheckResponse_ServingStatus as Serving } from '../../proto/gen/grpc/health/v1/health_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import { freshDatabase, newChildren, testPort, type FreshDatabase } from '../../test/cluster.ts';
import { newTenant, settled, startReceiver, until, type NotifierClient, type Receiver } from '../../test/notifier.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { bareEnvironment } from '../../test/run.ts';
import { openCaller } from '../platform/caller.ts';
import { migrationNames } from './schema.ts';

const token = 'token-of-the-test';
const encryptionKey = `k1:${randomBytes(32).toString('base64')}`;

let database: FreshDatabase;
let children: Children;
let receiver: Receiver;

beforeAll(async () => {
  database = await freshDatabase('notifier', { migrated: true });
  receiver = await startReceiver();
});

beforeEach(() => {
  children = newChildren();
});

afterEach(() => children.end());

afterAll(async () => {
  await receiver.close();
  await database.drop();
});

const settings = (databaseUrl: string) => ({
  DATABASE_URL: databaseUrl,
  INTERNAL_TOKEN: token,
  WEBHOOK_ENCRYPTION_KEY: encryptionKey,
  WEBHOOK_ALLOW_INSECURE_TARGETS: 'true',
  PORT: '0',
});

function launch(env: NodeJS.ProcessEnv, args: string[] = []): Child {
  const name = `notifier-${randomBytes(4).toString('hex')}`;
  const command = { command: process.execPath, args: ['services/notifier/main.ts', ...args], cwd: root };
  return children.start({ name, ...command, env: { ...bareEnvironment, ...env } });
}

async function running(env: NodeJS.ProcessEnv = {}): Promise<{ client: NotifierClient; child: Child; ops: string; close: () => void }> {
  const [port, ops] = [await testPort(), await testPort()];
  const child = launch({ ...settings(database.serviceUrl), PORT: String(port), OPS_PORT: String(ops), ...env });
  const caller = openCaller({ addresses: [`127.0.0.1:${port}`], token, maxMessageBytes: 1 << 20 });
  const health = createClient(Health, caller);
  while (child.running()) {
    const answer = await health.check({ service: 'notifier.v1.NotifierService' }).catch(() => undefined);
    if (answer?.status === Serving.SERVING)
      return { client: createClient(NotifierService, caller), child, ops: `http://127.0.0.1:${ops}`, close: () => caller.close() };
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`the notifier did not start: ${child.output()}`);
}

async function failedStart(env: NodeJS.ProcessEnv, args: string[] = []): Promise<string> {
  const child = launch(env, args);
  expect(await child.ended).toEqual({ code: 1, signal: null });
  const output = child.output().trim();
  expect(output.split('\n')).toHaveLength(1);
  return output;
}

describe('a start is refused', () => {
  test('on a schema that is older than the code', async () => {
    const bare = await freshDatabase('notifier');
    expect(await failedStart(settings(bare.serviceUrl))).toBe(
      `DATABASE_URL: the schema lacks ${migrationNames.join(', ')}: run migrate first`,
    );
    await bare.drop();
  });

  test('with a bad setting, in one line that names it, and with an unknown command', async () => {
    const good = settings(database.serviceUrl);
    expect(await failedStart({ ...good, WEBHOOK_ENCRYPTION_KEY: 'secret' })).toMatch(/^WEBHOOK_ENCRYPTION_KEY must be id:base64/);
    expect(await failedStart({ ...good, NODE_ENV: 'production' })).toMatch(/^WEBHOOK_ALLOW_INSECURE_TARGETS must not be true/);
    expect(await failedStart({ DATABASE_URL: database.serviceUrl }, ['migrate'])).toBe('MIGRATION_DATABASE_URL is not set');
    expect(await failedStart({}, ['migrat'])).toMatch(/^unknown command migrat/);
  });
});

test('migrate runs twice and at once', async () => {
  const bare = await freshDatabase('notifier');
  const run = async () => {
    const child = launch({ DATABASE_URL: bare.serviceUrl, MIGRATION_DATABASE_URL: bare.ownerUrl }, ['migrate']);
    expect({ ...(await child.ended), output: child.output() }).toEqual({ code: 0, signal: null, output: '' });
  };
  await Promise.all([run(), run(), run()]);
  await run();
  await bare.drop();
});

describe('while the database is not there yet', () => {
  let proxy: Proxy;
  let asked: number;

  beforeEach(async () => {
    asked = 0;
    proxy = await openProxy(Number(new URL(database.serviceUrl).port));
    proxy.watch = () => {
      asked++;
      return 'cut';
    };
  });

  afterEach(() => proxy.close());

  const through = (url: string) => url.replace(/:\d+\//, `:${proxy.port}/`);

  test('a process waits, and ends with 0 when asked', async () => {
    const child = launch(settings(through(database.serviceUrl)));
    await until(() => Promise.resolve(asked > 1));
    child.signal('SIGTERM');
    expect({ ...(await child.ended), output: child.output() }).toEqual({ code: 0, signal: null, output: '' });
  });

  test('a migration waits, and ends with 1 when asked, or else is done', async () => {
    const bare = await freshDatabase('notifier');
    const env = { DATABASE_URL: bare.serviceUrl, MIGRATION_DATABASE_URL: through(bare.ownerUrl) };
    const stopped = launch(env, ['migrate']);
    await until(() => Promise.resolve(asked > 1));
    stopped.signal('SIGTERM');
    expect((await stopped.ended).code).toBe(1);
    asked = 0;
    const other = launch(env, ['migrate']);
    await until(() => Promise.resolve(asked > 1));
    proxy.watch = () => 'pass';
    expect({ ...(await other.ended), output: other.output() }).toEqual({ code: 0, signal: null, output: '' });
    await bare.drop();
  });
});

test('a process delivers, says what it does, and ends with 0 when asked, with its log free of secrets', async () => {
  const notifier = await running({ LOG_LEVEL: 'trace' });
  const { client } = notifier;
  const { tenantId, posting } = newTenant();
  const secrets: string[] = [token, encryptionKey.slice(3)];
  const own = `own secret ${randomBytes(8).toString('hex')}`;
  const first = await client.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted'] });
  secrets.push(first.secret!, (await client.rotateSecret({ tenantId })).secret);
  await client.ingest({ events: [posting(), posting()] });
  await settled(client, tenantId, 2);
  await client.updateWebhook({ tenantId, secret: own });
  await client.testWebhook({ tenantId });
  await expect(client.configureWebhook({ tenantId, url: 'ftp://x', events: [], secret: `${own}\n` })).rejects.toThrow();
  secrets.push(own);
  const figures = async () => (await fetch(`${notifier.ops}/metrics`)).text();
  expect(await figures()).toMatch(/notifier_attempts_total\{status="delivered",process="notifier"\} 3/);
  // A tenant counts as due until a worker has found nothing more to lease.
  for (const name of ['notifier_due_seconds', 'notifier_due_tenants', 'notifier_dead_letters', 'notifier_in_flight']) {
    await until(async () => new RegExp(`^${name}\\{process="notifier"\\} 0$`, 'm').test(await figures()));
  }
  expect(await (await fetch(`${notifier.ops}/readyz`)).json()).toEqual({ status: 'ok', dependencies: { postgresql: 'ok' } });
  notifier.close();
  notifier.child.signal('SIGTERM');
  expect(await notifier.child.ended).toEqual({ code: 0, signal: null });
  const log = notifier.child.output();
  expect(log.match(/"msg":"delivery attempt succeeded"/g)).toHaveLength(3);
  for (const secret of secrets) {
    expect(log).not.toContain(secret);
    expect(log).not.toContain(secret.replace('whsec_', ''));
  }
});

test('what a killed process had in flight is sent again by the next one, as the same attempt', async () => {
  const hanging = await startReceiver((_, response, place) => (place < 3 ? undefined : response.end()));
  const first = await running();
  const { tenantId, tenant, posting } = newTenant();
  await first.client.configureWebhook({ tenantId, url: hanging.url, events: ['transaction.posted'] });
  await first.client.ingest({ events: [posting(), posting(), posting()] });
  await hanging.count(3);
  first.child.signal('SIGKILL');
  await first.child.ended;
  first.close();
  // The leases end.
  await withClient(database.serviceUrl, async (client) => {
    await client.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
    await client.query('update leases set until = now()');
    await client.query('update due set next_at = now()');
  });
  const second = await running();
  expect(await settled(second.client, tenantId, 3)).toMatchObject(Array(3).fill({ status: 'delivered', attempts: 1 }));
  expect(hanging.received.map(({ headers }) => headers['x-webhook-attempt'])).toEqual(Array(6).fill('1'));
  second.close();
  await hanging.close();
});

test('asked to end, a process finishes what is in flight', async () => {
  const answers: (() => void)[] = [];
  const slow = await startReceiver((_, response) => answers.push(() => response.end()));
  const notifier = await running();
  const { tenantId, tenant, posting } = newTenant();
  await notifier.client.configureWebhook({ tenantId, url: slow.url, events: ['transaction.posted'] });
  await notifier.client.ingest({ events: [posting()] });
  await slow.count(1);
  notifier.close();
  notifier.child.signal('SIGTERM');
  answers[0]!();
  expect(await notifier.child.ended).toEqual({ code: 0, signal: null });
  const { rows } = await withClient(database.serviceUrl, async (client) => {
    await client.query(`select set_config('app.tenants', $1, false)`, [`{${tenant}}`]);
    return client.query('select status, attempts from deliveries');
  });
  expect(rows).toEqual([{ status: 'delivered', attempts: 1 }]);
  await slow.close();
});
