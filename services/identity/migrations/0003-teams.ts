// Roles, access keys of members, invitations, mail, second factors, identity providers, states of tenants, audit logs.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class Teams extends Migration {
  override up(): void {
    this.users();
    this.tenants();
    this.mail();
    this.identityProviders();
    this.audit();
  }

  private users(): void {
    // Users that come from an identity provider have no password. Secrets of second factors are encrypted; `totp_step` is the last one used.
    this.addSql(`alter table users alter password_hash drop not null, add email_verified_at timestamptz, add totp_secret text,
      add totp_pending text, add totp_step bigint`);
    // Set where a new password ended the session: its access tokens are rejected, which a logout leaves alone.
    this.addSql('alter table sessions add ended_at timestamptz');
    // A new password ends all sessions of a user.
    this.addSql('create index sessions_user on sessions (user_id)');

    this.addSql(`create table recovery_codes (
      user_id uuid not null references users,
      hash text collate "C" not null check (length(hash) = 64),
      spent_at timestamptz,
      primary key (user_id, hash)
    )`);
  }

  private tenants(): void {
    this.addSql('alter table tenants drop constraint tenants_status_check');
    // The default is for processes of the version before that are still running.
    this.addSql(`alter table tenants add constraint tenants_status_check check (status in ('active', 'suspended', 'closed')),
      add require_totp boolean not null default false, add delete_at timestamptz,
      add constraint tenants_delete_at_check check ((delete_at is not null) = (status = 'closed'))`);
    this.addSql('alter table memberships drop constraint memberships_role_check');
    // Forced row-level security shows the owner no row either.
    this.addSql('alter table memberships no force row level security');
    this.addSql(`update memberships set role = 'viewer' where role = 'member'`);
    this.addSql('alter table memberships force row level security');
    this.addSql(`alter table memberships add constraint memberships_role_check check (role in ('owner', 'admin', 'accountant', 'viewer'))`);

    // A key with a member is an access key: it acts for that user.
    this.addSql('alter table api_keys add member_id uuid, drop constraint api_keys_scopes_check');
    this
      .addSql(`alter table api_keys add constraint api_keys_scopes_check check (cardinality(scopes) > 0 and scopes <@ array['accounts:read',
      'accounts:write', 'balances:read', 'transactions:read', 'transactions:write', 'webhooks:manage', 'reports:read', 'limits:override',
      'periods:close', 'periods:reopen', 'reconciliations:manage', 'personal:read', 'personal:manage'])`);
    // A member's access keys, to end and to delete them.
    this.addSql('create index api_keys_member on api_keys (tenant_id, member_id) where member_id is not null');
    const key = `(select nullif(current_setting('app.key_id', true), '')::uuid)`;
    this.addSql(`create policy of_key on memberships for select using (
      (tenant_id, user_id) in (select k.tenant_id, k.member_id from api_keys k where k.id = ${key}))`);

    this.addSql(`create table invitations (
      tenant_id uuid not null references tenants,
      id uuid not null,
      email text not null check (length(email) <= 254),
      role text not null check (role in ('owner', 'admin', 'accountant', 'viewer')),
      invited_by uuid not null,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      accepted_at timestamptz,
      revoked_at timestamptz,
      primary key (tenant_id, id)
    )`);
    // One that is open, by address: a new one replaces it.
    this.addSql(`create index invitations_email on invitations (tenant_id, lower(email)) where accepted_at is null and revoked_at is null`);
    for (const statement of tenantPolicy('invitations')) this.addSql(statement);

    // What has been and will be deleted, without row-level security, because the job that deletes knows no tenant. What stays of a deleted tenant:
    // sequence and hash are those of the end of its log. The next attempt is also the end of a lease.
    this.addSql(`create table closings (
      tenant_id uuid primary key,
      slug text collate "C" not null references slugs,
      delete_at timestamptz not null,
      next_attempt_at timestamptz not null,
      started_at timestamptz,
      sequence bigint,
      hash text collate "C",
      deleted_at timestamptz
    )`);
    this.addSql('create index closings_due on closings (next_attempt_at) where deleted_at is null');
  }

  private mail(): void {
    // Written with the change that causes it. `data`: what the template needs, as JSON; never a token.
    this.addSql(`create table mails (
      id uuid primary key,
      kind text not null check (kind in ('verification', 'reset', 'invitation')),
      email text not null check (length(email) <= 254),
      user_id uuid,
      tenant_id uuid,
      invitation_id uuid,
      data text not null,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      next_attempt_at timestamptz not null,
      attempts integer not null,
      sent_at timestamptz,
      failed_at timestamptz,
      check ((kind = 'invitation') = (tenant_id is not null and invitation_id is not null))
    )`);
    // The next mails to send.
    this.addSql('create index mails_due on mails (next_attempt_at) where sent_at is null and failed_at is null');
    // The limit of mails to an address.
    this.addSql('create index mails_email on mails (lower(email), created_at)');
    // The retention job.
    this.addSql('create index mails_expiry on mails (expires_at)');

    // The token of a mail, made when it is sent: a further attempt makes a further one.
    this.addSql(`create table mail_tokens (
      hash text collate "C" primary key check (length(hash) = 64),
      mail_id uuid not null references mails on delete cascade,
      created_at timestamptz not null,
      spent_at timestamptz
    )`);
    this.addSql('create index mail_tokens_mail on mail_tokens (mail_id)');
  }

  private identityProviders(): void {
    this.addSql(`create table oidc_identities (
      issuer text collate "C" not null,
      subject text collate "C" not null,
      provider text collate "C" not null,
      user_id uuid not null references users,
      created_at timestamptz not null,
      primary key (issuer, subject)
    )`);
    this.addSql(`create table oidc_codes (
      hash text collate "C" primary key check (length(hash) = 64),
      provider text collate "C" not null,
      issuer text collate "C" not null,
      subject text collate "C" not null,
      email text not null check (length(email) <= 254),
      email_verified boolean not null,
      first_name text not null,
      last_name text not null,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      spent_at timestamptz
    )`);
    // The retention job.
    this.addSql('create index oidc_codes_expiry on oidc_codes (expires_at)');
  }

  private audit(): void {
    const entry = `id uuid not null,
      type text not null,
      actor text,
      subject text,
      address text,
      user_agent text,
      created_at timestamptz not null,
      data text not null,
      previous_hash text collate "C" not null check (length(previous_hash) = 64),
      hash text collate "C" not null check (length(hash) = 64)`;
    this.addSql(`create table tenant_audit (
      tenant_id uuid not null references tenants,
      sequence bigint not null check (sequence > 0),
      ${entry},
      primary key (tenant_id, sequence)
    )`);
    for (const statement of tenantPolicy('tenant_audit')) this.addSql(statement);
    // Deletes at most so many entries and returns how many. As the owner, because the service's role deletes none.
    this.addSql(`create function delete_tenant_audit(tenant uuid, max_rows bigint) returns bigint language plpgsql security definer
        set search_path = public, pg_temp
      as $$
        declare
          deleted bigint;
        begin
          perform set_config('app.tenants', array[tenant]::text, true);
          delete from tenant_audit where ctid = any (array(select ctid from tenant_audit where tenant_id = tenant limit max_rows))
            and exists (select from closings c where c.tenant_id = tenant and c.started_at is not null);
          get diagnostics deleted = row_count;
          return deleted;
        end $$`);
    this.addSql('revoke execute on function delete_tenant_audit from public');
    this.addSql(`create table user_audit (
      user_id uuid not null references users,
      sequence bigint not null check (sequence > 0),
      ${entry},
      primary key (user_id, sequence)
    )`);
    // The retention job.
    this.addSql('create index user_audit_time on user_audit (created_at)');
  }
}
