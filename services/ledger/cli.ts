// The operator's commands of the ledger, as a process. They run as the database's owner.
import { operatorProgram, runProgram } from '../platform/operator-program.ts';
import { Settings } from '../platform/settings.ts';
import { addLedgerCommands } from './operator/commands.ts';

const program = operatorProgram(
  'ledger',
  "The operator's commands on the ledger's database, MIGRATION_DATABASE_URL. All are safe while it runs.",
);
addLedgerCommands(program, new Settings(process.env));
await runProgram(program);
