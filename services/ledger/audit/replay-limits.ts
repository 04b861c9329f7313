// What the replay checks of blocks and limits, in code of its own, so that it finds a mistake of the writer.
import type { AccountRecord, PostedEntry } from '../../../proto/gen/ledger/v1/events_pb.js';

/** Reports why a balance in a currency may not go from `before` to `after` (minor units, in the account's normal direction). */
export function limitProblems(
  { accountCode, allowNegative, limits }: AccountRecord,
  currency: string,
  before: bigint,
  after: bigint,
  problem: (what: string) => void,
): void {
  const { minAvailable, maxBalance } = limits.find((limit) => limit.currency === currency) ?? {};
  const isBelow = (floor: bigint) => after < floor && after < before;
  if (!allowNegative && isBelow(0n)) problem(`leaves ${accountCode} below zero in ${currency}`);
  else if (minAvailable !== undefined && isBelow(minorUnits(minAvailable))) {
    problem(`leaves ${accountCode} below ${minAvailable} in ${currency}`);
  }
  if (maxBalance !== undefined && after > minorUnits(maxBalance) && after > before) {
    problem(`leaves ${accountCode} above ${maxBalance} in ${currency}`);
  }
}

/** Reports an entry on a side for which its account is blocked. */
export function blockProblem({ blocked }: AccountRecord, { accountCode, side }: PostedEntry, problem: (what: string) => void): void {
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

/** Minor units of a decimal text as events have it. Throws where it is none. */
export function minorUnits(text: string): bigint {
  if (!/^-?[0-9]+\.[0-9]{2}$/.test(text)) throw new Error(`${text} is no amount`);
  return BigInt(text.replace('.', ''));
}
