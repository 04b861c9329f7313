// The whole command line, as one tree of commands.
import tab from '@bomb.sh/tab/commander';
import { Command } from 'commander';
import { addApi } from './api.ts';
import { withExamples, type Context } from './context.ts';
import { addDoctor } from './doctor.ts';
import { addExport } from './export/command.ts';
import { addImport } from './import/command.ts';
import { addListen } from './listen.ts';
import { addLogin } from './login.ts';
import { apiVersion } from './operations.ts';
import { addPost } from './post.ts';
import { addRoutes } from './routes.ts';
import { addTail } from './tail.ts';
import { addOpen, addTrigger } from './trigger.ts';

/** The program. Its errors are thrown, never an end of the process. */
export function programOf(context: Context): Command {
  const { stdout, stderr } = context.streams;
  const program = new Command('ledger')
    .description('The command line of the ledger.')
    .version(apiVersion, '--version', 'show the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    // A version of an account is not that of the program.
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('Run it with --help to see what it takes.')
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
    });
  addLogin(program, context);
  addDoctor(program, context);
  addOpen(program, context);
  addPost(program, context);
  addTail(program, context);
  addListen(program, context);
  addTrigger(program, context);
  addImport(program, context);
  addExport(program, context);
  addRoutes(program, context);
  addApi(program, context);
  program.addHelpText('after', epilog);
  addCompletion(program);
  return program;
}

/** Completion shows one line about a command, help all of it. */
function addCompletion(program: Command): void {
  const commands = everyCommand(program).map((command) => ({ command, description: command.description() }));
  for (const { command } of commands) if (command.summary() !== '') command.description(command.summary());
  tab(program, { completionCommandName: 'completion' });
  for (const { command, description } of commands) command.description(description);
  const added = program.commands.find((command) => command.name() === 'completion');
  if (!added) return;
  added.helpGroup('Session:').description('Print a script that completes commands and flags.').helpOption('-h, --help', 'show this help');
  withExamples(
    added,
    'ledger completion bash > /etc/bash_completion.d/ledger',
    'source <(ledger completion zsh)',
    'ledger completion fish | source',
  );
}

/** A command and all below it. */
export function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

const epilog = `
Results go to standard output: a table, with --json an item a line, with --csv CSV. Everything else goes to standard error.
Where and as whom: flag, then environment (LEDGER_URL, LEDGER_TENANT, LEDGER_API_KEY, LEDGER_PROFILE), then profile.
Exit codes: 0 done, 1 refused, 2 usage, 3 credential, 4 not found, 5 unavailable or outcome unknown.

Examples:
  $ ledger login --server https://ledger.example.com
  $ ledger post SETTLEMENT-USD CUSTOMER-WALLETS-USD 12.50 USD
  $ ledger transactions list --q 'refund*' --json
  $ ledger listen --forward-to http://localhost:4242/hook`;
