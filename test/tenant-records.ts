// A tenant with one record of each kind, for tests that name them in paths and messages.
import type { Cluster, Person, Tenant } from './cluster.ts';
import { addJob } from './jobs.ts';

/** A tenant with a wallet's chart, a posting, a hold, a velocity limit, a job, a webhook that nobody answers, a delivery, and a second API key. */
export interface TenantRecords {
  tenant: Tenant;
  /** With every scope. */
  key: string;
  /** By the names that paths have for them. `key_id`: of the second key. */
  ids: Record<'transaction_id' | 'hold_id' | 'limit_id' | 'job_id' | 'delivery_id' | 'key_id' | 'account_code', string>;
}

/** Makes a tenant with its records. Throws where one is refused. */
export async function newTenantRecords(
  cluster: Cluster,
  { person, account_code = 'SETTLEMENT-NGN', posting = {} }: { person?: Person; account_code?: string; posting?: object } = {},
): Promise<TenantRecords> {
  const tenant = await cluster.tenant(person ? { person } : {});
  const key = await cluster.apiKey(tenant);
  const path = `/v1/tenants/${tenant.slug}`;
  const made = async (where: string, body: unknown, by = key) => {
    const answer = await cluster.rest('POST', where, { key: by, body });
    // The test delivery fails with 502, and has an id all the same.
    if (answer.status >= 300 && answer.status !== 502) throw new Error(`${where}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  await made(`${path}/accounts/setup`, { business_type: 'wallet' });
  if (account_code !== 'SETTLEMENT-NGN') await made(`${path}/accounts`, { account_code, name: account_code, type: 'asset' });
  const line = { account_code, amount: '1000000.00', side: 'debit', currency: 'NGN' };
  const { transaction } = (await made(`${path}/transactions`, { ...line, ...posting })).data;
  const entries = [
    { ...line, amount: '1.00' },
    { ...line, amount: '1.00', account_code: 'SETTLEMENT-NGN', side: 'credit' },
  ];
  const { hold } = (await made(`${path}/holds`, { entries })).data;
  const daily = { currency: 'NGN', side: 'debit', max_count: 1_000_000, window: { rolling_seconds: 86_400 } };
  const { limit } = (await made(`${path}/limits`, { account_code, applies: 'account', ...daily })).data;
  await made(`${path}/webhooks`, { url: 'http://127.0.0.1:9/hook', events: ['transaction.posted'] });
  const { delivery_id } = await made(`${path}/webhooks/test`, {});
  const keys = `/v1/tenants/${tenant.id}/api-keys`;
  const { api_key } = (await made(keys, { name: 'x', scopes: ['reports:read'] }, tenant.owner.token)).data;
  const job_id = await addJob(cluster.databases.ledger.adminUrl, tenant.id, Buffer.from('a,b'));
  const { transaction_id } = transaction;
  const ids = { transaction_id, hold_id: hold.hold_id, limit_id: limit.limit_id, job_id, delivery_id, key_id: api_key.id, account_code };
  return { tenant, key, ids };
}
