// What a batch knows besides accounts: used keys and ids, and what its commands are about. Read before it decides, changed as it decides.
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import type { ValidatedPosting } from './mapping.ts';
import { commandsOf, isUndoable, type Item } from './queue.ts';
import { reversibleOf, type Reversible } from './reversals.ts';
import { suspenseCode } from './templates.ts';
import * as queries from './writer-queries.ts';

/** What a batch that cannot see another's commit yet has to know of it. */
export interface Decided {
  /** Used keys, by tenant and key. */
  keys: Map<string, queries.UsedKey>;
  /** By tenant and id: what is left to reverse of transactions. */
  reversed: Map<string, Reversible>;
}

/** What one batch knows. */
export class Known {
  /** What was read, and what the batch has decided since. */
  readonly decided: Decided = { keys: new Map(), reversed: new Map() };
  /** By tenant and transaction id: keys under which ids of undoable items were posted. The database would reject the whole item. */
  readonly keysOfIds = new Map<string, string>();
  /** Of batches whose commits may not be visible yet to what this one reads, oldest first. */
  private readonly pending: readonly Decided[];
  /** As `decided.reversed`, before the batch. */
  private readonly originals = new Map<string, Reversible>();

  constructor(pending: readonly Decided[]) {
    this.pending = pending;
  }

  async read(client: Client, items: Item[]): Promise<void> {
    const commands = commandsOf(items);
    const [keys, originals, keysOfIds] = await allSettledOrThrow([
      queries.usedKeys(client, commands),
      queries.originalsOf(
        client,
        commands.filter(({ kind }) => kind === 'reversal'),
      ),
      queries.keysOfIds(client, commandsOf(items.filter(isUndoable))),
    ]);
    for (const row of keys) this.decided.keys.set(`${row.tenant_id} ${row.idempotency_key}`, row);
    for (const row of originals) this.originals.set(`${row.tenant_id} ${row.id}`, reversibleOf(row));
    for (const [id, key] of keysOfIds) this.keysOfIds.set(id, key);
  }

  /** What a command's key was used for. One that another batch uses may be found only by the unique index; then the locking path decides. */
  used(key: string): queries.UsedKey | undefined {
    const own = this.decided.keys.get(key);
    if (own) return own;
    const used = this.pending.find(({ keys }) => keys.has(key))?.keys.get(key);
    return used?.transaction && used;
  }

  /** What a command may reverse. Throws {@link Refusal}: `transaction_not_found`. */
  originalOf(command: ValidatedPosting): Reversible {
    const id = targetOf(command);
    const newest = [...this.pending, this.decided].findLast(({ reversed }) => reversed.has(id));
    const original = newest?.reversed.get(id) ?? this.originals.get(id);
    if (!original) throw new Refusal('transaction_not_found', 'transaction not found');
    return original;
  }

  /** Codes of the accounts that the rules ask for to decide a command. */
  codesOf(command: ValidatedPosting): string[] {
    const { kind, entries, target, require } = command;
    const original = target && this.originals.get(targetOf(command));
    const codes = original ? original.entries.map(({ accountCode }) => accountCode) : entries.map(({ code }) => code);
    if (require) codes.push(...require.map(({ code }) => code));
    return kind === 'single' ? [...codes, suspenseCode(entries[0]?.currency ?? '')] : codes;
  }
}

/** Names a command's transaction among all tenants'. */
export function idOf({ tenant, transaction }: ValidatedPosting): string {
  return `${tenant} ${transaction}`;
}

/** The same of what it reverses. */
export function targetOf({ tenant, target }: ValidatedPosting): string {
  return `${tenant} ${target?.uuid ?? ''}`;
}

/** The same of its key. */
export function keyOf({ tenant, idempotencyKey }: ValidatedPosting): string {
  return `${tenant} ${idempotencyKey}`;
}
