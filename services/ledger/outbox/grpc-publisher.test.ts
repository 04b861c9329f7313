import { spawnSync } from 'node:child_process';
import { Code, ConnectError } from '@connectrpc/connect';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { root } from '../../../deploy/local/plan.ts';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { NotifierService, type Stretch } from '../../../proto/gen/notifier/v1/notifier_pb.js';
import { startGrpcServer } from '../../../test/grpc-server.ts';
import { until } from '../../../test/notifier.ts';
import { metricOf, openRelayDatabase, post as postTo, type RelayDatabase } from '../../../test/relay.ts';
import { bareEnvironment } from '../../../test/run.ts';
import { logger } from '../../../test/writers.ts';
import { toId, toUuid } from '../../platform/ids.ts';
import { openPool } from '../../platform/postgres.ts';
import { withBalanceEvents } from '../../platform/balance-events.ts';
import { EventRejected, type EventSink } from './event-sink.ts';
import { grpcPublisher } from './grpc-publisher.ts';
import { redrive } from './dead-letters.ts';
import { Relay } from './relay.ts';
import type { Writer } from '../writer.ts';

const poisoned = 'poison';

let books: RelayDatabase;
let writer: Writer;
let relay: Relay;
let metrics: Registry;
/** What the notifier was sent and took. */
let sent: Event[];
/** What it took, and derived from that, in its order. */
let taken: Event[];
/** The rests of logs that it was told of without their events. */
let passed: Stretch[];
/** How it fails over a call that holds a fatal event; null: it takes everything. */
let failing: Code | null;
let isFatal: (event: Event) => boolean;
/** Whether it knows that it may derive events. */
let isOld: boolean;

beforeEach(async () => {
  [sent, taken, passed, failing, isFatal, isOld] = [[], [], [], null, isPoisoned, false];
  books = await openRelayDatabase();
  const notifier = await startGrpcServer({
    services: [NotifierService],
    routes: (router) =>
      router.service(NotifierService, {
        ingest: ({ events, deriveUpdates }) => {
          if (failing !== null && events.some(isFatal)) throw new ConnectError('over a poisoned event', failing);
          sent.push(...events);
          const updatesDerived = deriveUpdates && !isOld;
          const told = updatesDerived ? events.flatMap(withBalanceEvents) : events;
          taken.push(...told.filter(({ id }, place) => told.findIndex((each) => each.id === id) === place));
          return { updatesDerived };
        },
        // Everybody listens.
        pass: ({ stretches }) => {
          passed.push(...stretches);
          return { wantedTenantIds: stretches.map(({ tenantId }) => tenantId) };
        },
      }),
    maxMessageBytes: 32 << 20,
  });
  books.ends.push(() => notifier.close());
  ({ relay, writer, metrics } = books.openReplica(grpcPublisher([`127.0.0.1:${notifier.port}`], 'token', 32 << 20)));
});

afterEach(async () => {
  failing = null;
  await books.end();
});

test('what is passed over comes with the time of its last event, by which a restored ledger is known', async () => {
  const tenant = await books.newTenant();
  relay.wake(tenant);
  const stretch = await until(() => Promise.resolve(passed.find(({ tenantId }) => tenantId === toId('tenant', tenant))));
  const { rows } = await books.owner.query<{ last: bigint }>(
    `select floor(extract(epoch from created_at) * 1000)::int8 as last from log where tenant_id = $1 and sequence = $2`,
    [tenant, stretch.through],
  );
  expect(stretch).toMatchObject({ after: 0n, createdMs: rows[0]!.last });
});

const isPoisoned = ({ data }: Event) => data.case === 'transactionPosted' && data.value.description === poisoned;

const post = (tenant: string, description = '') => postTo(writer, tenant, { description });
const idsOf = (events: Event[]) => events.map(({ id }) => id);
const first = (tenant: string) => [...new Set(idsOf(taken.filter(({ tenantId }) => tenantId === toId('tenant', tenant))))];
const letters = async () => (await books.owner.query(`select event_id, reason, published_at from relay_dead_letters`)).rows;

/** Resolves when everything of these tenants that is not left out has been taken, in order; fails if the order is another. */
async function allTaken(tenant: string, without: Event[] = []): Promise<void> {
  const expected = idsOf((await books.eventsOf(tenant)).filter(({ id }) => !idsOf(without).includes(id)));
  await until(() => Promise.resolve(first(tenant).length >= expected.length));
  expect(first(tenant)).toEqual(expected);
}

const mark = async (tenant: string) =>
  (await books.owner.query(`select sequence from relay_marks where tenant_id = $1`, [tenant])).rows[0]?.sequence;

test('an event that the notifier refuses becomes a dead letter, the rest goes on, and a redrive publishes it', async () => {
  failing = Code.InvalidArgument;
  const [sick, well] = [await books.newTenant(), await books.newTenant()];
  await Promise.all([post(sick), post(well), post(sick, poisoned), post(sick), post(well)]);
  await until(async () => (await letters()).length > 0);
  const refused = (await books.eventsOf(sick)).filter(isPoisoned);
  await allTaken(well);
  await allTaken(sick, refused);
  await until(async () => (await letters()).length === 1 && (await metricOf(metrics, 'ledger_relay_dead_letters')) === 1);
  const [letter] = await letters();
  expect(letter).toEqual({
    event_id: toUuid('evt', refused[0]?.id ?? ''),
    reason: '[invalid_argument] over a poisoned event',
    published_at: null,
  });
  expect(relay.state()).toEqual({ notifier: 'ok' });

  failing = null;
  const env = { ...bareEnvironment, DATABASE_URL: books.database.serviceUrl, MIGRATION_DATABASE_URL: books.database.ownerUrl };
  const cli = spawnSync(process.execPath, ['services/ledger/audit/cli.ts', 'redrive'], { cwd: root, env, encoding: 'utf8' });
  expect(cli.stdout).toMatch(/^tenant_.* transaction.posted: \[invalid_argument\] over a poisoned event\n1 dead letter due/);
  await until(async () => (await letters())[0]?.published_at);
  expect(first(sick).at(-1)).toBe(refused[0]?.id);
});

test('what is published counts when it was taken, and not what waits or was refused', async () => {
  failing = Code.Internal;
  const [sick, well] = [await books.newTenant(), await books.newTenant()];
  const count = () => metricOf(metrics, 'ledger_relay_published_total');
  await Promise.all([post(sick, poisoned), post(well)]);
  await allTaken(well);
  await until(async () => (await mark(well)) === 3n);
  const handedOver = () => taken.filter(({ type }) => type !== 'balance.updated').length;
  await until(async () => (await count()) === handedOver());
  failing = Code.InvalidArgument;
  await until(async () => (await letters()).length === 1);
  await until(async () => (await mark(sick)) === 3n && (await count()) === handedOver());
  expect(taken.some(isPoisoned)).toBe(false);
});

test('a notifier that is older than this is sent what it does not derive', async () => {
  isOld = true;
  const tenant = await books.newTenant();
  await post(tenant);
  await allTaken(tenant);
  // Away until several wait, which are told in one call.
  [failing, isFatal] = [Code.Unavailable, () => true];
  for (let number = 0; number < 3; number++) await post(tenant);
  failing = null;
  await allTaken(tenant);
  expect(taken.filter(({ type }) => type === 'balance.updated')).toHaveLength(8);
});

test('what a notifier has said that it derives is not sent to it', async () => {
  const tenant = await books.newTenant();
  await post(tenant);
  await allTaken(tenant);
  sent = [];
  await post(tenant);
  await allTaken(tenant);
  expect(sent.map(({ type }) => type)).toEqual(['transaction.posted']);
});

test('where an older notifier answers after one that derives, nothing is lost', async () => {
  const tenant = await books.newTenant();
  await post(tenant);
  await allTaken(tenant);
  isOld = true;
  for (let number = 0; number < 3; number++) await post(tenant);
  const expected = await books.eventsOf(tenant);
  await until(() => Promise.resolve(first(tenant).length >= expected.length));
  expect(first(tenant).sort()).toEqual(idsOf(expected).sort());
  taken = [];
  await post(tenant);
  await until(() => Promise.resolve(taken.length >= 3));
  expect(idsOf(taken)).toEqual(idsOf((await books.eventsOf(tenant)).slice(-3)));
});

test('dead letters of a tenant that an operator discards are not published, and others stay', async () => {
  failing = Code.InvalidArgument;
  const [sick, other] = [await books.newTenant(), await books.newTenant()];
  for (const tenant of [sick, sick, other]) await post(tenant, poisoned);
  await until(async () => (await letters()).length === 3);
  const env = { ...bareEnvironment, DATABASE_URL: books.database.serviceUrl, MIGRATION_DATABASE_URL: books.database.ownerUrl };
  const args = ['services/ledger/audit/cli.ts', 'discard', '--tenant', toId('tenant', sick)];
  const { stdout } = spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' });
  expect(stdout).toMatch(/^(tenant_.* transaction.posted: \[invalid_argument\] over a poisoned event\n){2}2 dead letters discarded\n$/);
  failing = null;
  await redrive(books.owner, undefined, () => undefined);
  await until(async () => (await letters())[0]?.published_at);
  expect(await letters()).toHaveLength(1);
  expect(first(sick)).toEqual(idsOf((await books.eventsOf(sick)).filter((event) => !isPoisoned(event))));
});

test('a dead letter over which the notifier fails when it is redriven keeps no other one back', async () => {
  failing = Code.InvalidArgument;
  const tenant = await books.newTenant();
  for (let number = 0; number < 3; number++) await post(tenant, poisoned);
  await until(async () => (await letters()).length === 3);
  const [stuck, ...others] = (await books.eventsOf(tenant)).filter(isPoisoned);
  failing = Code.Internal;
  isFatal = ({ id }) => id === stuck?.id;
  await redrive(books.owner, undefined, () => undefined);
  const waiting = async () => (await letters()).filter(({ published_at }) => published_at === null);
  await until(async () => (await waiting()).length === 1);
  expect(await waiting()).toMatchObject([{ event_id: toUuid('evt', stuck?.id ?? '') }]);
  expect(idsOf(taken)).toEqual(expect.arrayContaining(idsOf(others)));
});

/** Has a row of a tenant's log hold this payload; answers what it was. */
async function damage(tenant: string, sequence: bigint, payload: Buffer): Promise<Buffer> {
  const { rows } = await books.owner.query<{ was: Buffer }>(
    `with was as (select payload from log where tenant_id = $1 and sequence = $2)
      update log set payload = $3 from was where tenant_id = $1 and sequence = $2 returning was.payload as was`,
    [tenant, sequence, payload],
  );
  return rows[0]!.was;
}

const unreadable = Buffer.from('ffff', 'hex');

test('a row of one tenant’s log that can’t be read keeps nothing back but what lies behind it, until it can', async () => {
  [failing, isFatal] = [Code.Unavailable, () => true];
  const [sick, well] = [await books.newTenant(), await books.newTenant()];
  for (const tenant of [sick, sick, sick, well]) await post(tenant);
  const events = await books.eventsOf(sick);
  const was = await damage(sick, 4n, unreadable);
  // A round may have read the row before.
  isFatal = ({ tenantId, sequence }) => tenantId === toId('tenant', sick) && sequence > 3n;
  await allTaken(well);
  await until(async () => (await mark(sick)) === 3n);
  await post(well);
  await allTaken(well);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  failing = null;
  await damage(sick, 4n, was);
  await allTaken(sick);
  expect(first(sick)).toEqual(idsOf(events));
  expect(await letters()).toEqual([]);
});

test('a dead letter that can’t be read when it is redriven keeps no other one back', async () => {
  failing = Code.InvalidArgument;
  const tenant = await books.newTenant();
  for (let number = 0; number < 3; number++) await post(tenant, poisoned);
  await until(async () => (await letters()).length === 3);
  const [stuck, ...others] = (await books.eventsOf(tenant)).filter(isPoisoned);
  await damage(tenant, stuck?.sequence ?? 0n, unreadable);
  failing = null;
  await redrive(books.owner, undefined, () => undefined);
  await until(() => Promise.resolve(others.every(({ id }) => first(tenant).includes(id))));
  expect(await letters()).toContainEqual({
    event_id: toUuid('evt', stuck?.id ?? ''),
    reason: expect.stringContaining("it can't be read"),
    published_at: null,
  });
});

test('figures are told also while the database is away', async () => {
  const away = openPool('postgres://nobody:nothing@127.0.0.1:1/nowhere', { name: 'away', max: 1, logger });
  const figures = new Registry();
  new Relay({ pool: away, sink: null, logger, metrics: figures });
  expect(await figures.metrics()).toContain('ledger_relay_failures_total 0');
  await away.end();
});

test.each([
  ['INTERNAL', Code.Internal],
  ['UNKNOWN', Code.Unknown],
  ['DATA_LOSS', Code.DataLoss],
  // Somebody holds a row of his.
  ['ABORTED', Code.Aborted],
])('a notifier that fails over one tenant’s event with %s is asked again, and takes the others’ meanwhile', async (_, code) => {
  failing = code;
  const [sick, well] = [await books.newTenant(), await books.newTenant()];
  await Promise.all([post(well), post(sick, poisoned), post(sick), post(well)]);
  await allTaken(well);
  await post(well);
  await allTaken(well);
  // The mark stays where it is until the event is taken: nothing overtakes, nothing is given up.
  const stuck = (await books.eventsOf(sick)).find(isPoisoned);
  expect((await mark(sick)) < (stuck?.sequence ?? 0n)).toBe(true);
  expect(idsOf(taken)).not.toContain(stuck?.id);
  expect(await letters()).toEqual([]);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  failing = null;
  await allTaken(sick);
  expect(await letters()).toEqual([]);
});

test('an event that is refused before one that is not taken becomes a dead letter once, when the mark passes both', async () => {
  let [isSick, asked] = [true, 0];
  const late = (event: Event) => event.data.case === 'transactionPosted' && event.data.value.description === 'late';
  isFatal = (event) => {
    failing = late(event) ? Code.Internal : Code.InvalidArgument;
    return isPoisoned(event) || (late(event) && isSick && ++asked > 0);
  };
  failing = Code.Internal;
  const tenant = await books.newTenant();
  await Promise.all([post(tenant, poisoned), post(tenant, 'late')]);
  await until(() => Promise.resolve(asked > 3));
  expect(await letters()).toEqual([]);
  isSick = false;
  await allTaken(tenant, (await books.eventsOf(tenant)).filter(isPoisoned));
  await until(async () => (await letters()).length === 1);
  expect((await books.owner.query('select refusals from relay_dead_letters')).rows).toEqual([{ refusals: 1 }]);
  await until(async () => (await metricOf(metrics, 'ledger_relay_refused_total')) === 1);
});

test('an event that is refused is logged under the identifiers that callers know', async () => {
  await relay.close();
  const lines: string[] = [];
  const log = pino({}, { write: (line) => lines.push(line) });
  const publish = () => Promise.reject(new EventRejected('too large'));
  const sink: EventSink = { name: 'kafka', publish, probe: () => Promise.resolve(), close: () => Promise.resolve() };
  const refusing = new Relay({ pool: books.relayed, sink, pollMs: 50, logger: log, metrics: new Registry() });
  books.ends.push(() => refusing.close());
  const tenant = await books.newTenant();
  const logged = () => lines.flatMap((line) => (JSON.parse(line) as { letters?: unknown[] }).letters ?? []);
  await until(() => Promise.resolve(logged().length === 2));
  const events = await books.eventsOf(tenant);
  expect(logged()).toMatchObject(events.map(({ id }) => ({ tenant: toId('tenant', tenant), event_id: id })));
});

test('a tenant whose events are not taken is asked about no more often for posting more', async () => {
  failing = Code.Internal;
  let asked = 0;
  isFatal = (event) => isPoisoned(event) && ++asked > 0;
  const sick = await books.newTenant();
  await post(sick, poisoned);
  await until(() => Promise.resolve(asked > 0));
  // After a minute it is asked anew who listens, and then soon again.
  const end = performance.now() + 30_000;
  for (let number = 0; number < 300 && performance.now() < end; number++) await post(sick);
  // After 0.2 s, after 0.4 s, and so on.
  expect(asked).toBeLessThan(20);
  failing = null;
  await allTaken(sick);
});
