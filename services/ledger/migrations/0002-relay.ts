// How far each tenant's log has been published, and what could not be.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class Relay extends Migration {
  override up(): void {
    // Beside the head and never on it: the writer would wait for whoever relays. `sequence` is published; a claim is a lease, and what its
    // holder writes names it. `open_until` is the writer's word that there may be more than that; it says so once in ten minutes and not
    // with every posting (see marks.ts), and only then the index changes.
    this.addSql(`create table relay_marks (
      tenant_id uuid primary key,
      sequence bigint not null check (sequence >= 0),
      claim_id uuid,
      claimed_until timestamptz,
      open_until timestamptz,
      check ((claim_id is null) = (claimed_until is null))
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);
    // The poll for what other replicas have left.
    this.addSql(`create index relay_marks_open on relay_marks (tenant_id) where open_until is not null`);
    // A mark below what was published would publish again, one above would lose: it only rises.
    this.addSql(`create function relay_marks_must_rise() returns trigger language plpgsql as $$
      begin
        raise exception 'the mark of a tenant can not go back' using errcode = 'check_violation';
      end $$`);
    this.addSql(`create trigger relay_marks_must_rise before update on relay_marks
      for each row when (new.sequence < old.sequence) execute function relay_marks_must_rise()`);
    this.addSql(`insert into relay_marks (tenant_id, sequence, open_until) select tenant_id, 0, now() from heads`);

    // Events that the other side refused for themselves. The event itself stands in the log; `part` is its place among the events of one
    // posting. `due`: an operator wants it published again.
    this.addSql(`create table relay_dead_letters (
      tenant_id uuid not null,
      sequence bigint not null check (sequence > 0),
      part integer not null check (part >= 0),
      event_id uuid not null,
      type text not null,
      reason text not null,
      refused_at timestamptz not null default clock_timestamp(),
      refusals integer not null default 1,
      due boolean not null default false,
      claimed_until timestamptz,
      published_at timestamptz,
      primary key (tenant_id, sequence, part)
    )`);
    // What is counted for the alert, and what the relay looks for.
    this.addSql(`create index relay_dead_letters_left on relay_dead_letters (tenant_id, sequence, part) where published_at is null`);

    for (const table of ['relay_marks', 'relay_dead_letters']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
      // The relay looks for work across tenants: here, and nowhere else. What it reads of a log it reads as the tenants it has claimed.
      this.addSql(`create policy relay on ${table} using ((select current_setting('app.relay', true)) = 'on')
        with check ((select current_setting('app.relay', true)) = 'on')`);
      // The owner, who runs the operator's commands.
      this.addSql(`create policy operator on ${table} to current_user using (true) with check (true)`);
    }
  }
}
