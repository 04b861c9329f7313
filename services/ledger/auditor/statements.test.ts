// Statements, general ledger, journal and cash flow of a random book, against sums by hand over its log; and their files.
import { randomInt } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import pg from 'pg';
import { reportBytes } from '../../../test/auditor.ts';
import { refusal } from '../../../test/ledger.ts';
import { cash, debitNormal, leaves, openRandomBook, readLog, type Posted, type RandomBook } from '../../../test/random-book.ts';
import { filesOfZip, textOfPdf } from '../../../test/report-files.ts';
import { signedMinor, toDecimal } from '../../platform/money.ts';
import { BrokenIdentity } from '../reports/identities.ts';
import { makeNow, reportBounds } from './reports-rpc.ts';

let book: RandomBook;
let { ledger, auditor, tenant, tenantId } = {} as RandomBook;

let [log, head]: [Posted[], number] = [[], 0];

beforeAll(async () => {
  book = await openRandomBook();
  ({ ledger, auditor, tenant, tenantId } = book);
  ({ log, head } = await readLog(book));
}, 60_000);
afterAll(async () => {
  await auditor.end();
  await ledger.end();
});

const bytesOf = (report: string, parameters: object) => reportBytes(auditor, tenantId, report, parameters);

type Json = any;
async function read(report: string, parameters: object): Promise<{ report: Json; pagination: Json }> {
  const { bytes } = await bytesOf(report, parameters);
  return (JSON.parse(bytes.toString()) as { data: { report: Json; pagination: Json } }).data;
}

/** All pages of a report; `between` runs after each. */
async function readPages(report: string, parameters: object, between: () => Promise<unknown> = () => Promise.resolve()): Promise<Json[]> {
  const pages: Json[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page = await read(report, cursor === '' ? parameters : { ...parameters, cursor });
    pages.push(page.report);
    cursor = page.pagination.next_cursor as string | null;
    expect(page.pagination.has_more).toBe(cursor !== null);
    await between();
  }
  return pages;
}

interface Wish {
  order: 'effective' | 'posted';
  fromMs: number | null;
  toMs: number;
  known: number;
}

function randomWish(): Wish {
  const order = (['effective', 'posted'] as const)[randomInt(2)]!;
  const times = log.map((posted) => (order === 'posted' ? posted.createdMs : posted.effectiveMs));
  const any = () => times[randomInt(times.length)]! + randomInt(-1, 2);
  const [fromMs, toMs] = [any(), any()].sort((one, other) => one - other) as [number, number];
  return { order, fromMs: randomInt(4) === 0 ? null : fromMs, toMs, known: randomInt(2) === 0 ? head : randomInt(1, head + 1) };
}

const text = (ms: number) => new Date(ms).toISOString();
const parametersOf = ({ order, fromMs, toMs, known }: Wish) => ({
  ...{ order, to: text(toMs), known_sequence: known, ...(fromMs !== null && { from: text(fromMs) }) },
});

/** A statement by hand. */
function byHand(code: string, currency: string, { order, fromMs, toMs, known }: Wish) {
  const timeOf = (posted: Posted) => (order === 'posted' ? posted.createdMs : posted.effectiveMs);
  const inOrder = log
    .filter(({ sequence }) => sequence <= known)
    .toSorted((one, other) => timeOf(one) - timeOf(other) || one.sequence - other.sequence);
  let [running, opening] = [0n, 0n];
  const lines: object[] = [];
  for (const posted of inOrder.filter((each) => timeOf(each) <= toMs)) {
    for (const { side, minor, balanceAfter, ...entry } of posted.entries) {
      if (entry.code !== code || entry.currency !== currency) continue;
      running += (side === 'debit') === debitNormal.includes(code) ? minor : -minor;
      if (fromMs !== null && timeOf(posted) < fromMs) opening = running;
      else {
        const balance = order === 'posted' ? { balance_after: toDecimal(balanceAfter) } : { running_balance: toDecimal(running) };
        lines.push({ sequence: posted.sequence, effective_at: text(posted.effectiveMs), side, amount: toDecimal(minor), ...balance });
      }
    }
  }
  return { opening_balance: toDecimal(opening), closing_balance: toDecimal(running), lines };
}

function picked({ opening_balance, closing_balance, lines }: Json): object {
  const shown = ({ sequence, effective_at, side, amount, running_balance, balance_after }: Json): object => ({
    ...{ sequence, effective_at, side, amount, ...(balance_after === undefined ? { running_balance } : { balance_after }) },
  });
  return { opening_balance, closing_balance, lines: lines.map(shown) };
}

test('an account statement is that by hand, in either order, as of any state of the log, page by page', async () => {
  for (let round = 0; round < 20; round++) {
    const [wish, code, currency] = [randomWish(), leaves[randomInt(leaves.length)]!, ['NGN', 'USD'][randomInt(2)]!];
    const asked = { account_code: code, currency, ...parametersOf(wish) };
    const pages = await readPages('account-statement', { ...asked, limit: randomInt(3, 30) });
    const lines = pages.flatMap((page) => page.lines);
    expect({ wish, ...picked({ ...pages[0], lines }) }).toEqual({ wish, ...byHand(code, currency, wish) });
    // The figures are those of the whole period, on each page.
    for (const page of pages) expect({ ...page, lines: [] }).toEqual({ ...pages[0], lines: [] });
  }
});

/** What the ledger answers for an account at a time, in NGN. */
async function balanceAt(accountCode: string, ms: number): Promise<string> {
  return (await ledger.client.getBalance({ tenantId, accountCode, currency: 'NGN', asOfMs: BigInt(ms) })).balance!.balance;
}

test('months chain, and the closing is the balance as of their end', async () => {
  let closing = '0.00';
  for (const [from, to] of [
    ['2026-01-01', '2026-01-31'],
    ['2026-02-01', '2026-02-28'],
    ['2026-03-01', '2026-04-30'],
  ] as const) {
    const { report } = await read('account-statement', { account_code: 'BANK', currency: 'NGN', from, to });
    expect(report.opening_balance).toBe(closing);
    closing = report.closing_balance;
    expect(closing).toBe(await balanceAt('BANK', Date.parse(`${to}T22:59:59.999Z`)));
    expect(report.parameters).toMatchObject({ from: text(Date.parse(`${from}T00:00:00Z`) - 3_600_000), to: `${to}T22:59:59.999Z` });
  }
});

test('pages read one state of the log and end at one time, whatever is posted between them', async () => {
  for (const report of ['account-statement', 'general-ledger', 'journal']) {
    const own = report === 'account-statement' ? { account_code: 'BANK', currency: 'NGN' } : {};
    const pages = await readPages(report, { ...own, limit: 9 }, () => book.post());
    const states = new Set(pages.map((page) => JSON.stringify([page.as_recorded, page.parameters])));
    expect([report, pages.length > 1, states.size]).toEqual([report, true, 1]);
    const linesOf = (page: Json): Json[] => page.lines ?? page.statements.flatMap((statement: Json) => statement.lines);
    const sequences = pages.flatMap(linesOf).map((line) => line.sequence as number);
    expect(Math.max(...sequences)).toBeLessThanOrEqual(pages[0].as_recorded.sequence as number);
  }
  ({ log, head } = await readLog(book));
});

const amountOf = (row: string[], name: string, header: string[]) => signedMinor(row[header.indexOf(name)]!)!;

/** Rows of CSV without quoted commas in front of the columns that are read. */
async function rowsOf(report: string, parameters: object): Promise<{ header: string[]; rows: string[][] }> {
  const { contentType, bytes } = await bytesOf(report, { ...parameters, format: 'csv' });
  expect(contentType).toBe('text/csv; charset=utf-8; header=present');
  const [header = [], ...rows] = bytes
    .toString()
    .trimEnd()
    .split('\r\n')
    .map((row) => row.split(','));
  return { header, rows };
}

test('journal, general ledger and trial balance move the same, by currency', async () => {
  for (let round = 0; round < 6; round++) {
    const wish = randomWish();
    const { order: _, ...parameters } = parametersOf(wish);
    const moved = async (report: string) => {
      const sums: Record<string, bigint> = {};
      const { header, rows } = await rowsOf(report, parameters);
      for (const row of rows) {
        const key = `${row[header.indexOf('currency')]} ${row[header.indexOf('side')]}`;
        sums[key] = (sums[key] ?? 0n) + amountOf(row, 'amount', header);
      }
      return sums;
    };
    const { report } = await read('trial-balance', { ...parameters, ...(wish.fromMs === null && { from: '1970-01-01' }) });
    const trial = (report.totals as Json[]).flatMap(({ currency, values: [{ debits, credits }] }) => [
      [`${currency} debit`, signedMinor(debits as string)!],
      [`${currency} credit`, signedMinor(credits as string)!],
    ]);
    const expected = Object.fromEntries(trial.filter(([, sum]) => sum !== 0n)) as Record<string, bigint>;
    expect(await moved('journal')).toEqual(expected);
    expect(await moved('general-ledger')).toEqual(expected);
  }
});

test('the general ledger has a statement for each account and currency, of groups all below, in order of the chart', async () => {
  const wish: Wish = {
    order: 'effective',
    fromMs: Date.parse('2026-02-01T00:00:00Z'),
    toMs: Date.parse('2026-05-01T00:00:00Z'),
    known: head,
  };
  const { order: _, ...parameters } = parametersOf(wish);
  const pages = await readPages('general-ledger', { ...parameters, account_code: ['CASH', 'RENT'], limit: 7 });
  const statements = new Map<string, Json>();
  for (const statement of pages.flatMap((page) => page.statements as Json[])) {
    const key = `${statement.account_code} ${statement.currency}`;
    statements.set(key, { ...statement, lines: [...(statements.get(key)?.lines ?? []), ...statement.lines] });
  }
  expect([...statements.keys()].join()).toBe('BANK NGN,BANK USD,TILL NGN,TILL USD,RENT NGN,RENT USD');
  for (const [key, statement] of statements) expect(picked(statement)).toEqual(byHand(...(key.split(' ') as [string, string]), wish));
});

describe('cash flow', () => {
  /** Cents by account that is not cash, of a currency. */
  function flowsByHand(currency: string, fromMs: number, toMs: number): Record<string, bigint> {
    const sums: Record<string, bigint> = {};
    for (const { entries, effectiveMs } of log) {
      const own = entries.filter((entry) => entry.currency === currency);
      if (effectiveMs < fromMs || effectiveMs > toMs || !own.some(({ code }) => cash.includes(code))) continue;
      for (const { code, side, minor } of own)
        if (!cash.includes(code)) sums[code] = (sums[code] ?? 0n) + (side === 'credit' ? minor : -minor);
    }
    return sums;
  }

  const period = { from: '2026-01-01T00:00:00Z', to: '2026-06-30T23:59:59.999Z', currency: 'NGN' };
  const [fromMs, toMs] = [Date.parse(period.from), Date.parse(period.to)];
  const total = (report: Json, section: string, column = 0): bigint =>
    signedMinor(report.totals.find((each: Json) => each.section === section).values[column].amount as string)!;

  test('has what moved with cash, by account and section, and the cash before and after', async () => {
    const { report } = await read('cash-flow', period);
    const shown = Object.fromEntries(
      (report.lines as Json[]).map(({ account_code: code, values }) => [code, signedMinor(values[0].amount as string)!]),
    );
    expect(shown).toEqual(Object.fromEntries(Object.entries(flowsByHand('NGN', fromMs, toMs)).filter(([, minor]) => minor !== 0n)));
    const sections = Object.fromEntries((report.lines as Json[]).map((line) => [line.account_code, line.section]));
    expect(sections).toMatchObject({
      SALES: 'operating',
      RENT: 'operating',
      MACHINE: 'investing',
      LOAN: 'financing',
      CAPITAL: 'financing',
    });
    expect(total(report, 'closing_cash')).toBe(signedMinor(await balanceAt('BANK', toMs))! + signedMinor(await balanceAt('TILL', toMs))!);
    expect(total(report, 'opening_cash')).toBe(0n);
  });

  test('months add up, each opens with the closing before, and groups change no total', async () => {
    const { report } = await read('cash-flow', period);
    const { report: months } = await read('cash-flow', { ...period, columns: 'month' });
    expect(months.columns.length).toBeGreaterThanOrEqual(6);
    for (let column = 1; column < months.columns.length; column++) {
      expect(total(months, 'opening_cash', column)).toBe(total(months, 'closing_cash', column - 1));
    }
    for (const group_by of ['account.unit', 'transaction.channel']) {
      const { report: split } = await read('cash-flow', { ...period, group_by });
      expect(split.totals).toEqual(report.totals);
      expect(new Set((split.lines as Json[]).map(({ group }) => group))).toEqual(
        new Set(group_by === 'account.unit' ? ['shop', null] : ['shop', 'web', null]),
      );
    }
    expect(await refusal(bytesOf('cash-flow', { ...period, group_by: 'transaction.other' }))).toMatchObject({
      reason: 'validation_failed',
      field: 'group_by',
      tag: 'oneof',
    });
  });
});

test('all files of all reports: CSV, XLSX and PDF, of which two have the same bytes', async () => {
  for (const report of [
    'trial-balance',
    'balance-sheet',
    'income-statement',
    'cash-flow',
    'account-statement',
    'general-ledger',
    'journal',
  ]) {
    const own = report === 'account-statement' ? { account_code: 'BANK', currency: 'NGN' } : {};
    for (const format of ['csv', 'xlsx', 'pdf']) {
      const asked = { ...own, format, known_sequence: head };
      const one = await bytesOf(report, asked);
      const other = format === 'pdf' ? await bytesOf(report, asked) : one;
      expect([report, format, one.bytes.length > 100, one.bytes.equals(other.bytes)]).toEqual([report, format, true, true]);
      if (format === 'xlsx') expect(filesOfZip(one.bytes).has('xl/worksheets/sheet1.xml')).toBe(true);
      if (format === 'pdf') expect(textOfPdf(one.bytes)[0]).toContain('Page 1 of ');
      if (format === 'csv' && report === 'journal') expect(one.bytes.toString()).toContain(`,'=1+1,`);
    }
  }
});

test('refuses what does not fit, with field and tag', async () => {
  const refused = async (report: string, parameters: object) => {
    const { reason, field, tag, value } = (await refusal(bytesOf(report, parameters))) as unknown as Record<string, string>;
    return { reason, field, tag, value };
  };
  expect(await refused('account-statement', { account_code: 'NONE', currency: 'NGN' })).toMatchObject({ reason: 'account_not_found' });
  expect(await refused('general-ledger', { account_code: ['BANK', 'NONE'] })).toMatchObject({ reason: 'account_not_found' });
  expect(await refused('account-statement', { account_code: 'CASH' })).toMatchObject({
    reason: 'account_is_group',
    field: 'account_code',
    value: 'CASH',
  });
  expect(await refused('account-statement', { account_code: 'BANK' })).toMatchObject({
    reason: 'validation_failed',
    field: 'currency',
    tag: 'required',
  });
  expect(await refused('account-statement', { account_code: 'EURO', currency: 'NGN' })).toMatchObject({
    reason: 'currency_not_allowed',
    field: 'currency',
  });
  expect(await refused('account-statement', {})).toMatchObject({ reason: 'validation_failed', field: 'account_code', tag: 'required' });
  const { report } = await read('account-statement', { account_code: 'EURO' });
  expect(report).toMatchObject({ account_code: 'EURO', currency: 'EUR', opening_balance: '0.00', debits: '0.00', lines: [] });
  const { pagination } = await read('journal', { limit: 1 });
  for (const [cursor, other] of [
    ['bad', {}],
    [pagination.next_cursor, { currency: 'NGN' }],
    [pagination.next_cursor, { order: 'posted' }],
  ] as const) {
    expect(await refused('journal', { ...other, cursor })).toMatchObject({
      reason: 'validation_failed',
      field: 'cursor',
      tag: 'cursor',
      value: cursor,
    });
  }
  expect(await refused('general-ledger', { cursor: pagination.next_cursor })).toMatchObject({ field: 'cursor', tag: 'cursor' });
});

test('is refused where it has more lines than are answered at once', async () => {
  for (const [report, own] of [
    ['account-statement', { account_code: 'BANK', currency: 'NGN' }],
    ['general-ledger', {}],
    ['journal', {}],
    ['cash-flow', {}],
  ] as const) {
    const request = { report, parameters: JSON.stringify({ ...own, format: 'csv' }) };
    const made = makeNow(auditor.pool, tenant, request, { maxLines: 3, milliseconds: 60_000 });
    await expect(made).rejects.toMatchObject({ reason: 'report_too_large' });
  }
});

test('is not given out where a balance contradicts the log', async () => {
  const admin = new pg.Client({ connectionString: ledger.database.adminUrl });
  await admin.connect();
  await admin.query("update balances set debits = debits + 1 where currency = 'NGN'");
  await admin.end();
  for (const [report, own] of [
    ['account-statement', { account_code: 'BANK', currency: 'NGN' }],
    ['account-statement', { account_code: 'BANK', currency: 'NGN', order: 'posted' }],
    ['general-ledger', { account_code: ['BANK'] }],
    ['journal', {}],
    ['cash-flow', {}],
  ] as const) {
    const request = { report, parameters: JSON.stringify({ ...own, format: 'csv' }) };
    await expect(makeNow(auditor.pool, tenant, request, reportBounds)).rejects.toThrow(BrokenIdentity);
    await expect(bytesOf(report, { ...own, format: 'csv' })).rejects.toMatchObject({ code: Code.Internal });
  }
});
