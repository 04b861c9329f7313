// What PostgreSQL refuses of one tenant, for a page that can't be read, say, keeps him waiting and nobody else; what it refuses of all is told as that.
import { setTimeout as pause } from 'node:timers/promises';
import pino from 'pino';
import { Registry } from 'prom-client';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { unreadable, until } from '../../../test/notifier.ts';
import { metricOf, openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import { toId } from '../../platform/ids.ts';
import { EventRejected, EventsDeferred, type EventSink, type UnpublishedRange } from './event-sink.ts';
import { redrive } from './dead-letters.ts';
import { Relay } from './relay.ts';

interface Line {
  level: number;
  msg: string;
  time: number;
  tenant?: string;
  err?: { message: string };
}

let books: RelayDatabase;
/** What was published, in this order. */
let events: Event[];
/** Whether the other side refuses every second event of a log. */
let isRefusing: boolean;
let lines: Line[];

const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line) as Line) });

const sink: EventSink = {
  name: 'notifier',
  publish: (more) => {
    if (isRefusing && more.some(({ sequence }) => sequence === 2n)) return Promise.reject(new EventRejected('not this one'));
    return Promise.resolve(void events.push(...more));
  },
  probe: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

beforeEach(async () => {
  [events, lines, isRefusing] = [[], [], false];
  books = await openRelayDatabase();
});

afterEach(() => books.end());

const newTenants = (count: number): Promise<string[]> => Promise.all(Array.from({ length: count }, () => books.newTenant()));

const eventsOf = (tenant: string): Event[] => events.filter(({ tenantId }) => tenantId === toId('tenant', tenant));

const toldOf = (message: string): Line[] => lines.filter(({ msg }) => msg === message);

/** A trigger that refuses every row of a tenant in which something holds. */
const refusing = (table: string, tenant: string, condition: string): string => `
  create function refuse() returns trigger language plpgsql as $$
    begin
      if new.tenant_id = '${tenant}' and ${condition} then raise exception 'invalid page' using errcode = 'XX001'; end if;
      return new;
    end $$;
  create trigger refused before insert or update on ${table} for each row execute function refuse()`;

test('a tenant of whom an event can not be read keeps nobody else waiting, is tried less and less often, and is published when it can', async () => {
  const tenants = await newTenants(7);
  const damaged = tenants[3]!;
  await books.owner.query(unreadable('log', damaged, 'actor'));
  const { relay, metrics } = books.openReplica(sink, logger);
  const others = tenants.filter((tenant) => tenant !== damaged);
  await until(() => Promise.resolve(others.every((tenant) => eventsOf(tenant).length === 2)));
  const tries = () => toldOf('events of a tenant were not taken');
  await until(() => {
    // What he posts meanwhile is no reason to try sooner.
    relay.wake(damaged);
    return Promise.resolve(tries().length > 3);
  });
  const pauses = tries().map(({ time }, place, all) => (place === 0 ? Infinity : time - all[place - 1]!.time));
  expect(pauses.slice(1, 4).map((pause, place) => pause >= 190 * 2 ** place)).toEqual([true, true, true]);
  expect(new Set(tries().map(({ tenant }) => tenant))).toEqual(new Set([toId('tenant', damaged)]));
  // Nobody paused for him.
  expect(toldOf('the relay could not publish')).toEqual([]);
  expect(await metricOf(metrics, 'ledger_relay_failures_total')).toBeGreaterThan(3);
  expect(eventsOf(damaged)).toEqual([]);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  await books.owner.query('drop policy damaged on log');
  await books.published();
  expect(eventsOf(damaged)).toHaveLength(2);
});

test('a tenant of whom a mark can not be raised costs the others neither time nor a repetition', async () => {
  const tenants = await newTenants(7);
  const damaged = tenants[3]!;
  await books.owner.query(refusing('relay_marks', damaged, 'new.sequence > old.sequence'));
  // Whoever waited for a claim to run out would wait for good.
  const letGo = books.keepClaims();
  const { writer, relay } = books.openReplica(sink, logger);
  const others = tenants.filter((tenant) => tenant !== damaged);
  await until(() => Promise.resolve(toldOf('events of a tenant were not taken').length > 0));
  for (const tenant of others) await post(writer, tenant);
  await until(() => Promise.resolve(others.every((tenant) => eventsOf(tenant).length === 5)));
  expect(new Set(eventsOf(damaged).map(({ sequence }) => sequence))).toEqual(new Set([1n, 2n]));
  expect(relay.state()).toEqual({ notifier: 'ok' });
  await books.owner.query('drop trigger refused on relay_marks');
  letGo();
  await books.owner.query('update relay_marks set claimed_until = clock_timestamp() where claim_id is not null');
  await books.published();
  expect(others.map((tenant) => eventsOf(tenant).length)).toEqual(others.map(() => 5));
});

test('what a tenant posts while his events are not taken is no reason to try sooner', async () => {
  const tenant = await books.newTenant();
  const tries: number[] = [];
  const publish = () => {
    tries.push(performance.now());
    relay.wake(tenant);
    return Promise.reject(new EventsDeferred('not now'));
  };
  const { relay } = books.openReplica({ ...sink, publish }, logger);
  await until(() => Promise.resolve(tries.length > 3));
  const pauses = tries.slice(1).map((time, place) => time - tries[place]!);
  expect(pauses.slice(0, 3).map((pause, place) => pause >= 190 * 2 ** place)).toEqual([true, true, true]);
});

test('a tenant whose events are not taken keeps others back once: from then on he comes alone, until something of his is taken', async () => {
  const tenants = await newTenants(6);
  const sick = toId('tenant', tenants[2]!);
  let isSick = true;
  const asked: string[][] = [];
  const publish = (more: Event[]) => {
    const concerned = [...new Set(more.map(({ tenantId }) => tenantId))];
    asked.push(concerned);
    return isSick && concerned.includes(sick) ? Promise.reject(new EventsDeferred('not his')) : sink.publish(more);
  };
  const { relay, writer } = books.openReplica({ ...sink, publish }, logger);
  await until(() => Promise.resolve(toldOf('events of a tenant were not taken').length > 0));
  const before = asked.length;
  for (let turn = 1; turn <= 20; turn++) {
    for (const tenant of tenants) await post(writer, tenant);
    await until(() => Promise.resolve(eventsOf(tenants[0]!).length === 2 + 3 * turn));
  }
  await until(() => Promise.resolve(toldOf('events of a tenant were not taken').length > 2));
  const withHim = asked.slice(before).filter((each) => each.includes(sick));
  expect(withHim.length).toBeGreaterThan(1);
  expect(withHim.filter((each) => each.length > 1)).toEqual([]);
  isSick = false;
  await books.published();
  expect(relay.state()).toEqual({ notifier: 'ok' });
  const others = asked.length;
  await until(async () => {
    await Promise.all(tenants.map((tenant) => post(writer, tenant)));
    await books.published();
    return asked.slice(others).some((each) => each.includes(sick) && each.length > 1);
  });
});

test('where the other side says whose events it has not taken, the marks of all others rise, and nobody is published twice', async () => {
  const tenants = await newTenants(6);
  const late = new Set(tenants.slice(2, 4).map((tenant) => toId('tenant', tenant)));
  let isWell = false;
  const publish = async (more: Event[]) => {
    const isLate = ({ tenantId }: Event) => !isWell && late.has(tenantId);
    await sink.publish(more.filter((event) => !isLate(event)));
    const untaken = new Set(more.filter(isLate).map(({ tenantId }) => tenantId));
    if (untaken.size > 0) throw new EventsDeferred('not theirs', untaken);
  };
  const { relay } = books.openReplica({ ...sink, publish }, logger);
  await until(() => Promise.resolve(toldOf('events of tenants were not taken').length > 1));
  await until(() => Promise.resolve(tenants.filter((tenant) => eventsOf(tenant).length > 0).length === 4));
  expect(relay.state()).toEqual({ notifier: 'ok' });
  isWell = true;
  await books.published();
  expect(tenants.map((tenant) => eventsOf(tenant).map(({ sequence }) => sequence))).toEqual(tenants.map(() => [1n, 2n]));
});

test('why the other side is away is told where there is nothing to publish, too, once', async () => {
  let isAway = true;
  let probes = 0;
  const probe = () => {
    probes++;
    return isAway ? Promise.reject(new Error(`no connection to number ${probes % 2}`)) : Promise.resolve();
  };
  const { relay } = books.openReplica({ ...sink, probe }, logger);
  const told = () => toldOf('the relay can reach nobody').map(({ err }) => err?.message);
  const looked = async () => {
    const before = probes;
    await until(() => Promise.resolve(probes > before + 5));
  };
  await looked();
  expect(told()).toEqual([expect.stringMatching(/^no connection to number 1/)]);
  isAway = false;
  await until(() => Promise.resolve(relay.state()['notifier'] === 'ok'));
});

test('of whom it can not be read where his events end, nobody in his round is published twice', async () => {
  const [listening, damaged] = (await newTenants(2)) as [string, string];
  const pass = (stretches: UnpublishedRange[]) =>
    Promise.resolve(new Set(stretches.map(({ tenant }) => tenant).filter((each) => each === listening)));
  // It looks for leftovers when it starts, and then no more.
  const relay = new Relay({ pool: books.relayed, sink: { ...sink, pass }, pollMs: 3_600_000, logger, metrics: new Registry() });
  books.ends.push(() => relay.close());
  await books.published();
  const { writer } = books.openReplica(null, logger);
  for (const tenant of [listening, damaged]) await post(writer, tenant);
  await books.owner.query(unreadable('heads', damaged, 'hash'));
  for (const tenant of [listening, damaged]) relay.wake(tenant);
  await until(() => Promise.resolve(toldOf('events of a tenant were not taken').length > 0));
  await until(() => Promise.resolve(eventsOf(listening).length >= 5));
  expect(eventsOf(listening).map(({ sequence, part }) => `${sequence}.${part}`)).toEqual(['1.0', '2.0', '3.0', '3.1', '3.2']);
  await books.owner.query('drop policy damaged on heads');
});

test('an other side that takes nothing, and answers whoever asks anew, as a Kafka that throttles, is told as away until it does', async () => {
  const tenant = await books.newTenant();
  const held = Promise.withResolvers<void>();
  // The first answer is that it failed, which is one.
  let asked = 0;
  const publish = (published: Event[]) =>
    asked++ === 0 ? Promise.reject(new Error('not now')) : held.promise.then(() => sink.publish(published));
  const relay = new Relay({ pool: books.relayed, sink: { ...sink, publish }, pollMs: 20, waitingMs: 300, logger, metrics: new Registry() });
  books.ends.push(() => relay.close());
  await until(() => Promise.resolve(relay.state()['notifier'] === 'away'));
  await until(() => Promise.resolve(toldOf('the relay waits for an answer of notifier').length > 0));
  // Some looks later it is still told once.
  await pause(200);
  held.resolve();
  await until(() => Promise.resolve(relay.state()['notifier'] === 'ok'));
  await books.published();
  expect(eventsOf(tenant)).not.toEqual([]);
  expect(toldOf('the relay waits for an answer of notifier')).toHaveLength(1);
});

test('a tenant of whom the head can not be read does not keep what others have left behind', async () => {
  const tenants = await newTenants(7);
  const damaged = tenants[3]!;
  await books.owner.query(unreadable('heads', damaged, 'hash'));
  const { relay } = books.openReplica(sink, logger);
  // His, too: they are in the log.
  await until(() => Promise.resolve(tenants.every((tenant) => eventsOf(tenant).length === 2)));
  expect(relay.state()).toEqual({ notifier: 'ok' });
  await books.owner.query('drop policy damaged on heads');
});

test('a dead letter of which the event can not be read is refused again, and those of others are published', async () => {
  const tenants = await newTenants(4);
  const damaged = tenants[1]!;
  isRefusing = true;
  books.openReplica(sink, logger);
  await books.published();
  isRefusing = false;
  events.splice(0);
  await books.owner.query(unreadable('log', damaged, 'actor'));
  await redrive(books.owner, undefined, () => undefined);
  await until(() => Promise.resolve(tenants.every((tenant) => tenant === damaged || eventsOf(tenant).length === 1)));
  const letter = async () => {
    const text = 'select due, published_at, refusals, reason from relay_dead_letters where tenant_id = $1';
    const { rows } = await books.owner.query<{ due: boolean; reason: string }>(text, [damaged]);
    return rows[0]!;
  };
  await until(async () => !(await letter()).due);
  expect(await letter()).toEqual({ due: false, published_at: null, refusals: 2, reason: "it can't be read: division by zero" });
  await books.owner.query('drop policy damaged on log');
  // As of before the clock was set back.
  await books.owner.query(`update relay_dead_letters set claimed_until = clock_timestamp() + interval '1 hour' where published_at is null`);
  await redrive(books.owner, undefined, () => undefined);
  await until(() => Promise.resolve(eventsOf(damaged).length === 1));
});

test('a posting that is refused with all that it stands for counts as that, beside others and beside one who is put off', async () => {
  const [bad, unraised, ...others] = (await newTenants(6)) as [string, string, ...string[]];
  const first = books.openReplica(sink, logger);
  await books.published();
  await first.end();
  const { writer, end } = books.openReplica(null, logger);
  for (const tenant of [bad, unraised, ...others]) await post(writer, tenant);
  await end();
  await books.owner.query(refusing('relay_marks', unraised, 'new.sequence > old.sequence'));
  const publish = (more: Event[]) => {
    if (more.some(({ tenantId }) => tenantId === toId('tenant', bad))) return Promise.reject(new EventRejected('not his'));
    return sink.publish(more);
  };
  const { metrics } = books.openReplica({ ...sink, derives: true, publish }, logger);
  await until(() => Promise.resolve(toldOf('events of a tenant were not taken').length > 0));
  await until(async () => (await metricOf(metrics, 'ledger_relay_refused_total')) === 3);
  await until(async () => (await metricOf(metrics, 'ledger_relay_published_total')) === others.length);
  await until(async () => (await metricOf(metrics, 'ledger_relay_dead_letters')) === 3);
  expect(toldOf('events were refused')).toHaveLength(1);
  expect(toldOf('the relay could not publish')).toEqual([]);
  await books.owner.query('drop trigger refused on relay_marks');
});

test('a dead letter of which the end can not be written down keeps those behind it no longer waiting', async () => {
  const tenants = (await newTenants(4)).toSorted();
  const [damaged, ...others] = tenants as [string, ...string[]];
  isRefusing = true;
  const { metrics } = books.openReplica(sink, logger);
  await books.published();
  isRefusing = false;
  events.splice(0);
  await books.owner.query(refusing('relay_dead_letters', damaged, 'new.published_at is not null'));
  // A figure of its own: that of the lag can't be told.
  await books.owner.query(unreadable('heads', damaged, 'hash'));
  await redrive(books.owner, undefined, () => undefined);
  await until(() => Promise.resolve(others.every((tenant) => eventsOf(tenant).length === 1)));
  await until(async () => (await metricOf(metrics, 'ledger_relay_dead_letters')) === 1);
  expect(toldOf('what came of a dead letter could not be written down').length).toBeGreaterThan(0);
  await books.owner.query('drop policy damaged on heads');
  await books.owner.query('drop trigger refused on relay_dead_letters');
});

test('dead letters that take their time keep nothing waiting that others have left behind', async () => {
  const [tenant, other] = (await newTenants(2)) as [string, string];
  isRefusing = true;
  const first = books.openReplica(sink, logger);
  await books.published();
  await first.end();
  isRefusing = false;
  const letter = Promise.withResolvers<undefined>();
  let asked = 0;
  const publish = async (more: Event[]) => {
    if (more.some(({ sequence }) => sequence === 2n)) {
      asked++;
      await letter.promise;
    }
    await sink.publish(more);
  };
  books.openReplica({ ...sink, publish }, logger);
  await redrive(books.owner, undefined, () => undefined);
  await until(() => Promise.resolve(asked > 0));
  const { writer } = books.openReplica(null, logger);
  for (const each of [tenant, other]) await post(writer, each);
  await until(() => Promise.resolve(events.filter(({ sequence }) => sequence === 3n).length === 6));
  letter.resolve(undefined);
  await until(() => Promise.resolve(events.filter(({ sequence }) => sequence === 2n).length === 2));
});

test('a dead letter that can not be read is told of, and is no sign that the other side is away', async () => {
  const [damaged] = (await newTenants(2)) as [string, string];
  isRefusing = true;
  const { relay } = books.openReplica(sink, logger);
  await books.published();
  isRefusing = false;
  await books.owner.query(unreadable('relay_dead_letters', damaged, 'reason'));
  await redrive(books.owner, undefined, () => undefined);
  const failures = () => toldOf('dead letters could not be published');
  await until(() => Promise.resolve(failures().length > 0));
  const [{ time }] = failures() as [Line];
  // For longer than a silence of the other side would be taken for its absence.
  await until(() => Promise.resolve(failures().at(-1)!.time - time > 6_000));
  expect(relay.state()).toEqual({ notifier: 'ok' });
  expect(lines.filter(({ msg, level }) => msg === 'dead letters could not be published' && level > 20)).toHaveLength(1);
  await books.owner.query('drop policy damaged on relay_dead_letters');
});

test('a right that is missing is told as what keeps everybody waiting, not as a tenant at a time', async () => {
  const tenants = await newTenants(7);
  const role = books.owner.escapeIdentifier(new URL(books.database.serviceUrl).username);
  await books.owner.query(`revoke select on log from ${role}`);
  const { relay, metrics } = books.openReplica(sink, logger);
  await until(async () => (await metricOf(metrics, 'ledger_relay_failures_total')) > 3);
  // Not for the other side, which is as well as it was.
  await until(() => Promise.resolve(relay.state()['notifier'] === 'ok'));
  expect(relay.state()).toEqual({ notifier: 'ok', relay: 'waits for postgresql' });
  expect(toldOf('the relay could not publish')).toHaveLength(1);
  expect(toldOf('events of a tenant were not taken')).toEqual([]);
  await books.owner.query(`grant select on log to ${role}`);
  await books.published();
  await until(() => Promise.resolve(relay.state()['relay'] === undefined));
  expect(tenants.map((tenant) => eventsOf(tenant).length)).toEqual(tenants.map(() => 2));
});
