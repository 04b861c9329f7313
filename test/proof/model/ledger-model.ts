// The model of one tenant's ledger: maps and bigints, written from the specification, without the ledger's code.
import { rejectionOf } from './chart-model.ts';
import { Learned, valueOf, type Expected, type Refused } from './expectation.ts';
import { add, decimal, fingerprint, minor, newSuspense, newTransaction, other, posted, unbalanced } from './records.ts';
import type { About, Account, By, Change, Entry, Hold, Line, LogEvent, Names, Part, Request, Totals, Transaction } from './records.ts';

/** What an event moves, reserves and releases. */
export interface Moved {
  lines: Line[];
  reserved?: Line[];
  released?: Line[];
}

/** One tenant's ledger. Each method changes the model and returns what the cluster must answer. */
export class LedgerModel {
  readonly accounts = new Map<string, Account>();
  readonly totals = new Map<string, Totals>();
  readonly transactions: Transaction[] = [];
  readonly holds: Hold[] = [];
  readonly log: LogEvent[] = [];
  chart: string | null = null;
  /** The requests that made transactions and holds, in a form that is equal for equal ones. */
  readonly asked = new Map<Transaction | Hold, string>();
  /** What is left to reverse of each entry, minor units, where a part is reversed. */
  readonly left = new Map<Transaction, bigint[]>();

  /** The balance of an account in its normal direction. A test replaces it by a wrong rule. */
  net({ normal_balance }: Pick<Account, 'normal_balance'>, totals: Totals): bigint {
    return totals[normal_balance] - totals[other(normal_balance)];
  }

  /** What an account can spend: what is on its way out is spent. */
  available(account: Pick<Account, 'normal_balance'>, totals: Totals): bigint {
    return this.net(account, totals) - totals.pending[other(account.normal_balance)];
  }

  totalsOf(code: string, currency: string): Totals {
    return this.totals.get(`${code} ${currency}`) ?? { debit: 0n, credit: 0n, pending: { debit: 0n, credit: 0n }, version: 0 };
  }

  post(request: Request, by: By): Expected {
    const { kind, transaction_id: id, idempotency_key: key = id } = request;
    const about = { kind, ...this.described(request), reverses: null, origin: null };
    const lines = request.entries.map((entry) => ({ ...entry, amount: decimal(minor(entry.amount)), counter: false }));
    const asked = fingerprint([about, lines]);
    return this.repeated(this.transactions, key, asked) ?? this.book(about, { lines }, { key, id }, by, asked);
  }

  reverse(original: Transaction | undefined, request: Partial<Request> & Part, by: By): Expected {
    if (!original) return { refused: [{ code: 'transaction_not_found' }] };
    const about = { kind: 'reversal' as const, ...this.described(request), reverses: original.transaction_id, origin: null };
    const asked = fingerprint([about, normalized(request)]);
    const key = request.idempotency_key;
    const known = this.repeated(this.transactions, key, asked);
    if (known) return known;
    if (original.kind === 'reversal' || original.reversed_by) return { refused: [{ code: 'already_reversed' }] };
    const mirrored = original.entries.map((entry) => ({ ...entry, side: other(entry.side) }));
    const before = this.left.get(original) ?? mirrored.map(({ amount }) => minor(amount));
    const taken = takePart(mirrored, before, request, 'reversal_exceeded');
    if ('refused' in taken) return taken;
    const left = before.map((each, index) => each - taken.amounts[index]!);
    const isLast = left.every((each) => each === 0n);
    const unreversed = isLast ? null : left.map(decimal);
    const outcome = this.book(about, { lines: taken.lines }, { key, id: undefined }, by, asked, unreversed);
    if ('refused' in outcome) return outcome;
    this.left.set(original, left);
    original.unreversed = unreversed;
    if (isLast) original.reversed_by = this.transactions.at(-1)!.transaction_id;
    return outcome;
  }

  /** The free fields of a request, with their defaults. */
  described({ description, reference, metadata }: Partial<Request>): Pick<About, 'description' | 'reference' | 'metadata'> {
    return { description: description ?? '', reference: reference ?? null, metadata: metadata ?? {} };
  }

  /** The answer to a key that was used, or null. */
  repeated(all: (Transaction | Hold)[], key: string | undefined, asked: string): Expected | null {
    const past = all.find((each) => key !== undefined && valueOf(each.idempotency_key) === key);
    if (!past) return null;
    // As it is now: a batch may change it later.
    const data = 'transaction_id' in past ? { transaction: { ...past } } : { hold: { ...past } };
    if (this.asked.get(past) === asked) return { status: 200, replayed: true, data };
    return { refused: [{ code: 'idempotency_key_reused', tag: 'idempotency_key_reused', field: 'idempotency_key', value: key }] };
  }

  /** Posts lines, or says why not. `unreversed`: what a reversal leaves of its original. */
  book(about: About, moved: Moved, names: Names, by: By, asked: string, unreversed: string[] | null = null): Expected {
    const isSingle = about.kind === 'single';
    const [entry] = moved.lines as [Line];
    const suspense = this.accounts.get(`SUSPENSE-${entry.currency}`) ?? newSuspense(entry.currency);
    const counter = { ...entry, account_code: suspense.account_code, side: other(entry.side), counter: true };
    const refused = this.misfits(moved.lines, isSingle);
    if (refused.length > 0) return { refused };
    const lines = isSingle ? [...moved.lines, counter] : moved.lines;
    const changes = this.changesOf({ ...moved, lines }, suspense);
    const short = this.shortOf(changes, lines, isSingle);
    if (short.length > 0) return { refused: short };

    if (isSingle && !this.accounts.has(suspense.account_code)) this.record(suspense, 'account.created', by);
    const running = new Map<string, Totals>();
    const entries = lines.map((line): Entry => {
      const { account, before } = changes.find(
        (change) => change.account.account_code === line.account_code && change.currency === line.currency,
      )!;
      const index = `${line.account_code} ${line.currency}`;
      const after = add(running.get(index) ?? before, [line]);
      running.set(index, after);
      return { ...line, account_id: account.id, balance_after: decimal(this.net(account, after)) };
    });
    const transaction = newTransaction(about, entries, this.log.length + 1, names);
    this.transactions.push(transaction);
    this.asked.set(transaction, asked);
    this.write('transaction.posted', posted(transaction, unreversed), changes, by);
    return { status: 201, data: { transaction } };
  }

  /** Why lines can't be posted or held, whatever the balances. */
  misfits(lines: Line[], isSingle = false): Refused[] {
    const refused: Refused[] = [];
    for (const value of isSingle ? [] : unbalanced(lines)) refused.push({ code: 'unbalanced', tag: 'unbalanced', field: 'entries', value });
    for (const [index, line] of lines.entries()) {
      const code = rejectionOf(line, this.accounts.get(line.account_code), isSingle);
      if (code !== null) refused.push({ code, tag: code, field: fieldOf(index, isSingle), value: line.account_code });
    }
    return refused;
  }

  /** What an event changes, one balance each. */
  changesOf({ lines, reserved = [], released = [] }: Moved, suspense?: Account): Change[] {
    const of = (all: Line[], index: string) => all.filter((line) => `${line.account_code} ${line.currency}` === index);
    const touched = new Map([...lines, ...reserved, ...released].map((line) => [`${line.account_code} ${line.currency}`, line]));
    return [...touched].map(([index, { account_code, currency }]) => {
      const before = this.totalsOf(account_code, currency);
      const after = add(before, of(lines, index), of(reserved, index), of(released, index));
      return { account: this.accounts.get(account_code) ?? suspense!, currency, before, after };
    });
  }

  /** Which accounts would have too little; `lines` are those of the request. */
  shortOf(changes: Change[], lines: Line[], isSingle = false): Refused[] {
    return changes.flatMap(({ account, currency, before, after }) => {
      const left = this.available(account, after);
      if (account.allow_negative || left >= 0n || left >= this.available(account, before)) return [];
      const lowers = (line: Line) =>
        line.account_code === account.account_code && line.currency === currency && line.side !== account.normal_balance;
      const at = lines.findLastIndex(lowers);
      const code = 'insufficient_funds';
      return { code, tag: code, field: fieldOf(at, isSingle), value: lines[at]!.account_code };
    });
  }

  /** Writes an event with what it changes. */
  write(type: string, data: Record<string, unknown>, changes: Change[], by: By): void {
    for (const { account, currency, after } of changes) this.totals.set(`${account.account_code} ${currency}`, after);
    this.log.push({ ...by, type, data, changes, id: new Learned('evt') });
  }

  /** Writes an account's present state to the chart and the log. */
  record(account: Account, type: 'account.created' | 'account.updated', by: By, more: object = {}): void {
    this.accounts.set(account.account_code, account);
    this.write(type, { ...account, ...more, sequence: this.log.length + 1 }, [], by);
  }

  /** Remembers the present state; the function that is returned goes back to it. */
  mark(): () => void {
    const maps = [this.accounts, this.totals, this.asked, this.left].map(
      (map) => [map as Map<unknown, unknown>, new Map(map as Map<unknown, unknown>)] as const,
    );
    const lists = [this.transactions, this.holds, this.log].map((list) => [list as unknown[], list.length] as const);
    const records = [...this.transactions, ...this.holds].map((each) => [each, { ...each }] as const);
    return () => {
      for (const [map, before] of maps) {
        map.clear();
        for (const [key, value] of before) map.set(key, value);
      }
      for (const [list, length] of lists) list.length = length;
      for (const [record, before] of records) Object.assign(record, before);
    };
  }
}

/** What a part takes of lines of which so much is left, minor units; or why it can't. Lines that are alike are filled in their order. */
export function takePart(
  lines: Line[],
  left: bigint[],
  { amount, entries }: Part,
  exceeded: string,
): { lines: Line[]; amounts: bigint[] } | { refused: Refused[] } {
  const all = lines.map((line, index) => ({ ...line, amount: decimal(left[index]!) }));
  if (amount !== undefined) {
    const refuse = (code: string) => ({ refused: [{ code, tag: code, field: 'amount' }] });
    if (lines.length !== 2) return refuse('entries_mismatch');
    const units = minor(amount);
    return left.some((each) => each < units)
      ? refuse(exceeded)
      : { lines: all.map((line) => ({ ...line, amount: decimal(units) })), amounts: [units, units] };
  }
  if (entries === undefined) return { lines: all.filter((line) => minor(line.amount) > 0n), amounts: left };
  const refused: Refused[] = unbalanced(entries).map((value) => ({ code: 'unbalanced', tag: 'unbalanced', field: 'entries', value }));
  const rest = [...left];
  const taken = entries.map((entry, index) => {
    const alike = lines.map((line, at) => ({ line, at })).filter(({ line }) => isAlike(line, entry));
    if (alike.length === 0)
      refused.push({ code: 'entries_mismatch', tag: 'entries_mismatch', field: fieldOf(index), value: entry.account_code });
    let open = minor(entry.amount);
    for (const { at } of alike) {
      const part = rest[at]! < open ? rest[at]! : open;
      rest[at]! -= part;
      open -= part;
    }
    if (alike.length > 0 && open > 0n) refused.push({ code: exceeded, tag: exceeded, field: `entries[${index}].amount` });
    return { ...entry, amount: decimal(minor(entry.amount)), counter: alike[0]?.line.counter ?? false };
  });
  return refused.length > 0 ? { refused } : { lines: taken, amounts: left.map((each, index) => each - rest[index]!) };
}

/** A part in a form that is equal for equal ones. */
export function normalized({ amount, entries }: Part): object {
  const units = (text: string) => decimal(minor(text));
  const own = (entries ?? []).map(({ account_code, side, currency, amount: each }) => [account_code, side, currency, units(each)]);
  return [amount === undefined ? null : units(amount), own];
}

function isAlike(one: Line, two: Line): boolean {
  return one.account_code === two.account_code && one.side === two.side && one.currency === two.currency;
}

function fieldOf(index: number, isSingle = false): string {
  return isSingle ? 'account_code' : `entries[${index}].account_code`;
}
