// Checks of commands: reversals, and what each command of a call takes from the call.
import type { Command, Posting, Reversal } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId } from '../platform/ids.ts';
import { checkedId, checkedMetadata, invalid } from './fields.ts';
import { fingerprint } from './fingerprint.ts';
import { validateCapture, validateHold, validateVoid } from './hold-commands.ts';
import { checkedAmount } from './payment-fields.ts';
import {
  addConditions,
  auditContextOf,
  checkedTimeout,
  commonFields,
  entryOf,
  validatePosting,
  type Call,
  type ValidatedPosting,
} from './mapping.ts';

/** A reversal as either call has it. */
type ReversalRequest = Call &
  Pick<Reversal, 'transactionId' | 'reversalId' | 'idempotencyKey' | 'description'> &
  Partial<Omit<Reversal, '$typeName'>>;

/**
 * Checks one command of a call. Throws {@link Refusal} with the reason `validation_failed` and the field's name as the command's own route
 * has it.
 */
export function validateCommand({ command }: Command, call: Call): ValidatedPosting {
  switch (command.case) {
    case 'posting':
      return validatePosting(withCall(command.value, call));
    case 'reversal':
      return validateReversal({ ...command.value, ...call });
    case 'hold':
      return validateHold(command.value, call);
    case 'capture':
      return validateCapture(command.value, call);
    case 'void':
      return validateVoid(command.value, call);
    default:
      throw invalid('command', 'required', '', 'command must be one of posting, hold, capture, void, reversal');
  }
}

// What the posting has itself is more precise, but for what makes the commands one call.
function withCall(posting: Posting, call: Call): Posting {
  const { tenantId, actor, requestId, traceparent, timeoutMs = 0, retry, dryRun = false } = call;
  if (posting.tenantId !== '' && posting.tenantId !== tenantId)
    throw invalid('tenant_id', 'same', posting.tenantId, 'tenant_id must be that of the call');
  if (posting.dryRun && !dryRun) throw invalid('dry_run', 'same', 'true', 'dry_run must be that of the call');
  return {
    ...posting,
    tenantId,
    dryRun,
    actor: posting.actor || actor,
    requestId: posting.requestId || requestId,
    traceparent: posting.traceparent || traceparent,
    timeoutMs: posting.timeoutMs || timeoutMs,
    retry: posting.retry || retry,
  };
}

/** Checks a reversal, as {@link validateCommand}. The writer reads its entries, which mirror the original's. */
export function validateReversal(request: ReversalRequest): ValidatedPosting {
  const tenant = checkedId('tenant_id', 'tenant', request.tenantId);
  const target = { id: request.transactionId, uuid: checkedId('transaction_id', 'txn', request.transactionId) };
  const transactionId = request.reversalId === '' ? newId('txn') : request.reversalId;
  const transaction = checkedId('reversal_id', 'txn', transactionId);
  const { timeoutMs = 0, metadata: metadataText = '', entries = [], require = [] } = request;
  if (entries.length > 200) throw invalid('entries', 'max', String(entries.length), 'entries must have at most 200 items');
  if (request.amount !== undefined && entries.length > 0)
    throw invalid('amount', 'same', request.amount, 'amount must be left out where there are entries');
  const amount = request.amount === undefined ? null : checkedAmount('amount', request.amount);
  const metadata = checkedMetadata(metadataText);
  const fields = commonFields(request, transactionId);
  const reversal: ValidatedPosting = {
    ...fields,
    ...auditContextOf(request),
    tenantId: request.tenantId,
    tenant,
    transactionId,
    transaction,
    kind: 'reversal',
    entries: entries.map((entry, index) => entryOf(entry, `entries[${index}].`)),
    metadata: metadata.text,
    target,
    timeoutMs: checkedTimeout(timeoutMs),
    retry: request.retry,
    // As for a posting of 200 entries, because the mirrored lines are not known yet.
    bytes: 25_000 + metadataText.length,
    dryRun: request.dryRun ?? false,
    origin: null,
    options: amount === null ? null : { amount },
    // A request of the version before had none of these.
    terms:
      fields.reference === null && metadata.canonical === '{}' && amount === null && entries.length === 0 ? null : String(amount ?? ''),
    fingerprint: Buffer.alloc(0),
  };
  addConditions(reversal, { entries, require });
  reversal.fingerprint = fingerprint(reversal, metadata.canonical);
  return reversal;
}
