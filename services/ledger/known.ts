// What a batch knows besides accounts: used keys and ids, and what its commands are about. Read before it decides, changed as it decides.
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import { Refusal } from './accounting.ts';
import { expiryCommand } from './hold-commands.ts';
import { targetHolds } from './hold-queries.ts';
import { unknownHold } from './hold-reads.ts';
import { currentHold, type CurrentHold, type HoldRow } from './holds.ts';
import type { ValidatedPosting } from './mapping.ts';
import { commandsOf, isUndoable, type Item } from './queue.ts';
import { posted, reversibleOf, type Reversible } from './reversals.ts';
import { suspenseCode } from './templates.ts';
import * as queries from './writer-queries.ts';

/** What a batch that cannot see another's commit yet has to know of it. */
export interface Decided {
  /** Used keys, by tenant and key. */
  keys: Map<string, queries.UsedKey>;
  /** By tenant and id: what is left to reverse of transactions. */
  reversed: Map<string, Reversible>;
  /** By tenant and id: holds as they are now. */
  holds: Map<string, CurrentHold>;
}

/** What one batch knows. */
export class Known {
  /** What was read, and what the batch has decided since. */
  readonly decided: Decided = { keys: new Map(), reversed: new Map(), holds: new Map() };
  /** By tenant and transaction id: keys under which ids of undoable items were posted. The database would reject the whole item. */
  readonly keysOfIds = new Map<string, string>();
  /** Of batches whose commits may not be visible yet to what this one reads, oldest first. */
  private readonly pending: readonly Decided[];
  /** As `decided.reversed` and `decided.holds`, before the batch. */
  private readonly originals = new Map<string, Reversible>();
  private readonly foundHolds = new Map<string, CurrentHold>();

  constructor(pending: readonly Decided[]) {
    this.pending = pending;
  }

  async read(client: Client, items: Item[]): Promise<void> {
    const commands = commandsOf(items);
    const [keys, originals, holds, keysOfIds] = await allSettledOrThrow([
      queries.usedKeys(client, commands),
      queries.originalsOf(
        client,
        commands.filter(({ kind }) => kind === 'reversal'),
      ),
      targetHolds(client, commands.filter(isAboutHold)),
      queries.keysOfIds(client, commandsOf(items.filter(isUndoable))),
    ]);
    for (const [key, used] of keys) this.decided.keys.set(key, used);
    for (const row of holds) this.foundHolds.set(`${row.tenant_id} ${row.id}`, currentHold(row));
    for (const row of originals) this.originals.set(`${row.tenant_id} ${row.id}`, reversibleOf(row));
    for (const [id, key] of keysOfIds) this.keysOfIds.set(id, key);
  }

  /** Adds holds that are due; returns the commands that let them expire. */
  addDue(rows: HoldRow[]): ValidatedPosting[] {
    for (const row of rows) this.foundHolds.set(`${row.tenant_id} ${row.id}`, currentHold(row));
    return rows.map(({ tenant_id, id }) => expiryCommand(tenant_id, id));
  }

  /** What a command's key was used for. One that another batch uses may be found only by the unique index; then the locking path decides. */
  used(key: string): queries.UsedKey | undefined {
    const own = this.decided.keys.get(key);
    if (own) return own;
    const used = this.pending.find(({ keys }) => keys.has(key))?.keys.get(key);
    return used?.transaction || used?.hold ? used : undefined;
  }

  /** What a command may reverse. Throws {@link Refusal}: `transaction_not_found`. */
  originalOf(command: ValidatedPosting): Reversible {
    const id = targetOf(command);
    const newest = [...this.pending, this.decided].findLast(({ reversed }) => reversed.has(id));
    const original = newest?.reversed.get(id) ?? this.originals.get(id) ?? this.justPosted(command);
    if (!original) throw new Refusal('transaction_not_found', 'transaction not found');
    return original;
  }

  // A posting is not among `reversed`, which would cost time, but for few a reversal follows before it can be read.
  private justPosted({ tenant, target }: ValidatedPosting): Reversible | undefined {
    for (const { keys } of [...this.pending, this.decided]) {
      for (const [key, { id, transaction }] of keys) {
        if (transaction && id === target?.uuid && key.startsWith(tenant)) return posted(transaction);
      }
    }
    return undefined;
  }

  /** The hold that a command is about, as it is now. Throws {@link Refusal}: `hold_not_found`. */
  holdOf(command: ValidatedPosting): CurrentHold {
    const hold = this.findHold(targetOf(command));
    if (!hold) throw unknownHold();
    return hold;
  }

  /** A hold by tenant and id, if this batch or one before it that is not committed has made or changed it, or a command is about it. */
  findHold(id: string): CurrentHold | undefined {
    const newest = [...this.pending, this.decided].findLast(({ holds }) => holds.has(id));
    return newest?.holds.get(id) ?? this.foundHolds.get(id);
  }

  /** Limits and subjects that have counted the holds that commands are about, by tenant (UUID). */
  countedOf(commands: ValidatedPosting[]): Map<string, [limitId: string, subject: string][]> {
    const counted = new Map<string, [string, string][]>();
    for (const command of commands.filter(isAboutHold)) {
      for (const { limitId, subject } of this.findHold(targetOf(command))?.counted ?? []) {
        const ofTenant = counted.get(command.tenant) ?? [];
        ofTenant.push([limitId, subject]);
        counted.set(command.tenant, ofTenant);
      }
    }
    return counted;
  }

  /** Codes of the accounts that the rules ask for to decide a command. */
  codesOf(command: ValidatedPosting): string[] {
    const { kind, entries, target, require } = command;
    const codes = target ? this.codesOfTarget(targetOf(command)) : [];
    codes.push(...entries.map(({ code }) => code));
    if (require) codes.push(...require.map(({ code }) => code));
    return kind === 'single' ? [...codes, suspenseCode(entries[0]?.currency ?? '')] : codes;
  }

  private codesOfTarget(id: string): string[] {
    const { entries } = this.originals.get(id) ?? this.findHold(id)?.record ?? { entries: [] };
    return entries.map(({ accountCode }) => accountCode);
  }
}

function isAboutHold({ kind }: ValidatedPosting): boolean {
  return kind === 'capture' || kind === 'void' || kind === 'expire';
}

/** Names what a command makes, a transaction or hold, among all tenants'. */
export function idOf({ kind, tenant, transaction }: ValidatedPosting): string {
  return `${tenant}${separator(kind)}${transaction}`;
}

/** The same of what it reverses, captures or ends. */
export function targetOf({ tenant, target }: ValidatedPosting): string {
  return `${tenant} ${target?.uuid ?? ''}`;
}

/** The same of its key. */
export function keyOf({ kind, tenant, idempotencyKey }: ValidatedPosting): string {
  return `${tenant}${separator(kind)}${idempotencyKey}`;
}

// Keys and ids of holds are none of transactions.
function separator(kind: ValidatedPosting['kind']): string {
  return kind === 'hold' ? '#' : ' ';
}
