// What the model expects of an answer, and how an answer differs. Statuses and codes are those of the specification.
import type { Seen } from '../ledger-api.ts';

const kinds = {
  acc: /^acc_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  hold: /^hold_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  evt: /^evt_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  txn: /^txn_[0-7][0-9a-hjkmnp-tv-z]{25}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
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

const statuses: Record<number, string> = {
  400: 'validation_failed',
  404: 'account_not_found transaction_not_found hold_not_found',
  409: 'account_code_taken chart_exists version_conflict account_not_empty already_reversed account_is_system hold_ended',
  422: [
    'parent_invalid unbalanced insufficient_funds account_closed account_is_group currency_not_allowed idempotency_key_reused',
    'hold_exceeded reversal_exceeded entries_mismatch',
  ].join(' '),
};

/** Every refusal that the steps must reach, like `409 chart_exists` or `gRPC unbalanced`. */
export const refusals: readonly string[] = [
  ...Object.entries(statuses).flatMap(([status, codes]) => codes.split(' ').flatMap((code) => [`${status} ${code}`, `gRPC ${code}`])),
  '422 account_not_found',
  '422 account_is_system',
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
