// Webhook rules, pure: event types, signatures, what an answer means, when the next attempt is due.
import { createHmac, randomBytes } from 'node:crypto';

/** Event types that a tenant may subscribe to. */
export const eventTypes = [
  'transaction.posted',
  'balance.updated',
  'account.created',
  'account.updated',
  'hold.created',
  'hold.captured',
  'hold.voided',
  'hold.expired',
  'definition.changed',
  'books.updated',
  'period.closed',
  'period.reopened',
  'subject.erased',
  'transaction.redacted',
  'log.imported',
  'books.unfrozen',
  'test.webhook',
] as const;

/** States of a delivery. */
export const statuses = ['pending', 'delivered', 'failed'] as const;

/** State of a delivery. */
export type Status = (typeof statuses)[number];

/** Why no status was received. */
type TransportError = 'dns' | 'refused' | 'reset' | 'timeout' | 'tls' | 'protocol' | 'response_too_large' | 'address_not_allowed';

/** Why an attempt failed. Nothing more about the network is shown to the tenant. */
export type ErrorClass = TransportError | 'redirect' | 'http_status' | 'webhook_disabled' | 'secret_unreadable';

/** Content of a signature. */
export interface Signed {
  /** The event's id; the same on every attempt. */
  id: string;
  /** When the attempt began, Unix seconds. */
  timestamp: number;
  /** The exact bytes that are sent, or their text, as UTF-8. */
  body: string | Buffer;
}

/** A new secret in the form of Standard Webhooks: `whsec_` and the base64 of 32 random bytes. */
export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** `X-Webhook-Signature`: `sha256=` and the lower-case hex HMAC-SHA256 of the body, keyed with the UTF-8 bytes of the whole secret. */
export function bodySignature(secret: string, body: string | Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/**
 * One signature of `webhook-signature` as Standard Webhooks has it: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`, keyed with the
 * decoded bytes of `whsec_<base64>`, or with the UTF-8 bytes of any other secret.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function standardSignature(secret: string, { id, timestamp, body }: Signed): string {
  return `v1,${createHmac('sha256', standardBytes(secret)).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
}

function standardBytes(secret: string): Buffer {
  if (secret.startsWith('whsec_')) {
    const encoded = secret.slice(6);
    // Node decodes any text. One that is not exactly base64 is a secret of the other kind.
    const bytes = Buffer.from(encoded, 'base64');
    if (bytes.length > 0 && bytes.toString('base64') === encoded) return bytes;
  }
  return Buffer.from(secret);
}

/** Names that a tenant's own headers must not have: what a delivery sets, what frames a request, and what belongs to the connection. */
export const reservedHeaders: ReadonlySet<string> = new Set([
  ...['content-type', 'user-agent', 'traceparent', 'webhook-id', 'webhook-timestamp', 'webhook-signature'],
  ...['x-webhook-signature', 'x-webhook-id', 'x-webhook-event', 'x-webhook-delivery', 'x-webhook-attempt'],
  ...['host', 'content-length', 'expect'],
  // Hop-by-hop, RFC 9110, section 7.6.1, and RFC 2616, section 13.5.1.
  ...[
    'connection',
    'keep-alive',
    'proxy-authenticate',
    'proxy-authorization',
    'proxy-connection',
    'te',
    'trailer',
    'transfer-encoding',
    'upgrade',
  ],
]);

/** The headers of one attempt, ready to send. `secrets`: the newest first; in an overlap the one before follows. */
export function deliveryHeaders(
  secrets: string[],
  signed: Signed,
  delivery: { id: string; eventType: string; attempt: number; traceparent: string | null },
): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': 'Ledger-Webhooks/1',
    'x-webhook-signature': bodySignature(secrets[0] ?? '', signed.body),
    'x-webhook-id': signed.id,
    'x-webhook-event': delivery.eventType,
    'x-webhook-delivery': delivery.id,
    'x-webhook-attempt': String(delivery.attempt),
    'webhook-id': signed.id,
    'webhook-timestamp': String(signed.timestamp),
    'webhook-signature': secrets.map((secret) => standardSignature(secret, signed)).join(' '),
    ...(delivery.traceparent !== null && { traceparent: delivery.traceparent }),
  };
}

/** The error class of an HTTP status; null: delivered. */
export function errorOfStatus(status: number): ErrorClass | null {
  if (status >= 200 && status <= 299) return null;
  return status >= 300 && status <= 399 ? 'redirect' : 'http_status';
}

/** State of a delivery after an attempt; `delay`: seconds from the beginning of that attempt to that of the next one. */
export type NextState = { status: 'delivered' | 'failed' } | { status: 'pending'; delay: number };

/**
 * The state after an attempt. `delays`: seconds between the beginnings of consecutive attempts; there is one attempt more than delays.
 * A manual retry is one attempt: if it fails, the delivery has failed.
 */
export function nextState(error: ErrorClass | null, attempt: number, byHand: boolean, delays: readonly number[]): NextState {
  if (error === null) return { status: 'delivered' };
  const delay = byHand ? undefined : delays[attempt - 1];
  return delay === undefined ? { status: 'failed' } : { status: 'pending', delay };
}
