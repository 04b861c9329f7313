// Routes of invitations to a tenant.
import { roles } from '../../services/platform/roles.ts';
import { email, object, oneOf, paging } from '../fields.ts';
import { invitationRecord, memberRecord, tenantRecord } from '../mapping.ts';
import { examplePagination, pageOf, pathId } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, memberCall, originOf, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleToken, mailToken } from './email-verification.ts';
import { exampleMember } from './members.ts';
import { exampleTenant } from './tenants.ts';

const exampleInvitation = {
  id: 'inv_01jd1zq5v8e6n9w2k4m7p3r5t8',
  email: 'grace@example.com',
  role: 'accountant',
  status: 'pending',
  invited_by: 'user_01jd1zq5v8e6n9w2k4m7p3r5t8',
  created_at: '2030-01-31T12:00:00.000Z',
  expires_at: '2030-02-07T12:00:00.000Z',
};

const path = '/v1/tenants/:tenant_id/invitations';

/** `/v1/tenants/<tenant_id>/invitations` and `/v1/invitations/accept`. */
export function invitationRoutes(app: App, { identity }: Services): void {
  app.post(
    path,
    {
      schema: { body: object({ email, role: oneOf(roles, { example: 'accountant' }) }) },
      config: {
        access: { by: 'member', role: 'admin' },
        doc: {
          id: 'createInvitation',
          tag: 'Members',
          summary: 'Invite a member',
          description: [
            'For owners and admins of the tenant. Only owners invite owners. Sends a mail with a token that is valid for 7 days.',
            'It replaces an open invitation to this address. The limit of mails to an address is 5 an hour, of all kinds together.',
          ].join(' '),
          bodies: { accountant: { email: 'grace@example.com', role: 'accountant' } },
          answers: {
            201: {
              description: 'Invited',
              schema: record({ invitation: ref('Invitation') }),
              example: { invitation: exampleInvitation },
              message: 'Invitation sent',
            },
          },
          errors: ['member_exists', 'rate_limited'],
        },
      },
    },
    async (request, reply) => {
      const { email: address, role } = request.body;
      const { invitation } = await identity.createInvitation({ ...memberCall(request), email: address, role }, callOptions(request, 5_000));
      if (!invitation) throw new Error('identity answered without an invitation');
      reply.code(201);
      return { success: true, data: { invitation: invitationRecord(invitation) }, message: 'Invitation sent' };
    },
  );

  app.get(
    path,
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'member', role: 'admin' },
        doc: {
          id: 'listInvitations',
          tag: 'Members',
          summary: 'List invitations',
          description: 'For owners and admins of the tenant. Newest first, including accepted, revoked and expired ones.',
          answers: {
            200: {
              description: 'A page of invitations',
              schema: record({ invitations: { type: 'array', items: ref('Invitation') }, pagination }),
              example: { invitations: [exampleInvitation], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request) => {
      const { query, caller } = request;
      const { limit = 50, cursor = '' } = query;
      const rpcRequest = { userId: caller.actor, tenantId: caller.tenantId, limit, cursor };
      const { invitations, nextCursor } = await identity.listInvitations(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { invitations: invitations.map(invitationRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );

  app.delete(
    `${path}/:invitation_id`,
    {
      config: {
        access: { by: 'member', role: 'admin' },
        doc: {
          id: 'deleteInvitation',
          tag: 'Members',
          summary: 'Revoke an invitation',
          description:
            'For owners and admins of the tenant. Its token ends at once. A second call is answered the same. An accepted invitation is not found: remove the member.',
          answers: {
            200: {
              description: 'Revoked',
              schema: record({ id: { type: 'string' }, deleted: { type: 'boolean' } }),
              name: 'InvitationRevoked',
              example: { id: exampleInvitation.id, deleted: true },
            },
          },
          errors: ['validation_failed', 'invitation_not_found'],
        },
      },
    },
    async (request) => {
      const invitationId = pathId('invitation_id', request.params);
      await identity.deleteInvitation({ ...memberCall(request), invitationId }, callOptions(request, 5_000));
      return { success: true, data: { id: invitationId, deleted: true } };
    },
  );

  acceptRoute(app, { identity });
}

function acceptRoute(app: App, { identity }: Pick<Services, 'identity'>): void {
  app.post(
    '/v1/invitations/accept',
    {
      schema: {
        body: object({ token: mailToken }),
      },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'acceptInvitation',
          tag: 'Members',
          summary: 'Accept an invitation',
          description: [
            'Makes the caller a member. The invitation must have been sent to the caller’s verified email (`email_unverified`, `forbidden`).',
            'A token works once. A call that is rejected for another reason leaves it valid.',
          ].join(' '),
          bodies: { token: { token: exampleToken } },
          answers: {
            200: {
              description: 'Accepted',
              schema: record({ tenant: ref('Tenant'), member: ref('Member') }),
              example: { tenant: { ...exampleTenant, role: 'accountant' }, member: exampleMember },
              message: 'Invitation accepted',
            },
          },
          errors: ['token_invalid', 'email_unverified', 'forbidden', 'member_exists', 'tenant_suspended', 'tenant_closed'],
          errorFields: { member_exists: { field: 'token', tag: 'member_exists', value: '' } },
        },
      },
    },
    async (request) => {
      const { body, caller } = request;
      const rpcRequest = { userId: caller.actor, token: body.token, origin: originOf(request) };
      const { tenant, member } = await identity.acceptInvitation(rpcRequest, callOptions(request, 5_000));
      if (!tenant || !member) throw new Error('identity answered without tenant or member');
      return { success: true, data: { tenant: tenantRecord(tenant), member: memberRecord(member) }, message: 'Invitation accepted' };
    },
  );
}
