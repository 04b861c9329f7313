// The model of one tenant's ledger: maps and bigints, written from the specification. It knows nothing of the ledger's code.
import { Learned, type Expected, type Refused } from './expectation.ts';

export type Side = 'debit' | 'credit';

/** What an entry says. */
export interface Line {
  account_code: string;
  amount: string;
  side: Side;
  currency: string;
}

/** A request to post; a field that is missing or null is its default. */
export interface Request {
  kind: 'single' | 'double';
  idempotency_key?: string;
  /** Over gRPC the caller may choose it; it is the key where there is no other. */
  transaction_id?: string;
  description?: string | null;
  reference?: string | null;
  metadata?: Record<string, unknown> | null;
  entries: Line[];
}

/** Who does it, and by which request. */
export interface By {
  actor: string;
  request_id: string;
}

export type Account = Record<string, any> & { account_code: string; type: string; version: number; normal_balance: Side; metadata: object };
export type Transaction = Record<string, any> & { transaction_id: Learned; sequence: number; entries: any[] };
/** An event of the log; its sequence is its place, from 1. `updates`: the `balance.updated` events that follow a posting. */
export type LogEvent = By & { type: string; data: Record<string, unknown>; updates: Record<string, unknown>[]; id: Learned };

interface Totals {
  debits: bigint;
  credits: bigint;
  version: number;
}

export const currencies = ['NGN', 'USD', 'EUR', 'GBP'];
const other = (side: Side): Side => (side === 'debit' ? 'credit' : 'debit');

/** Minor units of a decimal text. */
export function minor(amount: string): bigint {
  const [whole = '0', fraction = ''] = amount.split('.');
  return BigInt(whole) * 100n + BigInt(fraction.padEnd(2, '0'));
}

/** The decimal text of minor units. */
export function decimal(units: bigint): string {
  const digits = (units < 0n ? -units : units).toString().padStart(3, '0');
  return `${units < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

/** One tenant's books. Every method says what the house must answer; those that change something have changed it when they return. */
export class Books {
  readonly accounts = new Map<string, Account>();
  readonly transactions: Transaction[] = [];
  readonly log: LogEvent[] = [];
  chart: string | null = null;
  private readonly totals = new Map<string, Totals>();
  private readonly keys = new Map<string, { print: string; transaction: Transaction }>();
  private readonly keyless: { print: string; transaction: Transaction }[] = [];

  /** The balance of an account in its own direction after these totals. A test of the proof replaces it by a wrong rule. */
  net(account: Account, { debits, credits }: Totals): bigint {
    return account.normal_balance === 'debit' ? debits - credits : credits - debits;
  }

  totalsOf(code: string, currency: string): Totals {
    return this.totals.get(`${code} ${currency}`) ?? { debits: 0n, credits: 0n, version: 0 };
  }

  post(request: Request, by: By): Expected {
    const { kind, entries } = request;
    const [description, reference, metadata] = [request.description ?? '', request.reference ?? null, request.metadata ?? {}];
    const amounts = entries.map((entry) => [entry.account_code, minor(entry.amount).toString(), entry.side, entry.currency]);
    const print = sorted([kind, description, reference, amounts, metadata]);
    const key = request.idempotency_key ?? request.transaction_id;
    const known = this.repeated(key, print);
    if (known) return known;
    const lines = entries.map((entry) => ({ ...entry, counter: false }));
    return this.book({ kind, description, reference, metadata, reverses: null }, lines, { key, id: request.transaction_id }, print, by);
  }

  reverse(original: Transaction | undefined, request: { idempotency_key?: string; description?: string | null }, by: By): Expected {
    const description = request.description ?? '';
    const known = this.repeated(request.idempotency_key, sorted(['reversal', description, original?.transaction_id.known()]));
    if (known) return known;
    if (!original) return { refused: [{ code: 'transaction_not_found' }] };
    if (original['kind'] === 'reversal' || original['reversed_by'] !== null) return { refused: [{ code: 'already_reversed' }] };
    const lines = original.entries.map(({ account_code, amount, side, currency, counter }) => {
      return { account_code, amount, side: other(side), currency, counter };
    });
    const about = { kind: 'reversal', description, reference: null, metadata: {}, reverses: original.transaction_id };
    const print = sorted(['reversal', description, original.transaction_id.known()]);
    const outcome = this.book(about, lines, { key: request.idempotency_key }, print, by);
    if (!('refused' in outcome)) original['reversed_by'] = (outcome.data as { transaction: Transaction }).transaction.transaction_id;
    return outcome;
  }

  private repeated(key: string | undefined, print: string): Expected | null {
    // Without a key the transaction's id is one.
    const known =
      key === undefined
        ? undefined
        : (this.keys.get(key) ?? this.keyless.find(({ transaction }) => transaction.transaction_id.value === key));
    if (!known) return null;
    const blame = { field: 'idempotency_key', tag: 'idempotency_key_reused' };
    if (known.print !== print) return { refused: [{ code: 'idempotency_key_reused', ...blame, value: key }] };
    return { status: 200, replayed: true, data: { transaction: known.transaction } };
  }

  private book(
    about: Record<string, unknown>,
    given: any[],
    own: { key?: string | undefined; id?: string | undefined },
    print: string,
    by: By,
  ): Expected {
    const single = about['kind'] === 'single';
    const field = (place: number) => (single ? 'account_code' : `entries[${place}].account_code`);
    const faults: Refused[] = [];
    for (const currency of new Set(single ? [] : given.map((line) => line.currency as string))) {
      const sum = given.reduce<bigint>((all, line) => all + (line.currency !== currency ? 0n : signed(line, 'debit')), 0n);
      if (sum !== 0n) faults.push({ code: 'unbalanced', field: 'entries', tag: 'unbalanced', value: currency });
    }
    given.forEach((line, place) => {
      const code = this.misfit(this.accounts.get(line.account_code), line.currency, single);
      if (code !== null) faults.push({ code, field: field(place), tag: code, value: line.account_code });
    });
    if (faults.length > 0) return { refused: faults };

    const suspense = `SUSPENSE-${given[0].currency}`;
    const lines = single ? [...given, { ...given[0], account_code: suspense, side: other(given[0].side), counter: true }] : given;
    const accountOf = (code: string) => this.accounts.get(code) ?? newSuspense(given[0].currency);
    const after = new Map<string, Totals & { account: Account; currency: string; before: Totals }>();
    const entries = lines.map((line) => {
      const account = accountOf(line.account_code);
      const before = this.totalsOf(line.account_code, line.currency);
      const place = `${line.account_code} ${line.currency}`;
      const totals = after.get(place) ?? { ...before, version: before.version + 1, account, currency: line.currency, before };
      if (line.side === 'debit') totals.debits += minor(line.amount);
      else totals.credits += minor(line.amount);
      after.set(place, totals);
      const balance_after = decimal(this.net(totals.account, totals));
      return { ...line, amount: decimal(minor(line.amount)), account_id: totals.account['id'], balance_after };
    });
    for (const { account, currency, before, ...totals } of after.values()) {
      const left = this.net(account, totals);
      if (account['allow_negative'] === true || left >= 0n || left >= this.net(account, before)) continue;
      const lowers = (line: any) =>
        line.account_code === account.account_code && line.currency === currency && line.side !== account.normal_balance;
      const refused = { code: 'insufficient_funds', tag: 'insufficient_funds', value: account.account_code };
      faults.push({ ...refused, field: field(lines.findLastIndex(lowers)) });
    }
    if (faults.length > 0) return { refused: faults };

    if (single && !this.accounts.has(suspense)) this.record(accountOf(suspense), 'account.created', by);
    const only = new Set(lines.map((line) => line.currency as string)).size === 1;
    const id = new Learned('txn', own.id);
    const created_at = new Learned('time');
    const amount = only ? decimal(lines.reduce<bigint>((sum, line) => sum + (line.side === 'debit' ? minor(line.amount) : 0n), 0n)) : null;
    const told = { transaction_id: id, idempotency_key: own.key ?? id, ...about, currency: only ? lines[0].currency : null, amount };
    const sequence = this.log.length + 1;
    const updates = [...after.values()].map(({ account, currency, before, debits, credits, version }) => {
      this.totals.set(`${account.account_code} ${currency}`, { debits, credits, version });
      const balance = decimal(this.net(account, { debits, credits, version }));
      const previous_balance = decimal(this.net(account, before));
      const about = { account_id: this.accounts.get(account.account_code)?.['id'], account_code: account.account_code, currency };
      const sums = { debits: decimal(debits), credits: decimal(credits), available: balance, version };
      return { ...about, balance, previous_balance, ...sums, transaction_id: id, sequence };
    });
    const booked = entries.map((entry) => ({ ...entry, account_id: this.accounts.get(entry.account_code)?.['id'] }));
    const lines_ = booked.map(({ account_id, account_code, amount, side, currency }) => ({
      account_id,
      account_code,
      amount,
      side,
      currency,
    }));
    this.log.push({ ...by, type: 'transaction.posted', data: { ...told, lines: lines_, sequence }, updates, id: new Learned('evt') });
    const placed = { status: 'posted', effective_at: created_at, created_at, sequence, reversed_by: null };
    const transaction = { ...told, entries: booked, ...placed } as unknown as Transaction;
    this.transactions.push(transaction);
    if (own.key === undefined) this.keyless.push({ print, transaction });
    else this.keys.set(own.key, { print, transaction });
    return { status: 201, data: { transaction } };
  }

  private misfit(account: Account | undefined, currency: string, single: boolean): string | null {
    if (!account) return 'account_not_found';
    if (account['status'] === 'closed') return 'account_closed';
    if (account['is_group'] === true) return 'account_is_group';
    if (single && account['system'] === true) return 'account_is_system';
    return account['currency'] !== null && account['currency'] !== currency ? 'currency_not_allowed' : null;
  }

  /** Puts an account as it is now into the log, and into the chart. */
  record(account: Account, type: 'account.created' | 'account.updated', by: By, more: object = {}): void {
    this.accounts.set(account.account_code, account);
    const data = { ...account, ...more, sequence: this.log.length + 1 };
    this.log.push({ ...by, type, data, updates: [], id: new Learned('evt') });
  }
}

function signed(line: any, side: Side): bigint {
  return line.side === side ? minor(line.amount) : -minor(line.amount);
}

/** Equal texts for equal values, whatever the order of their keys. */
export function sorted(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [two]) => (one < two ? -1 : 1)))
      : each,
  );
}

/** A new account's record. */
export function newAccount(given: { account_code: string; type: string } & Record<string, unknown>): Account {
  const at = new Learned('time');
  const normal: Side = given.type === 'asset' || given.type === 'expense' ? 'debit' : 'credit';
  const unset = { currency: null, parent_code: null, is_group: false, description: null, allow_negative: true, metadata: {} };
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value != null));
  const made = { id: new Learned('acc'), status: 'active', system: false, version: 1, created_at: at, updated_at: at };
  return { normal_balance: normal, ...unset, ...said, ...made } as unknown as Account;
}

function newSuspense(currency: string): Account {
  const account = newAccount({ account_code: `SUSPENSE-${currency}`, name: new Learned('text'), type: 'liability', currency });
  return { ...account, system: true };
}
