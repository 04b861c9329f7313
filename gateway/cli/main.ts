// The command line `ledger`: reads arguments and environment, runs one command, and ends with its exit code.
import { homedir } from 'node:os';
import { CommanderError } from 'commander';
import { Context } from './context.ts';
import { exitCodes, report, unknownOutcome } from './failure.ts';
import { programOf } from './program.ts';

const { stdin, stdout, stderr, env } = process;
const context = new Context({ env, home: homedir(), streams: { stdin, stdout, stderr } });

let interruptedAt = 0;
process.on('SIGINT', () => {
  // npm hands on what the terminal has sent already.
  if (Date.now() - interruptedAt < 500) return;
  interruptedAt = Date.now();
  if (context.onInterrupt) return context.onInterrupt();
  if (context.openKey !== undefined) stderr.write(`${unknownOutcome(context.openKey).join('\n')}\n`);
  process.exit(130);
});
process.on('SIGTERM', () => {
  if (context.openKey !== undefined) stderr.write(`${unknownOutcome(context.openKey).join('\n')}\n`);
  process.exit(143);
});
// The reader has gone, as behind `| head`.
stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

try {
  await programOf(context).parseAsync();
} catch (error) {
  process.exitCode = endOf(error);
}

function endOf(error: unknown): number {
  // Commander has printed it.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  const { lines, exitCode } = report(error);
  stderr.write(`${lines.join('\n')}\n`);
  return exitCode;
}
