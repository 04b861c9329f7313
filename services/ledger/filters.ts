// Queries for transactions under names, one set per tenant, and the RPCs that keep them.
import type { ServiceImpl } from '@connectrpc/connect';
import { create } from '@bufbuild/protobuf';
import { FilterSchema, type Filter, type LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { inTransaction, readTenant, type Connections } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { checkedText, invalid, tenantOf } from './fields.ts';
import type { TenantCalls } from './tenant-calls.ts';

const maxFilters = 100;
const maxQueryLength = 2_000;

/** Handlers of filters. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function filterHandlers({ pool }: TenantCalls): Partial<ServiceImpl<typeof LedgerService>> {
  return {
    async putFilter(request, { signal }) {
      const tenant = tenantOf(request);
      const { name = '', query = '' } = request.filter ?? {};
      const filter = { name: checkedName(name), query: checkedText('query', query, { min: 1, max: maxQueryLength }) };
      await putFilter(pool.of(tenant, signal), tenant, filter);
      return { filter };
    },
    async deleteFilter(request, { signal }) {
      const tenant = tenantOf(request);
      await deleteFilter(pool.of(tenant, signal), tenant, checkedName(request.name));
      return {};
    },
    async getFilter(request, { signal }) {
      const tenant = tenantOf(request);
      const name = checkedName(request.name);
      const filter = (await listFilters(pool.of(tenant, signal), tenant)).find((each) => each.name === name);
      if (!filter) throw unknownFilter(name);
      return { filter };
    },
    async listFilters(request, { signal }) {
      const tenant = tenantOf(request);
      return { filters: await listFilters(pool.of(tenant, signal), tenant) };
    },
  };
}

function checkedName(name: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(name)) return name;
  throw invalid('name', name === '' ? 'required' : 'name', name, 'name must be 1 to 64 letters, digits, _ and -');
}

async function putFilter(pool: Connections, tenant: string, { name, query }: Pick<Filter, 'name' | 'query'>): Promise<void> {
  await inTransaction(pool, [tenant], async (client) => {
    // One at a time, so that there are never more.
    await client.query(`select pg_advisory_xact_lock(hashtextextended('filters ' || $1, 0))`, [tenant]);
    const { rowCount } = await client.query({
      name: 'put_filter',
      text: `insert into filters (tenant_id, name, query) select $1, $2, $3
        where exists (select from filters where tenant_id = $1 and name = $2) or (select count(*) from filters where tenant_id = $1) < ${maxFilters}
        on conflict (tenant_id, name) do update set query = excluded.query`,
      values: [tenant, name, query],
    });
    if (rowCount !== 0) return;
    throw new Refusal('too_many', `a tenant may have ${maxFilters} filters`, {
      field: 'filters',
      tag: 'too_many',
      value: String(maxFilters),
    });
  });
}

async function deleteFilter(pool: Connections, tenant: string, name: string): Promise<void> {
  const { rowCount } = await inTransaction(pool, [tenant], (client) =>
    client.query({ name: 'delete_filter', text: 'delete from filters where tenant_id = $1 and name = $2', values: [tenant, name] }),
  );
  if (rowCount === 0) throw unknownFilter(name);
}

async function listFilters(pool: Connections, tenant: string): Promise<Filter[]> {
  const [rows] = await readTenant<[{ name: string; query: string }[]]>(pool, tenant, {
    name: 'list_filters',
    text: 'select name, query from filters where tenant_id = $1 order by name',
    values: [tenant],
  });
  return rows.map((row) => create(FilterSchema, row));
}

function unknownFilter(name: string): Refusal {
  return new Refusal('filter_not_found', `there is no filter ${name}`);
}
