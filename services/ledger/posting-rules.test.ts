import fc from 'fast-check';
import {
  Refusal,
  largestTotal,
  net,
  nothing,
  opposite,
  outgoing,
  type Account,
  type Balance,
  type Books,
  type Entry,
  type Request,
} from './accounting.ts';
import { post } from './posting-rules.ts';

const currencies = ['NGN', 'USD'];
const codes = ['cash', 'wallet-a', 'wallet-b', 'fees', 'naira', 'old', 'group', 'SUSPENSE-NGN', 'SUSPENSE-USD'];

function account(code: string): Account {
  return {
    id: `id of ${code}`,
    code,
    normalBalance: code === 'cash' || code === 'naira' ? 'debit' : 'credit',
    currency: code === 'naira' || code === 'SUSPENSE-NGN' ? 'NGN' : code === 'SUSPENSE-USD' ? 'USD' : null,
    isGroup: code === 'group',
    allowNegative: !code.startsWith('wallet'),
    closed: code === 'old',
    system: code.startsWith('SUSPENSE'),
    rules: null,
  };
}

/** Accounts and balances in memory. */
class Ledger implements Books {
  readonly accounts = new Map(codes.map((code) => [code, account(code)]));
  readonly balances = new Map<string, Balance>();
  account(code: string) {
    return this.accounts.get(code);
  }
  balance(of: Account, currency: string) {
    return this.balances.get(`${of.code} ${currency}`) ?? nothing;
  }
  suspense(currency: string) {
    return this.accounts.get(`SUSPENSE-${currency}`) as Account;
  }
  /** Posts and keeps the result; returns the refusal if there is one. */
  apply(request: Request): Refusal | null {
    try {
      for (const { account: of, currency, after } of post(request, this).changes) this.balances.set(`${of.code} ${currency}`, after);
      return null;
    } catch (error) {
      if (error instanceof Refusal) return error;
      throw error;
    }
  }
  total(currency: string): bigint {
    let sum = 0n;
    for (const [place, { debits, credits }] of this.balances) if (place.endsWith(currency)) sum += debits - credits;
    return sum;
  }
}

const entry = (code: string, amount: bigint, side: 'debit' | 'credit', currency = 'NGN'): Entry => ({
  code,
  amount,
  side,
  currency,
  counter: false,
});
const transfer = (from: string, to: string, amount: bigint, currency = 'NGN'): Request => ({
  kind: 'double',
  entries: [entry(from, amount, 'debit', currency), entry(to, amount, 'credit', currency)],
});

const anyEntry: fc.Arbitrary<Entry> = fc.record({
  code: fc.constantFrom(...codes, 'nobody'),
  amount: fc.bigInt({ min: 1n, max: 1000n }),
  side: fc.constantFrom('debit', 'credit'),
  currency: fc.constantFrom(...currencies),
  counter: fc.constant(false),
});
const balanced = fc
  .array(anyEntry, { minLength: 1, maxLength: 5 })
  .chain((entries) =>
    fc.constantFrom(...codes).map((code) => [...entries, ...entries.map((e) => ({ ...e, code, side: opposite(e.side) }))]),
  )
  .map((entries): Request => ({ kind: 'double', entries }));
const anyRequest: fc.Arbitrary<Request> = fc.oneof(
  balanced,
  fc.array(anyEntry, { minLength: 2, maxLength: 6 }).map((entries): Request => ({ kind: 'double', entries })),
  anyEntry.map((one): Request => ({ kind: 'single', entries: [one] })),
);

test('any sequence of postings conserves money per currency, and no account that may not go negative does', () => {
  fc.assert(
    fc.property(fc.array(anyRequest, { maxLength: 60 }), (requests) => {
      const ledger = new Ledger();
      for (const request of requests) {
        ledger.apply(request);
        for (const currency of currencies) expect(ledger.total(currency)).toBe(0n);
        for (const [place, balance] of ledger.balances) {
          const of = ledger.accounts.get(place.split(' ')[0] as string) as Account;
          if (!of.allowNegative) expect(net(of, balance)).toBeGreaterThanOrEqual(0n);
        }
      }
    }),
    { numRuns: 300 },
  );
});

test('a refused posting changes nothing, and a posted one only the balances of its own entries, each by one version', () => {
  fc.assert(
    fc.property(fc.array(anyRequest, { maxLength: 30 }), anyRequest, (requests, last) => {
      const ledger = new Ledger();
      requests.forEach((request) => ledger.apply(request));
      const before = new Map(ledger.balances);
      const refused = ledger.apply(last) !== null;
      const touched = new Set(last.entries.map(({ code, currency }) => `${code} ${currency}`));
      if (last.kind === 'single') last.entries.forEach(({ currency }) => touched.add(`SUSPENSE-${currency} ${currency}`));
      for (const [place, balance] of ledger.balances) {
        const old = before.get(place) ?? nothing;
        if (refused || !touched.has(place)) expect(balance).toEqual(before.get(place));
        else expect(balance.version).toBe(old.version + 1n);
      }
      if (refused) expect(ledger.balances.size).toBe(before.size);
    }),
    { numRuns: 300 },
  );
});

test('the mirror of a posting brings every balance back', () => {
  fc.assert(
    fc.property(balanced, (request) => {
      const ledger = new Ledger();
      fc.pre(ledger.apply(transfer('cash', 'wallet-a', 1_000_000n)) === null);
      const nets = () => [...ledger.balances].map(([place, b]) => [place, b.debits - b.credits] as const);
      const before = new Map(nets());
      fc.pre(ledger.apply(request) === null);
      const mirror = request.entries.map((each) => ({ ...each, side: opposite(each.side) }));
      fc.pre(ledger.apply({ kind: 'reversal', entries: mirror }) === null);
      for (const [place, value] of nets()) expect(value).toBe(before.get(place) ?? 0n);
    }),
  );
});

test('a single entry is balanced on the suspense account of its currency', () => {
  const { lines } = post({ kind: 'single', entries: [entry('cash', 500n, 'debit', 'USD')] }, new Ledger());
  expect(lines.map((line) => [line.account.code, line.side, line.amount, line.counter])).toEqual([
    ['cash', 'debit', 500n, false],
    ['SUSPENSE-USD', 'credit', 500n, true],
  ]);
});

test('the balance after each entry runs through a transaction that uses an account twice', () => {
  const entries = [entry('cash', 100n, 'debit'), entry('cash', 30n, 'credit'), entry('fees', 70n, 'credit')];
  const { lines, changes } = post({ kind: 'double', entries }, new Ledger());
  expect(lines.map((line) => line.balanceAfter)).toEqual([100n, 70n, 70n]);
  expect(changes.map((change) => [change.account.code, change.after.debits, change.after.credits, change.after.version])).toEqual([
    ['cash', 100n, 30n, 1n],
    ['fees', 0n, 70n, 1n],
  ]);
});

/** A ledger whose wallet-a has so much in naira. */
function withWallet(amount: bigint): Ledger {
  const ledger = new Ledger();
  ledger.balances.set('wallet-a NGN', { ...nothing, credits: amount > 0n ? amount : 0n, debits: amount < 0n ? -amount : 0n, version: 1n });
  return ledger;
}

const spend = transfer('wallet-a', 'cash', 10n).entries;
const dip = [entry('wallet-a', 50n, 'debit'), entry('wallet-a', 50n, 'credit')];
const refusals: [string, bigint, Request, string, string, string][] = [
  ['an unknown account', 0n, transfer('cash', 'nobody', 1n), 'account_not_found', 'entries[1].account_code', 'nobody'],
  ['a closed account', 0n, transfer('old', 'cash', 1n), 'account_closed', 'entries[0].account_code', 'old'],
  ['a group', 0n, transfer('cash', 'group', 1n), 'account_is_group', 'entries[1].account_code', 'group'],
  ['another currency', 0n, transfer('cash', 'naira', 1n, 'USD'), 'currency_not_allowed', 'entries[1].account_code', 'naira'],
  ['one unit too many', 10n, transfer('wallet-a', 'cash', 11n), 'insufficient_funds', 'entries[0].account_code', 'wallet-a'],
  ['lowering a negative balance', -10n, transfer('wallet-a', 'cash', 1n), 'insufficient_funds', 'entries[0].account_code', 'wallet-a'],
  [
    'debits that differ',
    0n,
    { kind: 'double', entries: [entry('cash', 2n, 'debit'), entry('fees', 1n, 'credit')] },
    ...(['unbalanced', 'entries', 'NGN'] as const),
  ],
  [
    'a single entry on suspense',
    0n,
    { kind: 'single', entries: [entry('SUSPENSE-NGN', 1n, 'debit')] },
    ...(['account_is_system', 'account_code', 'SUSPENSE-NGN'] as const),
  ],
  [
    'a single entry without funds',
    0n,
    { kind: 'single', entries: [entry('wallet-b', 1n, 'debit')] },
    ...(['insufficient_funds', 'account_code', 'wallet-b'] as const),
  ],
  [
    'too little in one currency of two',
    10n,
    { kind: 'double', entries: [...transfer('wallet-a', 'cash', 10n).entries, ...transfer('wallet-a', 'cash', 1n, 'USD').entries] },
    ...(['insufficient_funds', 'entries[2].account_code', 'wallet-a'] as const),
  ],
  [
    'several entries, of which the last that lowers the account is named',
    0n,
    { kind: 'double', entries: [...spend, ...spend, ...transfer('cash', 'wallet-a', 1n).entries] },
    ...(['insufficient_funds', 'entries[2].account_code', 'wallet-a'] as const),
  ],
];
test.each(refusals)('%s is refused, and the field is named', (_, wallet, request, reason, field, value) => {
  const refusal = withWallet(wallet).apply(request);
  expect(refusal).toMatchObject({ name: 'Refusal', reason, blame: { field, tag: reason, value } });
  expect(refusal?.message).toContain(value);
});

test.each<[string, bigint, Request]>([
  ['the last unit of an account', 10n, transfer('wallet-a', 'cash', 10n)],
  ['raising a negative balance', -10n, transfer('cash', 'wallet-a', 1n)],
  ['leaving a negative balance as it was', -10n, { kind: 'double', entries: dip }],
  ['a dip within a transaction', 0n, { kind: 'double', entries: dip }],
  ['an account below zero that may be there', 0n, transfer('fees', 'cash', 5n)],
  ['money in the only currency of an account', 0n, transfer('cash', 'naira', 1n, 'NGN')],
  ['entries on suspense, where there are two', 0n, transfer('cash', 'SUSPENSE-NGN', 1n)],
])('%s is posted', (_, wallet, request) => {
  expect(withWallet(wallet).apply(request)).toBeNull();
});

test('a refusal of unbalanced entries says by how much', () => {
  const refusal = new Ledger().apply({ kind: 'double', entries: [entry('cash', 2n, 'debit'), entry('fees', 3n, 'credit')] });
  expect(refusal?.message).toBe('debits and credits in NGN differ: debits are 0.02, credits 0.03');
  expect(refusal?.blame?.details).toEqual({ debits: '0.02', credits: '0.03', difference: '-0.01' });
});

test('a total of 38 digits is posted, and one beyond is refused before it is written', () => {
  expect(String(largestTotal)).toBe('9'.repeat(38));
  for (const [code, side, place] of [
    ['cash', 'debits', 0],
    ['fees', 'credits', 1],
  ] as const) {
    const ledger = new Ledger();
    ledger.balances.set(`${code} NGN`, { ...nothing, [side]: largestTotal - 1n, version: 1n });
    expect(ledger.apply(transfer('cash', 'fees', 1n))).toBeNull();
    const refusal = ledger.apply(transfer('cash', 'fees', 1n));
    expect(refusal).toMatchObject({ reason: 'balance_overflow', message: `the totals of account ${code} would have more than 38 digits` });
    expect(refusal?.blame).toEqual({ field: `entries[${place}].account_code`, tag: 'balance_overflow', value: code });
  }
});

test('a single entry whose suspense account overflows is refused with the account that was sent', () => {
  const ledger = new Ledger();
  ledger.balances.set('SUSPENSE-NGN NGN', { ...nothing, credits: largestTotal, version: 1n });
  const refusal = ledger.apply({ kind: 'single', entries: [entry('cash', 1n, 'debit')] });
  expect(refusal).toMatchObject({
    reason: 'balance_overflow',
    message: 'the totals of account SUSPENSE-NGN would have more than 38 digits',
  });
  expect(refusal?.blame).toEqual({ field: 'account_code', tag: 'balance_overflow', value: 'cash' });
});

test('pending outgoing money is on the side that lowers the account', () => {
  const pending = { ...nothing, pendingDebits: 3n, pendingCredits: 5n };
  expect([outgoing({ normalBalance: 'debit' }, pending), outgoing({ normalBalance: 'credit' }, pending)]).toEqual([5n, 3n]);
});
