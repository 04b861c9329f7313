// Leases when workers are killed, stall and stop: a delivery is one worker's while its lease is valid.
import { createSecretKey, randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { pino } from 'pino';
import { attemptsOf, lease, endStarted, ingest, only, result, passTime, receiver, start, subscribe } from '../../test/deliveries.ts';
import { freshDatabase } from '../../test/cluster.ts';
import { settled, testKey, until } from '../../test/notifier.ts';
import { openProxy } from '../../test/proxy.ts';
import { inTransaction, openPool } from '../platform/postgres.ts';
import { recordResults, ResultWriter } from './delivery-results.ts';

afterEach(endStarted);

test('what a dead worker had leased is sent by another, as the same attempt', async () => {
  const notifier = await start({ claims: false });
  const { url, count } = await receiver();
  const tenant = await subscribe(notifier, url);
  await ingest(notifier, tenant, 2);
  const dead = await lease(notifier.work, { leaseMs: 0 });
  expect(dead.leased).toMatchObject([{ attempt: 1 }, { attempt: 1 }]);
  notifier.worker.start();
  await count(2);
  expect(await settled(notifier.client, tenant.tenantId, 2)).toMatchObject(Array(2).fill({ status: 'delivered', attempts: 1 }));
});

test('a delivery is leased to one worker at a time', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 5);
  const rounds = await Promise.all(Array.from({ length: 4 }, () => lease(notifier.work)));
  const ids = rounds.flatMap(({ leased }) => leased.map(({ id }) => id));
  expect(ids).toHaveLength(5);
  expect(new Set(ids).size).toBe(5);
});

test('a worker that comes back after its lease records nothing', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant);
  const [stalled] = (await lease(notifier.work, { leaseMs: 0 })).leased;
  const [successor] = (await lease(notifier.work)).leased;
  expect(successor).toMatchObject({ id: stalled!.id, attempt: 1 });
  expect(await recordResults(notifier.work, [result(stalled!, 'failed')])).toEqual(new Set());
  expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', tries: [] });
  expect(await recordResults(notifier.work, [result(successor!, 'delivered')])).toEqual(new Set([successor!.id]));
  expect(await recordResults(notifier.work, [result(stalled!, 'pending', 0), result(successor!, 'failed')])).toEqual(new Set());
  expect(await only(notifier, tenant)).toMatchObject({ status: 'delivered', attempts: 1, tries: [{ number: 1 }] });
});

test('a lease that PostgreSQL lost in a crash is invalid: its worker records nothing, and another sends the same attempt', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant);
  const [forgotten] = (await lease(notifier.work)).leased;
  await inTransaction(notifier.work, [tenant.tenant], (client) => client.query('delete from leases'));
  expect(await recordResults(notifier.work, [result(forgotten!, 'failed')])).toEqual(new Set());
  expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', attempts: 1, tries: [] });
  expect((await lease(notifier.work)).leased).toMatchObject([{ id: forgotten!.id, attempt: 1 }]);
});

test('an answer that comes after the lease is not recorded, and its successor’s is', async () => {
  const held: ServerResponse[] = [];
  const slow = await receiver((_, response, place) => (place === 0 ? held.push(response) : response.writeHead(204).end()));
  const first = await start({ claims: false });
  const second = await start({ claims: false, database: first.database });
  const tenant = await subscribe(first, slow.url);
  await ingest(first, tenant);
  const [leased] = (await lease(first.work, { leaseMs: 0 })).leased;
  const stalled = first.worker.attempt(leased!);
  await slow.count(1);
  second.worker.start();
  await settled(first.client, tenant.tenantId, 1);
  held[0]!.writeHead(500).end();
  expect(await stalled).toMatchObject({ answer: { statusCode: 500 }, isRecorded: false });
  expect(await only(first, tenant)).toMatchObject({ status: 'delivered', statusCode: 204, attempts: 1, tries: [{ statusCode: 204 }] });
  expect(attemptsOf(slow)).toEqual(['1', '1']);
});

test('a process that stalled after leasing sends nothing', async () => {
  const notifier = await start({ claims: false });
  const { url, received } = await receiver();
  const tenant = await subscribe(notifier, url);
  await ingest(notifier, tenant);
  const [leased] = (await lease(notifier.work, { leaseMs: 0 })).leased;
  expect(await notifier.worker.attempt(leased!, { leasedAt: performance.now() - 600_000 })).toBeNull();
  expect(received).toEqual([]);
  expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', attempts: 1, tries: [] });
});

test('what a stop aborts is sent again when its lease ends, as the same attempt', async () => {
  const hanging = await receiver((_, response, place) => (place < 2 ? undefined : response.end()));
  const first = await start();
  const tenant = await subscribe(first, hanging.url);
  await ingest(first, tenant, 2);
  await hanging.count(2);
  await first.worker.stop(0);
  expect((await first.client.listDeliveries({ tenantId: tenant.tenantId, limit: 10 })).deliveries).toMatchObject(
    Array(2).fill({ status: 'pending', attempts: 1 }),
  );
  await passTime(first, tenant);
  await start({ database: first.database });
  expect(await settled(first.client, tenant.tenantId, 2)).toMatchObject(Array(2).fill({ status: 'delivered', attempts: 1 }));
  expect(attemptsOf(hanging)).toEqual(['1', '1', '1', '1']);
});

test('a stop waits for answers within its grace', async () => {
  const held: ServerResponse[] = [];
  const slow = await receiver((_, response) => held.push(response));
  const notifier = await start();
  const tenant = await subscribe(notifier, slow.url);
  await ingest(notifier, tenant);
  await slow.count(1);
  const stopped = notifier.worker.stop(30_000);
  held[0]!.end();
  await stopped;
  expect(await only(notifier, tenant)).toMatchObject({ status: 'delivered', tries: [{ number: 1 }] });
});

test('a test delivery that a stop aborts has failed, and is not sent again', async () => {
  const hanging = await receiver(() => undefined);
  const notifier = await start();
  const tenant = await subscribe(notifier, hanging.url);
  const refused = notifier.client.testWebhook({ tenantId: tenant.tenantId }).catch((error: unknown) => error);
  await hanging.count(1);
  await notifier.worker.stop(0);
  expect(await refused).toBeInstanceOf(Error);
  await start({ database: notifier.database });
  expect(await only(notifier, tenant)).toMatchObject({ status: 'failed', errorClass: 'timeout', attempts: 1 });
  expect(hanging.received).toHaveLength(1);
});

describe('a delivery whose secret is encrypted with a missing key', () => {
  const other = { id: 'k2', key: createSecretKey(randomBytes(32)) };

  /** A notifier without the key that has seen that it can't send what there is. */
  async function keyless(count: number) {
    const first = await start({ claims: false });
    const at = await receiver();
    const tenant = await subscribe(first, at.url);
    await ingest(first, tenant, count);
    const notifier = await start({ database: first.database, config: { encryptionKeys: [other] } });
    const putOff = `select from due where next_at > now() + interval '10 s'`;
    const isPutOff = () => inTransaction(first.work, [tenant.tenant], async (client) => (await client.query(putOff)).rowCount === 1);
    await until(isPutOff);
    return { first, at, tenant, notifier, isPutOff };
  }

  test('stays pending, is not looked at again and again, and is sent when the key is back', async () => {
    const { first, at, tenant, notifier } = await keyless(1);
    await notifier.worker.stop(0);
    expect(await only(first, tenant)).toMatchObject({ status: 'pending', attempts: 1, tries: [] });
    expect((await inTransaction(first.work, [tenant.tenant], (client) => client.query('select from leases'))).rowCount).toBe(0);
    expect(at.received).toEqual([]);
    await passTime(first, tenant);
    await start({ database: first.database, config: { encryptionKeys: [other, testKey] } });
    await settled(first.client, tenant.tenantId, 1);
    expect(await only(first, tenant)).toMatchObject({ status: 'delivered', attempts: 1, tries: [{ number: 1 }] });
  });

  test('waits for the key of its webhook’s headers too', async () => {
    const { first, at, tenant, notifier, isPutOff } = await keyless(1);
    const { tenantId } = tenant;
    const headers = [{ name: 'X-Key', value: 'k' }];
    await first.client.updateWebhook({ tenantId, headers, changeHeaders: true });
    await notifier.client.rotateSecret({ tenantId });
    await ingest(first, tenant);
    await until(isPutOff);
    expect(at.received).toEqual([]);
    await notifier.client.updateWebhook({ tenantId, headers, changeHeaders: true });
    await ingest(first, tenant);
    await settled(first.client, tenantId, 3);
    expect(at.received.map((each) => each.headers['x-key'])).toEqual(['k', 'k', 'k']);
  });

  test('goes, however much it is, with what comes after a new secret was made', async () => {
    const { first, tenant, notifier, isPutOff } = await keyless(40);
    // An event alone changes nothing.
    await ingest(first, tenant);
    await until(isPutOff);
    await notifier.client.rotateSecret({ tenantId: tenant.tenantId });
    await ingest(first, tenant);
    const deliveries = await settled(first.client, tenant.tenantId, 42);
    expect(deliveries.filter(({ status, attempts }) => status === 'delivered' && attempts === 1)).toHaveLength(42);
  });
});

test('a delivery whose secret can’t be decrypted stays pending, and is not leased again and again', async () => {
  const notifier = await start({ claims: false });
  const { url, received } = await receiver();
  const tenant = await subscribe(notifier, url);
  await ingest(notifier, tenant);
  const changed = (text: string, values: unknown[] = []) =>
    inTransaction(notifier.work, [tenant.tenant], (client) => client.query(text, values));
  await changed('update webhooks set secret = $1', [`${testKey.id}:${randomBytes(60).toString('base64')}`]);
  notifier.worker.start();
  await until(async () => (await notifier.metrics.metrics()).includes('notifier_secret_errors_total 1\n'));
  expect(await only(notifier, tenant)).toMatchObject({ status: 'pending', attempts: 1, tries: [] });
  await notifier.client.rotateSecret({ tenantId: tenant.tenantId });
  await passTime(notifier, tenant);
  await settled(notifier.client, tenant.tenantId, 1);
  expect(received).toHaveLength(1);
});

test('the attempt of a dead worker that is not repeated is in the history', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant);
  await lease(notifier.work, { leaseMs: 40 });
  // Found after a month.
  await inTransaction(notifier.work, [tenant.tenant], (client) =>
    client.query(`update leases set started_at = started_at - interval '30 days', until = until - interval '30 days'`),
  );
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: false });
  notifier.worker.start();
  await settled(notifier.client, tenant.tenantId, 1);
  const tries = [{ number: 1, errorClass: 'timeout', durationMs: 40 }];
  expect(await only(notifier, tenant)).toMatchObject({ status: 'failed', errorClass: 'webhook_disabled', attempts: 1, tries });
});

test('several replicas send each delivery once', async () => {
  const first = await start();
  for (const _ of [1, 2]) await start({ database: first.database });
  const { url, received } = await receiver();
  const tenants = await Promise.all(Array.from({ length: 6 }, () => subscribe(first, url)));
  await Promise.all(tenants.map((tenant) => ingest(first, tenant, 40)));
  for (const { tenantId } of tenants) await settled(first.client, tenantId, 40);
  expect(received).toHaveLength(240);
  expect(new Set(received.map(({ headers }) => headers['x-webhook-id'])).size).toBe(240);
});

test('what can’t be recorded while the database is away is recorded when it is back', async () => {
  const failed = Promise.withResolvers<void>();
  const logger = pino({ level: 'warn' }, { write: () => failed.resolve() });
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant);
  const [leased] = (await lease(notifier.work)).leased;
  const address = new URL(notifier.database.serviceUrl);
  const proxy = await openProxy(Number(address.port));
  address.port = String(proxy.port);
  const pool = openPool(address.href, { name: 'recorder', max: 1, logger });
  try {
    proxy.watch = () => 'cut';
    const recorded = new ResultWriter(pool, logger).record(result(leased!, 'delivered'));
    await failed.promise;
    proxy.watch = () => 'pass';
    expect(await recorded).toBe(true);
    expect(await only(notifier, tenant)).toMatchObject({ status: 'delivered', attempts: 1, tries: [{ number: 1 }] });
  } finally {
    await pool.end();
    await proxy.close();
  }
});

test('a worker that stops while its database is away leaves to its lease what it can’t record', async () => {
  const database = await freshDatabase('notifier', { migrated: true });
  const direct = new URL(database.serviceUrl);
  const proxy = await openProxy(Number(direct.port));
  try {
    direct.port = String(proxy.port);
    const notifier = await start({ database: { ...database, serviceUrl: direct.href } });
    const { promise: away, resolve: isAway } = Promise.withResolvers<undefined>();
    const { url, count } = await receiver((_, response) => away.then(() => response.end('ok')));
    await ingest(notifier, await subscribe(notifier, url));
    await count(1);
    await proxy.close();
    isAway(undefined);
    await notifier.worker.stop(200);
  } finally {
    await endStarted();
    await database.drop();
  }
});
