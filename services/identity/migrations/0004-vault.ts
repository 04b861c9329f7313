// Adds the vault: subjects of personal data with their keys and names, encrypted, and erasures that are not finished.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class Vault extends Migration {
  override up(): void {
    // Under `hash_key`, encrypted, names are hashed: a new SUBJECT_ENCRYPTION_KEY must not hide them.
    this.addSql(`create table vaults (
      tenant_id uuid primary key references tenants,
      hash_key text not null,
      created_at timestamptz not null
    )`);
    // `secret`: key and name, encrypted. An erased subject keeps its id alone.
    this.addSql(`create table subjects (
      tenant_id uuid not null references tenants,
      id uuid not null,
      name_hash bytea check (length(name_hash) = 32),
      secret text,
      created_at timestamptz not null,
      erased_at timestamptz,
      primary key (tenant_id, id),
      check ((erased_at is null) = (secret is not null) and (secret is null) = (name_hash is null))
    )`);
    // Erased ones have no name.
    this.addSql('create unique index subjects_name on subjects (tenant_id, name_hash)');
    for (const table of ['vaults', 'subjects']) for (const statement of tenantPolicy(table)) this.addSql(statement);
    // What the ledger has still to append. Without row-level security, because the job that finishes them knows no tenant.
    this.addSql(`create table erasures (
      tenant_id uuid not null,
      subject_id uuid not null,
      name_hash bytea not null,
      reason text not null,
      actor text not null,
      request_id text not null,
      erased_at timestamptz not null,
      next_attempt_at timestamptz not null,
      primary key (tenant_id, subject_id)
    )`);
    this.addSql('create index erasures_due on erasures (next_attempt_at)');
  }
}
