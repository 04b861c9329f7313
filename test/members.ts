// Members of a tenant, made without an invitation.
import { withClient } from '../deploy/local/databases.ts';
import { toUuid } from '../services/platform/ids.ts';
import type { Role } from '../services/platform/roles.ts';

/** Makes a user a member of a tenant. `adminUrl`: of identity's database. */
export async function addMember(adminUrl: string, tenantId: string, userId: string, role: Role): Promise<void> {
  const values = [toUuid('tenant', tenantId), toUuid('user', userId), role];
  await withClient(adminUrl, (client) =>
    client.query('insert into memberships (tenant_id, user_id, role, created_at) values ($1, $2, $3, now())', values),
  );
}
