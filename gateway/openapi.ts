// Builds the OpenAPI 3.1 document: parameters and bodies from the routes' schemas, answers and errors from their `doc`.
import type { Access } from './auth.ts';
import { ApiError, messageOf, statusOf, type ErrorCode, type FieldDetail } from './errors.ts';
import { record, ref, words } from './records.ts';
import { schemaOfHeader } from './openapi-webhooks.ts';

/** One successful answer of a route. */
export interface Answer {
  description: string;
  /** Schema of `data`; for an answer outside the envelope, of the whole body. */
  schema: object;
  /** An example of the same. */
  example: unknown;
  /** `message` of the envelope. */
  message?: string;
  /** Header fields beyond `X-Request-Id`. */
  headers?: HeaderName[];
  /** Media type of an answer without the envelope. */
  unwrappedType?: string;
  /** Files that the request may ask for instead, as examples by media type. */
  files?: Record<string, string>;
  /** Answers a dry run too. */
  tries?: boolean;
  /** Schema name, where several operations answer it: client generators would name it after the first one. */
  name?: string;
}

/** What a route documents beyond its schemas. */
export interface Doc {
  id: string;
  tag: string;
  summary: string;
  description?: string;
  /** Examples of the body by name. */
  bodies?: Record<string, unknown>;
  /** A body that is no JSON, and how it is documented. */
  stream?: { type: string; schema: object; example: string };
  /** The body may be left out. */
  bodyOptional?: boolean;
  /** Takes an `Idempotency-Key` header. */
  idempotent?: boolean;
  answers: Record<number, Answer>;
  /** Answers 302, as described here. */
  redirect?: string;
  /** Error codes beyond those that follow from access, body and query. */
  errors?: ErrorCode[];
  /** Changes to {@link exampleFields} for the examples of this route's errors, several where an error may name one of several fields. */
  errorFields?: Partial<Record<ErrorCode, Partial<FieldDetail> | Partial<FieldDetail>[]>>;
  /** Error statuses besides 429 that carry the RateLimit headers. */
  rateLimitHeadersOn?: number[];
}

declare module 'fastify' {
  interface FastifyContextConfig {
    doc?: Doc;
  }
}

const headers = {
  'X-Request-Id': {
    description: 'The id of the request: the client’s own if it has 1 to 128 characters of `A-Za-z0-9._-`.',
    example: 'req-7f3a',
  },
  'Idempotent-Replayed': { description: '`true`: an earlier request did it.', example: 'true' },
  'Retry-After': { description: 'Seconds to wait before the next attempt.', example: 1 },
  'WWW-Authenticate': {
    description: 'How to authenticate, or which scope the credential lacks (RFC 6750).',
    example: 'Bearer realm="ledger"',
  },
  Location: { description: 'Where the browser goes.', example: 'https://app.example.com/' },
  'Set-Cookie': {
    description: 'Keeps the login in this browser, or removes it.',
    example: '__Host-oidc-login=…; Path=/; Secure; HttpOnly',
  },
  'Accept-Encoding': { description: '`identity`: the body must not be compressed. Only sent if it was.', example: 'identity' },
  ETag: { description: 'The SHA-256 of all bytes.', example: '"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"' },
  'Accept-Ranges': { description: 'A part can be asked for with `Range`.', example: 'bytes' },
  'Content-Range': { description: 'Which bytes these are, and how many there are.', example: 'bytes 1000-1999/8400000' },
  'X-Through-Sequence': { description: 'The position of the log as of which the export reads.', example: '31' },
  'RateLimit-Policy': { description: 'The limit: quota and window in seconds.', example: '"login";q=10;w=900' },
  RateLimit: { description: 'What remains of the quota, and the seconds until it grows.', example: '"login";r=9;t=900' },
} as const;

type HeaderName = keyof typeof headers;

function headerDocs(names: readonly HeaderName[]): object {
  const refs = ['X-Request-Id' as const, ...names].map((name) => [name, { $ref: `#/components/headers/${name}` }]);
  return Object.fromEntries(refs) as object;
}

/** The header fields of answers, as components of the document. */
export const headerComponents: object = Object.fromEntries(
  Object.entries(headers).map(([name, { description, example }]) => [name, { description, schema: schemaOfHeader(example), example }]),
);

/** The header fields of a rate limit. */
export const rateLimitHeaderNames: HeaderName[] = ['RateLimit-Policy', 'RateLimit'];
const headersOfStatus: Record<number, HeaderName[]> = {
  401: ['WWW-Authenticate'],
  403: ['WWW-Authenticate'],
  415: ['Accept-Encoding'],
  416: ['Content-Range'],
  429: ['Retry-After', ...rateLimitHeaderNames],
  503: ['Retry-After'],
};

/** A route as the document needs it. */
export interface DocumentedRoute {
  access: Access;
  doc: Doc;
  hasBody: boolean;
  hasQuery: boolean;
  /** Whether a body is parsed, also where none is expected. */
  readsBody: boolean;
  /** Whether the path or query names an account; otherwise account errors are about a field of the body. */
  ofAccount: boolean;
}

/** Every error code that a route may answer. */
function errorCodesOf({ access, doc, hasBody, hasQuery, readsBody }: DocumentedRoute): ErrorCode[] {
  const codes = new Set<ErrorCode>(doc.errors);
  if (access.by !== 'anyone') codes.add('unauthenticated');
  if (access.by === 'member' || access.by === 'key') codes.add('tenant_not_found');
  if (access.by === 'key' || access.by === 'member') codes.add('forbidden');
  const worksReadOnly = access.by === 'key' ? !readsBody : access.by !== 'member' || access.whileReadOnly;
  if (!worksReadOnly) for (const code of ['tenant_suspended', 'tenant_closed'] as const) codes.add(code);
  if (doc.stream) codes.add('unsupported_media_type');
  else if (readsBody) for (const code of ['invalid_json', 'payload_too_large', 'unsupported_media_type'] as const) codes.add(code);
  if (hasBody || hasQuery) codes.add('validation_failed');
  codes.add('internal');
  // Operations have no in-flight limit.
  if (doc.tag !== 'Operations') for (const code of ['overloaded', 'unavailable'] as const) codes.add(code);
  return [...codes];
}

const exampleFields: Partial<Record<ErrorCode, FieldDetail>> = {
  validation_failed: { field: 'name', tag: 'required', value: '' },
  account_not_found: { field: 'account_code', tag: 'account_not_found', value: 'NO-SUCH-ACCOUNT' },
  insufficient_funds: { field: 'account_code', tag: 'insufficient_funds', value: 'CUSTOMER-WALLETS-USD' },
  account_closed: { field: 'account_code', tag: 'account_closed', value: 'OLD-FEES-USD' },
  account_is_group: { field: 'account_code', tag: 'account_is_group', value: 'ASSETS' },
  account_is_system: { field: 'account_code', tag: 'account_is_system', value: 'SUSPENSE-USD' },
  currency_not_allowed: { field: 'account_code', tag: 'currency_not_allowed', value: 'CUSTOMER-WALLETS-NGN' },
  condition_failed: { field: 'require[0].available.gte', tag: 'condition_failed', value: '0.00' },
  account_blocked: { field: 'account_code', tag: 'account_blocked', value: 'CUSTOMER-WALLETS-USD' },
  limit_exceeded: { field: 'account_code', tag: 'max_balance', value: 'CUSTOMER-WALLETS-USD' },
  too_many: { field: 'limits', tag: 'too_many', value: '1000' },
  too_late: { field: 'valid_until', tag: 'too_late', value: '2030-01-31T12:00:00Z' },
  hold_ended: { field: 'hold_id', tag: 'hold_ended', value: 'captured' },
  hold_exceeded: { field: 'amount', tag: 'hold_exceeded', value: '60.00' },
  reversal_exceeded: { field: 'amount', tag: 'reversal_exceeded', value: '60.00' },
  entries_mismatch: { field: 'entries[0].account_code', tag: 'entries_mismatch', value: 'MARKETING' },
  unbalanced: { field: 'entries', tag: 'unbalanced', value: 'USD', debits: '100.00', credits: '99.99', difference: '0.01' },
  balance_overflow: { field: 'account_code', tag: 'balance_overflow', value: 'CUSTOMER-WALLETS-USD' },
  too_large: { field: 'depth', tag: 'too_large', value: 32 },
  idempotency_key_reused: {
    field: 'idempotency_key',
    tag: 'idempotency_key_reused',
    value: 'deposit-42',
    transaction_id: 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8',
    fields: ['description'],
  },
  effective_at_out_of_range: { field: 'effective_at', tag: 'effective_at_out_of_range', value: '1969-12-31' },
  effective_before_original: { field: 'effective_at', tag: 'effective_before_original', value: '2030-01-01' },
  future_dated: { field: 'account_code', tag: 'future_dated', value: 'CUSTOMER-WALLETS-USD' },
  index_building: { field: 'metadata.order', tag: 'index_building', value: 'order' },
  filter_not_found: { field: 'filter', tag: 'filter_not_found', value: 'deposits' },
  period_closed: { field: 'effective_at', tag: 'period_closed', value: '2029-12-31' },
  period_not_over: { field: 'through', tag: 'period_not_over', value: '2030-01-31' },
  period_final: { field: 'through', tag: 'period_final', value: '2028-11-30' },
  report_too_large: { field: 'year_end', tag: 'report_too_large', value: true },
  token_invalid: { field: 'token', tag: 'token_invalid', value: '' },
  parent_invalid: { field: 'parent_code', tag: 'parent_invalid', value: 'SETTLEMENT-USD' },
  email_taken: { field: 'email', tag: 'unique', value: 'ada@example.com' },
  member_exists: { field: 'email', tag: 'unique', value: 'grace@example.com' },
  slug_taken: { field: 'slug', tag: 'unique', value: 'acme' },
  account_code_taken: { field: 'account_code', tag: 'unique', value: 'MERCHANT-WALLETS-USD' },
  chart_exists: { field: 'business_type', tag: 'chart_exists', value: 'wallet' },
  version_conflict: { field: 'version', tag: 'version_conflict', value: 1 },
  account_not_empty: { field: 'status', tag: 'account_not_empty', value: 'closed' },
};

const failedTest = { delivery_id: 'wh_delivery_01jd1zq5v8e6n9w2k4m7p3r5t8', status_code: 500, error_class: 'http_status' };

/** An error body of a code, as an example. */
function errorExample(code: ErrorCode, status: number, own: Partial<FieldDetail>): object {
  const isOfPath = statusOf(code, 'account_code') !== status;
  const usual = isOfPath ? undefined : exampleFields[code];
  const shown = usual && { ...usual, ...own };
  const errors = code === 'validation_failed' && shown ? [{ ...shown, message: 'name is required' }] : undefined;
  const extra = code === 'test_failed' ? failedTest : undefined;
  return new ApiError(code, { details: shown, errors, extra }).body('req-7f3a');
}

function errorAnswers(route: DocumentedRoute): Record<number, object> {
  const byStatus = new Map<number, Set<ErrorCode>>();
  const add = (status: number, code: ErrorCode) => byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  const { errorFields } = route.doc;
  for (const code of errorCodesOf(route)) {
    if (route.ofAccount) add(statusOf(code), code);
    if (!route.ofAccount || errorFields?.[code]) add(statusOf(code, 'account_code'), code);
  }
  const examplesOf = (code: ErrorCode, status: number) =>
    [errorFields?.[code] ?? {}].flat().map((own, index) => {
      return [index === 0 ? code : `${code}_${own.field ?? ''}`, { value: errorExample(code, status, own) }];
    });
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: [...codes].map((code) => `\`${code}\`: ${messageOf(code)}`).join('; '),
        headers: headerDocs([
          ...(headersOfStatus[status] ?? []),
          ...(route.doc.rateLimitHeadersOn?.includes(status) ? rateLimitHeaderNames : []),
        ]),
        content: {
          'application/json': {
            schema: { $ref: '#/components/schemas/Error' },
            examples: Object.fromEntries([...codes].flatMap((code) => examplesOf(code, status))) as object,
          },
        },
      },
    ]),
  );
}

/** The whole body. */
function bodyOf({ schema, message, unwrappedType, tries = false }: Answer): object {
  if (unwrappedType !== undefined) return published(schema);
  // No `const: true`: the most used Python generator turns it into a string.
  const success = { type: 'boolean', description: 'true' };
  const envelope = record({ success, data: schema, ...(message !== undefined && { message: { type: 'string' } }) });
  if (tries) Object.assign(envelope['properties'] as object, { dry_run: { type: 'boolean', description: 'Only for a dry run: true.' } });
  return published(envelope);
}

/** The named schemas of a route's answers. */
export function namedAnswers({ answers }: Doc): Record<string, object> {
  return Object.fromEntries(Object.values(answers).flatMap((each) => (each.name === undefined ? [] : [[each.name, bodyOf(each)]])));
}

function answerDoc(answer: Answer): object {
  const { description, example: data, message, headers: names = [], unwrappedType, files = {}, name } = answer;
  const schema = name === undefined ? bodyOf(answer) : ref(name);
  const example = unwrappedType === undefined ? { success: true, data, ...(message !== undefined && { message }) } : data;
  const others = Object.entries(files).map(([type, file]) => [type, { schema: { type: 'string', format: 'binary' }, example: file }]);
  const content = { [unwrappedType ?? 'application/json']: { schema, example }, ...(Object.fromEntries(others) as object) };
  return { description, headers: headerDocs(names), content };
}

/** An operation: body, answers and security. */
export function operationDoc(route: DocumentedRoute, body: Record<string, unknown> | undefined): Record<string, unknown> {
  const { access, doc } = route;
  const answers = Object.fromEntries(Object.entries(doc.answers).map(([status, answer]) => [status, answerDoc(answer)]));
  const examples = Object.entries(doc.bodies ?? {}).map(([name, value]) => [name, { value }]);
  const scope = access.by === 'key' ? `Needs an API key with the scope \`${access.scope}\`.` : '';
  return {
    operationId: doc.id,
    tags: [doc.tag],
    summary: doc.summary,
    description: [doc.description, scope].filter(Boolean).join('\n\n') || doc.summary,
    security: access.by === 'anyone' ? [] : [access.by === 'key' ? { apiKeyToken: [] } : { userToken: [] }],
    ...(access.by === 'key' && { 'x-scope': access.scope }),
    ...(body && {
      requestBody: {
        required: doc.bodyOptional !== true,
        content: { 'application/json': { schema: published(body), examples: Object.fromEntries(examples) as object } },
      },
    }),
    ...(doc.stream && {
      requestBody: { required: true, content: { [doc.stream.type]: { schema: doc.stream.schema, example: doc.stream.example } } },
    }),
    responses: {
      ...errorAnswers(route),
      ...answers,
      ...(doc.redirect !== undefined && {
        302: { description: doc.redirect, headers: headerDocs(['Location', 'Set-Cookie']), content: {} },
      }),
    },
  };
}

const ownWords = ['x-tag', 'x-secret', 'x-metadata', 'x-future', 'x-empty', 'x-published', 'x-digits'];

function isOpen(schema: { type?: unknown }): boolean {
  return [schema.type].flat().includes('object') && !('properties' in schema) && !('additionalProperties' in schema);
}

// An enum that has a name, as a reference to it.
function named(schema: { type?: unknown; enum?: unknown }): object {
  const { type, enum: values, ...rest } = schema;
  if (!Array.isArray(values)) return schema;
  const own = values.filter((value) => value !== null).join();
  const name = Object.keys(words).find((each) => words[each]?.join() === own);
  if (name === undefined) return schema;
  return { ...(Array.isArray(type) ? { anyOf: [ref(name), { type: 'null' }] } : ref(name)), ...rest };
}

// Such a field exists to be rejected. Client generators make code that does not compile of a type that can only be null.
const isImmutable = (value: unknown): boolean => typeof value === 'object' && value !== null && 'x-immutable' in value;

/** A schema without the validator's annotations, and with hints for client generators. */
export function published(schema: object): object;
export function published(schema: unknown): unknown;
export function published(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((each) => published(each));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { 'x-published': instead, maximum } = schema as { 'x-published'?: object; maximum?: unknown };
  const own = Object.entries({ ...named(schema), ...instead }).filter(([key, value]) => !ownWords.includes(key) && !isImmutable(value));
  if (typeof maximum === 'number' && maximum >= 2 ** 31) own.push(['format', 'int64']);
  // The default, but a generator takes an object without it for one without fields.
  if (isOpen(schema)) own.push(['additionalProperties', true]);
  return Object.fromEntries(own.map(([key, value]) => [key, key === 'example' ? value : published(value)]));
}
