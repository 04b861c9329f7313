// A ledger in memory, with one flaw that the kit must find. Also the shortest example of an adapter.
import { setImmediate as turn } from 'node:timers/promises';
import type { Answer, Book, Entry, Ledger, Open, Transfer } from './adapter.ts';
import { decimal, hundredths } from './amount.ts';

/** What can be wrong with it. */
export type Flaw =
  | 'forgets keys'
  | 'answers a repetition with a new id'
  | 'looks a key up before it waits'
  | 'replays whatever the body is'
  | 'keeps no key after a refusal'
  | 'keeps a key only once it has answered'
  | 'refuses what crosses'
  | 'writes a balance that it read before it waits'
  | 'keeps one balance for all currencies'
  | 'looks at the floor before it waits'
  | 'takes entries that do not balance'
  | 'writes one side before the other'
  | 'lists a change twice'
  | 'counts in doubles'
  | 'counts in fractions of doubles'
  | 'spends what is held'
  | 'looks at a hold before it waits'
  | 'keeps what a last capture leaves'
  | 'adds refunds up after it waits'
  | 'posts what it can of what belongs together';

interface Held {
  from: string;
  to: string;
  currency: string;
  left: bigint;
}

interface Kept {
  body: string;
  answer: Answer;
}

class MemoryBook implements Book {
  readonly accounts: string[];
  readonly floored: string[];
  readonly #flaw: Flaw | undefined;
  readonly #balances = new Map<string, bigint | number>();
  readonly #keys = new Map<string, Kept>();
  readonly #refused = new Set<string>();
  readonly #changes: { account: string; currency: string; transaction: string; amount: string }[] = [];
  readonly #busy = new Set<string>();
  readonly #holds = new Map<string, Held>();
  /** Entries by transaction, and what was refunded of it. */
  readonly #posted = new Map<string, { entries: Entry[]; refunded: bigint }>();
  #transactions = 0;

  constructor(flaw: Flaw | undefined, want: { accounts: number; floored: number }) {
    this.#flaw = flaw;
    this.accounts = Array.from({ length: want.accounts }, (_, place) => `free-${place}`);
    this.floored = Array.from({ length: want.floored }, (_, place) => `floored-${place}`);
  }

  post: Book['post'] = async ({ key, ...transfer }, cutAfter) => {
    const answer = await this.#take(key, this.#entriesOf(transfer), cutAfter !== undefined);
    return cutAfter === undefined ? answer : { outcome: 'unknown', detail: 'dropped' };
  };

  postEntries = ({ key, entries }: { key: string; entries: Entry[] }): Promise<Answer> => this.#take(key, entries, false);

  hold = async ({ from, to, amount, currency }: Transfer): Promise<Answer> => {
    await turn();
    const why = this.#objection(this.#entriesOf({ from, to, amount, currency }));
    if (why !== undefined) return { outcome: 'refused', detail: `422 ${why}` };
    const id = `h-${this.#holds.size + 1}`;
    this.#holds.set(id, { from, to, currency, left: hundredths(amount) });
    return { outcome: 'created', id, detail: '201' };
  };

  capture: NonNullable<Book['capture']> = async ({ key, hold, amount, final }) => {
    await turn();
    const held = this.#holds.get(hold) as Held;
    const units = hundredths(amount);
    const isLess = held.left < units;
    if (this.#flaw === 'looks at a hold before it waits') await turn();
    if (isLess) return { outcome: 'refused', detail: '422 more than is held' };
    held.left = final && this.#flaw !== 'keeps what a last capture leaves' ? 0n : held.left - units;
    return this.#write(key, this.#entriesOf({ ...held, amount }), false);
  };

  release = async (hold: string): Promise<Answer> => {
    await turn();
    const held = this.#holds.get(hold) as Held;
    const isOver = held.left === 0n;
    if (this.#flaw === 'looks at a hold before it waits') await turn();
    held.left = 0n;
    return isOver ? { outcome: 'refused', detail: '409 ended' } : { outcome: 'created', detail: '200' };
  };

  refund: NonNullable<Book['refund']> = async ({ key, transaction, amount }) => {
    await turn();
    const original = this.#posted.get(transaction)!;
    const units = hundredths(amount);
    if (original.refunded + units > hundredths(original.entries[0]!.amount)) return { outcome: 'refused', detail: '422 more than is left' };
    if (this.#flaw === 'adds refunds up after it waits') await turn();
    original.refunded += units;
    const back = original.entries.map((entry): Entry => ({ ...entry, way: entry.way === 'in' ? 'out' : 'in', amount }));
    return this.#write(key, back, false);
  };

  postTogether = async (transfers: Transfer[]): Promise<Answer> => {
    await turn();
    const before = new Map(this.#balances);
    for (const { key, ...transfer } of transfers) {
      const entries = this.#entriesOf(transfer);
      const why = this.#objection(entries);
      if (why === undefined) await this.#write(key, entries, false);
      else if (this.#flaw !== 'posts what it can of what belongs together') {
        this.#balances.clear();
        for (const [name, balance] of before) this.#balances.set(name, balance);
        for (const each of transfers) this.#keys.delete(each.key);
        return { outcome: 'refused', detail: `422 ${why}` };
      }
    }
    return { outcome: 'created', detail: '201' };
  };

  #entriesOf({ from, to, amount, currency }: Omit<Transfer, 'key'>): Entry[] {
    return [
      { account: from, way: 'out', amount, currency },
      { account: to, way: 'in', amount, currency },
    ];
  }

  async balance(account: string, currency: string): Promise<string> {
    await turn();
    return this.#shown(account, currency);
  }

  async balances(accounts: string[], currency: string): Promise<string[]> {
    await turn();
    return accounts.map((each) => this.#shown(each, currency));
  }

  async history(account: string, currency: string): Promise<{ transaction: string; amount: string }[]> {
    const found = this.#changes.filter((each) => each.account === account && each.currency === currency);
    if (this.#flaw === 'lists a change twice') return [...found, ...found.slice(0, 1)];
    return found;
  }

  async #take(key: string, entries: Entry[], lost: boolean): Promise<Answer> {
    await turn();
    const known = this.#repetition(key, JSON.stringify(entries));
    if (known) return known;
    if (this.#flaw === 'looks a key up before it waits') await turn();
    if (this.#flaw === 'refuses what crosses') {
      const way = entries
        .map(({ account }) => account)
        .sort()
        .join();
      if (this.#busy.has(way)) return { outcome: 'unknown', detail: '500 deadlock' };
      this.#busy.add(way);
      await turn();
      this.#busy.delete(way);
    }
    const why = this.#objection(entries);
    if (this.#flaw === 'looks at the floor before it waits') await turn();
    if (why !== undefined) {
      this.#refused.add(key);
      return { outcome: 'refused', detail: `422 ${why}` };
    }
    return this.#write(key, entries, lost);
  }

  #repetition(key: string, body: string): Answer | undefined {
    const known = this.#flaw === 'forgets keys' ? undefined : this.#keys.get(key);
    if (!known) return undefined;
    if (known.body !== body && this.#flaw !== 'replays whatever the body is') return { outcome: 'refused', detail: '422 another body' };
    const id = this.#flaw === 'answers a repetition with a new id' ? `t-${(this.#transactions += 1)}` : known.answer.id;
    return { outcome: 'replayed', id, detail: '200' };
  }

  #objection(entries: Entry[]): string | undefined {
    const sums = new Map<string, bigint>();
    for (const { currency, way, amount } of entries) {
      sums.set(currency, (sums.get(currency) ?? 0n) + (way === 'in' ? 1n : -1n) * hundredths(amount));
    }
    if (this.#flaw !== 'takes entries that do not balance' && [...sums.values()].some((sum) => sum !== 0n)) return 'unbalanced';
    const short = entries.some(({ account, way, amount, currency }) => {
      const balance = BigInt(Math.trunc(Number(this.#balances.get(this.#balanceKey(account, currency)) ?? 0)));
      return way === 'out' && this.floored.includes(account) && balance - this.#heldOf(account, currency) < hundredths(amount);
    });
    return short ? 'insufficient funds' : undefined;
  }

  #heldOf(account: string, currency: string): bigint {
    if (this.#flaw === 'spends what is held') return 0n;
    const own = [...this.#holds.values()].filter((held) => held.from === account && held.currency === currency);
    return own.reduce((sum, { left }) => sum + left, 0n);
  }

  async #write(key: string, entries: Entry[], lost: boolean): Promise<Answer> {
    this.#transactions += 1;
    const transaction = `t-${this.#transactions}`;
    const answer: Answer = { outcome: 'created', id: transaction, detail: '201' };
    this.#posted.set(transaction, { entries, refunded: 0n });
    const isForgotten =
      (this.#flaw === 'keeps no key after a refusal' && this.#refused.has(key)) ||
      (this.#flaw === 'keeps a key only once it has answered' && lost);
    if (!isForgotten) this.#keys.set(key, { body: JSON.stringify(entries), answer });
    for (const { account, way, amount, currency } of entries) {
      const balanceKey = this.#balanceKey(account, currency);
      const balance = this.#balances.get(balanceKey) ?? 0n;
      if (this.#flaw === 'writes a balance that it read before it waits') await turn();
      const change = (way === 'in' ? 1n : -1n) * hundredths(amount);
      this.#balances.set(balanceKey, this.#sum(balance, change));
      this.#changes.push({ account, currency, transaction, amount: decimal(change) });
      if (this.#flaw === 'writes one side before the other') await turn();
    }
    return answer;
  }

  #balanceKey(account: string, currency: string): string {
    return this.#flaw === 'keeps one balance for all currencies' ? account : `${account} ${currency}`;
  }

  #sum(balance: bigint | number, change: bigint): bigint | number {
    if (this.#flaw === 'counts in doubles') return Number(balance) + Number(change);
    if (this.#flaw === 'counts in fractions of doubles') return Number(balance) + Number(change) / 100;
    return BigInt(balance) + change;
  }

  #shown(account: string, currency: string): string {
    const balance = this.#balances.get(this.#balanceKey(account, currency)) ?? 0n;
    return this.#flaw === 'counts in fractions of doubles' ? String(balance) : decimal(BigInt(balance));
  }
}

/** A ledger, with a flaw or without. */
export function memoryLedger(flaw?: Flaw): Ledger {
  return {
    name: `a ledger in memory that ${flaw ?? 'has no flaw'}`,
    currencies: ['USD', 'EUR'],
    largest: '999999999999999999.99',
    lacks: {},
    prepare: (want) => Promise.resolve(new MemoryBook(flaw, want)),
  };
}

/** The ledger without a flaw, for `--adapter`. */
export const open: Open = () => Promise.resolve(memoryLedger());
