// Faults of one tenant's rows, such as a damaged page or rows that an operator has locked, delay no other tenant.
import type { ServerResponse } from 'node:http';
import pg from 'pg';
import { pino } from 'pino';
import { endStarted, ingest, only, passTime, receiver, start, subscribe } from '../../test/deliveries.ts';
import { settled, unreadable, until, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { toId, toUuid } from '../platform/ids.ts';
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

test('a tenant with a delivery that can not be read delays no other, and is tried again later', async () => {
  const notifier = await start({ logger });
  const quick = await receiver();
  const tenants = await Promise.all(Array.from({ length: 12 }, () => subscribe(notifier, quick.url)));
  const damaged = tenants[5]!;
  await asOwner(notifier, async (owner) => {
    await owner.query(unreadable('payloads', damaged.tenant, 'body'));
    await store(notifier, damaged, 'now()');
    for (const each of tenants) if (each !== damaged) await ingest(notifier, each, 2);
    await quick.count(22);
    await until(async () => (await untilDue(notifier, damaged)) > 5);
    expect(await figure(notifier, 'notifier_lease_errors_total')).toBeGreaterThan(0);
    expect(lines.filter(({ level }) => level >= 40)).toMatchObject([
      { msg: 'deliveries of a tenant postponed: data error', tenant: toId('tenant', damaged.tenant) },
    ]);
    await owner.query('drop policy damaged on payloads');
    await passTime(notifier, damaged);
    await quick.count(23);
  });
});

test('a tenant that can not be moved on does not keep others due', async () => {
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
    expect(await figure(notifier, 'notifier_lease_errors_total')).toBeGreaterThan(0);
    expect(lines.filter(({ level }) => level >= 40)).toHaveLength(1);
    await owner.query('drop policy damaged on deliveries');
  });
});

test('a missing right is logged as a failure for all, not for each tenant', async () => {
  const notifier = await start({ logger });
  const quick = await receiver();
  const tenants = await Promise.all(Array.from({ length: 12 }, () => subscribe(notifier, quick.url)));
  const role = new URL(notifier.database.serviceUrl).username;
  await asOwner(notifier, async (owner) => {
    await owner.query(`revoke insert on leases from ${owner.escapeIdentifier(role)}`);
    for (const each of tenants) await ingest(notifier, each);
    await until(() => Promise.resolve(lines.filter(({ msg }) => msg === 'leasing deliveries failed').length > 2));
    await owner.query(`grant insert on leases to ${owner.escapeIdentifier(role)}`);
    for (const { tenantId } of tenants) await settled(notifier.client, tenantId, 1);
  });
  expect(await figure(notifier, 'notifier_lease_errors_total')).toBe(0);
  expect(lines.filter(({ msg }) => msg === 'deliveries of a tenant postponed: data error')).toEqual([]);
});

test('one result that PostgreSQL rejects is left to its lease and logged, and the others are recorded', async () => {
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
    await until(() => Promise.resolve(lines.some(({ msg, delivery_id }) => msg === 'recording results failed' && delivery_id === bad)));
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

describe('rows of one tenant that an operator has locked', () => {
  /** Runs `work` while a tenant's rows of a table are locked. */
  async function locking({ database }: RunningNotifier, table: string, { tenant }: TestTenant, work: () => Promise<void>): Promise<void> {
    const operator = new pg.Client({ connectionString: database.adminUrl });
    await operator.connect();
    try {
      await operator.query('begin');
      await operator.query(`select from ${table} where tenant_id = $1 for update`, [tenant]);
      await work();
    } finally {
      await operator.end();
    }
  }

  test.each(['leases', 'deliveries', 'due'])(
    'of %s, delay the results of that tenant only, and are left to their leases',
    async (table) => {
      const notifier = await start({ logger, settings: { lock_timeout: '100ms' } });
      const answered = Promise.withResolvers<undefined>();
      const slow = await receiver((_, response) => answered.promise.then(() => response.end()));
      const quick = await receiver();
      const [one, other] = [await subscribe(notifier, slow.url), await subscribe(notifier, quick.url)];
      await ingest(notifier, one);
      await slow.count(1);
      // Until it is found without more work, a result changes nothing of `due`.
      await until(async () => (await untilDue(notifier, one)) > 5);
      await locking(notifier, table, one, async () => {
        answered.resolve(undefined);
        await until(() => Promise.resolve(lines.some(({ msg }) => msg === 'recording results failed')));
        for (let count = 1; count <= 10; count++) {
          await ingest(notifier, other);
          await settled(notifier.client, other.tenantId, count);
        }
        await until(() => Promise.resolve(lines.some(({ msg }) => msg === 'results not recorded: rows are locked')));
      });
      await passTime(notifier, one);
      await settled(notifier.client, one.tenantId, 1);
      expect(await only(notifier, one)).toMatchObject({ status: 'delivered', attempts: 1, tries: [{ number: 1 }] });
    },
  );
});
