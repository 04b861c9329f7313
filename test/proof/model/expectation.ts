// What the model expects of an answer, and how an answer differs. Statuses and codes are those of the specification.

const kinds = {
  acc: /^acc_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  evt: /^evt_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  key: /^key_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  tenant: /^tenant_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  txn: /^txn_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  delivery: /^wh_delivery_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  hash: /^[0-9a-f]{64}$/,
  text: /^[^]+$/,
};

/** A value that the cluster chooses: any of its kind at first, and always the same later. */
export class Learned {
  readonly kind: keyof typeof kinds;
  value: string | undefined;

  constructor(kind: keyof typeof kinds, value?: string) {
    this.kind = kind;
    this.value = value;
  }

  /** What is wrong with a value in this position, or null. */
  sees(value: unknown): string | null {
    if (typeof value !== 'string' || !kinds[this.kind].test(value)) return `is no ${this.kind}: ${JSON.stringify(value)}`;
    this.value ??= value;
    return this.value === value ? null : `was ${this.value} before, is ${value}`;
  }

  /** The value. Throws if none was seen yet. */
  known(): string {
    if (this.value === undefined) throw new Error(`no answer has had this ${this.kind} yet`);
    return this.value;
  }
}

/** The learned value, or the value itself. */
export function valueOf(value: unknown): unknown {
  return value instanceof Learned ? value.value : value;
}

/** One refusal of a request. */
export interface Refused {
  code: string;
  field?: string;
  tag?: string;
  value?: unknown;
}

/** An answer, or one of several refusals where the specification leaves open which comes first. */
export type Expected = { status: number; data: unknown; replayed?: boolean } | { refused: Refused[] };

/** An answer over REST or gRPC in one form; gRPC has no status. */
export interface Seen {
  status: number | null;
  /** Undefined where it was answered. */
  code: string | undefined;
  field: string | undefined;
  tag: string | undefined;
  value: unknown;
  data: any;
  replayed: boolean;
}

const statuses: Record<number, string> = {
  400: 'invalid_json validation_failed invalid_delivery_id',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'route_not_found tenant_not_found account_not_found transaction_not_found delivery_not_found key_not_found webhook_not_configured',
  405: 'method_not_allowed',
  409: 'email_taken slug_taken account_code_taken chart_exists version_conflict delivery_not_failed webhook_disabled account_not_empty already_reversed account_is_system',
  413: 'payload_too_large',
  415: 'unsupported_media_type',
  422: 'parent_invalid unbalanced insufficient_funds account_closed account_is_group currency_not_allowed balance_overflow idempotency_key_reused',
  429: 'rate_limited',
  502: 'test_failed',
};

/** Refusals of the ledger over gRPC. */
const overGrpc =
  'validation_failed account_not_found transaction_not_found account_code_taken chart_exists version_conflict account_not_empty parent_invalid ' +
  'already_reversed unbalanced insufficient_funds account_closed account_is_group account_is_system currency_not_allowed balance_overflow ' +
  'idempotency_key_reused';

/** Every refusal of the specification, like `409 slug_taken` or `gRPC unbalanced`, that needs neither load nor a dependency that is down. */
export const refusals: readonly string[] = [
  ...Object.entries(statuses).flatMap(([status, codes]) => codes.split(' ').map((code) => `${status} ${code}`)),
  '422 account_not_found',
  '422 account_is_system',
  ...overGrpc.split(' ').map((code) => `gRPC ${code}`),
];

/** The status of a refusal. `account_not_found` and `account_is_system` are 422 where a field of the body names the account. */
export function statusOf({ code, field }: Refused): number {
  if (field !== undefined && (code === 'account_not_found' || code === 'account_is_system')) return 422;
  const found = Object.entries(statuses).find(([, codes]) => codes.split(' ').includes(code));
  if (!found) throw new Error(`the specification has no code ${code}`);
  return Number(found[0]);
}

/** Where a value differs from what is expected, or null. More fields than expected are allowed. */
export function difference(expected: unknown, seen: unknown, path = 'data'): string | null {
  if (expected instanceof Learned) {
    const wrong = expected.sees(seen);
    return wrong === null ? null : `${path} ${wrong}`;
  }
  if (Array.isArray(expected)) {
    if (!Array.isArray(seen)) return `${path} is no list: ${JSON.stringify(seen)}`;
    if (seen.length !== expected.length) return `${path} has ${seen.length} items, expected ${expected.length}`;
    return first(expected.map((each, index) => () => difference(each, seen[index], `${path}[${index}]`)));
  }
  if (typeof expected === 'object' && expected !== null) {
    if (typeof seen !== 'object' || seen === null) return `${path} is no object: ${JSON.stringify(seen)}`;
    const fields = seen as Record<string, unknown>;
    return first(
      Object.entries(expected).map(
        ([name, each]) =>
          () =>
            difference(each, fields[name], `${path}.${name}`),
      ),
    );
  }
  return expected === seen ? null : `${path} is ${JSON.stringify(seen)}, expected ${JSON.stringify(expected)}`;
}

function first(checks: (() => string | null)[]): string | null {
  for (const check of checks) {
    const found = check();
    if (found !== null) return found;
  }
  return null;
}

/** Where an answer differs from what is expected, or null. */
export function disagreement(expected: Expected, seen: Seen): string | null {
  if ('refused' in expected) {
    if (seen.code === undefined)
      return `answered ${seen.status ?? 'OK'}, expected a refusal: ${expected.refused.map(refusalText).join(' or ')}`;
    const fits = (each: Refused) =>
      each.code === seen.code &&
      (seen.status === null || seen.status === statusOf(each)) &&
      (each.field === undefined || each.field === seen.field) &&
      (each.tag === undefined || each.tag === seen.tag) &&
      (each.value === undefined || each.value === seen.value || (seen.status === null && JSON.stringify(each.value) === seen.value));
    return expected.refused.some(fits) ? null : `refused as ${seenText(seen)}, expected ${expected.refused.map(refusalText).join(' or ')}`;
  }
  if (seen.code !== undefined) return `refused as ${seenText(seen)}, expected ${expected.status}`;
  if (seen.status !== null && seen.status !== expected.status) return `answered ${seen.status}, expected ${expected.status}`;
  if (seen.replayed !== (expected.replayed ?? false)) return `${seen.replayed ? 'a replay' : 'no replay'}, expected otherwise`;
  return difference(expected.data, seen.data);
}

function refusalText(refused: Refused): string {
  return `${statusOf(refused)} ${refused.code} ${refused.field ?? ''} ${refused.tag ?? ''} ${textOf(refused.value)}`.trim();
}

function seenText({ status, code, field, tag, value }: Seen): string {
  return `${status ?? ''} ${code} ${field ?? ''} ${tag ?? ''} ${textOf(value)}`.trim();
}

const textOf = (value: unknown) => (value === undefined ? '' : JSON.stringify(value));
