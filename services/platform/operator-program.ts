// What the operator's commands of all services share: arguments, help, lines or JSON, progress, exit statuses.
import { Presets, SingleBar } from 'cli-progress';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { toUuid } from './ids.ts';
import { StartFailure, errorMessage } from './lifetime.ts';
import { isTransient } from './postgres-errors.ts';
import { BadSetting } from './settings.ts';
import { version } from './version.ts';

/** Exit statuses, as the page on the commands lists them. */
export const exitStatus = { fine: 0, wrong: 1, usage: 2, failed: 3 } as const;

/** Arguments that can't be used; the message names the one. */
export class BadArgument extends Error {}

/** What a line says, for programs: `type` is the kind of line. */
export type Item = { type: string } & Record<string, unknown>;

/** Where a command's lines go: text, or with `--json` an object a line. */
export class Output {
  readonly isJson: boolean;
  private bar: SingleBar | undefined;

  constructor(isJson: boolean) {
    this.isJson = isJson;
  }

  /** Prints a line to standard output; with `aside` its text goes to standard error, so that the output can be stored. */
  print(item: Item, text: string, { aside = false } = {}): void {
    this.clearBar();
    if (this.isJson) process.stdout.write(`${JSON.stringify(item)}\n`);
    else process[aside ? 'stderr' : 'stdout'].write(`${text}\n`);
  }

  /** Whether progress is shown. */
  get isOnTerminal(): boolean {
    return process.stderr.isTTY;
  }

  /** Shows on a terminal how much is done until {@link endProgress}. `total` may grow while the work is under way. */
  progress(done: number, total: number, unit: string): void {
    if (!this.isOnTerminal) return;
    if (!this.bar) {
      const format = `{percentage} % [{bar}] {value} of {total} ${unit}, {eta_formatted} left`;
      this.bar = new SingleBar({ stream: process.stderr, format, hideCursor: true, clearOnComplete: true }, Presets.legacy);
      this.bar.start(total, done);
    }
    this.bar.setTotal(Math.max(total, done));
    this.bar.update(done);
  }

  /** Removes the bar. */
  endProgress(): void {
    this.bar?.stop();
    this.bar = undefined;
  }

  // The next update draws it again.
  private clearBar(): void {
    if (this.bar) process.stderr.write('\r\u001b[2K');
  }
}

/** The program of a service's commands. Its errors are thrown, never an end of the process. */
export function operatorProgram(name: string, description: string): Command {
  return new Command(name)
    .version(version, '--version', 'show the version')
    .description(description)
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .exitOverride()
    .showHelpAfterError('Run it with --help to see what it takes.')
    .addHelpText(
      'after',
      `
Every command takes --json: an object a line, each with its type; the last is the summary.
Exit statuses: 0 done, and nothing is wrong; 1 something is wrong; 2 wrong arguments; 3 it could not be done, or was interrupted.`,
    );
}

/** Adds a command with its help and `--json`. `name` has the arguments, as commander writes them. */
export function addCommand(parent: Command, name: string, { description, examples }: { description: string; examples: string[] }): Command {
  const shown = examples.map((example) => `  $ ${example}`).join('\n');
  return parent
    .command(name)
    .summary(description.split(/(?<=[.:]) /)[0] ?? '')
    .description(description)
    .option('--json', 'print an object a line')
    .addHelpText('after', `\nExamples:\n${shown}`);
}

/** Parses a tenant's id to its UUID. */
export function tenantArgument(text: string): string {
  const uuid = toUuid('tenant', text);
  if (uuid === null) throw new InvalidArgumentError("It is not a tenant's id, such as tenant_01jd1zq5v8e6n9w2k4m7p3r5t8.");
  return uuid;
}

/** Parses a whole number from 1 on. */
export function countArgument(text: string): number {
  if (!/^[1-9][0-9]{0,14}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1 on.');
  return Number(text);
}

/** Parses a time with its zone to milliseconds since the Unix epoch. */
export function timeArgument(text: string): number {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/.test(text);
  const ms = isTime ? Date.parse(text) : NaN;
  if (Number.isNaN(ms)) throw new InvalidArgumentError('It must be a time such as 2030-01-31T12:00:00Z.');
  return ms;
}

/** How a program ends early. */
export interface Interruption {
  /** Called by the first signal: the command ends by itself, soon. Without it the process ends at once. */
  interrupt?: (() => void) | undefined;
  /** Whether to go on when nobody reads the lines, because the work is what counts. */
  needsNoReader?: boolean;
}

/** Runs the command that the arguments name, and sets the exit status. */
export async function runProgram(program: Command, interruption: Interruption = {}): Promise<void> {
  const interrupted = new AbortController();
  // Node's defaults do not apply to a container's first process. Open transactions are rolled back.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (interrupted.signal.aborted || !interruption.interrupt) process.exit(exitStatus.failed);
      interrupted.abort();
      interruption.interrupt();
    });
  }
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    const isReaderGone = error.code === 'EPIPE';
    if (isReaderGone && interruption.needsNoReader === true) return;
    if (!isReaderGone) process.stderr.write(`the lines can't be written: ${error.message}\n`);
    process.exit(exitStatus.failed);
  });
  try {
    await program.parseAsync();
    if (interrupted.signal.aborted) process.exitCode = exitStatus.failed;
  } catch (error) {
    process.exitCode = statusOf(error);
  }
}

/** What a command was given. */
export interface Given<Options> {
  options: Options;
  /** The words after the command's name. */
  operands: string[];
  output: Output;
}

/** Sets what a command does; `work` answers whether nothing is wrong. */
export function setAction<Options>(command: Command, work: (given: Given<Options>) => Promise<boolean>): void {
  command.action(async () => {
    const options = command.opts<Options & { json?: true }>();
    const output = new Output(options.json === true);
    try {
      if (!(await work({ options, operands: command.args, output }))) process.exitCode = exitStatus.wrong;
    } finally {
      output.endProgress();
    }
  });
}

function statusOf(error: unknown): number {
  // Commander has printed it.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitStatus.fine : exitStatus.usage;
  const isKnown = [BadSetting, BadArgument, StartFailure].some((each) => error instanceof each) || isTransient(error);
  // PostgreSQL's and Node's errors have a code.
  const isExpected = isKnown || typeof (error as { code?: unknown }).code === 'string';
  process.stderr.write(`${isExpected ? errorMessage(error) : ((error as Error).stack ?? String(error))}\n`);
  return error instanceof BadArgument ? exitStatus.usage : exitStatus.failed;
}
