// The records of the answers as the document describes them, one schema each.
import { currencies } from '../services/platform/money.ts';
import { scopes } from './auth.ts';
import { accountStatuses, accountTypes, businessTypes, deliveryStatuses, sides, webhookEvents } from './fields.ts';
import { errorCodes } from './errors.ts';

type Schema = Record<string, unknown>;

const string: Schema = { type: 'string' };
const integer: Schema = { type: 'integer' };
/** What grows beyond 32 bits; generators of clients would take it for less. */
export const long: Schema = { type: 'integer', format: 'int64' };
const flag: Schema = { type: 'boolean' };
const time: Schema = { type: 'string', format: 'date-time' };
const money: Schema = { type: 'string', pattern: '^-?[0-9]+\\.[0-9]{2}$', description: 'Decimal text with two fraction digits.' };
const metadata: Schema = { type: 'object' };
const maybe = (schema: Schema): Schema => ({ ...schema, type: [schema['type'], 'null'] });
const word = (of: readonly string[]): Schema => ({ type: 'string', enum: [...of] });
const maybeWord = (of: readonly string[]): Schema => ({ type: ['string', 'null'], enum: [...of, null] });
/** A TypeID of a prefix. */
export const id = (prefix: string): Schema => ({ type: 'string', pattern: `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$` });
const list = (items: Schema): Schema => ({ type: 'array', items });

/** A reference to one of the schemas. */
export function ref(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object all of whose fields are always there. */
export function record(properties: Schema): Schema {
  return { type: 'object', required: Object.keys(properties), properties };
}

const account = {
  id: id('acc'),
  account_code: string,
  name: string,
  type: word(accountTypes),
  normal_balance: word(sides),
  currency: { ...maybeWord(currencies), description: 'null: all four.' },
  parent_code: maybe(string),
  is_group: { ...flag, description: 'Takes no postings.' },
  description: maybe(string),
  allow_negative: {
    ...flag,
    description: 'false: no posting may leave the balance below zero. Of a group it says nothing about the accounts below it.',
  },
  status: word(accountStatuses),
  system: { ...flag, description: 'Suspense and FX position accounts.' },
  metadata,
  version: long,
  created_at: time,
  updated_at: time,
};

const webhook = {
  url: string,
  events: list(word(webhookEvents)),
  enabled: {
    ...flag,
    description:
      'false: no event is delivered, nor later, and what is pending fails; tests are sent, and a retry by hand is refused (`webhook_disabled`). It counts when an event is taken up, shortly after its request.',
  },
  created_at: time,
  updated_at: time,
};

const errorClasses = [
  // No status was received.
  ...['dns', 'refused', 'reset', 'timeout', 'tls', 'protocol', 'response_too_large', 'address_not_allowed'],
  ...['redirect', 'http_status', 'webhook_disabled'],
  // Of tests only: other deliveries wait until the secret can be decrypted.
  'secret_unreadable',
];
const errorClass = word(errorClasses);
const transactionKinds = ['single', 'double', 'reversal'];

/**
 * Words that stand in more than one place, by the name of their type in the document. (Without one, generators of clients made a type of each place,
 * so that an account's currency was none that a posting takes, and of those with null a word `<nil>`.)
 */
export const words: Record<string, readonly string[]> = {
  AccountStatus: accountStatuses,
  AccountType: accountTypes,
  BusinessType: businessTypes,
  Currency: currencies,
  DeliveryErrorClass: errorClasses,
  DeliveryStatus: deliveryStatuses,
  Scope: scopes,
  Side: sides,
  TransactionKind: transactionKinds,
  WebhookEventType: webhookEvents,
};
const answered = {
  status_code: { ...maybe(integer), description: 'What the receiver answered; null: nothing.' },
  error_class: { ...maybeWord(errorClasses), description: 'Why the attempt failed; null: it has not.' },
};

const delivery = {
  id: id('wh_delivery'),
  event_id: id('evt'),
  event_type: word(webhookEvents),
  status: word(deliveryStatuses),
  ...answered,
  attempts: { ...integer, description: 'Attempts made so far, one that is queued at once included.' },
  max_attempts: { ...integer, description: 'Attempts that are made by themselves.' },
  next_retry_at: { ...maybe(time), description: 'null: no further attempt is due.' },
  created_at: time,
};
const ended = {
  delivered_at: { ...time, description: 'Only where it is delivered.' },
  failed_at: { ...time, description: 'Only where it has failed.' },
};

/** `data.pagination` of a list. */
export const pagination = ref('Pagination');

/** The schemas of the document by name. */
export const schemas: Record<string, Schema> = {
  Error: {
    type: 'object',
    required: ['success', 'error', 'code', 'request_id'],
    properties: {
      success: { ...flag, description: 'false' },
      error: { ...string, description: 'What went wrong, for people.' },
      code: { ...word(errorCodes), description: 'What went wrong, for programs.' },
      request_id: string,
      details: { ...ref('FieldProblem'), description: 'The first field to blame.' },
      errors: {
        type: 'array',
        maxItems: 20,
        items: { allOf: [ref('FieldProblem'), record({ message: string })] },
        description: 'All fields to blame, at most 20.',
      },
      delivery_id: { ...id('wh_delivery'), description: 'Of a test delivery that failed.' },
      status_code: { ...maybe(integer), description: 'What its receiver answered; null: nothing.' },
      error_class: { ...errorClass, description: 'Why it failed.' },
    },
  },
  FieldProblem: record({
    field: { ...string, description: 'For example `entries[1].amount`.' },
    tag: { ...string, description: '`required`, `type`, `max`, …, or the code of a business rule.' },
    value: { description: 'What was sent, cut short where it is long; `""` where nothing was, or where it is a secret.' },
  }),
  Pagination: record({ limit: integer, next_cursor: maybe(string), has_more: flag }),
  User: record({ id: id('user'), email: string, first_name: string, last_name: string, status: word(['active']), created_at: time }),
  Tenant: record({
    id: id('tenant'),
    name: string,
    slug: string,
    business_type: word(businessTypes),
    description: maybe(string),
    status: word(['active']),
    created_at: time,
  }),
  ApiKey: record({
    id: id('key'),
    name: string,
    scopes: list(word(scopes)),
    description: maybe(string),
    last4: { ...string, description: 'The last four characters of the key.' },
    created_at: time,
    expires_at: maybe(time),
    revoked_at: maybe(time),
  }),
  Account: record(account),
  AccountNode: {
    type: 'object',
    required: [...Object.keys(account), 'children'],
    properties: {
      ...account,
      children: list(ref('AccountNode')),
      balances: { ...list(ref('BalanceTotal')), description: 'Of the node and all below it, where they were asked for.' },
    },
  },
  BalanceTotal: record({
    currency: word(currencies),
    debits: money,
    credits: money,
    balance: { ...money, description: 'Signed, in the node’s normal direction.' },
  }),
  Transaction: record({
    transaction_id: id('txn'),
    kind: word(transactionKinds),
    status: word(['posted']),
    idempotency_key: string,
    description: string,
    reference: maybe(string),
    currency: { ...maybeWord(currencies), description: 'null: several.' },
    amount: { ...maybe(money), description: 'Sum of the debits; null where there are several currencies.' },
    entries: list(ref('Entry')),
    metadata,
    effective_at: { ...time, description: 'As `created_at`: a date that is sent means nothing.' },
    created_at: time,
    sequence: { ...long, description: 'Place of its event in the tenant’s log.' },
    reverses: { ...maybe(id('txn')), description: 'The transaction that this one reverses.' },
    reversed_by: { ...maybe(id('txn')), description: 'The transaction that reverses this one.' },
  }),
  Entry: record({
    account_id: id('acc'),
    account_code: string,
    amount: money,
    side: word(sides),
    currency: word(currencies),
    balance_after: money,
    counter: { ...flag, description: 'The line on the suspense account that balances a single posting.' },
  }),
  Balance: record({
    account_id: id('acc'),
    account_code: string,
    currency: word(currencies),
    balance: { ...money, description: 'Signed, in the account’s normal direction.' },
    debits: money,
    credits: money,
    pending_debits: { ...money, description: 'Always 0.00: nothing can be held yet.' },
    pending_credits: { ...money, description: 'Always 0.00.' },
    available: { ...money, description: 'The balance, as nothing is held.' },
    version: { ...long, description: 'Number of transactions that have changed this balance.' },
    updated_at: maybe(time),
  }),
  BalanceChange: record({
    transaction_id: id('txn'),
    sequence: long,
    side: word(sides),
    amount: money,
    balance_after: money,
    created_at: time,
  }),
  Event: record({
    id: id('evt'),
    type: word(['transaction.posted', 'account.created', 'account.updated']),
    sequence: long,
    created: { ...long, description: 'Unix time in seconds.' },
    actor: { ...string, description: 'Id of the key or user, or the name of the internal caller.' },
    request_id: { ...maybe(string), description: 'Of the request that did it; null where an internal caller gave none.' },
    data: { type: 'object' },
    hash: {
      ...string,
      pattern: '^[0-9a-f]{64}$',
      description: 'Of this event and `previous_hash`: who keeps it can tell later whether anything up to here was changed or removed.',
    },
    previous_hash: { ...string, pattern: '^[0-9a-f]{64}$' },
  }),
  WebhookConfig: record(webhook),
  WebhookConfigWithSecret: record({ ...webhook, secret: { ...maybe(string), description: 'Shown this once; null: unchanged.' } }),
  WebhookDelivery: { type: 'object', required: Object.keys(delivery), properties: { ...delivery, ...ended } },
  WebhookDeliveryDetail: {
    type: 'object',
    required: [...Object.keys(delivery), 'payload', 'response_body', 'attempt_history'],
    properties: {
      ...delivery,
      ...ended,
      payload: ref('WebhookEvent'),
      response_body: { ...maybe(string), description: 'The receiver’s last answer, up to 16 KiB; null: none.' },
      attempt_history: list(record({ number: integer, started_at: time, duration_ms: integer, ...answered })),
    },
  },
};
