import { AccountCache, type AccountState, type TenantState } from './account-cache.ts';
import { genesisHash } from './log.ts';

/** The state of a tenant with this number of accounts, and of counts of velocity limits. */
function stateOf(tenant: string, accounts: number, counts = 0): TenantState {
  const head = { tenant, sequence: 1n, hash: genesisHash, lastMs: 0, chart: null, rebuilt: 0n, frozen: false };
  const steps = new Map(Array.from({ length: counts }, (_, index) => [`limit ${index}`, []]));
  const rules = counts === 0 ? null : { limits: new Map<string, never>(), above: new Map<string, never>(), steps };
  return { head, accounts: new Map(Array.from({ length: accounts }, (_, index) => [`account-${index}`, {} as AccountState])), rules };
}

test('a state that was put into the cache is there until it is taken', () => {
  const cache = new AccountCache(10);
  const own = stateOf('a', 2);
  cache.put('a', own);
  expect([cache.has('a'), cache.has('b')]).toEqual([true, false]);
  expect(cache.take('a')).toBe(own);
  expect([cache.has('a'), cache.take('a')]).toEqual([false, undefined]);
});

// `a2` puts tenant a with two accounts, and counts as three.
test.each([
  ['the tenant used least recently is evicted first', 9, 'a2 b2 c2 a2 d0', 'acd'],
  ['as many tenants are evicted as needed', 9, 'a2 b2 c2 d5', 'cd'],
  ['a state that replaces an older one frees its space', 6, 'a2 b2 b2 b0 c1', 'abc'],
  ['a state larger than the cache evicts its older version only', 5, 'a0 b2 b6', 'a'],
])('%s', (_, maxAccounts, puts, left) => {
  const cache = new AccountCache(maxAccounts);
  for (const put of puts.split(' ')) cache.put(put.charAt(0), stateOf(put.charAt(0), Number(put.charAt(1))));
  expect(['a', 'b', 'c', 'd'].filter((tenant) => cache.has(tenant)).join('')).toBe(left);
});

test('what velocity limits have counted takes space as accounts do', () => {
  const cache = new AccountCache(9);
  cache.put('a', stateOf('a', 2));
  cache.put('b', stateOf('b', 2, 5));
  expect([cache.has('a'), cache.has('b')]).toEqual([false, true]);
  cache.put('c', stateOf('c', 2, 8));
  expect([cache.has('b'), cache.has('c')]).toEqual([true, false]);
});
