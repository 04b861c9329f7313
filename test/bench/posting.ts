// The posting of all benchmarks: a transfer between two customers' wallets.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { PostingSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toDecimal } from '../../services/platform/money.ts';

/** Currency of all postings. */
export const currency = 'NGN';

/** Account code of a customer, of fixed width; 0 is the merchant. */
export function wallet(customer: number): string {
  return `WALLET-${String(customer).padStart(4, '0')}`;
}

/** Two different random customers out of `accounts`, and an amount of at least 10.00. */
export function transfer(accounts: number): { from: number; to: number; amount: string } {
  const from = 1 + Math.floor(Math.random() * accounts);
  const to = 1 + ((from + Math.floor(Math.random() * (accounts - 1))) % accounts);
  return { from, to, amount: toDecimal(BigInt(1_000 + Math.floor(Math.random() * 8_900))) };
}

/** The REST body, as `wrk.lua` writes it. `number`: up to nine digits, unique in its series; `hot`: to the merchant. */
export function bodyOf(series: string, number: number, accounts: number, hot = false): string {
  const { from, to, amount } = transfer(accounts);
  const id = `${series}-1-${String(number).padStart(9, '0')}`;
  return JSON.stringify({
    idempotency_key: `bench-${id}`,
    description: 'Transfer between wallets',
    reference: `INV-${id}`,
    entries: [
      { account_code: wallet(from), amount, side: 'debit', currency },
      { account_code: wallet(hot ? 0 : to), amount, side: 'credit', currency },
    ],
    metadata: { channel: 'mobile', order: id.slice(-9) },
  });
}

/** The gRPC message. `number`: up to nine digits, unique in its series. */
export function postingOf(
  tenantId: string,
  series: string,
  number: number,
  accounts: number,
  { from, to, amount } = transfer(accounts),
): MessageInitShape<typeof PostingSchema> {
  const nine = String(number).padStart(9, '0');
  return {
    tenantId,
    idempotencyKey: `bench-${series}-${nine}`,
    description: 'Transfer between wallets',
    reference: `INV-${series}-${nine}`,
    entries: [
      { accountCode: wallet(from), amount, side: 'debit', currency },
      { accountCode: wallet(to), amount, side: 'credit', currency },
    ],
    metadata: `{"channel":"mobile","order":"${nine}"}`,
    actor: 'benchmark',
    requestId: `req-${series}-${nine}`,
  };
}
