// Chooses the replica of the ledger that writes a tenant's log: the same one in all gateways.
import type { Client } from '@connectrpc/connect';
import type { LedgerService } from '../proto/gen/ledger/v1/ledger_pb.js';

/** One replica of the ledger. */
export interface Ledger {
  /** All gateways must name a replica alike, because the name decides which tenants it gets. */
  address: string;
  client: Client<typeof LedgerService>;
}

/** The tenant's ledger by rendezvous hashing: the same in all gateways, and most tenants keep theirs when one goes. */
export function ledgerOf(tenant: string, ledgers: Ledger[]): Ledger {
  const [first] = ledgers as [Ledger, ...Ledger[]];
  if (ledgers.length === 1) return first;
  const weights = ledgers.map(({ address }) => fnv1a(`${address} ${tenant}`));
  return ledgers[weights.indexOf(Math.max(...weights))] ?? first;
}

// http://www.isthe.com/chongo/tech/comp/fnv/
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
