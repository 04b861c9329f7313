// What identity's database holds: its migrations by name, its tables as entities. Rules of the data are constraints of the migrations.
import { defineEntity, type InferEntity } from '@mikro-orm/core';

/** Migrations, oldest first; the service refuses to start on a database that lacks one. Only `migrate` loads them. */
export const migrationNames = ['0001-users-tenants-keys', '0002-verify-many-keys', '0003-forget-refresh-tokens'];

/** Tables whose rows the service's role may add and read, but neither change nor delete. */
export const appendOnly = ['slugs'];

export const User = defineEntity({
  name: 'User',
  tableName: 'users',
  properties: (p) => ({
    id: p.uuid().primary(),
    email: p.text(),
    firstName: p.text(),
    lastName: p.text(),
    status: p.text(),
    passwordHash: p.text(),
    createdAt: p.datetime(),
  }),
});

/** The family of refresh tokens that began with one login. */
export const Session = defineEntity({
  name: 'Session',
  tableName: 'sessions',
  properties: (p) => ({
    id: p.uuid().primary(),
    userId: p.uuid(),
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    revokedAt: p.datetime().strictNullable(),
  }),
});

export const RefreshToken = defineEntity({
  name: 'RefreshToken',
  tableName: 'refresh_tokens',
  properties: (p) => ({
    hash: p.text().primary(),
    sessionId: p.uuid(),
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    spentAt: p.datetime().strictNullable(),
  }),
});

/** Which slugs are taken, over all tenants. */
export const Slug = defineEntity({
  name: 'Slug',
  tableName: 'slugs',
  properties: (p) => ({
    slug: p.text().primary(),
    takenBy: p.uuid(),
  }),
});

export const Tenant = defineEntity({
  name: 'Tenant',
  tableName: 'tenants',
  properties: (p) => ({
    tenantId: p.uuid().primary(),
    name: p.text(),
    slug: p.text(),
    businessType: p.text(),
    description: p.text().strictNullable(),
    status: p.text(),
    createdAt: p.datetime(),
  }),
});

export const Membership = defineEntity({
  name: 'Membership',
  tableName: 'memberships',
  properties: (p) => ({
    tenantId: p.uuid().primary(),
    userId: p.uuid().primary(),
    role: p.text(),
    createdAt: p.datetime(),
  }),
});

export const ApiKey = defineEntity({
  name: 'ApiKey',
  tableName: 'api_keys',
  properties: (p) => ({
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    name: p.text(),
    description: p.text().strictNullable(),
    scopes: p.array().columnType('text[]'),
    hash: p.text(),
    last4: p.text().fieldName('last4'),
    createdAt: p.datetime(),
    createdBy: p.uuid(),
    expiresAt: p.datetime().strictNullable(),
    retiresAt: p.datetime().strictNullable(),
    revokedAt: p.datetime().strictNullable(),
  }),
});

export type UserRow = InferEntity<typeof User>;
export type TenantRow = InferEntity<typeof Tenant>;
export type ApiKeyRow = InferEntity<typeof ApiKey>;

export const entities = [User, Session, RefreshToken, Slug, Tenant, Membership, ApiKey];
