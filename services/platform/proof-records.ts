// Events of proof and personal data as REST, webhooks and the audit trail show them.
import type { Event } from '../../proto/gen/ledger/v1/events_pb.js';

/** The `data` of such an event without its `sequence`, with the names of REST; null: it is another one. */
export function proofRecord(data: Event['data']): Record<string, unknown> | null {
  switch (data.case) {
    case 'subjectErased':
      return { subject_id: data.value.subjectId, reason: data.value.reason };
    case 'transactionRedacted': {
      const { transactionId, sequence, eventId, fields, reason, payloadHash, redactedHash } = data.value;
      return {
        transaction_id: transactionId,
        redacted_sequence: Number(sequence),
        redacted_event_id: eventId,
        fields,
        reason,
        payload_hash: hex(payloadHash),
        redacted_hash: hex(redactedHash),
      };
    }
    case 'logImported': {
      const { tenantId, size, root, checkpoint } = data.value;
      return { tenant_id: tenantId, size: Number(size), root: hex(root), checkpoint: checkpoint === '' ? null : checkpoint };
    }
    case 'booksUnfrozen': {
      const { frozenMs, frozenSequence, frozenReason, reason, rewound } = data.value;
      const frozen = { at: new Date(Number(frozenMs)).toISOString(), reason: frozenReason, sequence: Number(frozenSequence) };
      return { frozen, reason, rewound };
    }
    default:
      return null;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
