// What can go wrong, as callers see it: one table from code to status and message, one envelope.
import { Code, type ConnectError } from '@connectrpc/connect';
import { refusalOf } from '../services/platform/caller.ts';
import type { RateLimitStatus } from '../services/platform/rate-limit-status.ts';

// Status, message, and for business rules the field to blame where the refusal names none.
const table = {
  invalid_json: [400, 'invalid JSON payload'],
  validation_failed: [400, 'Request validation failed'],
  invalid_delivery_id: [400, 'Invalid delivery ID'],
  malformed_request: [400, 'malformed HTTP request'],
  unauthenticated: [401, 'missing or invalid credential'],
  forbidden: [403, 'the credential does not allow this'],
  route_not_found: [404, 'route not found'],
  tenant_not_found: [404, 'tenant not found'],
  account_not_found: [404, 'account not found'],
  transaction_not_found: [404, 'transaction not found'],
  key_not_found: [404, 'API key not found'],
  webhook_not_configured: [404, 'webhook not configured'],
  delivery_not_found: [404, 'Webhook delivery not found'],
  method_not_allowed: [405, 'method not allowed'],
  request_timeout: [408, 'the request took too long to arrive'],
  email_taken: [409, 'email already registered'],
  slug_taken: [409, 'slug already taken'],
  account_code_taken: [409, 'account code already taken'],
  chart_exists: [409, 'a chart of another business type exists'],
  version_conflict: [409, 'the record has changed since that version'],
  account_not_empty: [409, 'the account has a balance'],
  account_is_system: [409, 'a system account cannot be used so'],
  already_reversed: [409, 'the transaction is reversed already'],
  delivery_not_failed: [409, 'the delivery has not failed'],
  webhook_disabled: [409, 'the webhook is disabled or not configured'],
  payload_too_large: [413, 'the body is larger than 1 MiB'],
  unsupported_media_type: [415, 'the body must be application/json in UTF-8'],
  parent_invalid: [422, 'the parent must be a group of the same type', 'parent_code'],
  unbalanced: [422, 'debits and credits differ', 'entries'],
  insufficient_funds: [422, 'insufficient funds', 'entries'],
  account_closed: [422, 'the account is closed', 'account_code'],
  account_is_group: [422, 'the account is a group', 'account_code'],
  currency_not_allowed: [422, 'the account does not hold this currency', 'currency'],
  balance_overflow: [422, 'the balance would grow beyond what can be kept', 'entries'],
  idempotency_key_reused: [422, 'the idempotency key was used for another request', 'idempotency_key'],
  rate_limited: [429, 'too many requests, try again later'],
  headers_too_large: [431, 'the headers are larger than 16 KiB'],
  internal: [500, 'internal error'],
  test_failed: [502, 'Test webhook failed'],
  overloaded: [503, 'overloaded, try again'],
  unavailable: [503, 'temporarily unavailable, try again'],
} as const satisfies Record<string, readonly [status: number, message: string, field?: string]>;

/** What went wrong, in one word; the same strings are the gRPC `ErrorInfo.reason`. */
export type ErrorCode = keyof typeof table;

/** All codes that this service answers. */
export const errorCodes = Object.keys(table) as ErrorCode[];

/** The status that a code answers; where `field` is given, that of a refusal which blames a field of the body. */
export function statusOf(code: ErrorCode, field?: string): number {
  const blamesBody = field !== undefined && (code === 'account_not_found' || code === 'account_is_system');
  return blamesBody ? 422 : table[code][0];
}

/** The message of a code where nothing more exact is known. */
export function messageOf(code: ErrorCode): string {
  return table[code][1];
}

/** What is wrong with one field. */
export interface FieldDetail {
  /** `entries[1].amount`. */
  field: string;
  /** `required`, `max`, … or the code of a business rule. */
  tag: string;
  /** What was sent; `""` where nothing was, or where it must not be repeated. */
  value: unknown;
}

/** A field problem with its sentence. */
export interface FieldError extends FieldDetail {
  message: string;
}

interface ApiErrorOptions {
  message?: string | undefined;
  details?: FieldDetail | undefined;
  errors?: FieldError[] | undefined;
  headers?: Record<string, string> | undefined;
  /** Said beside the envelope. */
  extra?: object | undefined;
}

/** The `WWW-Authenticate` of a request without a credential (RFC 6750, section 3). */
export const bearerChallenge = 'Bearer realm="ledger"';

/** That of a request whose credential is good, but not for this (section 3.1). */
export const insufficientScope = `${bearerChallenge}, error="insufficient_scope"`;

const usualHeaders: Record<number, Record<string, string>> = {
  // RFC 9110: it says how to authenticate.
  401: { 'www-authenticate': bearerChallenge },
  403: { 'www-authenticate': insufficientScope },
  503: { 'retry-after': '1' },
};

/** Thrown for everything that answers with an error envelope. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: FieldDetail | undefined;
  readonly errors: FieldError[] | undefined;
  readonly headers: Record<string, string> | undefined;
  readonly extra: object | undefined;

  constructor(code: ErrorCode, given: ApiErrorOptions = {}) {
    super(given.message ?? messageOf(code));
    this.code = code;
    this.status = statusOf(code, given.details?.field);
    this.details = given.details;
    this.errors = given.errors;
    this.extra = given.extra;
    const usual = usualHeaders[this.status];
    this.headers = given.headers ? { ...usual, ...given.headers } : usual;
  }

  /** The error body. */
  body(requestId: string): Record<string, unknown> {
    const { details, errors } = this;
    return {
      success: false,
      error: this.message,
      code: this.code,
      request_id: requestId,
      ...this.extra,
      ...(details && { details: { field: details.field, tag: details.tag, value: details.value } }),
      ...(errors && { errors }),
    };
  }
}

/** Fields that are told of a request at most. */
export const maxErrors = 20;

/** A request whose fields are wrong; the first one is the `details`. */
export function validationError(errors: [FieldError, ...FieldError[]]): ApiError {
  return new ApiError('validation_failed', { details: errors[0], errors });
}

/** The headers that tell where a caller stands with a limit (the RateLimit header fields of the IETF draft). */
export function rateLimitHeaders(limit: RateLimitStatus): { 'ratelimit-policy': string; ratelimit: string } {
  return {
    'ratelimit-policy': `"${limit.policy}";q=${limit.quota};w=${limit.window}`,
    ratelimit: `"${limit.policy}";r=${limit.remaining};t=${limit.reset}`,
  };
}

// Codes without a refusal that mean: not now, perhaps later.
const passing = new Set([Code.Unavailable, Code.DeadlineExceeded, Code.ResourceExhausted, Code.Aborted, Code.Canceled]);

function isCode(reason: string): reason is ErrorCode {
  return Object.hasOwn(table, reason);
}

/** The value of a refusal as it was sent: a service got it in its own form, and tells it as text. Where it tells none it is a secret. */
function asSent(field: string, value: string, body: unknown): unknown {
  if (value === '') return value;
  const sent = field.split(/[.[\]]+/).reduce<unknown>((here, step) => (step === '' ? here : (here as Sent)?.[step]), body);
  return typeof sent === 'string' || typeof sent === 'number' || typeof sent === 'boolean' ? sent : value;
}

type Sent = Record<string, unknown> | null | undefined;

/** What became of a test delivery that failed. */
function testOutcome(metadata: Record<string, string>): object {
  const { delivery_id = '', status_code = '', error_class = '' } = metadata;
  return { delivery_id, status_code: status_code === '' ? null : Number(status_code), error_class };
}

/**
 * What a service's error means to the caller who sent that body, or that query; null where it is a fault of the house, about which callers learn nothing.
 */
export function apiErrorOf(error: ConnectError, sent: unknown): ApiError | null {
  const refusal = refusalOf(error);
  if (!refusal) return passing.has(error.code) ? new ApiError('unavailable') : null;
  const { reason: code, metadata = {} } = refusal;
  // The house's own token was refused, not the caller's.
  if (!isCode(code) || code === 'internal' || metadata['credential'] === 'internal') return null;
  const field = refusal.field === '' || refusal.field === 'path' ? undefined : refusal.field;
  const status = statusOf(code, field);
  const blamed = field ?? (status === 422 ? (table[code] as readonly [number, string, string?])[2] : undefined);
  const tag = refusal.tag === undefined || refusal.tag === '' ? code : refusal.tag;
  const details = blamed === undefined ? undefined : { field: blamed, tag, value: asSent(blamed, refusal.value ?? '', sent) };
  const errors = code === 'validation_failed' && details ? [{ ...details, message: refusal.message }] : undefined;
  const said = code === 'validation_failed' || code === 'unavailable' || code === 'tenant_not_found' ? undefined : refusal.message;
  const { policy, quota, window, remaining, reset } = metadata;
  const standing = { quota: Number(quota), window: Number(window), remaining: Number(remaining), reset: Number(reset) };
  const headers = {
    ...(refusal.retryAfter !== undefined && { 'retry-after': String(refusal.retryAfter) }),
    ...(policy !== undefined && rateLimitHeaders({ policy, ...standing })),
  };
  const beside = code === 'test_failed' ? testOutcome(metadata) : undefined;
  return new ApiError(code, { message: said === '' ? undefined : said, details, errors, headers, extra: beside });
}
