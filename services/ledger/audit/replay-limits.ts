// What the replay checks of blocks and limits, in code of its own, so that it finds a mistake of the writer.
import type { AccountRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import { minorUnits, type Report } from './rows.ts';

/** What limits look at, minor units in the account's normal direction. */
export interface Limited {
  /** Balance without what is on its way out. */
  available: bigint;
  /** Balance with what is on its way in. */
  expected: bigint;
}

/** Reports why a balance in a currency may not go from `before` to `after`. What does not lower or raise it is allowed. */
export function limitProblems(
  { accountCode, allowNegative, limits }: AccountRecord,
  currency: string,
  before: Limited,
  after: Limited,
  problem: Report,
): void {
  const { minAvailable, maxBalance } = limits.find((limit) => limit.currency === currency) ?? {};
  const isBelow = (floor: bigint) => after.available < floor && after.available < before.available;
  if (!allowNegative && isBelow(0n)) problem(`leaves ${accountCode} below zero in ${currency}`);
  else if (minAvailable !== undefined && isBelow(minorUnits(minAvailable))) {
    problem(`leaves ${accountCode} below ${minAvailable} in ${currency}`);
  }
  if (maxBalance !== undefined && after.expected > minorUnits(maxBalance) && after.expected > before.expected) {
    problem(`leaves ${accountCode} above ${maxBalance} in ${currency}`);
  }
}

/** Reports an entry on a side for which its account is blocked. */
export function blockProblem(
  { blocked }: AccountRecord,
  { accountCode, side }: { accountCode: string; side: string },
  problem: Report,
): void {
  if (blocked.includes(side)) problem(`has a ${side} entry on ${accountCode}, which is blocked for it`);
}

/** Limits as their column has them. */
export function limitsColumn({ limits }: AccountRecord): string | null {
  if (limits.length === 0) return null;
  return JSON.stringify(
    limits.map(({ currency, minAvailable = null, maxBalance = null }) => ({
      currency,
      min_available: minAvailable,
      max_balance: maxBalance,
    })),
  );
}
