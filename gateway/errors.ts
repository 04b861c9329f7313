// What can go wrong as clients see it: one table from code to status and message, one envelope, one error handler.
import { Code, ConnectError } from '@connectrpc/connect';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { refusalOf } from '../services/platform/caller.ts';
import type { RateLimitStatus, RefusalInfo } from '../services/platform/errors.ts';
import type { Logger } from '../services/platform/telemetry.ts';

// Status, message, and for business rules the field that is at fault unless the service names another.
const table = {
  invalid_json: [400, 'invalid JSON payload'],
  validation_failed: [400, 'Request validation failed'],
  invalid_delivery_id: [400, 'Invalid delivery ID'],
  malformed_request: [400, 'malformed HTTP request'],
  unauthenticated: [401, 'missing or invalid credential'],
  totp_required: [401, 'a code of the second factor is required'],
  forbidden: [403, 'the credential does not allow this'],
  tenant_suspended: [403, 'the tenant is suspended'],
  tenant_closed: [403, 'the tenant is closed'],
  email_unverified: [403, 'the email address is not verified'],
  route_not_found: [404, 'route not found'],
  tenant_not_found: [404, 'tenant not found'],
  account_not_found: [404, 'account not found'],
  transaction_not_found: [404, 'transaction not found'],
  hold_not_found: [404, 'hold not found'],
  limit_not_found: [404, 'limit not found'],
  job_not_found: [404, 'job not found'],
  filter_not_found: [404, 'filter not found'],
  event_not_found: [404, 'event not found'],
  tile_not_found: [404, 'tile not found'],
  subject_not_found: [404, 'subject not found'],
  key_not_found: [404, 'API key not found'],
  member_not_found: [404, 'member not found'],
  invitation_not_found: [404, 'invitation not found'],
  provider_not_found: [404, 'identity provider not found'],
  webhook_not_configured: [404, 'webhook not configured'],
  delivery_not_found: [404, 'Webhook delivery not found'],
  method_not_allowed: [405, 'method not allowed'],
  request_timeout: [408, 'the request took too long to arrive'],
  email_taken: [409, 'email already registered'],
  slug_taken: [409, 'slug already taken'],
  member_exists: [409, 'the user is a member already'],
  last_owner: [409, 'the last owner must stay'],
  account_code_taken: [409, 'account code already taken'],
  books_frozen: [409, 'the books are frozen: nothing can be changed'],
  books_not_empty: [409, 'the tenant has events already'],
  index_building: [409, 'the index is being built, try again later'],
  chart_exists: [409, 'a chart of another business type exists'],
  version_conflict: [409, 'the record has changed since that version'],
  account_not_empty: [409, 'the account has a balance'],
  account_is_system: [409, 'a system account cannot be used so'],
  already_reversed: [409, 'the transaction is reversed already'],
  hold_ended: [409, 'the hold has ended'],
  job_not_finished: [409, 'the job has no result'],
  delivery_not_failed: [409, 'the delivery has not failed'],
  webhook_disabled: [409, 'the webhook is disabled or not configured'],
  payload_too_large: [413, 'the body is too large'],
  unsupported_media_type: [415, 'the body must be application/json in UTF-8'],
  range_not_satisfiable: [416, 'the range begins beyond the last byte'],
  parent_invalid: [422, 'the parent must be a group of the same type', 'parent_code'],
  unbalanced: [422, 'debits and credits differ', 'entries'],
  insufficient_funds: [422, 'insufficient funds', 'entries'],
  account_closed: [422, 'the account is closed', 'account_code'],
  account_is_group: [422, 'the account is a group', 'account_code'],
  currency_not_allowed: [422, 'the account does not hold this currency', 'currency'],
  balance_overflow: [422, 'the balance would grow beyond what can be kept', 'entries'],
  period_not_over: [422, 'the day is not over yet', 'through'],
  period_final: [422, 'the period is closed for ever', 'through'],
  condition_failed: [422, 'a condition of the request does not hold', 'require[0].available.gte'],
  account_blocked: [422, 'the account is blocked for this side', 'entries'],
  limit_exceeded: [422, 'a limit of the account would be exceeded', 'entries'],
  hold_exceeded: [422, 'more than what remains of the hold', 'amount'],
  reversal_exceeded: [422, 'more than what is left to reverse', 'amount'],
  entries_mismatch: [422, 'an entry has no counterpart to take from', 'entries'],
  too_many: [422, 'there are as many as a tenant may have', 'limits'],
  too_late: [422, 'the request was valid until an earlier time', 'valid_until'],
  too_large: [422, 'the answer would be too large', 'depth'],
  report_too_large: [422, 'the report would be too large: start a job'],
  effective_at_out_of_range: [422, 'the time is before 1970 or too far ahead', 'effective_at'],
  effective_before_original: [422, 'a reversal must not count before its original', 'effective_at'],
  future_dated: [422, 'what counts in the future can’t be credited to an account that may not go below zero', 'entries'],
  period_closed: [422, 'the period is closed', 'effective_at'],
  import_invalid: [422, 'the file is no log that can be imported', 'line'],
  token_invalid: [422, 'the token is unknown, used or expired', 'token'],
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

/** All codes that this API answers. */
export const errorCodes = Object.keys(table) as ErrorCode[];

/** The status of a code. `field`: the field of the body that is at fault, if any, which makes some codes a 422. */
export function statusOf(code: ErrorCode, field?: string): number {
  const isOfBody = field !== undefined && (code === 'account_not_found' || code === 'account_is_system');
  return isOfBody ? 422 : table[code][0];
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
  /** What a business rule adds, such as the `difference` of unbalanced entries. */
  [more: string]: unknown;
}

/** A field detail with its message. */
export interface FieldError extends FieldDetail {
  message: string;
}

interface ApiErrorOptions {
  message?: string | undefined;
  details?: FieldDetail | undefined;
  errors?: FieldError[] | undefined;
  headers?: Record<string, string> | undefined;
  /** More members of the error body. */
  extra?: object | undefined;
}

/** The `WWW-Authenticate` header of a request without a credential (RFC 6750, section 3). */
export const bearerChallenge = 'Bearer realm="ledger"';

/** The same for a valid credential that does not suffice (section 3.1). */
export const insufficientScope = `${bearerChallenge}, error="insufficient_scope"`;

const defaultHeaders: Record<number, Record<string, string>> = {
  401: { 'www-authenticate': bearerChallenge },
  403: { 'www-authenticate': insufficientScope },
  503: { 'retry-after': '1' },
};

/** Thrown for everything that is answered with an error body. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: FieldDetail | undefined;
  readonly errors: FieldError[] | undefined;
  readonly headers: Record<string, string> | undefined;
  readonly extra: object | undefined;

  constructor(code: ErrorCode, { message, details, errors, headers, extra }: ApiErrorOptions = {}) {
    super(message ?? messageOf(code));
    this.code = code;
    this.status = statusOf(code, details?.field);
    this.details = details;
    this.errors = errors;
    this.extra = extra;
    const usual = defaultHeaders[this.status];
    this.headers = headers ? { ...usual, ...headers } : usual;
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
      ...(details && { details }),
      ...(errors && { errors }),
    };
  }
}

/** The most field errors in one answer. */
export const maxErrors = 20;

/** The error of a request whose fields are wrong; the first one is the `details`. */
export function validationError(errors: [FieldError, ...FieldError[]]): ApiError {
  const [{ field, tag, value }] = errors;
  return new ApiError('validation_failed', { details: { field, tag, value }, errors });
}

/** The RateLimit header fields of the IETF draft. */
export function rateLimitHeaders(limit: RateLimitStatus): { 'ratelimit-policy': string; ratelimit: string } {
  return {
    'ratelimit-policy': `"${limit.policy}";q=${limit.quota};w=${limit.window}`,
    ratelimit: `"${limit.policy}";r=${limit.remaining};t=${limit.reset}`,
  };
}

// gRPC codes that mean "not now, perhaps later" where the service gives no reason.
const transientCodes = new Set([Code.Unavailable, Code.DeadlineExceeded, Code.ResourceExhausted, Code.Aborted, Code.Canceled]);

function isErrorCode(reason: string): reason is ErrorCode {
  return Object.hasOwn(table, reason);
}

/** The value of a field in the type in which it was sent; services name it as text. A service names no value for a secret. */
function valueAsSent(field: string, value: string, sent: unknown): unknown {
  if (value === '') return value;
  const found = field.split(/[.[\]]+/).reduce<unknown>((here, step) => (step === '' ? here : (here as Sent)?.[step]), sent);
  return typeof found === 'string' || typeof found === 'number' || typeof found === 'boolean' ? found : value;
}

type Sent = Record<string, unknown> | null | undefined;

/** What the service adds to the details of a business rule; `fields` is a list. */
function moreDetails({ field: _field, tag: _tag, value: _value, fields, ...more }: Record<string, string>): object {
  return { ...more, ...(fields !== undefined && { fields: fields.split(',') }) };
}

function failedTestFields(metadata: Record<string, string>): object {
  const { delivery_id = '', status_code = '', error_class = '' } = metadata;
  return { delivery_id, status_code: status_code === '' ? null : Number(status_code), error_class };
}

/** A service's error as the client sees it; null for an internal fault. `sent`: the body or query of the request. */
export function apiErrorOf(error: ConnectError, sent: unknown): ApiError | null {
  const refusal = refusalOf(error);
  if (refusal) return errorOfRefusal(refusal, sent);
  // A ledger whose new features are not enabled yet.
  if (error.code === Code.Unimplemented) return new ApiError('route_not_found');
  return transientCodes.has(error.code) ? new ApiError('unavailable') : null;
}

/** The same of a refusal. */
export function errorOfRefusal(refusal: RefusalInfo, sent: unknown): ApiError | null {
  const { reason: code, metadata = {} } = refusal;
  // With `credential` the service rejected our internal token, not the client's credential.
  if (!isErrorCode(code) || code === 'internal' || metadata['credential'] === 'internal') return null;
  // What gRPC calls the commands of a call are the items of a batch.
  const named = refusal.field === 'commands' ? 'items' : refusal.field === '' || refusal.field === 'path' ? undefined : refusal.field;
  const [, , usualField] = table[code] as readonly [number, string, string?];
  const field = named ?? (statusOf(code, named) === 422 ? usualField : undefined);
  const tag = refusal.tag === undefined || refusal.tag === '' ? code : refusal.tag;
  // The id of a velocity limit is no value that was sent.
  const value = code === 'limit_exceeded' ? refusal.value : valueAsSent(field ?? '', refusal.value ?? '', sent);
  const detail = field === undefined ? undefined : { field, tag, value };
  const errors = code === 'validation_failed' && detail ? [{ ...detail, message: refusal.message }] : undefined;
  const details = detail && statusOf(code, field) === 422 ? { ...detail, ...moreDetails(metadata) } : detail;
  const usesTableMessage = code === 'validation_failed' || code === 'unavailable' || code === 'tenant_not_found' || refusal.message === '';
  const { policy, quota, window, remaining, reset } = metadata;
  const rateLimit = { quota: Number(quota), window: Number(window), remaining: Number(remaining), reset: Number(reset) };
  const headers = {
    ...(refusal.retryAfter !== undefined && { 'retry-after': String(refusal.retryAfter) }),
    ...(policy !== undefined && rateLimitHeaders({ policy, ...rateLimit })),
  };
  const extra = code === 'test_failed' ? failedTestFields(metadata) : undefined;
  return new ApiError(code, { message: usesTableMessage ? undefined : refusal.message, details, errors, headers, extra });
}

/** The fields that were sent and that the route has: only those may be repeated in an error. */
function knownFields({ body, query, routeOptions }: FastifyRequest): unknown {
  const { properties } = (routeOptions.schema?.body ?? {}) as { properties?: object };
  if (!properties) return query;
  const sent = Object(body ?? {}) as Record<string, unknown>;
  const names = Object.keys(properties).filter((name) => Object.hasOwn(sent, name));
  return Object.fromEntries(names.map((name) => [name, sent[name]]));
}

const frameworkCodes: Record<string, ErrorCode> = {
  FST_ERR_BAD_URL: 'route_not_found',
  FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'malformed_request',
  // The client left in the middle of its body.
  ECONNRESET: 'malformed_request',
};

/** Answers errors, and logs what only operators may see. */
export class ErrorHandler {
  private readonly logger: Logger;
  private readonly count: (code: ErrorCode) => void;
  private lastWarningMs = -Infinity;

  /** `count` is called with the code of each answer. */
  constructor(logger: Logger, count: (code: ErrorCode) => void) {
    this.logger = logger;
    this.count = count;
  }

  /** Answers a request with whatever was thrown for it. */
  answer(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const error = this.toApiError(thrown, request);
    this.count(error.code);
    const { caller, id, method, routeLabel: route } = request;
    if (error.status >= 400) request.span?.setAttribute('error.type', error.code);
    if (error.status === 503) this.warn({ code: error.code, method, route, tenant: caller.tenantId, request_id: id }, 'rejecting requests');
    // Fastify closes the connection after a rejected body. Node reads the rest of it, so that the client can read the answer.
    reply.removeHeader('connection');
    if (error.headers) reply.headers(error.headers);
    void reply.code(error.status).send(error.body(id));
  }

  /** Logs a warning, at most one a second: a flood of errors must not become a flood of lines. */
  warn(fields: object, message: string): void {
    if (performance.now() - this.lastWarningMs <= 1000) return;
    this.lastWarningMs = performance.now();
    this.logger.warn(fields, message);
  }

  private toApiError(thrown: unknown, request: FastifyRequest): ApiError {
    if (thrown instanceof ApiError) return thrown;
    const code = frameworkCodes[(thrown as FastifyError).code];
    const message = code === 'payload_too_large' ? `the body is larger than ${request.routeOptions.bodyLimit / 2 ** 20} MiB` : undefined;
    const known = thrown instanceof ConnectError ? apiErrorOf(thrown, knownFields(request)) : code && new ApiError(code, { message });
    if (known) return known;
    const { method, url, caller, id, routeLabel: route } = request;
    const fields = { request_id: id, tenant: caller.tenantId, method, path: url.split('?')[0], route };
    this.logger.error({ err: thrown, ...fields }, 'request failed');
    return new ApiError('internal');
  }
}
