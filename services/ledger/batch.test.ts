// What a batch undoes leaves no trace: a run with refused atomic items and dry runs equals the run without them.
import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId, toUuid } from '../platform/ids.ts';
import type { AccountState, TenantState } from './account-cache.ts';
import { Batch } from './batch.ts';
import { validateReversal } from './commands.ts';
import { genesisHash } from './log.ts';
import { validatePosting, type ValidatedPosting } from './mapping.ts';
import { ActiveCursors } from './outbox/active-cursors.ts';
import type { Commands, Item, ItemOutcome } from './queue.ts';
import type { Limit } from './velocity.ts';

const tenantId = newId('tenant');
const tenant = toUuid('tenant', tenantId) as string;
const codes = ['a', 'b', 'purse', 'nobody'];

function accountState(code: string): [string, AccountState] {
  const id = newId('acc');
  const account = {
    ...{ id, uuid: toUuid('acc', id) as string, code, normalBalance: 'debit' as const, currency: null, isGroup: false },
    ...{ allowNegative: code !== 'purse', closed: false, system: false, rules: null },
  };
  return [code, { account, balances: new Map() }];
}

const accounts = codes.slice(0, 3).map(accountState);
const limit: Limit = {
  ...{ id: newId('limit'), accountCode: 'a', applies: 'account', currency: 'NGN', side: 'credit', paused: false },
  ...{ maxAmount: 4_000n, maxCount: null, window: { rollingSeconds: 60 } },
};

function freshState(): TenantState {
  const head = { tenant, sequence: 3n, hash: genesisHash, lastMs: 1_000, chart: null, rebuilt: 0n, frozen: false };
  return {
    head,
    accounts: new Map(accounts.map(([code, { account }]) => [code, { account, balances: new Map() }])),
    rules: { limits: new Map([['a', [limit]]]), above: new Map(), steps: new Map() },
    // No hold is due, so that every refusal stands.
    nextDueMs: Infinity,
  };
}

const keys = ['k1', 'k2', 'k3'];
const posting = fc.record({
  from: fc.constantFrom(...codes),
  to: fc.constantFrom(...codes),
  cents: fc.integer({ min: 1, max: 900 }),
  key: fc.option(fc.constantFrom(...keys), { nil: '', freq: 3 }),
  /** A single entry opens the suspense account of the currency. */
  single: fc.boolean(),
  currency: fc.constantFrom('NGN', 'NGN', 'NGN', 'USD'),
});
/** `reverse`: takes so many cents of the command before, or all. */
const planned = fc.record({ posting, reverse: fc.option(fc.integer({ min: 0, max: 600 }), { nil: undefined, freq: 3 }) });
const plans = fc.array(fc.record({ dryRun: fc.boolean(), commands: fc.array(planned, { minLength: 1, maxLength: 4 }) }), { maxLength: 25 });

const decimal = (cents: number) => (cents / 100).toFixed(2);

function commandsOf(all: (typeof planned extends fc.Arbitrary<infer Plan> ? Plan : never)[]): Commands {
  const made: ValidatedPosting[] = [];
  for (const { posting: plan, reverse } of all) {
    const before = made.findLast(({ kind }) => kind !== 'reversal');
    if (reverse !== undefined && before) {
      const call = { tenantId, actor: '', requestId: '', traceparent: '', retry: false };
      const request = { ...call, transactionId: before.transactionId, reversalId: '', idempotencyKey: '', description: '' };
      made.push(validateReversal(reverse === 0 ? request : { ...request, amount: decimal(reverse) }));
      continue;
    }
    const { from, to, cents, key, single, currency } = plan;
    const line = (accountCode: string, side: string) => ({ accountCode, side, currency, amount: decimal(cents) });
    const entries = single ? [line(to, 'debit')] : [line(to, 'debit'), line(from, 'credit')];
    made.push(validatePosting(create(PostingSchema, { tenantId, idempotencyKey: key, entries })));
  }
  return made as unknown as Commands;
}

function itemOf(commands: Commands, dryRun: boolean): Item {
  return {
    ...{ tenant, commands, dryRun, bytes: 0, expires: Infinity, uncertain: false, failFastOnLock: false, signal: undefined },
    settle: () => undefined,
  };
}

function decided(items: Item[]): { batch: Batch; state: TenantState; outcomes: ItemOutcome[] } {
  const state = freshState();
  const batch = new Batch(items, new ActiveCursors());
  batch.addState(state);
  batch.nowMs = 2_000;
  batch.decide();
  return { batch, state, outcomes: batch.settled.map(({ outcome }) => outcome) };
}

/** All that a batch leaves in memory and writes, without random ids and what is hashed with them. */
function traceOf({ batch, state }: { batch: Batch; state: TenantState }): unknown {
  const { log, posted, newAccounts, parts, balances, extras } = batch['changes'];
  const { keys: used, reversed } = batch.known.decided;
  return {
    head: [state.head.sequence, state.head.lastMs, state.head.rebuilt],
    isChained: (log.at(-1)?.hash ?? genesisHash).equals(state.head.hash),
    accounts: [...state.accounts].map(([code, { balances: all }]) => [code, [...all].sort()]).sort(),
    steps: [...(state.rules?.steps ?? [])].sort(),
    log: log.map(({ sequence, type, createdMs }) => [sequence, type, createdMs]),
    posted: posted.map(({ posting: { transactionId }, row, reverses }) => [transactionId, row, reverses]),
    newAccounts: newAccounts.map(({ account }) => account.accountCode),
    balances: balances.map(({ account, currency, from, after, atMs }) => [account.code, currency, from, after, atMs]).sort(),
    parts,
    velocity: extras.velocity.map(({ subject, steps }) => [subject, steps]).sort(),
    used: [...used].map(([key, { id, sequence }]) => [key, id, sequence]).sort(),
    reversed: [...reversed].map(([id, { left, parts: taken, ended }]) => [id, left, taken, ended]).sort(),
    isLocked: batch.lockReason,
  };
}

const textOf = (value: unknown) => JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${each}` : each), 1);

test('a run with refused atomic items and dry runs equals the run without them', () => {
  const seen = { done: 0, undone: 0, partly: 0 };
  fc.assert(
    fc.property(plans, (all) => {
      const items = all.map(({ dryRun, commands }) => itemOf(commandsOf(commands), dryRun));
      const mixed = decided(items);
      const kept = items.filter((item, index) => !item.dryRun && Array.isArray(mixed.outcomes[index]));
      const plain = decided(kept);
      expect(textOf(traceOf(mixed))).toBe(textOf(traceOf(plain)));
      expect(mixed.outcomes.filter((_, index) => kept.includes(items[index] as Item)).map(transactionsOf)).toEqual(
        plain.outcomes.map(transactionsOf),
      );
      seen.done += kept.length;
      seen.undone += items.length - kept.length;
      for (const outcome of mixed.outcomes) if ('refusal' in outcome && (outcome.at ?? 0) > 0) seen.partly++;
    }),
    { numRuns: 300 },
  );
  // Else the property says little.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50);
});

test('a dry run answers as the item itself would be answered', () => {
  fc.assert(
    fc.property(plans, (all) => {
      const items = all.map(({ commands }) => itemOf(commandsOf(commands), false));
      // Each is tried just before it is done.
      const { outcomes } = decided(items.flatMap((item) => [{ ...item, dryRun: true }, item]));
      for (let index = 0; index < outcomes.length; index += 2) {
        const [tried, done] = [outcomes[index] as ItemOutcome, outcomes[index + 1] as ItemOutcome];
        if (Array.isArray(done)) expect(shownOf(tried)).toEqual(shownOf(done));
        else expect(withoutIndex(tried)).toEqual(withoutIndex(done));
      }
    }),
    { numRuns: 200 },
  );
});

function transactionsOf(outcome: ItemOutcome): unknown {
  if (!Array.isArray(outcome)) return outcome;
  return outcome.map(({ result }) => [result.replayed, withoutAccountIds(result.outcome.value)]);
}

// Accounts that are created have another id in each run.
function withoutAccountIds(value: unknown): unknown {
  return JSON.parse(textOf(value), (key, each: unknown) => (key === 'accountId' ? undefined : each));
}

function shownOf(outcome: ItemOutcome): unknown {
  const own = ['transactionId', 'idempotencyKey', 'sequence', 'accountId'];
  return JSON.parse(textOf(outcome), (key, each: unknown) => (own.includes(key) ? undefined : each));
}

// A single command that is done has nothing to undo, so its refusal has no index.
function withoutIndex(outcome: ItemOutcome): unknown {
  return 'refusal' in outcome ? [outcome.refusal.reason, outcome.refusal.message, outcome.refusal.blame, outcome.at ?? 0] : outcome;
}

test('an item is found by its key whatever was undone before', () => {
  const commands = commandsOf([
    { posting: { from: 'a', to: 'b', cents: 100, key: 'k1', single: false, currency: 'NGN' }, reverse: undefined },
  ]);
  const { outcomes } = decided([itemOf(commands, true), itemOf(commands, false), itemOf(commands, true), itemOf(commands, false)]);
  const replayed = outcomes.map((outcome) => Array.isArray(outcome) && outcome[0]?.result.replayed);
  expect(replayed).toEqual([false, false, true, true]);
});
