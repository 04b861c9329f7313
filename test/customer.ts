// Tenants as they ask the gateway with a key of theirs, and what its answers hold, for the tests of those.
import type { Answer, Cluster, Tenant } from './cluster.ts';

/** A tenant that asks with a key of all scopes. */
export interface Customer {
  tenant: Tenant;
  key: string;
  /** A path under the tenant's own. */
  at: (path: string) => string;
  /** `data` of the answer. */
  get: (path: string) => Promise<any>;
  post: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
}

/** A new tenant of a new user, without a chart. */
export async function newCustomer(cluster: Cluster): Promise<Customer> {
  const tenant = await cluster.tenant();
  const key = await cluster.apiKey(tenant);
  const at = (path: string) => `/v1/tenants/${tenant.slug}/${path}`;
  return {
    ...{ tenant, key, at },
    get: async (path) => (await cluster.rest('GET', at(path), { key })).body.data,
    post: (path, body, headers = {}) => cluster.rest('POST', at(path), { key, headers, ...(body !== undefined && { body }) }),
  };
}

/** A new tenant with the chart of a wallet. */
export async function newWallet(cluster: Cluster): Promise<Customer> {
  const customer = await newCustomer(cluster);
  await customer.post('accounts/setup', { business_type: 'wallet' });
  return customer;
}

/** Any identifier of this prefix. */
export const id = (prefix: string): unknown => expect.stringMatching(new RegExp(`^${prefix}_[0-7][0-9a-z]{25}$`));

/** Any timestamp. */
export const time: unknown = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** An entry of a posting. */
export interface Line {
  account_code: string;
  side: string;
  amount: string;
  currency: string;
}

export function line(account_code: string, side: string, amount = '10.00', currency = 'USD'): Line {
  return { account_code, side, amount, currency };
}

/** The body of a double posting: dollars that come into a wallet. */
export function deposit(amount = '10.00', more: Record<string, unknown> = {}): { entries: Line[] } & Record<string, unknown> {
  return { entries: [line('SETTLEMENT-USD', 'debit', amount), line('CUSTOMER-WALLETS-USD', 'credit', amount)], ...more };
}
