// Maps messages of the services to records of the REST answers.
// Records with metadata are written as text: parsing stored metadata would cost the hot path, and numbers their digits.
import type { FastifyReply } from 'fastify';
import type { ApiKey, Invitation, Member, RateLimit, Tenant, User } from '../proto/gen/identity/v1/identity_pb.js';
import type { Event, HoldRecord, TransactionPosted } from '../proto/gen/ledger/v1/events_pb.js';
import type { AccountNode, Balance, BalanceChange, CommandResult } from '../proto/gen/ledger/v1/ledger_pb.js';
import type { Attempt, Delivery, Limit, Webhook } from '../proto/gen/notifier/v1/notifier_pb.js';
import { changedPeriod } from '../services/platform/books-records.ts';
import { proofRecord } from '../services/platform/proof-records.ts';
import { accountFields, personalRecord, transactionJson, openWith, orNull, quote, timeOf } from '../services/platform/ledger-records.ts';
import { toDecimal, toMinor } from '../services/platform/money.ts';
import { balanceUpdateRecord, holdRecord, originRecord } from '../services/platform/payment-records.ts';
import { rateLimitHeaders } from './errors.ts';
import type { OpenedPersonal } from './personal.ts';

/** The media type of an answer that is written as text. */
export const json = 'application/json; charset=utf-8';

/** The envelope of an answer. `fields`: members of `data` as JSON, `"account":{…}`. Sets the content type. */
export function envelope(reply: FastifyReply, fields: string): string {
  reply.header('content-type', json);
  return `{"success":true,"data":{${fields}}}`;
}

/** The envelope of what was done now or by an earlier request, or only tried. `status`: of what is done now. */
export function outcomeEnvelope(
  reply: FastifyReply,
  fields: string,
  outcome: { status: number; replayed: boolean; dryRun: boolean },
): string {
  const { status, replayed, dryRun } = outcome;
  reply.code(replayed || dryRun ? 200 : status);
  if (replayed) reply.header('idempotent-replayed', 'true');
  if (!dryRun) return envelope(reply, fields);
  reply.header('content-type', json);
  return `{"success":true,"dry_run":true,"data":{${fields}}}`;
}

/** The members of a page: items, each as JSON, under a name, and `pagination`. */
export function pageJson(name: string, items: string[], pagination: object): string {
  return `"${name}":[${items.join()}],"pagination":${JSON.stringify(pagination)}`;
}

function optionalTime(ms: bigint | undefined): string | null {
  return ms === undefined ? null : timeOf(ms);
}

/** `data.user`. */
export function userRecord(user: User): Record<string, unknown> {
  const { id, email, firstName, lastName, status, emailVerified, totpEnabled, createdMs } = user;
  const flags = { email_verified: emailVerified, totp_enabled: totpEnabled };
  return { id, email, first_name: firstName, last_name: lastName, status, ...flags, created_at: timeOf(createdMs) };
}

/** `data.tenant`. */
export function tenantRecord(tenant: Tenant): Record<string, unknown> {
  const { id, name, slug, businessType, description = null, status, role, requireTotp, createdMs, deleteMs } = tenant;
  const state = { status, role, require_totp: requireTotp, created_at: timeOf(createdMs), delete_at: optionalTime(deleteMs) };
  return { id, name, slug, business_type: businessType, description, ...state };
}

/** `data.member`. */
export function memberRecord(member: Member): Record<string, unknown> {
  const { userId, email, firstName, lastName, role, totpEnabled, createdMs } = member;
  const person = { email, first_name: firstName, last_name: lastName };
  return { user_id: userId, ...person, role, totp_enabled: totpEnabled, created_at: timeOf(createdMs) };
}

/** `data.invitation`. */
export function invitationRecord(invitation: Invitation): Record<string, unknown> {
  const { id, email, role, status, invitedBy, createdMs, expiresMs } = invitation;
  return { id, email, role, status, invited_by: invitedBy, created_at: timeOf(createdMs), expires_at: timeOf(expiresMs) };
}

/** `data.api_key` without its text. */
export function keyRecord(key: ApiKey): Record<string, unknown> {
  const { id, name, scopes, description = null, last4 } = key;
  const times = { created_at: timeOf(key.createdMs), expires_at: optionalTime(key.expiresMs), revoked_at: optionalTime(key.revokedMs) };
  return { id, name, scopes, description, last4, ...times };
}

/** `data.webhook_config` without its secret and the values of its headers. */
export function webhookRecord(webhook: Webhook): Record<string, unknown> {
  const { url, events, enabled, createdMs, updatedMs } = webhook;
  const headers = webhook.headers.map(({ name }) => ({ name, value: null }));
  return { url, events, enabled, headers, created_at: timeOf(createdMs), updated_at: timeOf(updatedMs) };
}

/** `data.delivery` without payload and response; `delivered_at` and `failed_at` only if set. */
export function deliveryRecord(delivery: Delivery): Record<string, unknown> {
  const { id, eventId, eventType, status, statusCode = null, attempts, maxAttempts, deliveredMs, failedMs, errorClass = null } = delivery;
  return {
    id,
    event_id: eventId,
    event_type: eventType,
    status,
    status_code: statusCode,
    error_class: errorClass,
    attempts,
    max_attempts: maxAttempts,
    next_retry_at: optionalTime(delivery.nextRetryMs),
    ...(deliveredMs !== undefined && { delivered_at: timeOf(deliveredMs) }),
    ...(failedMs !== undefined && { failed_at: timeOf(failedMs) }),
    created_at: timeOf(delivery.createdMs),
  };
}

/** One of `attempt_history`. */
export function attemptRecord(attempt: Attempt): Record<string, unknown> {
  const { number, startedMs, durationMs, statusCode = null, errorClass = null } = attempt;
  return { number, started_at: timeOf(startedMs), duration_ms: durationMs, status_code: statusCode, error_class: errorClass };
}

/** The RateLimit headers of a limit, which the notifier always sends. */
export function rateLimitFields(limit: Limit | RateLimit | undefined): ReturnType<typeof rateLimitHeaders> {
  if (!limit) throw new Error('the notifier answered without a rate limit');
  const { policy, quota, windowSeconds, remaining, resetSeconds } = limit;
  return rateLimitHeaders({ policy, quota, window: windowSeconds, remaining, reset: resetSeconds });
}

/** A flat tree as the JSON of nested nodes, in one text for each part: each node stands before those below it. */
export async function* treeJson(parts: AsyncIterable<{ nodes: AccountNode[] }>, withBalances: boolean): AsyncGenerator<string> {
  let open = 0;
  for await (const { nodes } of parts) {
    let text = '';
    for (const { account, level, childrenCount, balances } of nodes) {
      if (!account) throw new Error('a node of the hierarchy without its account');
      if (open >= level) text += `${']}'.repeat(open - level + 1)},`;
      const totals = balances.map(({ currency, debits, credits, balance }) => ({ currency, debits, credits, balance }));
      text += `${accountFields(account)},"children_count":${childrenCount}`;
      text += `${withBalances ? `,"balances":${JSON.stringify(totals)}` : ''},"children":[`;
      open = level;
    }
    yield text;
  }
  yield ']}'.repeat(open);
}

/** `data.hold` as JSON. */
export function holdJson(hold: HoldRecord): string {
  return `${openWith(holdRecord(hold), hold.metadata)}}`;
}

/** What a command has done, as members of `data`. `opened`: personal data of its transaction. */
export function commandFields({ transaction, hold }: CommandResult, opened?: OpenedPersonal): string {
  if (!transaction && !hold) throw new Error('the ledger answered a command without transaction and hold');
  const ofTransaction = transaction ? `"transaction":${transactionJson(transaction, opened)}` : '';
  return hold ? `${ofTransaction}${transaction ? ',' : ''}"hold":${holdJson(hold)}` : ofTransaction;
}

/** `data.balance` as JSON. Holds are not known of the past. */
export function balanceJson(balance: Balance): string {
  const { accountId, accountCode, currency, debits, credits, pendingDebits, pendingCredits, available, version, updatedMs } = balance;
  const held = (amount: string) => orNull(amount === '' ? undefined : amount);
  return (
    `{"account_id":"${accountId}","account_code":"${accountCode}","currency":"${currency}","balance":"${balance.balance}",` +
    `"debits":"${debits}","credits":"${credits}","pending_debits":${held(pendingDebits)},"pending_credits":${held(pendingCredits)},` +
    `"available":${held(available)},"version":${version},"updated_at":${orNull(optionalTime(updatedMs) ?? undefined)},` +
    `"as_of":${orNull(optionalTime(balance.asOfMs) ?? undefined)},"known_sequence":${balance.knownSequence ?? 'null'}}`
  );
}

/** One item of `data.history`. */
export function changeRecord(change: BalanceChange): Record<string, unknown> {
  const { transactionId, sequence, side, amount, balanceAfter, createdMs } = change;
  const fields = { transaction_id: transactionId, sequence: Number(sequence), side, amount };
  return { ...fields, balance_after: balanceAfter, created_at: timeOf(createdMs) };
}

/** One item of `data.events` as JSON. */
export function eventJson(event: Event): string {
  const { id, type, sequence, createdMs, actor, requestId } = event;
  const fields = {
    id,
    type,
    sequence: Number(sequence),
    created: Math.floor(Number(createdMs) / 1000),
    actor,
    request_id: requestId === '' ? null : requestId,
    // Derived events are not in the log.
    ...(event.part === 0 && {
      hash: Buffer.from(event.hash).toString('hex'),
      previous_hash: Buffer.from(event.previousHash).toString('hex'),
    }),
  };
  return `${JSON.stringify(fields).slice(0, -1)},"data":${eventDataJson(event)}}`;
}

function eventDataJson({ data, type, sequence, createdMs }: Event): string {
  const position = `"sequence":${sequence}`;
  if (data.case === 'transactionPosted') return `${postedFields(data.value, createdMs)},${position}}`;
  if (data.case === 'accountCreated' && data.value.account) {
    return `${accountFields(data.value.account)},"template":${orNull(data.value.template)},${position}}`;
  }
  if (data.case === 'accountUpdated' && data.value.account) {
    return `${accountFields(data.value.account)},"changes":${JSON.stringify(data.value.changes)},${position}}`;
  }
  if (data.case === 'holdCreated' && data.value.hold) return holdJson(data.value.hold);
  if (data.case === 'holdEnded' && data.value.hold) {
    const { hold, description } = data.value;
    // Nobody describes an expiry.
    const more = type === 'hold.voided' ? { void_description: description } : {};
    return `${openWith({ ...holdRecord(hold), ...more }, hold.metadata)}}`;
  }
  if (data.case === 'balanceUpdated') return JSON.stringify(balanceUpdateRecord(data.value, Number(sequence)));
  if (data.case === 'holdCaptured' && data.value.hold) {
    const { hold, transactionId } = data.value;
    return `${openWith({ ...holdRecord(hold), transaction_id: transactionId }, hold.metadata)}}`;
  }
  if (data.case === 'definitionChanged') {
    const { kind, id, version, record = 'null' } = data.value;
    return `{"kind":"${kind}","id":${quote(id)},"version":${version},"record":${record}}`;
  }
  if (data.case === 'booksUpdated') return `{"books":${data.value.record},${position}}`;
  if (data.case === 'periodClosed' || data.case === 'periodReopened') {
    return `${JSON.stringify(changedPeriod(data.value)).slice(0, -1)},${position}}`;
  }
  const record = proofRecord(data);
  if (record) return `${JSON.stringify(record).slice(0, -1)},${position}}`;
  throw new Error(`an event of the log with unknown data: ${String(data.case)}`);
}

function postedFields(posted: TransactionPosted, createdMs: bigint): string {
  const { transactionId, kind, idempotencyKey, description, reference = null, reverses = null } = posted;
  const currencies = new Set(posted.entries.map((entry) => entry.currency));
  const debits = posted.entries.filter((entry) => entry.side === 'debit').map((entry) => toMinor(entry.amount) ?? 0n);
  const fields = {
    transaction_id: transactionId,
    kind,
    idempotency_key: idempotencyKey,
    description,
    reference,
    currency: currencies.size === 1 ? (posted.entries[0]?.currency ?? null) : null,
    amount: currencies.size === 1 ? toDecimal(debits.reduce((sum, each) => sum + each, 0n)) : null,
    lines: posted.entries.map(({ accountId, accountCode, amount, side, currency, balanceAfter, counter }) => ({
      account_id: accountId,
      account_code: accountCode,
      amount,
      side,
      currency,
      balance_after: balanceAfter,
      counter,
    })),
    effective_at: timeOf(posted.effectiveMs ?? createdMs),
    requested_effective_at: optionalTime(posted.requestedEffectiveMs),
    reverses,
    origin: originRecord(posted.origin),
    unreversed: posted.unreversed?.amounts ?? null,
    ...personalRecord(posted),
  };
  return openWith(fields, posted.metadata);
}
