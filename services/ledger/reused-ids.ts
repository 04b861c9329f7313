// Refused commands whose ids were used for something else.
import type { Client } from '../platform/postgres.ts';
import type { Reason } from './accounting.ts';
import { idReused } from './fingerprint.ts';
import { idOf } from './known.ts';
import type { ValidatedPosting } from './mapping.ts';
import type { Item, ItemOutcome } from './queue.ts';
import { keysOfIds } from './writer-queries.ts';

/** An item and how it ended. */
export interface Settled {
  item: Item;
  outcome: ItemOutcome;
}

/** Refusals that take precedence over what a transaction's id was used for. */
const reasonsBeforeIds: Reason[] = ['transaction_not_found', 'hold_not_found', 'idempotency_key_reused'];

/**
 * Looks up the ids of refused commands. If an id was posted under another key, the refusal says so: otherwise its caller would believe
 * that it was never posted. Send it after the batch is written, so that it sees what that has posted.
 */
export async function readIdsOfRefused(client: Client, all: Settled[]): Promise<void> {
  const refused = all.flatMap((settled) => {
    const { item, outcome } = settled;
    if (!('refusal' in outcome) || reasonsBeforeIds.includes(outcome.refusal.reason)) return [];
    return [{ settled, outcome, command: item.commands[outcome.at ?? 0] as ValidatedPosting }];
  });
  const keys = await keysOfIds(
    client,
    refused.map(({ command }) => command),
  );
  for (const { settled, outcome, command } of refused) {
    const key = keys.get(idOf(command));
    if (key !== undefined && key !== command.idempotencyKey) settled.outcome = { ...outcome, refusal: idReused(command) };
  }
}
