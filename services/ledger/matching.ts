// Finds which lines of a hold or transaction a capture or partial reversal takes from. Pure; amounts are minor units.
import { toDecimal } from '../platform/money.ts';
import { Refusal, debitsMustEqualCredits, type Entry, type Reason } from './accounting.ts';

/** What is requested: an amount of two lines, entries with amounts of their own, or neither: all that remains. */
export interface Part {
  amount: bigint | null;
  entries: readonly Entry[] | null;
}

/** What is taken. */
export interface Taken {
  /** What is to be posted: the entries as sent, or one for each line of which something is left. */
  entries: Entry[];
  /** Taken from each line, in the order of the lines. */
  amounts: bigint[];
}

/**
 * Takes a part of `lines`, whose amounts are what is left of them. Sent entries name lines by account, side and currency, and fill alike ones in
 * order. Throws {@link Refusal}: `unbalanced`, `entries_mismatch` (there is no such line, or an amount is sent for other than two),
 * or `exceeded` (more than is left).
 */
export function takePart(lines: readonly Entry[], { amount, entries }: Part, exceeded: Reason): Taken {
  const refuse = (reason: Reason, field: string, value: string, message: string) =>
    new Refusal(reason, message, { field, tag: reason, value });
  if (entries) {
    debitsMustEqualCredits(entries);
    const found = entries.map((entry, index) => {
      const line = lines.find((each) => isAlike(each, entry));
      if (line) return { ...entry, counter: line.counter };
      const message = `there is no ${entry.side} of account ${entry.code} in ${entry.currency} to take from`;
      throw refuse('entries_mismatch', `entries[${index}].account_code`, entry.code, message);
    });
    const left = lines.map((line) => line.amount);
    found.forEach((entry, index) => {
      const rest = fill(lines, left, entry);
      if (rest === 0n) return;
      const message = `only ${toDecimal(entry.amount - rest)} of the ${entry.side} of account ${entry.code} in ${entry.currency} is left`;
      throw refuse(exceeded, `entries[${index}].amount`, toDecimal(entry.amount), message);
    });
    return { entries: found, amounts: lines.map((line, index) => line.amount - (left[index] as bigint)) };
  }
  if (amount === null) return { entries: lines.filter((line) => line.amount > 0n), amounts: lines.map((line) => line.amount) };
  if (lines.length !== 2) {
    throw refuse('entries_mismatch', 'amount', toDecimal(amount), `amount is for two entries, not ${lines.length}: send entries`);
  }
  const least = lines.reduce((smallest, line) => (line.amount < smallest ? line.amount : smallest), amount);
  if (least < amount) throw refuse(exceeded, 'amount', toDecimal(amount), `only ${toDecimal(least)} is left`);
  return { entries: lines.map((line) => ({ ...line, amount })), amounts: [amount, amount] };
}

/** Takes an entry's amount from what is left of alike lines, in their order; returns what they lack. */
function fill(lines: readonly Entry[], left: bigint[], entry: Entry): bigint {
  let rest = entry.amount;
  for (const [index, line] of lines.entries()) {
    if (!isAlike(line, entry)) continue;
    const there = left[index] as bigint;
    const taken = there < rest ? there : rest;
    left[index] = there - taken;
    rest -= taken;
  }
  return rest;
}

function isAlike(one: Entry, other: Entry): boolean {
  return one.code === other.code && one.side === other.side && one.currency === other.currency;
}
