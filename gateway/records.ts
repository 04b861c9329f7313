// Schemas of the records in answers, for the OpenAPI document.
import { currencies } from '../services/platform/money.ts';
import { roles, scopes } from '../services/platform/roles.ts';
import { roundings } from './payment-fields.ts';
import {
  accountStatuses,
  accountTypes,
  businessTypes,
  calendars,
  closingChoices,
  deliveryStatuses,
  exportFormats,
  entryOrders,
  holdStatuses,
  lateEntries,
  limitStatuses,
  limitSubjects,
  onExisting,
  reportColumns,
  reportComparisons,
  reportFormats,
  reportNames,
  periodActions,
  personalStates,
  proofFormats,
  sides,
  transactionKinds,
  webhookEvents,
} from './fields.ts';
import { errorCodes } from './errors.ts';

/** A schema of the document. */
export type Schema = Record<string, unknown>;

export const string: Schema = { type: 'string' };
export const integer: Schema = { type: 'integer' };
/** An integer beyond 32 bits; client generators assume less without the format. */
export const long: Schema = { type: 'integer', format: 'int64' };
export const flag: Schema = { type: 'boolean' };
export const time: Schema = { type: 'string', format: 'date-time' };
export const money: Schema = { type: 'string', pattern: '^-?[0-9]+\\.[0-9]{2}$', description: 'Decimal string with two fraction digits.' };
export const metadata: Schema = { $ref: '#/components/schemas/Metadata' };
/** The same, or null. */
export const maybe = (schema: Schema): Schema => ({ ...schema, type: [schema['type'], 'null'] });
/** One of these. */
export const word = (of: readonly string[]): Schema => ({ type: 'string', enum: [...of] });
/** One of these, or null. */
export const maybeWord = (of: readonly string[]): Schema => ({ type: ['string', 'null'], enum: [...of, null] });
/** A TypeID of a prefix. */
export const id = (prefix: string): Schema => ({ type: 'string', pattern: `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$` });
/** An array of these. */
export const list = (items: Schema): Schema => ({ type: 'array', items });

/** A reference to one of the schemas. */
export function ref(name: string): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object whose fields are all always present. */
export function record(properties: Schema): Schema {
  return { type: 'object', required: Object.keys(properties), properties };
}

const apiKey = {
  id: id('key'),
  name: string,
  scopes: list(word(scopes)),
  description: maybe(string),
  last4: { ...string, description: 'The last four characters of the key.' },
  created_at: time,
  expires_at: maybe(time),
  revoked_at: maybe(time),
};

const account = {
  id: id('acc'),
  account_code: string,
  name: string,
  type: word(accountTypes),
  normal_balance: word(sides),
  currency: { ...maybeWord(currencies), description: 'null: all four currencies.' },
  parent_code: maybe(string),
  is_group: { ...flag, description: 'Takes no postings.' },
  description: maybe(string),
  allow_negative: {
    ...flag,
    description: 'false: no posting or hold may leave `available` below zero. On a group it does not affect the accounts below.',
  },
  status: word(accountStatuses),
  system: { ...flag, description: 'Suspense and FX position accounts.' },
  limits: {
    ...list(record({ currency: word(currencies), min_available: maybe(money), max_balance: maybe(money) })),
    description: 'Floor of `available` and ceiling of the balance, by currency, in the account’s normal direction.',
  },
  blocked: { ...list(word(sides)), description: 'Sides on which it takes no entries.' },
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
      'false: new events are never delivered, pending deliveries fail, and manual retries are rejected (`webhook_disabled`); test deliveries are still sent. Judged when an event is processed, shortly after its request.',
  },
  headers: {
    ...list(ref('WebhookHeader')),
    description: 'Sent with every delivery.',
  },
  created_at: time,
  updated_at: time,
};

// What some business rules add.
const ruleProblem = {
  debits: { ...money, description: '`unbalanced`: sum of the debits in the currency that `value` names.' },
  credits: { ...money, description: '`unbalanced`: sum of its credits.' },
  difference: { ...money, description: '`unbalanced`: debits − credits.' },
  transaction_id: { ...id('txn'), description: '`idempotency_key_reused`: the transaction of the first request with this key.' },
  hold_id: { ...id('hold'), description: 'The same of a hold.' },
  fields: { ...list(string), maxItems: 20, description: '`idempotency_key_reused`: the fields in which the requests differ.' },
};

const fieldProblem = {
  field: { ...string, description: 'For example `entries[1].amount`.' },
  tag: { ...string, description: '`required`, `type`, `max`, …, or the code of a business rule.' },
  value: { description: 'What was sent; `""` if nothing was, or if it is a secret; `…` for a very large object or array.' },
};

const errorClasses = [
  // No status was received.
  ...['dns', 'refused', 'reset', 'timeout', 'tls', 'protocol', 'response_too_large', 'address_not_allowed'],
  ...['redirect', 'http_status', 'webhook_disabled'],
  // Of tests only: other deliveries wait until the secret can be decrypted.
  'secret_unreadable',
];
const errorClass = word(errorClasses);
/** Types of the events in the log. The others are derived from them. */
const logEvents = webhookEvents.filter((each) => !['balance.updated', 'hold.captured', 'test.webhook'].includes(each));

/** Named enums. Without a name, client generators make a different type of every use. */
export const words: Record<string, readonly string[]> = {
  AccountStatus: accountStatuses,
  OnExisting: onExisting,
  AccountType: accountTypes,
  BusinessType: businessTypes,
  Calendar: calendars,
  Currency: currencies,
  DeliveryErrorClass: errorClasses,
  DeliveryStatus: deliveryStatuses,
  ErrorCode: errorCodes,
  ExportFormat: exportFormats,
  ProofFormat: proofFormats,
  HoldStatus: holdStatuses,
  LimitStatus: limitStatuses,
  LateEntries: lateEntries,
  LimitSubject: limitSubjects,
  ClosingChoice: closingChoices,
  EntryOrder: entryOrders,
  ReportColumns: reportColumns,
  ReportComparison: reportComparisons,
  ReportFormat: reportFormats,
  ReportName: reportNames,
  PeriodAction: periodActions,
  PersonalState: personalStates,
  Role: roles,
  Rounding: roundings,
  Scope: scopes,
  Side: sides,
  TransactionKind: transactionKinds,
  WebhookEventType: webhookEvents,
};
const answered = {
  status_code: { ...maybe(integer), description: 'The receiver’s status; null: no answer.' },
  error_class: { ...maybeWord(errorClasses), description: 'Why the attempt failed; null: it did not.' },
};

const delivery = {
  id: id('wh_delivery'),
  event_id: id('evt'),
  event_type: word(webhookEvents),
  status: word(deliveryStatuses),
  ...answered,
  attempts: { ...integer, description: 'Attempts started so far, or queued for now.' },
  max_attempts: { ...integer, description: 'Automatic attempts.' },
  next_retry_at: { ...maybe(time), description: 'null: no attempt is due.' },
  created_at: time,
};
const ended = {
  delivered_at: { ...time, description: 'Only if it was delivered.' },
  failed_at: { ...time, description: 'Only if it has failed.' },
};

/** `origin` of a transaction or hold. */
export const origin = { anyOf: [ref('Origin'), { type: 'null' }], description: 'What it came from besides its entries; null: nothing.' };

/** Fields of a transaction. */
export const transaction = {
  transaction_id: id('txn'),
  kind: word(transactionKinds),
  status: word(['posted']),
  idempotency_key: string,
  description: string,
  reference: maybe(string),
  currency: { ...maybeWord(currencies), description: 'null: several currencies.' },
  amount: { ...maybe(money), description: 'Sum of the debits; null if there are several currencies.' },
  entries: list(ref('Entry')),
  metadata,
  effective_at: { ...time, description: 'When it counts. `created_at`, unless the request names another time.' },
  requested_effective_at: { ...maybe(time), description: 'What was asked for, where a closed period moved it; else null.' },
  created_at: { ...time, description: 'When it was recorded.' },
  sequence: { ...long, description: 'Position of its event in the tenant’s log.' },
  reverses: { ...maybe(id('txn')), description: 'The transaction that this one reverses.' },
  reversed_by: { ...maybe(id('txn')), description: 'The transaction that completed its reversal.' },
  origin,
  unreversed: {
    ...maybe(list(money)),
    description: 'What is left to reverse of each entry, in their order, while a part is reversed; else null.',
  },
  personal: {
    ...list(ref('Personal')),
    description: 'Personal data. Only reads of transactions with `personal:read` open it; events, webhooks and exports have it sealed.',
  },
  redacted: { ...list(string), description: 'Fields whose texts were removed: `description`, `reference` or `metadata.<key>`.' },
};

/** `data.pagination` of a list. */
export const pagination = ref('Pagination');

/** The schemas of the document by name. */
export const schemas: Record<string, Schema> = {
  Metadata: { type: 'object', description: 'Free-form; numbers as they were sent.' },
  Problem: {
    type: 'object',
    required: ['success', 'error', 'code', 'request_id'],
    properties: {
      success: { ...flag, description: 'false' },
      error: { ...string, description: 'What went wrong, in words.' },
      code: { ...word(errorCodes), description: 'What went wrong, for programs.' },
      request_id: string,
      details: { ...ref('ProblemDetails'), description: 'The first wrong field.' },
      errors: {
        type: 'array',
        maxItems: 20,
        items: ref('FieldError'),
        description: 'All wrong fields, at most 20.',
      },
      delivery_id: { ...id('wh_delivery'), description: 'Of a failed test delivery.' },
      status_code: { ...maybe(integer), description: 'Its receiver’s status; null: no answer.' },
      error_class: { ...errorClass, description: 'Why it failed.' },
    },
  },
  FieldError: record({ ...fieldProblem, message: string }),
  ProblemDetails: {
    type: 'object',
    required: Object.keys(fieldProblem),
    properties: { ...fieldProblem, ...ruleProblem },
  },
  Pagination: record({ limit: integer, next_cursor: maybe(string), has_more: flag }),
  User: record({
    id: id('user'),
    email: string,
    first_name: string,
    last_name: string,
    status: word(['active']),
    email_verified: { type: 'boolean' },
    totp_enabled: { type: 'boolean', description: 'Whether a second factor is on.' },
    created_at: time,
  }),
  Tenant: record({
    id: id('tenant'),
    name: string,
    slug: string,
    business_type: word(businessTypes),
    description: maybe(string),
    status: word(['active', 'suspended', 'closed']),
    role: { ...word(roles), description: 'Role of the caller.' },
    require_totp: { type: 'boolean', description: 'Whether members need a second factor.' },
    created_at: time,
    delete_at: { ...maybe(time), description: 'When a closed tenant is deleted.' },
  }),
  ApiKey: record(apiKey),
  ApiKeyWithSecret: record({ ...apiKey, key: { ...string, description: 'The key itself, shown only once.' } }),
  AccessKey: record({
    key: { ...string, description: 'The key itself, shown only once.' },
    scopes: list(word(scopes)),
    expires_at: time,
  }),
  Account: record(account),
  AccountNode: {
    type: 'object',
    required: [...Object.keys(account), 'children_count', 'children'],
    properties: {
      ...account,
      children_count: { ...integer, description: 'Accounts directly below it, whether `depth` shows them or not.' },
      children: list(ref('AccountNode')),
      balances: { ...list(ref('BalanceTotal')), description: 'Of the node and all below it; only with `include=balances`.' },
    },
  },
  Transaction: record(transaction),
  Entry: record({
    account_id: id('acc'),
    account_code: string,
    amount: money,
    side: word(sides),
    currency: word(currencies),
    balance_after: money,
    counter: { ...flag, description: 'The line on the suspense account that balances a single posting.' },
  }),
  Filter: record({ name: string, query: { ...string, description: 'Query text of `GET …/transactions`.' } }),
  Event: record({
    id: id('evt'),
    type: word(logEvents),
    sequence: long,
    created: { ...long, description: 'Unix time in seconds.' },
    actor: { ...string, description: 'Id of the key or user, or the name of the internal caller.' },
    request_id: { ...maybe(string), description: 'Of the request that made the change; null if an internal caller gave none.' },
    data: { type: 'object' },
    hash: {
      ...string,
      pattern: '^[0-9a-f]{64}$',
      description: 'Hash of this event and `previous_hash`. Keep it to detect later whether anything up to here was changed or removed.',
    },
    previous_hash: { ...string, pattern: '^[0-9a-f]{64}$' },
  }),
  WebhookHeader: record({ name: string, value: { ...maybe(string), description: 'Always null: it is never shown.' } }),
  WebhookConfig: record(webhook),
  WebhookConfigWithSecret: record({ ...webhook, secret: { ...maybe(string), description: 'Shown only once; null: unchanged.' } }),
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
