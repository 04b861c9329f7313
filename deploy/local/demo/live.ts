// Postings of this minute, and their webhooks to a receiver that fails for a while.
import { setTimeout as pause } from 'node:timers/promises';
import { LedgerError, type Ledger } from '../../../gateway/clients/typescript/ledger.ts';
import { entriesOf, type Line } from './journal.ts';
import { startReceiver, type DemoReceiver } from './receiver.ts';

const events = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated', 'hold.created', 'hold.captured'] as const;
const last = 16;

/** The key of the last posting, after which the demo is complete. */
export const lastKey = `demo-live-${last}`;

/** The receiver of the configured webhook, or of a new one where there is none; undefined where another program listens there. */
export async function receiverOf({ deliveries, webhooks }: Ledger, port: number): Promise<DemoReceiver | undefined> {
  const { webhook_config: config } = await deliveries.list({ limit: 1 });
  if (config) return startReceiver(Number(new URL(config.url).port));
  const receiver = (await startReceiver(port)) ?? (await startReceiver(0));
  if (receiver) await webhooks.configure({ url: receiver.url, events: [...events] });
  return receiver;
}

/** Posts so that deliveries have every state: delivered, failed, and pending while the receiver fails. */
export async function goLive({ transactions, webhooks }: Ledger, customers: readonly string[], receiver?: DemoReceiver): Promise<void> {
  const post = async (number: number) => {
    const minor = BigInt(number) * 125_000n;
    const lines: Line[] = [
      ['SETTLEMENT-NGN', 'debit', minor, 'NGN'],
      [customers[number % customers.length] ?? '', 'credit', minor, 'NGN'],
    ];
    const names = { idempotency_key: `demo-live-${number}`, description: 'Card deposit', reference: `LIVE-${number}` };
    await transactions.post({ ...names, entries: entriesOf(lines), metadata: { channel: 'card' } });
  };
  for (let number = 1; number <= 10; number += 1) await post(number);
  if (receiver) await attempted(receiver, 10);
  if (receiver) receiver.isFailing = true;
  await webhooks.test({}).catch((error: unknown) => {
    if (!(error instanceof LedgerError) || error.code !== 'test_failed') throw error;
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
