import { nothing } from './accounting.ts';
import { AccountCache, type AccountState, type TenantState } from './account-cache.ts';
import { genesisHash } from './log.ts';

/** Books of so many accounts; what is in them is nobody's business here. */
function books(tenant: string, accounts: number): TenantState {
  const open: AccountState = {
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
    accounts: new Map(Array.from({ length: accounts }, (_, place) => [`account-${place}`, open])),
  };
}

test('books that were put on the shelf are there until they are taken', () => {
  const shelf = new AccountCache(10);
  const own = books('a', 2);
  shelf.put('a', own);
  expect([shelf.has('a'), shelf.has('b')]).toEqual([true, false]);
  expect(shelf.take('a')).toBe(own);
  expect([shelf.has('a'), shelf.take('a')]).toEqual([false, undefined]);
});

test('where there is no more room the books not used for longest go first; each counts its accounts and itself', () => {
  const shelf = new AccountCache(9);
  for (const tenant of ['a', 'b', 'c']) shelf.put(tenant, books(tenant, 2));
  expect(['a', 'b', 'c'].map((tenant) => shelf.has(tenant))).toEqual([true, true, true]);
  // Used again.
  shelf.put('a', shelf.take('a') as TenantState);
  shelf.put('d', books('d', 0));
  expect(['a', 'b', 'c', 'd'].map((tenant) => shelf.has(tenant))).toEqual([true, false, true, true]);
});

test('as many go as have to', () => {
  const shelf = new AccountCache(9);
  for (const tenant of ['a', 'b', 'c']) shelf.put(tenant, books(tenant, 2));
  shelf.put('d', books('d', 5));
  expect(['a', 'b', 'c', 'd'].map((tenant) => shelf.has(tenant))).toEqual([false, false, true, true]);
});

test('books put in the place of older ones of the same tenant take no more room than their own', () => {
  const shelf = new AccountCache(6);
  shelf.put('a', books('a', 2));
  for (let count = 0; count < 10; count += 1) shelf.put('b', books('b', 2));
  expect([shelf.has('a'), shelf.has('b')]).toEqual([true, true]);
  shelf.put('b', books('b', 0));
  shelf.put('c', books('c', 1));
  expect([shelf.has('a'), shelf.has('b'), shelf.has('c')]).toEqual([true, true, true]);
});

test('books with more accounts than the shelf holds are not kept, and push no others out; what was kept of them is gone', () => {
  const shelf = new AccountCache(5);
  shelf.put('a', books('a', 0));
  shelf.put('large', books('large', 2));
  shelf.put('large', books('large', 6));
  expect([shelf.has('a'), shelf.has('large')]).toEqual([true, false]);
});
