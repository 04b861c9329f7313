// The tables as entities: ids are UUIDs without prefix, times are by the database's clock. The migrations hold the constraints.
import { defineEntity, type InferEntity } from '@mikro-orm/core';
import type { Role } from '../platform/roles.ts';

/**
 * A person who can log in; never deleted. `email` is stored in Unicode form NFC and unique without regard to case; `passwordHash` is a PHC string of
 * argon2id, null for a user that logs in with an identity provider only. `totpSecret`: the second factor, encrypted, null where it is off;
 * `totpPending`: one that is not confirmed yet; `totpStep`: the last step of 30 s whose code was used.
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
    passwordHash: p.text().strictNullable(),
    emailVerifiedAt: p.datetime().strictNullable(),
    totpSecret: p.text().strictNullable(),
    totpPending: p.text().strictNullable(),
    totpStep: p.bigint('string').strictNullable(),
    createdAt: p.datetime(),
  }),
});

/**
 * The family of refresh tokens that began with one login. It ends at `expiresAt`, when its newest token expires, or at `revokedAt` (null: not
 * revoked), and is deleted some time later. `endedAt`: a new password ended it, so that its access tokens are rejected too.
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
    endedAt: p.datetime().strictNullable(),
  }),
});

/**
 * A refresh token of a session, by the SHA-256 (hex) of its text, which is not stored. Valid once, before `expiresAt`; `spentAt` is null until
 * then. Deleted some time after it has expired.
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

/** A slug, unique over all tenants and never released; `takenBy`: the tenant's UUID. */
export const Slug = defineEntity({
  name: 'Slug',
  tableName: 'slugs',
  properties: (p) => ({
    slug: p.text().primary(),
    takenBy: p.uuid(),
  }),
});

/** An organization with a ledger of its own. `slug` names it in paths; `deleteAt`: when a closed tenant is deleted. */
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
    requireTotp: p.boolean(),
    deleteAt: p.datetime().strictNullable(),
  }),
});

/** A user's membership in a tenant; `role`: one of `roles`. */
export const Membership = defineEntity({
  name: 'Membership',
  tableName: 'memberships',
  properties: (p) => ({
    tenantId: p.uuid().primary(),
    userId: p.uuid().primary(),
    role: p.text().$type<Role>(),
    createdAt: p.datetime(),
  }),
});

/**
 * A tenant's API key, ended ones too. `hash`: the SHA-256 (hex) of its text, which is not stored, `last4`: the end of that text; `createdBy`: a
 * user's UUID; `memberId`: the user for whom an access key acts, null for other keys. It ends at the first of `expiresAt` (as requested),
 * `retiresAt` (after a rotation) and `revokedAt`; null: never.
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
    memberId: p.uuid().strictNullable(),
  }),
});

/** Asks a person by mail to become a member with a role. It is open until it is accepted, revoked or expired. */
export const Invitation = defineEntity({
  name: 'Invitation',
  tableName: 'invitations',
  properties: (p) => ({
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    email: p.text(),
    role: p.text().$type<Role>(),
    invitedBy: p.uuid(),
    createdAt: p.datetime(),
    expiresAt: p.datetime(),
    acceptedAt: p.datetime().strictNullable(),
    revokedAt: p.datetime().strictNullable(),
  }),
});

/** A row of `users`. */
export type UserRow = InferEntity<typeof User>;
/** A row of `tenants`. */
export type TenantRow = InferEntity<typeof Tenant>;
/** A row of `memberships`. */
export type MembershipRow = InferEntity<typeof Membership>;
/** A row of `invitations`. */
export type InvitationRow = InferEntity<typeof Invitation>;
/** A row of `api_keys`. */
export type ApiKeyRow = InferEntity<typeof ApiKey>;

/** All of them, for MikroORM. */
export const entities = [User, Session, RefreshToken, Slug, Tenant, Membership, ApiKey, Invitation];
