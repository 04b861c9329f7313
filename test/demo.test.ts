// The demo: the same business each time, once, with everything that a page of the console shows.
import { spawnSync } from 'node:child_process';
import { fillDemo, type Demo } from '../deploy/local/demo/fill.ts';
import type { Item } from '../deploy/local/demo/journal.ts';
import { yearOfBusiness } from '../deploy/local/demo/year.ts';
import { root } from '../deploy/local/plan.ts';
import { toDecimal, toMinor } from '../services/platform/money.ts';
import { startCluster, type Cluster } from './cluster.ts';
import { until } from './polling.ts';
import { bareEnvironment } from './run.ts';

const size = { customers: 12, transactions: 1_100 };
const items = (end: string): Item[] => [...yearOfBusiness(size, new Date(end), 42)].flat();

/** What postings of items do to the credit side of an account, in minor units, without exchanges. */
function creditsOf(all: Item[], code: string, currency: string): bigint {
  const keyed = new Map(all.map((item) => [item.idempotency_key, item]));
  return all.reduce((sum, item) => {
    const reversed = item.op === 'reverse' ? keyed.get(item.reverses) : item;
    if (reversed?.op !== 'double') return sum;
    return reversed.entries
      .filter((entry) => entry.account_code === code && entry.currency === currency)
      .reduce((total, { side, amount }) => {
        const minor = toMinor(item.op === 'reverse' ? (item.amount ?? amount) : amount) ?? 0n;
        return (side === 'credit') === (item.op === 'double') ? total + minor : total - minor;
      }, sum);
  }, 0n);
}

describe('the business of a year', () => {
  test('is the same for the same day, and has a growing number of postings', () => {
    const [morning, evening] = [items('2026-11-30T06:00:00Z'), items('2026-11-30T21:00:00Z')];
    const amounts = (all: Item[]) => all.map(({ effective_at: _, ...rest }) => rest);
    expect(amounts(evening)).toEqual(amounts(morning));
    expect(morning.length).toBeGreaterThanOrEqual(size.transactions);
    const times = morning.map(({ effective_at }) => effective_at);
    expect([times[0]?.slice(0, 10), times.at(-1)! <= '2026-11-30T06:00:00Z']).toEqual(['2025-12-01', true]);
    const before = (day: string) => times.filter((time) => time < day).length;
    expect(before('2026-06-01')).toBeLessThan(times.length / 2);
    expect(new Set(morning.map(({ op }) => op))).toEqual(new Set(['double', 'single', 'exchange', 'reverse']));
  });
});

describe('the demo', () => {
  let cluster: Cluster;
  let demo: Demo;
  const get = async (path: string) => (await cluster.rest('GET', `/v1/tenants/demo/${path}`, { key: demo.key })).body.data;

  beforeAll(async () => {
    // Its own, as the tests of the console fill the shared one.
    cluster = await startCluster();
    const options = { url: cluster.url, mailDirectory: cluster.mailDirectory, size };
    const stopsAt = (line: string) => {
      if (/[1-9].* of about/.test(line)) throw new Error('interrupted');
    };
    await expect(fillDemo({ ...options, say: stopsAt })).rejects.toThrow('interrupted');
    // It goes on with the plan of the first run.
    demo = await fillDemo({ ...options, size: { customers: 1, transactions: 1 } });
  }, 120_000);
  afterAll(async () => {
    await demo.receiver?.close();
    await cluster.stop();
  });

  test('completes what was interrupted, with the balances of its plan', async () => {
    expect(demo).toMatchObject({ changed: true, slug: 'demo', email: 'demo@example.com' });
    const { tenants } = (await cluster.rest('GET', '/v1/tenants', { key: await token('demo@example.com') })).body.data;
    const [, end] = /up to (\S+):/.exec(tenants[0].description) ?? [];
    const all = items(end!);
    const { transactions } = await get(`transactions?idempotency_key=demo-${all.length}`);
    expect(transactions).toHaveLength(1);
    const { balance } = await get('accounts/code/TAXES-PAYABLE/balance?currency=NGN');
    expect(balance.balance).toBe(toDecimal(creditsOf(all, 'TAXES-PAYABLE', 'NGN')));
    expect((await get('accounts/code/SUSPENSE-NGN/balance?currency=NGN')).balance.balance).toBe('87300.50');
  });

  test('has holds, closed periods, filters, keys, members and deliveries in every state', async () => {
    const { holds } = await get('holds?limit=100');
    await until(
      async () => (await get('holds?status=expired')).holds,
      (expired) => expired.length === 1,
    );
    expect(holds).toHaveLength(6);
    const states = new Set(holds.map(({ status }: { status: string }) => status));
    for (const status of ['pending', 'captured', 'voided']) expect(states).toContain(status);
    const { periods } = await get('periods?limit=100');
    expect(periods).toHaveLength(11);
    // In January the fiscal year has just ended: its last month is open.
    const yearEnds = new Date().getUTCMonth() === 0 ? 0 : 1;
    expect(periods.filter(({ year_end }: { year_end: boolean }) => year_end)).toHaveLength(yearEnds);
    const { filters } = await get('filters');
    for (const { name } of filters) expect((await get(`transactions?filter=${name}&limit=1`)).transactions).toHaveLength(1);
    const owner = await token('demo@example.com');
    const { api_keys: keys } = (await cluster.rest('GET', `/v1/tenants/${demo.tenantId}/api-keys`, { key: owner })).body.data;
    expect(keys.filter((key: { revoked_at: string | null }) => key.revoked_at !== null)).toHaveLength(1);
    expect(keys.filter((key: { expires_at: string | null }) => key.expires_at !== null)).toHaveLength(1);
    const { members } = (await cluster.rest('GET', `/v1/tenants/${demo.tenantId}/members`, { key: owner })).body.data;
    expect(members.map(({ role }: { role: string }) => role).sort()).toEqual(['accountant', 'owner', 'viewer']);
    for (const status of ['delivered', 'failed']) expect((await get(`webhooks?status=${status}`)).deliveries.length).toBeGreaterThan(0);
  });

  test('is not filled twice', async () => {
    const newest = async () => (await get('transactions?limit=1')).transactions[0].transaction_id;
    const before = await newest();
    const again = await fillDemo({ url: cluster.url, size });
    expect(again).toMatchObject({ changed: false, tenantId: demo.tenantId, receiver: undefined });
    expect(await newest()).toBe(before);
  });

  test('is refused in production', () => {
    const env = { ...bareEnvironment, NODE_ENV: 'production' };
    const { status, stderr } = spawnSync(process.execPath, ['deploy/local/demo.ts'], { cwd: root, env, encoding: 'utf8' });
    expect([status, stderr]).toEqual([1, expect.stringContaining('NODE_ENV is production')]);
  });

  async function token(email: string): Promise<string> {
    const { body } = await cluster.rest('POST', '/v1/auth/login', { body: { email, password: demo.password } });
    return body.data.token;
  }
});
