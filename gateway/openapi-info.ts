// The parts of the OpenAPI document that belong to no route: introduction, tags, credentials, schemas.
import { version } from '../services/platform/version.ts';
import { batchSchemas } from './batch-schemas.ts';
import { balanceSchemas } from './balance-schemas.ts';
import { booksSchemas } from './books-schemas.ts';
import { jobSchemas } from './job-schemas.ts';
import { headerComponents } from './openapi-headers.ts';
import { tlogSchemas } from './tlog-records.ts';
import { published } from './openapi.ts';
import { webhookSchemas } from './openapi-webhooks.ts';
import { paymentSchemas } from './payment-schemas.ts';
import { reportSchemas } from './report-records.ts';
import { schemas, words } from './records.ts';
import { teamSchemas } from './team-schemas.ts';

/** The document without paths. */
export const documentInfo = {
  openapi: '3.1.0',
  info: {
    title: 'Ledger',
    version,
    description: [
      'A multi-tenant double-entry ledger.',
      'Register, log in, create a tenant and an API key; then set up a chart of accounts and post with the key.',
      'Amounts are decimal strings, never numbers. Every answer below `/v1`, and every error, is an envelope: `success`, and `data` or `error` with a `code`. Lengths are in code points.',
      'Unknown fields of a body and unknown query parameters are rejected (tag `unknown`). Empty query parameters count as absent, except `reference` and `idempotency_key`.',
      'A posting with an idempotency key may be repeated any number of times: it posts once.',
      'For the next page of a list send `next_cursor` as `cursor` with the same filters; events page by `after_sequence`, deliveries by `offset`. HEAD is answered as GET without the body. A path may end in one slash.',
      'New codes, event types and other words of an enum come with a new minor version of this document; a new field may come with any.',
      'An unknown path answers 404 `route_not_found`, a wrong method 405 `method_not_allowed` with `Allow`. POST to a word instead of an id, such as `transactions/refund`, is an unknown path.',
      'A malformed HTTP message answers 400 `malformed_request`, 408 `request_timeout` or 431 `headers_too_large` in the same envelope.',
      'Too many requests at once, in all or of one tenant, answer 503 `overloaded` with `Retry-After`. A body may have 1 MiB, a batch of transactions 4 MiB, an import any length.',
    ].join('\n\n'),
    license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
  },
  servers: [{ url: '/', description: 'This server' }],
  tags: [
    { name: 'Users', description: 'Registration and sessions.' },
    { name: 'Tenants', description: 'Organizations, each with its own ledger.' },
    { name: 'Members', description: 'Who works in a tenant, in which role, and invitations.' },
    { name: 'API keys', description: 'Scoped keys for calls from your services.' },
    { name: 'Accounts', description: 'The chart of accounts.' },
    { name: 'Limits', description: 'How much may move in a window of time.' },
    { name: 'Transactions', description: 'Postings and their reversal.' },
    { name: 'Holds', description: 'Money that is reserved and has not moved.' },
    { name: 'Balances', description: 'Current balances and their history.' },
    { name: 'Reports', description: 'Trial balance, statements and journal as JSON, CSV, XLSX and PDF, and volumes for plots.' },
    { name: 'Books', description: 'Settings of the books, and which periods are closed.' },
    { name: 'Exports', description: 'All records, in open formats.' },
    { name: 'Jobs', description: 'What takes long, and its result.' },
    { name: 'Events', description: 'The audit trail.' },
    {
      name: 'Proofs',
      description: 'That the audit trail has not changed, for who does not trust this server: RFC 6962, and the formats of C2SP.',
    },
    {
      name: 'Webhooks',
      description: [
        'Signed notifications. A delivery is a `POST` of a `WebhookEvent` with `X-Webhook-Signature: sha256=<hex>`, the HMAC-SHA256 of the body',
        'keyed with the UTF-8 bytes of the whole secret; `X-Webhook-Id` (the event’s), `X-Webhook-Event` (its type), `X-Webhook-Delivery` and',
        '`X-Webhook-Attempt`; `webhook-id`, `webhook-timestamp` and `webhook-signature` of Standard Webhooks; and the webhook’s own `headers`.',
        'It is delivered by an answer of 200 to 299 within 30 seconds. Otherwise it is repeated after 1 and 2 more minutes, then it has failed. Redirects are not followed.',
        'Deliveries may arrive twice and out of order: detect repetitions by `id`, sort by `data.sequence`, which a transaction shares with its `balance.updated`; of two events of a hold the one with `ended_at` is newer, then the one with more `captures`.',
        'After a longer outage read the list of events, which has the same ids. It has no `balance.updated` and no `hold.captured`: a `balance` is the last `balance_after` of the account in a transaction’s `lines`.',
      ].join(' '),
    },
    { name: 'Deliveries', description: 'What your receiver gets.' },
    { name: 'Operations', description: 'Health, metrics, keys and this document.' },
  ],
  components: {
    securitySchemes: {
      userToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: '`data.token` of a login.' },
      // Not `apiKey`: Go generators would merge it with the schema `ApiKey`.
      apiKeyToken: {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'lk_live_…',
        description: '`data.api_key.key`, shown once at creation.',
      },
    },
    headers: headerComponents,
  },
};

/** The document's schemas by name, without those of answers. */
export const documentSchemas: Record<string, object> = {
  ...published({
    ...schemas,
    ...paymentSchemas,
    ...batchSchemas,
    ...balanceSchemas,
    ...booksSchemas,
    ...jobSchemas,
    ...tlogSchemas,
    ...reportSchemas,
    ...teamSchemas,
    ...webhookSchemas,
  }),
  ...Object.fromEntries(Object.entries(words).map(([name, values]) => [name, { type: 'string', enum: [...values] }])),
};
