// What commands of a batch are about: transactions to reverse, and holds, each as it is after the command before.
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { Client } from '../platform/postgres.ts';
import type { TenantState } from './account-cache.ts';
import { Refusal } from './accounting.ts';
import type { Changes } from './changes.ts';
import { idReused } from './fingerprint.ts';
import { captureHold, endHold, makeHold } from './hold-changes.ts';
import { targetHolds } from './hold-queries.ts';
import { unknownHold } from './hold-reads.ts';
import { currentHold, isDue, type CurrentHold } from './holds.ts';
import type { ValidatedPosting } from './mapping.ts';
import { holdReplayOf, holdResultOf } from './outcomes.ts';
import type { Done, Item } from './queue.ts';
import { reversibleOf, type Reversible } from './reversals.ts';
import { keyOf, originalsOf, targetOf, type UsedKey } from './writer-queries.ts';

/** What a batch that cannot see the commit of another one yet has to know. */
export interface Decided {
  /** Used keys, by tenant and key. */
  keys: Map<string, UsedKey>;
  /** By tenant and id: what the batch leaves to reverse of transactions. */
  reversed: Map<string, Reversible>;
  /** By tenant and id: holds after the batch. */
  holds: Map<string, CurrentHold>;
}

/** Whether a command changes holds and posts nothing. */
export function isHoldCommand({ kind }: ValidatedPosting): boolean {
  return kind === 'hold' || kind === 'void' || kind === 'expire';
}

/** The targets of one batch. */
export class BatchTargets {
  private readonly changes: Changes;
  private readonly decided: Decided;
  /** Of batches whose commits may not be visible yet to what this one reads, oldest first. */
  private readonly pending: readonly Decided[];
  /** Both before the batch, as in {@link Decided}. */
  private readonly originals = new Map<string, Reversible>();
  private readonly found = new Map<string, CurrentHold>();

  constructor(changes: Changes, decided: Decided, pending: readonly Decided[]) {
    this.changes = changes;
    this.decided = decided;
    this.pending = pending;
  }

  /** Reads what commands are about. */
  async read(client: Client, commands: ValidatedPosting[]): Promise<void> {
    const reversals = commands.filter(({ kind }) => kind === 'reversal');
    const onHolds = commands.filter(({ kind }) => kind === 'capture' || kind === 'void' || kind === 'expire');
    const [originals, holds] = await Promise.all([originalsOf(client, reversals), targetHolds(client, onHolds)]);
    for (const row of originals) this.originals.set(`${row.tenant_id} ${row.id}`, reversibleOf(row));
    for (const row of holds) this.found.set(`${row.tenant_id} ${row.id}`, currentHold(row));
  }

  /** Codes of the accounts of what a command is about; none where that is unknown. */
  codesOf(command: ValidatedPosting): string[] {
    const id = targetOf(command);
    const { entries } = this.originals.get(id) ?? this.findHold(id)?.record ?? { entries: [] };
    return entries.map(({ accountCode }) => accountCode);
  }

  /** The transaction that a reversal is about. Throws {@link Refusal}: `transaction_not_found`. */
  original(command: ValidatedPosting): Reversible {
    const id = targetOf(command);
    const newest = [...this.pending, this.decided].findLast(({ reversed }) => reversed.has(id));
    const original = newest?.reversed.get(id) ?? this.originals.get(id);
    if (!original) throw new Refusal('transaction_not_found', 'transaction not found');
    return original;
  }

  /** The hold that a command is about, as it is now. Throws {@link Refusal}: `hold_not_found`. */
  hold(command: ValidatedPosting): CurrentHold {
    const hold = this.findHold(targetOf(command));
    if (!hold) throw unknownHold();
    return hold;
  }

  private findHold(id: string): CurrentHold | undefined {
    const newest = [...this.pending, this.decided].findLast(({ holds }) => holds.has(id));
    return newest?.holds.get(id) ?? this.found.get(id);
  }

  /**
   * The answer to a command of {@link isHoldCommand} that was done before, or needs nothing; null: it must be done. `used`: what its key was
   * used for. Throws {@link Refusal} for an unknown hold, or if its key was used for another request.
   */
  earlier(command: ValidatedPosting, used: UsedKey | undefined, item: Item, nowMs: number): Done | null {
    if (command.kind === 'hold') {
      const hold = used && (this.findHold(`${command.tenant} ${used.id}`) ?? used.hold);
      return hold ? holdReplayOf(item, command, used, hold.record) : null;
    }
    const { record } = this.hold(command);
    if (command.kind === 'expire') return isDue(record, nowMs) ? null : holdResultOf(record, true);
    // One that may have been sent before has found its own void.
    return record.status === 'voided' ? holdResultOf(record, !command.retry && !item.uncertain) : null;
  }

  /** Makes a hold at the database's clock, as the methods below. They throw {@link Refusal}: nothing has changed then. */
  made(state: TenantState, command: ValidatedPosting, nowMs: number): Done {
    const { tenant, transaction: id, fingerprint } = command;
    const key = `${tenant} ${id}`;
    // The unique index knows what was committed.
    if (this.findHold(key)) throw idReused(command);
    const hold = makeHold(this.changes, state, command, nowMs);
    this.changes.set(this.decided.holds, key, hold);
    this.changes.set(this.decided.keys, keyOf(command), { id, fingerprint, sequence: hold.record.sequence, hold });
    return holdResultOf(hold.record, false);
  }

  /** Captures a hold that is pending. */
  captured(state: TenantState, command: ValidatedPosting, before: CurrentHold, nowMs: number): Transaction {
    const { transaction, hold } = captureHold(this.changes, state, command, before, nowMs);
    this.changes.set(this.decided.holds, targetOf(command), hold);
    return transaction;
  }

  /** Voids a hold that is pending, or lets one expire that is due. */
  ended(state: TenantState, command: ValidatedPosting, nowMs: number): Done {
    const hold = endHold(this.changes, state, command, this.hold(command), command.kind === 'void' ? 'voided' : 'expired', nowMs);
    this.changes.set(this.decided.holds, targetOf(command), hold);
    return holdResultOf(hold.record, false);
  }
}
