// Postings of this minute, and their webhooks to a receiver that fails for a while.
import { setTimeout as pause } from 'node:timers/promises';
import { ApiProblem, type Api } from './api.ts';
import { entriesOf, type Line } from './journal.ts';
import { startReceiver, type DemoReceiver } from './receiver.ts';

const events = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'hold.created', 'hold.captured'];
const last = 16;

/** The key of the last posting, after which the demo is complete. */
export const lastKey = `demo-live-${last}`;

/** The receiver of the configured webhook, or of a new one where there is none; undefined where another program listens there. */
export async function receiverOf(api: Api, path: string, port: number): Promise<DemoReceiver | undefined> {
  const { webhook_config: config } = await api('GET', `${path}/webhooks?limit=1`);
  if (config) return startReceiver(Number(new URL(config.url as string).port));
  const receiver = (await startReceiver(port)) ?? (await startReceiver(0));
  await api('POST', `${path}/webhooks`, { url: receiver?.url, events });
  return receiver;
}

/** Posts so that deliveries have every state: delivered, failed, and pending while the receiver fails. */
export async function goLive(api: Api, path: string, customers: readonly string[], receiver: DemoReceiver | undefined): Promise<void> {
  const post = async (number: number) => {
    const lines: Line[] = [
      ['SETTLEMENT-NGN', 'debit', BigInt(number) * 125_000n, 'NGN'],
      [customers[number % customers.length] ?? '', 'credit', BigInt(number) * 125_000n, 'NGN'],
    ];
    const body = {
      idempotency_key: `demo-live-${number}`,
      description: 'Card deposit',
      reference: `LIVE-${number}`,
      entries: entriesOf(lines),
    };
    await api('POST', `${path}/transactions/double-entry`, { ...body, metadata: { channel: 'card' } });
  };
  for (let number = 1; number <= 10; number += 1) await post(number);
  if (receiver) await attempted(receiver, 10);
  if (receiver) receiver.isFailing = true;
  await api('POST', `${path}/webhooks/test`, {}).catch((error: unknown) => {
    if (!(error instanceof ApiProblem) || error.code !== 'test_failed') throw error;
  });
  for (let number = 11; number <= 13; number += 1) await post(number);
  if (receiver) await attempted(receiver, receiver.deliveries + 3);
  if (receiver) receiver.isFailing = false;
  for (let number = 14; number <= last; number += 1) await post(number);
}

/** Waits, for some seconds at most, until the receiver has answered so many deliveries. */
async function attempted(receiver: DemoReceiver, count: number): Promise<void> {
  for (const until = Date.now() + 5_000; receiver.deliveries < count && Date.now() < until;) await pause(20);
}
