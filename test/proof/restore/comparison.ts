// Compares a restored ledger with what its clients were answered and what its receivers got.
import { isDeepStrictEqual } from 'node:util';
import { newId } from '../../../services/platform/ids.ts';
import type { Received } from '../../notifier.ts';
import type { Deployment, Poster } from './deployment.ts';
import type { Sent } from './traffic.ts';

/** What clients sent, by what a restore to the moment makes of it. */
export interface Split {
  /** Answered before the moment. */
  kept: Sent[];
  /** Sent after it. */
  lost: Sent[];
  /** On the way at the moment: either. */
  either: Sent[];
}

export function split(sent: Sent[]): Split {
  const kept = sent.filter(({ answeredBefore }) => answeredBefore === true);
  const lost = sent.filter(({ sentAfter }) => sentAfter);
  return { kept, lost, either: sent.filter((each) => !kept.includes(each) && !lost.includes(each)) };
}

/** The transaction as its client knows it. */
export const idOf = ({ transaction }: Sent): string => String(transaction?.transaction_id);

/** Asks about each of them, a few at a time; what is wrong with any. */
async function faultsOf(sent: Sent[], look: (one: Sent) => Promise<string | null>): Promise<string[]> {
  const faults: string[] = [];
  const left = [...sent];
  const work = async () => {
    for (let one = left.pop(); one; one = left.pop()) {
      const fault = await look(one);
      if (fault !== null) faults.push(`${one.poster.slug}, key ${one.body.idempotency_key}: ${fault}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return faults;
}

/** Lost postings that are there all the same. */
export function lostFaults(deployment: Deployment, lost: Sent[]): Promise<string[]> {
  return faultsOf(lost, async ({ poster, body, transaction }) => {
    const { transactions } = await deployment.call(poster, 'GET', `transactions?idempotency_key=${body.idempotency_key}`);
    if (transactions.length > 0) return `is there as ${transactions[0].transaction_id}`;
    const { status } = await deployment.ask(poster, 'GET', `transactions/${transaction?.transaction_id ?? newId('txn')}`);
    return status === 404 ? null : `its transaction is answered ${status}`;
  });
}

/** Kept postings whose repeated request is not answered with the record of the first. */
export function keptFaults(deployment: Deployment, kept: Sent[]): Promise<string[]> {
  return faultsOf(kept, async ({ poster, body, transaction }) => {
    const { status, headers, body: answer } = await deployment.post(poster, body);
    if (status !== 200 || headers.get('idempotent-replayed') !== 'true') return `was answered ${transaction.transaction_id}, now ${status}`;
    return isDeepStrictEqual(answer.data.transaction, transaction) ? null : `differs: ${JSON.stringify(answer.data.transaction)}`;
  });
}

/** Sends what is not there again, under its keys; notes its new record. */
export function repeatFaults(deployment: Deployment, sent: Sent[]): Promise<string[]> {
  return faultsOf(sent, async (one) => {
    const { status, body } = await deployment.post(one.poster, one.body);
    if (status !== 200 && status !== 201) return `${status} ${JSON.stringify(body)}`;
    one.transaction = body.data.transaction;
    return null;
  });
}

/** Whether a tenant's wallet has each of its postings exactly once. */
export async function sumFaults(deployment: Deployment, poster: Poster, sent: Sent[]): Promise<string[]> {
  const own = sent.filter((each) => each.poster.slug === poster.slug);
  const expected = own.reduce((sum, { transaction }) => sum + Number(transaction.amount), 0).toFixed(2);
  const { balance } = await deployment.call(poster, 'GET', 'accounts/code/CUSTOMER-WALLETS-USD/balance?currency=USD');
  return balance.balance === expected
    ? []
    : [`${poster.slug}: the wallet has ${balance.balance}, its ${own.length} postings make ${expected}`];
}

/** What a delivery is about. */
const transactionOf = ({ body }: Received) => (JSON.parse(body) as { data: { transaction_id: string } }).data.transaction_id;

/** Deliveries before the loss and after the restore, against transactions that are there and those that are gone. */
export function deliveryFaults(
  received: Received[],
  restored: number,
  { present, gone }: { present: Sent[]; gone: Set<string> },
): string[] {
  const faults: string[] = [];
  const bodies = new Map<string, string>();
  for (const { headers, body } of received) {
    const id = String(headers['x-webhook-id']);
    if ((bodies.get(id) ?? body) !== body) faults.push(`event ${id} was delivered with two bodies`);
    bodies.set(id, body);
  }
  const delivered = new Set(received.map(transactionOf));
  for (const one of present) if (!delivered.has(idOf(one))) faults.push(`the event of ${idOf(one)} was never delivered`);
  for (const each of received.slice(restored))
    if (gone.has(transactionOf(each))) faults.push(`${transactionOf(each)} is gone, and was delivered again`);
  return faults;
}
