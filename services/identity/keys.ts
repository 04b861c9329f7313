// API keys: made and ended by the owners of a tenant, verified on the path of every call.
import { LockMode, type EntityManager, type MikroORM } from '@mikro-orm/postgresql';
import { toId, toUuid, uuidAt } from '../platform/ids.ts';
import { plainArray, uuidArray } from '../platform/arrays.ts';
import { retryStaleConnection } from '../platform/postgres-errors.ts';
import { withClient, sendTogether, type Pool } from '../platform/postgres.ts';
import { foldScopes, hashOf, idOfKeyText, newKeyText, sameHash, unknownScope } from './credentials.ts';
import { clockOf, rows } from './database.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';
import { ApiKey, type ApiKeyRow } from './entities.ts';
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
    const key = await keyToChange(em, tenantId, place.keyId);
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id, revokedAt: null }, { revokedAt: new Date(await clockOf(em)) });
  });
}

/**
 * Makes a successor with the name, scopes, description and expiry of a key, which itself ends after the overlap (or earlier, where it
 * would have expired); without one it is revoked. Throws `validation_failed`, `tenant_not_found`, `forbidden`, and `key_not_found` also for a key that has ended.
 */
export async function rotateKey(orm: MikroORM, place: KeyPlace, overlapSeconds = 86_400): Promise<IssuedKey & { previous: ApiKeyRow }> {
  const tenantId = tenantUuid(place.tenantId);
  const overlap = field.integer('overlap_seconds', overlapSeconds, 0, maxOverlapSeconds);
  return asOwner(orm, tenantId, place.userId, async (em, user) => {
    const key = await keyToChange(em, tenantId, place.keyId);
    const nowMs = await clockOf(em);
    if (key.revokedAt || isPast(expiryOf(key), nowMs)) throw unknownKey();
    const retiresAt = new Date(Math.min(nowMs + overlap * 1000, key.retiresAt?.getTime() ?? Infinity));
    // At once is for ever, also where the clock is set back.
    const end = { retiresAt, ...(overlap === 0 && { revokedAt: new Date(nowMs) }) };
    await em.nativeUpdate(ApiKey, { tenantId, id: key.id }, end);
    const { name, scopes, description, expiresAt } = key;
    const fields = { tenantId, createdBy: user, name, scopes, description: description ?? null, expiresAt: expiresAt ?? null };
    const issued = await issue(em, fields, nowMs);
    return { ...issued, previous: { ...key, ...end } };
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
  id: string;
  tenant_id: string;
  slug: string;
  scopes: string[];
  hash: string;
  expires_ms: bigint | null;
}

const mostVerified = 1_000;

/**
 * Who the keys of these texts are, in their order: null where one is unknown, revoked or expired. One round trip, and none for garbage: its
 * checksum tells. Throws `validation_failed` for more than 1,000.
 */
export async function verifyKeys(pool: Pool, texts: string[]): Promise<(VerifiedKey | null)[]> {
  if (texts.length > mostVerified) {
    throw field.invalid('keys', 'max', `must have at most ${mostVerified} items`, String(texts.length));
  }
  const uuids = texts.map((text) => toUuid('key', idOfKeyText(text) ?? ''));
  const wanted = uuids.filter((uuid) => uuid !== null);
  const found = wanted.length === 0 ? new Map<string, VerifiedRow>() : await retryStaleConnection(() => validKeys(pool, wanted));
  return texts.map((text, place) => {
    const row = found.get(uuids[place] ?? '');
    if (!row || !sameHash(row.hash, hashOf(text))) return null;
    const { id, tenant_id, slug, scopes, expires_ms } = row;
    return { keyId: toId('key', id), tenantId: toId('tenant', tenant_id), tenantSlug: slug, scopes, expiresMs: expires_ms };
  });
}

async function validKeys(pool: Pool, ids: string[]): Promise<Map<string, VerifiedRow>> {
  const [, , { rows }] = await withClient(pool, (client) =>
    Promise.all(
      sendTogether(
        client,
        () =>
          [
            client.query('begin read only'),
            client.query({ name: 'keys_set', text: `select set_config('app.key_ids', $1, true)`, values: [plainArray(ids)] }),
            client.query<VerifiedRow>({
              name: 'keys_verify',
              text: `select k.id, k.tenant_id, t.slug, k.scopes, k.hash,
                        floor(extract(epoch from least(k.expires_at, k.retires_at)) * 1000)::int8 as expires_ms
                 from unnest($1::uuid[]) as wanted (id), lateral (select * from api_keys where id = wanted.id offset 0) k
                   join tenants t on t.tenant_id = k.tenant_id
                 where k.revoked_at is null and (least(k.expires_at, k.retires_at) > now()) is not false`,
              values: [uuidArray(ids)],
            }),
            client.query('commit'),
          ] as const,
      ),
    ),
  );
  return new Map(rows.map((row) => [row.id, row]));
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

// Locked until the end of the transaction: of two that change a key at once, the second sees what the first has made of it.
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
