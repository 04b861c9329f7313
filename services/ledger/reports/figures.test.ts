// Reports by accounts against a naive model that reads a journal only.
import fc from 'fast-check';
import type { Side } from '../accounting.ts';
import type { AccountType } from '../templates.ts';
import { normalSide } from '../templates.ts';
import type { Totals } from '../totals.ts';
import { byAccounts } from './accounts-report.ts';
import { balanceSheet, incomeStatement, timesOf, trialBalance, type Figures, type Slice, type Source } from './figures.ts';
import { BrokenIdentity, assertIdentities } from './identities.ts';
import { chartOf, type ChartAccount } from './lines.ts';
import { MovesOverTime, without, type Move } from './moves.ts';
import { resolved, checkedParameters } from './parameters.ts';
import type { Column, ReportLine } from './report.ts';

interface Posting {
  at: number;
  isClosing: boolean;
  tag: string | null;
  entries: { code: string; side: Side; amount: bigint; currency: string }[];
}

/** A book: a chart with groups in groups, and a journal. Times are small numbers, so that they often meet. */
interface Book {
  accounts: ChartAccount[];
  journal: Posting[];
}

const types: AccountType[] = ['asset', 'liability', 'equity', 'revenue', 'expense'];
const lastTime = 40;

// Per type: a group, a group in it, and accounts in either, in none, and one that holds one currency.
const accounts = types.flatMap((type, place): ChartAccount[] => {
  const account = (code: string, parent: string | null, more: Partial<ChartAccount> = {}): ChartAccount => ({
    ...{ id: `${place}-${code}`, code: `${type}-${code}`, name: code, type, parentCode: parent && `${type}-${parent}` },
    ...{ isGroup: false, currency: null, metadata: '{}' },
    ...more,
  });
  return [
    account('0top', null, { isGroup: true }),
    account('1mid', '0top', { isGroup: true }),
    account('2deep', '1mid', { metadata: '{"unit": "north"}' }),
    account('3deep', '1mid', { metadata: '{"unit": "south"}' }),
    account('4high', '0top', { metadata: '{"unit": 7}' }),
    account('5alone', null, { currency: 'USD' }),
  ];
});
const leafCodes = accounts.filter(({ isGroup }) => !isGroup).map(({ code }) => code);

const posting: fc.Arbitrary<Posting> = fc
  .record({
    at: fc.integer({ min: 1, max: lastTime }),
    isClosing: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
    tag: fc.constantFrom(null, 'x', 'y'),
    currency: fc.constantFrom('USD', 'NGN'),
    pairs: fc.array(
      fc.record({
        debit: fc.constantFrom(...leafCodes),
        credit: fc.constantFrom(...leafCodes),
        amount: fc.bigInt({ min: 1n, max: 10n ** 15n }),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  })
  .map(({ pairs, currency, ...rest }) => {
    // A closing transaction moves between revenue, expense and equity only.
    const allowed = (code: string) => !rest.isClosing || /^(equity|revenue|expense)/.test(code);
    const kept = pairs.filter(({ debit, credit }) => allowed(debit) && allowed(credit));
    const side = (code: string, on: Side, amount: bigint) => ({
      code,
      side: on,
      amount,
      currency: code.endsWith('5alone') ? 'USD' : currency,
    });
    const usable = kept.filter(({ debit, credit }) => side(debit, 'debit', 1n).currency === side(credit, 'credit', 1n).currency);
    return {
      ...rest,
      entries: usable.flatMap(({ debit, credit, amount }) => [side(debit, 'debit', amount), side(credit, 'credit', amount)]),
    };
  });
const book: fc.Arbitrary<Book> = fc.array(posting, { maxLength: 25 }).map((journal) => ({ accounts, journal }));

const asked = fc.record({
  report: fc.constantFrom('trial-balance', 'balance-sheet', 'income-statement'),
  bounds: fc
    .uniqueArray(fc.integer({ min: 1, max: lastTime }), { minLength: 3, maxLength: 3 })
    .map((all) => all.sort((one, other) => one - other)),
  isFromStart: fc.boolean(),
  currency: fc.constantFrom(undefined, 'USD'),
  depth: fc.integer({ min: 1, max: 4 }),
  zero: fc.boolean(),
  closing: fc.constantFrom('include', 'exclude'),
  group_by: fc.constantFrom(undefined, 'account.unit', 'transaction.tag'),
});
type Wish = typeof asked extends fc.Arbitrary<infer Each> ? Each : never;

function idOf(code: string): string {
  return accounts.find((account) => account.code === code)!.id;
}

function movesOf(journal: Posting[]): Move[] {
  return journal.map(({ at, entries }, index) => {
    const moved: Totals = new Map();
    for (const { code, currency, side, amount } of entries) {
      const total = moved.get(`${idOf(code)} ${currency}`) ?? { debits: 0n, credits: 0n };
      total[side === 'debit' ? 'debits' : 'credits'] += amount;
      moved.set(`${idOf(code)} ${currency}`, total);
    }
    return { sequence: BigInt(index + 1), effectiveMs: at, moved };
  });
}

function totalsOf(moves: Move[], times: number[]): Map<number, Totals> {
  const sums = new MovesOverTime(times);
  for (const move of moves) sums.add(move);
  return sums.totals();
}

/** Makes a report as the auditor does, but for the database. */
function make({ journal }: Book, wish: Wish): { figures: Figures; source: Source; whole: Map<number, Totals> } {
  const { report, bounds, isFromStart, currency, depth, zero, closing, group_by: groupBy } = wish;
  const isTrial = report === 'trial-balance';
  const isByTransaction = groupBy === 'transaction.tag' && report !== 'balance-sheet';
  const fields = {
    currency,
    depth,
    zero,
    ...(isTrial && { closing }),
    group_by: groupBy === 'transaction.tag' && !isByTransaction ? null : groupBy,
  };
  const checked = checkedParameters(report, JSON.stringify(fields));
  const known = { timeZone: 'UTC', nowMs: bounds[2]!, knownSequence: 0n, knownMs: null };
  const parameters = { ...resolved(checked, known), time: isFromStart ? ('at' as const) : ('between' as const) };
  const [first, second, third] = bounds as [number, number, number];
  const columns: Column[] = [
    { key: '1970-01-01', fromMs: isFromStart ? null : first, toMs: second },
    { key: '1970-01-02', fromMs: isFromStart ? null : second + 1, toMs: third },
  ];
  const yearStarts = [first, second];
  const times = timesOf({ parameters, columns, yearStarts });
  const chart = chartOf(accounts.toReversed());
  const moves = movesOf(journal);
  const ofCurrency = (each: Move): Move => ({
    ...each,
    moved: new Map([...each.moved].filter(([key]) => currency === undefined || key.endsWith(currency))),
  });
  const of = (fits: (posting: Posting) => boolean) => totalsOf(moves.filter((_, index) => fits(journal[index]!)).map(ofCurrency), times);
  const whole = of(() => true);
  const isLeftOut = (each: Posting) => each.isClosing && (report === 'income-statement' || (isTrial && closing === 'exclude'));
  const kept = without(whole, of(isLeftOut));
  const tagged = ['x', 'y'].map((tag): Slice => ({ group: tag, at: of((each) => each.tag === tag && !isLeftOut(each)) }));
  const slices = isByTransaction
    ? [...tagged, { group: null, at: tagged.reduce((rest, { at }) => without(rest, at), kept) }]
    : parameters.groupBy?.of === 'account'
      ? byAccounts(chart, 'unit', kept)
      : [{ group: null, at: kept }];
  const source: Source = { parameters, chart, columns, slices: slices.length === 0 ? [{ group: null, at: kept }] : slices, yearStarts };
  const made = { 'trial-balance': trialBalance, 'balance-sheet': balanceSheet, 'income-statement': incomeStatement }[report];
  return { figures: made(source), source, whole };
}

/** Debits less credits and both sums of what fits, entry by entry. */
function sum(journal: Posting[], fits: (entry: Posting['entries'][number], posting: Posting) => boolean) {
  const all = journal.flatMap((each) => each.entries.filter((entry) => fits(entry, each)));
  const [debits, credits] = (['debit', 'credit'] as const).map((side) =>
    all.filter((entry) => entry.side === side).reduce((total, { amount }) => total + amount, 0n),
  ) as [bigint, bigint];
  return { debits, credits, net: debits - credits };
}

/** The codes below an account, and its own. */
function below(code: string): string[] {
  return [code, ...accounts.filter(({ parentCode }) => parentCode === code).flatMap((child) => below(child.code))];
}

function unitOf(code: string): string | null {
  const { unit } = JSON.parse(accounts.find((account) => account.code === code)!.metadata) as { unit?: string | number };
  return unit === undefined ? null : String(unit);
}

/** A line's amounts, from the journal alone. */
function expectedValues({ journal }: Book, wish: Wish, source: Source, line: ReportLine): Record<string, bigint>[] {
  const { report, closing } = wish;
  const { groupBy } = source.parameters;
  const codes = below(line.accountCode!);
  const counts = (entry: Posting['entries'][number], each: Posting) =>
    codes.includes(entry.code) &&
    entry.currency === line.currency &&
    !(each.isClosing && (report === 'income-statement' || (report === 'trial-balance' && closing === 'exclude'))) &&
    (groupBy === null || (groupBy.of === 'account' ? unitOf(entry.code) : each.tag) === line.group);
  return source.columns.map(({ fromMs, toMs }): Record<string, bigint> => {
    const before = sum(journal, (entry, each) => counts(entry, each) && each.at < (fromMs ?? 0));
    const during = sum(journal, (entry, each) => counts(entry, each) && each.at >= (fromMs ?? 0) && each.at <= toMs);
    const all = before.net + during.net;
    const sign = normalSide(line.type as AccountType) === 'debit' ? 1n : -1n;
    if (report === 'balance-sheet') return { amount: sign * all };
    if (report === 'income-statement') return { amount: sign * during.net };
    return { opening: before.net, debits: during.debits, credits: during.credits, closing: all };
  });
}

test('every line of every report is what the journal says, whatever is folded, grouped, compared or left out', () => {
  fc.assert(
    fc.property(book, asked, (each, wish) => {
      const { figures, source, whole } = make(each, wish);
      assertIdentities(figures, source, whole);
      for (const line of figures.lines.filter(({ computed }) => !computed)) {
        const netted = line.values.map(({ debit: _debit, credit: _credit, ...rest }) => rest);
        expect([line.accountCode, netted]).toEqual([line.accountCode, expectedValues(each, wish, source, line)]);
        expect(line.depth).toBeLessThanOrEqual(wish.depth);
        expect(line.folded).toBe(line.isGroup && line.depth === wish.depth);
        if (!wish.zero && !line.isGroup)
          expect(line.values.some((values) => Object.values(values).some((amount) => amount !== 0n))).toBe(true);
      }
      const shown = figures.lines.map((line) => [line.currency, line.section, line.group, line.accountCode, line.name].join());
      expect(new Set(shown).size).toBe(shown.length);
    }),
    { numRuns: 400 },
  );
});

test('an account that has not moved is shown once, with its own text', () => {
  fc.assert(
    fc.property(book, asked, (each, wish) => {
      const { figures, source } = make(each, { ...wish, zero: true, depth: 32 });
      const ofGroup = (code: string | null) => (source.parameters.groupBy?.of === 'account' ? unitOf(code!) : null);
      const moved = new Set(each.journal.flatMap(({ entries }) => entries).map(({ code }) => code));
      const lines = figures.lines.filter(({ isGroup, computed }) => !isGroup && !computed);
      for (const { accountCode, currency, group } of lines.filter((line) => !moved.has(line.accountCode!))) {
        const all = lines.filter((line) => line.accountCode === accountCode && line.currency === currency);
        expect([all.length, group]).toEqual([1, ofGroup(accountCode)]);
      }
      const wanted = leafCodes.filter((code) => figures.totals.some(({ section }) => sectionsOf(code).includes(section)));
      const currencies = new Set(figures.totals.map(({ currency }) => currency));
      if (currencies.has('USD')) expect(new Set(lines.map(({ accountCode }) => accountCode))).toEqual(new Set(wanted));
    }),
    { numRuns: 200 },
  );
});

/** Where reports show accounts like this one. */
function sectionsOf(code: string): (string | null)[] {
  const [type = ''] = code.split('-');
  return [null, type, { asset: 'assets', liability: 'liabilities' }[type] ?? type];
}

test('what is folded, grouped or shown changes no total, and nothing is forgotten', () => {
  fc.assert(
    fc.property(book, asked, (each, wish) => {
      const plain = make(each, { ...wish, depth: 32, zero: false, group_by: undefined }).figures;
      const { figures } = make(each, wish);
      const kept = figures.totals.map((total) => ({ ...total, values: total.values.map((values) => Object.keys(values).length) }));
      expect(kept.length).toBe(plain.totals.length);
      for (const [index, { values }] of figures.totals.entries()) expect(plain.totals[index]!.values).toMatchObject(values);
      // Every account that moved has a line in the plain report.
      const codes = new Set(plain.lines.map(({ accountCode }) => accountCode));
      const moved = each.journal
        .filter(({ at, isClosing }) => at >= wish.bounds[0]! && at <= wish.bounds[1]! && !isClosing)
        .flatMap(({ entries }) => entries);
      if (wish.report !== 'trial-balance' || wish.currency !== undefined) return;
      for (const { code } of moved) expect(codes).toContain(code);
    }),
    { numRuns: 200 },
  );
});

test('earnings of the balance sheet are what revenue and expense have left, before the fiscal year and in it', () => {
  fc.assert(
    fc.property(book, asked, (each, wish) => {
      const { figures, source } = make(each, { ...wish, report: 'balance-sheet', group_by: undefined });
      for (const line of figures.lines.filter(({ computed }) => computed)) {
        const earned = source.columns.map(({ toMs }, index) => {
          const start = source.yearStarts[index]!;
          const [from, to] = line.name === 'earnings_prior' ? [0, start - 1] : [start, toMs];
          return -sum(
            each.journal,
            ({ code, currency }, { at }) => /^(revenue|expense)/.test(code) && currency === line.currency && at >= from && at <= to,
          ).net;
        });
        expect([line.name, line.values.map(({ amount }) => amount)]).toEqual([line.name, earned]);
      }
    }),
    { numRuns: 200 },
  );
});

test('a report that contradicts itself is not given out', () => {
  const entries = [
    { code: 'asset-2deep', side: 'debit', amount: 700n, currency: 'USD' },
    { code: 'revenue-2deep', side: 'credit', amount: 700n, currency: 'USD' },
  ] as const;
  const journal = (amount: bigint, isClosing = false): Posting[] => [
    { at: 2, isClosing, tag: null, entries: [{ ...entries[0], amount }, entries[1]] },
  ];
  const wish = {
    bounds: [1, 3, 5],
    isFromStart: false,
    currency: undefined,
    depth: 32,
    zero: false,
    closing: 'include',
    group_by: undefined,
  } as const;
  const broken = (report: string, each: Posting[], change: (figures: Figures) => void = () => undefined) => {
    const { figures, source, whole } = make({ accounts, journal: each }, { ...wish, bounds: [...wish.bounds], report } as Wish);
    change(figures);
    try {
      assertIdentities(figures, source, whole);
      return 'nothing';
    } catch (error) {
      return error instanceof BrokenIdentity ? error.message : error;
    }
  };
  expect(broken('trial-balance', journal(700n))).toBe('nothing');
  expect(broken('trial-balance', journal(701n))).toContain('debits and credits differ (USD, 1970-01-01T00:00:00.003Z)');
  const cheat = (figures: Figures) => void ((figures.lines[0]!.values[0] as Record<string, bigint>)['closing'] = 1n);
  expect(broken('trial-balance', journal(700n), cheat)).toContain('lines do not add up to the total');
  const cheatTotal = (figures: Figures) => {
    figures.lines.find(({ section, isGroup }) => section === 'assets' && !isGroup)!.values[0]!['amount'] = 1n;
    figures.totals.find(({ section }) => section === 'assets')!.values[0]!['amount'] = 1n;
  };
  expect(broken('balance-sheet', journal(700n), cheatTotal)).toContain('assets are not liabilities and equity');
  // A closing transaction that moves an asset changes equity by what is neither income nor posted to it.
  expect(broken('income-statement', journal(700n, true))).toContain('equity does not change by the net income');
});
