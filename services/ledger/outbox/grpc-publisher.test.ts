import { spawnSync } from 'node:child_process';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import { root } from '../../../deploy/local/plan.ts';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { NotifierService, type Stretch } from '../../../proto/gen/notifier/v1/notifier_pb.js';
import { startGrpcServer } from '../../../test/grpc-server.ts';
import { until } from '../../../test/notifier.ts';
import { metricOf, openRelayDatabase, post as postTo, type RelayDatabase } from '../../../test/relay.ts';
import { bareEnvironment } from '../../../test/run.ts';
import { toId, toUuid } from '../../platform/ids.ts';
import { withDerivedEvents } from '../../platform/derived-events.ts';
import { grpcPublisher } from './grpc-publisher.ts';
import { changeDeadLetters } from './dead-letters.ts';
import type { Relay } from './relay.ts';
import type { Writer } from '../writer.ts';

const poisoned = 'poison';

let database: RelayDatabase;
let writer: Writer;
let relay: Relay;
let metrics: Registry;
/** The events sent to the notifier. */
let sent: Event[];
/** The events it took, and those it derives from them, in order. */
let taken: Event[];
/** The ranges that were skipped. */
let skipped: Stretch[];
/** The code with which it fails a call that contains a fatal event; null: it takes everything. */
let failing: Code | null;
let isFatal: (event: Event) => boolean;

beforeEach(async () => {
  [sent, taken, skipped, failing, isFatal] = [[], [], [], null, isPoisoned];
  database = await openRelayDatabase();
  const notifier = await startGrpcServer({
    services: [NotifierService],
    routes: (router) =>
      router.service(NotifierService, {
        ingest: ({ events }) => {
          if (failing !== null && events.some(isFatal)) throw new ConnectError('over a poisoned event', failing);
          sent.push(...events);
          taken.push(...events.flatMap(withDerivedEvents));
          return { updatesDerived: true };
        },
        // Every tenant has a webhook.
        pass: ({ stretches }) => {
          skipped.push(...stretches);
          return { wantedTenantIds: stretches.map(({ tenantId }) => tenantId) };
        },
      }),
    maxMessageBytes: 32 << 20,
  });
  database.ends.push(() => notifier.close());
  ({ relay, writer, metrics } = database.openReplica(grpcPublisher([`127.0.0.1:${notifier.port}`], 'token', 32 << 20)));
});

afterEach(async () => {
  failing = null;
  await database.end();
});

test('a skipped range has the time of its last event, by which a restored ledger is recognized', async () => {
  const tenant = await database.newTenant();
  relay.wake(tenant);
  const stretch = await until(() => Promise.resolve(skipped.find(({ tenantId }) => tenantId === toId('tenant', tenant))));
  const { rows } = await database.owner.query<{ last: bigint }>(
    `select floor(extract(epoch from created_at) * 1000)::int8 as last from log where tenant_id = $1 and sequence = $2`,
    [tenant, stretch.through],
  );
  expect(stretch).toMatchObject({ after: 0n, createdMs: rows[0]!.last });
});

const isPoisoned = ({ data }: Event) => data.case === 'transactionPosted' && data.value.description === poisoned;

const post = (tenant: string, description = '') => postTo(writer, tenant, { description });
const idsOf = (events: Event[]) => events.map(({ id }) => id);
const first = (tenant: string) => [...new Set(idsOf(taken.filter(({ tenantId }) => tenantId === toId('tenant', tenant))))];
const deadLetters = async () => (await database.owner.query(`select event_id, reason, published_at from relay_dead_letters`)).rows;

/** What an operator's command prints. */
function cli(...args: string[]): string {
  const env = { ...bareEnvironment, MIGRATION_DATABASE_URL: database.database.ownerUrl };
  return spawnSync(process.execPath, ['services/ledger/cli.ts', ...args], { cwd: root, env, encoding: 'utf8' }).stdout;
}

/** Waits until all the tenant's events but some have been taken; fails where they are not in order. */
async function allTaken(tenant: string, without: Event[] = []): Promise<void> {
  const expected = idsOf((await database.eventsOf(tenant)).filter(({ id }) => !idsOf(without).includes(id)));
  await until(() => Promise.resolve(first(tenant).length >= expected.length));
  expect(first(tenant)).toEqual(expected);
}

const publishedOffset = async (tenant: string) =>
  (await database.owner.query(`select sequence from relay_marks where tenant_id = $1`, [tenant])).rows[0]?.sequence;

test('an event that the notifier rejects becomes a dead letter, the rest goes on, and a redrive publishes it', async () => {
  failing = Code.InvalidArgument;
  const [sick, well] = [await database.newTenant(), await database.newTenant()];
  await Promise.all([post(sick), post(well), post(sick, poisoned), post(sick), post(well)]);
  await until(async () => (await deadLetters()).length > 0);
  const rejected = (await database.eventsOf(sick)).filter(isPoisoned);
  await allTaken(well);
  await allTaken(sick, rejected);
  await until(async () => (await deadLetters()).length === 1 && (await metricOf(metrics, 'ledger_relay_dead_letters')) === 1);
  const [deadLetter] = await deadLetters();
  expect(deadLetter).toEqual({
    event_id: toUuid('evt', rejected[0]?.id ?? ''),
    reason: '[invalid_argument] over a poisoned event',
    published_at: null,
  });
  expect(relay.state()).toEqual({ notifier: 'ok' });
  // What the notifier derives is not sent, and what it rejects is not counted.
  expect(sent.filter(({ type, tenantId }) => type === 'balance.updated' && tenantId === toId('tenant', well))).toEqual([]);
  await until(async () => (await metricOf(metrics, 'ledger_relay_published_total')) === sent.length);

  failing = null;
  expect(cli('redrive')).toMatch(/^tenant_.* transaction.posted: \[invalid_argument\] over a poisoned event\n1 dead letter due/);
  await until(async () => (await deadLetters())[0]?.published_at);
  expect(first(sick).at(-1)).toBe(rejected[0]?.id);
});

test('discarded dead letters are not published, those of another tenant stay', async () => {
  failing = Code.InvalidArgument;
  const [sick, other] = [await database.newTenant(), await database.newTenant()];
  for (const tenant of [sick, sick, other]) await post(tenant, poisoned);
  await until(async () => (await deadLetters()).length === 3);
  expect(cli('discard', '--tenant', toId('tenant', sick))).toMatch(
    /^(tenant_.* transaction.posted: \[invalid_argument\] over a poisoned event\n){2}2 dead letters discarded\n$/,
  );
  failing = null;
  await changeDeadLetters(database.owner, 'redrive', undefined);
  await until(async () => (await deadLetters())[0]?.published_at);
  expect(await deadLetters()).toHaveLength(1);
  expect(first(sick)).toEqual(idsOf((await database.eventsOf(sick)).filter((event) => !isPoisoned(event))));
});

test('a redriven dead letter that the notifier can’t take keeps no other waiting', async () => {
  failing = Code.InvalidArgument;
  const tenant = await database.newTenant();
  for (let number = 0; number < 3; number++) await post(tenant, poisoned);
  await until(async () => (await deadLetters()).length === 3);
  const [stuck, ...others] = (await database.eventsOf(tenant)).filter(isPoisoned);
  failing = Code.Internal;
  isFatal = ({ id }) => id === stuck?.id;
  await changeDeadLetters(database.owner, 'redrive', undefined);
  const waiting = async () => (await deadLetters()).filter(({ published_at }) => published_at === null);
  await until(async () => (await waiting()).length === 1);
  expect(await waiting()).toMatchObject([{ event_id: toUuid('evt', stuck?.id ?? '') }]);
  expect(idsOf(taken)).toEqual(expect.arrayContaining(idsOf(others)));
});

/** Overwrites the payload of an event and returns what it was. */
async function damage(tenant: string, sequence: bigint, payload: Buffer): Promise<Buffer> {
  const { rows } = await database.owner.query<{ was: Buffer }>(
    `with was as (select payload from log where tenant_id = $1 and sequence = $2)
      update log set payload = $3 from was where tenant_id = $1 and sequence = $2 returning was.payload as was`,
    [tenant, sequence, payload],
  );
  return rows[0]!.was;
}

const unreadable = Buffer.from('ffff', 'hex');

test('an event that can’t be decoded keeps only the events after it waiting, until it can', async () => {
  [failing, isFatal] = [Code.Unavailable, () => true];
  const [sick, well] = [await database.newTenant(), await database.newTenant()];
  for (const tenant of [sick, sick, sick, well]) await post(tenant);
  const events = await database.eventsOf(sick);
  const was = await damage(sick, 4n, unreadable);
  // A batch may have read the event before it was damaged.
  isFatal = ({ tenantId, sequence }) => tenantId === toId('tenant', sick) && sequence > 3n;
  await allTaken(well);
  await until(async () => (await publishedOffset(sick)) === 3n);
  await post(well);
  await allTaken(well);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  failing = null;
  await damage(sick, 4n, was);
  await allTaken(sick);
  expect(first(sick)).toEqual(idsOf(events));
  expect(await deadLetters()).toEqual([]);
});

test.each([
  ['INTERNAL', Code.Internal],
  ['UNKNOWN', Code.Unknown],
  ['DATA_LOSS', Code.DataLoss],
  // A row of the tenant is locked.
  ['ABORTED', Code.Aborted],
])('a notifier that fails over one tenant’s event with %s takes the others’, and is tried again', async (_, code) => {
  failing = code;
  const [sick, well] = [await database.newTenant(), await database.newTenant()];
  await Promise.all([post(well), post(sick, poisoned), post(sick), post(well)]);
  await allTaken(well);
  await post(well);
  await allTaken(well);
  // Nothing overtakes the event, and nothing is lost.
  const stuck = (await database.eventsOf(sick)).find(isPoisoned);
  expect((await publishedOffset(sick)) < (stuck?.sequence ?? 0n)).toBe(true);
  expect(idsOf(taken)).not.toContain(stuck?.id);
  expect(await deadLetters()).toEqual([]);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  failing = null;
  await allTaken(sick);
  expect(await deadLetters()).toEqual([]);
});

test('a rejected event before a deferred one becomes one dead letter, when the published offset passes both', async () => {
  let [isSick, asked] = [true, 0];
  const late = (event: Event) => event.data.case === 'transactionPosted' && event.data.value.description === 'late';
  isFatal = (event) => {
    failing = late(event) ? Code.Internal : Code.InvalidArgument;
    return isPoisoned(event) || (late(event) && isSick && ++asked > 0);
  };
  failing = Code.Internal;
  const tenant = await database.newTenant();
  await Promise.all([post(tenant, poisoned), post(tenant, 'late')]);
  await until(() => Promise.resolve(asked > 3));
  expect(await deadLetters()).toEqual([]);
  isSick = false;
  await allTaken(tenant, (await database.eventsOf(tenant)).filter(isPoisoned));
  await until(async () => (await deadLetters()).length === 1);
  expect((await database.owner.query('select refusals from relay_dead_letters')).rows).toEqual([{ refusals: 1 }]);
  await until(async () => (await metricOf(metrics, 'ledger_relay_rejected_total')) === 1);
});
