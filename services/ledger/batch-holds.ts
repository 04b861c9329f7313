// Commands of a batch on holds: what was done before, and what is done now.
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { TenantState } from './account-cache.ts';
import type { Changes } from './changes.ts';
import { idReused } from './fingerprint.ts';
import { captureHold, endHold, makeHold } from './hold-changes.ts';
import { isDue, type CurrentHold } from './holds.ts';
import { keyOf, targetOf, type Known } from './known.ts';
import type { ValidatedPosting } from './mapping.ts';
import { holdReplayOf, holdResultOf } from './command-results.ts';
import type { Done, Item } from './queue.ts';
import type { UsedKey } from './writer-queries.ts';

/** Whether a command changes holds and posts nothing. */
export function isHoldCommand({ kind }: ValidatedPosting): boolean {
  return kind === 'hold' || kind === 'void' || kind === 'expire';
}

/** Does commands on holds, and remembers what they did. */
export class BatchHolds {
  private readonly changes: Changes;
  private readonly known: Known;

  constructor(changes: Changes, known: Known) {
    this.changes = changes;
    this.known = known;
  }

  /**
   * The answer to a command of {@link isHoldCommand} that was done before, or needs nothing; null: it must be done. `used`: what its key was
   * used for. Throws {@link Refusal} for an unknown hold, or if its key was used for another request.
   */
  earlier(command: ValidatedPosting, used: UsedKey | undefined, item: Item, nowMs: number): Done | null {
    if (command.kind === 'hold') {
      const hold = used && (this.known.findHold(`${command.tenant} ${used.id}`) ?? used.hold);
      return hold ? holdReplayOf(item, command, used, hold.record) : null;
    }
    const { record } = this.known.holdOf(command);
    if (command.kind === 'expire') return isDue(record, nowMs) ? null : holdResultOf(record, true);
    // One that may have been sent before has found its own void.
    return record.status === 'voided' ? holdResultOf(record, !command.retry && !item.uncertain) : null;
  }

  /** Makes a hold at the database's clock, as the methods below. They throw {@link Refusal}: nothing has changed then. */
  made(state: TenantState, command: ValidatedPosting, nowMs: number): Done {
    const { tenant, transaction: id, fingerprint } = command;
    const key = `${tenant} ${id}`;
    // The unique index knows what was committed.
    if (this.known.findHold(key)) throw idReused(command);
    const hold = makeHold(this.changes, state, command, nowMs);
    this.changes.set(this.known.decided.holds, key, hold);
    this.changes.set(this.known.decided.keys, keyOf(command), { id, fingerprint, sequence: hold.record.sequence, hold });
    return holdResultOf(hold.record, false);
  }

  /** Captures a hold that is pending. */
  captured(state: TenantState, command: ValidatedPosting, before: CurrentHold, nowMs: number): Transaction {
    const { transaction, hold } = captureHold(this.changes, state, command, before, nowMs);
    this.changes.set(this.known.decided.holds, targetOf(command), hold);
    return transaction;
  }

  /** Voids a hold that is pending, or lets one expire that is due. */
  ended(state: TenantState, command: ValidatedPosting, nowMs: number): Done {
    const hold = endHold(this.changes, state, command, this.known.holdOf(command), command.kind === 'void' ? 'voided' : 'expired', nowMs);
    this.changes.set(this.known.decided.holds, targetOf(command), hold);
    return holdResultOf(hold.record, false);
  }
}
