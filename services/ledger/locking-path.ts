// Locking path of the writer: lock the heads, read, decide, write. For tenants that are not cached, conflicts and failures.
import { allSettledOrThrow, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { isServerError, isStaleConnection, isTransient } from '../platform/postgres-errors.ts';
import type { AccountCache } from './account-cache.ts';
import { Refusal } from './accounting.ts';
import { Batch } from './batch.ts';
import { unknownHold } from './hold-reads.ts';
import { headOf, lockHeadsTable, selectHead, type HeadRow } from './log.ts';
import type { ActiveCursors } from './outbox/active-cursors.ts';
import type { ValidatedPosting } from './mapping.ts';
import type { Item } from './queue.ts';
import { begin } from './writer-queries.ts';

/** How a batch ended. What is settled in it has been committed, or changed nothing. */
export interface LockedResult {
  batch: Batch;
  /** Items of tenants whose head another replica has locked; only without waiting. */
  lockedElsewhere: Item[];
  /** Items for which more holds must expire. */
  undecided: Item[];
  /** Tenants whose head was as cached. */
  current: string[];
}

/** Nothing of a batch was posted, because of its cause: PostgreSQL rejected a statement and rolled back, or the decision failed. */
export class RolledBack extends Error {
  override name = 'RolledBack';
}

/**
 * Posts a batch in one SQL transaction. With `wait` false it skips tenants whose head another replica has locked. With true it waits for
 * the lock, which only a batch of one tenant may do: no transaction waits for one tenant while it locks another. Throws
 * {@link RolledBack}, or an error that leaves the outcome open; the tenants are then no longer cached.
 */
export async function runLockingPath(
  pool: Pool,
  cache: AccountCache,
  cursors: ActiveCursors,
  items: Item[],
  wait: boolean,
): Promise<LockedResult> {
  const client = await pool.connect();
  let usable = false;
  try {
    const result = await lockAndPost(client, cache, new Batch(items, cursors), wait);
    usable = true;
    return result;
  } catch (error) {
    const { code } = error as { code?: unknown };
    // After a rejected statement the connection still answers. Its severity would show that too, but is translated by `lc_messages`.
    const answers = isServerError(error) && (await rollBack(client));
    usable = answers && !isStaleConnection(error);
    const isOwnFault = code === undefined || error instanceof TypeError || error instanceof RangeError;
    if (answers || (isOwnFault && !isTransient(error))) throw new RolledBack('a batch was rolled back', { cause: error });
    throw error;
  } finally {
    client.release(!usable);
  }
}

async function lockAndPost(client: Client, cache: AccountCache, batch: Batch, wait: boolean): Promise<LockedResult> {
  const { tenants } = batch;
  const lock = wait
    ? { name: 'lock_head', text: `${selectHead} where tenant_id = $1 for update`, values: [tenants[0]] }
    : {
        name: 'lock_heads',
        text: `${selectHead} where tenant_id = any($1::uuid[]) order by tenant_id for update skip locked`,
        values: [tenants],
      };
  const [begun, heads, read] = sendTogether(
    client,
    () => [[...begin(client, tenants), client.query(lockHeadsTable)], client.query<HeadRow>(lock), batch.read(client)] as const,
  );
  const [{ rows }] = await allSettledOrThrow([heads, ...begun, read] as const);
  const current: string[] = [];
  const locked = new Set<string>();
  for (const row of rows) {
    const head = headOf(row);
    const cached = cache.take(head.tenant);
    const isCurrent = cached?.head.sequence === head.sequence && cached.head.rebuilt === head.rebuilt && cached.head.hash.equals(head.hash);
    if (isCurrent) current.push(head.tenant);
    locked.add(head.tenant);
    batch.addState(isCurrent ? cached : { head, accounts: new Map() });
  }
  const lockedElsewhere = await settleUnknownTenants(client, batch, locked);
  await batch.readMissing(client);
  batch.decide();
  if (batch.undecided.length > 0) await batch.decideAfterExpiry(client);
  await allSettledOrThrow(sendTogether(client, () => [...batch.writeLocked(client), batch.readIdsOfRefused(client), commit(client)]));
  for (const state of batch.states) cache.put(state.head.tenant, state);
  return { batch, lockedElsewhere, undecided: batch.undecided, current };
}

/** Refuses items of tenants without a head, which have no accounts either; returns those whose head another replica has locked. */
async function settleUnknownTenants(client: Client, batch: Batch, locked: Set<string>): Promise<Item[]> {
  const rest = batch.tenants.filter((tenant) => !locked.has(tenant));
  if (rest.length === 0) return [];
  const { rows } = await client.query<{ tenant_id: string }>({
    name: 'existing_heads',
    text: 'select tenant_id from heads where tenant_id = any($1::uuid[])',
    values: [rest],
  });
  const existing = new Set(rows.map((row) => row.tenant_id));
  const lockedElsewhere: Item[] = [];
  for (const item of batch.items) {
    if (existing.has(item.tenant)) lockedElsewhere.push(item);
    else if (!locked.has(item.tenant)) batch.settled.push({ item, outcome: { refusal: unknownTenant(item.commands[0]) } });
  }
  return lockedElsewhere;
}

// The refusal of a posting to a tenant without a log: none of its accounts or transactions exist.
function unknownTenant({ kind, target, entries }: ValidatedPosting): Refusal {
  if (target) return kind === 'reversal' ? new Refusal('transaction_not_found', 'transaction not found') : unknownHold();
  const code = entries[0]?.code ?? '';
  const field = entries[0]?.field ?? (kind === 'single' ? 'account_code' : 'entries[0].account_code');
  return new Refusal('account_not_found', `account ${code} not found`, { field, tag: 'account_not_found', value: code });
}

// PostgreSQL rolls back a transaction that had failed, and reports no error.
async function commit(client: Client): Promise<void> {
  const { command } = await client.query('commit');
  if (command !== 'COMMIT') throw Object.assign(new Error(`the batch ended with ${command}`), { code: '25P02' });
}

async function rollBack(client: Client): Promise<boolean> {
  return client.query('rollback').then(
    () => true,
    () => false,
  );
}
