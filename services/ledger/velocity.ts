// Velocity limits: what an account or group has used in a window of time, and what is left. Pure; amounts are minor units.
//
// Of each limit and subject (the account or group whose use is counted) the live steps are stored as JSON: `[[step_ms,"minor",count],…]`, oldest
// first. An event adds each of its uses to the step that the use names, which is made if it is missing. Then, for each subject it has used:
// - rolling: with step = ceil(seconds / 60) × 1000, all before floor((event_ms − seconds × 1000) / step) × step are dropped;
// - calendar: all but the newest are dropped, so that a replay needs no time zones.
// A step may fall to zero and stays. With its limit all of a subject's steps are deleted.

import { beginOf, firstDayOf, localDay, type Calendar } from '../platform/calendar.ts';

/** A window by a calendar: its days begin at local midnight, its weeks on Monday. */
export interface CalendarWindow {
  calendar: Calendar;
  /** Name in the IANA time zone database. */
  timeZone: string;
}

/** The time over which a limit counts. */
export type Window = { rollingSeconds: number } | CalendarWindow;

/** A limit on what moves on one side of an account or group in a currency. */
export interface Limit {
  id: string;
  /** Of an account, or of a group: `each` counts every account below it by itself, `sum` all together. */
  accountCode: string;
  applies: 'account' | 'each' | 'sum';
  currency: string;
  side: string;
  /** Inclusive; null: none. */
  maxAmount: bigint | null;
  maxCount: number | null;
  window: Window;
  /** Goes on counting, but refuses nothing. */
  paused: boolean;
}

/** Part of a window: its start in milliseconds since the Unix epoch, and what was used in it. */
export type Step = readonly [startMs: number, amount: bigint, count: number];

/** The limits of a tenant. */
export interface LimitRules {
  /** By the code of their account or group. */
  limits: ReadonlyMap<string, readonly Limit[]>;
  /** The code of an account and those of all groups above it, by the account's code. */
  above: Map<string, readonly string[]>;
  /** What was used, by {@link subjectKey}. */
  steps: Map<string, readonly Step[]>;
}

/** What one event adds to a step. */
export interface Use {
  limit: Limit;
  /** Code of the account or group. */
  subject: string;
  stepMs: number;
  /** Below zero where it is given back. */
  amount: bigint;
  count: number;
  /** Positions of the lines that count. */
  positions: number[];
}

/** What limits need of a line. */
export interface CountedLine {
  code: string;
  side: string;
  currency: string;
  amount: bigint;
}

const dayMs = 86_400_000;

/** The key of a limit's steps for one subject. */
export function subjectKey(limitId: string, subject: string): string {
  return `${limitId} ${subject}`;
}

/** The limits that count an account, each with its subject. `above` has its code and those of the groups above it. */
export function limitsOf(code: string, above: readonly string[], limits: LimitRules['limits']): { limit: Limit; subject: string }[] {
  return above.flatMap((each) =>
    (limits.get(each) ?? [])
      .filter(({ applies }) => applies !== 'account' || each === code)
      .map((limit) => ({ limit, subject: limit.applies === 'each' ? code : each })),
  );
}

/** What lines use of a tenant's limits at a time, oldest limits first. All lines that one subject counts are one use. */
export function usesOf(lines: readonly CountedLine[], { limits, above }: LimitRules, atMs: number): Use[] {
  const uses = new Map<string, Use>();
  for (const [position, { code, side, currency, amount }] of lines.entries()) {
    // An account that its first use has created is below no group.
    for (const { limit, subject } of limitsOf(code, above.get(code) ?? [code], limits)) {
      if (limit.side !== side || limit.currency !== currency) continue;
      const key = subjectKey(limit.id, subject);
      const use = uses.get(key) ?? { limit, subject, stepMs: stepAt(limit.window, atMs), amount: 0n, count: 1, positions: [] };
      use.amount += amount;
      use.positions.push(position);
      uses.set(key, use);
    }
  }
  return [...uses.values()].sort((a, b) => compare(a.limit.id, b.limit.id) || compare(a.subject, b.subject));
}

/** What a hold has counted, as its `hold.created` has it. */
export type CountedUse = Pick<Use, 'positions' | 'stepMs' | 'subject'> & { limitId: string };

/**
 * What limits get back where a hold's entries are released, by their positions. The count is given back only where nothing was `captured` in
 * all. A limit that was deleted gets nothing.
 */
export function givenBack(
  counted: readonly CountedUse[],
  released: readonly bigint[],
  captured: readonly bigint[],
  { limits }: LimitRules,
): Use[] {
  const sum = (amounts: readonly bigint[], positions: number[]) => positions.reduce((all, each) => all + (amounts[each] ?? 0n), 0n);
  const byId = new Map([...limits.values()].flat().map((limit) => [limit.id, limit]));
  return counted.flatMap(({ limitId, subject, stepMs, positions }) => {
    const limit = byId.get(limitId);
    const amount = -sum(released, positions);
    if (!limit || amount === 0n) return [];
    return [{ limit, subject, stepMs, amount, count: sum(captured, positions) === 0n ? -1 : 0, positions }];
  });
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** Which maximum a use would exceed at a time; null: none. */
export function exceededBy({ limit, amount, count }: Use, steps: readonly Step[], atMs: number): 'max_amount' | 'max_count' | null {
  const used = usedAt(steps, limit.window, atMs);
  if (limit.maxAmount !== null && used.amount + amount > limit.maxAmount) return 'max_amount';
  return limit.maxCount !== null && used.count + count > limit.maxCount ? 'max_count' : null;
}

/** What was used in the window of a time. */
export function usedAt(steps: readonly Step[], window: Window, atMs: number): { amount: bigint; count: number } {
  const { startMs } = windowAt(window, atMs);
  const used = { amount: 0n, count: 0 };
  for (const [start, amount, count] of steps) {
    if (start < startMs) continue;
    used.amount += amount;
    used.count += count;
  }
  return used;
}

/** The steps after a use at a time, without those that have ended: the rule at the top of this file. */
export function addUse(steps: readonly Step[], { limit, stepMs, amount, count }: Use, atMs: number): Step[] {
  const before = steps.find(([start]) => start === stepMs) ?? [stepMs, 0n, 0];
  const changed: Step = [stepMs, before[1] + amount, before[2] + count];
  const all = [...steps.filter(([start]) => start !== stepMs), changed].sort(([a], [b]) => a - b);
  if ('calendar' in limit.window) return all.slice(-1);
  const { startMs } = windowAt(limit.window, atMs);
  return all.filter(([start]) => start >= startMs);
}

/** Start of the step in which a time is. */
export function stepAt(window: Window, atMs: number): number {
  return 'calendar' in window ? periodAt(window, atMs).startMs : floorTo(atMs, stepLength(window.rollingSeconds));
}

/** What counts at a time: from the start of the oldest step on, which counts whole, up to the end of the newest (exclusive). */
export function windowAt(window: Window, atMs: number): { startMs: number; endMs: number } {
  if ('calendar' in window) return periodAt(window, atMs);
  const step = stepLength(window.rollingSeconds);
  return { startMs: floorTo(atMs - window.rollingSeconds * 1000, step), endMs: floorTo(atMs, step) + step };
}

/** Steps as they are stored. */
export function stepsText(steps: readonly Step[]): string {
  return JSON.stringify(steps.map(([startMs, amount, count]) => [startMs, amount.toString(), count]));
}

/** Steps from their stored text. */
export function stepsOf(text: string): Step[] {
  return (JSON.parse(text) as [number, string, number][]).map(([startMs, amount, count]) => [startMs, BigInt(amount), count]);
}

// Milliseconds of a step: a sixtieth of the window in whole seconds, rounded up.
function stepLength(seconds: number): number {
  return Math.ceil(seconds / 60) * 1000;
}

function floorTo(ms: number, step: number): number {
  return Math.floor(ms / step) * step;
}

const periods = new WeakMap<CalendarWindow, { startMs: number; endMs: number }>();

function periodAt(window: CalendarWindow, atMs: number): { startMs: number; endMs: number } {
  const known = periods.get(window);
  if (known && known.startMs <= atMs && atMs < known.endMs) return known;
  const { calendar, timeZone } = window;
  // From the day after, because where a clock is set back past midnight a time may show the day before that of its window.
  let first = firstDayOf(calendar, localDay(timeZone, atMs) + dayMs);
  while (beginOf(timeZone, first) > atMs) first = firstDayOf(calendar, first - dayMs);
  // A day more than the longest period is in the next one.
  const next = firstDayOf(calendar, first + { day: 1, week: 7, month: 31, year: 366 }[calendar] * dayMs);
  const period = { startMs: beginOf(timeZone, first), endMs: beginOf(timeZone, next) };
  periods.set(window, period);
  return period;
}
