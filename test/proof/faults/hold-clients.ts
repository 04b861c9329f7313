// What a client does with a hold: captures it in parts, voids it, does both at once, or lets it expire; each until it is answered.
import { setTimeout as pause } from 'node:timers/promises';
import { toDecimal } from '../../../services/platform/money.ts';
import type { Operation, Seen } from '../ledger-api.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { Clients, Customer } from './clients.ts';

/** A hold that a client has sent. */
export interface TriedHold {
  tenantId: string;
  key: string;
  /** Minor units. */
  amount: bigint;
  isExpiring: boolean;
  /** Set once it was answered. */
  holdId?: string;
  /** Its void was answered as done. */
  isVoided?: boolean;
  /** How it had ended, as refusals of captures and voids have said. */
  ends: string[];
}

/** What one turn needs of its client. */
interface Turn {
  customer: Customer;
  /** No other turn has it. */
  key: string;
  random: SeededRandom;
  clients: Clients;
  send: (operation: Operation, request: Record<string, unknown>) => Promise<Seen | null>;
}

const entriesOf = (amount: bigint) =>
  [
    { account_code: 'SETTLEMENT-EUR', side: 'debit' },
    { account_code: 'CUSTOMER-WALLETS-EUR', side: 'credit' },
  ].map((line) => ({ ...line, amount: toDecimal(amount), currency: 'EUR' }));

/** Makes a hold and ends it in one of several ways. */
export async function useHold(turn: Turn): Promise<void> {
  const { customer, key, random, clients, send } = turn;
  const amount = BigInt(random.whole(2, 1_000_000));
  const isExpiring = random.happens(0.3);
  const held: TriedHold = { tenantId: customer.tenant.id, key, amount, isExpiring, ends: [] };
  clients.holds.push(held);
  const request = { idempotency_key: key, entries: entriesOf(amount), ...(isExpiring && { expires_in: random.whole(1, 3) }) };
  const seen = await send('hold', request);
  if (!seen) return;
  if (!seen.data?.hold) return clients.note(`hold ${key} was answered ${JSON.stringify(seen)}`);
  held.holdId = seen.data.hold.hold_id as string;
  switch (random.pick(['capture', 'parts', 'void', 'race', isExpiring ? 'expire' : 'capture'])) {
    case 'parts':
      await capture(turn, held, { name: 'part', units: 1n, isFinal: false });
      return capture(turn, held, { name: 'rest', units: amount - 1n, isFinal: true });
    case 'void':
      return voidHold(turn, held);
    case 'race':
      await Promise.all([capture(turn, held, { name: 'race', units: amount, isFinal: true }, true), voidHold(turn, held, true)]);
      return;
    case 'expire':
      // So that a capture comes about when the hold is due.
      await pause(random.whole(0, 3_000));
      return capture(turn, held, { name: 'late', units: amount - 1n, isFinal: true });
    default:
      return capture(turn, held, { name: 'all', units: amount, isFinal: true });
  }
}

async function capture(
  { customer, clients }: Turn,
  held: TriedHold,
  { name, units, isFinal }: { name: string; units: bigint; isFinal: boolean },
  isRace = false,
): Promise<void> {
  const hold = { id: held.holdId as string, isFinal };
  const tried = clients.begin({ tenantId: held.tenantId, key: `${held.key}-${name}`, kind: 'capture', amount: units, hold });
  const end = await clients.post(customer, tried, isRace || held.isExpiring);
  if (end !== null) held.ends.push(end);
}

async function voidHold({ send, clients }: Turn, held: TriedHold, isRace = false): Promise<void> {
  const seen = await send('void', { hold_id: held.holdId });
  if (!seen) return;
  if (seen.code === 'hold_ended' && (isRace || held.isExpiring)) held.ends.push(String(seen.value));
  else if (seen.code === undefined && seen.data?.hold?.status === 'voided') held.isVoided = true;
  else clients.note(`the void of ${held.key} was answered ${JSON.stringify(seen)}`);
}
