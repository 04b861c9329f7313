// A valid request for each route that takes a body, for tests of single fields.
import type { Customer } from './customer.ts';
import type { Answer, Cluster } from './cluster.ts';

type Body = Record<string, unknown>;
let count = 0;

/** A word that no other call returns. */
export const uniqueWord = (): string => `x${process.pid}n${(count += 1)}`;

/** An entry that every wallet tenant can post. */
export const line = { account_code: 'TECHNOLOGY', amount: '1.00', side: 'debit', currency: 'USD' };

interface Route {
  method: string;
  path: string;
  by: 'none' | 'user' | 'key';
  valid: () => Body;
}

function routesOf({ tenant, at }: Customer): Record<string, Route> {
  return {
    register: {
      method: 'POST',
      path: '/v1/auth/register',
      by: 'none',
      valid: () => ({ email: `${uniqueWord()}@example.com`, password: 'correct horse', first_name: 'Ada', last_name: 'L' }),
    },
    login: {
      method: 'POST',
      path: '/v1/auth/login',
      by: 'none',
      valid: () => ({ email: `${uniqueWord()}@example.com`, password: 'wrong' }),
    },
    refresh: { method: 'POST', path: '/v1/auth/refresh', by: 'none', valid: () => ({ refresh_token: 'x' }) },
    logout: { method: 'POST', path: '/v1/auth/logout', by: 'none', valid: () => ({ refresh_token: 'x' }) },
    tenant: {
      method: 'POST',
      path: '/v1/tenants',
      by: 'user',
      valid: () => ({ name: 'Acme', slug: uniqueWord(), business_type: 'wallet' }),
    },
    apiKey: {
      method: 'POST',
      path: `/v1/tenants/${tenant.id}/api-keys`,
      by: 'user',
      valid: () => ({ name: 'k', scopes: ['accounts:read'] }),
    },
    setup: { method: 'POST', path: at('accounts/setup'), by: 'key', valid: () => ({ business_type: 'wallet' }) },
    account: { method: 'POST', path: at('accounts'), by: 'key', valid: () => ({ account_code: uniqueWord(), name: 'A', type: 'asset' }) },
    change: { method: 'PATCH', path: at('accounts/code/MARKETING'), by: 'key', valid: () => ({}) },
    single: { method: 'POST', path: at('transactions'), by: 'key', valid: () => ({ ...line }) },
    double: {
      method: 'POST',
      path: at('transactions/double-entry'),
      by: 'key',
      valid: () => ({ entries: [line, { ...line, side: 'credit' }] }),
    },
  };
}

/** Sends a route's valid body with these changes. */
export function send(cluster: Cluster, customer: Customer, route: string, change: Body): Promise<Answer> {
  const { method, path, by, valid } = routesOf(customer)[route]!;
  const credential = by === 'none' ? {} : { key: by === 'user' ? customer.tenant.owner.token : customer.key };
  return cluster.rest(method, path, { ...credential, body: { ...valid(), ...change } });
}
