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

/** A transaction without its entries. */
export interface About {
  kind: 'single' | 'double' | 'reversal';
  description: string;
  reference: string | null;
  metadata: object;
  reverses: Learned | null;
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
}

/** Sums of one account in one currency, minor units, and the number of postings. */
export type Totals = Record<Side, bigint> & { version: number };

/** What a posting does to a balance. */
export interface Change {
  account: Account;
  currency: string;
  before: Totals;
  after: Totals;
}

/** An event of the log; its sequence is its index + 1. */
export type LogEvent = By & { type: string; data: Record<string, unknown>; changes: Change[]; id: Learned };

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

/** Totals after one more posting, with these lines. */
export function add(totals: Totals, lines: Line[]): Totals {
  return { debit: totals.debit + sum(lines, 'debit'), credit: totals.credit + sum(lines, 'credit'), version: totals.version + 1 };
}

/** Equal texts for requests that count as the same, whatever the order of names. */
export function fingerprint({ kind, description, reference, metadata, reverses }: About, lines: Line[]): string {
  const own = lines
    .filter(({ counter }) => !counter)
    .map(({ account_code, amount, side, currency }) => [account_code, amount, side, currency]);
  return JSON.stringify([kind, description, reference, metadata, reverses, own], (_, each: unknown) =>
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
  const only = new Set(entries.map(({ currency }) => currency)).size === 1;
  const shown = { currency: only ? entries[0]!.currency : null, amount: only ? decimal(sum(entries, 'debit')) : null };
  const placed = { status: 'posted' as const, created_at: at, effective_at: at, sequence, reversed_by: null };
  return { transaction_id, idempotency_key: key ?? transaction_id, ...about, ...shown, entries, ...placed };
}

/** A transaction as the log's event shows it. */
export function posted({ entries, ...transaction }: Transaction): Record<string, unknown> {
  const later = ['status', 'created_at', 'effective_at', 'reversed_by'];
  const shown = Object.fromEntries(Object.entries(transaction).filter(([name]) => !later.includes(name)));
  return { ...shown, lines: entries.map(({ counter: _, balance_after: __, ...line }) => line) };
}
