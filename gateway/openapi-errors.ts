// The errors of a route in the OpenAPI document: codes, statuses and examples.
import { ApiError, statusOf, type ErrorCode, type FieldDetail } from './errors.ts';
import type { DocumentedRoute } from './openapi-route.ts';
import { headerDocs, headersOfStatus, rateLimitHeaderNames } from './openapi-headers.ts';
import { ref } from './records.ts';

/** Scopes of the routes that change what is in the log. */
const changeScopes = new Set<string>(['transactions:write', 'accounts:write', 'periods:close', 'periods:reopen', 'personal:manage']);

/** Every error code that a route may answer. */
function errorCodesOf({ access, doc, hasBody, hasQuery, readsBody }: DocumentedRoute): ErrorCode[] {
  const codes = new Set<ErrorCode>(doc.errors);
  if (access.by !== 'anyone') codes.add('unauthenticated');
  if (access.by === 'member' || access.by === 'key') codes.add('tenant_not_found');
  if (access.by === 'key' || access.by === 'member') codes.add('forbidden');
  const worksReadOnly = access.by === 'key' ? !readsBody : access.by !== 'member' || access.whileReadOnly;
  if (!worksReadOnly) for (const code of ['tenant_suspended', 'tenant_closed'] as const) codes.add(code);
  if (access.by === 'key' && readsBody && changeScopes.has(access.scope)) codes.add('books_frozen');
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

/** The errors of a route: what the document says of 4XX and 5XX, and all codes by status (`x-error-codes`). */
export function errorAnswers(route: DocumentedRoute): { responses: Record<string, object>; codes: Record<string, ErrorCode[]> } {
  const byStatus = new Map<number, Set<ErrorCode>>();
  const add = (status: number, code: ErrorCode) => byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  const { errorFields, rateLimitHeadersOn = [] } = route.doc;
  for (const code of errorCodesOf(route)) {
    if (route.ofAccount) add(statusOf(code), code);
    if (!route.ofAccount || errorFields?.[code]) add(statusOf(code, 'account_code'), code);
  }
  const responses: Record<string, object> = {};
  const statuses = [...byStatus].sort(([one], [other]) => one - other);
  for (const range of ['4', '5']) {
    const within = statuses.filter(([status]) => String(status).startsWith(range));
    if (within.length === 0) continue;
    const names = within.flatMap(([status]) => [
      ...(headersOfStatus[status] ?? []),
      ...(rateLimitHeadersOn.includes(status) ? rateLimitHeaderNames : []),
    ]);
    const examples: Record<string, object> = {};
    for (const [status, codes] of within) {
      for (const code of codes) {
        for (const own of [errorFields?.[code] ?? {}].flat()) {
          examples[code in examples ? `${code}_${own.field ?? status}` : code] = { value: errorExample(code, status, own) };
        }
      }
    }
    responses[`${range}XX`] = {
      description: within.map(([status, codes]) => `${status}: ${[...codes].map((code) => `\`${code}\``).join(', ')}`).join('; '),
      headers: headerDocs([...new Set(names)]),
      content: { 'application/json': { schema: ref('Problem'), examples } },
    };
  }
  return { responses, codes: Object.fromEntries(statuses.map(([status, codes]) => [status, [...codes]])) };
}
