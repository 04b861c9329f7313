// What every command gets: environment, streams, config folder; and the options that all of them have.
import { Option, type Command } from 'commander';
import { ConfigFolder, configDirectory } from './config.ts';
import { Output } from './output.ts';
import { Prompt, type Streams } from './prompt.ts';
import { Session, type CommonOptions } from './session.ts';

/** The process as a command sees it. */
export interface Machine {
  env: Record<string, string | undefined>;
  home: string;
  streams: Streams;
}

/** What the commands share. */
export class Context {
  readonly env: Machine['env'];
  readonly streams: Streams;
  readonly folder: ConfigFolder;
  readonly prompt: Prompt;
  /** Called at Ctrl-C instead of an end at once. */
  onInterrupt: (() => void) | undefined;
  /** The key of a posting that has no answer yet. */
  openKey: string | undefined;

  constructor({ env, home, streams }: Machine) {
    this.env = env;
    this.streams = streams;
    this.folder = new ConfigFolder(configDirectory(env, home));
    this.prompt = new Prompt(streams);
  }

  /** Aborted by Ctrl-C, which would end the command at once otherwise. */
  untilInterrupted(): AbortSignal {
    const ended = new AbortController();
    this.onInterrupt = () => {
      // A second one ends it.
      this.onInterrupt = undefined;
      ended.abort();
    };
    return ended.signal;
  }

  /** Where a command's results go. */
  output({ json, csv }: CommonOptions): Output {
    const { stdout, stderr } = this.streams;
    const noColor = Boolean(this.env['NO_COLOR']) || this.env['TERM'] === 'dumb';
    return new Output(stdout, stderr, { format: json ? 'json' : csv ? 'csv' : 'table', noColor });
  }

  /** Posts with an idempotency key, which is printed if the command is interrupted before the answer. */
  async once<T>(key: string, options: Record<string, unknown>, call: () => Promise<T>): Promise<T> {
    options['idempotencyKey'] = key;
    this.openKey = options['dry_run'] === true ? undefined : key;
    return call().finally(() => (this.openKey = undefined));
  }

  /** The deployment, tenant and credential that these options name: flag, then environment, then profile. */
  session(options: CommonOptions): Session {
    return new Session(this, options);
  }
}

/** Adds the options of every command. */
export function withCommonOptions(command: Command): Command {
  const group = 'Common options:';
  const options = [
    new Option('--json', 'print JSON, an item a line').conflicts('csv'),
    new Option('--csv', 'print CSV'),
    new Option('--profile <name>', 'profile of the config folder (LEDGER_PROFILE)'),
    new Option('--server <url>', 'address of the deployment (LEDGER_URL)'),
    new Option('--tenant <slug>', 'tenant (LEDGER_TENANT)'),
    new Option('--api-key-file <file>', 'file with an API key, - for standard input (LEDGER_API_KEY has the key itself)'),
  ];
  for (const option of options) command.addOption(option.helpGroup(group));
  return command.helpOption('-h, --help', 'show this help');
}

/** Examples at the end of a command's help. */
export function withExamples(command: Command, ...examples: string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`);
}
