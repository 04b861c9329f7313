// Books and periods of a replay: how they change, and that nothing is posted into a closed period.
import { fromBinary } from '@bufbuild/protobuf';
import { BooksUpdatedSchema, PeriodChangedSchema, type TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import type { ReplayedAccounts } from './replay-accounts.ts';
import { time, type Report, type Row } from './rows.ts';

interface Settings {
  timezone: string;
  late_entries: string;
  future_days: number;
  cash_accounts: string[];
  indexed_metadata: string[];
}

const dayMs = 86_400_000;
const defaults =
  '{"timezone":"UTC","fiscal_year_end":"12-31","retained_earnings_code":"RETAINED-EARNINGS","late_entries":"refuse","future_days":366,"cash_accounts":[],"indexed_metadata":[]}';

/** Books of one tenant. Where a day ends is what the events say, because time zones change. */
export class ReplayedBooks {
  private readonly accounts: ReplayedAccounts;
  private version = 0;
  private record = defaults;
  private closedThrough: string | null = null;
  private finalThrough: string | null = null;
  private openFromMs: number | null = null;
  private updatedMs = 0;
  /** Sequences of the events since which keys of metadata are indexed. */
  private indexedSince = new Map<string, number>();
  private readonly periods: Row[] = [];
  /** Closing transactions, TypeIDs, before the event of their period, and when they count. */
  private closings: { id: string; atMs: number | null }[] = [];

  constructor(accounts: ReplayedAccounts) {
    this.accounts = accounts;
  }

  private get settings(): Settings {
    return JSON.parse(this.record) as Settings;
  }

  /** Takes a `books.updated`. */
  update(row: LogRow, problem: Report): void {
    const before = this.settings;
    this.record = fromBinary(BooksUpdatedSchema, row.payload).record;
    const { timezone, cash_accounts: cash, indexed_metadata: keys } = this.settings;
    this.indexedSince = new Map([...keys].sort().map((key) => [key, this.indexedSince.get(key) ?? Number(row.sequence)]));
    if (timezone !== before.timezone && this.closedThrough !== null) problem(`moves closed books from ${before.timezone} to ${timezone}`);
    for (const code of cash) if (!this.accounts.has(code)) problem(`has cash on ${code}, which there is not`);
    this.count(row);
  }

  /** Takes a `period.closed` or `period.reopened`. */
  period(row: LogRow, problem: Report): void {
    const { id, final, yearEnd, reason, closingTransactions, ...period } = fromBinary(PeriodChangedSchema, row.payload);
    const through = period.through ?? null;
    const openFromMs = period.openFromMs === undefined ? null : Number(period.openFromMs);
    const isClose = row.type === 'period.closed';
    if (isClose) this.checkClose(through, openFromMs, row, problem);
    else this.checkReopen(through, final || yearEnd, problem);
    if (!isNextDay(through, openFromMs)) problem(`leaves closed what is before ${String(openFromMs)}, which is not the end of ${through}`);
    const [is, should] = [closingTransactions.join(), idsOf(this.closings)];
    if (is !== should || (!yearEnd && is !== '')) problem(`closes by ${is || 'nothing'}, where the log has ${should || 'nothing'}`);
    const elsewhere = idsOf(this.closings.filter(({ atMs }) => atMs === null || atMs + 1 !== openFromMs));
    if (elsewhere !== '') problem(`closes by ${elsewhere}, which does not count at its end`);
    this.closings = [];
    [this.closedThrough, this.openFromMs] = [through, openFromMs];
    if (final) this.finalThrough = through;
    this.count(row);
    this.periods.push({
      tenant_id: row.tenant,
      sequence: row.sequence.toString(),
      id: toUuid('period', id),
      action: isClose ? 'close' : 'reopen',
      through,
      final,
      year_end: yearEnd,
      closing_transactions: `{${closingTransactions.map((each) => toUuid('txn', each)).join()}}`,
      reason,
      actor: row.actor,
      created_at: time(row.createdMs),
    });
  }

  /** Checks when a posting counts. */
  post(event: TransactionPosted, row: LogRow, problem: Report): void {
    const { kind, transactionId, effectiveMs, requestedEffectiveMs } = event;
    if (kind === 'closing') {
      this.closings.push({ id: transactionId, atMs: effectiveMs === undefined ? null : Number(effectiveMs) });
      return;
    }
    if (this.closings.length > 0) problem(`follows ${idsOf(this.closings)}, which close no period`);
    this.closings = [];
    if (requestedEffectiveMs !== undefined && effectiveMs === undefined) problem('was moved from a closed period to nowhere');
    if (effectiveMs === undefined) return;
    const atMs = Number(effectiveMs);
    const { late_entries: late, future_days: futureDays } = this.settings;
    const isOpen = this.openFromMs === null || atMs >= this.openFromMs;
    if (!isOpen) problem(`counts from ${time(atMs)} on, and all before ${time(this.openFromMs as number)} is closed`);
    const isLater = kind !== 'reversal' && atMs > row.createdMs + futureDays * dayMs;
    if (atMs < 0 || isLater) problem(`counts from ${time(atMs)} on, which is out of range`);
    if (requestedEffectiveMs === undefined) return;
    const wasMoved = late === 'next_open' && atMs === this.openFromMs && Number(requestedEffectiveMs) < atMs;
    if (!wasMoved) problem(`was moved from ${time(Number(requestedEffectiveMs))}, which is not closed, or into no open period`);
  }

  /** The settings, and the periods. */
  rows(tenant: string): { books: Row[]; periods: Row[] } {
    const { version, record, closedThrough, finalThrough, openFromMs, updatedMs, indexedSince } = this;
    const books = {
      ...{ tenant_id: tenant, version, record, closed_through: closedThrough, final_through: finalThrough },
      ...{ open_from: openFromMs === null ? null : time(openFromMs), updated_at: time(updatedMs) },
      indexed_since: JSON.stringify(Object.fromEntries(indexedSince)),
    };
    return { books: version === 0 ? [] : [books], periods: this.periods };
  }

  private checkClose(through: string | null, openFromMs: number | null, row: LogRow, problem: Report): void {
    if (through === null || openFromMs === null) return problem('closes nothing');
    if (this.closedThrough !== null && through < this.closedThrough) problem(`closes ${through}, where ${this.closedThrough} is closed`);
    if (openFromMs > row.createdMs) problem(`closes ${through}, which is not over`);
  }

  private checkReopen(through: string | null, hasFlags: boolean, problem: Report): void {
    if (hasFlags) problem('reopens with a mark of a closing');
    if (this.closedThrough === null || (through !== null && through > this.closedThrough)) problem(`reopens what is not closed`);
    if (this.finalThrough !== null && (through === null || through < this.finalThrough)) problem(`reopens what is closed for ever`);
  }

  private count(row: LogRow): void {
    this.version += 1;
    this.updatedMs = row.createdMs;
  }
}

function idsOf(closings: { id: string }[]): string {
  return closings.map(({ id }) => id).join();
}

// Midnight of the next day is at most a day from that in UTC.
function isNextDay(through: string | null, openFromMs: number | null): boolean {
  if (through === null || openFromMs === null) return through === openFromMs;
  return Math.abs(openFromMs - dayMs - Date.parse(through)) <= dayMs;
}
