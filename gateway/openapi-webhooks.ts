// The `webhooks` of the OpenAPI document: one for each event type, and the schemas of their bodies.
import { balance } from './balance-schemas.ts';
import { changedPeriod } from './books-schemas.ts';
import { webhookEvents } from './fields.ts';
import { paymentSchemas } from './payment-schemas.ts';
import { proofEvents } from './proof-schemas.ts';
import { id, long, record, ref, schemas } from './records.ts';
import { exampleBodies } from './webhook-examples.ts';

type EventType = (typeof webhookEvents)[number];
type Fields = Record<string, unknown>;

const summaries: Record<EventType, string> = {
  'transaction.posted': 'A transaction was posted',
  'balance.updated': 'A posting or hold changed a balance; one for each account and currency',
  'account.created': 'An account was created',
  'account.updated': 'An account was changed',
  'hold.created': 'Money was reserved',
  'hold.captured': 'Money that a hold reserved was moved; one for each capture',
  'hold.voided': 'A hold was voided',
  'hold.expired': 'A hold has expired',
  'definition.changed': 'A rule was made, changed or deleted',
  'books.updated': 'Settings of the books were changed',
  'period.closed': 'A period was closed',
  'period.reopened': 'Closed periods were reopened',
  'subject.erased': 'The personal data of a subject was erased',
  'transaction.redacted': 'Texts of a transaction were removed',
  'log.imported': 'A log was imported; it is never delivered, because an imported log is not published',
  'books.unfrozen': 'An operator has ended a freeze of the books',
  'test.webhook': 'A test delivery was requested',
};

// `transaction.posted` as `TransactionPosted`.
const pascalCase = (type: EventType): string => type.replaceAll(/(?:^|\.)([a-z])/g, (_, letter: string) => letter.toUpperCase());

const answered: Fields = { ...schemas, ...paymentSchemas };
const fieldsOf = (name: string): Fields => (answered[name] as { properties: Fields }).properties;
const pick = (fields: Fields, ...names: string[]): Fields => Object.fromEntries(names.map((name) => [name, fields[name]]));

const transaction = fieldsOf('Transaction');
const account = fieldsOf('Account');
const hold = fieldsOf('Hold');
const maybe = (schema: unknown): Fields => ({ ...(schema as Fields), type: [(schema as Fields)['type'], 'null'] });
const { transaction_id, sequence } = transaction;

const envelope = (type: readonly string[], data: string): Fields =>
  record({
    id: { ...id('evt'), description: 'The same on every attempt: detect repetitions by it.' },
    type: { type: 'string', enum: [...type] },
    created: { ...long, description: 'Unix time in seconds.' },
    data: ref(data),
    tenant_id: id('tenant'),
    livemode: { type: 'boolean', description: 'false: a test delivery.' },
  });

const data: Record<Exclude<EventType, 'test.webhook'>, Fields> = {
  'transaction.posted': {
    ...pick(transaction, 'transaction_id', 'kind', 'idempotency_key', 'description', 'reference', 'currency', 'amount'),
    lines: { type: 'array', items: ref('TransactionPostedLine') },
    ...pick(transaction, 'effective_at', 'requested_effective_at', 'reverses', 'origin', 'personal', 'redacted', 'metadata'),
    unreversed: {
      type: ['array', 'null'],
      items: balance.debits,
      description: 'Of a reversal: what is left to reverse of the transaction in `reverses`, by its entries; null: nothing.',
    },
    sequence,
  },
  'balance.updated': {
    ...pick(balance, 'account_id', 'account_code', 'currency', 'balance'),
    previous_balance: { ...balance.balance, description: 'The balance before.' },
    ...pick(balance, 'debits', 'credits', 'pending_debits', 'pending_credits', 'available', 'version'),
    transaction_id: { ...maybe(transaction_id), description: 'null: a hold was made, voided or has expired.' },
    hold_id: { ...maybe(hold['hold_id']), description: 'The hold that was made, captured, voided or has expired; null: another posting.' },
    sequence,
  },
  'account.created': { ...account, sequence },
  'account.updated': {
    ...account,
    changes: { type: 'array', items: { type: 'string' }, description: 'Names of the changed fields.' },
    sequence,
  },
  'hold.created': hold,
  'hold.captured': { ...hold, transaction_id },
  'hold.voided': { ...hold, void_description: { type: 'string', description: 'The `description` of the void.' } },
  'hold.expired': hold,
  'definition.changed': {
    kind: { type: 'string', enum: ['limit', 'monitor', 'template', 'schedule'] },
    id: { type: 'string' },
    version: { ...long, description: 'Counts its changes, from 1.' },
    record: { type: ['object', 'null'], description: 'As it is after the change; null: deleted.' },
  },
  'books.updated': {
    sequence,
    books: ref('BooksSettings'),
  },
  'period.closed': { ...changedPeriod, sequence },
  'period.reopened': { ...changedPeriod, sequence },
  'subject.erased': { ...proofEvents['subject.erased'], sequence },
  'transaction.redacted': { ...proofEvents['transaction.redacted'], sequence },
  'log.imported': { ...proofEvents['log.imported'], sequence },
  'books.unfrozen': { ...proofEvents['books.unfrozen'], sequence },
};

const liveEvents = Object.fromEntries(Object.keys(data).map((type) => [type, `${pascalCase(type as EventType)}Event`]));

const bodies = Object.entries(data).flatMap(([type, fields]): [string, Fields][] => {
  const name = pascalCase(type as EventType);
  if (fields === hold) return [[`${name}Event`, envelope([type], 'Hold')]];
  return [
    [`${name}Data`, record(fields)],
    [`${name}Event`, envelope([type], `${name}Data`)],
  ];
});

/** Schemas of the delivered bodies, by name. */
export const webhookSchemas: Record<string, Fields> = {
  ...Object.fromEntries(bodies),
  TransactionPostedLine: record(pick(fieldsOf('Entry'), 'account_id', 'account_code', 'amount', 'side', 'currency')),
  TestData: record({ message: { type: 'string' } }),
  TestEvent: envelope(webhookEvents, 'TestData'),
  LiveWebhookEvent: {
    description: 'What has happened: the event of its `type`.',
    oneOf: Object.values(liveEvents).map(ref),
    discriminator: {
      propertyName: 'type',
      mapping: Object.fromEntries(Object.entries(liveEvents).map(([type, name]) => [type, ref(name).$ref])),
    },
  },
  WebhookEvent: {
    description: 'If `livemode` is true, a `LiveWebhookEvent`; a test of any type is a `TestEvent`.',
    anyOf: [ref('LiveWebhookEvent'), ref('TestEvent')],
  },
};

/** The schema of a header field, from its example. */
export const schemaOfHeader = (example: unknown): object => (typeof example === 'number' ? long : { type: 'string' });

const headersOf = (type: EventType): [name: string, description: string, example: string | number][] => [
  [
    'X-Webhook-Signature',
    '`sha256=` and the hex HMAC-SHA256 of the body, keyed with the UTF-8 bytes of the whole secret; only the new one while two overlap.',
    `sha256=${'0'.repeat(64)}`,
  ],
  ['X-Webhook-Id', 'The event’s id, the same on each attempt.', 'evt_01jz8x5r9ze8htd2k1q0a7w4vn'],
  ['X-Webhook-Event', 'The event’s type.', type],
  ['X-Webhook-Delivery', 'The delivery’s id.', 'wh_delivery_01jz8x5r9ze8htd2k1q0a7w4vn'],
  ['X-Webhook-Attempt', 'Number of the attempt, from 1.', 1],
  ['webhook-id', 'Equals X-Webhook-Id.', 'evt_01jz8x5r9ze8htd2k1q0a7w4vn'],
  ['webhook-timestamp', 'Start of this attempt, Unix seconds.', 1_767_225_600],
  [
    'webhook-signature',
    'Signature as specified by https://www.standardwebhooks.com; of both secrets while they overlap.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ],
  [
    'traceparent',
    'W3C trace context of the request that made the change; without one, derived from the event’s id.',
    '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  ],
];

const post = (type: EventType): Fields => {
  const isTest = type === 'test.webhook';
  return {
    operationId: `on${pascalCase(type)}`,
    // A tag of its own: one generator writes a file per tag and would lose the routes.
    tags: ['Deliveries'],
    summary: summaries[type],
    description: isTest
      ? 'A test delivery, sent once.'
      : 'A delivery to the tenant’s webhook, with up to three attempts; or a test delivery, sent once.',
    security: [],
    parameters: headersOf(type).map(([name, description, example]) => ({
      name,
      in: 'header',
      required: name !== 'traceparent',
      description,
      schema: schemaOfHeader(example),
      example,
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: isTest ? ref('TestEvent') : { anyOf: [ref(`${pascalCase(type)}Event`), ref('TestEvent')] },
          example: exampleBodies[type],
        },
      },
    },
    responses: {
      '2XX': { description: 'Delivered, whatever the body and the headers (up to 64 KiB) are. Up to 16 KiB of the body are kept.' },
      default: { description: isTest ? 'Failed.' : 'Not delivered; repeated, unless it is a test.' },
    },
  };
};

/** The document's `webhooks`, by the event's type. */
export const documentWebhooks = Object.fromEntries(webhookEvents.map((type) => [type, { post: post(type) }]));
