// Adds the auditor's jobs and their results.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';
import { deleteTenant } from './delete-tenant.ts';

export class Auditor extends Migration {
  override up(): void {
    // `lease_id` fences what a run writes: a later run has another one.
    this.addSql(`create table jobs (
      tenant_id uuid not null,
      id uuid not null,
      kind text not null,
      scope text not null,
      parameters text not null,
      actor text not null,
      request_id text not null,
      status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
      done bigint not null,
      total bigint not null,
      error_code text,
      error_message text,
      content_type text,
      bytes bigint,
      sha256 bytea,
      created_at timestamptz not null,
      finished_at timestamptz,
      expires_at timestamptz,
      runs integer not null,
      lease_id uuid,
      leased_until timestamptz,
      primary key (tenant_id, id)
    )`);
    this.addSql(`create index jobs_waiting on jobs (tenant_id, id) where status in ('queued', 'running')`);
    this.addSql('create index jobs_expired on jobs (expires_at) where expires_at is not null');
    this.addSql(`create table job_chunks (
      tenant_id uuid not null,
      job_id uuid not null,
      position integer not null,
      bytes bytea not null,
      primary key (tenant_id, job_id, position),
      foreign key (tenant_id, job_id) references jobs on delete cascade
    )`);
    // Compressing would cost more than it saves, and a part of a chunk can be read alone.
    this.addSql('alter table job_chunks alter column bytes set storage external');
    for (const table of ['jobs', 'job_chunks']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    // The runner looks for work across tenants in this table only.
    this.addSql(`create policy runner on jobs for select using ((select current_setting('app.runner', true)) = 'on')`);
    this.addSql(
      deleteTenant([
        ...['job_chunks', 'jobs', 'holds', 'hold_entries', 'parts', 'definitions', 'velocity', 'balances', 'accounts', 'entries'],
        ...['shifted_entries', 'shifted_months', 'shifted_transactions', 'transaction_metadata', 'periods', 'books', 'transactions', 'log'],
      ]),
    );
  }
}
