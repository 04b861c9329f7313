// Schemas of the events of proof and personal data.
import { id, long, record, string, time } from './records.ts';

const text = (description: string) => ({ type: 'string', description });
const hash = (description: string) => ({ type: 'string', pattern: '^[0-9a-f]{64}$', description });

/** A freeze of the books. */
export const freeze = record({ at: time, reason: string, sequence: { ...long, description: 'End of the log at that time.' } });

/** The `data` of each such event but for its `sequence`. */
export const proofEvents = {
  'subject.erased': { subject_id: id('subj'), reason: text('Empty when not sent.') },
  'transaction.redacted': {
    transaction_id: id('txn'),
    redacted_sequence: { ...long, description: 'Position of the transaction’s event.' },
    redacted_event_id: { ...id('evt'), description: 'Its id.' },
    fields: { type: 'array', items: { type: 'string' }, description: '`description`, `reference` or `metadata.<key>`.' },
    reason: { type: 'string' },
    payload_hash: hash('SHA-256 of the payload as it was posted.'),
    redacted_hash: hash('SHA-256 of the payload after this redaction.'),
  },
  'log.imported': {
    tenant_id: { ...id('tenant'), description: 'Whose log it was.' },
    size: { ...long, description: 'Number of events that follow.' },
    root: hash('Root of that log’s Merkle tree.'),
    checkpoint: { type: ['string', 'null'], description: 'The signed checkpoint that came with it.' },
  },
  'books.unfrozen': {
    frozen: { ...freeze, description: 'The freeze that has ended.' },
    reason: text('Why the operator ended it.'),
    rewound: { type: 'boolean', description: 'Whether a restored, shorter log was accepted.' },
  },
} as const;
