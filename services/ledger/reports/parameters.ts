// Parameters of reports: checks them, fills in defaults, and reads dates in the time zone of the books.
import { instantOf } from '../../platform/calendar.ts';
import { InvalidJson, parseJson } from '../../platform/json.ts';
import { currencies } from '../../platform/money.ts';
import type { Refusal } from '../accounting.ts';
import { checkedCode, checkedText, invalid, oneOf } from '../fields.ts';
import { formats, reportNames, type GroupBy, type Parameters, type ReportName } from './report.ts';

/** Parameters as they were sent, checked but not resolved. */
export interface Asked extends Omit<Parameters, 'time' | 'fromMs' | 'toMs' | 'knownSequence'> {
  asOf: string | null;
  from: string | null;
  to: string | null;
  knownAt: string | null;
  knownSequence: bigint | null;
}

const common = ['currency', 'known_at', 'known_sequence', 'format'];
const byAccounts = ['depth', 'zero', 'columns', 'compare', 'count', 'group_by'];
const paged = ['limit', 'cursor'];
const between = ['from', 'to'];

/** The parameters that each report takes. */
export const parameterNames: Record<ReportName, readonly string[]> = {
  'trial-balance': ['as_of', ...between, 'closing', ...common, ...byAccounts],
  'balance-sheet': ['as_of', ...common, ...byAccounts],
  'income-statement': [...between, ...common, ...byAccounts],
  'cash-flow': [...between, ...common, ...byAccounts],
  'account-statement': ['account_code', ...between, 'order', ...common, ...paged],
  'general-ledger': ['account_code', ...between, ...common, ...paged],
  journal: [...between, 'order', ...common, ...paged],
};

/** Lines on a page of JSON, unless the request says how many. */
export const pageLimits = { fallback: 50, max: 100 };

const maxAccountCodes = 50;

/** Checks the parameters of a report, a JSON object as text. Throws {@link Refusal} naming the field. */
export function checkedParameters(name: string, text: string): Asked {
  const report = oneOf('report', name, reportNames);
  const sent = objectOf(text);
  const unknown = Object.keys(sent).find((field) => !parameterNames[report].includes(field));
  if (unknown !== undefined) throw invalid(unknown, 'unknown', textOf(sent[unknown]), `${report} has no parameter ${unknown}`);
  const asked: Asked = {
    report,
    asOf: time(sent, 'as_of'),
    from: time(sent, 'from'),
    to: time(sent, 'to'),
    knownAt: time(sent, 'known_at'),
    knownSequence: nullable(whole(sent, 'known_sequence', 0, Number.MAX_SAFE_INTEGER), BigInt),
    currency: word(sent, 'currency', currencies) ?? null,
    closing: word(sent, 'closing', ['include', 'exclude']) ?? 'include',
    depth: whole(sent, 'depth', 1, 32) ?? 32,
    zero: flag(sent, 'zero'),
    columns: word(sent, 'columns', ['total', 'month', 'quarter', 'year']) ?? 'total',
    compare: word(sent, 'compare', ['none', 'previous_period', 'previous_year']) ?? 'none',
    count: whole(sent, 'count', 1, 11) ?? 1,
    groupBy: groupBy(sent, report),
    format: word(sent, 'format', formats) ?? 'json',
    order: word(sent, 'order', ['effective', 'posted']) ?? 'effective',
    accountCodes: accountCodes(sent, report),
    limit: whole(sent, 'limit', 1, pageLimits.max),
    cursor: string(sent, 'cursor', 512) ?? '',
  };
  checkTogether(sent, asked);
  return asked;
}

/** Fields that exclude or need each other. */
function checkTogether(sent: Sent, { asOf, from, to, knownAt, knownSequence, format }: Asked): void {
  const clash = (field: string, message: string) => invalid(field, 'oneof', textOf(sent[field]), message);
  if (asOf !== null && (from ?? to) !== null) throw clash('as_of', 'as_of stands alone, or from and to do');
  if (knownAt !== null && knownSequence !== null) throw clash('known_at', 'known_at stands alone, or known_sequence does');
  const paging = paged.find((field) => isSent(sent[field]));
  if (paging !== undefined && format !== 'json') throw clash(paging, `${paging} is for the format json: other formats have no pages`);
}

/** What a report reads in time: the parameters without those that say when. */
export interface Times {
  timeZone: string;
  /** When the report is made, milliseconds since the Unix epoch: where it ends if it names no time. */
  nowMs: number;
  /** What counts as known. */
  knownSequence: bigint;
  /** Where a report that names a state of the log, but no time, ends; null: at `nowMs`. */
  knownMs: number | null;
}

/** Resolves the times of a report. Throws {@link Refusal}: `datetime`, `oneof` (`from` after `to`). */
export function resolved({ asOf, from, to, knownAt: _, ...asked }: Asked, times: Times): Parameters {
  const endMs = times.knownMs ?? times.nowMs;
  const isAt = asked.report === 'balance-sheet' || (asked.report === 'trial-balance' && from === null && to === null);
  const sentFrom = from === null ? null : instant('from', from, 'first', times.timeZone);
  // Nothing counts before 1970.
  const fromMs = sentFrom === null || sentFrom < 0 ? null : sentFrom;
  const end = isAt ? asOf : to;
  const toMs = end === null ? endMs : Math.max(instant(isAt ? 'as_of' : 'to', end, 'last', times.timeZone), -1);
  if (sentFrom !== null && sentFrom > toMs) throw invalid('from', 'oneof', from as string, 'from must not be after to');
  return { ...asked, time: isAt ? 'at' : 'between', fromMs, toMs, knownSequence: times.knownSequence };
}

/** The instant of a time or a day. Throws {@link Refusal} `datetime`. */
export function instant(field: string, text: string, edge: 'first' | 'last', timeZone: string): number {
  const ms = instantOf(text, edge, timeZone);
  if (ms === null) throw noTime(field, text);
  return ms;
}

function noTime(field: string, text: string): Refusal {
  return invalid(field, 'datetime', text, `${field} must be a date like 2030-01-31 or a time like 2030-01-31T12:00:00.000Z`);
}

type Sent = Record<string, unknown>;

function objectOf(text: string): Sent {
  const refuse = (tag: string, message: string) => invalid('parameters', tag, text, `parameters ${message}`);
  if (text === '') return {};
  if (text.length > 65_536) throw refuse('max', 'must have at most 64 KiB');
  try {
    const value = parseJson(text, 3);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new InvalidJson('type');
    return value as Sent;
  } catch (error) {
    if (error instanceof InvalidJson) throw refuse(error.flaw, 'must be a JSON object');
    throw error;
  }
}

/** Null counts as absent. */
function isSent(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function nullable<Value, Result>(value: Value | null, map: (value: Value) => Result): Result | null {
  return value === null ? null : map(value);
}

function string(sent: Sent, field: string, max: number): string | null {
  const value = sent[field];
  if (!isSent(value)) return null;
  if (typeof value !== 'string') throw invalid(field, 'type', textOf(value), `${field} must be a string`);
  return checkedText(field, value, { max });
}

function time(sent: Sent, field: string): string | null {
  const text = string(sent, field, 1_000);
  // Which days there are depends on the time zone; what a day or a time looks like does not.
  if (text !== null && instantOf(text, 'first', 'UTC') === null) throw noTime(field, text);
  return text;
}

function word<const Word extends string>(sent: Sent, field: string, words: readonly Word[]): Word | null {
  const text = string(sent, field, 1_000);
  return text === null ? null : oneOf(field, text, words);
}

function whole(sent: Sent, field: string, min: number, max: number): number | null {
  const value = sent[field];
  if (!isSent(value)) return null;
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw invalid(field, 'type', textOf(value), `${field} must be a whole number`);
  }
  if (value < min) throw invalid(field, 'min', String(value), `${field} must be at least ${min}`);
  if (value > max) throw invalid(field, 'max', String(value), `${field} must be at most ${max}`);
  return value;
}

function flag(sent: Sent, field: string): boolean {
  const value = sent[field];
  if (!isSent(value)) return false;
  if (typeof value !== 'boolean') throw invalid(field, 'type', textOf(value), `${field} must be true or false`);
  return value;
}

// Keys of accounts' metadata are free.
const groupPattern = /^(?:(account)\.(.{1,255})|(transaction)\.([A-Za-z0-9_-]{1,64}))$/su;

function groupBy(sent: Sent, report: ReportName): GroupBy | null {
  const text = string(sent, 'group_by', 1_000);
  if (text === null) return null;
  const [, , ofAccounts, , ofTransactions] = groupPattern.exec(text) ?? [];
  if (ofAccounts !== undefined) return { of: 'account', key: ofAccounts };
  // A balance is what all transactions have left, so it has no parts by transactions.
  if (ofTransactions !== undefined && report !== 'balance-sheet') return { of: 'transaction', key: ofTransactions };
  const second = report === 'balance-sheet' ? '' : ' or transaction.<indexed key>';
  throw invalid('group_by', 'oneof', text, `group_by must be account.<metadata key>${second}`);
}

function accountCodes(sent: Sent, report: ReportName): string[] {
  const value = sent['account_code'];
  if (report === 'general-ledger' && Array.isArray(value)) {
    if (value.length > maxAccountCodes) {
      throw invalid('account_code', 'max', String(value.length), `account_code may be repeated ${maxAccountCodes} times at most`);
    }
    return value.map((code: unknown, index) => checkedCode(`account_code[${index}]`, string({ code }, 'code', 1_000) ?? ''));
  }
  const code = string(sent, 'account_code', 1_000);
  if (code === null && report !== 'account-statement') return [];
  return [checkedCode('account_code', code ?? '')];
}
