// The gRPC calls of members and invitations.
import type { ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { forUsers } from './calls.ts';
import { acceptInvitation, createInvitation, deleteInvitation, listInvitations } from './invitations.ts';
import { invitationMessage, memberMessage, tenantMessage } from './mapping.ts';
import { listMembers, removeMember, updateMember } from './members.ts';
import type { Parts } from './parts.ts';

type Calls =
  'listMembers' | 'updateMember' | 'removeMember' | 'createInvitation' | 'listInvitations' | 'deleteInvitation' | 'acceptInvitation';

/** Their handlers. */
export function memberCalls({ orm, users }: Parts): Pick<ServiceImpl<typeof IdentityService>, Calls> {
  const ofUser = forUsers(users);
  return {
    listMembers: ofUser(async (request) => {
      const { rows, nextCursor } = await listMembers(orm, request);
      return { members: rows.map(memberMessage), nextCursor };
    }),
    updateMember: ofUser(async (request) => ({ member: memberMessage(await updateMember(orm, request)) })),
    removeMember: ofUser(async (request) => {
      await removeMember(orm, request);
      return {};
    }),
    createInvitation: ofUser(async (request) => ({ invitation: invitationMessage(await createInvitation(orm, request)) })),
    listInvitations: ofUser(async (request) => {
      const { rows, nextCursor } = await listInvitations(orm, request);
      return { invitations: rows.map(invitationMessage), nextCursor };
    }),
    deleteInvitation: ofUser(async (request) => {
      await deleteInvitation(orm, request);
      return {};
    }),
    acceptInvitation: ofUser(async (request) => {
      const { tenant, member } = await acceptInvitation(orm, request);
      return { tenant: tenantMessage(tenant, member.role), member: memberMessage(member) };
    }),
  };
}
