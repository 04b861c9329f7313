// Where each body goes that the gateway takes, and one that is sound, for the tests of its fields.
import type { Customer } from './customer.ts';
import type { Answer, Cluster } from './cluster.ts';

type Body = Record<string, unknown>;
let count = 0;

/** A word that nobody has used. */
export const unique = (): string => `x${process.pid}n${(count += 1)}`;

/** An entry that any wallet may post. */
export const line = { account_code: 'TECHNOLOGY', amount: '1.00', side: 'debit', currency: 'USD' };

interface Route {
  method: string;
  path: string;
  by: 'nobody' | 'user' | 'key';
  sound: () => Body;
}

function routesOf({ tenant, at }: Customer): Record<string, Route> {
  return {
    register: {
      method: 'POST',
      path: '/v1/auth/register',
      by: 'nobody',
      sound: () => ({ email: `${unique()}@example.com`, password: 'correct horse', first_name: 'Ada', last_name: 'L' }),
    },
    login: {
      method: 'POST',
      path: '/v1/auth/login',
      by: 'nobody',
      sound: () => ({ email: `${unique()}@example.com`, password: 'wrong' }),
    },
    refresh: { method: 'POST', path: '/v1/auth/refresh', by: 'nobody', sound: () => ({ refresh_token: 'x' }) },
    logout: { method: 'POST', path: '/v1/auth/logout', by: 'nobody', sound: () => ({ refresh_token: 'x' }) },
    tenant: { method: 'POST', path: '/v1/tenants', by: 'user', sound: () => ({ name: 'Acme', slug: unique(), business_type: 'wallet' }) },
    apiKey: {
      method: 'POST',
      path: `/v1/tenants/${tenant.id}/api-keys`,
      by: 'user',
      sound: () => ({ name: 'k', scopes: ['accounts:read'] }),
    },
    setup: { method: 'POST', path: at('accounts/setup'), by: 'key', sound: () => ({ business_type: 'wallet' }) },
    account: { method: 'POST', path: at('accounts'), by: 'key', sound: () => ({ account_code: unique(), name: 'A', type: 'asset' }) },
    change: { method: 'PATCH', path: at('accounts/code/MARKETING'), by: 'key', sound: () => ({}) },
    single: { method: 'POST', path: at('transactions'), by: 'key', sound: () => ({ ...line }) },
    double: {
      method: 'POST',
      path: at('transactions/double-entry'),
      by: 'key',
      sound: () => ({ entries: [line, { ...line, side: 'credit' }] }),
    },
  };
}

/** Sends a sound body with these changes to where it goes. */
export function send(cluster: Cluster, customer: Customer, route: string, change: Body): Promise<Answer> {
  const { method, path, by, sound } = routesOf(customer)[route]!;
  const credential = by === 'nobody' ? {} : { key: by === 'user' ? customer.tenant.owner.token : customer.key };
  return cluster.rest(method, path, { ...credential, body: { ...sound(), ...change } });
}
