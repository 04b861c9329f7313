// Receivers with a wrong certificate: no event reaches them, and the delivery shows tls_error.
import { Targets } from '../../services/notifier/addresses.ts';
import { authority, expired, formerAuthority, good } from '../certificates.ts';
import { newTenant, settled, startNotifier, startReceiver } from '../notifier.ts';

const both = `${authority}\n${formerAuthority}`;

test.each([
  ['is valid', good, 'hooks.test', both, { status: 'delivered', statusCode: 200 }],
  ['has expired', expired, 'hooks.test', both, { status: 'failed', errorClass: 'tls', attempts: 3 }],
  ['is for another name', good, 'other.test', both, { status: 'failed', errorClass: 'tls', attempts: 3 }],
  ['is of an untrusted authority', good, 'hooks.test', formerAuthority, { status: 'failed', errorClass: 'tls', attempts: 3 }],
])('a delivery to a receiver whose certificate %s ends as expected', async (_, certificate, name, ca, outcome) => {
  const receiver = await startReceiver(undefined, certificate);
  const notifier = await startNotifier({ targets: new Targets(true, () => Promise.resolve(['127.0.0.1'])), ca });
  try {
    const { tenantId, posting } = newTenant();
    const url = receiver.url.replace('127.0.0.1', name);
    await notifier.client.configureWebhook({ tenantId, url, events: ['transaction.posted'] });
    await notifier.client.ingest({ events: [posting()] });
    expect((await settled(notifier.client, tenantId, 1))[0]).toMatchObject(outcome);
    expect(receiver.received).toHaveLength(outcome.status === 'delivered' ? 1 : 0);
  } finally {
    await notifier.end();
    await receiver.close();
  }
});
