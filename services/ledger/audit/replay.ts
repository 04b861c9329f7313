// Replay of a tenant's log into table rows, which `verify` and `rebuild` compare with the projections.
//
// Its rules share no code with the writer, so that a mistake of one is found by the other.
import { fromBinary } from '@bufbuild/protobuf';
import {
  BooksUnfrozenSchema,
  LogImportedSchema,
  TransactionPostedSchema,
  type TransactionPosted,
} from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import { toDecimal } from '../../platform/money.ts';
import { chainHash, genesisHash, type LogRow } from '../log.ts';
import { ReplayedAccounts } from './replay-accounts.ts';
import { BalanceChanges, ReplayedBalances } from './replay-balances.ts';
import { ReplayedBooks } from './replay-books.ts';
import { ReplayedDates } from './replay-dates.ts';
import { ReplayedLimits } from './replay-definitions.ts';
import { ReplayedIndexes, noIndexes } from './replay-indexes.ts';
import { ReplayedHolds } from './replay-holds.ts';
import { ReplayedRedactions } from './replay-redactions.ts';
import { ReplayedSubjects } from './replay-subjects.ts';
import { blockProblem } from './replay-limits.ts';
import { bytea, minorUnits, noRows, time, type AddedRows, type Report, type Row } from './rows.ts';

/** What one event adds. */
export interface ReplayedEvent {
  rows: AddedRows;
  /** The event, if it is a posting that can be read. */
  posted?: TransactionPosted;
  /** When that counts, milliseconds since the Unix epoch. */
  effectiveMs?: number;
}

/** A tenant's ledger, event by event. Keeps in memory what later events can change, no transactions. */
export class Replay {
  private readonly tenant: string;
  private readonly report: (problem: string) => void;
  private readonly balances = new ReplayedBalances();
  private readonly accounts = new ReplayedAccounts(this.balances);
  private readonly limits = new ReplayedLimits(this.accounts);
  private readonly books = new ReplayedBooks(this.accounts);
  private readonly dates: ReplayedDates;
  private readonly indexes: ReplayedIndexes;
  private readonly holds: ReplayedHolds;
  private readonly redactions = new ReplayedRedactions();
  private readonly subjects = new ReplayedSubjects();
  /** How many reversals there are of transactions that are partly reversed, by TypeID. */
  private readonly reversals = new Map<string, number>();
  /** Last positions of the imported logs that the next event is part of. */
  private imported: bigint[] = [];
  /** Whether an event has accepted that the log was rewound. */
  isRewound = false;
  private sequence = 0n;
  private hash: Buffer = genesisHash;
  private lastMs = 0;

  /**
   * `report` is called for every event that breaks the chain or a rule; the replay goes on with what the event says. `indexes`: how far the
   * auditor's indexes are.
   */
  constructor(tenant: string, report: (problem: string) => void, indexes = noIndexes) {
    this.tenant = tenant;
    this.report = report;
    this.dates = new ReplayedDates(this.accounts, indexes.keys);
    this.indexes = new ReplayedIndexes(indexes);
    this.holds = new ReplayedHolds({ tenant, accounts: this.accounts, balances: this.balances, limits: this.limits });
  }

  /** Takes note that the auditor's indexes of words and volumes are as far as this by now. */
  indexedThrough(sequence: bigint): void {
    this.indexes.through = sequence;
  }

  /** Takes the next event. */
  apply(row: LogRow): ReplayedEvent {
    const problem = (what: string) => this.report(`event ${row.sequence} ${what}`);
    if (row.sequence !== this.sequence + 1n) problem(`follows event ${this.sequence}`);
    if (!chainHash(this.hash, row).equals(row.hash)) problem('does not have the hash of its content and of the event before it');
    if (row.createdMs < this.lastMs) problem('is older than the event before it');
    this.sequence = row.sequence;
    this.hash = row.hash;
    this.lastMs = row.createdMs;
    this.holds.shift = BigInt(this.imported.filter((end) => end >= row.sequence).length);
    const event: ReplayedEvent = { rows: noRows() };
    try {
      this.take(row, event, problem);
    } catch (error) {
      problem(`can't be read: ${(error as Error).message}`);
    }
    return event;
  }

  /** Rows that later events can change, as they are after the last event; reports what that should have made right. Throws InvalidTime. */
  latest(): Record<string, Row[]> {
    this.redactions.end(this.report);
    if ((this.imported[0] ?? 0n) > this.sequence) this.report(`event 1 imports more events than follow it`);
    return {
      heads: this.head(),
      accounts: this.accounts.rows(this.tenant),
      balances: this.balances.rows(this.tenant),
      ...this.holds.rows(),
      ...this.limits.rows(this.tenant),
      ...this.dates.rows(this.tenant),
      ...this.indexes.rows(this.tenant),
      ...this.books.rows(this.tenant),
      ...this.redactions.rows(this.tenant),
    };
  }

  private head(): Row[] {
    if (this.sequence === 0n) return [];
    return [
      {
        tenant_id: this.tenant,
        sequence: this.sequence.toString(),
        hash: bytea(this.hash),
        last_at: time(this.lastMs),
        chart: this.accounts.chart,
      },
    ];
  }

  private take(row: LogRow, event: ReplayedEvent, problem: Report): void {
    switch (row.type) {
      case 'transaction.posted':
        return this.post(row, event, problem);
      case 'account.created':
        return this.accounts.create(row, problem);
      case 'account.updated':
        return this.accounts.update(row, problem);
      case 'hold.created':
        return this.holds.create(row, problem);
      case 'hold.voided':
      case 'hold.expired':
        return this.holds.end(row, event.rows, problem);
      case 'definition.changed':
        return this.limits.change(row, problem);
      case 'books.updated':
        return this.books.update(row, problem);
      case 'period.closed':
      case 'period.reopened':
        return this.books.period(row, problem);
      case 'subject.erased':
        return this.subjects.erase(row, event.rows, problem);
      case 'transaction.redacted':
        return this.redactions.redact(row, this.holds.shift, problem);
      case 'log.imported':
        return this.importLog(row, problem);
      case 'books.unfrozen':
        this.isRewound = fromBinary(BooksUnfrozenSchema, row.payload).rewound || this.isRewound;
        return;
      default:
        problem(`is of the type ${String(row.type)}, which there is not`);
    }
  }

  // Events that were imported name positions of the log from which they came.
  private importLog({ sequence, payload }: LogRow, problem: Report): void {
    const { size } = fromBinary(LogImportedSchema, payload);
    const end = sequence + size;
    if (sequence !== BigInt(this.imported.length) + 1n) problem('is not where a log begins');
    if (size < 1n || end > (this.imported.at(-1) ?? end)) problem(`imports ${size} events, which is more than follow`);
    this.imported.push(end);
  }

  private post(row: LogRow, replayed: ReplayedEvent, problem: Report): void {
    const event = fromBinary(TransactionPostedSchema, row.payload);
    const { rows } = replayed;
    const isComplete = event.reverses !== undefined && event.unreversed === undefined;
    rows.transactions.push({
      tenant_id: this.tenant,
      sequence: row.sequence.toString(),
      id: toUuid('txn', event.transactionId),
      idempotency_key: event.idempotencyKey,
      fingerprint: bytea(event.fingerprint),
      reference: event.reference ?? null,
      reverses: isComplete ? toUuid('txn', event.reverses as string) : null,
      created_at: time(row.createdMs),
    });
    this.checkKind(event, problem);
    this.books.post(event, row, problem);
    this.numberReversal(row, event, rows);
    // Blocks and limits don't refuse closing transactions.
    const isOverridden = event.origin?.override !== undefined || event.kind === 'closing';
    const changes = new BalanceChanges(this.balances, problem);
    const sums = new Map<string, bigint>();
    event.entries.forEach((entry, position) => {
      const account = this.accounts.of(entry, problem);
      if (event.kind === 'single') checkSingle(entry, account.record.system, problem);
      if (!isOverridden) blockProblem(account.record, entry, problem);
      const amount = minorUnits(entry.amount);
      if (amount <= 0n) problem('has an entry that is not greater than zero');
      const { currency, side } = entry;
      const balance = changes.post({ account, currency, side }, amount);
      sums.set(currency, (sums.get(currency) ?? 0n) + (side === 'debit' ? amount : -amount));
      if (minorUnits(entry.balanceAfter) !== balance) {
        problem(`leaves ${entry.accountCode} at ${entry.balanceAfter}, where the entries add up to ${toDecimal(balance)}`);
      }
      rows.entries.push({
        tenant_id: this.tenant,
        account_id: account.uuid,
        currency,
        sequence: row.sequence.toString(),
        position,
        side,
        amount: amount.toString(),
        balance_after: balance.toString(),
      });
    });
    for (const [currency, sum] of sums) if (sum !== 0n) problem(`does not balance in ${currency}`);
    this.dates.post(row, event, rows, problem);
    this.indexes.post(row, event, rows);
    this.redactions.post(row, event, problem);
    this.subjects.post(row, event, rows, problem);
    this.holds.capture(row, event, changes, rows, problem);
    changes.end(row.createdMs, event.balances, isOverridden);
    // What a capture moves its hold has counted, and reversals neither count nor give back.
    if (event.kind !== 'capture') {
      this.limits.count(['reversal', 'closing'].includes(event.kind) ? [] : event.entries, event.uses, { row, isOverridden, problem });
    }
    replayed.posted = event;
    replayed.effectiveMs = Number(event.effectiveMs ?? row.createdMs);
  }

  private checkKind({ kind, reverses, unreversed, entries }: TransactionPosted, problem: Report): void {
    if (!['single', 'double', 'reversal', 'exchange', 'capture', 'closing'].includes(kind))
      problem(`is of the kind ${kind}, which there is not`);
    if ((kind === 'reversal') !== (reverses !== undefined)) problem(`is ${kind} and reverses ${reverses ?? 'nothing'}`);
    if (unreversed && reverses === undefined) problem(`is ${kind} and leaves something unreversed`);
    const counters = entries.filter((entry) => entry.counter).length;
    if (kind === 'single' ? counters !== 1 || entries.length !== 2 : kind !== 'reversal' && counters !== 0) {
      problem(`is ${kind} with ${entries.length} entries, ${counters} of them counter-entries`);
    }
  }

  // A reversal of all at once has no part: its transaction says whose it is.
  private numberReversal(row: LogRow, { reverses, unreversed }: TransactionPosted, { parts }: AddedRows): void {
    const before = reverses === undefined ? undefined : this.reversals.get(reverses);
    if (reverses === undefined || (before === undefined && !unreversed)) return;
    const number = (before ?? 0) + 1;
    parts.push({ tenant_id: this.tenant, of: toUuid('txn', reverses), number, sequence: row.sequence.toString() });
    if (unreversed) this.reversals.set(reverses, number);
    else this.reversals.delete(reverses);
  }
}

function checkSingle({ accountCode, counter, currency }: TransactionPosted['entries'][number], isSystem: boolean, problem: Report): void {
  const fits = counter ? isSystem && accountCode === `SUSPENSE-${currency}` : !isSystem;
  if (!fits) problem(`is single with ${counter ? 'its counter-entry' : 'an entry'} on ${accountCode}`);
}
