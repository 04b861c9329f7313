// API keys: made and ended by the owners of a tenant, verified on the path of every call.
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { v7 as uuidv7 } from 'uuid';
import { toId, toUuid } from '../platform/ids.ts';
import { together, type Pool } from '../platform/postgres.ts';
import { foldScopes, hashOf, idOfKeyText, newKeyText, sameHash, unknownScope } from './credentials.ts';
import { clockOf, rows } from './database.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';
import { ApiKey, type ApiKeyRow } from './schema.ts';
import { page, roleOf, tenantUuid, type Page } from './tenants.ts';

// The last moment that every date library and PostgreSQL agree on.
const endOfTimeMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const maxOverlapSeconds = 30 * 86_400;

/** A key as it is answered once. */
export interface IssuedKey {
  row: ApiKeyRow;
  /** Its secret text. */
  text: string;
}

/** What a new key gives. */
export interface NewKey {
  userId: string;
  tenantId: string;
  name: string;
  scopes: string[];
  description?: string | undefined;
  expiresMs?: bigint | undefined;
}

/** Makes a key. Throws `validation_failed`, `tenant_not_found`, `forbidden`. */
export async function createKey(orm: MikroORM, given: NewKey): Promise<IssuedKey> {
  const tenant = tenantUuid(given.tenantId);
  const name = field.text('name', given.name, 255);
  const scopes = checkedScopes(given.scopes);
  const description = field.optionalText('description', given.description, 1000);
  return asOwner(orm, tenant, given.userId, async (em, user) => {
    const nowMs = await clockOf(em);
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
  const after = field.afterCursor('api keys', given.cursor);
  return rows(orm, { tenant: tenantId }).transactional(async (em) => {
    await roleOf(em, tenantId, given.userId);
    const where = after === null ? { tenantId } : { tenantId, id: { $lt: after } };
    const found = await em.find(ApiKey, where, { orderBy: { id: 'desc' }, limit: size + 1 });
    return page('api keys', found, size, (key) => key.id);
  });
}

/** Which key of which tenant, and who asks. */
export interface KeyPlace {
  userId: string;
  tenantId: string;
  keyId: string;
}

/** Ends a key; one that is ended already stays so. Throws `tenant_not_found`, `forbidden`, `key_not_found`. */
export async function revokeKey(orm: MikroORM, place: KeyPlace): Promise<void> {
  const tenantId = tenantUuid(place.tenantId);
  await asOwner(orm, tenantId, place.userId, async (em) => {
    const key = await keyOf(em, tenantId, place.keyId);
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id, revokedAt: null }, { revokedAt: new Date(await clockOf(em)) });
  });
}

/**
 * Makes a successor with the name, scopes, description and expiry of a key, which itself ends after the overlap (or earlier, where it
 * would have expired). Throws `validation_failed`, `tenant_not_found`, `forbidden`, and `key_not_found` also for a key that has ended.
 */
export async function rotateKey(orm: MikroORM, place: KeyPlace, overlapSeconds = 86_400): Promise<IssuedKey & { previous: ApiKeyRow }> {
  const tenantId = tenantUuid(place.tenantId);
  const overlap = field.integer('overlap_seconds', overlapSeconds, 0, maxOverlapSeconds);
  return asOwner(orm, tenantId, place.userId, async (em, user) => {
    const key = await keyOf(em, tenantId, place.keyId);
    const nowMs = await clockOf(em);
    if (key.revokedAt || isPast(expiryOf(key), nowMs)) throw unknownKey();
    const retiresAt = new Date(Math.min(nowMs + overlap * 1000, key.retiresAt?.getTime() ?? Infinity));
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id }, { retiresAt });
    const { name, scopes, description, expiresAt } = key;
    const fields = { tenantId, createdBy: user, name, scopes, description: description ?? null, expiresAt: expiresAt ?? null };
    const issued = await issue(em, fields, nowMs);
    return { ...issued, previous: { ...key, retiresAt } };
  });
}

/** When a key stops, by its expiry or by its rotation; null: never. */
export function expiryOf(key: { expiresAt?: Date | null; retiresAt?: Date | null }): Date | null {
  const { expiresAt = null, retiresAt = null } = key;
  if (!expiresAt || !retiresAt) return expiresAt ?? retiresAt;
  return expiresAt < retiresAt ? expiresAt : retiresAt;
}

/** Who a valid key is. */
export interface VerifiedKey {
  keyId: string;
  tenantId: string;
  tenantSlug: string;
  scopes: string[];
  expiresMs: bigint | null;
}

interface VerifiedRow {
  tenant_id: string;
  slug: string;
  scopes: string[];
  hash: string;
  expires_ms: bigint | null;
}

/**
 * Who the key of this text is, or null where it is unknown, revoked or expired. One round trip, and none for garbage: its checksum tells.
 */
export async function verifyKey(pool: Pool, text: string): Promise<VerifiedKey | null> {
  const keyId = idOfKeyText(text);
  const uuid = keyId === null ? null : toUuid('key', keyId);
  if (keyId === null || uuid === null) return null;
  const client = await pool.connect();
  let row: VerifiedRow | undefined;
  try {
    const [, , answer] = await Promise.all(
      together(
        client,
        () =>
          [
            client.query('begin read only'),
            client.query({ name: 'key_set', text: `select set_config('app.key_id', $1, true)`, values: [uuid] }),
            client.query<VerifiedRow>({
              name: 'key_verify',
              text: `select k.tenant_id, t.slug, k.scopes, k.hash,
                        floor(extract(epoch from least(k.expires_at, k.retires_at)) * 1000)::int8 as expires_ms
                 from api_keys k join tenants t on t.tenant_id = k.tenant_id
                 where k.id = $1 and k.revoked_at is null and (least(k.expires_at, k.retires_at) > now()) is not false`,
              values: [uuid],
            }),
            client.query('commit'),
          ] as const,
      ),
    );
    row = answer.rows[0];
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
  if (!row || !sameHash(row.hash, hashOf(text))) return null;
  const { tenant_id, slug, scopes, expires_ms } = row;
  return { keyId, tenantId: toId('tenant', tenant_id), tenantSlug: slug, scopes, expiresMs: expires_ms };
}

// A transaction of one tenant, for its owners.
async function asOwner<Result>(
  orm: MikroORM,
  tenant: string,
  userId: string,
  work: (em: EntityManager, user: string) => Promise<Result>,
): Promise<Result> {
  return rows(orm, { tenant }).transactional(async (em) => {
    const role = await roleOf(em, tenant, userId);
    if (role !== 'owner') throw new Refusal('forbidden', 'only an owner of the tenant may do this');
    return work(em, toUuid('user', userId) ?? '');
  });
}

type KeyFields = Required<Pick<ApiKeyRow, 'tenantId' | 'createdBy' | 'name' | 'scopes' | 'description' | 'expiresAt'>>;

async function issue(em: EntityManager, fields: KeyFields, nowMs: number): Promise<IssuedKey> {
  const id = uuidv7();
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

async function keyOf(em: EntityManager, tenantId: string, keyId: string): Promise<ApiKeyRow> {
  const key = await em.findOne(ApiKey, { tenantId, id: field.uuidOf('key', keyId, unknownKey) });
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
  if (given.length === 0) throw field.invalidField('scopes', 'min', 'needs at least one scope');
  const unknown = unknownScope(given);
  if (unknown >= 0) {
    throw field.invalidField(`scopes[${unknown}]`, 'oneof', 'is not a scope', (given[unknown] ?? '').slice(0, 255));
  }
  return foldScopes(given);
}

function checkedExpiry(ms: bigint | undefined, nowMs: number): Date | null {
  if (ms === undefined) return null;
  if (ms > BigInt(endOfTimeMs)) throw field.invalidField('expires_at', 'datetime', 'is beyond the year 9999', String(ms));
  if (ms <= BigInt(nowMs)) throw field.invalidField('expires_at', 'gt', 'must be in the future', String(ms));
  return new Date(Number(ms));
}
