// What tenants' receivers are sent, for the document: one webhook an event.
import type { webhookEvents } from './fields.ts';
import { ref } from './records.ts';

type EventType = (typeof webhookEvents)[number];

const told: Record<EventType, string> = {
  'transaction.posted': 'A transaction was posted',
  'balance.updated': 'A posting changed a balance',
  'account.created': 'An account was made',
  'account.updated': 'An account was changed',
  'test.webhook': 'A test was asked for',
};

const headers: [name: string, description: string, example: string][] = [
  [
    'X-Webhook-Signature',
    '`sha256=` and the hex HMAC-SHA256 of the body, keyed with the UTF-8 bytes of the whole secret.',
    `sha256=${'0'.repeat(64)}`,
  ],
  ['X-Webhook-Id', 'The event’s id, the same on each attempt.', 'evt_01jz8x5r9ze8htd2k1q0a7w4vn'],
  ['X-Webhook-Event', 'The event’s type.', 'transaction.posted'],
  ['X-Webhook-Delivery', 'The delivery’s id.', 'wh_delivery_01jz8x5r9ze8htd2k1q0a7w4vn'],
  ['X-Webhook-Attempt', '1 and up.', '1'],
  ['webhook-id', 'As X-Webhook-Id.', 'evt_01jz8x5r9ze8htd2k1q0a7w4vn'],
  ['webhook-timestamp', 'When this attempt began, Unix seconds.', '1767225600'],
  [
    'webhook-signature',
    'As https://www.standardwebhooks.com has it; of both secrets while they overlap.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ],
  [
    'traceparent',
    'The W3C trace context of the request that did it; where it had none, one made from the event’s id.',
    '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  ],
];

const post = (type: EventType): Record<string, unknown> => ({
  operationId: `on${type.replaceAll(/(?:^|\.)([a-z])/g, (_, letter: string) => letter.toUpperCase())}`,
  tags: ['Webhooks'],
  summary: told[type],
  description: 'A delivery to the tenant’s own address, repeated until it has arrived, three times at most.',
  security: [],
  parameters: headers.map(([name, description, example]) => ({
    name,
    in: 'header',
    required: name !== 'traceparent',
    description,
    schema: { type: 'string' },
    example,
  })),
  requestBody: { required: true, content: { 'application/json': { schema: ref('WebhookEvent') } } },
  responses: {
    '2XX': { description: 'It has arrived. The body is kept, up to 64 KiB.' },
    default: { description: 'It has not, and is tried again.' },
  },
});

/** The document's `webhooks`, by the event's type. */
export const documentWebhooks = Object.fromEntries((Object.keys(told) as EventType[]).map((type) => [type, { post: post(type) }]));
