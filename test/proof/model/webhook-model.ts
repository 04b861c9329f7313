// The model of a tenant's webhook and its deliveries, and the receiver, whose path says how it answers.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { LedgerModel } from './ledger-model.ts';
import { balanceOf } from './chart-model.ts';
import { Learned } from './expectation.ts';
import { decimal } from './records.ts';

/** How a receiver behaves: always 200, always 500, 200 from the second attempt on, or a redirect. */
export type Behaviour = 'ok' | 'broken' | 'second' | 'moved';

/** The receiver's status for an attempt. */
export function answerOf(behaviour: Behaviour, attempt: number): number {
  if (behaviour === 'moved') return 302;
  return behaviour === 'ok' || (behaviour === 'second' && attempt > 1) ? 200 : 500;
}

/** A delivery as the model expects it once nothing is pending. */
export interface Delivery {
  /** Identifies the event: type, sequence, account and currency; for a test the delivery's id. */
  subject: string;
  test: boolean;
  type: string;
  data: Record<string, unknown>;
  status: 'delivered' | 'failed';
  attempts: number;
  status_code: number;
  id: Learned;
  event_id: Learned;
}

export interface Config {
  url: string;
  events: string[];
  enabled: boolean;
  created_at: Learned;
}

/** Automatic attempts. */
const most = 3;
const windows = { config: [10, 60_000], retries: [5, 3_600_000], tests: [20, 3_600_000] } as const;

/** One tenant's webhook. */
export class WebhookModel {
  readonly base: string;
  config: Config | null = null;
  secret = '';
  /** The previous secret, while both sign. */
  previous: string | null = null;
  readonly deliveries: Delivery[] = [];
  /** Number of requests to the receiver that have been checked. */
  verified = 0;
  private judged = 0;
  private readonly uses: Record<keyof typeof windows, { at: number; sure: boolean }[]> = { config: [], retries: [], tests: [] };

  constructor(base: string) {
    this.base = base;
  }

  /** How the configured receiver behaves. */
  behaviour(): Behaviour {
    return (this.config?.url.split('/').at(-1) ?? 'broken') as Behaviour;
  }

  /** Expects deliveries of the log's new events, by the present configuration. */
  expectDeliveries(ledger: LedgerModel): void {
    for (const { type, data, changes } of ledger.log.slice(this.judged)) {
      const { sequence, transaction_id } = data;
      this.expect(type, String(sequence), data);
      for (const { account, currency, before, after } of changes) {
        const previous_balance = decimal(ledger.net(account, before));
        const update = { ...balanceOf(ledger, account, currency, after), previous_balance, transaction_id, sequence };
        this.expect('balance.updated', `${String(sequence)} ${account.account_code} ${currency}`, update);
      }
    }
    this.judged = ledger.log.length;
  }

  private expect(type: string, subject: string, data: Record<string, unknown>): void {
    if (this.config?.enabled !== true || !this.config.events.includes(type)) return;
    const about = { subject: `${type} ${subject}`, test: false, type, data, id: new Learned('delivery'), event_id: new Learned('evt') };
    const attempt = Array.from({ length: most }, (_, before) => before + 1).find((each) => answerOf(this.behaviour(), each) === 200);
    const status_code = answerOf(this.behaviour(), attempt ?? most);
    this.deliveries.push({ ...about, status: attempt === undefined ? 'failed' : 'delivered', attempts: attempt ?? most, status_code });
  }

  /** Counts a rate-limited request; returns whether it is refused, or undefined near the end of the window. */
  use(policy: keyof typeof windows): boolean | undefined {
    const [quota, window] = windows[policy];
    const now = Date.now();
    const within = (length: number) => this.uses[policy].filter(({ at }) => now - at < length);
    const surely = within(window - 5_000).filter(({ sure }) => sure).length >= quota;
    const perhaps = within(window + 5_000).length >= quota;
    if (!surely) this.uses[policy].push({ at: now, sure: !perhaps });
    return surely === perhaps ? surely : undefined;
  }

  /** A manual retry. */
  retried(delivery: Delivery): void {
    delivery.attempts += 1;
    delivery.status_code = answerOf(this.behaviour(), delivery.attempts);
    delivery.status = delivery.status_code === 200 ? 'delivered' : 'failed';
  }
}

/** A request as received. */
export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
  event: { id: string; type: string; data: Record<string, unknown> } & Record<string, unknown>;
}

/** A receiver for many tenants at `<url>/<slug>/<behaviour>`. */
export interface Receiver {
  url: string;
  of: (slug: string) => Received[];
  close: () => Promise<void>;
}

export async function startReceiver(): Promise<Receiver> {
  const received = new Map<string, Received[]>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const [, slug = '', behaviour = 'ok'] = (request.url ?? '').split('/');
      const body = Buffer.concat(chunks).toString();
      const all = received.get(slug) ?? [];
      received.set(slug, all);
      all.push({ headers: request.headers, body, event: JSON.parse(body) });
      const status = answerOf(behaviour as Behaviour, Number(request.headers['x-webhook-attempt']));
      response.writeHead(status, status === 302 ? { location: `/${slug}/ok` } : {}).end(`answer ${status}`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    of: (slug) => received.get(slug) ?? [],
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Standard Webhooks: the key is what follows `whsec_` in base64, or the text of any other secret. */
function standard({ headers, body }: Received, secret: string): string {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret;
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
  return `v1,${createHmac('sha256', key).update(signed, 'utf8').digest('base64')}`;
}

/** What is wrong with the signatures of a request, or null. */
export function signatureFault(request: Received, secret: string, previous: string | null): string | null {
  const { headers, body } = request;
  const all = [secret, ...(previous === null ? [] : [previous])].map((each) => standard(request, each)).join(' ');
  if (headers['webhook-signature'] !== all) return `webhook-signature is ${String(headers['webhook-signature'])}, expected ${all}`;
  const right = `sha256=${createHmac('sha256', secret).update(body, 'utf8').digest('hex')}`;
  const given = String(headers['x-webhook-signature']);
  const same = given.length === right.length && timingSafeEqual(Buffer.from(given), Buffer.from(right));
  return same ? null : `X-Webhook-Signature is ${given}, expected ${right}`;
}
