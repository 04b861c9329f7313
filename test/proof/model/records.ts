// The records of the model as answers show them: amounts, accounts, transactions, events.
import { Learned } from './expectation.ts';

export type Side = 'debit' | 'credit';

/** An entry of a posting. */
export interface Line {
  account_code: string;
  amount: string;
  side: Side;
  currency: string;
  /** It was added to balance a single entry. */
  counter?: boolean;
}

/** A request to post; a field that is missing or null is its default. */
export interface Request {
  kind: 'single' | 'double';
  idempotency_key?: string;
  /** Only over gRPC the client may choose it; without a key it serves as the key. */
  transaction_id?: string;
  description?: string | null;
  reference?: string | null;
  metadata?: object | null;
  entries: Line[];
}

/** The actor and request of a change. */
export interface By {
  actor: string;
  request_id: string;
}

export interface Account {
  id: Learned;
  account_code: string;
  name: string | Learned;
  type: string;
  normal_balance: Side;
  currency: string | null;
  parent_code: string | null;
  is_group: boolean;
  description: string | null;
  allow_negative: boolean;
  status: 'active' | 'closed';
  system: boolean;
  metadata: object;
  version: number;
  created_at: Learned;
  updated_at: Learned;
}

/** A part of a hold that is captured, or of a transaction that is reversed: neither field: all that is left. */
export interface Part {
  amount?: string;
  entries?: Line[];
}

/** What a transaction came from; the model has no other origin. */
export interface Origin {
  hold_id: Learned;
}

/** A transaction without its entries. */
export interface About {
  kind: 'single' | 'double' | 'reversal' | 'capture';
  description: string;
  reference: string | null;
  metadata: object;
  reverses: Learned | null;
  origin: Origin | null;
}

export type Entry = Line & { account_id: Learned; balance_after: string };

export interface Transaction extends About {
  transaction_id: Learned;
  idempotency_key: string | Learned;
  currency: string | null;
  amount: string | null;
  entries: Entry[];
  status: 'posted';
  created_at: Learned;
  effective_at: Learned;
  sequence: number;
  reversed_by: Learned | null;
  /** Left to reverse of each entry, while a part is reversed. */
  unreversed: string[] | null;
}

/** An entry of a hold. */
export type HoldEntry = Line & { account_id: Learned; captured: string; remaining: string };

export interface Hold {
  hold_id: Learned;
  status: 'pending' | 'captured' | 'voided' | 'expired';
  idempotency_key: string | Learned;
  description: string;
  reference: string | null;
  metadata: object;
  currency: string | null;
  amount: string | null;
  entries: HoldEntry[];
  expires_at: Learned | null;
  captures: number;
  created_at: Learned;
  ended_at: Learned | null;
  sequence: number;
}

/** Sums of one account in one currency, minor units, what is pending on each side, and the number of events that changed them. */
export type Totals = Record<Side, bigint> & { pending: Record<Side, bigint>; version: number };

/** What a posting does to a balance. */
export interface Change {
  account: Account;
  currency: string;
  before: Totals;
  after: Totals;
}

/** An event of the log; its sequence is its index + 1. Of a capture: the hold after it. */
export type LogEvent = By & { type: string; data: Record<string, unknown>; changes: Change[]; id: Learned; captured?: Hold };

/** The key and id that the client chose, if any. */
export type Names = Record<'key' | 'id', string | undefined>;

export const currencies = ['NGN', 'USD', 'EUR', 'GBP'];
export const other = (side: Side): Side => (side === 'debit' ? 'credit' : 'debit');

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

/** The debits or credits of these lines, minor units. */
function sum(lines: Line[], side: Side): bigint {
  return lines.reduce((all, line) => all + (line.side === side ? minor(line.amount) : 0n), 0n);
}

/** The currencies in which these lines do not balance. */
export function unbalanced(lines: Line[]): string[] {
  const byCurrency = [...Map.groupBy(lines, (line) => line.currency)];
  return byCurrency.filter(([, all]) => sum(all, 'debit') !== sum(all, 'credit')).map(([currency]) => currency);
}

/** Totals after one more event, which moves some lines, reserves some, and releases some. */
export function add(totals: Totals, moved: Line[], reserved: Line[] = [], released: Line[] = []): Totals {
  const pending = (side: Side) => totals.pending[side] + sum(reserved, side) - sum(released, side);
  return {
    debit: totals.debit + sum(moved, 'debit'),
    credit: totals.credit + sum(moved, 'credit'),
    pending: { debit: pending('debit'), credit: pending('credit') },
    version: totals.version + 1,
  };
}

/** Equal texts for requests that count as the same, whatever the order of names. */
export function fingerprint(request: unknown): string {
  return JSON.stringify(request, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [two]) => (one < two ? -1 : 1)))
      : each,
  );
}

/** A new account's record. */
export function newAccount(given: { account_code: string; type: string } & Record<string, unknown>): Account {
  const at = new Learned('time');
  const normal_balance = given.type === 'asset' || given.type === 'expense' ? 'debit' : 'credit';
  const unset = { currency: null, parent_code: null, is_group: false, description: null, allow_negative: true, metadata: {} };
  const values = Object.fromEntries(Object.entries(given).filter(([, value]) => value != null));
  const made = { id: new Learned('acc'), status: 'active', system: false, version: 1, created_at: at, updated_at: at };
  return { normal_balance, ...unset, ...values, ...made } as unknown as Account;
}

/** The account that balances single entries in a currency. */
export function newSuspense(currency: string): Account {
  const account = newAccount({ account_code: `SUSPENSE-${currency}`, name: new Learned('text'), type: 'liability', currency });
  return { ...account, system: true };
}

/** A new transaction's record. Without a key its id is its key. */
export function newTransaction(about: About, entries: Entry[], sequence: number, { key, id }: Names): Transaction {
  const transaction_id = new Learned('txn', id);
  const at = new Learned('time');
  const placed = { status: 'posted' as const, created_at: at, effective_at: at, sequence, reversed_by: null, unreversed: null };
  return { transaction_id, idempotency_key: key ?? transaction_id, ...about, ...amountOf(entries), entries, ...placed };
}

/** What is shown of entries together: their currency and amount, where there is only one. */
export function amountOf(entries: Line[]): { currency: string | null; amount: string | null } {
  const only = new Set(entries.map(({ currency }) => currency)).size === 1;
  return { currency: only ? entries[0]!.currency : null, amount: only ? decimal(sum(entries, 'debit')) : null };
}

/** A transaction as the log's event shows it; `unreversed`: what a reversal leaves of its original. */
export function posted({ entries, ...transaction }: Transaction, unreversed: string[] | null): Record<string, unknown> {
  const later = ['status', 'created_at', 'effective_at', 'reversed_by', 'unreversed'];
  const shown = Object.fromEntries(Object.entries(transaction).filter(([name]) => !later.includes(name)));
  return { ...shown, unreversed, lines: entries.map(({ counter: _, balance_after: __, ...line }) => line) };
}
