// The operator's commands of the notifier, as a process.
import { operatorProgram, runProgram, type Interruption } from '../platform/operator-program.ts';
import { Settings } from '../platform/settings.ts';
import { addNotifierCommands } from './operator-commands.ts';

// The work is done before the lines are printed, so a closed pipe, as with `| head`, is no failure.
const interruption: Interruption = { needsNoReader: true };
const program = operatorProgram(
  'notifier',
  "The operator's commands on the notifier's database, DATABASE_URL. All are safe while it runs.",
);
addNotifierCommands(program, new Settings(process.env), interruption);
await runProgram(program, interruption);
