// Lets due holds of one tenant expire before something else is decided in the transaction that has locked its head.
import { allSettledOrThrow, sendTogether, type Client } from '../platform/postgres.ts';
import { Batch } from './batch.ts';
import type { Head } from './log.ts';
import { ActiveCursors } from './outbox/active-cursors.ts';

/** Moves the head where holds are due at `nowMs` of the database's clock. */
export async function expireFirst(client: Client, head: Head, nowMs: number): Promise<void> {
  const before = head.sequence;
  const batch = new Batch([], new ActiveCursors());
  batch.nowMs = nowMs;
  batch.addState({ head, accounts: new Map() });
  await batch.decideAfterExpiry(client);
  if (head.sequence !== before) await allSettledOrThrow(sendTogether(client, () => batch.writeLocked(client)));
}
