// What the page on what to do after a restore has an operator do when one database is older than the others.
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { withClient } from '../deploy/local/databases.ts';
import { root } from '../deploy/local/plan.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { startReceiver, until, type Receiver } from './notifier.ts';
import { bareEnvironment, dropDatabases } from './run.ts';
import { newSubscriber, type Subscriber } from './subscriber.ts';

let cluster: Cluster;
let receiver: Receiver;
let subscriber: Subscriber;

beforeAll(async () => {
  cluster = await startCluster();
  receiver = await startReceiver();
  subscriber = await newSubscriber(cluster);
  await subscriber.call('POST', '', { url: receiver.url, events: ['transaction.posted'] });
});

afterAll(async () => {
  await cluster.stop();
  await receiver.close();
});

type Kept = 'ledger' | 'notifier';

/** Makes one database the copy of another, in its place, while what uses it is away. */
async function copy(service: Kept, [from, to]: [string, string]): Promise<void> {
  const users = service === 'ledger' ? ['ledger', 'auditor'] : [service];
  for (const user of users) await cluster.kill(user, 'SIGTERM');
  const { adminUrl, ownerUrl } = cluster.databases[service];
  const server = new URL(adminUrl);
  server.pathname = '/postgres';
  await dropDatabases(server.href, [to], []);
  const owner = decodeURIComponent(new URL(ownerUrl).username);
  await withClient(server.href, (client) => client.query(`create database "${to}" template "${from}" owner "${owner}"`));
  for (const user of users) await cluster.restart(user);
}

/** Notes how a service's database is; answers how to restore it, once. */
async function backup(service: Kept): Promise<() => Promise<void>> {
  const { name, adminUrl } = cluster.databases[service];
  await copy(service, [name, `${name}_backup`]);
  return async () => {
    await copy(service, [`${name}_backup`, name]);
    await dropDatabases(adminUrl, [`${name}_backup`], []);
  };
}

/** Posts until it is answered, which a service that has just come back may not do at once; answers the transactions' ids. */
async function post(count: number): Promise<string[]> {
  const ids: string[] = [];
  while (ids.length < count) {
    // What was not answered may be posted all the same.
    const idempotency_key = randomUUID();
    const { transaction_id: id } = await until(() => subscriber.post('A sale', { idempotency_key }).catch(() => null));
    ids.push(id as string);
  }
  return ids;
}

/** Transactions that were delivered, without the first so many deliveries. */
const delivered = (from = 0) => receiver.received.slice(from).map(({ body }) => JSON.parse(body).data.transaction_id as string);

const arrived = (ids: string[]) => until(() => Promise.resolve(ids.every((id) => delivered().includes(id))));

test('a ledger that is older than the notifier: its next events are delivered, at places that were taken before', async () => {
  await arrived(await post(2));
  const restore = await backup('ledger');
  const lost = await post(3);
  await arrived(lost);
  await restore();
  const before = receiver.received.length;
  // The last of them is behind the mark.
  const next = await post(4);
  await arrived(next);
  // Nothing that was published before comes again.
  expect(delivered(before).sort()).toEqual(next.sort());
});

test('a notifier that is older than the ledger: what it had not taken is delivered, once that is published again', async () => {
  await arrived(await post(2));
  const restore = await backup('notifier');
  const since = new Date().toISOString();
  const between = await post(3);
  await arrived(between);
  await restore();
  await arrived(await post(1));
  const before = receiver.received.length;
  const replay = ['services/ledger/cli.ts', 'relay', 'replay', '--all', '--since', since];
  const replayed = spawnSync(process.execPath, replay, {
    cwd: root,
    env: { ...bareEnvironment, MIGRATION_DATABASE_URL: cluster.databases.ledger.ownerUrl },
    encoding: 'utf8',
  });
  expect(replayed).toMatchObject({ status: 0, stdout: expect.stringMatching(/^4 events of 1 tenant: /m) });
  await until(() => Promise.resolve(between.every((id) => delivered(before).includes(id))));
  expect(delivered(before).sort()).toEqual(between.sort());
});
