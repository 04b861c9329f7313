import { nothing } from './accounting.ts';
import { AccountCache, type AccountState, type TenantState } from './account-cache.ts';
import { genesisHash } from './log.ts';

/** The state of a tenant with this number of accounts. */
function stateOf(tenant: string, accounts: number): TenantState {
  const account: AccountState = {
    account: {
      id: 'acc',
      uuid: 'uuid',
      code: 'CASH',
      normalBalance: 'debit',
      currency: null,
      isGroup: false,
      allowNegative: true,
      closed: false,
      system: false,
    },
    balances: new Map([['NGN', nothing]]),
  };
  return {
    head: { tenant, sequence: 1n, hash: genesisHash, lastMs: 0, chart: null, rebuilt: 0n },
    accounts: new Map(Array.from({ length: accounts }, (_, index) => [`account-${index}`, account])),
  };
}

test('a state that was put into the cache is there until it is taken', () => {
  const cache = new AccountCache(10);
  const own = stateOf('a', 2);
  cache.put('a', own);
  expect([cache.has('a'), cache.has('b')]).toEqual([true, false]);
  expect(cache.take('a')).toBe(own);
  expect([cache.has('a'), cache.take('a')]).toEqual([false, undefined]);
});

test('the least recently used tenant is evicted first; a tenant counts as its accounts and one', () => {
  const cache = new AccountCache(9);
  for (const tenant of ['a', 'b', 'c']) cache.put(tenant, stateOf(tenant, 2));
  expect(['a', 'b', 'c'].map((tenant) => cache.has(tenant))).toEqual([true, true, true]);
  // Used again.
  cache.put('a', cache.take('a') as TenantState);
  cache.put('d', stateOf('d', 0));
  expect(['a', 'b', 'c', 'd'].map((tenant) => cache.has(tenant))).toEqual([true, false, true, true]);
});

test('as many tenants are evicted as needed', () => {
  const cache = new AccountCache(9);
  for (const tenant of ['a', 'b', 'c']) cache.put(tenant, stateOf(tenant, 2));
  cache.put('d', stateOf('d', 5));
  expect(['a', 'b', 'c', 'd'].map((tenant) => cache.has(tenant))).toEqual([false, false, true, true]);
});

test('a state that replaces an older one of the tenant frees its space', () => {
  const cache = new AccountCache(6);
  cache.put('a', stateOf('a', 2));
  for (let count = 0; count < 10; count += 1) cache.put('b', stateOf('b', 2));
  expect([cache.has('a'), cache.has('b')]).toEqual([true, true]);
  cache.put('b', stateOf('b', 0));
  cache.put('c', stateOf('c', 1));
  expect([cache.has('a'), cache.has('b'), cache.has('c')]).toEqual([true, true, true]);
});

test('a state larger than the cache is not stored and evicts no others, but its older version', () => {
  const cache = new AccountCache(5);
  cache.put('a', stateOf('a', 0));
  cache.put('large', stateOf('large', 2));
  cache.put('large', stateOf('large', 6));
  expect([cache.has('a'), cache.has('large')]).toEqual([true, false]);
});
