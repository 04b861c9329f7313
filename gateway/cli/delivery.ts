// An event as the ledger's notifier would deliver it: body, signatures, headers.
import { createHmac } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import type { StreamedEvent } from '../clients/typescript/ledger.ts';

/** How a receiver answered. */
export interface Receipt {
  /** 0: it did not. */
  status: number;
  reason: string;
  durationMs: number;
}

const timeoutMs = 30_000;
const lineFields = ['account_id', 'account_code', 'amount', 'side', 'currency'];

/** The body of a delivery. `tenantId` is not known to an API key. */
export function bodyOf({ id, type, created, data }: StreamedEvent, tenantId: string | null): string {
  const lines = (data as { lines?: Record<string, unknown>[] }).lines?.map((line) =>
    Object.fromEntries(lineFields.map((name) => [name, line[name]])),
  );
  // A delivery has less than the log: not the balances after each line, nor the chart's template.
  const { template: _template, ...own } = data;
  return JSON.stringify({ id, type, created, data: { ...own, ...(lines && { lines }) }, tenant_id: tenantId, livemode: true });
}

/** Sends a body once. */
export async function deliver(url: string, event: StreamedEvent, body: string, secret: string, attempt: number): Promise<Receipt> {
  const now = new Date();
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Ledger-Webhooks/1',
    'x-webhook-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    'x-webhook-id': event.id,
    'x-webhook-event': event.type,
    'x-webhook-delivery': `listen_${event.id}`,
    'x-webhook-attempt': String(attempt),
    'webhook-id': event.id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(event.id, now, body),
  };
  const began = performance.now();
  const took = () => Math.round(performance.now() - began);
  try {
    const answer = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) });
    await answer.body?.cancel();
    return { status: answer.status, reason: answer.statusText, durationMs: took() };
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error };
    return { status: 0, reason: cause?.message || message, durationMs: took() };
  }
}
