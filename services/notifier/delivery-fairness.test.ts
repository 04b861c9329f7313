// Fairness: a tenant with much work, or whose receiver hangs, delays no other tenant.
import pg from 'pg';
import { lease, endStarted, ingest, result, receiver, start, subscribe } from '../../test/deliveries.ts';
import { longLockTimeouts } from '../../test/cluster.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { settled, until } from '../../test/notifier.ts';
import { toUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { recordResults } from './delivery-results.ts';

afterEach(endStarted);

/** A notifier, tenants whose receiver hangs, and one whose receiver answers. */
async function withHanging(count: number, config: { concurrency: number; endpointConcurrency: number }) {
  const notifier = await start({ config });
  const [hanging, quick] = [await receiver(() => undefined), await receiver()];
  const slow = await Promise.all(Array.from({ length: count }, () => subscribe(notifier, hanging.url)));
  return { notifier, hanging, quick, slow, other: await subscribe(notifier, quick.url) };
}

test('a receiver that hangs stops only its own tenant, and takes no more than its share', async () => {
  const { notifier, hanging, slow, other } = await withHanging(1, { concurrency: 16, endpointConcurrency: 4 });
  await ingest(notifier, slow[0]!, 100);
  await hanging.count(4);
  await ingest(notifier, other, 100);
  await settled(notifier.client, other.tenantId, 100);
  expect(hanging.received).toHaveLength(4);
});

test('many receivers that hang, each of which could take a quarter of all, leave something for another tenant', async () => {
  const { notifier, hanging, quick, slow, other } = await withHanging(8, { concurrency: 32, endpointConcurrency: 8 });
  for (const tenant of slow) await ingest(notifier, tenant, 20);
  await hanging.count(8);
  for (let count = 1; count <= 40; count++) {
    await ingest(notifier, other);
    await quick.count(count);
  }
  expect(hanging.received.length).toBeLessThan(32);
});

test('no more requests are under way than may be', async () => {
  const notifier = await start({ config: { concurrency: 8 } });
  let [open, most] = [0, 0];
  const busy = await receiver((_, response) => {
    most = Math.max(most, ++open);
    setTimeout(() => {
      open--;
      response.end('ok');
    }, 20);
  });
  const tenants = await Promise.all(Array.from({ length: 6 }, () => subscribe(notifier, busy.url)));
  for (const tenant of tenants) await ingest(notifier, tenant, 15);
  await busy.count(90);
  expect(most).toBeLessThanOrEqual(8);
});

test('a test is sent though the endpoint has its share already', async () => {
  const notifier = await start({ config: { endpointConcurrency: 2 } });
  const moody = await receiver((request, response) => (request.headers['x-webhook-event'] === 'test.webhook' ? response.end() : undefined));
  const tenant = await subscribe(notifier, moody.url);
  await ingest(notifier, tenant, 4);
  await moody.count(2);
  expect((await notifier.client.testWebhook({ tenantId: tenant.tenantId })).delivery).toMatchObject({ status: 'delivered' });
});

test('with more tenants than a cycle takes, all are served', async () => {
  const notifier = await start({ claims: false });
  const tenants: Awaited<ReturnType<typeof subscribe>>[] = [];
  // Not all at once, which is more than may wait for a connection on a slow machine.
  for (let ten = 0; ten < 13; ten++) {
    tenants.push(...(await Promise.all(Array.from({ length: 10 }, () => subscribe(notifier, 'http://127.0.0.1:1/')))));
  }
  await notifier.client.ingest({ events: tenants.flatMap(({ posting }) => [posting(), posting(), posting()]) });
  const served = new Set<string>();
  for (let cycle = 0; cycle < 6; cycle++) {
    for (const { tenant } of (await lease(notifier.work, { perTenant: 1 })).leased) served.add(tenant);
  }
  expect(served.size).toBe(130);
});

test('the share holds over replicas', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 20);
  const share = { perTenant: 8 };
  const rounds = await Promise.all(Array.from({ length: 5 }, () => lease(notifier.work, share)));
  rounds.push(await lease(notifier.work, share));
  expect(rounds.flatMap(({ leased }) => leased)).toHaveLength(8);
});

test('where a cycle has less capacity than work, tenants take turns', async () => {
  const notifier = await start({ claims: false });
  const tenants = await Promise.all(Array.from({ length: 3 }, () => subscribe(notifier, 'http://127.0.0.1:1/')));
  for (const tenant of tenants) await ingest(notifier, tenant, 10);
  const { leased } = await lease(notifier.work, { free: 6 });
  expect(tenants.map(({ tenant }) => leased.filter((each) => each.tenant === tenant).length)).toEqual([2, 2, 2]);
});

test('a tenant whose endpoint was full is served again as soon as an attempt is recorded', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 5);
  const one = { perTenant: 1 };
  for (let place = 0; place < 5; place++) {
    const { leased } = await lease(notifier.work, one);
    expect(leased).toHaveLength(1);
    expect(await lease(notifier.work, one)).toMatchObject({ leased: [] });
    // Nothing to look for until the lease ends.
    expect((await lease(notifier.work, one)).nextMs).toBeGreaterThan(30_000);
    await recordResults(notifier.work, [result(leased[0]!, 'delivered')]);
  }
  expect(await lease(notifier.work, one)).toMatchObject({ leased: [] });
});

test('so it is where others find it full just when an attempt is recorded', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 100);
  const done = new Set<string>();
  const look = async () => {
    while (done.size < 100) {
      const { leased } = await lease(notifier.work, { perTenant: 1 });
      for (const { id } of leased) done.add(id);
      if (leased.length > 0) await recordResults(notifier.work, [result(leased[0]!, 'delivered')]);
    }
  };
  // One that was overlooked would wait for the end of a lease.
  await Promise.all([look(), look(), look()]);
});

test('a tenant that is found without work while a result is committed stays due', async () => {
  const notifier = await start({ claims: false, settings: longLockTimeouts });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant);
  const one = { perTenant: 1 };
  const [leased] = (await lease(notifier.work, one)).leased;
  const blocker = new pg.Client({ connectionString: notifier.database.adminUrl });
  await blocker.connect();
  try {
    // Keeps the result from being committed until the test unlocks it.
    await blocker.query(`create function wait_for_test() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(1, 1); return null; end $$`);
    await blocker.query(`create constraint trigger late after delete on leases deferrable initially deferred
      for each row execute function wait_for_test()`);
    await blocker.query('select pg_advisory_lock(1, 1)');
    await inTransaction(notifier.work, [tenant.tenant], (client) => client.query('update due set next_at = now()'));
    const recorded = recordResults(notifier.work, [result(leased!, 'pending', 0)]);
    await until(async () => (await blocker.query(`select from pg_locks where ${waitingLocks} and locktype = 'advisory'`)).rowCount === 1);
    expect(await lease(notifier.work, one)).toMatchObject({ leased: [], idle: [tenant.tenant] });
    await blocker.query('select pg_advisory_unlock(1, 1)');
    expect(await recorded).toEqual(new Set([leased!.id]));
    expect((await lease(notifier.work, one)).leased).toMatchObject([{ id: leased!.id, attempt: 2 }]);
  } finally {
    await blocker.end();
  }
});

test('deliveries are leased in the tenant’s order', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  const posted = Array.from({ length: 12 }, () => tenant.posting());
  await notifier.client.ingest({ events: posted });
  const leased: string[] = [];
  for (let round = 0; round < 4; round++) {
    leased.push(...(await lease(notifier.work, { free: 3 })).leased.map(({ eventId }) => eventId));
  }
  expect(leased).toEqual(posted.map(({ id }) => toUuid('evt', id)));
});

test('deliveries go on, however many events wait for a tenant’s locked inbox', async () => {
  const notifier = await start({ claims: false, settings: longLockTimeouts });
  const [locked, other] = [await receiver(), await receiver()];
  const [waiting, tenant] = [await subscribe(notifier, locked.url), await subscribe(notifier, other.url)];
  for (const each of [waiting, tenant]) await ingest(notifier, each);
  const operator = new pg.Client({ connectionString: notifier.database.adminUrl });
  await operator.connect();
  try {
    await operator.query('begin');
    await operator.query('select from inbox where tenant_id = $1 for update', [waiting.tenant]);
    const ingested = Array.from({ length: 3 }, () => ingest(notifier, waiting));
    // All connections of the consumer wait.
    await until(
      async () =>
        (await notifier.work.query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`))
          .rowCount === 3,
    );
    notifier.worker.start();
    await Promise.all([locked.count(1), other.count(1)]);
    await operator.query('rollback');
    await Promise.all(ingested);
  } finally {
    await operator.end();
  }
  await locked.count(4);
});
