// Imports of every source into a real deployment, as often as wanted, with the balances that the other program shows; and exports in again.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster } from '../../../test/cluster.ts';
import { root } from '../../../deploy/local/plan.ts';
import { bareEnvironment, currentRun } from '../../../test/run.ts';
import { sharedCluster } from '../../../test/shared-cluster.ts';
import { fromMinor, Ledger, toMinor } from '../../clients/typescript/ledger.ts';
import { exported } from '../export/command.ts';
import type { FormatName } from '../export/formats.ts';
import { linesOf } from './ndjson-stream.ts';
import { importFile, type ImportOptions, type Source } from './run.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await sharedCluster();
});

const directory = mkdtempSync(join(currentRun().directory, 'import-'));
const isInstalled = (program: string) => spawnSync(program, ['--version']).error === undefined;
const testWith = (program: string) => (isInstalled(program) ? test : test.skip);

/** A file with these lines. */
function fileOf(name: string, lines: string | string[]): string {
  const path = join(directory, name);
  writeFileSync(path, typeof lines === 'string' ? lines : lines.map((line) => `${line}\n`).join(''));
  return path;
}

/** A new tenant without accounts. */
async function newLedger(): Promise<Ledger> {
  const tenant = await cluster.tenant();
  return new Ledger({ url: cluster.url, tenant: tenant.slug, key: await cluster.apiKey(tenant) });
}

/** Debits less credits of each account and currency that is not zero, as `CODE USD` to decimals. */
async function balancesOf(ledger: Ledger): Promise<Record<string, string>> {
  interface Row {
    account_code: string;
    currency: string;
    debits: string;
    credits: string;
  }
  const found: Record<string, string> = {};
  for await (const { account_code: code, currency, debits, credits } of linesOf<Row>(await ledger.exports.balances())) {
    const minor = toMinor(debits) - toMinor(credits);
    if (minor !== 0n) found[`${code} ${currency}`] = fromMinor(minor);
  }
  return found;
}

const counts = async (ledger: Ledger, options: ImportOptions) => {
  const { posted, replayed, refused, balances, stopped } = await importFile(ledger, options);
  return { posted, replayed, refused, different: balances?.different ?? null, stopped };
};
const done = { posted: 0, replayed: 0, refused: 0, different: [], stopped: null };

describe('CSV', () => {
  const header = 'txnidx,date,description,account,debit,credit,commodity';
  const rows = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => from + index).flatMap((number) => [
      `${number + 1},2026-03-${String((number % 28) + 1).padStart(2, '0')},Sale ${number},assets:bank,${number + 1}.50,,USD`,
      `${number + 1},2026-03-${String((number % 28) + 1).padStart(2, '0')},Sale ${number},income:sales,,${number + 1}.50,USD`,
    ]);

  test('is tried, imported, and imported again without effect; what is added to the file is posted', async () => {
    const ledger = await newLedger();
    const file = fileOf('sales.csv', [header, ...rows(0, 700)]);
    const options = { source: 'csv', file, createAccounts: true } as const;
    const tried = await importFile(ledger, { ...options, dryRun: true });
    expect(tried).toMatchObject({
      transactions: 700,
      refused: 0,
      posted: 0,
      new_accounts: ['assets:bank', 'income:sales'],
      balances: null,
    });
    expect(tried.debits).toEqual([{ currency: 'USD', amount: fromMinor(700n * 701n * 50n + 700n * 50n) }]);
    expect(await counts(ledger, { ...options, createAccounts: false })).toMatchObject({
      posted: 0,
      stopped: expect.stringContaining('create'),
    });
    expect(await counts(ledger, options)).toEqual({ ...done, posted: 700 });
    expect(await counts(ledger, options)).toEqual({ ...done, replayed: 700 });
    const longer = fileOf('sales.csv', [
      header,
      ...rows(0, 3),
      '9,2026-04-01,Refund,income:sales,1.00,,USD',
      '9,2026-04-01,Refund,assets:bank,,1.00,USD',
    ]);
    expect(await counts(ledger, { ...options, file: longer })).toMatchObject({ posted: 1, replayed: 3 });
    const { account } = await ledger.accounts.get('assets:bank');
    expect(account).toMatchObject({ type: 'asset', parent_code: 'assets', is_group: false });
  });

  test('of other columns is mapped; one wrong row keeps all out, unless the rest is wanted', async () => {
    const ledger = await newLedger();
    const map = fileOf('map.csv', ['theirs,ours,type', 'Giro Köln,BANK,asset', 'Kunde *,CUST-*,liability']);
    const lines = ['Ref,Tag,Soll,Haben,Summe,W', 'A1,2026-03-01,Giro Köln,Kunde Ada,10.00,€', 'A2,2026/3/2,Giro Köln,Kunde Ben,1.005,EUR'];
    const columns = { id: 'Ref', date: 'Tag', debit_account: 'Soll', credit_account: 'Haben', amount: 'Summe', commodity: 'W' };
    const options = { source: 'csv', file: fileOf('bank.csv', lines), map, columns, createAccounts: true } as const;
    const refused = await importFile(ledger, options);
    expect(refused).toMatchObject({ posted: 0, refused: 1, refusals: [{ where: 'line 3', reason: '1.005 has more than two decimals' }] });
    expect(await counts(ledger, { ...options, skipRefused: true })).toEqual({ ...done, posted: 1, refused: 1 });
    expect(await balancesOf(ledger)).toEqual({ 'BANK EUR': '10.00', 'CUST-Ada EUR': '-10.00' });
    const { transactions } = await ledger.transactions.list({ idempotency_key: 'import-csv-A1' });
    expect(transactions).toMatchObject([{ effective_at: '2026-03-01T00:00:00.000Z' }]);
  });

  test('without balance, type, group or known currency is refused with the reason', async () => {
    const ledger = await newLedger();
    await ledger.accounts.create({ account_code: 'assets', name: 'Assets', type: 'asset', is_group: true });
    const lines = [
      'id,date,description,account,amount,commodity',
      ...['1,2026-03-01,a,expenses:x,1.00,USD', '1,2026-03-01,a,assets,-1.00,USD'],
      ...['2,2026-03-01,b,expenses:x,1.00,USD', '2,2026-03-01,b,equity:y,-0.99,USD'],
      ...['3,2026-03-01,c,expenses:x,1.00,AAPL', '3,2026-03-01,c,equity:y,-1.00,AAPL'],
      ...['4,soon,d,expenses:x,1.00,USD', '4,soon,d,equity:y,-1.00,USD'],
      ...['5,2026-03-01,e,Wallet,1.00,USD', '5,2026-03-01,e,equity:y,-1.00,USD'],
    ];
    const { refusals, posted } = await importFile(ledger, { source: 'csv', file: fileOf('wrong.csv', lines), createAccounts: true });
    expect(posted).toBe(0);
    expect(refusals.map(({ where, reason }) => `${where}: ${reason}`)).toEqual([
      'line 4: USD is 0.01 short on the credit side',
      expect.stringContaining('AAPL is no currency'),
      expect.stringContaining('"soon" is no date'),
      expect.stringContaining('assets is a group'),
      expect.stringContaining('Wallet: nothing says of which type'),
    ]);
  });
});

test('what the ledger would refuse keeps all out, before anything is posted', async () => {
  const ledger = await newLedger();
  const lines = (day: string) => [
    'id,date,account,amount,commodity',
    ...['2026-03-02', day].flatMap((date, id) => [`${id},${date},assets:a,1.00,USD`, `${id},${date},equity:b,-1.00,USD`]),
  ];
  await ledger.periods.close({ through: '2026-01-31' });
  const options = { source: 'csv', file: fileOf('closed.csv', lines('2026-01-31')), createAccounts: true } as const;
  const stopped = await importFile(ledger, options);
  expect(stopped).toMatchObject({
    posted: 0,
    refused: 1,
    stopped: expect.stringContaining('skip'),
    refusals: [{ where: 'line 4', reason: expect.stringContaining('period_closed') }],
  });
  expect(await balancesOf(ledger)).toEqual({});
  expect(await counts(ledger, { ...options, file: fileOf('open.csv', lines('2026-02-01')) })).toEqual({ ...done, posted: 2 });
});

describe('other programs', () => {
  const journal = [
    ...['account Giro  ; type:A', '', '2026-01-01 (INV1) Opening  ; order:42', '    Giro   $1,000.50', '    equity:opening', ''],
    ...[
      '2026-01-02 Coffee',
      '    expenses:food:out   EUR 5',
      '    Giro',
      '',
      '2026-01-02 Coffee',
      '    expenses:food:out   EUR 5',
      '    Giro',
    ],
  ];

  testWith('hledger')('a journal of hledger has the balances that hledger shows (hledger)', async () => {
    const ledger = await newLedger();
    const file = fileOf('books.journal', journal);
    expect(await counts(ledger, { source: 'hledger', file, createAccounts: true })).toEqual({ ...done, posted: 3 });
    const shown = spawnSync('hledger', ['-f', file, 'bal', '--flat', '-N', '-O', 'csv', '--layout', 'bare'], { encoding: 'utf8' }).stdout;
    const own = [...shown.matchAll(/^"([^"]+)","([^"]+)","([^"]+)"$/gm)].slice(1).map(([, name, commodity, amount = '']) => {
      return [`${name ?? ''} ${commodity === '$' ? 'USD' : (commodity ?? '')}`, fromMinor(toMinor(amount))];
    });
    expect(await balancesOf(ledger)).toEqual(Object.fromEntries(own));
    expect(await counts(ledger, { source: 'hledger', file: fileOf('books2.journal', journal), createAccounts: true })).toEqual({
      ...done,
      replayed: 3,
    });
    const { transactions } = await ledger.transactions.list({ reference: 'INV1' });
    expect(transactions).toMatchObject([{ metadata: { order: '42' }, description: 'Opening' }]);
  });

  testWith('hledger')('prices and virtual postings of hledger are refused (hledger)', async () => {
    const lines = ['2026-01-03 p', '    assets:shares   10 AAPL @ $5', '    assets:bank', '', '2026-01-04 v', '    (budget)  $1'];
    const { refusals } = await importFile(await newLedger(), { source: 'hledger', file: fileOf('prices.journal', lines) });
    expect(refusals.map(({ reason }) => reason)).toEqual([
      expect.stringContaining('prices such as that of AAPL'),
      expect.stringContaining('virtual postings such as (budget)'),
    ]);
  });

  testWith('bean-query')('a file of beancount has its balances (bean-query)', async () => {
    const ledger = await newLedger();
    const twice = ['2026-01-03 * "Shop" "Coffee"', '  Expenses:Food  5 EUR', '  Assets:Bank', ''];
    const open = ['Assets:Bank', 'Equity:Opening', 'Expenses:Food'].map((name) => `2026-01-01 open ${name}`);
    const start = ['2026-01-02 * "Opening"', '  Assets:Bank  1000.50 USD', '  Equity:Opening', ''];
    const file = fileOf('books.beancount', [...open, ...start, ...twice, ...twice]);
    expect(await counts(ledger, { source: 'beancount', file, createAccounts: true })).toEqual({ ...done, posted: 3 });
    expect(await counts(ledger, { source: 'beancount', file, createAccounts: true })).toEqual({ ...done, replayed: 3 });
    expect(await balancesOf(ledger)).toEqual({
      ...{ 'Assets:Bank USD': '1000.50', 'Assets:Bank EUR': '-10.00', 'Equity:Opening USD': '-1000.50', 'Expenses:Food EUR': '10.00' },
    });
  });

  test('an export of Formance: transactions, a reversal, metadata, big amounts', async () => {
    const ledger = await newLedger();
    const transaction = (id: number, source: string, destination: string, amount: string, asset = 'USD/2') =>
      `{"transaction":{"id":${id},"timestamp":"2026-02-0${id + 1}T10:00:00.123456Z","reference":"r${id}","metadata":{"k":"v"},"postings":[{"source":"${source}","destination":"${destination}","amount":${amount},"asset":"${asset}"}],"reverted":false},"accountMetadata":{"users:1":{"tier":"gold"}}}`;
    const entry = (id: number, type: string, data: string) =>
      `{"type":"${type}","data":${data},"date":"2026-02-01T10:00:00Z","idempotencyKey":"","id":${id},"hash":"aGFzaA=="}`;
    const revert = transaction(2, 'users:2', 'users:1', '250').replace('{', '{"revertedTransactionID":1,');
    const lines = [
      entry(0, 'NEW_TRANSACTION', transaction(0, 'world', 'users:1', '90071992547409931')),
      entry(1, 'NEW_TRANSACTION', transaction(1, 'users:1', 'users:2', '250')),
      entry(2, 'REVERTED_TRANSACTION', revert),
      entry(3, 'SET_METADATA', '{"targetType":"TRANSACTION","targetId":1,"metadata":{"a":"b"}}'),
    ];
    const file = fileOf('formance.ndjson', lines);
    expect(await counts(ledger, { source: 'formance', file, createAccounts: true })).toMatchObject({ refused: 1, posted: 0 });
    writeFileSync(file, lines.map((line) => `${line.replace('90071992547409931', '900719925474099')}\n`).join(''));
    const report = await importFile(ledger, { source: 'formance', file, createAccounts: true });
    expect(report).toMatchObject({
      posted: 3,
      skipped: [{ reason: 'SET_METADATA changes no balance', count: 1 }],
      balances: { equal: 3, different: [] },
    });
    expect(await counts(ledger, { source: 'formance', file })).toEqual({ ...done, replayed: 3 });
    expect(await balancesOf(ledger)).toEqual({ 'world USD': '9007199254740.99', 'users:1 USD': '-9007199254740.99' });
    expect((await ledger.accounts.get('users:1')).account).toMatchObject({
      parent_code: 'users',
      type: 'liability',
      metadata: { tier: 'gold' },
    });
    const { transactions } = await ledger.transactions.list({ idempotency_key: 'import-formance-1' });
    expect(transactions[0]).toMatchObject({ reversed_by: expect.any(String), effective_at: '2026-02-02T10:00:00.123Z' });
    const other = entry(4, 'NEW_TRANSACTION', transaction(4, 'world', 'users:1', '5', 'JPY'));
    expect((await importFile(ledger, { source: 'formance', file: fileOf('yen.ndjson', [other]) })).refusals).toEqual([
      { where: 'line 1', reason: 'JPY has a precision other than 2' },
    ]);
  });

  test('transactions of Blnk: applied ones, holds of what is inflight, and what has no effect', async () => {
    const ledger = await newLedger();
    const one = (id: string, status: string, parts: number, more: object = {}) => ({
      ...{
        transaction_id: id,
        status,
        source: '@World',
        destination: 'bln_1',
        currency: 'USD',
        amount: parts / 100,
        precise_amount: parts,
      },
      ...{
        precision: 100,
        rate: 1,
        reference: `ref-${id}`,
        description: `Deposit ${id}`,
        created_at: '2026-02-01T10:00:00.000000+01:00',
        meta_data: { n: 1 },
        ...more,
      },
    });
    const all = [
      ...[one('a', 'QUEUED', 1_000), one('b', 'APPLIED', 1_000, { parent_transaction: 'a' }), one('c', 'INFLIGHT', 500)],
      ...[
        one('d', 'APPLIED', 200, { parent_transaction: 'c' }),
        one('e', 'REJECTED', 700),
        one('f', 'VOID', 100, { parent_transaction: 'c' }),
      ],
    ];
    const file = fileOf('blnk.json', JSON.stringify(all));
    const report = await importFile(ledger, { source: 'blnk', file, createAccounts: true });
    expect(report).toMatchObject({ transactions: 2, holds: 1, posted: 3, refused: 0, balances: { equal: 2, different: [] } });
    expect(await balancesOf(ledger)).toEqual({ 'World USD': '12.00', 'bln_1 USD': '-12.00' });
    expect((await ledger.holds.list()).holds).toMatchObject([{ amount: '2.00', status: 'pending' }]);
    const csv = [
      'transaction_id,source,destination,currency,precise_amount,precision,status,created_at,meta_data',
      'g,@World,bln_1,USD,1234,1000,APPLIED,2026-02-01T10:00:00Z,',
      'h,@World,bln_1,USD,12340,1000,APPLIED,2026-02-01T10:00:00Z,"{""a"":1}"',
    ];
    const { posted, refusals } = await importFile(ledger, { source: 'blnk', file: fileOf('blnk.csv', csv), skipRefused: true });
    expect([posted, refusals[0]?.reason]).toEqual([1, '1234 of 1000 parts has more than two decimals']);
  });
});

describe('an export', () => {
  /** Postings of every kind in a wallet, with texts that formats must not change. */
  async function filled(): Promise<Ledger> {
    const ledger = await newLedger();
    await ledger.accounts.setUp({ business_type: 'wallet' });
    await ledger.accounts.create({ account_code: 'cust.1_a:x', name: 'A "customer"', type: 'liability', parent_code: 'CUSTOMER-WALLETS' });
    const entry = (account_code: string, side: 'debit' | 'credit', amount: string, currency: 'NGN' | 'USD' = 'NGN') => ({
      account_code,
      side,
      amount,
      currency,
    });
    const { transaction } = await ledger.transactions.post({
      description: 'Deposit; "quoted" (and) \\ more',
      reference: 'REF (1)',
      effective_at: '2026-01-05T10:11:12.345Z',
      entries: [
        entry('SETTLEMENT-NGN', 'debit', '100000.00'),
        entry('cust.1_a:x', 'credit', '99000.50'),
        entry('FEES-TRANSACTION', 'credit', '999.50'),
      ],
    });
    await ledger.transactions.postSingle({ ...entry('SETTLEMENT-NGN', 'debit', '5.00'), description: '=1+1' });
    const rate = { base: 'USD', quote: 'NGN', value: '1500' } as const;
    const sides = {
      debit: { account_code: 'cust.1_a:x', currency: 'NGN', amount: '1500.00' },
      credit: { account_code: 'cust.1_a:x', currency: 'USD' },
    } as const;
    await ledger.transactions.exchange({ ...sides, rate });
    await ledger.transactions.reverse(transaction.transaction_id, {
      entries: [entry('SETTLEMENT-NGN', 'credit', '10.00'), entry('FEES-TRANSACTION', 'debit', '10.00')],
    });
    return ledger;
  }

  const programs: Record<FormatName, string | undefined> = {
    csv: undefined,
    ndjson: undefined,
    hledger: 'hledger',
    beancount: 'bean-query',
  };
  for (const [format, program] of Object.entries(programs) as [FormatName & Source, string | undefined][]) {
    const here = program === undefined ? test : testWith(program);
    here(`as ${format} is imported with the same balances, times and texts`, async () => {
      const ledger = await filled();
      let text = '';
      for await (const piece of exported(ledger, format)) text += piece;
      const file = fileOf(`out.${format}`, text);
      if (format === 'beancount') expect(spawnSync('bean-check', [file], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
      const other = await newLedger();
      await other.accounts.setUp({ business_type: 'wallet' });
      const map = fileOf('types.csv', ['theirs,ours,type', 'cust.*,,liability']);
      expect(await counts(other, { source: format, file, map, createAccounts: true })).toEqual({ ...done, posted: 4 });
      expect(await balancesOf(other)).toEqual(await balancesOf(ledger));
      const [before, after] = [await ledger.transactions.list().all(), await other.transactions.list().all()];
      // hledger has no semicolon in a description.
      const texts = ({ effective_at: time, description }: { effective_at: string; description: string }) => [
        time,
        description.replace(';', ','),
      ];
      expect(after.map(texts).sort()).toEqual(before.map(texts).sort());
      expect(await counts(other, { source: format, file, map, createAccounts: true })).toEqual({ ...done, replayed: 4 });
    });
  }
});

test('as commands: results on standard output, reasons on standard error, exit codes', async () => {
  const { options } = await newLedger();
  const env = {
    ...bareEnvironment,
    PATH: '',
    LEDGER_URL: options.url,
    LEDGER_TENANT: options.tenant,
    LEDGER_API_KEY: options.key as string,
  };
  const run = (...args: string[]) => {
    const ended = spawnSync(process.execPath, ['gateway/cli/main.ts', ...args], {
      cwd: root,
      env: { ...env, LEDGER_CONFIG_DIR: directory },
      encoding: 'utf8',
    });
    return { status: ended.status, out: ended.stdout, error: ended.stderr };
  };
  const lines = ['id,date,account,amount,commodity', '1,2026-03-01,assets:cash,7.00,USD', '1,2026-03-01,equity:own,-7.00,USD'];
  const file = fileOf('own.csv', lines);
  expect(run('import', 'csv', file)).toMatchObject({ status: 1, error: expect.stringContaining('Nothing was posted: --create-accounts') });
  const { status, out } = run('import', 'csv', file, '--create-accounts', '--json');
  expect([status, JSON.parse(out)]).toEqual([0, expect.objectContaining({ posted: 1, balances: { equal: 2, different: [] } })]);
  expect(run('import', 'csv', join(directory, 'none.csv'))).toMatchObject({ status: 2, error: expect.stringContaining('none.csv') });
  expect(run('import', 'csv', file, '--columns', 'when=Date')).toMatchObject({ status: 2, error: expect.stringContaining('ours=theirs') });
  expect(run('import', 'hledger', file)).toMatchObject({ status: 2, error: expect.stringContaining('hledger is not installed') });
  const exportedText = run('export', 'csv');
  expect(exportedText).toMatchObject({ status: 0, error: '' });
  expect(exportedText.out).toContain(',assets:cash,7.00,,USD');
  expect(run('export', 'csv', '-o', join(directory, 'no', 'such'))).toMatchObject({ status: 2, error: expect.stringContaining('written') });
});
