import fc from 'fast-check';
import { isTimeZone, type Calendar } from '../platform/calendar.ts';
import {
  addUse,
  exceededBy,
  givenBack,
  stepAt,
  stepsOf,
  stepsText,
  subjectKey,
  usedAt,
  usesOf,
  windowAt,
  type Limit,
  type LimitRules,
  type Step,
  type Use,
  type Window,
} from './velocity.ts';

const at = (text: string) => Date.parse(text);

function limitOf(window: Window, more: Partial<Limit> = {}): Limit {
  const all = { id: 'limit_1', accountCode: 'wallet', applies: 'account', currency: 'NGN', side: 'debit', paused: false } as const;
  return { ...all, maxAmount: null, maxCount: null, window, ...more };
}

function useOf(limit: Limit, atMs: number, amount: bigint, count = 1): Use {
  return { limit, subject: limit.accountCode, stepMs: stepAt(limit.window, atMs), amount, count, positions: [0] };
}

const rulesOf = (limits: Limit[], above: Record<string, string[]> = {}): LimitRules => ({
  limits: Map.groupBy(limits, ({ accountCode }) => accountCode),
  above: new Map(Object.entries(above)),
  steps: new Map(),
});
const line = (code: string, side: string, amount: bigint, currency = 'NGN') => ({ code, side, amount, currency });

/** A limit's steps while uses come, as the writer keeps them: through their stored text. */
class Counter {
  steps: Step[] = [];
  readonly accepted: { atMs: number; amount: bigint }[] = [];
  readonly limit: Limit;

  constructor(limit: Limit) {
    this.limit = limit;
  }

  offer(atMs: number, amount: bigint): boolean {
    const use = useOf(this.limit, atMs, amount);
    if (exceededBy(use, this.steps, atMs) !== null) return false;
    this.steps = stepsOf(stepsText(addUse(this.steps, use, atMs)));
    this.accepted.push({ atMs, amount });
    return true;
  }
}

const offers = fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 40_000 }), amount: fc.bigInt(1n, 60n) }), { maxLength: 120 });

test('no rolling window exceeds its maximum in a random run, and what fits is refused only because of the oldest step', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 60, max: 400 }),
      fc.bigInt(20n, 200n),
      fc.integer({ min: 1, max: 9 }),
      offers,
      (seconds, max, most, run) => {
        const counter = new Counter(limitOf({ rollingSeconds: seconds }, { maxAmount: max, maxCount: most }));
        const step = Math.ceil(seconds / 60) * 1000;
        let now = at('2027-03-01T00:00:00Z');
        for (const { afterMs, amount } of run) {
          now += afterMs;
          const within = (ms: number) => counter.accepted.filter(({ atMs }) => atMs > now - ms);
          const sum = (uses: typeof counter.accepted) => uses.reduce((total, use) => total + use.amount, amount);
          const fits = (uses: typeof counter.accepted) => sum(uses) <= max && uses.length < most;
          const [exact, longest] = [fits(within(seconds * 1000)), fits(within(seconds * 1000 + step))];
          const taken = counter.offer(now, amount);
          if (taken) expect(exact).toBe(true);
          else expect(longest).toBe(false);
          expect(counter.steps.length).toBeLessThanOrEqual(62);
        }
        for (const { atMs: end } of counter.accepted) {
          const inside = counter.accepted.filter(({ atMs }) => atMs > end - seconds * 1000 && atMs <= end);
          expect(inside.length).toBeLessThanOrEqual(most);
          expect(inside.reduce((total, use) => total + use.amount, 0n) <= max).toBe(true);
        }
      },
    ),
  );
});

test('a rolling window moves in steps of a sixtieth, in whole seconds rounded up', () => {
  const start = at('2027-03-01T00:00:00Z');
  expect(stepAt({ rollingSeconds: 60 }, start + 1_999)).toBe(start + 1_000);
  expect(stepAt({ rollingSeconds: 61 }, start + 3_999)).toBe(start + 2_000);
  expect(stepAt({ rollingSeconds: 3_600 }, start + 119_999)).toBe(start + 60_000);
  const hour = { rollingSeconds: 3_600 };
  expect(windowAt(hour, start + 30_000)).toEqual({ startMs: start - 3_600_000, endMs: start + 60_000 });
  const counter = new Counter(limitOf(hour, { maxAmount: 100n }));
  expect(counter.offer(start, 100n)).toBe(true);
  // Inclusive: nothing more fits while the step in which it was counted is in the window.
  expect(counter.offer(start + 3_659_999, 1n)).toBe(false);
  expect(counter.offer(start + 3_660_000, 100n)).toBe(true);
  expect(counter.steps).toHaveLength(1);
});

const zones = ['Africa/Lagos', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Pacific/Apia', 'Africa/Cairo', 'Australia/Lord_Howe'];
const lengths: Calendar[] = ['day', 'week', 'month', 'year'];

/** Local date and time by another API: `2027-03-28 00:00:00`. */
const local = (timeZone: string, ms: number) => new Date(ms).toLocaleString('sv-SE', { timeZone });

test('a calendar window begins with the first moment of its local day, wherever it is', () => {
  const times = fc.integer({ min: at('2020-01-01T00:00:00Z'), max: at('2035-01-01T00:00:00Z') });
  fc.assert(
    fc.property(fc.constantFrom(...zones), fc.constantFrom(...lengths), times, (timeZone, calendar, ms) => {
      const { startMs, endMs } = windowAt({ calendar, timeZone }, ms);
      expect(startMs <= ms && ms < endMs).toBe(true);
      for (const edge of [startMs, endMs]) {
        const [date = ''] = local(timeZone, edge).split(' ');
        expect(local(timeZone, edge - 1) < date).toBe(true);
        const day = new Date(`${date}T00:00:00Z`);
        if (calendar === 'week') expect(day.getUTCDay()).toBe(1);
        if (calendar === 'month' || calendar === 'year') expect(day.getUTCDate()).toBe(1);
        if (calendar === 'year') expect(day.getUTCMonth()).toBe(0);
      }
      // Every moment of a window has the same one, and the next window begins where it ends.
      expect(windowAt({ calendar, timeZone }, endMs - 1)).toEqual({ startMs, endMs });
      expect(windowAt({ calendar, timeZone }, endMs).startMs).toBe(endMs);
    }),
    { numRuns: 300 },
  );
});

test.each<[string, string, string, string]>([
  ['Africa/Lagos, an hour ahead of UTC', 'Africa/Lagos', '2027-05-05T22:59:59Z', '2027-05-04T23:00Z/2027-05-05T23:00Z'],
  ['the next second is the next day', 'Africa/Lagos', '2027-05-05T23:00:00Z', '2027-05-05T23:00Z/2027-05-06T23:00Z'],
  ['a day of 23 hours', 'Europe/Berlin', '2027-03-28T12:00:00Z', '2027-03-27T23:00Z/2027-03-28T22:00Z'],
  ['a day of 25 hours', 'Europe/Berlin', '2027-10-31T12:00:00Z', '2027-10-30T22:00Z/2027-10-31T23:00Z'],
  ['a midnight that is skipped: the day begins at 1:00', 'Africa/Cairo', '2024-04-26T12:00:00Z', '2024-04-25T22:00Z/2024-04-26T21:00Z'],
  [
    'a clock that is set back at midnight: the day before has 25 hours',
    'Africa/Cairo',
    '2024-10-31T21:30:00Z',
    '2024-10-30T21:00Z/2024-10-31T22:00Z',
  ],
  ['a day that is skipped', 'Pacific/Apia', '2011-12-30T09:00:00Z', '2011-12-29T10:00Z/2011-12-30T10:00Z'],
  ['a day that ends twice: it is over the second time', 'America/St_Johns', '2010-11-07T02:30:30Z', '2010-11-06T02:30Z/2010-11-07T03:30Z'],
])('%s', (_, timeZone, ms, expected) => {
  const { startMs, endMs } = windowAt({ calendar: 'day', timeZone }, at(ms));
  const short = (time: number) => new Date(time).toISOString().replace(':00.000', '');
  expect(`${short(startMs)}/${short(endMs)}`).toBe(expected);
});

test('windows never go back in time, also where local time does', () => {
  for (const [timeZone, from] of [
    ['America/St_Johns', '2010-11-07T00:00:00Z'],
    ['Africa/Cairo', '2024-10-31T18:00:00Z'],
  ] as const) {
    let last = -Infinity;
    for (let minute = 0; minute < 600; minute++) {
      // A new object each time: nothing is remembered.
      const { startMs } = windowAt({ calendar: 'day', timeZone }, at(from) + minute * 60_000);
      expect(startMs).toBeGreaterThanOrEqual(last);
      last = startMs;
    }
  }
});

test('a daily limit begins anew at local midnight and keeps one step', () => {
  const counter = new Counter(limitOf({ calendar: 'day', timeZone: 'Africa/Lagos' }, { maxAmount: 100n }));
  expect(counter.offer(at('2027-05-05T10:00:00Z'), 100n)).toBe(true);
  expect(counter.offer(at('2027-05-05T22:59:59.999Z'), 1n)).toBe(false);
  expect(counter.offer(at('2027-05-05T23:00:00Z'), 40n)).toBe(true);
  expect(counter.steps).toEqual([[at('2027-05-05T23:00:00Z'), 40n, 1]]);
  expect(usedAt(counter.steps, counter.limit.window, at('2027-05-06T23:00:00Z'))).toEqual({ amount: 0n, count: 0 });
});

test('what is given back lowers the step in which it was counted, unless that has ended', () => {
  const now = at('2027-05-05T10:00:00Z');
  for (const window of [{ rollingSeconds: 60 }, { calendar: 'day', timeZone: 'UTC' }] as Window[]) {
    const limit = limitOf(window);
    const used = useOf(limit, now, 70n);
    const back = { ...used, amount: -30n, count: 0 };
    const steps = addUse([], used, now);
    expect(addUse(steps, back, now + 1)).toEqual([[used.stepMs, 40n, 1]]);
    const later = now + 86_400_000;
    const newest = useOf(limit, later, 5n);
    expect(addUse(addUse(steps, newest, later), back, later)).toEqual([[newest.stepMs, 5n, 1]]);
  }
});

test('all lines that a limit counts are one use; other sides, currencies and accounts are none', () => {
  const window = { rollingSeconds: 60 };
  const limits = [
    limitOf(window, { id: 'limit_4', accountCode: 'wallets', applies: 'sum' }),
    limitOf(window, { id: 'limit_3', accountCode: 'wallets', applies: 'each' }),
    limitOf(window, { id: 'limit_2', accountCode: 'all', applies: 'sum', side: 'credit' }),
    limitOf(window, { id: 'limit_1', accountCode: 'a' }),
  ];
  const rules = rulesOf(limits, { a: ['a', 'wallets', 'all'], b: ['b', 'wallets', 'all'], bank: ['bank'] });
  const lines = [
    ...[line('a', 'debit', 10n), line('b', 'debit', 5n), line('a', 'debit', 1n), line('a', 'debit', 7n, 'USD')],
    ...[line('b', 'credit', 2n), line('bank', 'credit', 14n), line('bank', 'credit', 7n, 'USD')],
  ];
  const uses = usesOf(lines, rules, 65_000).map(({ limit, subject, stepMs, amount, count, positions }) => {
    expect([stepMs, count]).toEqual([65_000, 1]);
    return [limit.id, subject, amount, positions];
  });
  expect(uses).toEqual([
    ['limit_1', 'a', 11n, [0, 2]],
    ['limit_2', 'all', 2n, [4]],
    ['limit_3', 'a', 11n, [0, 2]],
    ['limit_3', 'b', 5n, [1]],
    ['limit_4', 'wallets', 16n, [0, 1, 2]],
  ]);
  expect(usesOf([line('bank', 'debit', 5n)], rules, 0)).toEqual([]);
});

test('a hold’s release gives back what it has counted, and the count only where nothing was captured', () => {
  const [limit, other] = [limitOf({ rollingSeconds: 60 }), limitOf({ rollingSeconds: 60 }, { id: 'limit_2', accountCode: 'b' })];
  const rules = rulesOf([limit, other]);
  const counted = [
    { limitId: 'limit_1', subject: 'wallet', stepMs: 1_000, positions: [0, 2] },
    { limitId: 'limit_2', subject: 'b', stepMs: 2_000, positions: [1] },
    { limitId: 'limit_3', subject: 'wallet', stepMs: 1_000, positions: [0] },
  ];
  const back = (released: bigint[], captured: bigint[]) =>
    givenBack(counted, released, captured, rules).map((use) => [use.limit.id, use.subject, use.stepMs, use.amount, use.count]);
  expect(back([10n, 0n, 5n], [0n, 15n, 0n])).toEqual([['limit_1', 'wallet', 1_000, -15n, -1]]);
  expect(back([10n, 20n, 5n], [0n, 0n, 1n])).toEqual([
    ['limit_1', 'wallet', 1_000, -15n, 0],
    ['limit_2', 'b', 2_000, -20n, -1],
  ]);
  expect(back([0n, 0n, 0n], [10n, 20n, 5n])).toEqual([]);
});

test('both maxima are inclusive; the amount is judged first', () => {
  const limit = limitOf({ rollingSeconds: 60 }, { maxAmount: 100n, maxCount: 2 });
  const judge = (steps: Step[], amount: bigint) => exceededBy(useOf(limit, 1_000, amount), steps, 1_000);
  expect(judge([[1_000, 60n, 1]], 40n)).toBeNull();
  expect(judge([[1_000, 60n, 1]], 41n)).toBe('max_amount');
  expect(judge([[1_000, 60n, 2]], 1n)).toBe('max_count');
  expect(judge([[1_000, 60n, 2]], 41n)).toBe('max_amount');
});

test('steps are stored exactly, also above what a double holds', () => {
  const steps: Step[] = [
    [1_000, 123_456_789_012_345_678_901n, 3],
    [2_000, 0n, 0],
  ];
  expect(stepsText(steps)).toBe('[[1000,"123456789012345678901",3],[2000,"0",0]]');
  expect(stepsOf(stepsText(steps))).toEqual(steps);
  expect(subjectKey('limit_1', 'a')).toBe('limit_1 a');
});

test('a time zone has a name of the IANA database', () => {
  for (const name of ['Africa/Lagos', 'UTC', 'Asia/Kolkata', 'america/new_york']) expect([name, isTimeZone(name)]).toEqual([name, true]);
  for (const name of ['', '+01:00', 'Mars/Base', 'Africa/Lagos ']) expect([name, isTimeZone(name)]).toEqual([name, false]);
});
