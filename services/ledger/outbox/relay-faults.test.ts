// A failure of one tenant keeps that tenant waiting and no other; a failure of all is reported as one.
import pino from 'pino';
import { Registry } from 'prom-client';
import type { Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import { unreadable, until } from '../../../test/notifier.ts';
import { metricOf, openRelayDatabase, post, type RelayDatabase } from '../../../test/relay.ts';
import { toId } from '../../platform/ids.ts';
import { changeDeadLetters } from './dead-letters.ts';
import { EventRejected, EventsDeferred, type EventSink } from './event-sink.ts';
import { Relay } from './relay.ts';

interface Line {
  level: number;
  msg: string;
  time: number;
  tenants?: string[];
}

let database: RelayDatabase;
/** What was published, in this order. */
let events: Event[];
/** Whether the sink rejects the second event of each log. */
let isRejecting: boolean;
let lines: Line[];

const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line) as Line) });

const sink: EventSink = {
  name: 'notifier',
  publish: (more) => {
    if (isRejecting && more.some(({ sequence }) => sequence === 2n)) return Promise.reject(new EventRejected('not this one'));
    return Promise.resolve(void events.push(...more));
  },
  probe: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

beforeEach(async () => {
  [events, lines, isRejecting] = [[], [], false];
  database = await openRelayDatabase();
});

afterEach(() => database.end());

const newTenants = (count: number): Promise<string[]> => Promise.all(Array.from({ length: count }, () => database.newTenant()));
const eventsOf = (tenant: string): Event[] => events.filter(({ tenantId }) => tenantId === toId('tenant', tenant));
const linesOf = (message: string): Line[] => lines.filter(({ msg }) => msg === message);
const untilTrue = (condition: () => boolean) => until(() => Promise.resolve(condition()));
const backedOff = () => linesOf('events of some tenants not published');

test('a tenant whose log can not be read keeps no other waiting, is tried less and less often, and is published when it can', async () => {
  const tenants = await newTenants(7);
  const damaged = tenants[3]!;
  await database.owner.query(unreadable('log', damaged, 'actor'));
  const { relay, metrics } = database.openReplica(sink, logger);
  const others = tenants.filter((tenant) => tenant !== damaged);
  await untilTrue(() => others.every((tenant) => eventsOf(tenant).length === 2));
  await untilTrue(() => {
    // More events of the tenant are no reason to try sooner.
    relay.wake(damaged);
    return backedOff().length > 3;
  });
  const pauses = backedOff().map(({ time }, place, all) => time - (all[place - 1]?.time ?? 0));
  expect(pauses.slice(1, 4).map((pause, place) => pause >= 190 * 2 ** place)).toEqual([true, true, true]);
  expect(new Set(backedOff().flatMap(({ tenants }) => tenants))).toEqual(new Set([toId('tenant', damaged)]));
  expect(linesOf('event publication failed')).toEqual([]);
  expect(await metricOf(metrics, 'ledger_relay_failures_total')).toBeGreaterThan(3);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  await database.owner.query('drop policy damaged on log');
  await database.published();
  expect(eventsOf(damaged)).toHaveLength(2);
});

test('a tenant whose published offset can not advance costs the others neither time nor a repetition', async () => {
  const tenants = await newTenants(7);
  const damaged = tenants[3]!;
  await database.owner.query(`
    create function refuse() returns trigger language plpgsql as $$
      begin
        if new.tenant_id = '${damaged}' and new.sequence > old.sequence then raise exception 'invalid page' using errcode = 'XX001'; end if;
        return new;
      end $$;
    create trigger refused before update on relay_marks for each row execute function refuse()`);
  const expire = database.keepClaims();
  const { writer, relay } = database.openReplica(sink, logger);
  const others = tenants.filter((tenant) => tenant !== damaged);
  await untilTrue(() => backedOff().length > 0);
  for (const tenant of others) await post(writer, tenant);
  await untilTrue(() => others.every((tenant) => eventsOf(tenant).length === 5));
  expect(relay.state()).toEqual({ notifier: 'ok' });
  await database.owner.query('drop trigger refused on relay_marks');
  expire();
  await database.published();
  expect(others.map((tenant) => eventsOf(tenant).length)).toEqual(others.map(() => 5));
});

test('a tenant whose events are deferred fails one shared batch, then has batches of its own until it succeeds', async () => {
  const tenants = await newTenants(6);
  const slow = toId('tenant', tenants[2]!);
  let isFailing = true;
  const batches: string[][] = [];
  const publish = (more: Event[]) => {
    const ids = [...new Set(more.map(({ tenantId }) => tenantId))];
    batches.push(ids);
    return isFailing && ids.includes(slow) ? Promise.reject(new EventsDeferred('not now')) : sink.publish(more);
  };
  const { relay, writer } = database.openReplica({ ...sink, publish }, logger);
  await untilTrue(() => backedOff().length > 0);
  const before = batches.length;
  for (let turn = 1; turn <= 10; turn++) {
    for (const tenant of tenants) await post(writer, tenant);
    await untilTrue(() => eventsOf(tenants[0]!).length === 2 + 3 * turn);
  }
  await untilTrue(() => backedOff().length > 2);
  expect(batches.slice(before).filter((ids) => ids.includes(slow) && ids.length > 1)).toEqual([]);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  isFailing = false;
  await database.published();
  const later = batches.length;
  await until(async () => {
    await Promise.all(tenants.map((tenant) => post(writer, tenant)));
    await database.published();
    return batches.slice(later).some((ids) => ids.includes(slow) && ids.length > 1);
  });
});

test('a slow tenant that was isolated keeps no other waiting', async () => {
  const [slow, other] = (await newTenants(2)) as [string, string];
  const answer = Promise.withResolvers<undefined>();
  let isIsolated = false;
  const publish = async (more: Event[]) => {
    if (!more.some(({ tenantId }) => tenantId === toId('tenant', slow))) return sink.publish(more);
    if (more.some(({ tenantId }) => tenantId !== toId('tenant', slow))) throw new EventsDeferred('not now');
    isIsolated = true;
    await answer.promise;
    return sink.publish(more);
  };
  const { writer } = database.openReplica({ ...sink, publish }, logger);
  await untilTrue(() => isIsolated);
  await post(writer, other);
  await untilTrue(() => eventsOf(other).some(({ sequence }) => sequence === 3n));
  expect(eventsOf(slow)).toEqual([]);
  answer.resolve(undefined);
  await database.published();
});

test('where the sink names the deferred tenants, all others advance, and none is published twice', async () => {
  const tenants = await newTenants(6);
  const deferred = new Set(tenants.slice(2, 4).map((tenant) => toId('tenant', tenant)));
  let isWell = false;
  const publish = async (more: Event[]) => {
    const isDeferred = ({ tenantId }: Event) => !isWell && deferred.has(tenantId);
    await sink.publish(more.filter((event) => !isDeferred(event)));
    const ids = new Set(more.filter(isDeferred).map(({ tenantId }) => tenantId));
    if (ids.size > 0) throw new EventsDeferred('not these', ids);
  };
  const { relay } = database.openReplica({ ...sink, publish }, logger);
  await untilTrue(() => backedOff().length > 1);
  await untilTrue(() => tenants.filter((tenant) => eventsOf(tenant).length > 0).length === 4);
  expect(relay.state()).toEqual({ notifier: 'ok' });
  isWell = true;
  await database.published();
  expect(tenants.map((tenant) => eventsOf(tenant).map(({ sequence }) => sequence))).toEqual(tenants.map(() => [1n, 2n]));
});

test('an unavailable sink is logged once, also where there is nothing to publish', async () => {
  let isAway = true;
  let probes = 0;
  const probe = () => {
    probes++;
    return isAway ? Promise.reject(new Error('no connection')) : Promise.resolve();
  };
  const { relay } = database.openReplica({ ...sink, probe }, logger);
  await untilTrue(() => probes > 5);
  expect(linesOf('event publication failed').filter(({ level }) => level > 20)).toHaveLength(1);
  expect(relay.state()).toEqual({ notifier: 'away' });
  isAway = false;
  await untilTrue(() => relay.state()['notifier'] === 'ok');
});

test('a sink that answers probes and no events, as a Kafka that throttles, is away until it does', async () => {
  const tenant = await database.newTenant();
  const answer = Promise.withResolvers<undefined>();
  const publish = async (more: Event[]) => {
    await answer.promise;
    await sink.publish(more);
  };
  const options = { pool: database.relayed, sink: { ...sink, publish }, logger, metrics: new Registry() };
  const relay = new Relay({ ...options, pollMs: 20, timeoutMs: 300 });
  database.ends.push(() => relay.close());
  await untilTrue(() => relay.state()['notifier'] === 'ok');
  await untilTrue(() => relay.state()['notifier'] === 'away');
  answer.resolve(undefined);
  await untilTrue(() => relay.state()['notifier'] === 'ok');
  await database.published();
  expect(eventsOf(tenant)).toHaveLength(2);
});

test('a tenant whose head can not be read keeps nothing waiting that other processes left behind', async () => {
  const tenants = await newTenants(7);
  const damaged = tenants[3]!;
  await database.owner.query(unreadable('heads', damaged, 'hash'));
  const { relay } = database.openReplica(sink, logger);
  // Its own events, too: they are in the log.
  await untilTrue(() => tenants.every((tenant) => eventsOf(tenant).length === 2));
  expect(relay.state()).toEqual({ notifier: 'ok' });
  await database.owner.query('drop policy damaged on heads');
});

test('slow dead letters keep nothing waiting that other processes left behind', async () => {
  const [tenant, other] = (await newTenants(2)) as [string, string];
  isRejecting = true;
  const first = database.openReplica(sink, logger);
  await database.published();
  await first.end();
  isRejecting = false;
  const answer = Promise.withResolvers<undefined>();
  let isAsked = false;
  const publish = async (more: Event[]) => {
    if (more.some(({ sequence }) => sequence === 2n)) {
      isAsked = true;
      await answer.promise;
    }
    await sink.publish(more);
  };
  database.openReplica({ ...sink, publish }, logger);
  await changeDeadLetters(database.owner, 'redrive', undefined);
  await untilTrue(() => isAsked);
  const { writer } = database.openReplica(null, logger);
  for (const each of [tenant, other]) await post(writer, each);
  await untilTrue(() => events.filter(({ sequence }) => sequence === 3n).length === 6);
  answer.resolve(undefined);
  await untilTrue(() => events.filter(({ sequence }) => sequence === 2n).length === 2);
});

test('a dead letter whose event can not be read is rejected again, and those of other tenants are published', async () => {
  const tenants = await newTenants(4);
  const damaged = tenants[1]!;
  isRejecting = true;
  database.openReplica(sink, logger);
  await database.published();
  isRejecting = false;
  events.splice(0);
  await database.owner.query(unreadable('log', damaged, 'actor'));
  await changeDeadLetters(database.owner, 'redrive', undefined);
  await untilTrue(() => tenants.every((tenant) => tenant === damaged || eventsOf(tenant).length === 1));
  const text = 'select due, published_at, refusals, reason from relay_dead_letters where tenant_id = $1';
  const deadLetter = async () => (await database.owner.query<{ due: boolean }>(text, [damaged])).rows[0]!;
  await until(async () => !(await deadLetter()).due);
  expect(await deadLetter()).toEqual({ due: false, published_at: null, refusals: 2, reason: "it can't be read: division by zero" });
  await database.owner.query('drop policy damaged on log');
  await changeDeadLetters(database.owner, 'redrive', undefined);
  await untilTrue(() => eventsOf(damaged).length === 1);
});

test('a missing right is reported as a failure of the database, not of single tenants', async () => {
  const tenants = await newTenants(7);
  const role = database.owner.escapeIdentifier(new URL(database.database.serviceUrl).username);
  await database.owner.query(`revoke select on log from ${role}`);
  const { relay, metrics } = database.openReplica(sink, logger);
  await until(async () => (await metricOf(metrics, 'ledger_relay_failures_total')) > 3);
  await untilTrue(() => relay.state()['notifier'] === 'ok');
  expect(relay.state()).toEqual({ notifier: 'ok', relay: 'waits for postgresql' });
  expect(linesOf('event publication failed').filter(({ level }) => level > 20)).toHaveLength(1);
  expect(backedOff()).toEqual([]);
  await database.owner.query(`grant select on log to ${role}`);
  await database.published();
  await untilTrue(() => relay.state()['relay'] === undefined);
  expect(tenants.map((tenant) => eventsOf(tenant).length)).toEqual(tenants.map(() => 2));
});
