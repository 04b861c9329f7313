// API keys: created and revoked by the owners of a tenant, verified for every request.
import { LockMode, type EntityManager, type MikroORM } from '@mikro-orm/postgresql';
import { cutPage } from '../platform/cursor.ts';
import { toId, toUuid, uuidAt } from '../platform/ids.ts';
import { retryStaleConnection } from '../platform/postgres-errors.ts';
import { withClient, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { foldScopes, hashOf, idOfKeyText, newKeyText, sameHash, unknownScope } from './credentials.ts';
import { databaseNow, entityManager } from './database.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';
import { ApiKey, type ApiKeyRow } from './entities.ts';
import { roleOf, tenantUuid, type Page } from './tenants.ts';

// The last moment that every date library and PostgreSQL agree on.
const endOfTimeMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const maxOverlapSeconds = 30 * 86_400;

/** A new key. */
export interface IssuedKey {
  row: ApiKeyRow;
  /** Its secret text, which is not stored. */
  text: string;
}

/** The fields of a new key. */
export interface NewKey {
  userId: string;
  tenantId: string;
  name: string;
  scopes: string[];
  description?: string | undefined;
  expiresMs?: bigint | undefined;
}

/** Creates a key; each call creates another. Throws `validation_failed`, `tenant_not_found`, `forbidden`. */
export async function createKey(orm: MikroORM, given: NewKey): Promise<IssuedKey> {
  const tenant = tenantUuid(given.tenantId);
  const name = field.text('name', given.name, 255);
  const scopes = checkedScopes(given.scopes);
  const description = field.optionalText('description', given.description, 1000);
  return asOwner(orm, tenant, given.userId, async (em, user) => {
    const nowMs = await databaseNow(em);
    const expiresAt = checkedExpiry(given.expiresMs, nowMs);
    return issue(em, { tenantId: tenant, createdBy: user, name, scopes, description, expiresAt }, nowMs);
  });
}

/** The keys of a tenant, revoked ones too. Throws `validation_failed`, `tenant_not_found`. */
export async function listKeys(
  orm: MikroORM,
  given: { userId: string; tenantId: string; limit: number; cursor: string },
): Promise<Page<ApiKeyRow>> {
  const tenantId = tenantUuid(given.tenantId);
  const size = field.pageSize(given.limit);
  const after = field.afterCursor(['api keys', tenantId], given.cursor);
  return entityManager(orm, { tenant: tenantId }).transactional(async (em) => {
    await roleOf(em, tenantId, given.userId);
    const where = after === null ? { tenantId } : { tenantId, id: { $lt: after } };
    const found = await em.find(ApiKey, where, { orderBy: { id: 'desc' }, limit: size + 1 });
    return cutPage(found, size, ['api keys', tenantId], (key) => key.id);
  });
}

/** A key of a tenant, and the user of the call. */
export interface KeyReference {
  userId: string;
  tenantId: string;
  keyId: string;
}

/** Revokes a key; a second call changes nothing. Throws `tenant_not_found`, `forbidden`, `key_not_found`. */
export async function revokeKey(orm: MikroORM, reference: KeyReference): Promise<void> {
  const tenantId = tenantUuid(reference.tenantId);
  await asOwner(orm, tenantId, reference.userId, async (em) => {
    const key = await keyToChange(em, tenantId, reference.keyId);
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id, revokedAt: null }, { revokedAt: new Date(await databaseNow(em)) });
  });
}

/**
 * Creates a successor with the name, scopes, description and expiry of a key. The key itself ends after the overlap or at its expiry; without
 * overlap it is revoked. Throws `validation_failed`, `tenant_not_found`, `forbidden`, and `key_not_found` also for a key that has ended.
 */
export async function rotateKey(
  orm: MikroORM,
  reference: KeyReference,
  overlapSeconds = 86_400,
): Promise<IssuedKey & { previous: ApiKeyRow }> {
  const tenantId = tenantUuid(reference.tenantId);
  const overlap = field.integer('overlap_seconds', overlapSeconds, 0, maxOverlapSeconds);
  return asOwner(orm, tenantId, reference.userId, async (em, user) => {
    const key = await keyToChange(em, tenantId, reference.keyId);
    const nowMs = await databaseNow(em);
    if (key.revokedAt || isPast(expiryOf(key), nowMs)) throw unknownKey();
    const retiresAt = new Date(Math.min(nowMs + overlap * 1000, key.retiresAt?.getTime() ?? Infinity));
    // Revoked, it stays invalid also where the clock is set back.
    const end = { retiresAt, ...(overlap === 0 && { revokedAt: new Date(nowMs) }) };
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id }, end);
    const { name, scopes, description, expiresAt } = key;
    const fields = { tenantId, createdBy: user, name, scopes, description: description ?? null, expiresAt: expiresAt ?? null };
    const issued = await issue(em, fields, nowMs);
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
  scopes: string[];
  expiresMs: bigint | null;
}

type VerifiedRow = Omit<VerifiedKey, 'keyId'> & { hash: string };

/** The key of a text; null where it is unknown, revoked or expired. One round trip, and none for garbage, which the checksum reveals. */
export async function verifyKey(pool: Pool, text: string): Promise<VerifiedKey | null> {
  const uuid = toUuid('key', idOfKeyText(text) ?? '');
  const found = uuid === null ? undefined : await retryStaleConnection(() => validKey(pool, uuid));
  if (uuid === null || !found || !sameHash(found.hash, hashOf(text))) return null;
  const { tenantId, tenantSlug, scopes, expiresMs } = found;
  return { keyId: toId('key', uuid), tenantId: toId('tenant', tenantId), tenantSlug, scopes, expiresMs };
}

async function validKey(pool: Pool, id: string): Promise<VerifiedRow | undefined> {
  const statements = (client: Client) =>
    [
      client.query('begin read only'),
      client.query({ name: 'key_set', text: `select set_config('app.key_id', $1, true)`, values: [id] }),
      client.query<VerifiedRow>({
        name: 'key_verify',
        text: `select k.tenant_id as "tenantId", t.slug as "tenantSlug", k.scopes, k.hash,
            floor(extract(epoch from least(k.expires_at, k.retires_at)) * 1000)::int8 as "expiresMs"
          from api_keys k join tenants t on t.tenant_id = k.tenant_id
          where k.id = $1 and k.revoked_at is null and (least(k.expires_at, k.retires_at) > now()) is not false`,
        values: [id],
      }),
      client.query('commit'),
    ] as const;
  const [, , { rows }] = await withClient(pool, (client) => Promise.all(sendTogether(client, () => statements(client))));
  return rows[0];
}

/** Runs a transaction of one tenant for one of its owners. */
async function asOwner<Result>(
  orm: MikroORM,
  tenant: string,
  userId: string,
  work: (em: EntityManager, user: string) => Promise<Result>,
): Promise<Result> {
  return entityManager(orm, { tenant }).transactional(async (em) => {
    const role = await roleOf(em, tenant, userId);
    if (role !== 'owner') throw new Refusal('forbidden', 'only an owner of the tenant may do this');
    return work(em, toUuid('user', userId) ?? '');
  });
}

type KeyFields = Required<Pick<ApiKeyRow, 'tenantId' | 'createdBy' | 'name' | 'scopes' | 'description' | 'expiresAt'>>;

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

/** Locks the key, so that of two changes at once the second sees the first. */
async function keyToChange(em: EntityManager, tenantId: string, keyId: string): Promise<ApiKeyRow> {
  const id = field.uuidOf('key', keyId, unknownKey);
  const key = await em.findOne(ApiKey, { tenantId, id }, { lockMode: LockMode.PESSIMISTIC_WRITE });
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
