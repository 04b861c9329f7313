// API keys: created and revoked by owners and admins of a tenant, verified for every request.
import { type EntityManager, type MikroORM } from '@mikro-orm/postgresql';
import { cutPage, type Page } from '../platform/cursor.ts';
import { toId, toUuid, uuidAt } from '../platform/ids.ts';
import { scopesOf, type Role } from '../platform/roles.ts';
import { retryStaleConnection } from '../platform/postgres-errors.ts';
import { withClient, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { foldScopes, hashOf, idOfKeyText, newKeyText, sameHash, unknownScope } from './credentials.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';
import { ApiKey, type ApiKeyRow } from './entities.ts';
import { lockSession } from './sessions.ts';
import { changeTenant, readTenant, type TenantCall, type TenantMember, type TenantRule, tenantUuid } from './tenant-changes.ts';

// The last moment that every date library and PostgreSQL agree on.
const endOfTimeMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const maxOverlapSeconds = 30 * 86_400;
const accessSeconds = 3600;

const manageKeys: TenantRule = { role: 'admin' };

/** A new key. */
export interface IssuedKey {
  row: ApiKeyRow;
  /** Its secret text, which is not stored. */
  text: string;
}

/** An access key. */
export interface AccessKey {
  /** Its secret text, which is not stored. */
  key: string;
  scopes: string[];
  expiresMs: bigint;
}

/** The fields of a new key. */
export interface NewKey extends TenantCall {
  name: string;
  scopes: string[];
  description?: string | undefined;
  expiresMs?: bigint | undefined;
}

/** Creates a key; each call creates another. Throws `validation_failed` and as {@link changeTenant}. */
export async function createKey(orm: MikroORM, given: NewKey): Promise<IssuedKey> {
  const name = field.text('name', given.name, 255);
  const scopes = checkedScopes(given.scopes);
  const description = field.optionalText('description', given.description, 1000);
  return changeTenant(orm, given, manageKeys, async ({ em, tenant, user, nowMs, audit }) => {
    const expiresAt = checkedExpiry(given.expiresMs, nowMs);
    const { tenantId } = tenant;
    const issued = await issue(em, { tenantId, createdBy: user, memberId: null, name, scopes, description, expiresAt }, nowMs);
    await audit({ type: 'api_key.created', subject: toId('key', issued.row.id), data: { name, scopes } });
    return issued;
  });
}

/**
 * Creates an access key: an API key for one hour that acts for the member, with these scopes or all of its role. Each call creates another. Throws
 * `validation_failed`, `forbidden` for a scope that the role lacks, `unauthenticated` for a session that has ended, and as
 * {@link changeTenant}.
 */
export async function createAccess(orm: MikroORM, given: TenantCall & { scopes: string[]; sessionId: string }): Promise<AccessKey> {
  const asked = given.scopes.length === 0 ? null : checkedScopes(given.scopes);
  return changeTenant(orm, given, { role: 'viewer' }, async ({ em, tenant: { tenantId }, user, role, nowMs, audit }) => {
    await lockSession(em, given.userId, given.sessionId);
    const allowed = scopesOf(role);
    const lacking = asked?.find((scope) => !allowed.some((each) => each === scope));
    if (lacking !== undefined) throw new Refusal('forbidden', `the role ${role} lacks the scope ${lacking}`);
    const scopes = asked ?? [...allowed];
    // They are made every hour, and the audit log keeps their trace.
    await em.nativeDelete(ApiKey, { tenantId, memberId: user, expiresAt: { $lt: new Date(nowMs) } });
    const expiresAt = new Date(nowMs + accessSeconds * 1000);
    const fields = { tenantId, createdBy: user, memberId: user, name: 'access', scopes, description: null, expiresAt };
    const issued = await issue(em, fields, nowMs);
    await audit({ type: 'access.created', subject: toId('key', issued.row.id), data: { scopes } });
    return { key: issued.text, scopes, expiresMs: BigInt(expiresAt.getTime()) };
  });
}

/** The keys of a tenant, revoked ones too, but no access keys. Throws `validation_failed` and as {@link readTenant}. */
export async function listKeys(orm: MikroORM, given: TenantCall & field.PageRequest): Promise<Page<ApiKeyRow>> {
  const tenantId = tenantUuid(given.tenantId);
  const size = field.pageSize(given.limit);
  const after = field.afterCursor(['api keys', tenantId], given.cursor);
  return readTenant(orm, given, { role: 'viewer' }, async (em) => {
    const where = { tenantId, memberId: null, ...(after !== null && { id: { $lt: after } }) };
    const found = await em.find(ApiKey, where, { orderBy: { id: 'desc' }, limit: size + 1 });
    return cutPage(found, size, ['api keys', tenantId], (key) => key.id);
  });
}

/** A key of a tenant, and the user of the call. */
export interface KeyReference extends TenantCall {
  keyId: string;
}

/** Revokes a key; a second call changes nothing. Throws `key_not_found` and as {@link changeTenant}. */
export async function revokeKey(orm: MikroORM, reference: KeyReference): Promise<void> {
  await changeTenant(orm, reference, manageKeys, async ({ em, tenant: { tenantId }, nowMs, audit }) => {
    await revoke(em, await keyToChange(em, tenantId, reference.keyId), nowMs, audit);
  });
}

/** Revokes a key of a tenant that is locked, unless it is revoked already; returns whether it was not. */
export async function revoke(em: EntityManager, key: ApiKeyRow, nowMs: number, audit: TenantMember['audit']): Promise<boolean> {
  if (key.revokedAt) return false;
  await em.nativeUpdate(ApiKey, { tenantId: key.tenantId, id: key.id }, { revokedAt: new Date(nowMs) });
  const type = key.memberId === null ? 'api_key.revoked' : 'access.revoked';
  await audit({ type, subject: toId('key', key.id), data: { name: key.name } });
  return true;
}

/**
 * Creates a successor with the name, scopes, description and expiry of a key. The key itself ends after the overlap or at its expiry; without
 * overlap it is revoked. Throws `validation_failed`, `key_not_found`, also for a key that has ended, and as {@link changeTenant}.
 */
export async function rotateKey(
  orm: MikroORM,
  reference: KeyReference,
  overlapSeconds = 86_400,
): Promise<IssuedKey & { previous: ApiKeyRow }> {
  const overlap = field.integer('overlap_seconds', overlapSeconds, 0, maxOverlapSeconds);
  return changeTenant(orm, reference, manageKeys, async ({ em, tenant: { tenantId }, user, nowMs, audit }) => {
    const key = await keyToChange(em, tenantId, reference.keyId);
    if (key.revokedAt || isPast(expiryOf(key), nowMs)) throw unknownKey();
    const retiresAt = new Date(Math.min(nowMs + overlap * 1000, key.retiresAt?.getTime() ?? Infinity));
    // Revoked, it stays invalid also where the clock is set back.
    const end = { retiresAt, ...(overlap === 0 && { revokedAt: new Date(nowMs) }) };
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id }, end);
    const { name, scopes, description, expiresAt } = key;
    const fields = {
      tenantId,
      createdBy: user,
      memberId: null,
      name,
      scopes,
      description: description ?? null,
      expiresAt: expiresAt ?? null,
    };
    const issued = await issue(em, fields, nowMs);
    const data = { successor: toId('key', issued.row.id), overlap_seconds: overlap };
    await audit({ type: 'api_key.rotated', subject: toId('key', key.id), data });
    return { ...issued, previous: { ...key, ...end } };
  });
}

/** When a key ends, by its expiry or its rotation; null: never. */
export function expiryOf(key: { expiresAt?: Date | null; retiresAt?: Date | null }): Date | null {
  const { expiresAt = null, retiresAt = null } = key;
  if (!expiresAt || !retiresAt) return expiresAt ?? retiresAt;
  return expiresAt < retiresAt ? expiresAt : retiresAt;
}

/** A valid key and its tenant. */
export interface VerifiedKey {
  keyId: string;
  tenantId: string;
  tenantSlug: string;
  tenantStatus: string;
  /** Who acts: the key's id, or the user's id for an access key. */
  actor: string;
  scopes: string[];
  expiresMs: bigint | null;
}

type VerifiedRow = Omit<VerifiedKey, 'keyId' | 'actor'> & { hash: string; memberId: string | null; role: Role | null };

/** The key of a text; null where it is unknown, revoked or expired. One round trip, and none for garbage, which the checksum reveals. */
export async function verifyKey(pool: Pool, text: string): Promise<VerifiedKey | null> {
  const uuid = toUuid('key', idOfKeyText(text) ?? '');
  const found = uuid === null ? undefined : await retryStaleConnection(() => validKey(pool, uuid));
  if (uuid === null || !found || !sameHash(found.hash, hashOf(text))) return null;
  const { memberId, role, tenantSlug, tenantStatus, expiresMs } = found;
  const keyId = toId('key', uuid);
  const tenantId = toId('tenant', found.tenantId);
  const common = { keyId, tenantId, tenantSlug, tenantStatus, expiresMs };
  if (memberId === null) return { ...common, actor: keyId, scopes: found.scopes };
  // A change of the role ends access keys; this also holds where a later version gives a role fewer scopes.
  const scopes = role === null ? [] : found.scopes.filter((scope) => scopesOf(role).some((each) => each === scope));
  return scopes.length === 0 ? null : { ...common, actor: toId('user', memberId), scopes };
}

async function validKey(pool: Pool, id: string): Promise<VerifiedRow | undefined> {
  const statements = (client: Client) =>
    [
      client.query('begin read only'),
      client.query({ name: 'key_set', text: `select set_config('app.key_id', $1, true)`, values: [id] }),
      client.query<VerifiedRow>({
        name: 'key_verify',
        text: `select k.tenant_id as "tenantId", t.slug as "tenantSlug", t.status as "tenantStatus", k.scopes, k.hash,
            k.member_id as "memberId", m.role,
            floor(extract(epoch from least(k.expires_at, k.retires_at)) * 1000)::int8 as "expiresMs"
          from api_keys k join tenants t on t.tenant_id = k.tenant_id
          left join memberships m on m.tenant_id = k.tenant_id and m.user_id = k.member_id
          where k.id = $1 and k.revoked_at is null and (least(k.expires_at, k.retires_at) > now()) is not false`,
        values: [id],
      }),
      client.query('commit'),
    ] as const;
  const [, , { rows }] = await withClient(pool, (client) => Promise.all(sendTogether(client, () => statements(client))));
  return rows[0];
}

type KeyFields = Required<Pick<ApiKeyRow, 'tenantId' | 'createdBy' | 'memberId' | 'name' | 'scopes' | 'description' | 'expiresAt'>>;

async function issue(em: EntityManager, fields: KeyFields, nowMs: number): Promise<IssuedKey> {
  const id = uuidAt(nowMs);
  const text = newKeyText(toId('key', id));
  const row: ApiKeyRow = {
    ...fields,
    id,
    hash: hashOf(text),
    last4: text.slice(-4),
    createdAt: new Date(nowMs),
    retiresAt: null,
    revokedAt: null,
  };
  await em.insert(ApiKey, row);
  return { row, text };
}

/** A key of the tenant, which is locked; no access key. */
async function keyToChange(em: EntityManager, tenantId: string, keyId: string): Promise<ApiKeyRow> {
  const id = field.uuidOf('key', keyId, unknownKey);
  const key = await em.findOne(ApiKey, { tenantId, id, memberId: null });
  if (!key) throw unknownKey();
  return key;
}

function unknownKey(): Refusal {
  return new Refusal('key_not_found', 'API key not found');
}

function isPast(time: Date | null, nowMs: number): boolean {
  return time !== null && time.getTime() <= nowMs;
}

function checkedScopes(given: string[]): string[] {
  if (given.length === 0) throw field.invalid('scopes', 'min', 'needs at least one scope');
  const unknown = unknownScope(given);
  if (unknown >= 0) {
    throw field.invalid(`scopes[${unknown}]`, 'oneof', 'is not a scope', (given[unknown] ?? '').slice(0, 255));
  }
  return foldScopes(given);
}

function checkedExpiry(ms: bigint | undefined, nowMs: number): Date | null {
  if (ms === undefined) return null;
  if (ms > BigInt(endOfTimeMs)) throw field.invalid('expires_at', 'datetime', 'is beyond the year 9999', String(ms));
  if (ms <= BigInt(nowMs)) throw field.invalid('expires_at', 'gt', 'must be in the future', String(ms));
  return new Date(Number(ms));
}
