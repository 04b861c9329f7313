// Redactions in the replay of a log: what stands in the place of a posting must be what its last redaction has left.
import { fromBinary } from '@bufbuild/protobuf';
import { TransactionRedactedSchema, type TransactionPosted } from '../../../proto/gen/ledger/v1/events_pb.js';
import { sha256 } from '../../platform/digest.ts';
import { toId } from '../../platform/ids.ts';
import type { LogRow } from '../log.ts';
import { bytea, type Report, type Row } from './rows.ts';

/** A posting whose payload was replaced. */
interface Redacted {
  row: Pick<LogRow, 'sequence' | 'eventId'>;
  transactionId: string;
  /** SHA-256 of the payload that was posted, and of the one that stands. */
  payloadHash: Buffer;
  standing: Buffer;
  /** Fields that the payload names. */
  named: string[];
  /** What redactions say: fields so far, and the hash of the payload after the last one. */
  fields: Set<string>;
  left: Uint8Array | null;
}

/** Redacted postings of one tenant, in memory: there are few. */
export class ReplayedRedactions {
  private readonly bySequence = new Map<bigint, Redacted>();
  /** Hashes of what was posted, as redactions name them. */
  private readonly kept = new Map<bigint, Uint8Array>();

  /** Takes a posting. */
  post(row: LogRow, event: TransactionPosted, problem: Report): void {
    const { redacted: named, transactionId } = event;
    for (const field of named) if (isShown(field, event)) problem(`shows ${field}, which is redacted`);
    if (!row.payloadHash) {
      if (named.length > 0) problem('names redacted fields, and its payload is the one that was posted');
      return;
    }
    const { sequence, eventId, payloadHash } = row;
    const redacted = { row: { sequence, eventId }, transactionId, payloadHash, standing: sha256(row.payload), named };
    this.bySequence.set(sequence, { ...redacted, fields: new Set(), left: null });
  }

  /** Takes a redaction. `shift`: what to add to the position that it names. */
  redact(row: LogRow, shift: bigint, problem: Report): void {
    const event = fromBinary(TransactionRedactedSchema, row.payload);
    const sequence = event.sequence + shift;
    this.kept.set(sequence, event.payloadHash);
    const redacted = this.bySequence.get(sequence);
    if (!redacted) return problem(`redacts event ${sequence}, which is not redacted`);
    if (event.transactionId !== redacted.transactionId || event.eventId !== toId('evt', redacted.row.eventId))
      problem(`redacts ${event.transactionId}, and event ${sequence} is ${redacted.transactionId}`);
    if (!redacted.payloadHash.equals(event.payloadHash)) problem(`names another hash of what was posted than is kept of event ${sequence}`);
    redacted.left = event.redactedHash;
    for (const field of event.fields) redacted.fields.add(field);
  }

  /** Reports, after the last event, payloads that are not what the last redaction has left. */
  end(report: (problem: string) => void): void {
    for (const { row, standing, left, named, fields } of this.bySequence.values()) {
      const problem: Report = (what) => report(`event ${row.sequence} ${what}`);
      if (left === null) problem('does not have the payload that was posted, and no event redacts it');
      else if (!standing.equals(left)) problem('does not have the payload that its last redaction has left');
      else if (named.length !== fields.size || named.some((field) => !fields.has(field)))
        problem(`names ${named.join(', ')} as redacted, by the log ${[...fields].join(', ')}`);
    }
  }

  /** The hashes that are kept. */
  rows(tenant: string): { redactions: Row[] } {
    const redactions = [...this.kept].map(([sequence, payloadHash]) => {
      return { tenant_id: tenant, sequence: sequence.toString(), payload_hash: bytea(payloadHash) };
    });
    return { redactions };
  }
}

function isShown(field: string, { description, reference, metadata }: TransactionPosted): boolean {
  if (field === 'description') return description !== '';
  if (field === 'reference') return reference !== undefined;
  const values = JSON.parse(metadata === '' ? '{}' : metadata) as Record<string, unknown>;
  return Object.hasOwn(values, field.slice('metadata.'.length));
}
