// All operator's commands of the ledger, each on the owner's connection.
import type { Command } from 'commander';
import { setAction } from '../../platform/operator-program.ts';
import type { Settings } from '../../platform/settings.ts';
import { openOperator } from '../audit/operator.ts';
import { addAuditCommands } from './audit-commands.ts';
import type { LedgerAction } from './ledger-action.ts';
import { addLogCommands } from './log-commands.ts';
import { addRelayCommands } from './relay-commands.ts';

/** Adds the commands, on the database of `MIGRATION_DATABASE_URL`. */
export function addLedgerCommands(program: Command, settings: Settings): void {
  const onLedger: LedgerAction = (command, work) =>
    setAction(command, async (given) => {
      const client = await openOperator(settings.databaseUrl('MIGRATION_DATABASE_URL'));
      try {
        return await work(client, given as Parameters<typeof work>[1]);
      } finally {
        await client.end();
      }
    });
  addAuditCommands(program, onLedger);
  addRelayCommands(program, onLedger);
  addLogCommands(program, onLedger);
}
