// One run of a check: its random choices, its keys, and what it found wrong.
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, Book, Ledger, Capability, Transfer } from './adapter.ts';
import { decimal, hundredths } from './amount.ts';

/** A rule that a ledger must keep. */
export interface Check {
  name: string;
  /** The rule, as a sentence. */
  holds: string;
  needs: Capability[];
  run(run: CheckRun): Promise<void>;
}

/** What a check works with. The same seed makes the same choices; keys are new in each run. */
export class CheckRun {
  readonly ledger: Ledger;
  /** What was wrong, in order. */
  readonly seen: string[] = [];
  readonly #seed: string;
  readonly #run = randomUUID().slice(0, 13);
  #choices = 0;
  #keys = 0;

  constructor(ledger: Ledger, seed: string) {
    this.ledger = ledger;
    this.#seed = seed;
  }

  /** A whole number, both ends inclusive. */
  whole(least: number, most: number): number {
    this.#choices += 1;
    const digest = createHash('sha256').update(`${this.#seed}/${this.#choices}`).digest();
    return least + Math.floor((digest.readUInt32BE(0) / 2 ** 32) * (most - least + 1));
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.whole(0, items.length - 1)]!;
  }

  /** A key that was never used. */
  key(): string {
    this.#keys += 1;
    return `conformance-${this.#run}-${this.#keys}`;
  }

  /** A transfer under a new key in the first currency, with changes. */
  transfer(from: string, to: string, amount: string, other: Partial<Transfer> = {}): Transfer {
    return { key: this.key(), from, to, amount, currency: this.ledger.currencies[0], ...other };
  }

  wrong(text: string): void {
    this.seen.push(text);
  }

  /** Notes an answer with another outcome. */
  must(answer: Answer, outcomes: Answer['outcome'][], what: string): void {
    if (!outcomes.includes(answer.outcome)) this.wrong(`${what} was answered ${answer.detail} (${answer.outcome})`);
  }

  /** Posts what the check needs. Throws unless it was created. */
  async given(book: Book, transfer: Transfer): Promise<Answer> {
    const answer = await book.post(transfer);
    if (answer.outcome !== 'created') throw new Error(`${transfer.amount} ${transfer.currency} could not be posted: ${answer.detail}`);
    return answer;
  }

  /** Repeats a posting until its outcome is known, at most ten times in some two seconds. */
  async settle(book: Book, transfer: Transfer): Promise<Answer> {
    for (let tries = 1; ; tries += 1) {
      const answer = await book.post(transfer);
      if (answer.outcome !== 'unknown' || tries === 10) return answer;
      await pause(40 * tries);
    }
  }

  /** Compares each balance with these transfers, and the sum of all with zero. */
  async compare(book: Book, posted: Transfer[]): Promise<void> {
    for (const currency of this.ledger.currencies) {
      let sum = 0n;
      for (const account of [...book.accounts, ...book.floored]) {
        const due = posted.reduce((total, each) => total + effect(each, account, currency), 0n);
        const text = await book.balance(account, currency);
        const balance = this.read(text, `the balance of ${account} in ${currency}`);
        if (balance === undefined) return;
        sum += balance;
        if (balance !== due) this.wrong(`${account} has ${text} ${currency} instead of ${decimal(due)}`);
      }
      if (sum !== 0n) this.wrong(`all balances in ${currency} add up to ${decimal(sum)}`);
    }
  }

  /** Parses an amount; notes it as wrong and returns undefined where it is none. */
  read(text: string, what: string): bigint | undefined {
    try {
      return hundredths(text);
    } catch {
      this.wrong(`${what} is ${JSON.stringify(text)}`);
      return undefined;
    }
  }
}

/** The effect of a transfer on an account, in hundredths. */
export function effect(transfer: Transfer, account: string, currency: string): bigint {
  if (transfer.currency !== currency) return 0n;
  const amount = hundredths(transfer.amount);
  return (transfer.to === account ? amount : 0n) - (transfer.from === account ? amount : 0n);
}
