// Makes the ledger's commands of validated bodies. The gateway assigns their ids, so that a repeated call has one effect.
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import type { Capture, Entry, Hold, Posting, Reversal, Void } from '../proto/gen/ledger/v1/ledger_pb.js';
import { newId } from '../services/platform/ids.ts';
import type { Caller } from './auth.ts';
import { instantIn } from './books.ts';
import type { captureBody, CommonBody, holdBody, PostedBody, reversalBody, SentEntry, voidBody } from './command-bodies.ts';
import { metadataText } from './metadata.ts';
import { addTerms, conditionOf } from './payment-fields.ts';
import { addPersonal, type UnsealedPosting } from './personal.ts';
import { auditContext } from './request-context.ts';

function entriesOf(entries: SentEntry[] | null | undefined): Entry[] {
  return (entries ?? []).map((entry) => ({
    $typeName: 'ledger.v1.Entry',
    accountCode: entry.account_code,
    amount: entry.amount,
    side: entry.side,
    currency: entry.currency,
    ...(entry.require != null && { require: conditionOf(entry.require) }),
  }));
}

/** Adds when a command counts. `timeZone`: that of the books if it is a day. Throws `validation_failed` for a day that the zone has skipped. */
function addTime(message: Pick<Posting, 'effectiveMs'>, sent: string | null | undefined, timeZone: string): void {
  if (sent != null) message.effectiveMs = instantIn(timeZone, 'effective_at', sent, 'first');
}

/**
 * The message of a posting, with a new transaction id. `timeZone`: of its `effective_at`, if that is a day. Written as literals, because protobuf's
 * `create` costs eight times as much.
 */
export function toPosting(
  request: FastifyRequest,
  body: PostedBody,
  entries: SentEntry[],
  { dryRun, timeZone }: { dryRun: boolean; timeZone: string },
): UnsealedPosting {
  const { actor, requestId, traceparent } = auditContext(request);
  const posting: UnsealedPosting = {
    $typeName: 'ledger.v1.Posting',
    tenantId: request.caller.tenantId,
    transactionId: newId('txn'),
    idempotencyKey: body.idempotency_key ?? '',
    description: body.description ?? '',
    entries: entriesOf(entries),
    metadata: metadataText(body.metadata),
    actor,
    requestId,
    traceparent,
    timeoutMs: 0,
    retry: false,
    require: [],
    dryRun,
    personal: [],
  };
  if (body.reference != null) posting.reference = body.reference;
  addTime(posting, body.effective_at, timeZone);
  addPersonal(posting, body.personal);
  return addTerms(posting, body, request.caller);
}

/** The fields that holds, captures and reversals have in common. */
function common(body: CommonBody) {
  return {
    idempotencyKey: body.idempotency_key ?? '',
    description: body.description ?? '',
    ...(body.reference != null && { reference: body.reference }),
    metadata: metadataText(body.metadata),
    require: [],
  };
}

/** The message of a hold, with a new id. */
export function toHold(caller: Caller, body: Static<typeof holdBody>): Hold {
  const hold: Hold = { $typeName: 'ledger.v1.Hold', holdId: newId('hold'), ...common(body), entries: entriesOf(body.entries) };
  if (body.expires_at != null) hold.expiresMs = BigInt(Date.parse(body.expires_at));
  if (body.expires_in != null) hold.expiresIn = BigInt(body.expires_in);
  return addTerms(hold, body, caller);
}

/** The message of a capture, as {@link toPosting}. */
export function toCapture(caller: Caller, holdId: string, body: Static<typeof captureBody>, timeZone: string): Capture {
  const capture: Capture = {
    $typeName: 'ledger.v1.Capture',
    holdId,
    transactionId: newId('txn'),
    ...common(body),
    entries: entriesOf(body.entries),
  };
  if (body.amount != null) capture.amount = body.amount;
  if (body.final != null) capture.final = body.final;
  addTime(capture, body.effective_at, timeZone);
  return addTerms(capture, body, caller);
}

/** The message of a void. */
export function toVoid(holdId: string, body: Static<typeof voidBody>): Void {
  return { $typeName: 'ledger.v1.Void', holdId, description: body.description ?? '' };
}

/** The message of a reversal, as {@link toPosting}. */
export function toReversal(caller: Caller, transactionId: string, body: Static<typeof reversalBody>, timeZone: string): Reversal {
  const reversal: Reversal = {
    $typeName: 'ledger.v1.Reversal',
    transactionId,
    reversalId: newId('txn'),
    ...common(body),
    entries: entriesOf(body.entries),
  };
  if (body.amount != null) reversal.amount = body.amount;
  if (body.effective_at === 'original') reversal.effectiveAsOriginal = true;
  else addTime(reversal, body.effective_at, timeZone);
  return addTerms(reversal, body, caller);
}
