// `ledger import`: transactions of other ledgers, with their accounts, dates and ids.
import { Argument, InvalidArgumentError, type Command } from 'commander';
import { Presets, SingleBar } from 'cli-progress';
import { withCommonOptions, withExamples, type Context } from '../context.ts';
import { Failure } from '../failure.ts';
import type { Output } from '../output.ts';
import type { CommonOptions } from '../session.ts';
import { columnNames } from './csv.ts';
import { importFile, sources, type ImportReport, type Source } from './run.ts';

interface Options extends CommonOptions {
  map?: string;
  columns?: Record<string, string>;
  name?: string;
  dryRun?: boolean;
  createAccounts?: boolean;
  skipRefused?: boolean;
}

/** Adds the command. */
export function addImport(program: Command, context: Context): void {
  const command = program
    .command('import')
    .helpGroup('Money:')
    .summary('Import transactions of another ledger.')
    .description(
      [
        'Import transactions of another ledger: CSV, a journal of hledger, a file of beancount, an export of Formance (NDJSON), transactions of Blnk (JSON or CSV), or what ledger export has written.',
        'First the whole file is checked and tried: where something of it would be refused, nothing is posted. The money that it brings in itself is not counted then. Run again, the same command posts nothing twice: keys come from the ids of the file, or from the content of each transaction.',
      ].join('\n\n'),
    )
    .addArgument(new Argument('<source>', 'what the file comes from').choices(sources))
    .argument('<file>')
    .option('--map <file>', 'CSV with the columns theirs, ours, type: other codes, and types of new accounts; theirs may end with *')
    .option('--columns <ours=theirs,...>', `of CSV: names of its columns for ${columnNames.join(', ')}`, columns)
    .option('--create-accounts', 'create the accounts that are missing')
    .option('--dry-run', 'post nothing: show what would be posted, and what would be refused')
    .option('--skip-refused', 'post the rest where something is refused')
    .option('--name <name>', 'begins the keys in place of the source, for a second file with the same ids');
  withExamples(
    withCommonOptions(command),
    'ledger import hledger books.journal --create-accounts --dry-run',
    'ledger import csv bank.csv --columns id=Ref,date=Booked,account=Account,amount=Sum,commodity=Currency --map map.csv',
    'ledger import formance export.ndjson --create-accounts',
  );
  command.action((source: Source, file: string, options: Options) => run(source, file, options, context));
}

function columns(text: string): Record<string, string> {
  const pairs = text.split(',').map((each): [string, string] => {
    const at = each.indexOf('=');
    const ours = each.slice(0, at).trim();
    if (at < 1 || !(columnNames as readonly string[]).includes(ours))
      throw new InvalidArgumentError(`It must be ours=theirs, where ours is one of ${columnNames.join(', ')}.`);
    return [ours, each.slice(at + 1).trim()];
  });
  return Object.fromEntries(pairs);
}

async function run(source: Source, file: string, options: Options, context: Context): Promise<void> {
  const output = context.output(options);
  const ledger = context.session(options).tenantLedger;
  const { map, columns: named, name, dryRun = false, createAccounts = false, skipRefused = false } = options;
  const { stderr } = context.streams;
  const bar = new SingleBar({ stream: stderr, format: '{value} of {total} [{bar}] {eta_formatted}', hideCursor: true }, Presets.legacy);
  const given = { ...(map !== undefined && { map }), ...(named && { columns: named }), ...(name !== undefined && { name }) };
  let report: ImportReport;
  try {
    report = await importFile(ledger, { source, file, ...given, dryRun, createAccounts, skipRefused }, (done, total) => {
      if (!stderr.isTTY) return;
      if (!bar.isActive) bar.start(total, 0);
      bar.update(done);
    });
  } finally {
    bar.stop();
  }
  print(report, output);
  if (report.stopped !== null)
    throw new Failure('refused', dryRun ? `An import would post nothing: ${report.stopped}.` : `Nothing was posted: ${report.stopped}.`);
  if (report.refused > 0 && !skipRefused) throw new Failure('refused', `${report.refused} refused`);
}

function print(report: ImportReport, output: Output): void {
  if (output.format !== 'table') return output.item({ ...report });
  const { refusals, skipped, debits, new_accounts: accounts, balances, ...counts } = report;
  output.item({
    ...counts,
    debits: debits.map(({ currency, amount }) => `${currency} ${amount}`).join(', '),
    new_accounts: `${accounts.length}${accounts.length === 0 ? '' : `: ${accounts.slice(0, 10).join(', ')}${accounts.length > 10 ? ' …' : ''}`}`,
    skipped: skipped.map(({ reason, count }) => `${count}: ${reason}`).join('; '),
    ...(balances && { balances: `${balances.equal} equal, ${balances.different.length} different` }),
  });
  for (const { where, reason } of refusals) output.note(`${where}: ${reason}`);
  for (const { account_code: code, currency, file, ledger } of balances?.different.slice(0, 10) ?? [])
    output.note(`${code}: the file has ${currency} ${file}, the ledger ${ledger} (credits less debits; it may have other postings)`);
}
