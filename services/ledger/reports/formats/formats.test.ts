// CSV, XLSX and PDF of reports: what stands in them, that spreadsheets run nothing, and that the same report has the same bytes.
import { describe, expect, test } from '@jest/globals';
import { filesOfZip, textOfPdf } from '../../../../test/report-files.ts';
import type { AccountsReport, Amounts, JournalReport, Parameters, ReportLine, Statement, StatementsReport } from '../report.ts';
import { csvOf } from './csv.ts';
import { pdfOf } from './pdf.ts';
import { tableOf } from './tables.ts';
import { xlsxOf } from './xlsx.ts';

const parameters: Parameters = {
  ...{ report: 'trial-balance', time: 'between', fromMs: Date.parse('2025-12-31T23:00:00Z'), toMs: Date.parse('2026-06-30T22:59:59.999Z') },
  ...{ currency: null, knownSequence: 4821n, closing: 'include', depth: 32, zero: false, columns: 'total', compare: 'none', count: 1 },
  ...{ groupBy: null, format: 'csv', order: 'effective', accountCodes: [], limit: null, cursor: '' },
};
const heading = {
  asRecorded: { sequence: 4821n, hash: Buffer.alloc(32, 0xa7), atMs: Date.parse('2026-07-03T10:15:30.123Z'), frozen: false },
  timeZone: 'Africa/Lagos',
};
const column = { key: '2026-06-30', fromMs: 0, toMs: 0 };

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

function line(accountCode: string, name: string, values: Amounts[], more: Partial<ReportLine> = {}): ReportLine {
  const own = { accountCode, name, type: 'asset', parentCode: null, depth: 1, isGroup: false, folded: false, computed: false };
  return { ...own, section: null, group: null, currency: 'NGN', values, ...more };
}

function accounts(lines: ReportLine[], more: Partial<AccountsReport> = {}): AccountsReport {
  return { ...heading, kind: 'accounts', parameters, columns: [column], amounts: ['opening', 'closing'], lines, totals: [], ...more };
}

const awkward = accounts(
  [
    line('ASSETS', 'Assets', [{ opening: 0n, closing: -500n }], { isGroup: true }),
    line('@BANK', '=1+1', [{ opening: 0n, closing: -500n }], { parentCode: 'ASSETS', depth: 2 }),
    line('+TILL', '-cmd, "quoted"\nand more', [{ opening: 1n, closing: 10n ** 16n }], { parentCode: 'ASSETS', depth: 2 }),
  ],
  { totals: [{ currency: 'NGN', section: null, values: [{ opening: 0n, closing: 0n }] }] },
);

/** Pages of statements with this many lines. */
function ledger(counts: number[]): StatementsReport {
  const statements = counts.map((count, index): Statement => ({
    ...{ accountCode: `BANK-${index}`, name: 'Zenith Bank', type: 'asset', currency: 'NGN' },
    ...{ openingBalance: 100_000n, closingBalance: 100_000n + BigInt(count), debits: BigInt(count), credits: 0n },
    lines: Array.from({ length: count }, (_, at) => ({
      ...{ transactionId: 'txn_1', sequence: BigInt(at + 1), effectiveMs: parameters.toMs, createdMs: parameters.toMs + 1 },
      ...{ description: `Transfer ${at}`, reference: 'INV-1', side: 'debit' as const, amount: 1n, runningBalance: 100_001n + BigInt(at) },
    })),
  }));
  return { ...heading, kind: 'statements', parameters: { ...parameters, report: 'general-ledger' }, statements, nextCursor: () => '' };
}

const journal: JournalReport = {
  ...heading,
  kind: 'journal',
  parameters: { ...parameters, report: 'journal' },
  lines: [
    {
      ...{
        transactionId: 'txn_1',
        sequence: 7n,
        effectiveMs: parameters.toMs,
        createdMs: parameters.toMs,
        kind: 'double',
        description: 'Salary',
      },
      reference: null,
      entries: [
        { accountCode: 'SALARIES', name: 'Salaries', side: 'debit', amount: 500n, currency: 'NGN' },
        { accountCode: 'BANK', name: 'Bank', side: 'credit', amount: 500n, currency: 'NGN' },
      ],
    },
  ],
  nextCursor: () => '',
};

describe('CSV', () => {
  test('a row per line, names of JSON as header; text is no formula, amounts stay numbers', async () => {
    const head =
      'account_code,name,type,parent_code,depth,is_group,folded,computed,section,group,currency,2026-06-30.opening,2026-06-30.closing';
    expect((await collected(csvOf(tableOf(awkward)))).toString()).toBe(
      `${[
        head,
        'ASSETS,Assets,asset,,1,true,false,false,,,NGN,0.00,-5.00',
        `'@BANK,'=1+1,asset,ASSETS,2,false,false,false,,,NGN,0.00,-5.00`,
        `'+TILL,"'-cmd, ""quoted""\nand more",asset,ASSETS,2,false,false,false,,,NGN,0.01,100000000000000.00`,
      ].join('\r\n')}\r\n`,
    );
  });

  test('a statement has a row per entry, the journal as well', async () => {
    const statement = await collected(csvOf(tableOf(ledger([1]))));
    expect(statement.toString().split('\r\n')).toEqual([
      'account_code,currency,transaction_id,sequence,effective_at,created_at,description,reference,side,amount,running_balance',
      'BANK-0,NGN,txn_1,1,2026-06-30T22:59:59.999Z,2026-06-30T23:00:00.000Z,Transfer 0,INV-1,debit,0.01,1000.01',
      '',
    ]);
    const rows = (await collected(csvOf(tableOf(journal)))).toString().split('\r\n');
    expect(rows[0]).toBe(
      'transaction_id,sequence,effective_at,created_at,kind,description,reference,account_code,name,side,amount,currency',
    );
    expect(rows.slice(1, 3).map((row) => row.split(',').slice(7).join())).toEqual([
      'SALARIES,Salaries,debit,5.00,NGN',
      'BANK,Bank,credit,5.00,NGN',
    ]);
  });
});

describe('XLSX', () => {
  test('amounts are numbers to 15 digits and texts beyond, text is no formula, twice the same bytes', async () => {
    const [one, other] = [await xlsxOf(tableOf(awkward)), await xlsxOf(tableOf(awkward))];
    expect(one.equals(other)).toBe(true);
    // Not even the time of now, which changes every other second.
    expect(one.readUInt32LE(10)).toBe(0x0021_0000);
    const files = filesOfZip(one);
    const sheet = files.get('xl/worksheets/sheet1.xml') as string;
    const texts = Array.from((files.get('xl/sharedStrings.xml') as string).matchAll(/<t[^>]*>(.*?)<\/t>/gs), ([, text]) => text);
    const cell = (name: string) => new RegExp(`<c r="${name}"([^>]*)>(.*?)</c>`).exec(sheet) ?? ['', '', ''];
    expect(cell('M3')[2]).toBe('<v>-5</v>');
    expect(cell('M3')[1]).not.toContain('t="s"');
    const textOf = (name: string) => texts[Number(/<v>(\d+)</.exec(cell(name)[2])?.[1])];
    expect([textOf('B3'), textOf('M4')]).toEqual(['=1+1', '100000000000000.00']);
    expect(sheet).not.toContain('<f>');
    expect(texts).toEqual(expect.arrayContaining(['Total', '4821', 'a7'.repeat(32), '2026-01-01 to 2026-06-30']));
  });

  test('texts may be names that every object has', async () => {
    const report = accounts([line('constructor', '__proto__', [{ opening: 0n, closing: 1n }], { group: 'toString' })]);
    const files = filesOfZip(await xlsxOf({ ...tableOf(report), facts: [['Account', 'valueOf']] }));
    for (const text of ['constructor', '__proto__', 'toString', 'valueOf'])
      expect(files.get('xl/sharedStrings.xml')).toContain(`<t>${text}</t>`);
    expect([...files.values()].join('')).not.toMatch(/native code|object Object/);
  });
});

test('XLSX of more than 50,000 rows is refused', async () => {
  const table = {
    ...tableOf(awkward),
    columns: [],
    rows: () => Array.from({ length: 50_001 }, () => ({ kind: 'line' as const, cells: [], depth: 0 })),
  };
  await expect(xlsxOf(table)).rejects.toMatchObject({ reason: 'report_too_large', blame: { field: 'format', value: 'xlsx' } });
});

describe('PDF', () => {
  test('title, period, state of the log, and the header on each page; twice the same bytes', async () => {
    const [one, other] = [await collected(pdfOf(tableOf(ledger([150, 3])))), await collected(pdfOf(tableOf(ledger([150, 3]))))];
    expect(one.equals(other)).toBe(true);
    expect(one.toString('latin1')).toContain('(D:20260703101530Z)');
    const pages = textOfPdf(one);
    expect(pages.length).toBeGreaterThan(2);
    expect(pages[0]?.slice(0, 2)).toEqual(['General ledger', '2026-01-01 to 2026-06-30']);
    pages.forEach((texts, index) => {
      expect(texts).toEqual(expect.arrayContaining(['Date', 'No.', 'Description', 'Debit', 'Credit', 'Balance', `Page ${index + 1} of `]));
      expect(texts).toContain(`Sequence 4821 · 2026-07-03T10:15:30.123Z · SHA-256 ${'a7'.repeat(32)}`);
    });
    expect(pages[1]).toContain('BANK-0 · Zenith Bank · NGN (continued)');
    expect(pages.flat().filter((text) => text.startsWith('Transfer '))).toHaveLength(153);
    expect(pages.at(-1)).toEqual(
      expect.arrayContaining(['BANK-1 · Zenith Bank · NGN', 'Opening balance', '1,000.00', 'Closing balance', '1,000.03']),
    );
  });

  test('many columns go side by side on further pages, with the accounts on each', async () => {
    const columns = ['2026-04-30', '2026-05-31', '2026-06-30'].map((key) => ({ ...column, key }));
    const amounts = ['opening', 'debits', 'credits', 'closing', 'debit', 'credit'];
    const values = columns.map((_, at) => Object.fromEntries(amounts.map((name) => [name, BigInt(at + 1) * 100n])));
    const pages = textOfPdf(await collected(pdfOf(tableOf(accounts([line('BANK', 'Zenith Bank', values)], { columns, amounts })))));
    expect(pages).toHaveLength(3);
    pages.forEach((texts, at) => {
      expect(texts).toEqual(expect.arrayContaining(['BANK', 'Zenith Bank', columns[at]?.key, 'Opening', 'Credit', `${at + 1}.00`]));
    });
  });

  test('no heading ends a page, none is continued where nothing of it is left, and codes of templates are whole', async () => {
    const values = [{ amount: 1n }];
    for (let count = 51; count < 54; count++) {
      const own = Array.from({ length: count }, (_, at) => line(`N-${at}`, 'Sales', values, { section: 'revenue' }));
      const other = line('RETAINED-EARNINGS', 'Of dollars', values, { section: 'revenue', currency: 'USD' });
      const more = { parameters: { ...parameters, report: 'income-statement' as const }, amounts: ['amount'] };
      const pages = textOfPdf(await collected(pdfOf(tableOf(accounts([...own, other], more)))));
      const page = pages.find((texts) => texts.includes('USD'));
      expect(page).toContain('RETAINED-EARNINGS');
      if (page?.some((text) => text.endsWith('(continued)'))) expect(page.some((text) => text.startsWith('N-'))).toBe(true);
    }
  });

  test('every script of the fonts, and a sign where there is none', async () => {
    const name = 'Ọjà ₦ đồng Привет Ελλάδα नमस्ते 日';
    const texts = textOfPdf(await collected(pdfOf(tableOf(accounts([line('BANK', name, [{ opening: 0n, closing: 0n }])]))))).flat();
    for (const each of ['Ọ', '₦', 'đ', 'Привет', 'Ελλάδα', '\ufffd']) expect(texts.join(' ')).toContain(each);
    expect(texts.some((text) => text.includes('न'))).toBe(true);
  });
});
