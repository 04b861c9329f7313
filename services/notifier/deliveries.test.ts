import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { withClient } from '../../deploy/local/databases.ts';
import { refusal } from '../../test/identity.ts';
import {
  newTenant,
  settled,
  startNotifier,
  startReceiver,
  unreadable,
  type Receiver,
  type RunningNotifier,
  type TestTenant,
} from '../../test/notifier.ts';
import { inTransaction } from '../platform/postgres.ts';
import { eventsPageStatement, pageStatement, retryStatement } from './deliveries.ts';
import { deleteExpired } from './retention.ts';

let notifier: RunningNotifier;
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
  notifier = await startNotifier();
});

afterAll(async () => {
  await notifier.end();
  await receiver.close();
});

/** Deliveries as they might have come to be, one an hour from 2024-01-01, the newest `count - 1` hours later. */
async function history({ tenant }: TestTenant, count: number, { work } = notifier): Promise<void> {
  await inTransaction(work, [tenant], async (client) => {
    await client.query(
      `insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at, delivered_at, failed_at)
       select $1, i, gen_random_uuid(), (array['transaction.posted', 'balance.updated', 'account.created'])[1 + n % 3], false, s, 1, false, at, at,
         case s when 'delivered' then at end, case s when 'failed' then at end
       from unnest($2::uuid[]) with ordinality as u (i, n),
         lateral (select (array['delivered', 'delivered', 'failed', 'delivered'])[1 + n % 4] as s) as x,
         lateral (select timestamptz '2024-01-01T00:00:00Z' + (n - 1) * interval '1 hour' as at) as y`,
      [tenant, Array.from({ length: count }, () => uuidv7())],
    );
    await client.query('insert into payloads select tenant_id, event_id, $1 from deliveries', ['{}']);
    await client.query(`insert into attempts select tenant_id, id, 1, created_at, 5, 200, null, 'ok' from deliveries`);
    await client.query('insert into due values ($1, null)', [tenant]);
  });
}

interface Filter {
  limit?: number;
  offset?: number;
  status?: string;
  eventType?: string;
  startMs?: bigint;
  endMs?: bigint;
}

const list = ({ tenantId }: TestTenant, filter: Filter = {}) => notifier.client.listDeliveries({ tenantId, limit: 100, ...filter });
const day = (text: string) => BigInt(Date.parse(text));

describe('the list', () => {
  const tenant = newTenant();
  beforeAll(() => history(tenant, 240));

  test('has the newest first, page by page, and counts all', async () => {
    const seen: bigint[] = [];
    for (let offset = 0; offset < 240; offset += 37) {
      const { deliveries, total } = await list(tenant, { limit: 37, offset });
      expect(total).toBe(240n);
      expect(deliveries).toHaveLength(Math.min(37, 240 - offset));
      seen.push(...deliveries.map(({ createdMs }) => createdMs));
    }
    expect(seen).toEqual(Array.from({ length: 240 }, (_, n) => day('2024-01-10T23:00:00Z') - BigInt(n) * 3_600_000n));
    expect(await list(tenant, { offset: 240 })).toMatchObject({ deliveries: [], total: 240n });
  });

  describe('as PostgreSQL reads it', () => {
    /** The plan of a page of 100, as the service has it read. */
    async function planOf(statuses: string[], types: string[], offset: number, eventIds?: string[]): Promise<string> {
      return inTransaction(notifier.work, [tenant.tenant], async (client) => {
        const values = [tenant.tenant, statuses, types, '2024-01-01', 'infinity', 100, offset, ...(eventIds ? [eventIds] : [])];
        const { text } = eventIds ? eventsPageStatement : pageStatement;
        const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (analyze, timing off) ${text}`, values);
        return rows.map((row) => row['QUERY PLAN']).join('\n');
      });
    }

    beforeAll(async () => {
      await history(newTenant(), 3_000);
      await withClient(notifier.database.ownerUrl, (client) => client.query('vacuum analyze deliveries'));
    });

    test('is read and counted by its index', async () => {
      const byIndex =
        /Index Only Scan( Backward)? using deliveries_list .*\n *Index Cond: .*status.*event_type.*created_at >=.*created_at </g;
      expect((await planOf(['failed'], ['balance.updated'], 0)).match(byIndex)).toHaveLength(2);
    });

    test('of some events is read by theirs', async () => {
      expect(await planOf(['failed'], ['balance.updated'], 0, [randomUUID()])).toMatch(/Index Cond: .*event_id = ANY/);
    });

    test('is only counted where the page lies behind the last one', async () => {
      const page = /Index Only Scan Backward using deliveries_list .*/;
      const read = async (offset: number) => page.exec(await planOf(['failed', 'delivered'], ['balance.updated'], offset))?.[0];
      expect(await read(79)).toContain('loops=2');
      for (const offset of [80, 1_000_000]) expect(await read(offset)).toContain('never executed');
    });
  });
});

test('a retry by hand is refused of what has not failed, and of what has nowhere to go', async () => {
  const local = await startNotifier({ claims: false });
  try {
    const { tenantId, tenant, posting } = newTenant();
    await local.client.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted'] });
    await local.client.ingest({ events: [posting()] });
    const { deliveries } = await local.client.listDeliveries({ tenantId, limit: 1 });
    const deliveryId = deliveries[0]!.id;
    const retry = () => local.client.retryDelivery({ tenantId, deliveryId });
    expect(await refusal(retry())).toMatchObject({ reason: 'delivery_not_failed' });
    await inTransaction(local.work, [tenant], (client) => client.query(`update deliveries set status = 'failed', failed_at = now()`));
    await local.client.updateWebhook({ tenantId, enabled: false });
    expect(await refusal(retry())).toMatchObject({ reason: 'webhook_disabled' });
    await local.client.deleteWebhook({ tenantId });
    expect(await refusal(retry())).toMatchObject({ reason: 'webhook_disabled' });
    const other = newTenant();
    expect(await refusal(local.client.retryDelivery({ tenantId: other.tenantId, deliveryId }))).toMatchObject({
      reason: 'delivery_not_found',
    });
    await local.client.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted'] });
    const both = await Promise.allSettled([retry(), retry(), retry()]);
    expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  } finally {
    await local.end();
  }
});

test('many failed deliveries are retried a thousand at a time, the oldest first, each once however often it is asked for', async () => {
  const local = await startNotifier({ claims: false });
  try {
    const [tenant, other] = [newTenant(), newTenant()];
    const { tenantId } = tenant;
    await history(other, 4, local);
    // A quarter has failed.
    await history(tenant, 6_400, local);
    await local.client.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted'] });
    const retry = () => local.client.retryDeliveries({ tenantId });
    expect(await retry()).toMatchObject({ queued: 1_000, remaining: 600n, limit: { policy: 'retries' } });
    const left = await local.client.listDeliveries({ tenantId, status: 'failed', limit: 100, offset: 500 });
    const queued = await local.client.listDeliveries({ tenantId, status: 'pending', limit: 1 });
    expect(left.total).toBe(600n);
    expect(queued.deliveries[0]!.createdMs).toBeLessThan(left.deliveries.at(-1)!.createdMs);
    expect(queued.deliveries[0]).toMatchObject({ attempts: 2, nextRetryMs: expect.anything() });
    const both = await Promise.all([retry(), retry()]);
    expect(both.reduce((sum, each) => sum + each.queued, 0)).toBe(600);
    expect(await retry()).toMatchObject({ queued: 0, remaining: 0n });
    const plan = await inTransaction(local.work, [tenant.tenant], async (client) => {
      const values = [tenant.tenant, ['failed'], ['transaction.posted'], '-infinity', 'infinity'];
      return (await client.query<{ 'QUERY PLAN': string }>(`explain ${retryStatement.text}`, values)).rows;
    });
    expect(plan.filter((row) => row['QUERY PLAN'].includes('Seq Scan'))).toEqual([]);
    expect((await local.client.listDeliveries({ tenantId: other.tenantId, status: 'failed', limit: 1 })).total).toBe(1n);
  } finally {
    await local.end();
  }
});

test('deliveries and their attempts are forgotten after their time, but for what is pending', async () => {
  const [old, other] = [newTenant(), newTenant()];
  await history(old, 100);
  await history(other, 10);
  const tenantId = other.tenantId;
  await notifier.client.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted'] });
  await notifier.client.ingest({ events: [other.posting()] });
  await settled(notifier.client, tenantId, 1);
  await inTransaction(notifier.work, [old.tenant], (client) =>
    client.query(`update deliveries set status = 'pending', failed_at = null, next_retry_at = now() + interval '1 day', run_at = now() + interval '1 day'
      where id in (select id from deliveries where status = 'failed' limit 5)`),
  );
  const keptDays = Math.floor((Date.now() - Date.parse('2024-01-02')) / 86_400_000);
  expect(await deleteExpired(notifier.work, keptDays + 3650)).toBe(0);
  await deleteExpired(notifier.work, keptDays - 1);
  expect((await list(old)).deliveries.every(({ status, createdMs }) => status === 'pending' || createdMs >= day('2024-01-02'))).toBe(true);
  await deleteExpired(notifier.work, 1);
  expect(await list(old)).toMatchObject({ total: 5n });
  expect(await list(other)).toMatchObject({ total: 1n });
  await inTransaction(notifier.work, [old.tenant, other.tenant], async (client) => {
    const { rows } = await client.query(
      'select (select count(*)::int from payloads) as payloads, (select count(*)::int from attempts) as attempts',
    );
    expect(rows).toEqual([{ payloads: 6, attempts: 6 }]);
  });
});

test('the retention job deletes a bounded number at a time, of its tenants in equal shares, until nothing is left', async () => {
  const local = await startNotifier({ claims: false });
  try {
    const tenants = [newTenant(), newTenant(), newTenant()];
    for (const [place, tenant] of tenants.entries()) await history(tenant, place === 0 ? 4_000 : 800, local);
    // What each statement deleted, of each tenant.
    await withClient(local.database.ownerUrl, (client) =>
      client.query(`
        create table deletions (statement int generated always as identity, deleted int[] not null);
        create function note_deleted() returns trigger language plpgsql security definer as $$ begin
          insert into deletions (deleted) select array_agg(n order by n) from (select count(*)::int as n from gone group by tenant_id) as g having count(*) > 0;
          return null; end $$;
        create trigger note_deleted after delete on deliveries referencing old table as gone for each statement execute function note_deleted()`),
    );
    expect(await deleteExpired(local.work, 1)).toBe(5_600);
    const { rows } = await withClient(local.database.ownerUrl, (client) =>
      client.query<{ deleted: number[] }>('select deleted from deletions order by statement'),
    );
    const sizes = rows.map(({ deleted }) => deleted.reduce((sum, each) => sum + each, 0));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_000);
    expect(sizes.reduce((sum, each) => sum + each, 0)).toBe(5_600);
    // None takes more than a third while the others have as much.
    expect(rows[0]).toMatchObject({ deleted: [expect.any(Number), expect.any(Number), expect.any(Number)] });
    expect(Math.max(...rows[0]!.deleted)).toBeLessThanOrEqual(667);
  } finally {
    await local.end();
  }
});

test('a data error of one tenant does not stop the retention job of others, and is reported', async () => {
  const local = await startNotifier({ claims: false });
  try {
    const tenants = [newTenant(), newTenant(), newTenant()];
    for (const tenant of tenants) await history(tenant, 10, local);
    await withClient(local.database.ownerUrl, (client) => client.query(unreadable('deliveries', tenants[1]!.tenant, 'event_type')));
    await expect(deleteExpired(local.work, 1)).rejects.toMatchObject({ code: '22012' });
    const { rows } = await withClient(local.database.adminUrl, (client) => client.query('select distinct tenant_id from deliveries'));
    expect(rows).toEqual([{ tenant_id: tenants[1]!.tenant }]);
  } finally {
    await local.end();
  }
});
