// Queries for transactions that are kept under names.
import { Type } from 'typebox';
import type { Filter } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { object } from '../fields.ts';
import { record, ref } from '../records.ts';
import { callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { listRequest, readKept } from '../transaction-query.ts';

const body = object({
  query: Type.Unsafe<string>({
    type: 'string',
    minLength: 1,
    maxLength: 2_000,
    description: 'Query text of `GET …/transactions`, without `filter`, `limit` and `cursor`.',
    example: 'kind=double&q=deposit',
  }),
});

const tag = 'Transactions';
const access = { by: 'key', scope: 'transactions:read' } as const;
const exampleFilter = { name: 'deposits', query: 'kind=double&q=deposit' };
const path = '/v1/tenants/:slug/filters/:name';

function filterRecord(filter: Filter | undefined): { name: string; query: string } {
  if (!filter) throw new Error('the ledger answered without a filter');
  return { name: filter.name, query: filter.query };
}

/** `/filters` and below. */
export function filterRoutes(app: App, { ledger, times }: Services): void {
  app.get(
    '/v1/tenants/:slug/filters',
    {
      config: {
        access,
        doc: {
          id: 'listFilters',
          tag,
          summary: 'List filters',
          description: 'All of them, by name.',
          answers: {
            200: {
              description: 'The filters',
              schema: record({ filters: { type: 'array', items: ref('Filter') } }),
              example: { filters: [exampleFilter] },
            },
          },
        },
      },
    },
    async (request) => {
      const { filters } = await ledger.listFilters({ tenantId: request.caller.tenantId }, callOptions(request, 5_000));
      return { success: true, data: { filters: filters.map(filterRecord) } };
    },
  );

  app.put(
    path,
    {
      schema: { body },
      config: {
        access,
        doc: {
          id: 'putFilter',
          repeatable: true,
          tag,
          summary: 'Keep a query under a name',
          description:
            '`GET …/transactions?filter=<name>` takes its parameters; parameters next to it win. The same name again replaces it. Whether keys of metadata are indexed is checked when it is used. A tenant has at most 100 filters (`too_many`).',
          bodies: { deposits: { query: exampleFilter.query } },
          answers: { 200: { description: 'The filter', schema: record({ filter: ref('Filter') }), example: { filter: exampleFilter } } },
          errors: ['too_many'],
          errorFields: {
            too_many: { field: 'filters', value: '100' },
            validation_failed: { field: 'query.currency', tag: 'oneof', value: 'BTC' },
          },
        },
      },
    },
    async (request) => {
      const { query } = request.body;
      const { tenantId } = request.caller;
      await listRequest(times, tenantId, readKept(query));
      const { name } = request.params as { name: string };
      const { filter } = await ledger.putFilter({ tenantId, filter: { name, query } }, callOptions(request, 5_000));
      return { success: true, data: { filter: filterRecord(filter) } };
    },
  );

  app.delete(
    path,
    {
      config: {
        access,
        doc: {
          id: 'deleteFilter',
          tag,
          summary: 'Delete a filter',
          answers: {
            200: {
              description: 'Deleted',
              schema: record({ name: { type: 'string' }, deleted: { type: 'boolean' } }),
              example: { name: 'deposits', deleted: true },
            },
          },
          errors: ['validation_failed', 'filter_not_found'],
        },
      },
    },
    async (request) => {
      const { name } = request.params as { name: string };
      await ledger.deleteFilter({ tenantId: request.caller.tenantId, name }, callOptions(request, 5_000));
      return { success: true, data: { name, deleted: true } };
    },
  );
}
