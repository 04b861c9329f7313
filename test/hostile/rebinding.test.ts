// DNS rebinding: a name that is public when a webhook is configured and private when it is delivered to, through the whole notifier.
import { Targets, dnsResolve } from '../../services/notifier/addresses.ts';
import { authority, good } from '../certificates.ts';
import { startNameServer, type NameServer, type Records } from '../name-server.ts';
import { newTenant, settled, startNotifier, startReceiver, type Receiver, type RunningNotifier } from '../notifier.ts';

const outside = '93.184.215.14';
const answers = new Map<string, Records>();
let names: NameServer;
let notifier: RunningNotifier;
let receiver: Receiver;
let port: string;

beforeAll(async () => {
  names = await startNameServer((name) => answers.get(name) ?? { addresses: [] });
  const targets = new Targets(false, dnsResolve({ system: false, servers: [names.address] }));
  notifier = await startNotifier({ config: { insecureTargets: false }, targets, ca: authority });
  receiver = await startReceiver(undefined, good);
  port = new URL(receiver.url).port;
});
afterAll(async () => {
  await notifier.end();
  await receiver.close();
  await names.close();
});

const inside: [string, string[]][] = [
  ['loopback', ['127.0.0.1']],
  ['loopback of IPv6', ['::1']],
  ['IPv4 mapped into IPv6', ['::ffff:127.0.0.1']],
  ['metadata of a cloud', ['169.254.169.254']],
  ['metadata of a cloud over NAT64', ['64:ff9b::a9fe:a9fe']],
  ['a public address and a private one at once', [outside, '127.0.0.1']],
];

test.each(inside)('a name that was public when it was configured is not connected to when it leads to %s', async (what, addresses) => {
  const name = `rebind-${inside.findIndex(([each]) => each === what)}.test`;
  answers.set(name, { addresses: [outside] });
  const { tenantId, posting } = newTenant();
  await notifier.client.configureWebhook({ tenantId, url: `https://${name}:${port}/hook`, events: ['transaction.posted'] });
  answers.set(name, { addresses });
  const before = receiver.sockets.size;
  await notifier.client.ingest({ events: [posting()] });
  const [delivery] = await settled(notifier.client, tenantId, 1);
  expect(delivery).toMatchObject({ status: 'failed', errorClass: 'address_not_allowed', attempts: 3 });
  await expect(notifier.client.testWebhook({ tenantId })).rejects.toThrow('Test webhook failed');
  expect([receiver.received.length, receiver.sockets.size]).toEqual([0, before]);
  // Resolved again for each attempt.
  expect(names.asked.filter((each) => each === `A ${name}`).length).toBeGreaterThanOrEqual(5);
});

test('an alias is judged by the address it resolves to', async () => {
  answers.set('alias.test', { alias: 'inside.test', addresses: ['127.0.0.1'] });
  const { tenantId } = newTenant();
  const refused = notifier.client.configureWebhook({ tenantId, url: `https://alias.test:${port}/`, events: ['transaction.posted'] });
  await expect(refused).rejects.toMatchObject({ rawMessage: expect.stringContaining('url') });
});

test('a name that is private when it is configured is refused, also as a change', async () => {
  answers.set('private.test', { addresses: ['192.168.1.1'] });
  answers.set('unresolved.test', { addresses: [] });
  const { tenantId } = newTenant();
  await notifier.client.configureWebhook({ tenantId, url: 'https://unresolved.test/', events: ['transaction.posted'] });
  for (const url of [`https://private.test:${port}/`, `https://127.0.0.1:${port}/`, `https://[::1]:${port}/`, `https://0x7f.1:${port}/`]) {
    await expect(notifier.client.updateWebhook({ tenantId, url })).rejects.toMatchObject({ rawMessage: expect.stringContaining('url') });
  }
  expect((await notifier.client.getWebhook({ tenantId })).webhook?.url).toBe('https://unresolved.test/');
  expect(receiver.received).toEqual([]);
});

test('the same receiver gets deliveries where private addresses are allowed, so the address check refused them above', async () => {
  answers.set('hooks.test', { addresses: ['127.0.0.1'] });
  const targets = new Targets(true, dnsResolve({ system: false, servers: [names.address] }));
  const open = await startNotifier({ targets, ca: authority });
  try {
    const { tenantId, posting } = newTenant();
    await open.client.configureWebhook({ tenantId, url: `https://hooks.test:${port}/hook`, events: ['transaction.posted'] });
    await open.client.ingest({ events: [posting()] });
    expect((await settled(open.client, tenantId, 1))[0]).toMatchObject({ status: 'delivered', statusCode: 200 });
    expect(receiver.received).toHaveLength(1);
  } finally {
    await open.end();
  }
});
