// Entry point of the ledger; with `migrate`, updates its schema.
import { runService } from '../platform/command.ts';
import { Settings } from '../platform/settings.ts';
import { appendOnly, auditorAdds, auditorTables, kept, migrationNames, ownerTables } from './schema.ts';

const migrations = async () => (await import('./migrations.ts')).migrations;
const settings = new Settings(process.env);
const second = {
  variable: 'AUDITOR_DATABASE_URL',
  url: () => (settings.optional('AUDITOR_DATABASE_URL') === undefined ? undefined : settings.databaseUrl('AUDITOR_DATABASE_URL')),
  tables: auditorTables,
  adds: auditorAdds,
  calls: ['find_texts', 'freeze_tenant', 'begin_import', 'import_rows'],
};
const schema = { names: migrationNames, migrations, appendOnly, kept, owned: ownerTables, second };

await runService(settings, schema, async () => (await import('./serving.ts')).serveLedger);
