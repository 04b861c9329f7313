// Verify and rebuild --check against damage of every table and column.
import type { Audit } from '../../../test/audit.ts';
import { openDamaged, tables, type Damaged, type Statement } from '../../../test/damage.ts';
import { toId } from '../../platform/ids.ts';

const projected = tables.filter((table) => table !== 'log');
/** Tables that are damaged at once. Books say which rows of metadata are compared. */
const groups = [projected.filter((table) => table !== 'books'), ['books']];

let audit: Audit;
let tenant: string;
let required: Damaged['required'];
let damage: Damaged['damage'];
let putBack: Damaged['putBack'];

beforeAll(async () => {
  ({ audit, tenant, required, damage, putBack } = await openDamaged());
});

afterAll(() => audit.end());

const changed: Record<string, (column: string) => string> = {
  uuid: () => 'gen_random_uuid()',
  // JSON stays JSON, so that all else is compared as well.
  text: (column) => `coalesce(${column}, '') || ' '`,
  // Not by 1, because the next sequence is taken.
  int8: (column) => `${column} + 1000`,
  int4: (column) => `${column} + 1000`,
  int2: (column) => `${column} + 1000`,
  numeric: (column) => `${column} + 1000`,
  bool: (column) => `not ${column}`,
  timestamptz: (column) => `coalesce(${column}, to_timestamp(0)) + interval '1 millisecond'`,
  date: (column) => `(coalesce(${column}, '2026-01-31') + interval '1 month')::date`,
  _uuid: (column) => `${column} || gen_random_uuid()`,
  tsvector: (column) => `${column} || 'zz'::tsvector`,
  bytea: (column) => `set_byte(${column}, length(${column}) - 1, (get_byte(${column}, length(${column}) - 1) + 1) % 256)`,
};

// Columns that are not derived from the log.
const notDerived = ['rebuilt', 'frozen_at', 'traceparent'];

/** What a column is set to: another value or, where it is required, null. */
function changeOf({ name, type }: Column, to: 'other' | 'null'): string {
  const change = changed[type];
  if (!change) throw new Error(`how does one change a ${type}?`);
  return `${name} = ${to === 'null' ? 'null' : change(name)}`;
}

interface Column {
  table: string;
  name: string;
  type: string;
  isKey: boolean;
  isRequired: boolean;
}

async function columnsOf(names: string[]): Promise<Column[]> {
  const { rows } = await audit.owner.query<Omit<Column, 'isRequired'>>(
    `select c.relname as table, attname as name, coalesce(base.typname, t.typname) as type,
        exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)) as "isKey"
      from pg_attribute a join pg_class c on c.oid = attrelid join pg_type t on t.oid = a.atttypid left join pg_type base on base.oid = t.typbasetype
      where c.oid = any($1::text[]::regclass[]) and attnum > 0 and not attisdropped and attname <> all($2) order by c.relname, attnum`,
    [names, notDerived],
  );
  return rows.map((row) => ({ ...row, isRequired: required.some(({ table, column }) => table === row.table && column === row.name) }));
}

/** Somewhere in the middle: neither the first nor the last row. */
const middle = (table: string) =>
  `ctid = (select ctid from ${table} where tenant_id = $1 offset (select count(*) / 2 from ${table} where tenant_id = $1) limit 1)`;

/** What both commands find, by name. */
const found = async (only?: string) => ({ verify: await audit.verified(only), check: await audit.checked(only) });

// Of many tables at once, because each command reads them all anyway.
test.each(groups)('verify and rebuild --check find a change of any column in one row of %s and others', async (...group) => {
  const columns = await columnsOf(group);
  const keys = group.map((table) => columns.filter((column) => column.isKey && column.table === table));
  const plain = columns.filter(({ isKey }) => !isKey);
  for (const table of group) expect(columns.filter((column) => column.table === table).length).toBeGreaterThanOrEqual(3);
  const unseen = async (chosen: Column[], to: 'other' | 'null', sign: (column: Column) => string) => {
    const setOf = (table: string) => chosen.filter((column) => column.table === table).map((column) => changeOf(column, to));
    const changed = group.filter((table) => setOf(table).length > 0);
    await damage(...changed.map((table): Statement => [`update ${table} set ${setOf(table).join()} where ${middle(table)}`, [tenant]]));
    const lines = Object.entries(await found(tenant));
    await putBack();
    return lines.flatMap(([command, of]) => {
      const missed = chosen.filter((column) => !of.some((line) => new RegExp(`: ${column.table}( \\(.*\\))?${sign(column)}`).test(line)));
      return missed.map(({ table, name }) => [command, table, name, to]);
    });
  };
  expect(await unseen(plain, 'other', ({ name }) => `: (.*; )?${name} is (null|")`)).toEqual([]);
  const required = plain.filter(({ isRequired }) => isRequired);
  expect(await unseen(required, 'null', ({ name }) => `: (.*; )?${name} is null`)).toEqual([]);
  // Under another key the row is missing.
  for (let nth = 0; keys.some((its) => its.length > nth); nth++) {
    const nths = keys.flatMap((its) => its.slice(nth, nth + 1));
    expect(await unseen(nths, 'other', () => ' is missing$')).toEqual([]);
  }
  expect(await audit.verified()).toEqual([]);
});

test('verify and rebuild --check find a change of any column of the log', async () => {
  const columns = await columnsOf(['log']);
  // What makes later events wrong comes last, because no more than 100 findings are listed.
  const last = ['type', 'payload'];
  const sorted = [...columns].sort((a, b) => last.indexOf(a.name) - last.indexOf(b.name));
  const changes = sorted.flatMap((column) => [
    { column, to: 'other' as const },
    ...(column.isRequired ? [{ column, to: 'null' as const }] : []),
  ]);
  const placed = changes.map((change, index) => ({ ...change, at: 10 + 2 * index }));
  expect(placed.length).toBeGreaterThan(12);
  await damage(
    ...placed.map(({ column, to, at }): Statement => [
      `update log set ${changeOf(column, to)} where tenant_id = $1 and sequence = ${at}`,
      [tenant],
    ]),
  );
  for (const [command, lines] of Object.entries(await found(tenant))) {
    const unseen = placed.filter(({ column, at }) => {
      const sign = column.isKey
        ? `: event ${at + 1} follows event ${at - 1}`
        : `: event ${at} does not have the hash of its content and of the event before it`;
      return !lines.some((line) => line.endsWith(sign));
    });
    expect([command, unseen]).toEqual([command, []]);
  }
  await putBack();
});

/** A row under another key; for the head, that of an unknown tenant. */
const another: Record<string, string> = {
  heads: 'tenant_id = gen_random_uuid()',
  log: 'sequence = sequence + 1000',
  accounts: `id = gen_random_uuid(), code = code || 'x'`,
  transactions: `sequence = sequence + 1000, id = gen_random_uuid(), idempotency_key = 'x', reverses = null`,
  entries: 'position = position + 1000',
  balances: 'account_id = gen_random_uuid()',
  parts: 'number = number + 1000',
  holds: `sequence = sequence + 1000, id = gen_random_uuid(), idempotency_key = 'x'`,
  hold_entries: 'position = position + 1000',
  definitions: `id = id || 'x'`,
  velocity: `subject = subject || 'x'`,
  books: 'tenant_id = gen_random_uuid()',
  transaction_metadata: 'sequence = sequence + 1000',
  transaction_texts: 'sequence = 1',
  redactions: 'sequence = sequence + 1000',
  subject_transactions: 'sequence = sequence + 1000',
  erased_subjects: 'subject_id = gen_random_uuid()',
  volumes: `quarter = quarter + interval '1 hour'`,
  periods: 'sequence = sequence + 1000, id = gen_random_uuid()',
  shifted_transactions: 'sequence = sequence + 1000',
  shifted_entries: 'sequence = sequence + 1000',
  shifted_months: `month = (month + interval '1 year')::date`,
};

test('a missing row of any table is found, and one without an event', async () => {
  for (const table of tables) {
    await audit.owner.query(`create temp table one_${table} as select * from ${table} where ${middle(table)}`, [tenant]);
    await audit.owner.query(`update one_${table} set ${another[table]}`);
  }
  const unseen = (lines: string[], names: string[], sign: (table: string) => string) =>
    names.filter((table) => !lines.some((line) => new RegExp(sign(table)).test(line)));
  const add = (table: string): Statement => [`insert into ${table} select * from one_${table}`];

  for (const group of groups) {
    await damage(...group.map((table): Statement => [`delete from ${table} where ${middle(table)}`, [tenant]]));
    for (const lines of Object.values(await found(tenant))) {
      expect(unseen(lines, group, (table) => `: ${table}( \\(.*\\))? is missing$`)).toEqual([]);
    }
    await putBack();
  }
  await damage(...projected.map(add));
  const { verify: verified, check } = await found();
  expect(unseen(verified, projected, (table) => `: ${table} has [0-9]+ rows? without an event`)).toEqual([]);
  expect(unseen(check, projected, (table) => `: ${table}( \\(.*\\))? has no event$`)).toEqual([]);
  await putBack();

  await damage([`delete from log where ${middle('log')}`, [tenant]]);
  for (const lines of Object.values(await found(tenant))) expect(lines[0]).toMatch(/event ([0-9]+) follows event (?!\1)/);
  await putBack();
  await damage(add('log'));
  for (const lines of Object.values(await found())) expect(lines[0]).toMatch(/event 10[0-9]+ follows event [0-9]{2,3}$/);
  await putBack();

  // Tenants that are first in every order, each with a row in one table only.
  const first = (table: string) => `00000000-0000-0000-0000-0000000000${10 + tables.indexOf(table)}`;
  for (const table of tables) await audit.owner.query(`update one_${table} set tenant_id = '${first(table)}'`);
  await damage(...tables.map(add));
  for (const lines of Object.values(await found())) {
    expect(unseen(lines, tables, (table) => `^${toId('tenant', first(table))}: `)).toEqual([]);
  }
  for (const table of tables) await audit.owner.query(`drop table one_${table}`);
  await putBack();
});
