// One check at work: its choices, its keys, and what it has seen wrong.
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, Book, Ledger, Notion, Transfer } from './adapter.ts';
import { decimal, hundredths } from './amount.ts';

/** Something that a ledger must hold to. */
export interface Check {
  name: string;
  /** What must hold, as a sentence. */
  holds: string;
  needs: Notion[];
  run(trial: Trial): Promise<void>;
}

/** What a check works with. The same seed makes the same choices; keys are new in each run. */
export class Trial {
  readonly ledger: Ledger;
  /** What was seen wrong, in order. */
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

  /** A transfer under a new key in the first currency, unless it says otherwise. */
  transfer(from: string, to: string, amount: string, other: Partial<Transfer> = {}): Transfer {
    return { key: this.key(), from, to, amount, currency: this.ledger.currencies[0], ...other };
  }

  wrong(text: string): void {
    this.seen.push(text);
  }

  /** Says what an answer was where it should have been another. */
  must(answer: Answer, outcomes: Answer['outcome'][], what: string): void {
    if (!outcomes.includes(answer.outcome)) this.wrong(`${what} was answered ${answer.said} (${answer.outcome})`);
  }

  /** Posts what the check stands on. Throws unless it was created, for then nothing can be said. */
  async given(book: Book, transfer: Transfer): Promise<Answer> {
    const answer = await book.post(transfer);
    if (answer.outcome !== 'created') throw new Error(`${transfer.amount} ${transfer.currency} could not be posted: ${answer.said}`);
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

  /** Compares each account with what these transfers make of it, and the sum of all with zero. */
  async compare(book: Book, posted: Transfer[]): Promise<void> {
    for (const currency of this.ledger.currencies) {
      let sum = 0n;
      for (const account of [...book.accounts, ...book.floored]) {
        const due = posted.reduce((total, each) => total + effect(each, account, currency), 0n);
        const text = await book.balance(account, currency);
        const held = this.read(text, `the balance of ${account} in ${currency}`);
        if (held === undefined) return;
        sum += held;
        if (held !== due) this.wrong(`${account} holds ${text} ${currency} where ${decimal(due)} is due`);
      }
      if (sum !== 0n) this.wrong(`all balances in ${currency} add up to ${decimal(sum)}`);
    }
  }

  /** An amount that the ledger told; undefined, and wrong, where it is none. */
  read(text: string, what: string): bigint | undefined {
    try {
      return hundredths(text);
    } catch {
      this.wrong(`${what} is told as ${JSON.stringify(text)}`);
      return undefined;
    }
  }
}

/** What a transfer does to an account, in hundredths. */
export function effect(transfer: Transfer, account: string, currency: string): bigint {
  if (transfer.currency !== currency) return 0n;
  const amount = hundredths(transfer.amount);
  return (transfer.to === account ? amount : 0n) - (transfer.from === account ? amount : 0n);
}
