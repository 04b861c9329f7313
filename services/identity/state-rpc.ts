// The calls that change the state of a tenant.
import type { ServiceImpl } from '@connectrpc/connect';
import type { MikroORM } from '@mikro-orm/postgresql';
import type { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import type { FairSemaphore } from '../platform/fair-semaphore.ts';
import { forUsers } from './calls.ts';
import { tenantMessage } from './mapping.ts';
import type { TenantCall } from './tenant-changes.ts';
import { changeState, type StateChange } from './tenant-states.ts';

/** What these calls need. */
export interface StateParts {
  orm: MikroORM;
  users: FairSemaphore;
  /** How long after it was closed a tenant is deleted, milliseconds. */
  deleteAfterMs: number;
}

type StateHandlers = Pick<ServiceImpl<typeof IdentityService>, 'suspendTenant' | 'resumeTenant' | 'closeTenant' | 'reopenTenant'>;

/** Handlers of SuspendTenant, ResumeTenant, CloseTenant and ReopenTenant. */
export function stateHandlers({ orm, users, deleteAfterMs }: StateParts): StateHandlers {
  const ofUser = forUsers(users);
  const changing = (change: StateChange) =>
    ofUser(async (request: TenantCall) => {
      const { tenant, role } = await changeState(orm, request, change, deleteAfterMs);
      return { tenant: tenantMessage(tenant, role) };
    });
  return {
    suspendTenant: changing('suspend'),
    resumeTenant: changing('resume'),
    closeTenant: changing('close'),
    reopenTenant: changing('reopen'),
  };
}
