// `post`: one debit, one credit, posted once; or a body of any number of entries.
import { Option, type Command } from 'commander';
import type { PostDoubleCall } from '../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import type { CommonOptions } from './session.ts';
import { Failure } from './failure.ts';
import { pair } from './options.ts';
import { textOf } from './prompt.ts';
import { newKey, objectOf } from './routes.ts';

interface PostOptions extends CommonOptions {
  file?: string;
  key?: string;
  dryRun?: boolean;
  at?: string;
  description?: string;
  reference?: string;
  metadata?: Record<string, unknown>;
}

/** Adds the command. */
export function addPost(program: Command, context: Context): void {
  const post = program
    .command('post')
    .helpGroup('Money:')
    .summary('Post a balanced transaction.')
    .description('Post a balanced transaction: an account to debit, one to credit, amount and currency; or a body with -f.')
    .usage('<debit> <credit> <amount> <currency> [options]')
    .argument('[debit]', 'code of the account that is debited')
    .argument('[credit]', 'code of the account that is credited')
    .argument('[amount]', 'decimal, such as 12.50')
    .argument('[currency]', 'such as USD')
    .option('-f, --file <file>', 'body as of `transactions post`, - for standard input; flags win')
    .option('--key <key>', 'idempotency key: the same key posts once (a new one by default)')
    .option('--dry-run', 'decide by the real rules, and post nothing')
    .option('--at <time>', 'when it counts: a day or RFC 3339 (effective_at)')
    .option('--description <text>', 'what it is')
    .option('--reference <text>', 'your own reference')
    .addOption(new Option('--metadata <key=value>', 'free-form; may be repeated').argParser(pair));
  withExamples(
    withCommonOptions(post),
    "ledger post SETTLEMENT-USD CUSTOMER-WALLETS-USD 12.50 USD --description 'Card deposit' --reference O-17",
    'ledger post SETTLEMENT-USD CUSTOMER-WALLETS-USD 12.50 USD --key deposit-42',
    'ledger post -f transaction.json --dry-run',
  );
  post.action(async (...given: unknown[]) => {
    const words = (given.slice(0, 4) as (string | undefined)[]).filter((word) => word !== undefined);
    await run(words, post.opts<PostOptions>(), context);
  });
}

async function run(words: string[], options: PostOptions, context: Context): Promise<void> {
  const body = { ...(await entriesOf(words, options, context)), ...fieldsOf(options) } as PostDoubleCall['body'];
  const output = context.output(options);
  const ledger = context.session(options).tenantLedger;
  const query: Record<string, unknown> = options.dryRun ? { dry_run: true } : {};
  const replays: string[] = [];
  query['onResponse'] = ({ headers }: Response) => replays.push(headers.get('idempotent-replayed') ?? '');
  const key = options.key ?? body.idempotency_key ?? newKey();
  const { transaction } = await context.once(key, query, () => ledger.transactions.post({ ...body, idempotency_key: key }, query));
  output.item({ ...transaction });
  if (options.dryRun) output.note('A dry run: nothing was posted.');
  else if (replays.includes('true')) output.note(`Posted before with the key ${key}.`);
}

async function entriesOf(words: string[], { file }: PostOptions, context: Context): Promise<object> {
  const [debit, credit, amount, currency] = words;
  if (file !== undefined && words.length === 0) return objectOf(await textOf(context.streams.stdin, file), file);
  if (file !== undefined || currency === undefined) {
    throw new Failure('usage', 'give <debit> <credit> <amount> <currency>, or the body with -f FILE', 'Run: ledger post --help');
  }
  const entry = (side: string, code: string | undefined) => ({ account_code: code, side, amount, currency });
  return { entries: [entry('debit', debit), entry('credit', credit)] };
}

function fieldsOf({ at, description, reference, metadata }: PostOptions): object {
  return {
    ...(at !== undefined && { effective_at: at }),
    ...(description !== undefined && { description }),
    ...(reference !== undefined && { reference }),
    ...(metadata && { metadata }),
  };
}
