import {
  newTenant,
  startNotifier,
  startReceiver,
  until,
  type Receiver,
  type RunningNotifier,
  type TestTenant,
} from '../../test/notifier.ts';
import { refusal } from '../../test/identity.ts';
import { newId } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { Targets } from './addresses.ts';
import { bodySignature, standardSignature } from './webhook.ts';

const events = ['transaction.posted', 'account.created'];
const url = 'https://hooks.example.com/in';
let notifier: RunningNotifier;
let receiver: Receiver;
let tenant: TestTenant;

beforeAll(async () => {
  receiver = await startReceiver();
  // Secure, and nothing has an address; deliveries to the receiver are made by another.
  notifier = await startNotifier({ targets: new Targets(false, () => Promise.resolve(['93.184.215.14'])), claims: false });
});

afterAll(async () => {
  await notifier.end();
  await receiver.close();
});

beforeEach(() => {
  tenant = newTenant();
});

const configure = (change: Parameters<RunningNotifier['client']['configureWebhook']>[0] = {}) =>
  notifier.client.configureWebhook({ tenantId: tenant.tenantId, url, events, ...change });

async function stored(): Promise<{ secret: string; previous_secret: string | null; overlap: number | null }> {
  return inTransaction(notifier.work, [tenant.tenant], async (client) => {
    const text = 'select secret, previous_secret, extract(epoch from previous_until - now())::int as overlap from webhooks';
    return (await client.query(text)).rows[0] as Awaited<ReturnType<typeof stored>>;
  });
}

/** The secrets that would sign now. */
async function secrets(): Promise<string[]> {
  const { secret, previous_secret, overlap } = await stored();
  const sealed = previous_secret !== null && overlap! > 0 ? [secret, previous_secret] : [secret];
  return sealed.map((each) => notifier.vault.open(tenant.tenant, each));
}

describe('configuring', () => {
  test('makes a webhook, whose secret is told once', async () => {
    const made = await configure();
    expect(made).toMatchObject({ created: true, webhook: { url, events, enabled: true }, secret: expect.stringMatching(/^whsec_/) });
    expect(await notifier.client.getWebhook({ tenantId: tenant.tenantId })).toMatchObject({ webhook: made.webhook });
  });

  test('again replaces all but the secret', async () => {
    const { secret, webhook } = await configure();
    const again = await configure({ url: `${url}/2`, events: ['balance.updated'], enabled: false });
    expect(again).toMatchObject({ created: false, webhook: { url: `${url}/2`, events: ['balance.updated'], enabled: false } });
    expect(again.webhook!.createdMs).toBe(webhook!.createdMs);
    expect(again.secret).toBeUndefined();
    expect(await secrets()).toEqual([secret]);
    expect((await configure()).webhook).toMatchObject({ enabled: true });
  });

  test('with a secret of one’s own takes it as it is, at once and without overlap', async () => {
    const first = 'correct horse bä';
    expect(await configure({ secret: first })).toMatchObject({ secret: first });
    await notifier.client.rotateSecret({ tenantId: tenant.tenantId });
    const second = 'x'.repeat(255);
    expect(await configure({ secret: second })).toMatchObject({ secret: second, created: false });
    expect(await secrets()).toEqual([second]);
  });

  test('folds events that are named twice', async () => {
    const { webhook } = await configure({ events: ['test.webhook', 'balance.updated', 'test.webhook'] });
    expect(webhook!.events).toEqual(['test.webhook', 'balance.updated']);
  });

  test.each([
    ['a scheme in capitals', 'HTTPS://Hooks.example.com/In'],
    ['2,048 code points', `${url}?${'😀'.repeat(2048 - url.length - 1)}`],
  ])('with %s takes the address as it was sent', async (_, sent) => {
    expect((await configure({ url: sent })).webhook).toMatchObject({ url: sent });
    expect(await notifier.client.getWebhook({ tenantId: tenant.tenantId })).toMatchObject({ webhook: { url: sent } });
  });

  test('twice at once makes one webhook with one secret', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => configure()));
    expect(answers.filter(({ created }) => created)).toHaveLength(1);
    expect(answers.flatMap(({ secret }) => secret ?? [])).toEqual(await secrets());
  });

  test.each([
    ['no url', { url: '' }, 'url', 'required'],
    ['http', { url: 'http://hooks.example.com/' }, 'url', 'https'],
    ['no address', { url: 'hooks' }, 'url', 'url'],
    ['a private address', { url: 'https://192.168.0.1/' }, 'url', 'url'],
    ['a number that is one', { url: 'https://0x7f000001/' }, 'url', 'url'],
    ['localhost', { url: 'https://[::1]:8443/' }, 'url', 'url'],
    ['no events', { events: [] }, 'events', 'min'],
    ['an unknown event', { events: ['transaction.posted', 'account.deleted'] }, 'events[1]', 'oneof'],
    ['a short secret', { secret: 'x'.repeat(15) }, 'secret', 'min'],
    ['a long secret', { secret: 'x'.repeat(256) }, 'secret', 'max'],
    ['a secret that does not print', { secret: `${'x'.repeat(20)}\n` }, 'secret', 'unicode'],
    ['an empty secret', { secret: '' }, 'secret', 'min'],
  ])('with %s is refused by the field', async (_, change, field, tag) => {
    const refused = await refusal(configure(change));
    expect(refused).toMatchObject({ reason: 'validation_failed', field, tag });
    if (field === 'secret') expect(refused.value).toBe('');
    expect(await refusal(notifier.client.getWebhook({ tenantId: tenant.tenantId }))).toMatchObject({ reason: 'webhook_not_configured' });
  });

  test('a name that leads inside is refused, and so is one of several', async () => {
    const inside = await startNotifier({ targets: new Targets(false, () => Promise.resolve(['8.8.8.8', '10.0.0.1'])), claims: false });
    try {
      const attempt = inside.client.configureWebhook({ tenantId: tenant.tenantId, url, events });
      expect(await refusal(attempt)).toMatchObject({ reason: 'validation_failed', field: 'url', tag: 'url', value: url });
    } finally {
      await inside.end();
    }
  });
});

describe('a change', () => {
  test('touches the fields that were sent, alone', async () => {
    const { secret } = await configure();
    const { tenantId } = tenant;
    const update = notifier.client.updateWebhook;
    expect((await update({ tenantId, enabled: false })).webhook).toMatchObject({ url, events, enabled: false });
    expect((await update({ tenantId, url: `${url}/3` })).webhook).toMatchObject({ url: `${url}/3`, events, enabled: false });
    const changed = await update({ tenantId, events: ['test.webhook'], changeEvents: true, enabled: true });
    expect(changed.webhook).toMatchObject({ url: `${url}/3`, events: ['test.webhook'], enabled: true });
    expect(changed.secret).toBeUndefined();
    expect(await secrets()).toEqual([secret]);
    const own = 'a secret of our own';
    expect(await update({ tenantId, secret: own })).toMatchObject({ secret: own });
    expect(await secrets()).toEqual([own]);
  });

  test('is refused where a field is wrong', async () => {
    await configure();
    const { tenantId } = tenant;
    const wrong: [Parameters<typeof notifier.client.updateWebhook>[0], string, string][] = [
      [{ url: 'https://127.0.0.1/' }, 'url', 'url'],
      [{ events: [], changeEvents: true }, 'events', 'min'],
      [{ secret: 'short' }, 'secret', 'min'],
    ];
    for (const [change, field, tag] of wrong) {
      const attempt = notifier.client.updateWebhook({ tenantId, ...change });
      expect(await refusal(attempt)).toMatchObject({ reason: 'validation_failed', field, tag });
    }
  });

  test('a rotation makes a new secret, and for the overlap both sign', async () => {
    const { secret: first } = await configure();
    const { tenantId } = tenant;
    const { secret: second } = await notifier.client.rotateSecret({ tenantId });
    expect(await secrets()).toEqual([second, first]);
    expect((await stored()).overlap).toBeGreaterThan(86_000);
    const { secret: third } = await notifier.client.rotateSecret({ tenantId, overlapSeconds: 60 });
    expect(await secrets()).toEqual([third, second]);
    const { secret: fourth } = await notifier.client.rotateSecret({ tenantId, overlapSeconds: 0 });
    expect(await secrets()).toEqual([fourth]);
    for (const [overlapSeconds, tag] of [
      [-1, 'min'],
      [2_592_001, 'max'],
    ] as const) {
      expect(await refusal(notifier.client.rotateSecret({ tenantId, overlapSeconds }))).toMatchObject({ field: 'overlap_seconds', tag });
    }
  });

  test('a secret is not what the database holds', async () => {
    const { secret } = await configure();
    const row = JSON.stringify(await stored());
    expect(row).toContain('k1:');
    expect(row).not.toContain(secret!.slice(6));
  });

  test('deleted, there is nothing to read, change, rotate or delete', async () => {
    await configure();
    const { tenantId } = tenant;
    await notifier.client.deleteWebhook({ tenantId });
    const { client } = notifier;
    const calls = [client.getWebhook, client.updateWebhook, client.rotateSecret, client.deleteWebhook, client.testWebhook];
    for (const call of calls)
      expect(await refusal(call({ tenantId }))).toMatchObject({ reason: 'webhook_not_configured', message: 'webhook not configured' });
    expect((await configure()).created).toBe(true);
  });
});

test('a tenant’s id that is none is refused everywhere', async () => {
  const { client } = notifier;
  for (const tenantId of ['', 'tenant_1', newId('user'), "tenant_' or 1=1"]) {
    for (const call of [client.getWebhook, client.deleteWebhook, client.rotateSecret, client.testWebhook]) {
      expect(await refusal(call({ tenantId }))).toMatchObject({ reason: 'validation_failed', field: 'tenant_id', tag: 'id' });
    }
  }
});

describe('limits', () => {
  const quotas = { 'webhook-config': 3, retries: 2, tests: 2 };
  let limited: RunningNotifier;
  let replica: RunningNotifier;

  beforeAll(async () => {
    limited = await startNotifier({ config: { quotas }, claims: false });
    replica = await startNotifier({ config: { quotas }, claims: false, database: limited.database });
  });

  afterAll(async () => {
    await replica.end();
    await limited.end();
  });

  const attempt = (by: RunningNotifier, change = {}) =>
    by.client.configureWebhook({ tenantId: tenant.tenantId, url: receiver.url, events, ...change });

  test('a tenant may configure so often a minute, and is told where it stands', async () => {
    expect((await attempt(limited)).limit).toMatchObject({ policy: 'webhook-config', quota: 3, windowSeconds: 60, remaining: 2 });
    expect((await attempt(replica)).limit).toMatchObject({ remaining: 1 });
    expect((await attempt(limited)).limit!.resetSeconds).toBeGreaterThan(30);
    const refused = await refusal(attempt(replica));
    expect(refused).toMatchObject({
      reason: 'rate_limited',
      metadata: { policy: 'webhook-config', quota: '3', window: '60', remaining: '0' },
    });
    expect(refused.retryAfter).toBeGreaterThan(30);
    expect(refused.metadata!['reset']).toBe(String(refused.retryAfter));
    tenant = newTenant();
    expect((await attempt(limited)).limit).toMatchObject({ remaining: 2 });
  });

  test('however many come at once over replicas, no more than the quota pass', async () => {
    const answers = await Promise.allSettled(Array.from({ length: 12 }, (_, at) => attempt(at % 2 ? limited : replica)));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  });

  test('what is not valid is not counted, and what is refused by the limit neither', async () => {
    for (let time = 0; time < 5; time++)
      expect(await refusal(attempt(limited, { url: 'x' }))).toMatchObject({ reason: 'validation_failed' });
    for (let time = 0; time < 3; time++) await attempt(limited);
    for (let time = 0; time < 5; time++) expect(await refusal(attempt(limited))).toMatchObject({ reason: 'rate_limited' });
    await inTransaction(limited.work, [tenant.tenant], (client) =>
      client.query(`update limits set taken = array(select at - interval '59 seconds' from unnest(taken) as at)`),
    );
    expect((await refusal(attempt(limited))).retryAfter).toBe(1);
    await inTransaction(limited.work, [tenant.tenant], (client) =>
      client.query(`update limits set taken = array(select at - interval '1 second' from unnest(taken) as at)`),
    );
    expect((await attempt(limited)).limit).toMatchObject({ remaining: 2 });
  });

  test('retries are counted whatever comes of them, but for ids that are none', async () => {
    const { tenantId } = tenant;
    const retry = (deliveryId: string) => refusal(limited.client.retryDelivery({ tenantId, deliveryId }));
    for (let time = 0; time < 3; time++)
      expect(await retry('nonsense')).toMatchObject({ reason: 'invalid_delivery_id', message: 'Invalid delivery ID' });
    const unknown = newId('wh_delivery');
    expect(await retry(unknown)).toMatchObject({ reason: 'delivery_not_found', message: 'Webhook delivery not found' });
    expect(await retry(unknown)).toMatchObject({ reason: 'delivery_not_found' });
    expect(await retry(unknown)).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'retries', window: '3600' } });
  });

  test('tests are counted, also without a webhook', async () => {
    const { tenantId } = tenant;
    const test = () => refusal(limited.client.testWebhook({ tenantId }));
    expect(await test()).toMatchObject({ reason: 'webhook_not_configured' });
    expect(await test()).toMatchObject({ reason: 'webhook_not_configured' });
    expect(await test()).toMatchObject({ reason: 'rate_limited', metadata: { policy: 'tests', quota: '2', window: '3600' } });
  });
});

describe('a test', () => {
  let local: RunningNotifier;

  beforeAll(async () => {
    local = await startNotifier();
  });

  afterAll(() => local.end());

  const configured = async (change = {}) =>
    local.client.configureWebhook({ tenantId: tenant.tenantId, url: receiver.url, events, ...change });

  test('is sent at once and signed, though the webhook is disabled and not subscribed, and is recorded', async () => {
    const { secret = '' } = await configured({ enabled: false });
    const { tenantId } = tenant;
    const answer = await local.client.testWebhook({ tenantId });
    expect(answer.delivery).toMatchObject({ status: 'delivered', statusCode: 200, attempts: 1, eventType: 'test.webhook' });
    expect(answer.responseTimeMs).toBeGreaterThanOrEqual(0);
    expect(answer.limit).toMatchObject({ policy: 'tests' });
    const payload = JSON.parse(answer.payload);
    expect(payload).toMatchObject({ type: 'test.webhook', livemode: false, tenant_id: tenantId, data: { message: expect.any(String) } });
    const { headers, body } = receiver.received.at(-1)!;
    expect(body).toBe(answer.payload);
    expect(headers['x-webhook-signature']).toBe(bodySignature(secret, body));
    const signed = { id: payload.id, timestamp: Number(headers['webhook-timestamp']), body };
    expect(headers['webhook-signature']).toBe(standardSignature(secret, signed));
    const { deliveries } = await local.client.listDeliveries({ tenantId, limit: 10 });
    expect(deliveries).toEqual([answer.delivery]);
  });

  test.each(['transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'test.webhook'])(
    'may be of type %s',
    async (eventType) => {
      await configured();
      const { delivery, payload } = await local.client.testWebhook({ tenantId: tenant.tenantId, eventType });
      expect(delivery).toMatchObject({ eventType, status: 'delivered' });
      expect(JSON.parse(payload)).toMatchObject({ type: eventType, livemode: false });
    },
  );

  test('of another type is refused and not counted', async () => {
    const attempt = local.client.testWebhook({ tenantId: tenant.tenantId, eventType: 'account.deleted' });
    expect(await refusal(attempt)).toMatchObject({ reason: 'validation_failed', field: 'event_type', tag: 'oneof' });
  });

  test('that fails says how, is recorded as failed and never tried again by itself', async () => {
    const failing = await startReceiver((_, response) => response.writeHead(503).end('away'));
    await configured({ url: failing.url });
    const { tenantId } = tenant;
    const refused = await refusal(local.client.testWebhook({ tenantId }));
    expect(refused).toMatchObject({ reason: 'test_failed', message: 'Test webhook failed' });
    expect(refused.metadata).toMatchObject({ status_code: '503', error_class: 'http_status', policy: 'tests' });
    const deliveryId = refused.metadata!['delivery_id']!;
    const { delivery, attempts, responseBody } = await local.client.getDelivery({ tenantId, deliveryId });
    expect(delivery).toMatchObject({ status: 'failed', attempts: 1, statusCode: 503 });
    expect(attempts).toHaveLength(1);
    expect(responseBody).toBe('away');
    await local.client.retryDelivery({ tenantId, deliveryId });
    await failing.count(2);
    await until(async () => (await local.client.getDelivery({ tenantId, deliveryId })).delivery?.status === 'failed');
    await failing.close();
    const gone = await refusal(local.client.testWebhook({ tenantId }));
    expect(gone.metadata).toMatchObject({ status_code: '', error_class: 'connection_failed' });
  });

  test('whose process died while it waited has failed, and is not sent again', async () => {
    await configured();
    await local.client.testWebhook({ tenantId: tenant.tenantId });
    const before = receiver.received.length;
    await inTransaction(local.work, [tenant.tenant], async (client) => {
      await client.query(`update deliveries set status = 'pending', delivered_at = null`);
      await client.query(`insert into claims (tenant_id, delivery_id, claim_id, started_at, until)
        select tenant_id, id, id, created_at, now() from deliveries`);
      await client.query('update due set next_at = now()');
    });
    local.courier.wake();
    const [delivery] = await until(async () => {
      const { deliveries } = await local.client.listDeliveries({ tenantId: tenant.tenantId, limit: 1, status: 'failed' });
      return deliveries.length > 0 && deliveries;
    });
    expect(delivery).toMatchObject({ errorClass: 'timeout', attempts: 1 });
    expect(receiver.received).toHaveLength(before);
  });
});

describe('a retry by hand', () => {
  test('is refused of what has not failed, and of what has nowhere to go', async () => {
    const local = await startNotifier({ claims: false });
    try {
      const { tenantId, posting } = tenant;
      await local.client.configureWebhook({ tenantId, url: receiver.url, events });
      await local.client.ingest({ events: [posting()] });
      const { deliveries } = await local.client.listDeliveries({ tenantId, limit: 1 });
      const deliveryId = deliveries[0]!.id;
      const retry = () => local.client.retryDelivery({ tenantId, deliveryId });
      expect(await refusal(retry())).toMatchObject({ reason: 'delivery_not_failed' });
      await inTransaction(local.work, [tenant.tenant], (client) =>
        client.query(`update deliveries set status = 'failed', failed_at = now()`),
      );
      await local.client.updateWebhook({ tenantId, enabled: false });
      expect(await refusal(retry())).toMatchObject({ reason: 'webhook_disabled' });
      await local.client.deleteWebhook({ tenantId });
      expect(await refusal(retry())).toMatchObject({ reason: 'webhook_disabled' });
      const other = newTenant();
      expect(await refusal(local.client.retryDelivery({ tenantId: other.tenantId, deliveryId }))).toMatchObject({
        reason: 'delivery_not_found',
      });
      await local.client.configureWebhook({ tenantId, url: receiver.url, events });
      const both = await Promise.allSettled([retry(), retry(), retry()]);
      expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    } finally {
      await local.end();
    }
  });
});
