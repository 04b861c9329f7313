// The gRPC calls that create, list and change tenants.
import type { ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { forUsers } from './calls.ts';
import { tenantMessage } from './mapping.ts';
import type { Parts } from './parts.ts';
import type { TenantCall } from './tenant-changes.ts';
import { updateTenant } from './tenant-settings.ts';
import { changeState, type StateChange } from './tenant-states.ts';
import { createTenant, listTenants } from './tenants.ts';

type Calls = 'createTenant' | 'listTenants' | 'updateTenant' | 'suspendTenant' | 'resumeTenant' | 'closeTenant' | 'reopenTenant';

/** Their handlers. */
export function tenantCalls({ orm, users, deleteAfterMs }: Parts): Pick<ServiceImpl<typeof IdentityService>, Calls> {
  const ofUser = forUsers(users);
  const changing = (change: StateChange) =>
    ofUser(async (request: TenantCall) => {
      const { tenant, role } = await changeState(orm, request, change, deleteAfterMs);
      return { tenant: tenantMessage(tenant, role) };
    });
  return {
    createTenant: ofUser(async (request) => ({ tenant: tenantMessage(await createTenant(orm, request), 'owner') })),
    listTenants: ofUser(async (request) => {
      const page = await listTenants(orm, request.userId, request.limit, request.cursor);
      return { tenants: page.rows.map(({ tenant, role }) => tenantMessage(tenant, role)), nextCursor: page.nextCursor };
    }),
    updateTenant: ofUser(async (request) => ({ tenant: tenantMessage(await updateTenant(orm, request), 'owner') })),
    suspendTenant: changing('suspend'),
    resumeTenant: changing('resume'),
    closeTenant: changing('close'),
    reopenTenant: changing('reopen'),
  };
}
