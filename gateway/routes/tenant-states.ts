// Routes by which owners suspend, resume, close and reopen a tenant.
import { tenantRecord } from '../mapping.ts';
import { callOptions, memberCall, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleTenant, tenantAnswer } from './tenants.ts';

const readOnly =
  'API keys and access keys then read only: within 5 seconds every other call of them is rejected, also the rest of a running import. Of the routes for users only members, the audit log and these states still work.';

const actions = [
  {
    action: 'suspend',
    call: 'suspendTenant',
    summary: 'Suspend a tenant',
    description: `Makes its ledger read-only until it is resumed. ${readOnly}`,
    state: { status: 'suspended' },
    message: 'Tenant suspended',
    errors: ['tenant_closed'],
  },
  {
    action: 'resume',
    call: 'resumeTenant',
    summary: 'Resume a suspended tenant',
    description: 'Keys may change its ledger again within 5 seconds.',
    state: { status: 'active' },
    message: 'Tenant resumed',
    errors: ['tenant_closed'],
  },
  {
    action: 'close',
    call: 'closeTenant',
    summary: 'Close a tenant',
    description: `Makes its ledger read-only and deletes it at \`delete_at\`, by default after 30 days. ${readOnly} After the deletion keys are unknown (401), and so is the tenant (404). Nothing is left but the slug, which stays taken, and the hash of the last event.`,
    state: { status: 'closed', delete_at: '2030-03-02T12:00:00.000Z' },
    message: 'Tenant closed',
    errors: [],
  },
  {
    action: 'reopen',
    call: 'reopenTenant',
    summary: 'Reopen a closed tenant',
    description: 'Makes it active again, also if it was suspended before. Once its deletion has begun it is unknown (404).',
    state: { status: 'active' },
    message: 'Tenant reopened',
    errors: ['tenant_suspended'],
  },
] as const;

/** `/v1/tenants/<tenant_id>/suspend` and the like. */
export function tenantStateRoutes(app: App, { identity }: Services): void {
  for (const { action, call, summary, description, state, message, errors } of actions) {
    app.post(
      `/v1/tenants/:tenant_id/${action}`,
      {
        config: {
          access: { by: 'member', role: 'owner', whileReadOnly: true },
          doc: {
            id: call,
            tag: 'Tenants',
            summary,
            description: `For owners. ${description} A second call changes nothing.`,
            answers: {
              200: {
                description: 'The tenant as it is now',
                ...tenantAnswer,
                example: { tenant: { ...exampleTenant, ...state } },
                message,
              },
            },
            errors: [...errors],
          },
        },
      },
      async (request) => {
        const { tenant } = await identity[call](memberCall(request), callOptions(request, 5_000));
        if (!tenant) throw new Error('identity answered without a tenant');
        return { success: true, data: { tenant: tenantRecord(tenant) }, message };
      },
    );
  }
}
