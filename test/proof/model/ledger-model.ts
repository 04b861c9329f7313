// The model of one tenant's ledger: maps and bigints, written from the specification, without the ledger's code.
import { rejectionOf } from './chart-model.ts';
import { Learned, valueOf, type Expected, type Refused } from './expectation.ts';
import { add, decimal, fingerprint, minor, newSuspense, newTransaction, other, posted, unbalanced } from './records.ts';
import type { About, Account, By, Line, LogEvent, Names, Request, Totals, Transaction } from './records.ts';

/** One tenant's ledger. Each method changes the model and returns what the cluster must answer. */
export class LedgerModel {
  readonly accounts = new Map<string, Account>();
  readonly totals = new Map<string, Totals>();
  readonly transactions: Transaction[] = [];
  readonly log: LogEvent[] = [];
  chart: string | null = null;

  /** The balance of an account in its normal direction. A test replaces it by a wrong rule. */
  net({ normal_balance }: Pick<Account, 'normal_balance'>, totals: Totals): bigint {
    return totals[normal_balance] - totals[other(normal_balance)];
  }

  totalsOf(code: string, currency: string): Totals {
    return this.totals.get(`${code} ${currency}`) ?? { debit: 0n, credit: 0n, version: 0 };
  }

  post(request: Request, by: By): Expected {
    const { kind, description, reference, metadata, transaction_id: id, idempotency_key: key = id } = request;
    const about = { kind, description: description ?? '', reference: reference ?? null, metadata: metadata ?? {}, reverses: null };
    const lines = request.entries.map((entry) => ({ ...entry, amount: decimal(minor(entry.amount)), counter: false }));
    return this.repeated(key, about, lines) ?? this.book(about, lines, { key, id }, by);
  }

  reverse(original: Transaction | undefined, { idempotency_key: key, description }: Partial<Request>, by: By): Expected {
    if (!original) return { refused: [{ code: 'transaction_not_found' }] };
    const reverses = original.transaction_id;
    const about = { kind: 'reversal' as const, description: description ?? '', reference: null, metadata: {}, reverses };
    const lines = original.entries.map((entry) => ({ ...entry, side: other(entry.side) }));
    const known = this.repeated(key, about, lines);
    if (known) return known;
    if (original.kind === 'reversal' || original.reversed_by) return { refused: [{ code: 'already_reversed' }] };
    const outcome = this.book(about, lines, { key, id: undefined }, by);
    if ('data' in outcome) original.reversed_by = this.transactions.at(-1)!.transaction_id;
    return outcome;
  }

  private repeated(key: string | undefined, about: About, lines: Line[]): Expected | null {
    const past = this.transactions.find((each) => key !== undefined && valueOf(each.idempotency_key) === key);
    if (!past) return null;
    if (fingerprint(past, past.entries) === fingerprint(about, lines)) return { status: 200, replayed: true, data: { transaction: past } };
    return { refused: [{ code: 'idempotency_key_reused', tag: 'idempotency_key_reused', field: 'idempotency_key', value: key }] };
  }

  private book(about: About, lines: Line[], names: Names, by: By): Expected {
    const single = about.kind === 'single';
    const refused: Refused[] = [];
    const refuse = (code: string, line: Line) => {
      const field = single ? 'account_code' : `entries[${lines.indexOf(line)}].account_code`;
      refused.push({ code, tag: code, field, value: line.account_code });
    };
    for (const value of single ? [] : unbalanced(lines)) refused.push({ code: 'unbalanced', tag: 'unbalanced', field: 'entries', value });
    for (const line of lines) {
      const misfit = rejectionOf(line, this.accounts.get(line.account_code), single);
      if (misfit !== null) refuse(misfit, line);
    }
    if (refused.length > 0) return { refused };

    const [entry] = lines as [Line];
    const suspense = this.accounts.get(`SUSPENSE-${entry.currency}`) ?? newSuspense(entry.currency);
    if (single) lines.push({ ...entry, account_code: suspense.account_code, side: other(entry.side), counter: true });
    const changes = [...Map.groupBy(lines, (line) => `${line.account_code} ${line.currency}`)].map(([index, own]) => {
      const account = this.accounts.get(own[0]!.account_code) ?? suspense;
      const before = this.totalsOf(account.account_code, own[0]!.currency);
      return { index, own, account, currency: own[0]!.currency, before, after: add(before, own) };
    });
    for (const { own, account, before, after } of changes) {
      const left = this.net(account, after);
      const lowers = own.findLast((line) => line.side !== account.normal_balance)!;
      if (!account.allow_negative && left < 0n && left < this.net(account, before)) refuse('insufficient_funds', lowers);
    }
    if (refused.length > 0) return { refused };

    if (single && !this.accounts.has(suspense.account_code)) this.record(suspense, 'account.created', by);
    const entries = lines.map((line) => {
      const { account, before, own } = changes.find((change) => change.own.includes(line))!;
      const after = add(before, own.slice(0, own.indexOf(line) + 1));
      return { ...line, account_id: account.id, balance_after: decimal(this.net(account, after)) };
    });
    for (const { index, after } of changes) this.totals.set(index, after);
    const transaction = newTransaction(about, entries, this.log.length + 1, names);
    this.transactions.push(transaction);
    this.log.push({ ...by, type: 'transaction.posted', data: posted(transaction), changes, id: new Learned('evt') });
    return { status: 201, data: { transaction } };
  }

  /** Writes an account's present state to the chart and the log. */
  record(account: Account, type: 'account.created' | 'account.updated', by: By, more: object = {}): void {
    this.accounts.set(account.account_code, account);
    this.log.push({ ...by, type, data: { ...account, ...more, sequence: this.log.length + 1 }, changes: [], id: new Learned('evt') });
  }
}
