// The operator's commands that add to the ledger: import-log and enable.
import { Argument, type Command } from 'commander';
import { addCommand, tenantArgument } from '../../platform/operator-program.ts';
import { pluralize } from '../audit/findings.ts';
import { features, switchPollMs } from '../feature-switch.ts';
import { importFile } from '../log-import/file.ts';
import type { LedgerAction } from './ledger-action.ts';

/** Adds the commands. */
export function addLogCommands(program: Command, onLedger: LedgerAction): void {
  addImport(program, onLedger);
  addEnable(program, onLedger);
}

function addImport(program: Command, onLedger: LedgerAction): void {
  const command = addCommand(program, 'import-log <file>', {
    description: 'Check an export of events and write it as the log of that tenant, which must have none. Every hash stays.',
    examples: ['ledger import-log events.ndjson --tenant tenant_01jd1zq5v8e6n9w2k4m7p3r5t8'],
  }).requiredOption('--tenant <id>', 'the tenant of the file', tenantArgument);
  onLedger<{ tenant: string }>(command, async (client, { options: { tenant }, operands: [file = ''], output }) => {
    const { sequence, hash } = await importFile(client, tenant, file);
    const item = { type: 'summary', events: Number(sequence), hash: hash.toString('hex') };
    output.print(item, `${pluralize(item.events, 'event')} imported, the last with the hash ${item.hash}`);
    return true;
  });
}

function addEnable(program: Command, onLedger: LedgerAction): void {
  const command = addCommand(program, 'enable', {
    description:
      'Let features be used, for ever, when every ledger runs a version that has them: payments (holds, limits), books (effective times, periods), proof (personal data, freezes).',
    examples: ['ledger enable payments books proof'],
  }).addArgument(new Argument('<feature...>', 'what to enable').choices(features));
  onLedger(command, async (client, { operands, output }) => {
    for (const feature of operands) {
      const added = await client.query('insert into enabled (feature) values ($1) on conflict do nothing', [feature]);
      const isNew = added.rowCount !== 0;
      const more = isNew ? `: ledgers use them within ${switchPollMs / 1000} s` : ' already';
      output.print({ type: 'feature', feature, new: isNew }, `${feature} are enabled${more}`);
    }
    if (output.isJson) output.print({ type: 'summary', features: operands.length }, '');
    return true;
  });
}
