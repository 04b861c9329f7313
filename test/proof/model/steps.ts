// The random steps of a sequence: data that refers to things by index, so that it stays valid when shrinking removes steps.
import fc from 'fast-check';

/** Chooses an account, transaction or key: an index among those that exist, or an unfit one where `odd` is small. */
export interface Pick {
  at: number;
  /** 0 to 19. */
  odd: number;
}

/** One step; `do` names it, the rest are its parameters. */
export type Step = { do: string; via: 'rest' | 'grpc'; tenant: number } & Record<string, any>;

const amounts = ['1.00', '0.01', '5.5', '10', '10.00', '250.75', '9999999999999.99'];
const nat = fc.nat({ max: 999 });
const pick: fc.Arbitrary<Pick> = fc.record({ at: nat, odd: fc.nat({ max: 19 }) });
const amount = fc.constantFrom(...amounts);
const currency = fc.constantFrom('NGN', 'NGN', 'USD', 'EUR', 'GBP');
const side = fc.constantFrom('debit' as const, 'credit' as const);
const about = {
  keyed: fc.constantFrom(true, true, false),
  description: fc.constantFrom(undefined, null, '', 'Déposit 🏦'),
  reference: fc.constantFrom(undefined, null, 'INV-1', 'INV-2'),
  metadata: fc.constantFrom(undefined, null, {}, { b: 1, a: { d: [1, 2], c: null } }, { order: 'x' }),
};
const entry = fc.record({ account: pick, amount, side });
const days = fc.constantFrom('any', 'any', 'any', 'that', 'before', 'since', 'later', 'until');

type Own = Record<string, fc.Arbitrary<unknown>>;

// Weight and parameters of each step.
const kinds: Record<string, [weight: number, own: Own]> = {
  double: [16, { ...about, debit: pick, credit: pick, amount, currency, unbalanced: fc.nat({ max: 19 }) }],
  single: [8, { ...about, account: pick, amount, side, currency }],
  many: [6, { ...about, lines: fc.array(fc.record({ from: pick, to: pick, amount, currency }), { minLength: 2, maxLength: 4 }) }],
  batch: [
    4,
    {
      items: fc.array(
        fc.record({
          ...about,
          tenant: fc.constantFrom(0, 0, 1, 2),
          entries: fc.array(entry, { minLength: 1, maxLength: 3 }),
          currency,
          again: nat,
        }),
        {
          minLength: 1,
          maxLength: 6,
        },
      ),
    },
  ],
  reverse: [7, { ...about, transaction: pick }],
  again: [7, { posting: nat, form: fc.nat({ max: 3 }) }],
  reuse: [4, { posting: nat, what: fc.constantFrom('description', 'reference', 'metadata', 'amount', 'account_code', 'side', 'currency') }],
  wrong: [7, { kind: nat }],
  fill: [2, { ...about, at: nat, other: pick, amount, spare: fc.constantFrom(0, 0, 1) }],
  open: [
    6,
    {
      type: fc.constantFrom('asset', 'liability', 'equity', 'revenue', 'expense'),
      only: fc.option(currency, { nil: null }),
      parent: pick,
      allow: fc.constantFrom(undefined, true, false, false),
      group: fc.nat({ max: 7 }),
      taken: fc.nat({ max: 6 }),
      contra: fc.nat({ max: 5 }),
    },
  ],
  change: [
    10,
    {
      account: pick,
      what: fc.constantFrom(
        'name',
        'description',
        'metadata',
        'allow',
        'deny',
        'move',
        'close',
        'close',
        'close',
        'close',
        'open',
        'nothing',
        'immutable',
      ),
      version: fc.nat({ max: 5 }),
    },
  ],
  setUp: [2, { type: fc.constantFrom('wallet', 'exchange', 'lending', 'payment_processor', 'other') }],
  balance: [6, { account: pick, currency: fc.option(currency, { nil: undefined }) }],
  history: [6, { account: pick, currency, days, at: nat, limit: fc.constantFrom(1, 2, 7, 100) }],
  transaction: [3, { transaction: pick }],
  transactions: [
    4,
    {
      filter: fc.constantFrom('none', 'none', 'account_code', 'currency', 'reference', 'idempotency_key'),
      days,
      at: nat,
      limit: fc.constantFrom(3, 10, 100),
    },
  ],
  account: [2, { account: pick }],
  accounts: [2, { filter: fc.constantFrom('none', 'type', 'status', 'parent_code'), at: nat, limit: fc.constantFrom(10, 100) }],
  hierarchy: [2, { balances: fc.boolean() }],
  events: [2, { after: nat, limit: fc.constantFrom(1, 10, 100) }],
  tenant: [2, { taken: fc.nat({ max: 3 }) }],
  key: [
    2,
    {
      scopes: fc.subarray(
        ['accounts:read', 'accounts:write', 'balances:read', 'transactions:read', 'transactions:write', 'webhooks:manage'],
        { minLength: 1 },
      ),
    },
  ],
  keys: [1, {}],
  revoke: [1, { key: pick }],
  scope: [5, { key: nat, route: nat }],
  foreign: [3, { key: nat, route: nat }],
  configure: [
    3,
    {
      to: fc.constantFrom('ok', 'ok', 'broken', 'second', 'moved'),
      events: fc.subarray(['transaction.posted', 'balance.updated', 'account.created', 'account.updated'], { minLength: 1 }),
      secret: fc.nat({ max: 3 }),
      enabled: fc.constantFrom(undefined, null, true, true, false),
    },
  ],
  adjust: [
    2,
    {
      to: fc.constantFrom(undefined, 'ok', 'broken'),
      enabled: fc.constantFrom(undefined, true, true, false),
      events: fc.constantFrom(undefined, ['balance.updated'], ['account.created', 'account.updated']),
    },
  ],
  rotate: [1, { overlap: fc.constantFrom(undefined, 0, 3600) }],
  rotateKey: [1, { key: nat, overlap: fc.constantFrom(undefined, 3600) }],
  unhook: [0.5, {}],
  webhook: [1, {}],
  trial: [1, { type: fc.constantFrom(undefined, 'test.webhook', 'transaction.posted', 'balance.updated') }],
  deliveries: [
    1,
    {
      status: fc.constantFrom(undefined, 'delivered', 'failed'),
      type: fc.constantFrom(undefined, 'transaction.posted', 'balance.updated'),
    },
  ],
  delivery: [1, { at: pick }],
  retry: [3, { at: pick, off: fc.nat({ max: 2 }) }],
  burst: [0.5, { of: fc.constantFrom('configure', 'trial', 'retry', 'retry') }],
};

const via = fc.constantFrom('rest' as const, 'grpc' as const);
const tenant = fc.constantFrom(0, 0, 0, 1, 2);

const step: fc.Arbitrary<Step> = fc.oneof(
  ...Object.entries(kinds).map(([name, [weight, own]]) => ({
    weight: weight * 2,
    arbitrary: fc.record({ do: fc.constant(name), via, tenant, ...own }) as fc.Arbitrary<Step>,
  })),
);

/** Names of all steps. */
export const stepNames = Object.keys(kinds);

// Most tenants begin with a webhook or a chart.
const beginning: fc.Arbitrary<Step[]> = fc
  .tuple(fc.constantFrom('wallet', 'exchange', 'lending', 'payment_processor', 'other', ''), fc.boolean())
  .map(([type, webhook]) => [
    ...(webhook
      ? [{ do: 'configure', via: 'rest' as const, tenant: 0, to: 'ok', events: ['transaction.posted', 'account.updated'], secret: 0 }]
      : []),
    ...(type === '' ? [] : [{ do: 'setUp', via: 'rest' as const, tenant: 0, type }]),
  ]);

/** A sequence of at most so many steps after a short beginning. */
export function sequences(most: number): fc.Arbitrary<Step[]> {
  const steps = fc.array(step, { minLength: 1, maxLength: most, size: 'max' });
  return fc.noBias(fc.tuple(beginning, steps).map(([one, rest]) => [...one, ...rest]));
}
