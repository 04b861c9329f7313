import { refusal } from '../../test/identity.ts';
import { newTenant, startNotifier, type RunningNotifier, type TestTenant } from '../../test/notifier.ts';
import { newId } from '../platform/ids.ts';
import { inTransaction } from '../platform/postgres.ts';
import { Targets } from './addresses.ts';

const events = ['transaction.posted', 'account.created'];
const url = 'https://hooks.example.com/in';
let notifier: RunningNotifier;
let tenant: TestTenant;

beforeAll(async () => {
  // Secure, and every name leads to one public address; nothing is sent.
  notifier = await startNotifier({ targets: new Targets(false, () => Promise.resolve(['93.184.215.14'])), claims: false });
});

afterAll(() => notifier.end());

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
  return sealed.map((each) => notifier.secrets.decrypt(tenant.tenant, each));
}

describe('configuring', () => {
  test('creates a webhook, whose secret is shown once', async () => {
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
    ['a secret that does not print', { secret: `${'x'.repeat(20)}\n` }, 'secret', 'printable'],
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

  test('the database does not store the secret, nor a value of a header', async () => {
    const { secret, webhook } = await configure({ headers: [{ name: 'X-Key', value: 'a value of a header' }] });
    expect(webhook!.headers).toMatchObject([{ name: 'X-Key' }]);
    expect(webhook!.headers[0]!.value).toBeUndefined();
    const { rows } = await inTransaction(notifier.work, [tenant.tenant], (client) => client.query('select * from webhooks'));
    expect(rows).toMatchObject([{ secret: expect.stringMatching(/^k1:/), headers: expect.stringMatching(/^k1:/) }]);
    expect(JSON.stringify(rows)).not.toContain(secret!.slice(6));
    expect(JSON.stringify(rows)).not.toContain('a value of a header');
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
      const tag = tenantId === '' ? 'required' : 'id';
      expect(await refusal(call({ tenantId }))).toMatchObject({ reason: 'validation_failed', field: 'tenant_id', tag });
    }
  }
});
