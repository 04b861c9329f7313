// Every migration goes forward only, and takes no lock that stops a busy database, by squawk (https://squawkhq.com).
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Migration } from '@mikro-orm/migrations';
import { migrations as identity } from '../services/identity/migrations.ts';
import { migrations as ledger } from '../services/ledger/migrations.ts';
import { migrations as notifier } from '../services/notifier/migrations.ts';
import { currentRun } from './run.ts';

const every = Object.entries({ identity, ledger, notifier }).flatMap(([service, list]) =>
  list.map(({ name, class: Made }) => ({ name: `${service}-${name}`, Made })),
);

const words = 'A wider list of words replaces the narrower one in the same transaction, without reading a row: NOT VALID.';
const domain =
  'Its list or bound changes as that of a CHECK does: dropped, and added NOT VALID. PostgreSQL parses a domain once a connection.';
const small = 'The table has a few rows a tenant: it is read within milliseconds.';

// What squawk finds in released migrations, and why it may stay. A new migration has none.
const accepted: Record<string, string> = {
  'identity-0002-override-scope ban-drop-constraint': words,
  'identity-0002-override-scope constraint-missing-not-valid': small,
  'identity-0003-teams ban-drop-constraint': words,
  'identity-0003-teams ban-drop-not-null': 'Only a new version makes users without a password; an old one refuses their logins.',
  'identity-0003-teams constraint-missing-not-valid': small,
  'identity-0003-teams require-concurrent-index-creation': small,
  'ledger-0001-ledger ban-create-domain-with-constraint': domain,
  'ledger-0003-payments ban-alter-domain-with-add-constraint': words,
  'ledger-0003-payments ban-create-domain-with-constraint': domain,
  'ledger-0003-payments ban-drop-constraint': words,
  'ledger-0004-tenant-deletion ban-drop-constraint': 'Fewer checks than before: an old version, which deletes no head, writes as it did.',
  'ledger-0005-books ban-alter-domain-with-add-constraint': words,
  'ledger-0005-books ban-drop-constraint': words,
  'notifier-0002-webhook-headers constraint-missing-not-valid': small,
  'notifier-0003-payments ban-drop-constraint': words,
  'notifier-0005-books ban-drop-constraint': words,
  'notifier-0006-deliveries-of-events require-concurrent-index-creation':
    'New deliveries wait for the index; postings do not, and events wait in the log. Deliveries are kept for 90 days.',
};

// The connection of a migration has no statement timeout, so that it may take its time; counts and flags fit an int.
const excluded = ['require-statement-timeout', 'prefer-bigint-over-int', 'prefer-bigint-over-smallint'];

const testWithSquawk = spawnSync('squawk', ['--version']).error === undefined ? test : test.skip;

testWithSquawk('locks are short, or it is said why they may be longer (squawk)', async () => {
  const directory = mkdtempSync(join(currentRun().directory, 'migrations-'));
  const files = await Promise.all(
    every.map(async ({ name, Made }) => {
      const migration = new Made(...([{}, {}] as unknown as ConstructorParameters<typeof Migration>));
      // Some are promises.
      await Promise.resolve(migration.up());
      const file = join(directory, `${name}.sql`);
      // As `migrate` sets it for its connection.
      writeFileSync(file, ["set lock_timeout = '5s'", ...(migration.getQueries() as string[]), ''].join(';\n'));
      return file;
    }),
  );
  const options = ['--reporter', 'json', '--assume-in-transaction', '--pg-version', '15.0', ...excluded.flatMap((rule) => ['-e', rule])];
  const { stdout, stderr } = spawnSync('squawk', [...options, ...files], { encoding: 'utf8', maxBuffer: 1 << 26 });
  expect(stderr).not.toContain('error');
  const found = (JSON.parse(stdout) as { file: string; rule_name: string }[]).map(
    ({ file, rule_name }) => `${basename(file, '.sql')} ${rule_name}`,
  );
  expect([...new Set(found)].toSorted()).toEqual(Object.keys(accepted).toSorted());
});

test('no migration goes back', () => {
  expect(every.filter(({ Made }) => Object.hasOwn(Made.prototype as object, 'down')).map(({ name }) => name)).toEqual([]);
});
