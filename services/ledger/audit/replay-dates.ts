// Rows of a replay that follow from when postings count, and from metadata that the books index.
import type { TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import type { LogRow } from '../log.ts';
import type { ReplayedAccounts } from './replay-accounts.ts';
import { minorUnits, time, type AddedRows, type Report, type Row } from './rows.ts';

/** Sums in minor units. */
interface Sums {
  debits: bigint;
  credits: bigint;
}

interface Month extends Sums {
  /** First day. */
  month: string;
  lastSequence: bigint;
}

// The clock of a client may be ahead by so much.
const toleranceMs = 5 * 60_000;
const maxTextPoints = 255;

/** What counts at another time than it was recorded. Keeps sums by account, currency and month in memory. */
export class ReplayedDates {
  private readonly accounts: ReplayedAccounts;
  private readonly indexedKeys: readonly string[];
  /** All that is shifted so far, by account and currency. */
  private readonly running = new Map<string, Sums>();
  private readonly months = new Map<string, Month>();

  /** `indexedKeys`: keys of metadata whose index is complete. */
  constructor(accounts: ReplayedAccounts, indexedKeys: readonly string[]) {
    this.accounts = accounts;
    this.indexedKeys = indexedKeys;
  }

  /** Adds the rows of a posting. */
  post(row: LogRow, event: TransactionPosted, added: AddedRows, problem: Report): void {
    this.index(row, event, added);
    if (event.effectiveMs === undefined) return;
    const atMs = Number(event.effectiveMs);
    if (atMs === row.createdMs && event.requestedEffectiveMs === undefined) problem('says that it counts when it is recorded');
    if (atMs > row.createdMs + toleranceMs && event.kind !== 'reversal') this.checkAhead(event, problem);
    const at = { tenant_id: row.tenant, sequence: row.sequence.toString(), effective_at: time(atMs) };
    added.shifted_transactions.push(at);
    for (const [key, moved] of this.sumsOf(event)) {
      const [account = '', currency = ''] = key.split(' ');
      const running = this.running.get(key) ?? { debits: 0n, credits: 0n };
      add(running, moved);
      this.running.set(key, running);
      this.addToMonth(key, atMs, moved, row.sequence);
      added.shifted_entries.push({
        ...{ ...at, account_id: account, currency },
        ...{ debits: moved.debits.toString(), credits: moved.credits.toString() },
        ...{ running_debits: running.debits.toString(), running_credits: running.credits.toString() },
      });
    }
  }

  /** Sums of all months after the last event. */
  rows(tenant: string): { shifted_months: Row[] } {
    const shifted = [...this.months].map(([key, { month, debits, credits, lastSequence }]) => {
      const [account = '', currency = ''] = key.split(' ');
      return {
        ...{ tenant_id: tenant, account_id: account, currency, month },
        ...{ debits: debits.toString(), credits: credits.toString(), last_sequence: lastSequence.toString() },
      };
    });
    return { shifted_months: shifted };
  }

  // What is not there yet could be spent.
  private checkAhead({ balances }: TransactionPosted, problem: Report): void {
    for (const balance of balances) {
      const { record } = this.accounts.of(balance, () => undefined);
      const isRaised = minorUnits(balance.balance) > minorUnits(balance.previousBalance);
      if (isRaised && !record.allowNegative) problem(`raises ${balance.accountCode}, which may not go below zero, before it counts`);
    }
  }

  private sumsOf({ entries }: TransactionPosted): Map<string, Sums> {
    const sums = new Map<string, Sums>();
    for (const entry of entries) {
      const key = `${this.accounts.of(entry, () => undefined).uuid} ${entry.currency}`;
      const amount = minorUnits(entry.amount);
      const sum = sums.get(key) ?? { debits: 0n, credits: 0n };
      add(sum, entry.side === 'debit' ? { debits: amount, credits: 0n } : { debits: 0n, credits: amount });
      sums.set(key, sum);
    }
    return sums;
  }

  private addToMonth(key: string, atMs: number, moved: Sums, lastSequence: bigint): void {
    const month = `${time(atMs).slice(0, 7)}-01`;
    const sums = this.months.get(`${key} ${month}`) ?? { month, debits: 0n, credits: 0n, lastSequence };
    add(sums, moved);
    this.months.set(`${key} ${month}`, { ...sums, lastSequence });
  }

  private index({ tenant, sequence }: LogRow, { metadata }: TransactionPosted, added: AddedRows): void {
    if (this.indexedKeys.length === 0) return;
    const values = new Map(Object.entries(JSON.parse(metadata === '' ? '{}' : metadata) as Record<string, unknown>));
    for (const key of this.indexedKeys) {
      const value = values.get(key);
      if (!['string', 'number', 'boolean'].includes(typeof value)) continue;
      const text = `${value as string | number | boolean}`;
      if ([...text].length <= maxTextPoints)
        added.transaction_metadata.push({ tenant_id: tenant, key, value: text, sequence: sequence.toString() });
    }
  }
}

function add(sums: Sums, { debits, credits }: Sums): void {
  sums.debits += debits;
  sums.credits += credits;
}
