// Routes of the audit logs: what members changed in a tenant, and a user's logins and changes of credentials.
import type { AuditEntry } from '../../proto/gen/identity/v1/identity_pb.js';
import { object, paging } from '../fields.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { examplePagination, pageOf } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const exampleEntry = {
  id: 'audit_01jd1zq5v8e6n9w2k4m7p3r5t8',
  type: 'member.role_changed',
  actor: 'user_01jd1zq5v8e6n9w2k4m7p3r5t8',
  subject: 'user_01jd1zr0c2f4h6k8m0p2r4t6w8',
  address: '203.0.113.7',
  user_agent: 'curl/8.10.1',
  created_at: '2030-01-31T12:00:00.000Z',
  data: { from: 'accountant', to: 'viewer' },
  sequence: 2,
  hash: '5f2b8c1d7e4a9036b1c2d3e4f5a6978812233445566778899aabbccddeeff001',
  previous_hash: '0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d',
};
const exampleLogin = {
  ...exampleEntry,
  type: 'login.failed',
  actor: null,
  subject: exampleEntry.actor,
  data: { reason: 'password' },
};

function page(example: object) {
  return {
    200: {
      description: 'A page of entries',
      name: 'Audit',
      schema: record({ audit: { type: 'array', items: ref('AuditEntry') }, pagination }),
      example: { audit: [example], pagination: examplePagination },
    },
  };
}

/** The entry as it is hashed, and its hashes. */
function entryRecord(entry: AuditEntry): Record<string, unknown> {
  const { id, type, actor, subject, address, userAgent, createdMs, data, sequence, hash, previousHash } = entry;
  return {
    id,
    type,
    actor: actor || null,
    subject: subject || null,
    address: address || null,
    user_agent: userAgent || null,
    created_at: timeOf(createdMs),
    data: JSON.parse(data) as unknown,
    sequence: Number(sequence),
    hash,
    previous_hash: previousHash,
  };
}

/** `/v1/tenants/<tenant_id>/audit` and `/v1/user/audit`. */
export function auditRoutes(app: App, { identity }: Services): void {
  app.get(
    '/v1/tenants/:tenant_id/audit',
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'member', role: 'admin', whileReadOnly: true },
        doc: {
          id: 'listAudit',
          tag: 'Tenants',
          summary: 'Read the audit log',
          description:
            'For owners and admins, also while the tenant is suspended or closed. Who changed keys, members, roles, invitations and the state of the tenant; newest first. What was posted stands in the events. Each entry is hashed with the one before.',
          answers: page(exampleEntry),
        },
      },
    },
    async (request) => {
      const { query, caller } = request;
      const { limit = 50, cursor = '' } = query;
      const rpcRequest = { userId: caller.actor, tenantId: caller.tenantId, limit, cursor };
      const { entries, nextCursor } = await identity.listAudit(rpcRequest, callOptions(request, 5_000));
      return { success: true, data: { audit: entries.map(entryRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );

  app.get(
    '/v1/user/audit',
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'user' },
        doc: {
          id: 'listUserAudit',
          tag: 'Users',
          summary: 'Read my audit log',
          description:
            'Logins, failed logins and changes of credentials of the caller, newest first. Entries are kept for 400 days, the newest for good. Each is hashed with the one before.',
          answers: page(exampleLogin),
        },
      },
    },
    async (request) => {
      const { query, caller } = request;
      const { limit = 50, cursor = '' } = query;
      const { entries, nextCursor } = await identity.listUserAudit({ userId: caller.actor, limit, cursor }, callOptions(request, 5_000));
      return { success: true, data: { audit: entries.map(entryRecord), pagination: pageOf(limit, nextCursor) } };
    },
  );
}
