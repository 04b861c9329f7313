// The RPCs of a tenant's books: check the request's fields, then run the use case.
import type { ServiceImpl } from '@connectrpc/connect';
import type { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { getBooks } from './books.ts';
import { tenantOf } from './fields.ts';
import type { TenantCalls } from './tenant-calls.ts';

/** Handlers of books. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function booksHandlers({ pool }: TenantCalls): Partial<ServiceImpl<typeof LedgerService>> {
  return {
    async getBooks(request, { signal }) {
      const tenant = tenantOf(request);
      return { books: await getBooks(pool.of(tenant, signal), tenant) };
    },
  };
}
