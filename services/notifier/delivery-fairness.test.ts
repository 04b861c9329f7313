// What all tenants share: one that has much, or whose receiver hangs, holds up nobody else.
import pg from 'pg';
import { pino } from 'pino';
import { bounds, endStarted, ingest, outcome, receiver, start, subscribe } from '../../test/deliveries.ts';
import { longLockTimeouts } from '../../test/cluster.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { settled, until, type TestTenant } from '../../test/notifier.ts';
import { toUuid } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { leaseDue } from './leases.ts';
import { maxBodyBytes } from './http-client.ts';
import { recordResults } from './delivery-results.ts';

afterEach(endStarted);

/** A log that tells of each attempt, which it does after others can see that it is recorded. */
function listening() {
  const attempts: { status: string; ms: number }[] = [];
  const write = (line: string) => {
    const said = JSON.parse(line) as { status?: string; ms?: number };
    if (said.status !== undefined) attempts.push({ ms: 0, ...said, status: said.status });
  };
  return { logger: pino({ level: 'debug' }, { write }), attempts };
}

/** A notifier, tenants whose receiver hangs, and one whose receiver answers. */
async function hangingBeside(count: number, options: Parameters<typeof start>[0]) {
  const notifier = await start(options);
  const [hanging, quick] = [await receiver(() => undefined), await receiver()];
  const slow = await Promise.all(Array.from({ length: count }, () => subscribe(notifier, hanging.url)));
  return { notifier, hanging, quick, slow, other: await subscribe(notifier, quick.url) };
}

/** Delivers to it one after the other, twenty at least and for so long, milliseconds: in eight seconds those that hang take every place they can. */
async function delivers({ notifier, quick, other }: Awaited<ReturnType<typeof hangingBeside>>, leastMs = 0): Promise<void> {
  const began = performance.now();
  for (let count = 1; count <= 20 || performance.now() - began < leastMs; count++) {
    await ingest(notifier, other);
    await quick.count(count);
    if (leastMs > 0) await new Promise((done) => setTimeout(done, 50));
  }
}

test('a receiver that hangs stops only its own tenant, and holds no more than its share', async () => {
  const { notifier, hanging, slow, other } = await hangingBeside(1, { config: { concurrency: 8, endpointConcurrency: 4 } });
  await ingest(notifier, slow[0]!, 100);
  await hanging.count(4);
  await ingest(notifier, other, 100);
  await settled(notifier.client, other.tenantId, 100);
  expect(hanging.received).toHaveLength(4);
});

test('an answer is slow by its own time, and not by the time for which it had to wait for its turn', async () => {
  const { logger, attempts } = listening();
  const notifier = await start({ logger, config: { concurrency: 64, endpointConcurrency: 1 } });
  const leisurely = await receiver((_, response) => setTimeout(() => response.end('ok'), 400));
  const tenant = await subscribe(notifier, leisurely.url);
  const delivered = (count: number) => until(async () => attempts.filter(({ status }) => status === 'delivered').length >= count);
  for (;;) {
    attempts.length = 0;
    // The first answer makes it an endpoint for which more is claimed than it answers at a time.
    await ingest(notifier, tenant);
    await delivered(1);
    attempts.length = 0;
    await ingest(notifier, tenant, 4);
    await delivered(4);
    // On a machine so busy that an answer took a second, something may rightly have been handed back.
    if (attempts.some(({ status, ms }) => status === 'delivered' && ms > 900)) continue;
    expect(attempts.map(({ status }) => status)).toEqual(Array(4).fill('delivered'));
    return;
  }
});

test('many that hang do not use up what all share', async () => {
  const { notifier, hanging, slow, other } = await hangingBeside(6, { config: { concurrency: 8, endpointConcurrency: 4 } });
  for (const tenant of slow) await ingest(notifier, tenant, 20);
  await hanging.count(8);
  await ingest(notifier, other, 20);
  await settled(notifier.client, other.tenantId, 20);
  expect(await hanging.count(24)).toHaveLength(24);
});

test('not even as many as could: where half of all places are taken, one that has not answered yet gets few', async () => {
  // Thirty-two places, of which four that hang could take all.
  const cluster = await hangingBeside(12, { config: { concurrency: 2, endpointConcurrency: 8 } });
  const { notifier, hanging, slow } = cluster;
  for (const tenant of slow.slice(0, 2)) await ingest(notifier, tenant, 20);
  await hanging.count(16);
  // One each, and one more of who came before more than half were taken.
  for (const tenant of slow.slice(2)) await ingest(notifier, tenant, 20);
  await hanging.count(26);
  await delivers(cluster, 8_000);
  expect(hanging.received.length).toBeLessThanOrEqual(27);
});

test('no more hang than there is memory for, and others are delivered all the same', async () => {
  // Some 105,000 bytes each. As many could be claimed four at a time as leave room for one of each of the others, and for who answers.
  const cluster = await hangingBeside(8, { mostMemory: 24 * 105_000, config: { concurrency: 8, endpointConcurrency: 4 } });
  const { notifier, hanging, slow } = cluster;
  for (const tenant of slow) await ingest(notifier, tenant, 20);
  await hanging.count(8);
  await delivers(cluster, 8_000);
  expect(hanging.received.length).toBeLessThanOrEqual(24);
  // More than there are places, of which each takes one.
  for (let count = 8; count < 30; count++) await ingest(notifier, await subscribe(notifier, hanging.url));
  await new Promise((done) => setTimeout(done, 5_000));
  expect(hanging.received.length).toBeLessThanOrEqual(24);
});

test('what is claimed ahead counts as claimed: it takes no place that others need', async () => {
  const cluster = await hangingBeside(8, { mostMemory: 24 * 105_000, config: { concurrency: 8, endpointConcurrency: 4 } });
  const { notifier, hanging, slow } = cluster;
  const ingestAll = (tenants: TestTenant[]) =>
    notifier.client.ingest({ events: tenants.flatMap(({ posting }) => Array.from({ length: 20 }, () => posting())) });
  await ingestAll(slow.slice(0, 2));
  await hanging.count(8);
  // These are slow then, and there is room for as many again: a whole claim, and one ahead of it.
  await new Promise((done) => setTimeout(done, 2_000));
  await ingestAll(slow.slice(2, 6));
  await hanging.count(16);
  // One of each of these.
  await ingestAll(slow.slice(6));
  await new Promise((done) => setTimeout(done, 2_000));
  await delivers(cluster);
});

test('no more is claimed than there is memory for, however much of it is still to begin', async () => {
  const notifier = await start({ mostMemory: 12 * 105_000, marginMs: 600_000, config: { concurrency: 8 } });
  const hanging = await receiver(() => undefined);
  const tenants = await Promise.all(Array.from({ length: 20 }, () => subscribe(notifier, hanging.url)));
  await notifier.client.ingest({ events: tenants.map(({ posting }) => posting()) });
  await hanging.count(11);
  const { rows } = await inTransaction(
    notifier.work,
    tenants.map(({ tenant }) => tenant),
    (client) => client.query('select from claims'),
  );
  expect(rows.length).toBeLessThanOrEqual(12);
});

test('where there is memory for little beside the concurrency, a few that hang keep nobody from being claimed', async () => {
  const config = { concurrency: 64, endpointConcurrency: 4, timeoutMs: 60_000 };
  const { notifier, hanging, quick, slow, other } = await hangingBeside(1, { mostMemory: 9 * 105_000, config });
  await ingest(notifier, slow[0]!);
  await hanging.count(1);
  await ingest(notifier, other);
  await quick.count(1);
  // It still hangs.
  expect((await notifier.client.listDeliveries({ tenantId: slow[0]!.tenantId, limit: 1 })).deliveries).toMatchObject([
    { status: 'pending', attempts: 1 },
  ]);
});

test('where there is memory for less than the concurrency, no claim takes all of it', async () => {
  const cluster = await hangingBeside(3, { mostMemory: 9 * 105_000, config: { concurrency: 64, endpointConcurrency: 4 } });
  const { notifier, hanging, slow } = cluster;
  await notifier.client.ingest({ events: slow.flatMap(({ posting }) => Array.from({ length: 20 }, () => posting())) });
  await hanging.count(3);
  await new Promise((done) => setTimeout(done, 2_000));
  await delivers(cluster);
});

test('few places are used where those that hang leave no more', async () => {
  const cluster = await hangingBeside(6, { mostMemory: 18 * 105_000, config: { concurrency: 64, endpointConcurrency: 4 } });
  const { notifier, slow } = cluster;
  for (const tenant of slow) {
    await ingest(notifier, tenant, 20);
    await new Promise((done) => setTimeout(done, 1_200));
  }
  await delivers(cluster);
});

test('nor is all of it taken by a few with large events, or more than all', async () => {
  const cluster = await hangingBeside(2, { mostMemory: 24 * 105_000, config: { concurrency: 16, endpointConcurrency: 4 } });
  const { notifier, hanging, slow } = cluster;
  const large = ({ posting }: TestTenant) => {
    const event = posting();
    if (event.data.case === 'transactionPosted') event.data.value.metadata = JSON.stringify({ text: 'x'.repeat(45_000) });
    return event;
  };
  await notifier.client.ingest({ events: slow.flatMap((tenant) => Array.from({ length: 8 }, () => large(tenant))) });
  await hanging.count(2);
  await new Promise((done) => setTimeout(done, 2_000));
  await delivers(cluster);
});

test('who answers one and hangs with others gets no more places for it, where those are few', async () => {
  const notifier = await start({ mostMemory: 64 * 105_000, config: { concurrency: 64, endpointConcurrency: 4 } });
  let answered = 0;
  const moody = () => {
    let hung = 0;
    return receiver((_, response, place) => {
      if (place === 0) response.end();
      else if (hung < 3) hung++;
      else setTimeout(() => response.end(() => answered++), 900);
    });
  };
  const quick = await receiver();
  const tenants = [
    await subscribe(notifier, (await moody()).url),
    await subscribe(notifier, (await moody()).url),
    await subscribe(notifier, (await moody()).url),
  ];
  const other = await subscribe(notifier, quick.url);
  for (const tenant of tenants) await ingest(notifier, tenant, 1);
  for (const { tenantId } of tenants) await settled(notifier.client, tenantId, 1);
  for (const tenant of tenants) await ingest(notifier, tenant, 200);
  await until(() => Promise.resolve(answered >= 6));
  const before = answered;
  await ingest(notifier, other, 60);
  await quick.count(60);
  // Three of them a second.
  expect(answered - before).toBeLessThan(15);
});

test('nor do those take all places that have answered quickly until they hang', async () => {
  const notifier = await start({ mostMemory: 24 * 105_000, config: { concurrency: 64, endpointConcurrency: 4 } });
  let hangs = false;
  const [moody, quick] = [await receiver((_, response) => (hangs ? undefined : response.end())), await receiver()];
  const slow = await Promise.all(Array.from({ length: 8 }, () => subscribe(notifier, moody.url)));
  const other = await subscribe(notifier, quick.url);
  for (const tenant of slow) await ingest(notifier, tenant);
  for (const { tenantId } of slow) await settled(notifier.client, tenantId, 1);
  hangs = true;
  await notifier.client.ingest({ events: slow.flatMap(({ posting }) => Array.from({ length: 20 }, () => posting())) });
  await delivers({ notifier, hanging: moody, quick, slow, other });
});

test('no more requests are under way than may be, though more is claimed while they are begun', async () => {
  const { logger, attempts } = listening();
  const notifier = await start({ logger, config: { concurrency: 8 } });
  let [open, most] = [0, 0];
  const busy = await receiver((_, response) => {
    most = Math.max(most, ++open);
    setTimeout(() => {
      open--;
      response.end('ok');
    }, 20);
  });
  const tenants = await Promise.all(Array.from({ length: 6 }, () => subscribe(notifier, busy.url)));
  do {
    most = 0;
    attempts.length = 0;
    for (const tenant of tenants) await ingest(notifier, tenant, 15);
    await until(() => Promise.resolve(attempts.length >= 90));
    // What takes a second on a machine so busy makes room for more, rightly.
  } while (attempts.some(({ ms }) => ms > 900));
  expect(most).toBe(8);
});

test('receivers that say much are asked no more than can be recorded', async () => {
  const lines: { msg?: string }[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const failed = () => lines.filter(({ msg }) => msg === 'recording failed').length;
  // A record that waits takes three seconds, on a busy machine several times as long: nobody is to give up waiting for room meanwhile.
  const notifier = await start({ logger, marginMs: 100_000, config: { concurrency: 64 } });
  const talkative = await receiver((_, response) => response.end('a'.repeat(maxBodyBytes)));
  const tenants = await Promise.all(Array.from({ length: 10 }, () => subscribe(notifier, talkative.url)));
  // Now they are known to be quick, and much is claimed for them.
  for (const tenant of tenants) await ingest(notifier, tenant);
  for (const { tenantId } of tenants) await settled(notifier.client, tenantId, 1);
  const owner = new pg.Client({ connectionString: notifier.database.adminUrl });
  await owner.connect();
  // Records wait for this, and claims do not.
  await owner.query('begin');
  await owner.query('select pg_advisory_xact_lock(hashtextextended(t::text, 1)) from unnest($1::uuid[]) as t', [
    tenants.map(({ tenant }) => tenant),
  ]);
  for (const tenant of tenants) await ingest(notifier, tenant, 60);
  await until(() => Promise.resolve(failed() > 2 && talkative.received.length > 10 + 256));
  // 16 MiB, and what was under way then.
  expect(talkative.received.length).toBeLessThanOrEqual(10 + 256 + 1 + 10 * 8);
  // A test waits, too, and is sent then as it was asked for.
  const disabled = await subscribe(notifier, talkative.url);
  await notifier.client.updateWebhook({ tenantId: disabled.tenantId, enabled: false });
  const tested = notifier.client.testWebhook({ tenantId: disabled.tenantId });
  const failedBefore = failed();
  await until(() => Promise.resolve(failed() > failedBefore));
  await owner.query('commit');
  await owner.end();
  expect((await tested).delivery).toMatchObject({ status: 'delivered' });
  for (const { tenantId } of tenants) await settled(notifier.client, tenantId, 61);
  expect(talkative.received).toHaveLength(611);
});

test('what was claimed in advance for a receiver that begins to hang goes back, in its place', async () => {
  const notifier = await start({ config: { endpointConcurrency: 2 } });
  const moody = await receiver((_, response, place) => (place < 20 ? response.end() : undefined));
  const tenant = await subscribe(notifier, moody.url);
  const posted = Array.from({ length: 60 }, () => tenant.posting());
  await notifier.client.ingest({ events: posted });
  await moody.count(22);
  const waiting = await until(async () => {
    const { rows } = await inTransaction(notifier.work, [tenant.tenant], (client) =>
      client.query<{ event_id: string; claimed: boolean }>(
        `select d.event_id, c.claim_id is not null as claimed from deliveries d left join claims c on c.delivery_id = d.id
         where d.status = 'pending' order by d.run_at, d.id`,
      ),
    );
    return rows.length === 40 && rows.filter(({ claimed }) => claimed).length === 2 && rows;
  });
  const ids = waiting.filter(({ claimed }) => !claimed).map(({ event_id }) => event_id);
  const order = posted.map(({ id }) => toUuid('evt', id));
  expect(ids).toEqual(order.filter((id) => ids.includes(id!)));
});

test('a test is sent though the endpoint has its share already', async () => {
  const notifier = await start({ config: { endpointConcurrency: 2 } });
  const moody = await receiver((request, response) => (request.headers['x-webhook-event'] === 'test.webhook' ? response.end() : undefined));
  const tenant = await subscribe(notifier, moody.url);
  await ingest(notifier, tenant, 4);
  await moody.count(2);
  expect((await notifier.client.testWebhook({ tenantId: tenant.tenantId })).delivery).toMatchObject({ status: 'delivered' });
});

test('with more tenants than a round takes, all are served', async () => {
  const notifier = await start({ claims: false });
  const tenants: Awaited<ReturnType<typeof subscribe>>[] = [];
  // Not all at once, which is more than may wait for a connection on a slow machine.
  for (let ten = 0; ten < 13; ten++) {
    tenants.push(...(await Promise.all(Array.from({ length: 10 }, () => subscribe(notifier, 'http://127.0.0.1:1/')))));
  }
  await notifier.client.ingest({ events: tenants.flatMap(({ posting }) => [posting(), posting(), posting()]) });
  const served = new Set<string>();
  for (let round = 0; round < 2; round++) {
    for (const { tenant } of (await leaseDue(notifier.work, { ...bounds, ofTenant: () => 1 })).claimed) served.add(tenant);
  }
  expect(served.size).toBe(130);
});

test('the share holds over replicas', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 20);
  const share = { ...bounds, ofTenant: () => 8 };
  const rounds = await Promise.all(Array.from({ length: 5 }, () => leaseDue(notifier.work, share)));
  rounds.push(await leaseDue(notifier.work, share));
  expect(rounds.flatMap(({ claimed }) => claimed)).toHaveLength(8);
});

test('where a round has fewer places than work, tenants take turns', async () => {
  const notifier = await start({ claims: false });
  const tenants = await Promise.all(Array.from({ length: 3 }, () => subscribe(notifier, 'http://127.0.0.1:1/')));
  for (const tenant of tenants) await ingest(notifier, tenant, 10);
  const { claimed } = await leaseDue(notifier.work, { ...bounds, free: 6 });
  expect(tenants.map(({ tenant }) => claimed.filter((each) => each.tenant === tenant).length)).toEqual([2, 2, 2]);
});

test('a tenant whose endpoint was full is served again as soon as an attempt is recorded', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 5);
  const one = { ...bounds, ofTenant: () => 1 };
  for (let place = 0; place < 5; place++) {
    const { claimed } = await leaseDue(notifier.work, one);
    expect(claimed).toHaveLength(1);
    expect(await leaseDue(notifier.work, one)).toMatchObject({ claimed: [] });
    // Nothing to look for until the lease ends.
    expect((await leaseDue(notifier.work, one)).nextMs).toBeGreaterThan(30_000);
    await recordResults(notifier.work, [outcome(claimed[0]!, 'delivered')]);
  }
  expect(await leaseDue(notifier.work, one)).toMatchObject({ claimed: [] });
});

test('so it is where others find it full in the very moment in which an attempt is recorded', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant, 100);
  const done = new Set<string>();
  const look = async () => {
    while (done.size < 100) {
      const { claimed } = await leaseDue(notifier.work, { ...bounds, ofTenant: () => 1 });
      for (const { id } of claimed) done.add(id);
      if (claimed.length > 0) await recordResults(notifier.work, [outcome(claimed[0]!, 'delivered')]);
    }
  };
  // One that was overlooked would wait for the end of a lease.
  await Promise.all([look(), look(), look()]);
});

test('who finds it full while an attempt is recorded moves on when that is committed, not to the end of the lease', async () => {
  const notifier = await start({ claims: false, settings: longLockTimeouts });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, tenant);
  const one = { ...bounds, ofTenant: () => 1 };
  const [claimed] = (await leaseDue(notifier.work, one)).claimed;
  const holder = new pg.Client({ connectionString: notifier.database.adminUrl });
  await holder.connect();
  try {
    // Whoever records ends his transaction when the test lets him.
    await holder.query(`create function wait_for_test() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(1, 1); return null; end $$`);
    await holder.query(`create constraint trigger late after delete on claims deferrable initially deferred
      for each row execute function wait_for_test()`);
    await holder.query('select pg_advisory_lock(1, 1)');
    const waiting = async () => (await holder.query(`select from pg_locks where ${waitingLocks} and locktype = 'advisory'`)).rowCount ?? 0;
    const recorded = recordResults(notifier.work, [outcome(claimed!, 'pending', 0)]);
    await until(async () => (await waiting()) === 1);
    let isOver = false;
    const found = leaseDue(notifier.work, one).finally(() => (isOver = true));
    await until(async () => isOver || (await waiting()) === 2);
    await holder.query('select pg_advisory_unlock(1, 1)');
    expect(await recorded).toEqual(new Set([claimed!.id]));
    expect(await found).toMatchObject({ claimed: [] });
    expect((await leaseDue(notifier.work, one)).claimed).toMatchObject([{ id: claimed!.id, attempt: 2 }]);
  } finally {
    await holder.end();
  }
});

test('what some tenants leave of their shares goes to others where more is read than may be claimed', async () => {
  const notifier = await start({ claims: false });
  const [much, little] = [await subscribe(notifier, 'http://127.0.0.1:1/'), await subscribe(notifier, 'http://127.0.0.1:1/')];
  await ingest(notifier, much, 12);
  await ingest(notifier, little, 1);
  const claimedAt = async (lookedAt: number) => (await leaseDue(notifier.work, { ...bounds, free: 4, lookedAt })).claimed.length;
  expect(await claimedAt(1)).toBe(3);
  expect(await claimedAt(2)).toBe(4);
});

test('deliveries are claimed in the tenant’s order', async () => {
  const notifier = await start({ claims: false });
  const tenant = await subscribe(notifier, 'http://127.0.0.1:1/');
  const posted = Array.from({ length: 12 }, () => tenant.posting());
  await notifier.client.ingest({ events: posted });
  const claimed: string[] = [];
  for (let round = 0; round < 4; round++) {
    claimed.push(...(await leaseDue(notifier.work, { ...bounds, free: 3 })).claimed.map(({ eventId }) => eventId));
  }
  expect(claimed).toEqual(posted.map(({ id }) => toUuid('evt', id)));
});

test('where there is little room, none of many that have much is left out', async () => {
  const notifier = await start({ claims: false });
  const tenants = await Promise.all(Array.from({ length: 40 }, () => subscribe(notifier, 'http://127.0.0.1:1/')));
  await notifier.client.ingest({ events: tenants.flatMap(({ posting }) => Array.from({ length: 30 }, () => posting())) });
  const served = new Set<string>();
  // Each time a tenth of them: that one is not among them in 150 is seen once in two hundred thousand tests.
  for (let round = 0; round < 150; round++) {
    const { claimed } = await leaseDue(notifier.work, { ...bounds, free: 4, ofTenant: () => 2 });
    await recordResults(
      notifier.work,
      claimed.map((each) => outcome(each, 'delivered')),
    );
    for (const { tenant } of claimed) served.add(tenant);
  }
  expect(served.size).toBe(40);
});

test('however many events wait for a mark that is held, deliveries go on', async () => {
  const notifier = await start({ claims: false, settings: longLockTimeouts });
  const [held, other] = [await receiver(), await receiver()];
  const [waiting, tenant] = [await subscribe(notifier, held.url), await subscribe(notifier, other.url)];
  for (const each of [waiting, tenant]) await ingest(notifier, each);
  const holder = new pg.Client({ connectionString: notifier.database.adminUrl });
  await holder.connect();
  try {
    await holder.query('begin');
    await holder.query('select from inbox where tenant_id = $1 for update', [waiting.tenant]);
    const ingested = Array.from({ length: 8 }, () => ingest(notifier, waiting));
    // It travels behind them.
    await notifier.client.getWebhook({ tenantId: tenant.tenantId });
    notifier.courier.start();
    await Promise.all([held.count(1), other.count(1)]);
    await holder.query('rollback');
    await Promise.all(ingested);
  } finally {
    await holder.end();
  }
  await held.count(9);
});
