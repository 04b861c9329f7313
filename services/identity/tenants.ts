// Creates and lists tenants.
import { UniqueConstraintViolationException, type MikroORM } from '@mikro-orm/postgresql';
import { cutPage, type Page } from '../platform/cursor.ts';
import { toId, uuidAt } from '../platform/ids.ts';
import type { Role } from '../platform/roles.ts';
import { audit, type Origin } from './audit.ts';
import { databaseNow, entityManager } from './database.ts';
import * as field from './fields.ts';
import { Refusal } from './refusal.ts';
import { Membership, Slug, Tenant, type TenantRow } from './entities.ts';
import { userById } from './users.ts';

const businessTypes = ['wallet', 'exchange', 'lending', 'payment_processor', 'other'];

/** The fields of a new tenant. */
export interface NewTenant {
  userId: string;
  name: string;
  slug: string;
  businessType: string;
  description?: string | undefined;
  origin?: Origin | undefined;
}

/** Creates a tenant owned by the user. Throws `validation_failed`, `unauthenticated`, `slug_taken`. */
export async function createTenant(orm: MikroORM, given: NewTenant): Promise<TenantRow> {
  const name = field.text('name', given.name, 255);
  const slug = field.slug('slug', given.slug);
  const businessType = field.oneOf('business_type', given.businessType, businessTypes);
  const description = field.optionalText('description', given.description, 1000);
  const user = await userById(orm, given.userId);
  const nowMs = await databaseNow(entityManager(orm));
  const tenantId = uuidAt(nowMs);
  try {
    return await entityManager(orm, { tenant: tenantId }).transactional(async (em) => {
      const createdAt = new Date(nowMs);
      const state = { status: 'active', createdAt, requireTotp: false, deleteAt: null };
      const tenant: TenantRow = { tenantId, name, slug, businessType, description, ...state };
      await em.insert(Slug, { slug, takenBy: tenantId });
      await em.insert(Tenant, tenant);
      await em.insert(Membership, { tenantId, userId: user.id, role: 'owner', createdAt });
      const created = {
        type: 'tenant.created',
        actor: given.userId,
        subject: toId('tenant', tenantId),
        origin: given.origin,
        data: { name, slug },
      };
      await audit(em, { tenant: tenantId }, created, nowMs);
      return tenant;
    });
  } catch (error) {
    if (!(error instanceof UniqueConstraintViolationException)) throw error;
    throw new Refusal('slug_taken', 'slug already taken', { field: 'slug', tag: 'unique', value: slug });
  }
}

/** A tenant and the role that the user of the call has there. */
export interface TenantOfMember {
  tenant: TenantRow;
  role: Role;
}

/** The tenants of a user. Throws `validation_failed`, `unauthenticated`. */
export async function listTenants(orm: MikroORM, userId: string, limit: number, cursor: string): Promise<Page<TenantOfMember>> {
  const size = field.pageSize(limit);
  const after = field.afterCursor(['tenants', userId], cursor);
  const user = field.userUuid(userId);
  const em = entityManager(orm, { user });
  const below = after === null ? {} : { tenantId: { $lt: after } };
  // Through memberships and their index: asked of tenants alone, the policy reads every tenant of the deployment.
  const memberships = await em.find(Membership, { userId: user, ...below }, { orderBy: { tenantId: 'desc' }, limit: size + 1 });
  const found = await em.find(
    Tenant,
    { tenantId: { $in: memberships.map(({ tenantId }) => tenantId) } },
    { orderBy: { tenantId: 'desc' } },
  );
  // A user without tenants may not exist.
  if (found.length === 0) await userById(orm, userId);
  const roleIn = new Map(memberships.map(({ tenantId, role }) => [tenantId, role]));
  const rows = found.map((tenant) => ({ tenant, role: roleIn.get(tenant.tenantId) ?? 'viewer' }));
  return cutPage(rows, size, ['tenants', userId], ({ tenant }) => tenant.tenantId);
}
