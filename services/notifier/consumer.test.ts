import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { ChangedBalanceSchema, EventSchema, type Event } from '../../proto/gen/ledger/v1/events_pb.js';
import { withClient } from '../../deploy/local/databases.ts';
import { root } from '../../deploy/local/plan.ts';
import {
  newTenant,
  startNotifier,
  startReceiver,
  until,
  type Receiver,
  type RunningNotifier,
  type TestTenant,
} from '../../test/notifier.ts';
import { bareEnvironment } from '../../test/run.ts';
import { newId } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { derivedEventsOf, withDerivedEvents } from '../platform/derived-events.ts';
import { OffsetMismatch, readOffsets, type OffsetMove } from './kafka-offsets.ts';

let notifier: RunningNotifier;
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
  // What is made stays as it was made.
  notifier = await startNotifier({ claims: false });
});

afterAll(async () => {
  await notifier.end();
  await receiver.close();
});

async function subscribed(events = ['transaction.posted', 'balance.updated']): Promise<TestTenant> {
  const tenant = newTenant();
  await notifier.client.configureWebhook({ tenantId: tenant.tenantId, url: receiver.url, events });
  return tenant;
}

const ingest = (...events: Event[]) => notifier.client.ingest({ events });

/** The events of the tenant's deliveries, in the order in which they were made. */
async function made({ tenantId }: TestTenant): Promise<string[]> {
  const { deliveries, total } = await notifier.client.listDeliveries({ tenantId, limit: 100 });
  expect(total).toBe(BigInt(deliveries.length));
  return deliveries.map(({ eventId }) => eventId).reverse();
}

async function rows(tenant: TestTenant, text: string): Promise<Record<string, unknown>[]> {
  return inTransaction(notifier.work, [tenant.tenant], async (client) => (await client.query(text)).rows as Record<string, unknown>[]);
}

async function deadLetters(): Promise<{ source: string; reason: string }[]> {
  return inTransaction(notifier.work, [], async (client) => {
    await client.query(`select set_config('app.job', 'dead letters', true)`);
    return (await client.query<{ source: string; reason: string }>('select source, reason from dead_letters order by id')).rows;
  });
}

async function withOwner(text: string): Promise<void> {
  await withClient(notifier.database.ownerUrl, (client) => client.query(text));
}

async function counted(name: string, labels = ''): Promise<number> {
  return Number(new RegExp(`^notifier_${name}_total${labels} (\\d+)`, 'm').exec(await notifier.metrics.metrics())?.[1]);
}

const gaps = () => counted('inbox_gaps');
const duplicates = () => counted('events', '{result="duplicate"}');
const consumed = () => counted('events', '{result="consumed"}');

/** A posting that changes two balances. */
function changing(tenant: TestTenant): Event {
  const posting = tenant.posting();
  if (posting.data.case !== 'transactionPosted') throw new Error('a posting');
  const changed = { accountId: newId('acc'), currency: 'NGN', balance: '1.00', previousBalance: '0.00', version: 1n };
  posting.data.value.balances = ['CASH', 'SALES'].map((accountCode) => create(ChangedBalanceSchema, { ...changed, accountCode }));
  return posting;
}

test('a dead letter that comes again counts once', async () => {
  const before = await counted('dead_letters');
  const deadLetter = { source: `topic/0/${newId('evt')}`, key: null, value: Buffer.from('x'), reason: 'the value is no event' };
  await notifier.consumer.ingest([], { deadLetters: [deadLetter] });
  await notifier.consumer.ingest([(await subscribed()).posting()], { deadLetters: [deadLetter] });
  expect((await deadLetters()).filter(({ source }) => source === deadLetter.source)).toHaveLength(1);
  expect(await counted('dead_letters')).toBe(before + 1);
});

test('events become deliveries in the order of the log', async () => {
  const tenant = await subscribed();
  const events = Array.from({ length: 30 }, () => tenant.posting());
  await ingest(...events.slice(0, 20));
  await ingest(...events.slice(20));
  expect(await made(tenant)).toEqual(events.map(({ id }) => id));
});

test('what was consumed before is skipped, however it comes again', async () => {
  const tenant = await subscribed();
  const [first, second, third] = [tenant.posting(), tenant.posting(), tenant.posting()];
  await ingest(first, second);
  await ingest(first, second);
  await ingest(second, third);
  await ingest(first);
  await ingest(third, third);
  expect(await made(tenant)).toEqual([first.id, second.id, third.id]);
});

test('a range of the log is passed without its events for a tenant without an enabled webhook, and no other', async () => {
  const [listening, disabled, silent] = [await subscribed(), await subscribed(), newTenant()];
  await notifier.client.updateWebhook({ tenantId: disabled.tenantId, enabled: false });
  const ranges = [listening, disabled, silent].map(({ tenantId }) => ({ tenantId, after: 0n, through: 3n }));
  const before = await gaps();
  for (let time = 0; time < 2; time++) {
    expect((await notifier.client.pass({ stretches: ranges })).wantedTenantIds).toEqual([listening.tenantId]);
  }
  expect(await rows(silent, 'select sequence from inbox')).toEqual([{ sequence: 3n }]);
  expect(await rows(listening, 'select sequence from inbox where sequence > 0')).toEqual([]);

  // Once the webhook is enabled, events of the passed range are skipped, and later ones are delivered.
  await notifier.client.updateWebhook({ tenantId: disabled.tenantId, enabled: true });
  const events = Array.from({ length: 5 }, () => disabled.posting());
  await ingest(...events);
  expect(await made(disabled)).toEqual(events.slice(3).map(({ id }) => id));
  expect(await gaps()).toBe(before);
});

test('what was published before a passed range and never came is a gap', async () => {
  const silent = newTenant();
  const before = await gaps();
  await notifier.client.pass({ stretches: [{ tenantId: silent.tenantId, after: 2n, through: 5n }] });
  expect(await gaps()).toBe(before + 1);
  expect(await rows(silent, 'select after_sequence, before_sequence, before_part from gaps')).toEqual([
    { after_sequence: 0n, before_sequence: 3n, before_part: 0 },
  ]);
});

test('a part that was lost before a passed range is a gap, and is consumed when it comes', async () => {
  const tenant = await subscribed();
  const [posting, next] = [changing(tenant), tenant.posting()];
  const [first, last] = derivedEventsOf(posting) as [Event, Event];
  const before = await gaps();
  // The last part is a dead letter of the ledger.
  await ingest(posting, first);
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: false });
  await notifier.client.pass({ stretches: [{ tenantId: tenant.tenantId, after: 1n, through: 2n }] });
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: true });
  expect(await gaps()).toBe(before + 1);
  await ingest(last);
  await ingest(last, next);
  expect(await made(tenant)).toEqual([posting.id, first.id, last.id]);
});

test('a posting of which a part had come is passed whole, which is no gap', async () => {
  const tenant = await subscribed();
  const [posting, next] = [changing(tenant), tenant.posting()];
  const before = await gaps();
  await ingest(posting);
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: false });
  await notifier.client.pass({ stretches: [{ tenantId: tenant.tenantId, after: 0n, through: 1n }] });
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: true });
  await ingest(...derivedEventsOf(posting), next);
  expect(await made(tenant)).toEqual([posting.id, next.id]);
  expect(await gaps()).toBe(before);
});

test('the same events to two replicas at once are consumed once', async () => {
  const replica = await startNotifier({ claims: false, database: notifier.database });
  try {
    const tenants = await Promise.all(Array.from({ length: 5 }, () => subscribed()));
    const events = Array.from({ length: 10 }, () => tenants.map((tenant) => tenant.posting())).flat();
    // Who waits for the others longer than for a lock, as on a slow disk, sends them again, as the ledger does.
    const send = ({ client }: RunningNotifier) => until(() => client.ingest({ events }).catch(() => null));
    await Promise.all(Array.from({ length: 6 }, (_, at) => send(at % 2 ? notifier : replica)));
    for (const tenant of tenants) {
      expect(await made(tenant)).toEqual(events.filter(({ tenantId }) => tenantId === tenant.tenantId).map(({ id }) => id));
    }
  } finally {
    await replica.end();
  }
});

test('the parts of one posting are consumed each, in their order', async () => {
  const tenant = await subscribed();
  const parts = withDerivedEvents(changing(tenant));
  const before = await gaps();
  await ingest(...parts.slice(0, 2));
  await ingest(...parts);
  await ingest(tenant.posting());
  expect((await made(tenant)).slice(0, 3)).toEqual(idsOf(parts));
  expect(await gaps()).toBe(before);
});

const derive = async (...events: Event[]) => {
  expect(await notifier.client.ingest({ events, deriveUpdates: true })).toMatchObject({ updatesDerived: true });
};

const idsOf = (events: Event[]) => events.map(({ id }) => id);

test('events derived from postings are delivered after each as if they had been sent, once, also if they are sent, too', async () => {
  const [tenant, told] = [await subscribed(), await subscribed()];
  const postings = [changing(tenant), changing(tenant)];
  const before = await gaps();
  for (let time = 0; time < 2; time++) await derive(...postings);
  await ingest(...postings.flatMap(withDerivedEvents));
  await derive(tenant.posting());
  expect((await made(tenant)).slice(0, -1)).toEqual(idsOf(postings.flatMap(withDerivedEvents)));
  const [first] = postings as [Event, Event];
  await ingest(...withDerivedEvents({ ...first, tenantId: told.tenantId }));
  const bodies = (of: TestTenant) =>
    rows(of, `select body::jsonb - 'tenant_id' as body from payloads where body::jsonb #>> '{data,sequence}' = '1' order by event_id`);
  expect(await bodies(tenant)).toEqual(await bodies(told));
  expect(await bodies(told)).toHaveLength(3);
  expect(await gaps()).toBe(before);
});

test('derived events without a subscription are not delivered, then or later, and leave no gap', async () => {
  const tenant = await subscribed(['transaction.posted']);
  const [first, second, third] = [changing(tenant), changing(tenant), changing(tenant)];
  const before = await gaps();
  await derive(first, second);
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, events: ['balance.updated'], changeEvents: true });
  await derive(first, second, third);
  await ingest(...derivedEventsOf(second));
  expect(await made(tenant)).toEqual(idsOf([first, second, ...derivedEventsOf(third)]));
  expect(await gaps()).toBe(before);
});

test('of a posting with a lost part only that part is derived', async () => {
  const tenant = await subscribed();
  const [posting, next] = [changing(tenant), changing(tenant)];
  const [one, lost] = derivedEventsOf(posting) as [Event, Event];
  await ingest(posting, one);
  for (let time = 0; time < 2; time++) await derive(next);
  await derive(posting);
  const before = await duplicates();
  await derive(posting);
  // In one transaction: PostgreSQL did not have to reject what was derived late.
  expect(await duplicates()).toBe(before + 3);
  expect(await made(tenant)).toEqual(idsOf([posting, one, next, ...derivedEventsOf(next), lost]));
});

test('an event that PostgreSQL rejects becomes a dead letter alone, among a posting and the events derived from it', async () => {
  const tenant = await subscribed();
  const [posting, next] = [changing(tenant), changing(tenant)];
  const [refused, update] = [posting, derivedEventsOf(next)[0]!];
  for (const [name, { id }] of Object.entries({ refused, update })) {
    await withOwner(`alter table payloads add constraint ${name}_derived check (body not like '{"id":"${id}"%')`);
  }
  const before = [await consumed(), await duplicates()];
  await derive(posting, next);
  expect(await made(tenant)).toEqual(idsOf([...derivedEventsOf(posting), next, derivedEventsOf(next)[1]!]));
  expect([await consumed(), await duplicates()]).toEqual([before[0]! + 6, before[1]]);
  const kept = (await deadLetters()).filter(({ source }) => source.startsWith(tenant.tenantId));
  expect(kept.map(({ source }) => source)).toEqual([`${tenant.tenantId} 1.0`, `${tenant.tenantId} 2.1`]);
});

test('only events that an enabled webhook subscribes to are delivered, decided when the event comes', async () => {
  const tenant = await subscribed(['balance.updated']);
  await ingest(tenant.posting());
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, events: ['transaction.posted'], changeEvents: true });
  const second = tenant.posting();
  await ingest(second);
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: false });
  await ingest(tenant.posting());
  await notifier.client.updateWebhook({ tenantId: tenant.tenantId, enabled: true });
  const fourth = tenant.posting();
  await ingest(fourth);
  await notifier.client.deleteWebhook({ tenantId: tenant.tenantId });
  await ingest(tenant.posting());
  expect(await made(tenant)).toEqual([second.id, fourth.id]);
});

test('events that are older than the webhook are not delivered', async () => {
  const tenant = await subscribed();
  const { webhook } = await notifier.client.getWebhook({ tenantId: tenant.tenantId });
  const [before, same] = [tenant.posting({ createdMs: webhook!.createdMs - 1n }), tenant.posting({ createdMs: webhook!.createdMs })];
  await ingest(before, same);
  expect(await made(tenant)).toEqual([same.id]);
});

test('a gap is recorded and counted, does not hold up what follows, and a late event for it is consumed once', async () => {
  const tenant = await subscribed();
  const [first, second, third, fourth] = [tenant.posting(), tenant.posting(), tenant.posting(), tenant.posting()];
  const before = await gaps();
  await ingest(first);
  await ingest(fourth);
  expect(await gaps()).toBe(before + 1);
  expect(await rows(tenant, 'select after_sequence, before_sequence from gaps')).toEqual([{ after_sequence: 1n, before_sequence: 4n }]);
  await ingest(third);
  await ingest(second, third);
  await ingest(first, second, third, fourth);
  expect(await made(tenant)).toEqual([first.id, fourth.id, third.id, second.id]);
  expect(await gaps()).toBe(before + 1);
});

test('what was imported is no gap, because it is not published', async () => {
  const tenant = await subscribed();
  const before = await gaps();
  const imported = { case: 'logImported' as const, value: { tenantId: newId('tenant'), size: 2n } };
  await ingest(tenant.posting({ type: 'log.imported', data: imported }));
  const [, , posted] = [tenant.posting(), tenant.posting(), tenant.posting()];
  await ingest(posted);
  expect(await made(tenant)).toEqual([posted.id]);
  expect(await gaps()).toBe(before);
});

test('the last part of a posting that never came is a gap', async () => {
  const tenant = await subscribed();
  const [posting, first, late] = withDerivedEvents(changing(tenant)) as [Event, Event, Event];
  const before = await gaps();
  await ingest(posting, first, tenant.posting());
  expect(await gaps()).toBe(before + 1);
  await ingest(late);
  expect(await made(tenant)).toContain(late.id);
});

test('an event that no body can be made of becomes a dead letter, and holds up no other', async () => {
  const tenant = await subscribed();
  const [good, bad, last] = [tenant.posting(), tenant.posting({ data: { case: undefined } }), tenant.posting()];
  const before = await gaps();
  await ingest(good, bad, last);
  expect(await made(tenant)).toEqual([good.id, last.id]);
  expect(await deadLetters()).toContainEqual({ source: `${tenant.tenantId} 2.0`, reason: expect.stringContaining('holds nothing') });
  expect(await gaps()).toBe(before);
});

test('an event whose ids are malformed becomes a dead letter', async () => {
  await ingest(create(EventSchema, { id: 'evt_?', tenantId: 'nobody', sequence: 1n }));
  expect(await deadLetters()).toContainEqual({ source: 'nobody 1.0', reason: expect.stringContaining('malformed') });
});

test('an event with a tenant id of any length and content becomes a dead letter, and holds up no other', async () => {
  const tenant = await subscribed();
  // Three bytes each, and nothing that PostgreSQL could compress: more than a row of an index may hold.
  const tenantId = String.fromCodePoint(...Array.from(randomBytes(2_000), (byte, place) => 0x4e00 + 16 * byte + (place % 16)));
  const good = tenant.posting();
  await ingest(create(EventSchema, { id: newId('evt'), tenantId, sequence: 1n }), good);
  expect(await made(tenant)).toEqual([good.id]);
  expect(await deadLetters()).toContainEqual({
    source: expect.stringContaining(tenantId.slice(0, 100)),
    reason: expect.stringContaining('malformed'),
  });
});

const command = (...args: string[]) =>
  spawnSync(process.execPath, ['services/notifier/cli.ts', ...args], {
    cwd: root,
    env: { ...bareEnvironment, DATABASE_URL: notifier.database.serviceUrl },
    encoding: 'utf8',
  });

test.each([
  ['sequence', { sequence: 0n }],
  ['part', { part: -1 }],
])('a dead letter whose event has no position in a log, by its %s, is not redriven, and is reported', async (_, wrong) => {
  const tenant = await subscribed();
  const value = toBinary(EventSchema, create(EventSchema, { ...tenant.posting(), ...wrong }));
  const source = `topic/0/${newId('evt')}`;
  await notifier.consumer.ingest([], { deadLetters: [{ source, key: null, value, reason: 'malformed' }] });
  const { left } = await notifier.consumer.redrive();
  expect(left).toContainEqual({ id: expect.any(String), reason: expect.stringContaining('position in the log is malformed') });
  expect(await made(tenant)).toEqual([]);
});

test('a dead letter that can be decoded by now is redriven by the operator’s command, past the consumed offset, and the others stay', async () => {
  const tenant = await subscribed();
  const [first, lost, third] = [tenant.posting(), tenant.posting(), tenant.posting()];
  await ingest(first, third);
  const source = `topic/0/${newId('evt')}`;
  const readable = { source, key: Buffer.from(tenant.tenantId), value: toBinary(EventSchema, lost), reason: 'unknown then' };
  const garbage = { source: `${source}x`, key: null, value: Buffer.from('ffff', 'hex'), reason: 'not an event' };
  await notifier.consumer.ingest([], { deadLetters: [readable, garbage] });
  await notifier.consumer.ingest([], { deadLetters: [readable, garbage] });
  const count = (await deadLetters()).length;
  const run = () => command('redrive');
  // There is no such option, and it must not be ignored.
  expect(command('redrive', '--tenant', tenant.tenantId)).toMatchObject({
    stdout: '',
    stderr: expect.stringContaining("'--tenant'"),
    status: 2,
  });
  const { stdout, stderr, status } = run();
  expect(stdout).toBe(`1 redriven, ${count - 1} left\n`);
  expect(stderr).toMatch(/^[0-9a-f-]{36}: premature EOF$/m);
  expect(status).toBe(1);
  expect(await made(tenant)).toEqual([first.id, third.id, lost.id]);
  expect(run().stdout).toBe(`0 redriven, ${count - 1} left\n`);
  // If the log brings it once more, it is a duplicate.
  await ingest(lost);
  expect(await made(tenant)).toHaveLength(3);
});

describe('the stored offset of a partition', () => {
  const topic = 'ledger.events';
  let partition = 0;
  const move = (from: bigint, to: bigint): OffsetMove => ({ topic, partition, from, to });
  const stored = async () => (await readOffsets(notifier.pool, topic, [partition])).get(partition);
  beforeEach(async () => {
    partition++;
    expect(await stored()).toBe(0n);
  });

  test('moves with events, with dead letters alone, and with nothing', async () => {
    const tenant = await subscribed();
    const deadLetter = { source: newId('evt'), key: null, value: Buffer.from('ffff', 'hex'), reason: 'not an event' };
    await notifier.consumer.ingest([], { deadLetters: [deadLetter], moves: [move(0n, 3n)] });
    await notifier.consumer.ingest([], { moves: [move(3n, 5n)] });
    await notifier.consumer.ingest([tenant.posting()], { moves: [move(5n, 6n)] });
    expect(await stored()).toBe(6n);
  });

  test.each([
    ['behind it, as after a restore', 7n],
    ['before it, as with another replica', 2n],
  ])('that is not where the events continue, but %s, keeps all of them out', async (_, from) => {
    const tenant = await subscribed();
    await notifier.consumer.ingest([], { moves: [move(0n, 5n)] });
    const deadLetter = { source: newId('evt'), value: Buffer.from('ffff', 'hex'), reason: 'not an event' };
    await expect(notifier.consumer.ingest([tenant.posting()], { deadLetters: [deadLetter], moves: [move(from, 9n)] })).rejects.toThrow(
      OffsetMismatch,
    );
    await expect(notifier.consumer.ingest([], { deadLetters: [deadLetter], moves: [move(from, 9n)] })).rejects.toThrow(OffsetMismatch);
    expect([await made(tenant), await stored()]).toEqual([[], 5n]);
    expect((await deadLetters()).map(({ source }) => source)).not.toContain(deadLetter.source);
  });

  test('moves once all events are consumed, where one is a dead letter and another must wait', async () => {
    const tenant = await subscribed();
    const [good, bad, last] = [tenant.posting(), tenant.posting(), tenant.posting()];
    const name = `refused_${partition}`;
    await withOwner(
      `create function ${name}() returns trigger language plpgsql as $$ begin
        if new.body like '%${bad.id}%' then raise check_violation; end if;
        if new.body like '%${last.id}%' then raise lock_not_available; end if;
        return new;
      end $$;
      create trigger ${name} before insert on payloads for each row execute function ${name}()`,
    );
    const ingestAll = () => notifier.consumer.ingest([good, bad, last], { moves: [move(0n, 3n)] });
    await expect(ingestAll()).rejects.toThrow('lock_not_available');
    expect(await stored()).toBe(0n);
    await withOwner(`drop trigger ${name} on payloads; alter table payloads add constraint ${name} check (body not like '%${bad.id}%')`);
    await ingestAll();
    expect(await made(tenant)).toEqual([good.id, last.id]);
    expect(await stored()).toBe(3n);
  });
});
