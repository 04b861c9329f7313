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
