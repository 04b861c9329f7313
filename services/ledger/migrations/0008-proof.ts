// Adds proofs of the log: trees and checkpoints, freezes, verifications, redactions, subjects of personal data, and imports of whole logs.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';
import { deleteTenant } from './delete-tenant.ts';
import { freezeTenant } from './freeze-tenant.ts';
import { importLog } from './import-log.ts';
import { redactEvent } from './redact-event.ts';

const tables = [
  'freezes',
  'verifications',
  'trees',
  'tiles',
  'checkpoints',
  'redactions',
  'subject_transactions',
  'erased_subjects',
  'uploads',
];

export class Proof extends Migration {
  override up(): void {
    // Null: not frozen. Next to `rebuilt` no part of what the log says.
    this.addSql('alter table heads add column frozen_at timestamptz');
    this.addSql(`create table freezes (
      tenant_id uuid primary key,
      sequence bigint not null,
      at timestamptz not null,
      reason text not null
    )`);
    // The last whole walk of each tenant. `report`: its findings, a line each. The first three are those of the last walk without findings.
    this.addSql(`create table verifications (
      tenant_id uuid primary key,
      sequence bigint,
      hash bytea,
      verified_at timestamptz,
      started_at timestamptz not null,
      finished_at timestamptz not null,
      worked_ms bigint not null,
      events bigint not null,
      findings integer not null,
      report text not null
    )`);
    this.createTrees();
    // The hash of the payload that was posted, by the position of its event.
    this.addSql(`create table redactions (
      tenant_id uuid not null,
      sequence bigint not null,
      payload_hash bytea not null check (length(payload_hash) = 32),
      primary key (tenant_id, sequence)
    )`);
    this.addSql(`create table subject_transactions (
      tenant_id uuid not null,
      subject_id uuid not null,
      sequence bigint not null,
      primary key (tenant_id, subject_id, sequence)
    )`);
    // By the position of `subject.erased`, of which each subject has one.
    this.addSql(`create table erased_subjects (
      tenant_id uuid not null,
      subject_id uuid not null,
      sequence bigint not null,
      primary key (tenant_id, subject_id)
    )`);
    this.addSql(writePersonal);
    // Bodies of imports under the ids of their jobs, until these have ended.
    this.addSql(`create table uploads (
      tenant_id uuid not null,
      id uuid not null,
      position integer not null,
      bytes bytea not null,
      primary key (tenant_id, id, position)
    )`);
    // Of an import: the line at which it failed.
    this.addSql('alter table jobs add column error_line bigint');
    this.addSql('alter table uploads alter column bytes set storage external');
    for (const table of tables) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    // The auditor's loops look for work across tenants in these tables only.
    for (const table of ['freezes', 'verifications', 'trees', 'checkpoints']) {
      this.addSql(`create policy indexer on ${table} for select using ((select current_setting('app.indexer', true)) = 'on')`);
    }
    // Holds of frozen tenants don't expire.
    this.addSql(`create policy due on freezes for select using ((select current_setting('app.due', true)) = 'on')`);
    this.addSql(freezeTenant);
    for (const statement of importLog) this.addSql(statement);
    this.addSql(redactEvent);
    this.addSql('revoke execute on function freeze_tenant, begin_import, import_rows, redact_event from public');
    this.addSql(
      deleteTenant([
        ...[
          'freezes',
          'verifications',
          'trees',
          'tiles',
          'checkpoints',
          'redactions',
          'subject_transactions',
          'erased_subjects',
          'uploads',
        ],
        ...['search_indexes', 'transaction_texts', 'volumes', 'filters', 'job_chunks', 'jobs', 'holds', 'hold_entries', 'parts'],
        ...['definitions', 'velocity', 'balances', 'accounts', 'entries', 'shifted_entries', 'shifted_months', 'shifted_transactions'],
        ...['transaction_metadata', 'periods', 'books', 'transactions', 'log'],
      ]),
    );
    this.addSql(`insert into enabled select 'proof' where not exists (select from heads)`);
  }

  private createTrees(): void {
    // How far each log's tree is, and the chain hash of its last event. `origin` counts restores that were accepted, from 1.
    this.addSql(`create table trees (
      tenant_id uuid primary key,
      size bigint not null,
      hash bytea not null,
      origin integer not null
    )`);
    // Tiles of 1 to 256 hashes, https://c2sp.org/tlog-tiles, of level 1 and higher: level 0 is the log.
    this.addSql(`create table tiles (
      tenant_id uuid not null,
      level smallint not null check (level > 0),
      position bigint not null,
      hashes bytea not null check (length(hashes) between 32 and 8192 and length(hashes) % 32 = 0),
      primary key (tenant_id, level, position)
    )`);
    this.addSql('alter table tiles alter column hashes set storage external');
    // Of each origin the newest is the last word. `key_id`: of the key that signed, 8 hexadecimal digits.
    this.addSql(`create table checkpoints (
      tenant_id uuid not null,
      origin integer not null,
      size bigint not null,
      root bytea not null check (length(root) = 32),
      note text not null,
      key_id text not null,
      signed_at timestamptz not null,
      primary key (tenant_id, origin, size)
    )`);
  }
}

// Writes whose personal data postings have, after `write_batch` and what is called around it in the same statement. The heads are locked.
const writePersonal = `create function write_personal(now_ms float8, p_tenant uuid[], p_subject uuid[], p_sequence bigint[]) returns float8
    language plpgsql
    as $$
      begin
        insert into subject_transactions (tenant_id, subject_id, sequence)
        select p_tenant[i], p_subject[i], p_sequence[i] from generate_series(1, cardinality(p_tenant)) as i;
        return now_ms;
      end $$`;
