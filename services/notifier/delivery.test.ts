import {
  newTenant,
  settled,
  startNotifier,
  startReceiver,
  type Received,
  type Receiver,
  type RunningNotifier,
} from '../../test/notifier.ts';
import { bodySignature, standardSignature } from './webhook.ts';

const events = ['transaction.posted'];
let notifier: RunningNotifier;
const receivers: Receiver[] = [];

beforeAll(async () => {
  notifier = await startNotifier();
});

afterAll(async () => {
  await notifier.end();
  for (const receiver of receivers) await receiver.close();
});

async function receiver(...given: Parameters<typeof startReceiver>): Promise<Receiver> {
  const started = await startReceiver(...given);
  receivers.push(started);
  return started;
}

test('an event reaches the receiver signed, and its delivery says so', async () => {
  const { url, count } = await receiver((_, response) => response.end('thanks'));
  const { tenantId, posting } = newTenant();
  const { secret = '' } = await notifier.client.configureWebhook({ tenantId, url, events });
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const event = posting();
  await notifier.client.ingest({ events: [event] });
  const [{ headers, body }] = (await count(1)) as [Received];
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'x-webhook-signature': bodySignature(secret, body),
    'x-webhook-id': event.id,
    'x-webhook-event': 'transaction.posted',
    'x-webhook-attempt': '1',
    'webhook-id': event.id,
    'webhook-signature': standardSignature(secret, { id: event.id, timestamp: Number(headers['webhook-timestamp']), body }),
  });
  expect(JSON.parse(body)).toMatchObject({ id: event.id, type: 'transaction.posted', tenant_id: tenantId, livemode: true });
  const [delivery] = await settled(notifier.client, tenantId, 1);
  expect(delivery).toMatchObject({ status: 'delivered', statusCode: 200, attempts: 1, maxAttempts: 3, eventId: event.id });
  const whole = await notifier.client.getDelivery({ tenantId, deliveryId: delivery!.id });
  expect(whole).toMatchObject({ payload: body, responseBody: 'thanks', attempts: [{ number: 1, statusCode: 200 }] });
});
