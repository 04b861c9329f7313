// Checks and reads deliveries of webhooks, as https://www.standardwebhooks.com specifies.
import { Webhook } from 'standardwebhooks';
import type { LiveWebhookEvent, TestEvent } from './gen/types.gen.ts';

/** What a receiver gets. A test has the type of an event, and says nothing that happened. */
export type Delivery = { live: true; event: LiveWebhookEvent } | { live: false; test: TestEvent };

/** The headers of a request, of Node or of `fetch`. */
export type DeliveryHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Checks the signature over the raw bytes of the body and its age (5 minutes), and reads the event. Throws where it is not from the ledger.
 * An event may arrive twice: keep its `id`, and do nothing where you have it.
 */
export function verifyWebhook(body: string | Uint8Array, headers: DeliveryHeaders, secret: string): Delivery {
  const own = headers instanceof Headers ? Object.fromEntries(headers) : headers;
  const sent = Object.fromEntries(Object.entries(own).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])));
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body);
  const event = checkerOf(secret).verify(text, sent) as LiveWebhookEvent | TestEvent;
  return event.livemode ? { live: true, event: event as LiveWebhookEvent } : { live: false, test: event as TestEvent };
}

function checkerOf(secret: string): Webhook {
  const [, encoded = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  // Any other secret is its own key.
  return encoded !== '' && encoded.length % 4 === 0 ? new Webhook(secret) : new Webhook(secret, { format: 'raw' });
}
