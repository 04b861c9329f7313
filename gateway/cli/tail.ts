// `tail`: the log as it grows.
import { Option, type Command } from 'commander';
import type { ListenOptions } from '../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import type { CommonOptions } from './session.ts';
import { accountsOf, eventLine, eventTypes } from './event-lines.ts';
import { lastSequence, onBreakOf, startOf, withStart, type StartOptions } from './follow.ts';

interface TailOptions extends CommonOptions, StartOptions {
  type?: ListenOptions['types'];
  account?: string[];
}

/** Adds the command. */
export function addTail(program: Command, context: Context): void {
  const tail = program
    .command('tail')
    .helpGroup('Events:')
    .summary('Follow the log.')
    .description('Follow the log, from now on by default. Goes on after a break. Ends with Ctrl-C.')
    .addOption(new Option('--type <types...>', 'only these; balance.updated and hold.captured come only if named').choices(eventTypes))
    .option('--account <codes...>', 'only events of these accounts');
  withExamples(
    withCommonOptions(withStart(tail)),
    'ledger tail',
    'ledger tail --since 1h --type transaction.posted --json',
    'ledger tail --account CUST-0001',
  );
  tail.action((options: TailOptions) => run(options, context));
}

async function run(options: TailOptions, context: Context): Promise<void> {
  const output = context.output(options);
  const session = context.session(options);
  const { ledger, tenant } = session;
  const after = (await startOf(ledger, options)) ?? (await lastSequence(ledger));
  const ended = context.untilInterrupted();
  output.note(`Following ${tenant} after sequence ${after}.`);
  const types = options.type && { types: options.type };
  for await (const event of ledger.events.listen({ after, signal: ended, onBreak: onBreakOf(output), ...types })) {
    if (options.account && !accountsOf(event).some((code) => options.account?.includes(code))) continue;
    if (output.format === 'table') output.text(`${eventLine(event, output)}\n`);
    else output.items([{ ...event }]);
  }
}
