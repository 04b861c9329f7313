// Velocity limits as records: checked as they are sent, stored and shown as JSON, and as the rules take them.
import { InvalidJson, parseJson } from '../platform/json.ts';
import { signedMinor, toDecimal } from '../platform/money.ts';
import { Refusal } from './accounting.ts';
import { checkedCode, checkedCurrency, checkedText, invalid, oneOf } from './fields.ts';
import { checkedAmount } from './payment-fields.ts';
import { isTimeZone, type Calendar } from '../platform/calendar.ts';
import type { Limit } from './velocity.ts';

/** A limit's window as it is sent and shown. */
type WindowRecord = { rolling_seconds: number } | { calendar: Calendar; time_zone: string };

/** What never changes. */
interface FixedTerms {
  account_code: string;
  applies: Limit['applies'];
  currency: string;
  side: string;
  window: WindowRecord;
}

/** What may change. */
interface ChangeableTerms {
  /** Decimal text. */
  max_amount: string | null;
  max_count: number | null;
  name: string | null;
  status: 'active' | 'paused';
}

/** What a client decides of a limit. */
export type LimitTerms = FixedTerms & ChangeableTerms;

/** A limit as REST shows it; stored as JSON. */
export interface LimitRecord extends LimitTerms {
  limit_id: string;
  version: number;
  created_at: string;
  updated_at: string;
}

const fixed = ['account_code', 'applies', 'currency', 'side', 'window'] as const;
const changeable = ['max_amount', 'max_count', 'name', 'status'] as const;
const calendars = ['day', 'week', 'month', 'year'] as const;

/** The longest rolling window, seconds: 366 days. */
const maxSeconds = 31_622_400;
const maxCount = 1_000_000_000;

type Sent = Record<string, unknown>;

/** Checks a new limit, a JSON object as text. Null is absent. Throws {@link Refusal} naming the field. */
export function newTerms(text: string): LimitTerms {
  const sent = fieldsOf(text, [...fixed, ...changeable]);
  const terms = { ...checkedFixed(sent), ...checkedChangeable(sent) };
  const all = {
    account_code: required('account_code', terms.account_code),
    applies: terms.applies ?? 'account',
    currency: required('currency', terms.currency),
    side: required('side', terms.side),
    max_amount: terms.max_amount ?? null,
    max_count: terms.max_count ?? null,
    window: required('window', terms.window),
    name: terms.name ?? null,
    status: terms.status ?? 'active',
  };
  if (all.max_amount === null && all.max_count === null) {
    throw invalid('max_amount', 'required', '', 'max_amount or max_count is required');
  }
  return all;
}

/**
 * A limit after a change, a JSON object as text with the fields to change; an empty name removes it. Its `version` must be the present one.
 * Throws {@link Refusal}: `version_conflict`, and with the tag `immutable` for other values of what never changes.
 */
export function changedTerms(before: LimitRecord, text: string): LimitTerms {
  const sent = fieldsOf(text, [...fixed, ...changeable, 'version']);
  const wanted = checkedFixed(sent);
  for (const field of fixed) {
    const [value, is] = [wanted[field], before[field]];
    if (value === undefined || JSON.stringify(value) === JSON.stringify(is)) continue;
    throw invalid(field, 'immutable', textOf(sent[field]), `${field} can't be changed`);
  }
  const change = checkedChangeable(sent);
  const version = numberAt('version', sent['version'], 1, Number.MAX_SAFE_INTEGER);
  if (version !== undefined && version !== before.version) {
    const blame = { field: 'version', tag: 'version_conflict', value: String(version) };
    throw new Refusal('version_conflict', `limit ${before.limit_id} has version ${before.version}, not ${version}`, blame);
  }
  return {
    ...termsOf(before),
    ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)),
    ...(change.name === '' && { name: null }),
  };
}

/** The terms of a record, in the record's order. */
export function termsOf(record: LimitTerms): LimitTerms {
  const { account_code, applies, currency, side, max_amount, max_count, window, name, status } = record;
  return { account_code, applies, currency, side, max_amount, max_count, window, name, status };
}

/** A stored limit. */
export function limitRecordOf(text: string): LimitRecord {
  return JSON.parse(text) as LimitRecord;
}

/** A limit as the rules take it. */
export function limitOf(record: LimitRecord): Limit {
  const { window } = record;
  return {
    id: record.limit_id,
    accountCode: record.account_code,
    applies: record.applies,
    currency: record.currency,
    side: record.side,
    maxAmount: record.max_amount === null ? null : signedMinor(record.max_amount),
    maxCount: record.max_count,
    window: 'calendar' in window ? { calendar: window.calendar, timeZone: window.time_zone } : { rollingSeconds: window.rolling_seconds },
    paused: record.status === 'paused',
  };
}

function fieldsOf(text: string, known: readonly string[]): Sent {
  let value: unknown;
  try {
    value = parseJson(text, 3);
  } catch (error) {
    if (error instanceof InvalidJson) throw invalid('record', error.flaw, text, 'record must be a JSON object as text');
    throw error;
  }
  return objectAt('record', value, known, '');
}

function objectAt(field: string, value: unknown, known: readonly string[], at: string): Sent {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(field, 'type', textOf(value), `${field} must be an object`);
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown !== undefined) throw invalid(`${at}${unknown}`, 'unknown', textOf((value as Sent)[unknown]), `${at}${unknown} is unknown`);
  return value as Sent;
}

function checkedFixed(sent: Sent): { [Name in keyof FixedTerms]: FixedTerms[Name] | undefined } {
  return {
    account_code: textAt('account_code', sent['account_code'], (text) => checkedCode('account_code', text)),
    applies: textAt('applies', sent['applies'], (text) => oneOf('applies', text, ['account', 'each', 'sum'])),
    currency: textAt('currency', sent['currency'], (text) => checkedCurrency('currency', text)),
    side: textAt('side', sent['side'], (text) => oneOf('side', text, ['debit', 'credit'])),
    window: sent['window'] == null ? undefined : checkedWindow(sent['window']),
  };
}

function checkedChangeable(sent: Sent): { [Name in keyof ChangeableTerms]: ChangeableTerms[Name] | undefined } {
  return {
    max_amount: textAt('max_amount', sent['max_amount'], (text) => toDecimal(checkedAmount('max_amount', text))),
    max_count: numberAt('max_count', sent['max_count'], 1, maxCount),
    name: textAt('name', sent['name'], (text) => checkedText('name', text, { max: 255 })),
    status: textAt('status', sent['status'], (text) => oneOf('status', text, ['active', 'paused'])),
  };
}

function checkedWindow(value: unknown): WindowRecord {
  const sent = objectAt('window', value, ['rolling_seconds', 'calendar', 'time_zone'], 'window.');
  const seconds = numberAt('window.rolling_seconds', sent['rolling_seconds'], 60, maxSeconds);
  const calendar = textAt('window.calendar', sent['calendar'], (text) => oneOf('window.calendar', text, calendars));
  const timeZone = textAt('window.time_zone', sent['time_zone'], checkedTimeZone);
  if (seconds !== undefined) {
    const other = calendar ?? timeZone;
    if (other === undefined) return { rolling_seconds: seconds };
    const field = calendar === undefined ? 'window.time_zone' : 'window.calendar';
    throw invalid(field, 'same', other, `${field} must be left out where window.rolling_seconds is sent`);
  }
  return {
    calendar: required(timeZone === undefined ? 'window.rolling_seconds' : 'window.calendar', calendar),
    time_zone: required('window.time_zone', timeZone),
  };
}

function checkedTimeZone(text: string): string {
  if (isTimeZone(text)) return text;
  throw invalid(
    'window.time_zone',
    'timezone',
    text,
    'window.time_zone must be a name of the IANA time zone database, such as Africa/Lagos',
  );
}

function textAt<Checked>(field: string, value: unknown, check: (text: string) => Checked): Checked | undefined {
  if (value == null) return undefined;
  if (typeof value !== 'string') throw invalid(field, 'type', textOf(value), `${field} must be a string`);
  return check(value);
}

function numberAt(field: string, value: unknown, min: number, max: number): number | undefined {
  if (value == null) return undefined;
  if (!Number.isInteger(value)) throw invalid(field, 'type', textOf(value), `${field} must be an integer`);
  const number = value as number;
  if (number < min) throw invalid(field, 'min', String(number), `${field} must be at least ${min}`);
  if (number > max) throw invalid(field, 'max', String(number), `${field} must be at most ${max}`);
  return number;
}

function required<Value>(field: string, value: Value | undefined): Value {
  if (value === undefined) throw invalid(field, 'required', '', `${field} is required`);
  return value;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
