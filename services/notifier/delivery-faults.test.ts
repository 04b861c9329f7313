// What PostgreSQL refuses of one tenant, for a page that can't be read, say, keeps him waiting and nobody else.
import type { ServerResponse } from 'node:http';
import pg from 'pg';
import { pino } from 'pino';
import { endStarted, ingest, only, passTime, receiver, start, subscribe } from '../../test/deliveries.ts';
import { refusal } from '../../test/identity.ts';
import { settled, unreadable, until, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { toId, toUuid } from '../platform/ids.ts';
import { Targets } from './addresses.ts';
import { inTransaction } from '../platform/postgres.ts';

interface Line {
  level: number;
  msg: string;
  tenant?: string;
  delivery_id?: string;
}

let lines: Line[];
const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line) as Line) });

beforeEach(() => {
  lines = [];
});

afterEach(endStarted);

/** As the owner of a notifier's tables. */
async function asOwner({ database }: RunningNotifier, work: (owner: pg.Client) => Promise<void>): Promise<void> {
  const owner = new pg.Client({ connectionString: database.ownerUrl });
  await owner.connect();
  try {
    await work(owner);
  } finally {
    await owner.end();
  }
}

/** Stores a delivery that is due `at`, an expression, by hand: the consumer looks among what is stored, and could not take it. */
async function store({ work }: RunningNotifier, { tenant }: TestTenant, at: string): Promise<void> {
  await inTransaction(work, [tenant], async (client) => {
    const id = crypto.randomUUID();
    await client.query(
      `insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
       values ($1, $2, $2, 'transaction.posted', false, 'pending', 1, false, now(), ${at})`,
      [tenant, id],
    );
    await client.query(`insert into payloads (tenant_id, event_id, body) values ($1, $2, '{}')`, [tenant, id]);
    await client.query(`insert into due (tenant_id, next_at) values ($1, now()) on conflict (tenant_id) do update set next_at = now()`, [
      tenant,
    ]);
  });
}

/** Seconds until a tenant is looked at again. */
async function untilDue({ work }: RunningNotifier, { tenant }: TestTenant): Promise<number> {
  return inTransaction(work, [tenant], async (client) => {
    const text = 'select extract(epoch from next_at - clock_timestamp())::float8 as seconds from due where tenant_id = $1';
    return (await client.query<{ seconds: number }>(text, [tenant])).rows[0]!.seconds;
  });
}

async function figure({ metrics }: RunningNotifier, name: string): Promise<number> {
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(await metrics.metrics())?.[1]);
}

/** As of a connection that could not be made. */
const failure = (code: string, address: string) => Object.assign(new Error(`connect ${code}`), { code, address });

test('where the machine has no IPv6, a receiver that has nothing else is not reached, rather than put off for ever', async () => {
  const targets = new Targets(true, () => Promise.reject(failure('EADDRNOTAVAIL', '2001:db8::1')));
  const notifier = await start({ logger, targets });
  const tenant = await subscribe(notifier, 'http://hooks.example/');
  await ingest(notifier, tenant);
  await until(async () => (await only(notifier, tenant)).status === 'failed');
  expect(await only(notifier, tenant)).toMatchObject({ attempts: 3, errorClass: 'connection_failed' });
});

test.each(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])(
  'what never left the machine, for want of what %s tells, is no attempt: it goes when there is some again',
  async (code) => {
    let isShort = true;
    const resolve = () => (isShort ? Promise.reject(failure(code, '127.0.0.1')) : Promise.resolve(['127.0.0.1']));
    const notifier = await start({ logger, targets: new Targets(true, resolve) });
    const { url, count } = await receiver();
    const tenant = await subscribe(notifier, url.replace('127.0.0.1', 'hooks.example'));
    await ingest(notifier, tenant, 3);
    await until(async () => (await figure(notifier, 'notifier_unattempted_total')) >= 3);
    // Told of once.
    expect(lines.filter(({ level }) => level >= 40)).toMatchObject([{ msg: 'delivery could not be attempted' }]);
    const { deliveries } = await notifier.client.listDeliveries({ tenantId: tenant.tenantId, limit: 10 });
    expect(deliveries.map(({ status, attempts }) => `${status} ${attempts}`)).toEqual(['pending 1', 'pending 1', 'pending 1']);
    // A test is answered, as somebody waits for it.
    expect(await refusal(notifier.client.testWebhook({ tenantId: tenant.tenantId }))).toMatchObject({
      metadata: { error_class: 'connection_failed' },
    });
    isShort = false;
    await passTime(notifier, tenant);
    expect((await count(3)).map(({ headers }) => headers['x-webhook-attempt'])).toEqual(['1', '1', '1']);
  },
);

test('a tenant of whom a delivery can not be read keeps nobody else waiting, and is looked at again some time later', async () => {
  const notifier = await start({ logger, shunMs: 200 });
  const quick = await receiver();
  const tenants = await Promise.all(Array.from({ length: 12 }, () => subscribe(notifier, quick.url)));
  const damaged = tenants[5]!;
  await asOwner(notifier, async (owner) => {
    await owner.query(unreadable('payloads', damaged.tenant, 'body'));
    await store(notifier, damaged, 'now()');
    for (const each of tenants) if (each !== damaged) await ingest(notifier, each, 2);
    await quick.count(22);
    await until(async () => (await untilDue(notifier, damaged)) > 5);
    expect(await figure(notifier, 'notifier_unclaimable_total')).toBeGreaterThan(0);
    const told = () => lines.filter(({ level }) => level >= 40);
    expect(told()).toMatchObject([{ msg: 'deliveries of a tenant could not be claimed', tenant: toId('tenant', damaged.tenant) }]);
    // Looked at again, and again: told of once.
    await passTime(notifier, damaged);
    await until(async () => (await figure(notifier, 'notifier_unclaimable_total')) > 1);
    expect(told()).toHaveLength(1);
    await owner.query('drop policy damaged on payloads');
    await passTime(notifier, damaged);
    await quick.count(23);
  });
});

test('of a tenant who is left, what comes meanwhile is no reason to look at him sooner', async () => {
  const notifier = await start({ logger });
  const quick = await receiver();
  const [damaged, other] = [await subscribe(notifier, quick.url), await subscribe(notifier, quick.url)];
  await asOwner(notifier, async (owner) => {
    // What is stored by hand, and nothing else of his: what comes can be taken.
    await owner.query(`create policy damaged on payloads as restrictive for select
      using (case when tenant_id = '${damaged.tenant}' and body = '{}' then 1 / (length(body) - 2) = 1 else true end)`);
    await store(notifier, damaged, 'now()');
    await until(async () => (await figure(notifier, 'notifier_unclaimable_total')) > 0);
    for (let turn = 1; turn <= 20; turn++) {
      await ingest(notifier, damaged);
      await ingest(notifier, other);
      await quick.count(turn);
    }
    expect(await figure(notifier, 'notifier_unclaimable_total')).toBe(1);
    await owner.query('drop policy damaged on payloads');
  });
});

test('a tenant who can not be put off keeps nobody else due', async () => {
  const notifier = await start({ logger });
  const quick = await receiver();
  const tenants = await Promise.all(Array.from({ length: 12 }, () => subscribe(notifier, quick.url)));
  const damaged = tenants[5]!;
  await asOwner(notifier, async (owner) => {
    await owner.query(`create policy damaged on deliveries as restrictive for select
      using (case when tenant_id = '${damaged.tenant}' and run_at > now() + interval '1 minute' then 1 / (attempts - attempts) = 1 else true end)`);
    await store(notifier, damaged, `now() + interval '1 hour'`);
    for (const each of tenants) if (each !== damaged) await ingest(notifier, each, 2);
    await quick.count(22);
    await until(async () => (await untilDue(notifier, damaged)) > 5);
    await until(async () => (await figure(notifier, 'notifier_due_tenants')) === 0);
    expect(await figure(notifier, 'notifier_unclaimable_total')).toBeGreaterThan(0);
    expect(lines.filter(({ level }) => level >= 40)).toHaveLength(1);
    await owner.query('drop policy damaged on deliveries');
  });
});

test('a tenant who can not even be left, and is the first in every line, keeps nobody else waiting', async () => {
  const notifier = await start({ logger });
  const quick = await receiver();
  const tenants = await Promise.all(Array.from({ length: 40 }, () => subscribe(notifier, quick.url)));
  const damaged = tenants[5]!;
  await asOwner(notifier, async (owner) => {
    await store(notifier, damaged, 'now()');
    await owner.query(`create function refuse() returns trigger language plpgsql as $$
      begin
        if new.tenant_id = '${damaged.tenant}' then raise exception 'invalid page' using errcode = 'XX001'; end if;
        return new;
      end $$`);
    await owner.query('create trigger refused before update on due for each row execute function refuse()');
    await owner.query(unreadable('payloads', damaged.tenant, 'body'));
    for (const each of tenants) if (each !== damaged) await ingest(notifier, each, 2);
    await quick.count(78);
    await until(async () => (await figure(notifier, 'notifier_due_tenants')) === 1);
    // He stays due, and is not asked for all the time.
    const asked = await figure(notifier, 'notifier_unclaimable_total');
    expect(asked).toBeGreaterThan(0);
    for (const each of tenants) if (each !== damaged) await ingest(notifier, each);
    await quick.count(117);
    expect(await figure(notifier, 'notifier_unclaimable_total')).toBeLessThanOrEqual(asked + 1);
    expect(lines.filter(({ level }) => level >= 50)).toHaveLength(1);
    await owner.query('drop trigger refused on due');
    await owner.query('drop policy damaged on payloads');
  });
});

test('a right that is missing is told as what keeps everybody waiting, not as a tenant at a time', async () => {
  const notifier = await start({ logger });
  const quick = await receiver();
  const tenants = await Promise.all(Array.from({ length: 12 }, () => subscribe(notifier, quick.url)));
  const role = new URL(notifier.database.serviceUrl).username;
  await asOwner(notifier, async (owner) => {
    await owner.query(`revoke insert on claims from ${owner.escapeIdentifier(role)}`);
    for (const each of tenants) await ingest(notifier, each);
    await until(() => Promise.resolve(lines.filter(({ msg }) => msg === 'claim failed').length > 2));
    await owner.query(`grant insert on claims to ${owner.escapeIdentifier(role)}`);
    for (const { tenantId } of tenants) await settled(notifier.client, tenantId, 1);
  });
  expect(await figure(notifier, 'notifier_unclaimable_total')).toBe(0);
  expect(lines.filter(({ msg }) => msg === 'deliveries of a tenant could not be claimed')).toEqual([]);
});

test('one record that PostgreSQL does not take is left to its lease and named, and those beside it are taken', async () => {
  const notifier = await start({ logger });
  const held: ServerResponse[] = [];
  const { url, received, count } = await receiver((_, response, place) => (place < 8 ? held.push(response) : response.end()));
  const tenant = await subscribe(notifier, url);
  await ingest(notifier, tenant, 8);
  await count(8);
  const { deliveries } = await notifier.client.listDeliveries({ tenantId: tenant.tenantId, limit: 100 });
  const bad = deliveries[3]!.id;
  await asOwner(notifier, async (owner) => {
    await owner.query(`create function refuse() returns trigger language plpgsql as $$
      begin
        if new.delivery_id = '${toUuid('wh_delivery', bad)}' then raise exception 'invalid page' using errcode = 'XX001'; end if;
        return new;
      end $$`);
    await owner.query('create trigger refused before insert on attempts for each row execute function refuse()');
    for (const response of held) response.end();
    await until(() => Promise.resolve(lines.some(({ msg, delivery_id }) => msg === 'recording failed' && delivery_id === bad)));
    await until(async () => {
      const { total } = await notifier.client.listDeliveries({ tenantId: tenant.tenantId, limit: 1, status: 'delivered' });
      return total === 7n;
    });
    await owner.query('drop trigger refused on attempts');
    await passTime(notifier, tenant);
    await settled(notifier.client, tenant.tenantId, 8);
    expect(received).toHaveLength(9);
  });
});
