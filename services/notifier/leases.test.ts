import { lease, result } from '../../test/deliveries.ts';
import { newTenant, startNotifier, startReceiver, type RunningNotifier } from '../../test/notifier.ts';
import { inTransaction, type Client } from '../platform/postgres.ts';
import { statements as leases } from './leases.ts';
import { statements as inbox } from './inbox.ts';
import { recordResults, statements as results } from './delivery-results.ts';
import { statements as retention } from './retention.ts';

interface PlanNode {
  'Index Name'?: string;
  'Index Cond'?: string;
  'Actual Rows'?: number;
  'Actual Loops'?: number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
}

let notifier: RunningNotifier;

beforeAll(async () => {
  notifier = await startNotifier({ claims: false });
});

afterAll(() => notifier.end());

const scansOf = (node: PlanNode): PlanNode[] => [
  ...(node['Index Name'] === undefined ? [] : [node]),
  ...(node.Plans ?? []).flatMap(scansOf),
];

const all: Record<string, { text: string; types: string[] }> = { ...leases, ...results, ...inbox, ...retention };
const statements = Object.entries(all);

async function planOf(client: Client, name: string, given: string, options = ''): Promise<PlanNode> {
  const { text, types } = all[name]!;
  await client.query(`prepare ${name} (${types.join(', ')}) as ${text}`);
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(`explain (${options}format json) execute ${name} ${given}`);
  await client.query(`deallocate ${name}`);
  return rows[0]!['QUERY PLAN'][0].Plan;
}

// A plan that reads what waits of all tenants makes 300 deliveries/s instead of 5,000.
test.each(statements)('%s looks rows up, and walks no whole index', async (name, { types }) => {
  const plan = await inTransaction(notifier.work, [newTenant().tenant], (client) =>
    planOf(client, name, `(${types.map((type) => `null::${type}`).join(', ')})`),
  );
  const scans = scansOf(plan);
  expect(scans.length).toBeGreaterThan(0);
  expect(scans.filter((scan) => scan['Index Cond'] === undefined).map((scan) => scan['Index Name'])).toEqual([]);
});

test('a cycle reads no more of a tenant than is asked for, however much waits', async () => {
  const { tenant } = newTenant();
  const read = await inTransaction(notifier.work, [tenant], async (client) => {
    await client.query(
      `insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, created_at, run_at)
        select $1, gen_random_uuid(), gen_random_uuid(), 'transaction.posted', false, 'pending', 1, false, now(), now()
        from generate_series(1, 200)`,
      [tenant],
    );
    await client.query(
      `insert into webhooks (tenant_id, url, events, enabled, secret, created_at, updated_at)
        values ($1, 'http://127.0.0.1:1/', '{transaction.posted}', true, 'k1:sealed', now() - interval '1 hour', now())`,
      [tenant],
    );
    const plan = await planOf(client, 'lease', `('{${tenant}}', 100, 5, '${tenant}', 1, 10, '{k1}')`, 'analyze, ');
    return scansOf(plan).filter((scan) => scan['Index Name'] === 'deliveries_due');
  });
  expect(read.map((scan) => scan['Actual Rows'])).toEqual([10]);
});

// Leases of one cycle end in the same microsecond. If it passed between two readings of the clock, nothing would be found to wait for.
test('an endpoint that is full while its leases end stays due', async () => {
  const { tenant } = newTenant();
  const found = await inTransaction(notifier.work, [tenant], async (client) => {
    await client.query('insert into due values ($1, clock_timestamp())', [tenant]);
    // So many that counting them takes milliseconds.
    await client.query(
      `insert into leases select $1, gen_random_uuid(), $1, now(), now() + interval '1 hour' from generate_series(1, 30000)`,
      [tenant],
    );
    const seen: (Date | null | undefined)[] = [];
    for (let early = 0; early < 6; early++) {
      await client.query(`update leases set until = clock.at + interval '500 ms' from (select clock_timestamp() as at offset 0) as clock`);
      await client.query(`select pg_sleep((select extract(epoch from min(until) - clock_timestamp()) from leases) - $1::float8)`, [
        early / 1000,
      ]);
      await client.query({ text: leases.move_on.text, values: [[tenant], 8, ['k1']] });
      seen.push((await client.query<{ next_at: Date | null }>('select next_at from due')).rows[0]?.next_at);
      if (seen.at(-1) === null) break;
    }
    return seen;
  });
  expect(found).not.toContain(null);
});

test('what a dead worker had leased is sent as soon as the endpoint has capacity, not a lease later', async () => {
  const { tenantId, posting } = newTenant();
  await notifier.client.configureWebhook({ tenantId, url: 'http://127.0.0.1:1/', events: ['transaction.posted'] });
  await notifier.client.ingest({ events: [posting(), posting(), posting()] });
  // Dead at once, its leases over.
  expect((await lease(notifier.work, { perTenant: 3, leaseMs: 0 })).leased).toHaveLength(3);
  const one = { perTenant: 1 };
  for (let place = 0; place < 3; place++) {
    const { leased } = await lease(notifier.work, one);
    expect({ place, leased: leased.length }).toEqual({ place, leased: 1 });
    // Full: it is moved on.
    expect(await lease(notifier.work, one)).toMatchObject({ leased: [] });
    await recordResults(notifier.work, [result(leased[0]!, 'delivered')]);
  }
});

test('a test delivery whose lease PostgreSQL lost in a crash is not sent a second time', async () => {
  const { tenantId, tenant } = newTenant();
  const receiver = await startReceiver(async (_, response) => {
    await inTransaction(notifier.work, [tenant], (client) => client.query('delete from leases'));
    response.end('ok');
  });
  try {
    await notifier.client.configureWebhook({ tenantId, url: receiver.url, events: ['transaction.posted'] });
    await notifier.client.testWebhook({ tenantId });
    await inTransaction(notifier.work, [tenant], (client) => client.query('update due set next_at = now()'));
    const { leased } = await lease(notifier.work, { perTenant: 1 });
    expect(leased).toEqual([]);
  } finally {
    await receiver.close();
  }
});
