// Calls of many tenants at once: one whose calls are slow, however many, leaves connections for everybody else's.
import { until } from '../../test/polling.ts';
import { refusal } from '../../test/identity.ts';
import { whileLocked } from '../../test/table-locks.ts';
import { newTenant, startNotifier, type RunningNotifier } from '../../test/notifier.ts';

let notifier: RunningNotifier;
const [slow, other] = [newTenant().tenantId, newTenant().tenantId];

beforeAll(async () => {
  notifier = await startNotifier({ claims: false });
});
afterAll(() => notifier.end());

const list = (signal = new AbortController().signal) =>
  notifier.client.listDeliveries({ tenantId: slow, limit: 100, offset: 100_000 }, { signal });

test('many waiting lists of one tenant do not delay calls of another', async () => {
  await whileLocked(notifier.database, 'deliveries', { reads: 100, read: () => list(), waiting: 3 }, async () => {
    const url = 'https://127.0.0.1/hook';
    const { client } = notifier;
    expect((await client.configureWebhook({ tenantId: other, url, events: ['transaction.posted'] })).created).toBe(true);
    expect((await client.getWebhook({ tenantId: other })).webhook?.url).toBe(url);
    expect((await client.updateWebhook({ tenantId: other, enabled: false })).webhook?.enabled).toBe(false);
    expect((await client.rotateSecret({ tenantId: other })).secret).toMatch(/^whsec_/);
    await client.deleteWebhook({ tenantId: other });
  });
});

test('beyond a number of waiting calls a tenant is refused, and others are answered', async () => {
  const leaving = new AbortController();
  const reasons: Promise<string>[] = [];
  const read = () =>
    list(leaving.signal).catch((error: Error) => {
      if (!leaving.signal.aborted) reasons.push(refusal(Promise.reject(error)).then(({ reason }) => reason));
    });
  await whileLocked(notifier.database, 'deliveries', { reads: 2_100, read, waiting: 3 }, async () => {
    await until(
      () => Promise.all(reasons),
      (given) => given.includes('overloaded'),
    );
    expect(await refusal(notifier.client.getWebhook({ tenantId: other }))).toMatchObject({ reason: 'webhook_not_configured' });
    leaving.abort();
  });
  expect((await list()).deliveries).toEqual([]);
});
