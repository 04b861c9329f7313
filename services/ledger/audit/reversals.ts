// Compares reversals, whole and partial, with the transactions that they reverse.
import type pg from 'pg';
import { fromBinary } from '@bufbuild/protobuf';
import { TransactionPostedSchema, type TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toId, toUuid } from '../../platform/ids.ts';
import { toDecimal } from '../../platform/money.ts';
import { epochMs } from '../../platform/postgres.ts';
import type { Findings } from './findings.ts';
import { minorUnits } from './rows.ts';

interface Original {
  kind: string;
  /** When it counts, milliseconds since the Unix epoch. */
  effectiveMs: number;
  entries: (Omit<TransactionPosted['entries'][number], 'amount'> & { amount: bigint })[];
}

/** A reversal, and when it counts in milliseconds since the Unix epoch. */
export interface DatedReversal {
  posted: TransactionPosted;
  effectiveMs: number;
}

/** The reversals of a tenant, in the order of its log. Keeps in memory what is left of transactions that are partly reversed. */
export class Reversals {
  private readonly findings: Findings;
  /** What is left of each entry, minor units, by the transaction's TypeID. */
  private readonly left = new Map<string, bigint[]>();

  constructor(findings: Findings) {
    this.findings = findings;
  }

  /** Reports each of the next reversals that takes more than is left of its original, or says so wrongly. */
  async check(client: pg.ClientBase, tenant: string, reversals: DatedReversal[]): Promise<void> {
    if (reversals.length === 0) return;
    const { rows } = await client.query<{ id: string; payload: Buffer; created_ms: number }>(
      `select t.id, l.payload, ${epochMs('t.created_at')} as created_ms from transactions t join log l on l.tenant_id = t.tenant_id and l.sequence = t.sequence
        where t.tenant_id = $1 and t.id = any($2::uuid[])`,
      [tenant, reversals.map(({ posted }) => toUuid('txn', posted.reverses ?? ''))],
    );
    const originals = new Map(rows.map((row) => [toId('txn', row.id), decoded(row.payload, row.created_ms)]));
    for (const { posted: reversal, effectiveMs } of reversals) {
      const reverses = reversal.reverses ?? '';
      const original = originals.get(reverses);
      const left = original && original.kind !== 'reversal' ? this.take(original, reversal) : null;
      if (!left) {
        this.findings.add(`transaction ${reversal.transactionId} is not the mirror of ${reverses}`);
        continue;
      }
      if (original && effectiveMs < original.effectiveMs) {
        this.findings.add(`transaction ${reversal.transactionId} counts before ${reverses}, which it reverses`);
      }
      const [is, should] = [reversal.unreversed?.amounts ?? [], left.some((amount) => amount > 0n) ? left.map(toDecimal) : []];
      if (is.join() !== should.join()) {
        const says = is.length === 0 ? 'nothing' : is.join(', ');
        this.findings.add(
          `transaction ${reversal.transactionId} leaves ${says} of ${reverses} to reverse, not ${should.join(', ') || 'nothing'}`,
        );
      }
      if (should.length > 0) this.left.set(reverses, left);
      else this.left.delete(reverses);
    }
  }

  // What is left of each entry after a reversal, which fills entries that are alike in their order; null where it takes more.
  private take(original: Original, reversal: TransactionPosted): bigint[] | null {
    const left = [...(this.left.get(reversal.reverses ?? '') ?? original.entries.map((entry) => entry.amount))];
    for (const taken of reversal.entries) {
      let open = minorUnits(taken.amount);
      for (const [index, entry] of original.entries.entries()) {
        const isAlike = entry.accountId === taken.accountId && entry.currency === taken.currency && entry.counter === taken.counter;
        if (!isAlike || entry.side === taken.side) continue;
        const part = open < (left[index] as bigint) ? open : (left[index] as bigint);
        left[index] = (left[index] as bigint) - part;
        open -= part;
      }
      if (open !== 0n) return null;
    }
    return left;
  }
}

function decoded(payload: Buffer, createdMs: number): Original | undefined {
  try {
    const { kind, entries, effectiveMs } = fromBinary(TransactionPostedSchema, payload);
    return {
      kind,
      effectiveMs: Number(effectiveMs ?? createdMs),
      entries: entries.map((entry) => ({ ...entry, amount: minorUnits(entry.amount) })),
    };
  } catch {
    // The replay has reported it.
    return undefined;
  }
}
