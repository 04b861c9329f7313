// An import from beginning to end: read, map, check, try or post, compare balances, report.
import { fromMinor, toMinor, type Ledger } from '../../clients/typescript/ledger.ts';
import { Failure } from '../failure.ts';
import { AccountMap, readMap } from './accounts.ts';
import { readBeancount } from './beancount.ts';
import { readBlnk } from './blnk.ts';
import { Importer, type Refusal } from './check.ts';
import { readCsv } from './csv.ts';
import { checkText } from './file.ts';
import { readFormance } from './formance.ts';
import { readHledger } from './hledger.ts';
import { createAccounts, isAccountType, plannedAccounts, type Existing, type NewTarget } from './new-accounts.ts';
import { linesOf } from './ndjson-stream.ts';
import { readNdjson } from './ndjson.ts';
import { BatchPoster } from './post.ts';
import { Unreadable, type Reader, type Unit } from './unit.ts';

const readers = {
  csv: readCsv,
  hledger: readHledger,
  beancount: readBeancount,
  formance: readFormance,
  blnk: readBlnk,
  ndjson: readNdjson,
} satisfies Record<string, Reader>;

/** What files come from. */
export type Source = keyof typeof readers;
export const sources = Object.keys(readers) as Source[];

/** What to import, and how. */
export interface ImportOptions {
  source: Source;
  file: string;
  /** CSV with the columns theirs, ours, type. */
  map?: string;
  columns?: Record<string, string>;
  /** Begins the keys in place of the source, to tell two ledgers of one source apart. */
  name?: string;
  dryRun?: boolean;
  createAccounts?: boolean;
  /** Posts the rest where something is refused. */
  skipRefused?: boolean;
}

/** A balance that is not what the file says. */
export interface Difference {
  account_code: string;
  currency: string;
  file: string;
  ledger: string;
}

/** What an import did, or would do. */
export interface ImportReport {
  source: Source;
  dry_run: boolean;
  /** Why nothing was posted. */
  stopped: string | null;
  transactions: number;
  holds: number;
  posted: number;
  replayed: number;
  refused: number;
  /** The first ten. */
  refusals: Refusal[];
  skipped: { reason: string; count: number }[];
  debits: { currency: string; amount: string }[];
  /** Codes that the ledger has not, or had not before. */
  new_accounts: string[];
  /** Credits less debits; null where nothing was posted. */
  balances: { equal: number; different: Difference[] } | null;
}

/** Takes the number of items that are done, and of all. */
export type Progress = (done: number, total: number) => void;

/** Imports a file. Where something is refused, by this program or by a dry run, nothing is posted, unless the options say otherwise. */
export async function importFile(ledger: Ledger, options: ImportOptions, progress: Progress = () => undefined): Promise<ImportReport> {
  const { source, file, dryRun = false } = options;
  await checkText(file);
  const accounts = new AccountMap(options.map === undefined ? [] : readMap(options.map), (name) => usualType(source, name));
  const checked = new Importer(accounts, options.name ?? source);
  const read = () => unitsOf(options);
  for await (const unit of read()) checked.itemOf(unit);
  const existing = await accountsOf(ledger);
  const missing = accounts.targets.filter(({ code }) => !existing.has(code));
  checkAccounts(checked, accounts, existing, missing);
  const report = reportOf(
    checked,
    options,
    missing.map(({ code }) => code),
  );
  if (missing.length > 0 && options.createAccounts !== true)
    report.stopped = '--create-accounts would create the accounts that are missing';
  if (checked.counts.refused > 0 && options.skipRefused !== true) report.stopped = skipHint;
  if (report.stopped !== null && !dryRun) return report;
  if (!dryRun) await createAccounts(ledger, plannedAccounts(missing.filter(isNew), existing, checked.metadata));
  const post = (isTried: boolean) => {
    const second = new Importer(accounts, options.name ?? source);
    return postAll({ ledger, report, progress, dryRun: isTried }, checked, second, read());
  };
  // A dry run can't try what needs new accounts.
  if (dryRun) return missing.length > 0 ? report : post(true);
  // The ledger refuses for reasons that no file shows, such as closed periods: all of them are better known before the first posting.
  if (options.skipRefused !== true && (await post(true)).refused > 0) return { ...report, stopped: skipHint };
  await post(false);
  report.balances = await compared(ledger, checked.balances);
  return report;
}

/** What is in the file, where its form is right. */
async function* unitsOf({ source, file, columns }: ImportOptions): AsyncGenerator<Unit> {
  try {
    yield* readers[source](file, columns ? { columns } : {});
  } catch (error) {
    const isOfForm =
      error instanceof Unreadable || error instanceof SyntaxError || String((error as { code?: unknown }).code).startsWith('CSV_');
    throw isOfForm ? new Failure('refused', `${file}: ${(error as Error).message}`) : error;
  }
}

const skipHint = '--skip-refused would post the rest';
const isNew = (target: { type: string | undefined }): target is NewTarget => isAccountType(target.type);

/** The type of an account that neither map nor file gives. */
function usualType(source: Source, name: string): 'asset' | 'liability' | undefined {
  if (source === 'formance') return name === 'world' ? 'asset' : 'liability';
  if (source === 'blnk') return name.startsWith('@') ? 'asset' : 'liability';
  return undefined;
}

async function accountsOf(ledger: Ledger): Promise<Map<string, Existing>> {
  const found = new Map<string, Existing>();
  for await (const { account_code: code, ...account } of linesOf<Existing & { account_code: string }>(await ledger.exports.accounts()))
    found.set(code, account);
  return found;
}

function checkAccounts(
  checked: Importer,
  accounts: AccountMap,
  existing: Map<string, Existing>,
  missing: { code: string; type: string | undefined }[],
) {
  for (const { code, name } of accounts.targets) {
    const account = existing.get(code);
    if (account?.is_group === true) checked.refuse(name, `${code} is a group, which takes no postings: name another account in --map`);
    if (account?.status === 'closed') checked.refuse(name, `${code} is closed`);
  }
  for (const { code, type } of missing)
    if (type === undefined) checked.refuse(code, 'nothing says of which type this account is: give it in --map');
}

function reportOf(
  { counts, refusals, skipped, sums }: Importer,
  { source, dryRun = false }: ImportOptions,
  missing: string[],
): ImportReport {
  return {
    source,
    dry_run: dryRun,
    stopped: null,
    transactions: counts.postings + counts.reversals,
    holds: counts.holds,
    posted: 0,
    replayed: 0,
    refused: counts.refused,
    refusals,
    skipped: [...skipped].map(([reason, count]) => ({ reason, count })),
    debits: [...sums].sort().map(([currency, minor]) => ({ currency, amount: fromMinor(minor) })),
    new_accounts: missing,
    balances: null,
  };
}

async function postAll(
  { ledger, report, progress, dryRun }: { ledger: Ledger; report: ImportReport; progress: Progress; dryRun: boolean },
  checked: Importer,
  second: Importer,
  units: ReturnType<Reader>,
): Promise<ImportReport> {
  const total = report.transactions + report.holds;
  let done = 0;
  const poster = new BatchPoster(ledger, {
    dryRun,
    reversed: checked.reversed,
    hooks: {
      done: (count) => progress((done += count), total),
      refused: (where, reason, code) => {
        // A dry run of a batch does not see the money that batches before it bring in.
        if (dryRun && code === 'insufficient_funds') return;
        report.refused += 1;
        if (report.refusals.length < 10) report.refusals.push({ where, reason });
      },
    },
  });
  for await (const unit of units) {
    const placed = second.itemOf(unit);
    if (placed) await poster.add(placed);
  }
  await poster.flush();
  if (!dryRun || report.dry_run) [report.posted, report.replayed] = [poster.posted, poster.replayed];
  return report;
}

async function compared(ledger: Ledger, wanted: ReadonlyMap<string, bigint>): Promise<ImportReport['balances']> {
  const found = new Map<string, bigint>();
  interface Row {
    account_code: string;
    currency: string;
    debits: string;
    credits: string;
  }
  for await (const { account_code: code, currency, debits, credits } of linesOf<Row>(await ledger.exports.balances()))
    found.set(`${code} ${currency}`, toMinor(credits) - toMinor(debits));
  const different = [...wanted].flatMap(([name, minor]): Difference[] => {
    const actual = found.get(name) ?? 0n;
    const [account_code = '', currency = ''] = name.split(' ');
    return actual === minor ? [] : [{ account_code, currency, file: fromMinor(minor), ledger: fromMinor(actual) }];
  });
  return { equal: wanted.size - different.length, different };
}
