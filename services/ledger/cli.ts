// The operator's commands, as `usage` says. Run as the database's owner.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { toUuid } from '../platform/ids.ts';
import { StartFailure, errorMessage } from '../platform/lifetime.ts';
import { isTransient } from '../platform/postgres-errors.ts';
import { BadSetting, Settings } from '../platform/settings.ts';
import { parseHeads, printHeads, type KeptHeads } from './audit/kept-heads.ts';
import { discard, redrive } from './outbox/dead-letters.ts';
import { SchemaDamaged, Findings, counted, openOperator, projections } from './audit/operator.ts';
import { rebuild } from './audit/rebuild.ts';
import { verify } from './audit/verify.ts';

const usage = `usage: verify [--tenant ID]             walk logs and books, print what differs
       verify --heads FILE             the same, and hold the logs against what \`heads\` has printed
       heads [--tenant ID]             print sequence and hash of each log's last event, to be kept elsewhere
       rebuild [--tenant ID] --check   derive every projection from the log and compare
       rebuild [--tenant ID]           derive every projection from the log and replace it
       redrive [--tenant ID]           have the events that were refused published again
       discard [--tenant ID]           forget the events that were refused: they stay in the log, and are not published`;

/** Ends the process with one line of reason. */
class Stop extends Error {}

/** Whether the command does its work before it tells of it. */
let isDoneFirst = false;

async function main(): Promise<boolean> {
  const { command, tenant, check, heads } = readArguments();
  isDoneFirst = command === 'redrive' || command === 'discard';
  const url = new Settings(process.env).databaseUrl('MIGRATION_DATABASE_URL');
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const client = await openOperator(url);
  try {
    if (command === 'verify') {
      const { tenants, events, transactions, findings, heads: held } = await verify(client, { only: tenant, heads }, say);
      const seen = [counted(tenants, 'tenant'), counted(events, 'event'), counted(transactions, 'transaction')];
      if (heads) seen.push(counted(held, 'kept head'));
      say(`${seen.join(', ')} verified: ${verdict(findings)}`);
      return findings === 0;
    }
    if (command === 'heads') {
      const findings = new Findings((line) => process.stderr.write(`${line}\n`));
      await printHeads(client, await projections(client), { only: tenant, findings }, say);
      return findings.count === 0;
    }
    if (command === 'redrive') {
      const due = await redrive(client, tenant, say);
      say(`${counted(due, 'dead letter')} due: the ledger that runs publishes ${due === 1 ? 'it' : 'them'}`);
      return true;
    }
    if (command === 'discard') {
      say(`${counted(await discard(client, tenant, say), 'dead letter')} discarded`);
      return true;
    }
    const { tenants, events, findings, repaired } = await rebuild(client, { tenant, check }, say);
    const outcome = repaired === 0 ? verdict(findings) : `${counted(repaired, 'tenant')} repaired, ${verdict(findings)}`;
    say(`${counted(tenants, 'tenant')} ${check ? 'derived' : 'rebuilt'} from ${counted(events, 'event')}: ${outcome}`);
    return findings === 0;
  } finally {
    await client.end();
  }
}

const commands = ['verify', 'heads', 'rebuild', 'redrive', 'discard'] as const;
type Command = (typeof commands)[number];

function isCommand(word: string | undefined): word is Command {
  return commands.some((command) => command === word);
}

function verdict(findings: number): string {
  return findings === 0 ? 'nothing differs' : counted(findings, 'difference');
}

function readArguments(): { command: Command; tenant: string | undefined; check: boolean; heads: KeptHeads | undefined } {
  let parsed;
  try {
    const yes = { type: 'boolean', default: false } as const;
    const text = { type: 'string' } as const;
    parsed = parseArgs({ allowPositionals: true, options: { tenant: text, heads: text, check: yes, help: { ...yes, short: 'h' } } });
  } catch (error) {
    throw new Stop(`${(error as Error).message}\n${usage}`);
  }
  const [command, ...more] = parsed.positionals;
  const { tenant: id, check, help, heads: file } = parsed.values;
  if (help) {
    process.stdout.write(`${usage}\n`);
    process.exit();
  }
  if (!isCommand(command) || more.length > 0 || (command !== 'rebuild' && check) || (command !== 'verify' && file !== undefined)) {
    throw new Stop(usage);
  }
  const tenant = id === undefined ? undefined : toUuid('tenant', id);
  if (tenant === null) throw new Stop(`--tenant ${String(id)} is not a tenant's id`);
  return { command, tenant, check, heads: file === undefined ? undefined : headsIn(file) };
}

function headsIn(file: string): KeptHeads {
  try {
    return parseHeads(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Stop(`--heads ${file}: ${(error as Error).message}`);
  }
}

// As the first process of a container it would otherwise get neither. What is under way is rolled back.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
// Nobody reads the lines any more, as behind `| head`: what is under way is rolled back.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  const hasLeft = error.code === 'EPIPE';
  if (!hasLeft) process.stderr.write(`${isDoneFirst ? 'it is done, but ' : ''}the lines can't be written: ${error.message}\n`);
  process.exit(hasLeft && isDoneFirst ? 0 : 1);
});
try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  const known =
    [Stop, BadSetting, StartFailure, SchemaDamaged].some((each) => error instanceof each) ||
    isTransient(error) ||
    typeof (error as { code?: unknown }).code === 'string';
  process.stderr.write(`${known ? errorMessage(error) : ((error as Error).stack ?? String(error))}\n`);
  process.exitCode = 1;
}
