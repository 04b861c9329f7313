// Routes of a tenant's members.
import { roles } from '../../services/platform/roles.ts';
import { object, oneOf, paging } from '../fields.ts';
import { memberRecord } from '../mapping.ts';
import { examplePagination, pageOf, pathId } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, memberCall, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

/** A member of the examples. */
export const exampleMember = {
  user_id: 'user_01jd1zq5v8e6n9w2k4m7p3r5t8',
  email: 'grace@example.com',
  first_name: 'Grace',
  last_name: 'Hopper',
  role: 'accountant',
  totp_enabled: false,
  created_at: '2030-01-31T12:00:00.000Z',
};

const path = '/v1/tenants/:tenant_id/members';

/** `/v1/tenants/<tenant_id>/members`. */
export function memberRoutes(app: App, { identity }: Services): void {
  app.get(
    path,
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'member', role: 'viewer', whileReadOnly: true },
        doc: {
          id: 'listMembers',
          tag: 'Members',
          summary: 'List members',
          description: 'For any member. Newest first.',
          answers: {
            200: {
              description: 'A page of members',
              schema: record({ members: { type: 'array', items: ref('Member') }, pagination }),
              example: { members: [exampleMember], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request) => {
      const { query, caller } = request;
      const { limit = 50, cursor = '' } = query;
      const rpcRequest = { userId: caller.actor, tenantId: caller.tenantId, limit, cursor };
      const { members, nextCursor } = await identity.listMembers(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { members: members.map(memberRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );

  app.patch(
    `${path}/:user_id`,
    {
      schema: { body: object({ role: oneOf(roles, { example: 'accountant' }) }) },
      config: {
        access: { by: 'member', role: 'admin', whileReadOnly: true },
        doc: {
          id: 'updateMember',
          tag: 'Members',
          summary: 'Change the role of a member',
          description: [
            'For owners and admins of the tenant. Only owners make and change owners, and the last owner stays (`last_owner`).',
            'The member’s access keys end everywhere within 5 seconds. A lower role revokes the open invitations that it sent. The same role again changes nothing.',
          ].join(' '),
          bodies: { accountant: { role: 'accountant' } },
          answers: {
            200: { description: 'Changed', schema: record({ member: ref('Member') }), example: { member: exampleMember } },
          },
          errors: ['member_not_found', 'last_owner'],
        },
      },
    },
    async (request) => {
      const { body, params } = request;
      const memberId = pathId('user_id', params);
      const rpcRequest = { ...memberCall(request), memberId, role: body.role };
      const { member } = await identity.updateMember(rpcRequest, callOptions(request, 5_000));
      if (!member) throw new Error('identity answered without a member');
      return { success: true, data: { member: memberRecord(member) } };
    },
  );

  app.delete(
    `${path}/:user_id`,
    {
      config: {
        access: { by: 'member', role: 'viewer', whileReadOnly: true },
        doc: {
          id: 'removeMember',
          tag: 'Members',
          summary: 'Remove a member',
          description: [
            'For owners and admins of the tenant. Any member may remove itself. Only owners remove owners, and the last owner stays (`last_owner`).',
            'The member’s access keys end everywhere within 5 seconds. Open invitations that it sent are revoked. API keys that it made stay: revoke those that it may know. A second call is rejected (`member_not_found`).',
          ].join(' '),
          answers: {
            200: {
              description: 'Removed',
              schema: record({ id: { type: 'string' }, deleted: { type: 'boolean' } }),
              name: 'MemberRemoved',
              example: { id: exampleMember.user_id, deleted: true },
            },
          },
          errors: ['validation_failed', 'member_not_found', 'last_owner'],
        },
      },
    },
    async (request) => {
      const memberId = pathId('user_id', request.params);
      await identity.removeMember({ ...memberCall(request), memberId }, callOptions(request, 5_000));
      return { success: true, data: { id: memberId, deleted: true } };
    },
  );
}
