// What the operator does with API keys, in the name of no member: lists and revokes them.
import { LockMode, type MikroORM } from '@mikro-orm/postgresql';
import { inTransaction, type Pool } from '../platform/postgres.ts';
import { expiryOf, revoke } from './api-keys.ts';
import { audit } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import { ApiKey, Tenant, type ApiKeyRow } from './entities.ts';

/** The tenant (UUID) of a key (UUID); undefined where there is no such key. */
export async function tenantOfKey(pool: Pool, key: string): Promise<string | undefined> {
  return inTransaction(pool, [], async (client) => {
    await client.query(`select set_config('app.key_id', $1, true)`, [key]);
    const { rows } = await client.query<{ tenant_id: string }>('select tenant_id from api_keys where id = $1', [key]);
    return rows[0]?.tenant_id;
  });
}

/** A key, and whether it can be used. */
export interface ListedKey extends ApiKeyRow {
  status: 'active' | 'revoked' | 'expired';
}

/** The keys of a tenant (UUID), the newest first, access keys of members too; null: there is no such tenant. */
export async function keysOfTenant(orm: MikroORM, tenantId: string): Promise<ListedKey[] | null> {
  return entityManager(orm, { tenant: tenantId }).transactional(async (em) => {
    if (!(await em.findOne(Tenant, { tenantId }))) return null;
    const nowMs = await databaseNow(em);
    const found = await em.find(ApiKey, { tenantId }, { orderBy: { id: 'desc' } });
    return found.map((key) => {
      const expiry = expiryOf(key);
      return { ...key, status: key.revokedAt ? 'revoked' : expiry !== null && expiry.getTime() <= nowMs ? 'expired' : 'active' };
    });
  });
}

/** Which keys of a tenant are revoked: one (UUID), its API keys, or the access keys of members too. */
export type RevokedKeys = { id: string } | 'api keys' | 'all';

/**
 * Revokes keys of a tenant (UUID), whatever its state, and writes the tenant's audit log with the actor `operator`. Returns those that were not revoked
 * before; null: there is no such tenant.
 */
export async function revokeKeys(orm: MikroORM, tenantId: string, which: RevokedKeys): Promise<ApiKeyRow[] | null> {
  return entityManager(orm, { tenant: tenantId }).transactional(async (em) => {
    if (!(await em.findOne(Tenant, { tenantId }, { lockMode: LockMode.PESSIMISTIC_WRITE }))) return null;
    const nowMs = await databaseNow(em);
    const filter = typeof which === 'object' ? which : which === 'all' ? {} : { memberId: null };
    const keys = await em.find(ApiKey, { tenantId, revokedAt: null, ...filter }, { orderBy: { id: 'asc' } });
    const revoked: ApiKeyRow[] = [];
    for (const key of keys) {
      const isNew = await revoke(em, key, nowMs, (change) =>
        audit(em, { tenant: tenantId }, { ...change, actor: 'operator', origin: undefined }, nowMs),
      );
      if (isNew) revoked.push(key);
    }
    return revoked;
  });
}
