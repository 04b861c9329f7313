// Checks of commands on holds: to make one, to capture it and to void it.
import { create } from '@bufbuild/protobuf';
import { VoidSchema, type Capture, type Entry as EntryMessage, type Hold, type Void } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { newId, tenantId, toId } from '../platform/ids.ts';
import type { Entry } from './accounting.ts';
import { checkedId, checkedMetadata, checkedText, checkedTime, invalid } from './fields.ts';
import { fingerprint, type CommandOptions } from './fingerprint.ts';
import { addConditions, auditContextOf, checkedTimeout, commonFields, entryOf, type Call, type ValidatedPosting } from './mapping.ts';
import { checkedAmount } from './payment-fields.ts';

/** Seconds that a hold may last: 400 days. */
const maxExpiresIn = 34_560_000n;

/** Checks a hold. Throws {@link Refusal} with the reason `validation_failed` and the field's name as in REST. */
export function validateHold(hold: Hold, call: Call): ValidatedPosting {
  const id = hold.holdId === '' ? newId('hold') : hold.holdId;
  const options: CommandOptions = {};
  if (hold.expiresMs !== undefined) options.expiresAtMs = checkedTime('expires_at', hold.expiresMs);
  if (hold.expiresIn !== undefined) options.expiresIn = checkedDuration(hold.expiresIn);
  if (options.expiresAtMs !== undefined && options.expiresIn !== undefined) {
    throw invalid('expires_in', 'same', String(options.expiresIn), 'expires_in must be left out where expires_at is given');
  }
  if (hold.entries.length === 0) throw invalid('entries', 'required', '', 'entries is required');
  const command = {
    ...common(call),
    kind: 'hold' as const,
    transactionId: id,
    transaction: checkedId('hold_id', 'hold', id),
    entries: checkedEntries(hold.entries),
    target: null,
    bytes: 800 + hold.metadata.length + hold.description.length + hold.entries.length * 160,
    options,
  };
  return withTerms(command, hold, JSON.stringify([options.expiresAtMs ?? null, options.expiresIn ?? null]));
}

function checkedDuration(seconds: bigint): number {
  const message = `expires_in must be from 1 to ${maxExpiresIn}`;
  if (seconds < 1n) throw invalid('expires_in', 'min', String(seconds), message);
  if (seconds > maxExpiresIn) throw invalid('expires_in', 'max', String(seconds), message);
  return Number(seconds);
}

/** Checks a capture, as {@link validateHold}. What it takes of which line is decided when the hold is read. */
export function validateCapture(capture: Capture, call: Call): ValidatedPosting {
  const target = { id: capture.holdId, uuid: checkedId('hold_id', 'hold', capture.holdId) };
  const id = capture.transactionId === '' ? newId('txn') : capture.transactionId;
  const { amount, final = true } = capture;
  const options: CommandOptions = { final };
  if (amount !== undefined) options.amount = checkedAmount('amount', amount);
  if (amount !== undefined && capture.entries.length > 0) {
    throw invalid('amount', 'same', amount, 'amount must be left out where entries are given');
  }
  const command = {
    ...common(call),
    kind: 'capture' as const,
    transactionId: id,
    transaction: checkedId('transaction_id', 'txn', id),
    entries: capture.entries.length === 0 ? [] : checkedEntries(capture.entries),
    target,
    // As for a hold of 200 entries, and the record of the hold, because its lines are not known yet.
    bytes: 50_000 + capture.metadata.length,
    options,
  };
  return withTerms(command, capture, JSON.stringify([options.amount?.toString() ?? null, final]));
}

/** Checks a void, as {@link validateHold}. It has no key: a hold that is voided already answers a repeated one. */
export function validateVoid({ holdId, description }: Void, call: Call): ValidatedPosting {
  const uuid = checkedId('hold_id', 'hold', holdId);
  return {
    ...common(call),
    kind: 'void',
    transactionId: holdId,
    transaction: uuid,
    idempotencyKey: '',
    fingerprint: Buffer.alloc(0),
    description: checkedText('description', description, { max: 1000 }),
    reference: null,
    entries: [],
    metadata: '{}',
    target: { id: holdId, uuid },
    bytes: 50_000,
    validUntilMs: null,
    overrideReason: null,
    effectiveAt: null,
    options: null,
    terms: null,
  };
}

/** The command that lets a hold (UUID) of a tenant (UUID) expire. Nobody sends it, and it has no key. */
export function expiryCommand(tenant: string, hold: string): ValidatedPosting {
  const holdId = toId('hold', hold);
  const call = { tenantId: tenantId(tenant), actor: 'ledger', requestId: '', traceparent: '', retry: false };
  return { ...validateVoid(create(VoidSchema, { holdId }), call), kind: 'expire' };
}

function common(call: Call): Pick<ValidatedPosting, 'tenantId' | 'tenant' | 'timeoutMs' | 'retry' | 'dryRun' | 'origin' | AuditName> {
  const { timeoutMs = 0, retry, dryRun = false } = call;
  const tenant = checkedId('tenant_id', 'tenant', call.tenantId);
  return { tenantId: call.tenantId, tenant, timeoutMs: checkedTimeout(timeoutMs), retry, dryRun, origin: null, ...auditContextOf(call) };
}

type AuditName = 'actor' | 'requestId' | 'traceparent';

function checkedEntries(entries: EntryMessage[]): Entry[] {
  const refuse = (tag: string, bound: string) => invalid('entries', tag, String(entries.length), `entries must have ${bound} items`);
  if (entries.length < 2) throw refuse('min', 'at least 2');
  if (entries.length > 200) throw refuse('max', 'at most 200');
  return entries.map((entry, index) => entryOf(entry, `entries[${index}].`));
}

type CommandFields = Omit<ValidatedPosting, keyof ReturnType<typeof commonFields> | 'metadata' | 'fingerprint' | 'terms'>;

/** Adds the fields that holds and captures have in common. `terms` is what only they have, as canonical JSON. */
function withTerms(command: CommandFields, message: Hold | Capture, terms: string): ValidatedPosting {
  const metadata = checkedMetadata(message.metadata);
  const fields = commonFields(message, command.transactionId);
  const validated: ValidatedPosting = { ...command, ...fields, metadata: metadata.text, terms, fingerprint: Buffer.alloc(0) };
  addConditions(validated, message);
  validated.fingerprint = fingerprint(validated, metadata.canonical);
  return validated;
}
