// Rows of a replay that the auditor's indexer makes: words of postings, and volumes.
import type { TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import type { LogRow } from '../log.ts';
import { wordsOf } from '../words.ts';
import { minorUnits, time, type AddedRows, type Row } from './rows.ts';

/** Which indexes of the auditor are complete, and how far. */
export interface IndexState {
  /** Keys of metadata whose index is complete. What is stored under other keys follows from no log. */
  keys: readonly string[];
  /** The last sequence whose words and volumes are indexed. */
  through: bigint;
}

/** That of a tenant without indexes. */
export const noIndexes: IndexState = { keys: [], through: 0n };

const quarterMs = 900_000;

/** Words and volumes of one tenant, as far as they are indexed. */
export class ReplayedIndexes {
  /** Postings after it are not indexed. */
  through: bigint;
  private readonly volumes = new Map<string, { currency: string; quarter: number; transactions: number; debits: bigint }>();

  constructor({ through }: IndexState) {
    this.through = through;
  }

  /** Adds the words of a posting, and counts it. */
  post({ tenant, sequence, createdMs }: LogRow, event: TransactionPosted, added: AddedRows): void {
    if (sequence > this.through) return;
    const words = wordsOf(`${event.description} ${event.reference ?? ''}`);
    if (words.length > 0) {
      const span = `@${tenant.replaceAll('-', '')}${(sequence / 16_384n).toString()}`;
      added.transaction_texts.push({
        tenant_id: tenant,
        sequence: sequence.toString(),
        words: [span, ...words].map((word) => `'${word}'`).join(' '),
      });
    }
    const atMs = Number(event.effectiveMs ?? createdMs);
    const quarter = atMs - (((atMs % quarterMs) + quarterMs) % quarterMs);
    for (const currency of new Set(event.entries.map((entry) => entry.currency))) {
      const volume = this.volumes.get(`${currency} ${quarter}`) ?? { currency, quarter, transactions: 0, debits: 0n };
      volume.transactions += 1;
      for (const entry of event.entries)
        if (entry.currency === currency && entry.side === 'debit') volume.debits += minorUnits(entry.amount);
      this.volumes.set(`${currency} ${quarter}`, volume);
    }
  }

  /** Volumes after the last event. */
  rows(tenant: string): { volumes: Row[] } {
    const volumes = [...this.volumes.values()].map(({ currency, quarter, transactions, debits }) => {
      return { tenant_id: tenant, currency, quarter: time(quarter), transactions, debits: debits.toString() };
    });
    return { volumes };
  }
}
