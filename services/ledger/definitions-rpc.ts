// The RPCs of a tenant's rules: check the request's fields, then run the use case.
import type { ServiceImpl } from '@connectrpc/connect';
import type { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { deleteDefinition, getDefinition, getUsage, kinds, listDefinitions, putDefinition } from './definitions.ts';
import { checkedCode, checkedId, oneOf, optional, tenantOf } from './fields.ts';
import { auditContextOf, withTraceparent } from './mapping.ts';
import { pageOf } from './page.ts';
import type { TenantCalls } from './tenant-calls.ts';

/** Handlers of velocity limits and their usage. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function definitionHandlers({ pool, changed }: TenantCalls): Partial<ServiceImpl<typeof LedgerService>> {
  return {
    async putDefinition(request, context) {
      const tenant = tenantOf(request);
      const kind = oneOf('kind', request.kind, kinds);
      const id = request.id === '' ? null : limitId('id', request.id);
      const wanted = { id, record: request.record, mustExist: request.mustExist };
      const auditContext = auditContextOf(withTraceparent(request, context));
      return { definition: await changed(tenant, context, (own) => putDefinition(own, tenant, kind, wanted, auditContext)) };
    },
    async deleteDefinition(request, context) {
      const tenant = tenantOf(request);
      const kind = oneOf('kind', request.kind, kinds);
      const id = limitId('id', request.id);
      const auditContext = auditContextOf(withTraceparent(request, context));
      await changed(tenant, context, (own) => deleteDefinition(own, tenant, kind, id, auditContext));
      return {};
    },
    async getDefinition(request, { signal }) {
      const tenant = tenantOf(request);
      const kind = oneOf('kind', request.kind, kinds);
      return { definition: await getDefinition(pool.of(tenant, signal), tenant, kind, limitId('id', request.id)) };
    },
    async listDefinitions(request, { signal }) {
      const tenant = tenantOf(request);
      const kind = oneOf('kind', request.kind, kinds);
      return listDefinitions(pool.of(tenant, signal), tenant, kind, pageOf(request));
    },
    async getUsage(request, { signal }) {
      const tenant = tenantOf(request);
      const id = limitId('limit_id', request.limitId);
      const code = optional(request.accountCode, (text) => checkedCode('account_code', text)) ?? null;
      return getUsage(pool.of(tenant, signal), tenant, id, code);
    },
  };
}

// Only checked: rules are stored under their identifiers.
function limitId(field: string, id: string): string {
  checkedId(field, 'limit', id);
  return id;
}
