import fc from 'fast-check';
import {
  Refusal,
  available,
  largestTotal,
  net,
  nothing,
  type Account,
  type AccountLimit,
  type Balance,
  type Entry,
  type Request,
  type Side,
} from './accounting.ts';
import { post } from './posting-rules.ts';

const entry = (code: string, amount: bigint, side: Side): Entry => ({ code, amount, side, currency: 'NGN', counter: false });
const move = (from: string, to: string, amount: bigint) => [entry(from, amount, 'debit'), entry(to, amount, 'credit')];
const hold = (entries: Entry[], more: Partial<Request> = {}): Request => ({ kind: 'hold', entries: [], reserve: entries, ...more });
const capture = (entries: Entry[], release = entries, more: Partial<Request> = {}): Request => ({
  kind: 'capture',
  entries,
  release,
  ...more,
});
const release = (entries: Entry[]): Request => ({ kind: 'void', entries: [], release: entries });
const transfer = (from: string, to: string, amount: bigint): Request => ({ kind: 'double', entries: move(from, to, amount) });

/** Wallets, which may not go below zero, and cash, in memory. */
class Ledger {
  readonly accounts = new Map(['a', 'b', 'cash'].map((code) => [code, this.account(code)]));
  readonly balances = new Map<string, Balance>();
  account(code: string): Account {
    const rules = { id: code, code, currency: null, isGroup: false, closed: false, system: false, rules: null };
    return { ...rules, normalBalance: code === 'cash' ? 'debit' : 'credit', allowNegative: code === 'cash' };
  }
  limit(code: string, limit: Partial<AccountLimit>, blocked: Side[] = []): this {
    const limits = new Map([['NGN', { minAvailable: null, maxBalance: null, ...limit }]]);
    this.accounts.set(code, { ...this.account(code), allowNegative: true, rules: { blocked, limits } });
    return this;
  }
  apply(request: Request): Refusal | null {
    try {
      const books = {
        account: (code: string) => this.accounts.get(code),
        balance: ({ code }: Account) => this.of(code),
        suspense: () => this.accounts.get('cash') as Account,
      };
      for (const { account, after } of post(request, books).changes) this.balances.set(account.code, after);
      return null;
    } catch (error) {
      if (error instanceof Refusal) return error;
      throw error;
    }
  }
  of(code: string): Balance {
    return this.balances.get(code) ?? nothing;
  }
  available(code: string): bigint {
    return available(this.accounts.get(code) as Account, this.of(code));
  }
  net(code: string): bigint {
    return net(this.accounts.get(code) as Account, this.of(code));
  }
}

const withMoney = (amount: bigint): Ledger => {
  const ledger = new Ledger();
  expect(ledger.apply(transfer('cash', 'a', amount))).toBeNull();
  return ledger;
};

test('a hold lowers what is available and no balance, a capture the balance, and each is one version', () => {
  const ledger = withMoney(100n);
  const seen = () => [ledger.net('a'), ledger.available('a'), ledger.of('a').version, ledger.net('b'), ledger.available('b')];
  expect(ledger.apply(hold(move('a', 'b', 60n)))).toBeNull();
  expect(seen()).toEqual([100n, 40n, 2n, 0n, 0n]);
  expect(ledger.of('b')).toMatchObject({ pendingCredits: 60n, version: 1n });
  expect(ledger.apply(capture(move('a', 'b', 20n)))).toBeNull();
  expect(seen()).toEqual([80n, 40n, 3n, 20n, 20n]);
  expect(ledger.apply(capture(move('a', 'b', 10n), move('a', 'b', 30n)))).toBeNull();
  expect(seen()).toEqual([70n, 60n, 4n, 30n, 30n]);
  expect(ledger.apply(release(move('a', 'b', 10n)))).toBeNull();
  expect(seen()).toEqual([70n, 70n, 5n, 30n, 30n]);
});

test('held money is spent by no posting and no other hold, and incoming money by none either', () => {
  const ledger = withMoney(100n);
  ledger.apply(hold(move('a', 'b', 60n)));
  for (const request of [transfer('a', 'cash', 41n), hold(move('a', 'b', 41n)), transfer('b', 'cash', 1n), hold(move('b', 'a', 1n))]) {
    expect(ledger.apply(request)).toMatchObject({ reason: 'insufficient_funds', blame: { field: 'entries[0].account_code' } });
  }
  expect(ledger.apply(transfer('a', 'cash', 40n))).toBeNull();
});

test('a floor counts what is outgoing, a ceiling what is incoming', () => {
  const ledger = new Ledger().limit('a', { minAvailable: -50n }).limit('b', { maxBalance: 70n });
  expect(ledger.apply(hold(move('a', 'b', 50n)))).toBeNull();
  expect(ledger.apply(hold(move('a', 'cash', 1n)))?.reason).toBe('insufficient_funds');
  expect(ledger.apply(transfer('cash', 'b', 21n))).toMatchObject({ reason: 'limit_exceeded', blame: { field: 'entries[1].account_code' } });
  expect(ledger.apply(hold(move('cash', 'b', 21n)))).toMatchObject({
    reason: 'limit_exceeded',
    blame: { field: 'entries[1].account_code', tag: 'max_balance', value: 'b' },
  });
  expect(ledger.apply(hold(move('cash', 'b', 20n)))).toBeNull();
});

test('limits that were set later refuse neither capture nor void; blocks and conditions refuse a capture', () => {
  const ledger = withMoney(100n);
  ledger.apply(hold(move('a', 'b', 60n)));
  ledger.limit('a', { minAvailable: 1_000n }, ['debit']).limit('b', { maxBalance: -1n });
  const blocked = ledger.apply(capture(move('a', 'b', 10n)));
  expect(blocked).toMatchObject({ reason: 'account_blocked', blame: { field: 'entries[0].account_code', value: 'a' } });
  expect(ledger.apply(release(move('a', 'b', 10n)))).toBeNull();
  ledger.limit('a', { minAvailable: 1_000n });
  const check = {
    path: 'balance.gte',
    measure: 'balance' as const,
    comparator: 'gte' as const,
    value: 91n,
    text: '0.91',
  };
  const require = [{ field: 'require[0]', code: 'a', currency: 'NGN', checks: [check] }];
  expect(ledger.apply(capture(move('a', 'b', 10n), undefined, { require }))?.reason).toBe('condition_failed');
  expect(ledger.apply(capture(move('a', 'b', 9n), undefined, { require }))).toBeNull();
});

test.each<[string, Request, string, string]>([
  ['unbalanced entries', hold([entry('a', 2n, 'debit'), entry('b', 1n, 'credit')]), 'unbalanced', 'entries'],
  ['an unknown account', hold(move('a', 'nobody', 1n)), 'account_not_found', 'entries[1].account_code'],
  ['a blocked account', hold(move('a', 'b', 1n)), 'account_blocked', 'entries[1].account_code'],
])('a hold of %s is refused', (_, request, reason, field) => {
  expect(new Ledger().limit('a', {}).limit('b', {}, ['credit']).apply(request)).toMatchObject({ reason, blame: { field } });
});

test('an override holds what blocks, floors and ceilings would refuse', () => {
  const ledger = new Ledger().limit('a', { maxBalance: 0n }, ['credit']);
  expect(ledger.apply(hold(move('b', 'a', 5n), { override: true }))).toBeNull();
  expect(ledger.available('b')).toBe(-5n);
});

test('what is pending counts for the largest total, so that a capture always fits', () => {
  const ledger = new Ledger();
  ledger.balances.set('cash', { ...nothing, debits: largestTotal - 2n, version: 1n });
  expect(ledger.apply(hold(move('cash', 'b', 3n)))).toMatchObject({ reason: 'balance_overflow', blame: { value: 'cash' } });
  expect(ledger.apply(hold(move('cash', 'b', 2n)))).toBeNull();
  expect(ledger.apply(transfer('cash', 'b', 1n))?.reason).toBe('balance_overflow');
  expect(ledger.apply(capture(move('cash', 'b', 2n)))).toBeNull();
});

test('in any order of steps, captures and voids are never refused, and nothing below zero is available', () => {
  const code = fc.constantFrom('a', 'b', 'cash');
  const step = fc.record({
    what: fc.constantFrom('post', 'hold', 'capture', 'void'),
    from: code,
    to: code,
    amount: fc.bigInt({ min: 1n, max: 100n }),
    nth: fc.nat(5),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ledger = new Ledger();
      const open: { from: string; to: string; left: bigint }[] = [];
      for (const { what, from, to, amount, nth } of steps) {
        const held = open[nth];
        if (what === 'post') ledger.apply(transfer(from, to, amount));
        else if (what === 'hold') {
          if (ledger.apply(hold(move(from, to, amount))) === null) open.push({ from, to, left: amount });
        } else if (held) {
          const taken = amount < held.left ? amount : held.left;
          const entries = move(held.from, held.to, taken);
          expect(ledger.apply(what === 'capture' ? capture(entries) : release(entries))).toBeNull();
          held.left -= taken;
          if (held.left === 0n) open.splice(nth, 1);
        }
        for (const each of ['a', 'b']) expect(ledger.available(each)).toBeGreaterThanOrEqual(0n);
        for (const each of ['a', 'b', 'cash']) {
          const sum = (side: 'from' | 'to') => open.reduce((total, one) => (one[side] === each ? total + one.left : total), 0n);
          expect(ledger.of(each)).toMatchObject({ pendingDebits: sum('from'), pendingCredits: sum('to') });
        }
      }
    }),
    { numRuns: 300 },
  );
});
