// What identity's database holds: its tables as entities. Rules of the data are constraints of the migrations. Ids are UUIDs without their
// prefixes. Times are `timestamptz` by the database's clock, `Date`s (milliseconds) in code.
import { defineEntity, type InferEntity } from '@mikro-orm/core';

/**
 * Somebody who may log in, of no tenant by himself; never deleted. `email` as it was registered, one user's in any case of its letters;
 * `passwordHash` as Argon2id encodes it, with its parameters.
 */
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

/**
 * The family of refresh tokens that began with one login: it lives until `expiresAt`, when its newest token expires, or until `revokedAt`; null:
 * not revoked. Forgotten some time after it has expired.
 */
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

/**
 * A refresh token of a session, by the SHA-256 (hex) of its text, which is kept nowhere. Good once, before `expiresAt`; `spentAt`: when it was
 * used, null: not yet. Forgotten some time after it has expired.
 */
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

/** A slug that is taken, over all tenants, and for good; `takenBy`: the tenant's UUID. */
export const Slug = defineEntity({
  name: 'Slug',
  tableName: 'slugs',
  properties: (p) => ({
    slug: p.text().primary(),
    takenBy: p.uuid(),
  }),
});

/** An organization with a ledger of its own. `slug` is what paths name it by. */
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

/** A user's place in a tenant; `role`: `owner` or `member`. */
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

/**
 * A tenant's API key, ended ones too. `hash`: the SHA-256 (hex) of its text, which is kept nowhere, `last4`: the end of that text; `createdBy`:
 * a user's UUID. It ends at the first of `expiresAt` (as its maker asked), `retiresAt` (of a key that was rotated) and `revokedAt`; null: not by
 * that.
 */
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

/** A row of `users`. */
export type UserRow = InferEntity<typeof User>;
/** A row of `tenants`. */
export type TenantRow = InferEntity<typeof Tenant>;
/** A row of `api_keys`. */
export type ApiKeyRow = InferEntity<typeof ApiKey>;

/** All of them, for MikroORM. */
export const entities = [User, Session, RefreshToken, Slug, Tenant, Membership, ApiKey];
