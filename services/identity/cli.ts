// The operator's commands of identity, as a process.
import { operatorProgram, runProgram } from '../platform/operator-program.ts';
import { Settings } from '../platform/settings.ts';
import { addIdentityCommands } from './operator-commands.ts';

const program = operatorProgram('identity', "The operator's commands on identity's database, DATABASE_URL. All are safe while it runs.");
addIdentityCommands(program, new Settings(process.env));
await runProgram(program, { needsNoReader: true });
