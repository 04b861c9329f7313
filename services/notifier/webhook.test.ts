import { bodySignature, deliveryHeaders, errorOfStatus, newSecret, nextState, standardSignature } from './webhook.ts';

test('the body’s signature is the one that GitHub publishes for its own', () => {
  expect(bodySignature("It's a Secret to Everybody", 'Hello, World!')).toBe(
    'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
  );
});

test('the other signature is the one that Standard Webhooks publishes', () => {
  const signed = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestamp: 1614265330, body: '{"test": 2432232314}' };
  expect(standardSignature('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', signed)).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

test.each([
  'whsec_not base64!!',
  'whsec_',
  'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS',
  'a secret of our own',
  'secretMfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
])('the secret %p is not base64 behind its prefix, so that its bytes are the key', (secret) => {
  const signed = { id: 'msg', timestamp: 1, body: '{}' };
  const encoded = `whsec_${Buffer.from(secret).toString('base64')}`;
  expect(standardSignature(secret, signed)).toBe(standardSignature(encoded, signed));
});

test('in an overlap both secrets sign by the standard, and the newest alone the body', () => {
  const [newest, before] = [newSecret(), newSecret()];
  const signed = { id: 'evt_1', timestamp: 1_700_000_000, body: '{"ä":1}' };
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const about = { id: 'wh_delivery_1', eventType: 'account.created', attempt: 2, traceparent };
  expect(deliveryHeaders([newest, before], signed, about)).toEqual({
    'content-type': 'application/json',
    'user-agent': 'Ledger-Webhooks/1',
    'x-webhook-signature': bodySignature(newest, signed.body),
    'x-webhook-id': 'evt_1',
    'x-webhook-event': 'account.created',
    'x-webhook-delivery': 'wh_delivery_1',
    'x-webhook-attempt': '2',
    'webhook-id': 'evt_1',
    'webhook-timestamp': '1700000000',
    traceparent,
    'webhook-signature': `${standardSignature(newest, signed)} ${standardSignature(before, signed)}`,
  });
});

test('a delivery without a trace context has no header of one', () => {
  const headers = deliveryHeaders(
    [newSecret()],
    { id: 'evt_1', timestamp: 1, body: '{}' },
    { id: 'd', eventType: 't', attempt: 1, traceparent: null },
  );
  expect(Object.keys(headers)).not.toContain('traceparent');
});

test('only a status from 200 to 299 has arrived', () => {
  expect([200, 204, 299].map(errorOfStatus)).toEqual([null, null, null]);
  expect([300, 301, 302, 304, 307, 308, 399].map(errorOfStatus)).toEqual(Array(7).fill('redirect'));
  expect([100, 199, 400, 404, 410, 429, 500, 503, 599].map(errorOfStatus)).toEqual(Array(9).fill('http_status'));
});

test('three attempts are made, the second a minute after the first, the third two minutes after the second', () => {
  const delays = [60, 120];
  expect(nextState('timeout', 1, false, delays)).toEqual({ status: 'pending', delay: 60 });
  expect(nextState('http_status', 2, false, delays)).toEqual({ status: 'pending', delay: 120 });
  expect(nextState('redirect', 3, false, delays)).toEqual({ status: 'failed' });
  for (const attempt of [1, 2, 3, 4]) expect(nextState(null, attempt, false, delays)).toEqual({ status: 'delivered' });
});

test('an attempt by hand is the last, whatever its number', () => {
  for (const attempt of [1, 2, 4]) expect(nextState('reset', attempt, true, [60, 120])).toEqual({ status: 'failed' });
});

test('a made secret is 32 random bytes as Standard Webhooks writes them', () => {
  expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(newSecret()).not.toBe(newSecret());
});
