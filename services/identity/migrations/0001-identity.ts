// The schema: users and their sessions, tenants, memberships, API keys. Row-level security binds tenants' tables to the transaction's tenants.
import { Migration } from '@mikro-orm/migrations';
import { tenantPolicy } from '../../platform/postgres.ts';

export class Identity extends Migration {
  override up(): void {
    this.addSql(`create table users (
      id uuid primary key,
      email text not null check (length(email) <= 254),
      first_name text not null,
      last_name text not null,
      status text not null check (status in ('active')),
      password_hash text not null check (password_hash like '$argon2id$%'),
      created_at timestamptz not null
    )`);
    // Registration and login; addresses that differ in case are one address.
    this.addSql('create unique index users_email on users (lower(email))');

    this.addSql(`create table sessions (
      id uuid primary key,
      user_id uuid not null references users,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      revoked_at timestamptz
    )`);
    // The retention job.
    this.addSql('create index sessions_expiry on sessions (expires_at)');

    this.addSql(`create table refresh_tokens (
      hash text collate "C" primary key check (length(hash) = 64),
      session_id uuid not null references sessions on delete cascade,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      spent_at timestamptz
    )`);
    // The foreign key's cascade, and the retention job.
    this.addSql('create index refresh_tokens_session on refresh_tokens (session_id)');
    this.addSql('create index refresh_tokens_expiry on refresh_tokens (expires_at)');

    // The account is a hash: a client may send a password as the email.
    this.addSql(`create table login_failures (
      address text collate "C" not null,
      account bytea not null check (octet_length(account) = 32),
      failed_at timestamptz not null
    )`);
    // Without a key, logical replication needs the whole row to delete it.
    this.addSql('alter table login_failures replica identity full');
    // The throttle: all recent failures of an address.
    this.addSql('create index login_failures_address on login_failures (address, failed_at)');
    // The retention job.
    this.addSql('create index login_failures_time on login_failures (failed_at)');

    // A directory over all tenants, without row-level security: it reveals only that a slug is taken, as the API does.
    this.addSql(`create table slugs (
      slug text collate "C" primary key check (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$' and length(slug) between 3 and 63),
      taken_by uuid not null,
      unique (taken_by, slug)
    )`);

    // The foreign key: no tenant has a slug that is not in the directory.
    this.addSql(`create table tenants (
      tenant_id uuid primary key,
      name text not null,
      slug text collate "C" not null,
      business_type text not null check (business_type in ('wallet', 'exchange', 'lending', 'payment_processor', 'other')),
      description text,
      status text not null check (status in ('active')),
      created_at timestamptz not null,
      foreign key (tenant_id, slug) references slugs (taken_by, slug)
    )`);

    // No foreign key to users: they belong to no tenant, and are never deleted.
    this.addSql(`create table memberships (
      tenant_id uuid not null references tenants,
      user_id uuid not null,
      role text not null check (role in ('owner', 'member')),
      created_at timestamptz not null,
      primary key (tenant_id, user_id)
    )`);
    // The tenants of a user, newest first.
    this.addSql('create index memberships_user on memberships (user_id, tenant_id)');

    this.addSql(`create table api_keys (
      tenant_id uuid not null references tenants,
      id uuid not null,
      name text not null,
      description text,
      scopes text[] not null check (cardinality(scopes) > 0 and scopes <@ array['accounts:read', 'accounts:write', 'balances:read',
        'transactions:read', 'transactions:write', 'webhooks:manage', 'reports:read']),
      hash text collate "C" not null check (length(hash) = 64),
      last4 text not null,
      created_at timestamptz not null,
      created_by uuid not null,
      expires_at timestamptz,
      retires_at timestamptz,
      revoked_at timestamptz,
      primary key (tenant_id, id)
    )`);
    // Verification knows the key's id only. Not unique: a unique key must begin with tenant_id.
    this.addSql('create index api_keys_id on api_keys (id)');

    for (const table of ['tenants', 'memberships', 'api_keys']) {
      for (const statement of tenantPolicy(table)) this.addSql(statement);
    }
    // These look-ups come before the tenant is known. Each sees only what it asks for, and changes nothing.
    const user = `(select nullif(current_setting('app.user_id', true), '')::uuid)`;
    const key = `(select nullif(current_setting('app.key_id', true), '')::uuid)`;
    this.addSql(`create policy of_user on memberships for select using (user_id = ${user})`);
    this.addSql(`create policy of_user on tenants for select using (
      tenant_id in (select m.tenant_id from memberships m where m.user_id = ${user}))`);
    this.addSql(`create policy of_key on api_keys for select using (id = ${key})`);
    this.addSql(`create policy of_key on tenants for select using (
      tenant_id in (select k.tenant_id from api_keys k where k.id = ${key}))`);
  }
}
