// Members of a tenant made without an invitation, and tokens of invitations without a mail.
import { withClient } from '../deploy/local/databases.ts';
import { hashOf, newToken } from '../services/identity/credentials.ts';
import { toUuid } from '../services/platform/ids.ts';
import type { Role } from '../services/platform/roles.ts';

/** Makes a user a member of a tenant. `adminUrl`: of identity's database. */
export async function addMember(adminUrl: string, tenantId: string, userId: string, role: Role): Promise<void> {
  const values = [toUuid('tenant', tenantId), toUuid('user', userId), role];
  await withClient(adminUrl, (client) =>
    client.query('insert into memberships (tenant_id, user_id, role, created_at) values ($1, $2, $3, now())', values),
  );
}

/** The text of a new token of an invitation's mail. */
export async function invitationToken(adminUrl: string, invitationId: string): Promise<string> {
  const text = newToken();
  const inserted = await withClient(adminUrl, (client) =>
    client.query('insert into mail_tokens (hash, mail_id, created_at) select $1, id, now() from mails where invitation_id = $2', [
      hashOf(text),
      toUuid('inv', invitationId),
    ]),
  );
  if (inserted.rowCount !== 1) throw new Error('the invitation has no mail');
  return text;
}

/** Marks the email of a user as verified. */
export async function verifyEmail(adminUrl: string, userId: string): Promise<void> {
  await withClient(adminUrl, (client) =>
    client.query('update users set email_verified_at = now() where id = $1', [toUuid('user', userId)]),
  );
}
