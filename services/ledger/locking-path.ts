// A batch under locks: the heads are locked first, then everything is read. The sure way, taken where the books are not remembered, another
// process writes to the same tenants, or something has gone wrong.
import { isStaleConnection } from '../platform/stale-connection.ts';
import { allSettledOrThrow, sendTogether, type Client, type Pool } from '../platform/postgres.ts';
import { isTransient, isServerError } from '../platform/postgres-errors.ts';
import { Batch, unknownTenant } from './batch.ts';
import type { AccountCache } from './account-cache.ts';
import { headOf, selectHead, lockHeadsTable, type HeadRow } from './log.ts';
import type { ActiveCursors } from './outbox/active-cursors.ts';
import type { Item } from './queue.ts';
import { begin, commit } from './writer-queries.ts';

/** What became of a batch. Whatever is settled in it has been committed, or changed nothing. */
export interface LockedResult {
  batch: Batch;
  /** Items of tenants whose head another process holds; only without waiting. */
  held: Item[];
  /** Tenants whose head stood where this process left it. */
  current: string[];
}

/** Nothing of a batch was done, for the reason that is its cause: PostgreSQL refused a statement and has undone the others, or this program failed. */
export class RolledBack extends Error {
  override name = 'Undone';
}

/**
 * Posts a batch in one SQL transaction. With `wait` false a tenant whose head another process holds is left out; with true the lock is
 * waited for, which only a batch of one tenant may do: so no transaction waits for one tenant while it holds another.
 * Throws {@link RolledBack}, or what left open whether it was posted. What the shelf said of these tenants is forgotten then.
 */
export async function runLockingPath(
  pool: Pool,
  shelf: AccountCache,
  cursors: ActiveCursors,
  items: Item[],
  wait: boolean,
): Promise<LockedResult> {
  const client = await pool.connect();
  let usable = false;
  try {
    const end = await lockAndPost(client, shelf, new Batch(items, cursors), wait);
    usable = true;
    return end;
  } catch (error) {
    const { code } = error as { code?: unknown };
    // A refused statement leaves a connection behind that answers, and one of which the server speaks last does not. The error's severity would say
    // so, too, but in the language of `lc_messages`.
    const answers = isServerError(error) && (await cleared(client));
    usable = answers && !isStaleConnection(error);
    const isOurs = code === undefined || error instanceof TypeError || error instanceof RangeError;
    if (answers || (isOurs && !isTransient(error))) throw new RolledBack('a batch was undone', { cause: error });
    throw error;
  } finally {
    client.release(!usable);
  }
}

async function lockAndPost(client: Client, shelf: AccountCache, batch: Batch, wait: boolean): Promise<LockedResult> {
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
    const books = shelf.take(head.tenant);
    const known = books?.head.sequence === head.sequence && books.head.rebuilt === head.rebuilt && books.head.hash.equals(head.hash);
    if (known) current.push(head.tenant);
    locked.add(head.tenant);
    batch.open(known ? books : { head, accounts: new Map() });
  }
  const held = await settleHeadless(client, batch, locked);
  await batch.readOn(client);
  batch.decide();
  await allSettledOrThrow(
    sendTogether(client, () => [
      ...batch.fence(client),
      ...batch.write(client, { holds: true }),
      batch.readIdsOfRefused(client),
      commit(client),
    ]),
  );
  for (const books of batch.books) shelf.put(books.head.tenant, books);
  return { batch, held, current };
}

// A head that was not locked is another process's at the moment, or was never made: then no account exists either.
async function settleHeadless(client: Client, batch: Batch, locked: Set<string>): Promise<Item[]> {
  const rest = batch.tenants.filter((tenant) => !locked.has(tenant));
  if (rest.length === 0) return [];
  const { rows } = await client.query<{ tenant_id: string }>({
    name: 'existing_heads',
    text: 'select tenant_id from heads where tenant_id = any($1::uuid[])',
    values: [rest],
  });
  const existing = new Set(rows.map((row) => row.tenant_id));
  const held: Item[] = [];
  for (const item of batch.items) {
    if (locked.has(item.posting.tenant)) continue;
    if (existing.has(item.posting.tenant)) held.push(item);
    else batch.settled.push({ item, outcome: { refusal: unknownTenant(item.posting) } });
  }
  return held;
}

async function cleared(client: Client): Promise<boolean> {
  return client.query('rollback').then(
    () => true,
    () => false,
  );
}
