// A ledger with events of every kind, whose rows tests damage in any way and put back, for tests of the audit.
import { fillLedger } from './full-ledger.ts';
import { openAudit, type Audit } from './audit.ts';
import { startAuditor } from './auditor.ts';
import { newTenant } from './ledger.ts';
import { until } from './polling.ts';

/** All tables with rows of tenants that follow from the log, and the log. */
export const tables = [
  ...['heads', 'log', 'accounts', 'transactions', 'entries', 'balances', 'parts', 'holds', 'hold_entries', 'definitions', 'velocity'],
  ...['shifted_transactions', 'shifted_entries', 'shifted_months', 'books', 'periods', 'transaction_metadata'],
  ...['transaction_texts', 'volumes', 'redactions', 'subject_transactions', 'erased_subjects'],
];
const kept = [...tables, 'relay_marks'];

/** Counts indexes that the auditor has not completed. */
const behind = `select count(*)::text as n from heads h where (select array_agg(name order by name) from search_indexes i
  where i.tenant_id = h.tenant_id and through >= case name when '' then h.sequence else since - 1 end) is distinct from array['', 'order'] collate "C"`;

/** A statement and its values. */
export type Statement = [sql: string, values?: unknown[]];

/** A ledger of two tenants, of which the first is damaged. */
export interface Damaged {
  audit: Audit;
  tenantId: string;
  /** UUID. */
  tenant: string;
  /** Columns that may not be null, but for those of primary keys. */
  required: { table: string; column: string }[];
  /** Changes rows of any tenant, for which the owner has to disable row-level security. */
  damage: (...statements: Statement[]) => Promise<void>;
  putBack: () => Promise<void>;
}

/** Fills a ledger, keeps a copy of its rows and drops constraints, so that damage which they would refuse is found as well. */
export async function openDamaged(): Promise<Damaged> {
  const { tenantId, tenant } = newTenant();
  const audit = await openAudit();
  const { owner } = audit;
  await fillLedger(audit.ledger.client, tenantId);
  await fillLedger(audit.ledger.client, newTenant().tenantId);
  const auditor = await startAuditor(audit.ledger.database);
  await until(
    async () => (await owner.query<{ n: string }>(behind)).rows[0]?.n,
    (n) => n === '0',
  );
  await auditor.end();
  const constraints = await owner.query<{ sql: string }>(
    `select case conrelid when 0 then format('alter domain %s drop constraint %I', contypid::regtype, conname)
        else format('alter table %s drop constraint %I', conrelid::regclass, conname) end as sql from pg_constraint
      where connamespace = 'public'::regnamespace and contype in ('c', 'f')`,
  );
  for (const { sql } of constraints.rows) await owner.query(sql);
  const { rows: required } = await owner.query<{ table: string; column: string }>(
    `select c.relname as table, a.attname as column from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relname = any($1) and a.attnum > 0 and a.attnotnull
        and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey))`,
    [tables],
  );
  for (const { table, column } of required) await owner.query(`alter table ${table} alter column ${column} drop not null`);
  await owner.query('drop trigger entries_must_balance on entries; create schema kept');
  for (const table of kept) await owner.query(`create table kept.${table} as table ${table}`);
  const damage = async (...statements: Statement[]) => {
    const security = (how: string) => owner.query(tables.map((table) => `alter table ${table} ${how} row level security`).join('; '));
    await owner.query('begin');
    await security('disable');
    for (const [sql, values] of statements) await owner.query(sql, values);
    await security('enable');
    await owner.query('commit');
  };
  const putBack = () =>
    damage(
      [`delete from ${kept.join('; delete from ')}`],
      ...kept.map((table): Statement => [`insert into ${table} select * from kept.${table}`]),
    );
  return { audit, tenantId, tenant, required, damage, putBack };
}
