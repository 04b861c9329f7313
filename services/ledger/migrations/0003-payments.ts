// Adds holds, partial reversals, velocity limits, and the switch that says whether they may be used.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

const eventTypes = [
  ...['transaction.posted', 'account.created', 'account.updated'],
  ...['hold.created', 'hold.voided', 'hold.expired', 'schedule.failed', 'definition.changed'],
];

export class Payments extends Migration {
  override up(): void {
    // Not valid: rows that are there have a type of the narrower check, and need no scan.
    this.addSql('alter domain event_type drop constraint event_type');
    this.addSql(`alter domain event_type add constraint event_type check (value in ('${eventTypes.join(`', '`)}')) not valid`);
    this.addSql(`create domain hold_status as text constraint hold_status check (value in ('pending', 'captured', 'voided', 'expired'))`);
    this.createHolds();
    this.createDefinitions();
    for (const table of ['holds', 'hold_entries', 'parts', 'definitions', 'velocity']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      this.addSql(`create policy operator on ${table} for select to current_user using (true)`);
    }
    // The expiry loop looks for due holds across tenants in this table only.
    this.addSql(`create policy due on holds for select using ((select current_setting('app.due', true)) = 'on')`);
    // A ledger of the version before would ignore limits, so that books it may still write to begin without.
    this.addSql('create table enabled (feature text primary key)');
    this.addSql(`insert into enabled select 'payments' where not exists (select from heads)`);
  }

  private createHolds(): void {
    // What a hold is found by. The rest is in the log: as it is now in the payload of its newest part, or else of its `hold.created`.
    this.addSql(`create table holds (
      tenant_id uuid not null,
      sequence positive not null,
      id uuid not null,
      idempotency_key text collate "C" not null,
      fingerprint request_fingerprint not null,
      reference text collate "C",
      status hold_status not null,
      expires_at timestamptz,
      created_at timestamptz not null,
      primary key (tenant_id, sequence),
      unique (tenant_id, id),
      unique (tenant_id, idempotency_key)
    ) with (fillfactor = 80)`);
    this.addSql(`create index holds_due on holds (expires_at, tenant_id, id) where status = 'pending' and expires_at is not null`);
    this.addSql(`create index holds_reference on holds (tenant_id, reference, sequence) where reference is not null`);

    this.addSql(`create table hold_entries (
      tenant_id uuid not null,
      hold_sequence bigint not null,
      position place not null,
      account_id uuid not null,
      currency currency_code not null,
      side entry_side not null,
      amount positive not null,
      captured not_negative not null,
      remaining not_negative not null,
      primary key (tenant_id, hold_sequence, position),
      check (captured + remaining <= amount)
    ) with (fillfactor = 80)`);
    // The list filtered by account; and what an account's pending sums must add up to.
    this.addSql(`create index hold_entries_account on hold_entries (tenant_id, account_id, hold_sequence)`);
    this.addSql(`create index hold_entries_open on hold_entries (tenant_id, account_id, currency) where remaining > 0`);

    // Events that change a hold or reverse a transaction (`of`: its id), numbered from 1, without gaps. Two writers that read the same number
    // before can't both take the next.
    this.addSql(`create table parts (
      tenant_id uuid not null,
      of uuid not null,
      number integer not null check (number > 0),
      sequence positive not null,
      primary key (tenant_id, of, number)
    )`);
  }

  private createDefinitions(): void {
    this.addSql(`create table definitions (
      tenant_id uuid not null,
      kind text not null check (kind in ('limit', 'monitor', 'template', 'schedule')),
      id text collate "C" not null,
      version positive not null,
      record text not null,
      primary key (tenant_id, kind, id)
    )`);
    // What a limit has counted, by account or group: live steps as JSON text, oldest first: [start in milliseconds, minor units, count].
    this.addSql(`create table velocity (
      tenant_id uuid not null,
      limit_id text collate "C" not null,
      subject text collate "C" not null,
      steps text not null,
      primary key (tenant_id, limit_id, subject)
    )`);
  }
}
