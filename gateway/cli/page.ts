// The reference page of the command line, from the program itself.
import type { Command } from 'commander';
import { Context } from './context.ts';
import type { Operation } from './operation.ts';
import { programOf } from './program.ts';

/** The page as Markdown. Only the routes come from outside: those of the program are of the version before. */
export async function commandLinePage(operations: Operation[]): Promise<string> {
  const { stdin, stdout, stderr } = process;
  const program = programOf(new Context({ env: {}, home: '/', streams: { stdin, stdout, stderr } }));
  const nouns = new Set(operations.map(({ noun }) => noun));
  const own = program.commands.filter((command) => !nouns.has(command.name()) && command.name() !== 'complete');
  const routes = [...nouns].sort().map((noun) => {
    const verbs = operations.filter((operation) => operation.noun === noun).map(({ verb }) => `\`${verb}\``);
    return `| \`ledger ${noun}\` | ${verbs.join(', ')} |\n`;
  });
  return [
    ...[intro, '| Command | Does |\n|---|---|\n', ...own.map(row), '\n## Routes\n\n', routesIntro, '| Noun | Verbs |\n|---|---|\n'],
    ...[...routes, '\n## Where and as whom\n\n', credentials, '## Exit codes\n\n', exitCodes],
  ].join('');
}

function row(command: Command): string {
  const words = command.registeredArguments.map((argument) => ` ${argument.required ? `<${argument.name()}>` : `[${argument.name()}]`}`);
  const about = (command.summary() || command.description()).replace(/\.$/, '');
  return `| \`ledger ${command.name()}${words.join('')}\` | ${about} |\n`;
}

const intro = `# Command line

\`ledger\` calls the API from a shell. In a checkout it is \`npm run --silent ledger -- <command>\`. \`npm run sdk -- cli\` makes a package of one file for other machines, which need Node 22 or newer:

\`\`\`console
$ npm run sdk -- cli
$ npm install --global .data/sdk/cli/ledger-cli-1.0.0.tgz
$ ledger login --server https://ledger.example.com
$ ledger post SETTLEMENT-USD CUSTOMER-WALLETS-USD 12.50 USD --description 'Card deposit'
$ ledger listen --forward-to http://localhost:4242/hook
\`\`\`

\`--help\` after any command shows its flags and examples. Results go to standard output: a table, with \`--json\` one item a line, with \`--csv\` CSV. Everything else goes to standard error. \`NO_COLOR\` turns colors off.

`;

const routesIntro = `Every route is a command, \`ledger <noun> <verb>\`. Flags are the fields of query and body; \`-f FILE\` takes a body of JSON, \`-f -\` from standard input. \`--all\` reads all pages of a list.

`;

const credentials = `A flag wins over the environment, and that over the profile.

| Flag | Environment | Profile |
|---|---|---|
| \`--server\` | \`LEDGER_URL\` | \`ledger login\` |
| \`--tenant\` | \`LEDGER_TENANT\` | \`ledger switch\` |
| \`--api-key-file\` | \`LEDGER_API_KEY\` (the key itself) | \`ledger login\`, or \`ledger login --api-key\` |
| \`--profile\` | \`LEDGER_PROFILE\` | \`ledger profiles use\` |

Profiles are in \`~/.config/ledger/config.json\`, or in the folder \`LEDGER_CONFIG_DIR\`. Only you can read them. Secrets are never arguments: they are asked for, or read from a file or standard input. A profile's credentials go only to its own server.

\`listen\` keeps its position in the same folder. It goes on after a break or a restart, so an event can come twice and none is lost.

`;

const exitCodes = `| Code | Meaning |
|---|---|
| 0 | done |
| 1 | refused by the API, or a check failed |
| 2 | wrong use |
| 3 | no credential, or one that does not allow this |
| 4 | not found |
| 5 | unavailable, or no answer |

Where no answer came, a posting may have been done. The program prints its idempotency key. Run the same command with \`--key\` and that key: it is done once.

The commands of an operator, such as \`verify\` and \`rebuild\`, are on [a page of their own](../operate/operator-commands.md).
`;
