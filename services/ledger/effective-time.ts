// When a posting counts: the time that it asks for, checked against the books. Pure; times are milliseconds since the Unix epoch.
import { Refusal, net, type Account, type BalanceChange, type Request } from './accounting.ts';

/** What the books say of times. */
export interface DateRules {
  /** How far ahead a posting may count. */
  futureDays: number;
  /** What happens to one into a closed period. */
  lateEntries: 'refuse' | 'next_open';
  /** The first open millisecond; null: nothing is closed. */
  openFromMs: number | null;
}

/** The rules of books without settings. */
export const defaultDateRules: DateRules = { futureDays: 366, lateEntries: 'refuse', openFromMs: null };

/** The time that a command asks for; `original`: that of the transaction it reverses. */
export type AskedTime = number | 'original';

/** When a posting counts. */
export interface EffectiveTime {
  atMs: number;
  /** What was asked for, where a closed period moved it; null: nothing was moved. */
  requestedMs: number | null;
}

/** The transaction that a reversal takes from. */
export interface DatedOriginal {
  kind: string;
  effectiveMs: number;
}

const dayMs = 86_400_000;
// Clocks of clients may be ahead by so much without dating a posting into the future.
const toleranceMs = 5 * 60_000;

/**
 * When a posting counts; null: when it is recorded, at `createdMs`. `asked`: null where the command names no time. Throws {@link Refusal}:
 * `effective_at_out_of_range`, `effective_before_original`, `period_closed`.
 */
export function effectiveTime(
  asked: AskedTime | null,
  original: DatedOriginal | null,
  createdMs: number,
  rules: DateRules,
): EffectiveTime | null {
  // The reversal of a closing transaction opens what it closed, so it counts when that does.
  if (original?.kind === 'closing') return inOpenPeriod(original.effectiveMs, { ...rules, lateEntries: 'refuse' });
  if (asked === null) {
    // Without a time nothing is late; what counts in the future can't be undone before.
    const isLater = original !== null && original.effectiveMs > createdMs;
    return isLater ? { atMs: original.effectiveMs, requestedMs: null } : null;
  }
  const atMs = asked === 'original' ? (original?.effectiveMs ?? createdMs) : asked;
  if (atMs < 0 || atMs > createdMs + rules.futureDays * dayMs) throw refusal('effective_at_out_of_range', atMs, rangeText(rules));
  if (original && atMs < original.effectiveMs) {
    throw refusal(
      'effective_before_original',
      atMs,
      `effective_at must not be before ${textOf(original.effectiveMs)}, when the original counts`,
    );
  }
  return atMs === createdMs ? null : inOpenPeriod(atMs, rules);
}

/**
 * Throws {@link Refusal} `future_dated` where a posting that counts in the future raises an account that may not go below zero: what is not there
 * yet could be spent.
 */
export function assertNotSpentEarly(request: Request, changes: readonly BalanceChange[], atMs: number, createdMs: number): void {
  if (request.kind === 'reversal' || atMs <= createdMs + toleranceMs) return;
  for (const { account, currency, before, after } of changes) {
    if (account.allowNegative || net(account, after) <= net(account, before)) continue;
    const index = request.entries.findIndex((entry) => entry.code === account.code && entry.currency === currency);
    throw futureDated(
      account,
      request.entries[index]?.field ?? (request.kind === 'single' ? 'account_code' : `entries[${index}].account_code`),
    );
  }
}

function inOpenPeriod(atMs: number, { openFromMs, lateEntries }: DateRules): EffectiveTime {
  if (openFromMs === null || atMs >= openFromMs) return { atMs, requestedMs: null };
  if (lateEntries === 'next_open') return { atMs: openFromMs, requestedMs: atMs };
  throw refusal('period_closed', atMs, `the period of ${textOf(atMs)} is closed: the first open time is ${textOf(openFromMs)}`);
}

function rangeText({ futureDays }: DateRules): string {
  return `effective_at must be from 1970 on and at most ${futureDays} days ahead`;
}

function textOf(ms: number): string {
  return new Date(ms).toISOString();
}

function refusal(
  reason: 'effective_at_out_of_range' | 'effective_before_original' | 'period_closed',
  atMs: number,
  message: string,
): Refusal {
  const value = Math.abs(atMs) <= 8.64e15 ? textOf(atMs) : String(atMs);
  return new Refusal(reason, message, { field: 'effective_at', tag: reason, value });
}

function futureDated({ code }: Account, field: string): Refusal {
  const message = `account ${code} may not go below zero, so a posting that counts in the future may not raise it`;
  return new Refusal('future_dated', message, { field, tag: 'future_dated', value: code });
}
