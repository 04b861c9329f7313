// Rows of one tenant that somebody else holds for long, an operator's open transaction, say, keep him waiting and nobody else.
import { Code } from '@connectrpc/connect';
import pg from 'pg';
import { pino } from 'pino';
import { bounds, endStarted, ingest, only, outcome, passTime, receiver, start, subscribe } from '../../test/deliveries.ts';
import { settled, until, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';
import { leaseDue } from './leases.ts';
import { recordResults, withoutHeld } from './delivery-results.ts';
import { ResultWriter } from './recorder.ts';

let lines: { msg: string }[];
const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line) as { msg: string }) });
const told = (message: string): number => lines.filter(({ msg }) => msg === message).length;

beforeEach(() => {
  lines = [];
});

afterEach(endStarted);

const startImpatient = (claims = true): Promise<RunningNotifier> => start({ claims, logger, settings: { lock_timeout: '100ms' } });

/** Runs `work` while a tenant's rows of a table are held. */
async function holding({ database }: RunningNotifier, table: string, { tenant }: TestTenant, work: () => Promise<void>): Promise<void> {
  const holder = new pg.Client({ connectionString: database.adminUrl });
  await holder.connect();
  try {
    await holder.query('begin');
    await holder.query(`select from ${table} where tenant_id = $1 for update`, [tenant]);
    await work();
  } finally {
    await holder.end();
  }
}

test('what came of one delivery waits for who holds its row, and that of others is recorded', async () => {
  const notifier = await startImpatient();
  const held = Promise.withResolvers<undefined>();
  const slow = await receiver(async (_, response) => {
    await held.promise;
    response.end();
  });
  const quick = await receiver();
  const [one, other] = [await subscribe(notifier, slow.url), await subscribe(notifier, quick.url)];
  await ingest(notifier, one);
  await slow.count(1);
  await holding(notifier, 'deliveries', one, async () => {
    held.resolve(undefined);
    await until(() => Promise.resolve(told('recording failed') > 0));
    await ingest(notifier, other, 5);
    await settled(notifier.client, other.tenantId, 5);
    // Left to its lease, and told of.
    await until(() => Promise.resolve(told('rows are held by others: left to their leases') > 0));
    // From then on he is known: nobody waits for him again.
    const failed = told('recording failed');
    await inTransaction(notifier.work, [one.tenant], async (client) => {
      await client.query('update claims set until = now()');
      await client.query('update due set next_at = now()');
    });
    await until(() => Promise.resolve(told('rows are held by others: left to their leases') > 1));
    await ingest(notifier, other, 5);
    await settled(notifier.client, other.tenantId, 10);
    expect(told('recording failed')).toBe(failed);
  });
  expect(quick.received).toHaveLength(10);
  await passTime(notifier, one);
  await settled(notifier.client, one.tenantId, 1);
  expect(await only(notifier, one)).toMatchObject({ status: 'delivered', attempts: 1, tries: [{ number: 1 }] });
});

test('a tenant without work whose row of `due` somebody holds is waited for a few times and then passed over', async () => {
  const notifier = await startImpatient(false);
  const quick = await receiver();
  const [one, other] = [await subscribe(notifier, quick.url), await subscribe(notifier, quick.url)];
  await ingest(notifier, one);
  const [claimed] = (await leaseDue(notifier.work, bounds)).claimed;
  await recordResults(notifier.work, [outcome(claimed!, 'delivered')]);
  await passTime(notifier, one);
  await holding(notifier, 'due', one, async () => {
    notifier.courier.start();
    await until(() => Promise.resolve(told('somebody holds a row of a tenant: he is passed over') > 0));
    const waited = told('tenants without work could not be put off');
    expect(waited).toBeLessThan(5);
    for (let turn = 1; turn <= 20; turn++) {
      await ingest(notifier, other);
      await settled(notifier.client, other.tenantId, turn);
    }
    expect(told('tenants without work could not be put off')).toBe(waited);
  });
  await ingest(notifier, one);
  await settled(notifier.client, one.tenantId, 2);
});

test.each(['claims', 'deliveries', 'due'])('what needs a row of %s that somebody holds is told from what does not', async (table) => {
  const notifier = await startImpatient(false);
  const quick = await receiver();
  const [one, other] = [await subscribe(notifier, quick.url), await subscribe(notifier, quick.url)];
  for (const tenant of [one, other]) await ingest(notifier, tenant);
  const { claimed } = await leaseDue(notifier.work, bounds);
  const outcomes = claimed.map((each) => outcome(each, 'delivered'));
  await holding(notifier, table, one, async () => {
    expect((await withoutHeld(notifier.work, outcomes)).map(({ tenant }) => tenant)).toEqual([other.tenant]);
  });
  expect(await withoutHeld(notifier.work, outcomes)).toHaveLength(2);
});

test('a tenant whose row was held is looked at again within seconds, and told of once a minute', async () => {
  const notifier = await startImpatient(false);
  const quick = await receiver();
  const one = await subscribe(notifier, quick.url);
  await ingest(notifier, one);
  const [claimed] = (await leaseDue(notifier.work, bounds)).claimed;
  await recordResults(notifier.work, [outcome(claimed!, 'delivered')]);
  await passTime(notifier, one);
  const passed = 'somebody holds a row of a tenant: he is passed over';
  await holding(notifier, 'due', one, async () => {
    notifier.courier.start();
    await until(() => Promise.resolve(told(passed) > 0));
    // He is passed over again and again in the meantime.
    await new Promise((done) => setTimeout(done, 2_500));
    expect(told(passed)).toBe(1);
  });
  await ingest(notifier, one);
  // The test's patience ends before a minute does.
  await settled(notifier.client, one.tenantId, 2);
});

test('rows that others of the cluster hold for a moment are waited for', async () => {
  const notifier = await startImpatient(false);
  const quick = await receiver();
  const one = await subscribe(notifier, quick.url);
  await ingest(notifier, one, 6);
  const [first, ...others] = (await leaseDue(notifier.work, bounds)).claimed.map((each) => outcome(each, 'delivered'));
  const recorder = new ResultWriter(notifier.work, logger, () => undefined);
  // Held for long: from now on he is looked at first.
  await holding(notifier, 'deliveries', one, async () => expect(await recorder.record(first!)).toBe(false));
  let isRecorded = false;
  // On a busy machine a moment may be long, but not each time.
  for (let next = others.pop(); next && !isRecorded; next = others.pop()) {
    const late = Promise.withResolvers<boolean>();
    const momentarily = async () => {
      late.resolve(recorder.record(next));
      await new Promise((done) => setTimeout(done, 70));
    };
    await holding(notifier, 'deliveries', one, momentarily);
    isRecorded = await late.promise;
  }
  expect(isRecorded).toBe(true);
});

test('events of a tenant whose place somebody holds are not taken now, which is told apart from a database that is away', async () => {
  const notifier = await startImpatient();
  const quick = await receiver();
  const [one, other] = [await subscribe(notifier, quick.url), await subscribe(notifier, quick.url)];
  for (const tenant of [one, other]) await ingest(notifier, tenant);
  await holding(notifier, 'inbox', one, async () => {
    const events = [one.posting(), other.posting()];
    await expect(notifier.client.ingest({ events })).rejects.toMatchObject({ code: Code.Aborted });
    await notifier.client.ingest({ events: events.slice(1) });
    await settled(notifier.client, other.tenantId, 2);
  });
});

test('however many are put off they take one connection, and those whose tenant’s row somebody holds are left to their leases', async () => {
  const notifier = await startImpatient(false);
  const one = await subscribe(notifier, 'http://127.0.0.1:1/');
  await ingest(notifier, one, 32);
  const [sent, ...unsent] = (await leaseDue(notifier.work, bounds)).claimed;
  // Nothing more is found: he is due when the leases end.
  await leaseDue(notifier.work, bounds);
  const recorder = new ResultWriter(notifier.work, logger, () => undefined);
  const outcomes = [...unsent.map((each) => ({ ...outcome(each, 'pending'), heldMs: 5_000 })), outcome(sent!, 'delivered')];
  const record = () => Promise.all(outcomes.map((each) => recorder.record(each)));
  const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await holding(notifier, 'due', one, async () => {
    const recorded = record();
    for (let look = 0; look < 20; look++) {
      expect((await notifier.work.query(waiting)).rowCount).toBeLessThan(2);
      await new Promise((done) => setTimeout(done, 20));
    }
    expect(new Set(await recorded)).toEqual(new Set([false]));
  });
  const failed = told('recording failed');
  expect(new Set(await record())).toEqual(new Set([true]));
  expect(told('recording failed')).toBe(failed);
  const { rows } = await inTransaction(notifier.work, [one.tenant], (client) =>
    client.query(
      `select next_at <= now() + interval '5 s' as soon, (select count(*)::int from claims where until <= now() + interval '5 s') as held from due`,
    ),
  );
  expect(rows).toEqual([{ soon: true, held: 31 }]);
});
