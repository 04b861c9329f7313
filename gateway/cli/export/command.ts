// `ledger export`: transactions as CSV, NDJSON, or files of hledger and beancount.
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Argument, type Command } from 'commander';
import type { Account, Ledger, Transaction } from '../../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { linesOf } from '../import/ndjson-stream.ts';
import type { CommonOptions } from '../session.ts';
import { formats, type FormatName } from './formats.ts';

interface Options extends CommonOptions {
  output?: string;
  from?: string;
  to?: string;
}

/** Adds the command. */
export function addExport(program: Command, context: Context): void {
  const command = program
    .command('export')
    .helpGroup('Money:')
    .summary('Export transactions.')
    .description(
      'Export transactions as CSV, NDJSON, or as a file of hledger or beancount. ledger import reads each of them. Holds are left out.',
    )
    .addArgument(new Argument('<format>').choices(Object.keys(formats)))
    .option('-o, --output <file>', 'where to write; standard output by default')
    .option('--from <time>', 'only what counts from then on: a day, or a time with its offset')
    .option('--to <time>', 'only what counts until then, inclusive');
  withExamples(withCommonOptions(command), 'ledger export hledger -o books.journal', 'ledger export csv --from 2030-01-01 --to 2030-01-31');
  command.action((format: FormatName, options: Options) => run(format, options, context));
}

async function run(format: FormatName, { output: file, from, to, ...options }: Options, context: Context): Promise<void> {
  const ledger = context.session(options).tenantLedger;
  const query = { ...(from !== undefined && { effective_from: from }), ...(to !== undefined && { effective_to: to }) };
  const text = Readable.from(exported(ledger, format, query));
  if (file === undefined) return context.output(options).stream(text);
  await pipeline(text, createWriteStream(file)).catch((error: NodeJS.ErrnoException) => {
    throw error.syscall === undefined ? error : new Failure('usage', `${file} can't be written: ${error.message}`);
  });
}

/** The text of an export, piece by piece: first what comes before the transactions. */
export async function* exported(
  ledger: Ledger,
  format: FormatName,
  query: { effective_from?: string; effective_to?: string } = {},
): AsyncGenerator<string> {
  const accounts: Account[] = [];
  for await (const account of linesOf<Account>(await ledger.exports.accounts())) accounts.push(account);
  const { begin, transaction } = formats[format]();
  yield begin(accounts.filter((account) => !account.is_group));
  for await (const each of linesOf<Transaction>(await ledger.exports.transactions(query))) yield transaction(each);
}
