// One batch of the writer: what it reads, what the rules decide item by item, and what it writes in one SQL transaction.
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import { hasPending, type TenantState } from './account-cache.ts';
import { Refusal } from './accounting.ts';
import { BatchHolds, isHoldCommand } from './batch-holds.ts';
import { Changes } from './changes.ts';
import { idReused } from './fingerprint.ts';
import { dueHolds, maxDue, nextDue } from './hold-queries.ts';
import { isDue, mustBePending } from './holds.ts';
import { fenceHeads, frozenBooks, readClock, type Head } from './log.ts';
import { readBooks } from './books-rules.ts';
import { readCounts, readLimits } from './limit-reads.ts';
import { Known, idOf, keyOf, targetOf, type Decided } from './known.ts';
import type { ValidatedPosting } from './mapping.ts';
import { activeUntil, type ActiveCursors } from './outbox/active-cursors.ts';
import { asDryRun, dependsOnHolds, entriesMustFit, replayOf, resultOf, tooLate } from './command-results.ts';
import { commandsOf, isAbandoned, isUndoable, neverSent, type Done, type Item, type ItemOutcome } from './queue.ts';
import { readIdsOfRefused, type Settled } from './reused-ids.ts';
import { posted, takeReversal } from './reversals.ts';
import { write, writeLocked, type BatchRows } from './write.ts';
import * as queries from './writer-queries.ts';

/** Time a call to the database gets at least, milliseconds: a call that comes too late is decided again on the locking path. */
const minCallMs = 1_000;

/** A tenant's state, changed by the batch, and its head before. */
interface OpenedTenant {
  state: TenantState;
  from: Head;
}

/**
 * One batch. Use it in this order: `addState` for each tenant, `read` and `readMissing` unless all is known, `decide`, then `write` or
 * `writeLocked`. It changes the states it was given: they are void when its transaction fails.
 */
export class Batch {
  readonly items: Item[];
  readonly startedAt = performance.now();
  /** Tenants (UUIDs) of the items, ascending. */
  readonly tenants: string[];
  readonly settled: Settled[] = [];
  /** Items that were refused for what holds that may be due had reserved, and those behind them. */
  readonly undecided: Item[] = [];
  readonly known: Known;
  /** Tenants (UUIDs) whose logs were written to. */
  writtenTenants: string[] = [];
  /** The database's clock, milliseconds since the Unix epoch; set before anything is decided. */
  nowMs = 0;
  /** By that clock: a write that arrives later fails. No limit where the heads are locked. */
  private deadlineMs = Infinity;
  private readonly cursors: ActiveCursors;
  private activatedCursors: string[] = [];
  private readonly openedTenants = new Map<string, OpenedTenant>();
  /** By tenant and code: accounts whose balances differ from their entries, and in what. Nothing is posted to them. */
  private readonly inconsistentAccounts = new Map<string, string>();
  private readonly changes = new Changes();
  private readonly holds: BatchHolds;
  /** Tenants (UUIDs) of refused items that an earlier call may have been sent with. */
  private readonly refusedAfterSend = new Set<string>();

  constructor(items: Item[], cursors: ActiveCursors, pending: readonly Decided[] = []) {
    this.items = items;
    this.tenants = [...new Set(items.map(({ tenant }) => tenant))].sort();
    this.cursors = cursors;
    this.known = new Known(pending);
    this.holds = new BatchHolds(this.changes, this.known);
  }

  /** Adds a tenant's state; items of tenants without are not decided. */
  addState(state: TenantState): void {
    this.openedTenants.set(state.head.tenant, { state, from: { ...state.head } });
  }

  get states(): TenantState[] {
    return [...this.openedTenants.values()].map(({ state }) => state);
  }

  /**
   * Tenants (UUIDs) whose heads do not move, of which something was refused that an earlier call may have been sent with. If that call
   * reaches the database late it still finds the head it needs, and would post what was refused.
   */
  private get ambiguousTenants(): string[] {
    return [...this.refusedAfterSend].filter((tenant) => !hasMoved(this.openedTenants.get(tenant) as OpenedTenant));
  }

  /** Why only the locking path can write what was decided; null if the optimistic path can. */
  get lockReason(): string | null {
    if (this.changes.newAccounts.length > 0) return 'accounts are created under the lock';
    if (this.undecided.length > 0) return 'holds may be due, which expire under the lock';
    return this.ambiguousTenants.length > 0 ? 'a refused posting may be on its way' : null;
  }

  /** Whether the rules can decide on cached state. Used keys are then left to the unique index. */
  get canSkipReads(): boolean {
    return this.items.every(({ tenant, commands, dryRun, uncertain }) => {
      const [first] = commands;
      if (first.target || first.retry || uncertain || commands.length > 1 || dryRun) return false;
      const accounts = this.openedTenants.get(tenant)?.state.accounts;
      return accounts !== undefined && this.known.codesOf(first).every((code) => accounts.has(code));
    });
  }

  /** Whether something was refused: its key or id may have been used, which takes precedence over the rules. */
  get hasRefusals(): boolean {
    return this.settled.some(({ outcome }) => 'refusal' in outcome);
  }

  /**
   * Reads the clock, the used keys and what is to be reversed. These are statements of their own after the locking one, because a
   * statement that waited for a lock still sees what it saw before. Send it together with `begin`, then call `readMissing`.
   */
  async read(client: Client): Promise<void> {
    const [time] = await allSettledOrThrow([client.query<{ now_ms: number }>(readClock), this.known.read(client, this.items)]);
    this.nowMs = (time.rows[0] as { now_ms: number }).now_ms;
  }

  /** Reads accounts that are not cached and the transactions of repeated keys; for most batches nothing. */
  async readMissing(client: Client, commands = commandsOf(this.items)): Promise<void> {
    const [found] = await Promise.all([
      this.readAccounts(client, commands),
      queries.readReplays(client, this.known.decided.keys),
      readLimits(client, this.states),
      readBooks(client, this.states),
    ]);
    await readCounts(client, this.states, found, this.known.countedOf(commands));
  }

  /** Codes of the accounts that were found, by tenant (UUID). */
  private async readAccounts(client: Client, commands: ValidatedPosting[]): Promise<Map<string, string[]>> {
    const wanted = new Map<string, [tenant: string, code: string]>();
    for (const posting of commands) {
      const accounts = this.openedTenants.get(posting.tenant)?.state.accounts;
      if (!accounts) continue;
      for (const code of this.known.codesOf(posting)) {
        if (!accounts.has(code)) wanted.set(`${posting.tenant} ${code}`, [posting.tenant, code]);
      }
    }
    if (wanted.size === 0) return new Map();
    const all = await queries.readAccounts(client, [...wanted.values()]);
    for (const found of all) {
      const { tenant, code, state, differences } = found;
      if (differences.length === 0) this.openedTenants.get(tenant)?.state.accounts.set(code, state);
      else this.inconsistentAccounts.set(`${tenant} ${code}`, queries.whyInconsistent(found));
    }
    return new Map([...Map.groupBy(all, ({ tenant }) => tenant)].map(([tenant, found]) => [tenant, found.map(({ code }) => code)]));
  }

  /** Applies the rules, item by item. What follows an undecided item of its tenant is undecided too: items are decided in their order. */
  decide(items = this.items): void {
    for (const item of items) {
      const state = this.openedTenants.get(item.tenant)?.state;
      if (!state) continue;
      const outcome = this.undecided.some(({ tenant }) => tenant === item.tenant) ? null : this.outcomeOf(item);
      if (!outcome || (dependsOnHolds(outcome) && this.mayHaveDue(item, state))) this.undecided.push(item);
      else this.settled.push({ item, outcome });
    }
  }

  private mayHaveDue({ commands }: Item, state: TenantState): boolean {
    if ((state.nextDueMs ?? 0) > timeOf(state, this.nowMs)) return false;
    const codes = commands.flatMap((command) => this.known.codesOf(command));
    // With velocity limits, what holds of other accounts give back counts as well.
    return state.rules !== null || codes.some((code) => hasPending(state.accounts.get(code)));
  }

  /** Lets due holds of the tenants expire, whose heads are locked, and decides again what is undecided. Some may be left so. */
  async decideAfterExpiry(client: Client): Promise<void> {
    const tenants = [...this.openedTenants.keys()];
    const due = this.known.addDue(await dueHolds(client, tenants, this.nowMs));
    await this.readMissing(client, due);
    const next = await nextDue(client, tenants, this.nowMs);
    const expired = due.filter((command) => this.expire(command));
    const isAll = due.length < maxDue || expired.length === 0;
    for (const state of this.states) state.nextDueMs = isAll ? (next.get(state.head.tenant) ?? this.nowMs) : this.nowMs;
    this.decide(this.undecided.splice(0));
  }

  private expire(command: ValidatedPosting): boolean {
    const { state } = this.openedTenants.get(command.tenant) as OpenedTenant;
    const isDueNow =
      !state.head.frozen &&
      isDue(this.known.holdOf(command).record, timeOf(state, this.nowMs)) &&
      this.inconsistencyOf(command) === undefined;
    if (isDueNow) this.holds.ended(state, command, this.nowMs);
    return isDueNow;
  }

  /** Decides all commands of an item. What is undone here was seen by no one, because nothing is awaited in between. */
  private outcomeOf(item: Item): ItemOutcome {
    const { state } = this.openedTenants.get(item.tenant) as OpenedTenant;
    const mark = isUndoable(item) ? this.changes.mark(state.head) : null;
    const before = state.head.sequence;
    const done: Done[] = [];
    try {
      let entries = 0;
      for (const command of item.commands) {
        const each = this.doneBy(command, item, state);
        if (mark) entries = entriesMustFit(entries, each);
        done.push(each);
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (mark) this.changes.undo(mark);
      if (!item.dryRun && !neverSent(item) && error.reason !== 'unavailable') this.refusedAfterSend.add(item.tenant);
      return mark ? { refusal: error, at: done.length } : { refusal: error };
    }
    if (!mark) return done;
    if (item.dryRun) this.changes.undo(mark);
    else this.changes.keep();
    return item.dryRun ? done.map((each) => asDryRun(each, before)) : done;
  }

  private doneBy(command: ValidatedPosting, item: Item, state: TenantState): Done {
    const key = keyOf(command);
    const used = this.known.used(key);
    if (isHoldCommand(command)) return this.holdDone(command, used, item, state);
    // An unknown original or hold takes precedence over a used key; a transaction that was reversed exists.
    const original = command.kind === 'reversal' ? this.known.originalOf(command) : null;
    const hold = command.kind === 'capture' ? this.known.holdOf(command) : null;
    if (used) return { ...replayOf(item, command, used), ...(hold && { hold: hold.record }) };
    this.checkAllowed(command, item, state);
    const reversal = original && takeReversal(command, original);
    if (hold) mustBePending(hold.record, timeOf(state, this.nowMs));
    this.checkConsistency(command);
    const transaction = hold
      ? this.holds.captured(state, command, hold, this.nowMs)
      : this.changes.post(state, command, reversal, this.nowMs);
    if (reversal) this.changes.set(this.known.decided.reversed, targetOf(command), reversal.rest);
    if (isUndoable(item)) {
      this.changes.set(this.known.keysOfIds, idOf(command), command.idempotencyKey);
      this.changes.set(this.known.decided.reversed, idOf(command), posted(transaction));
    }
    const { transaction: id, fingerprint } = command;
    this.changes.set(this.known.decided.keys, key, { id, fingerprint, sequence: transaction.sequence, transaction });
    return { ...resultOf(transaction, false), ...(hold && { hold: this.known.holdOf(command).record }) };
  }

  /** Does a command that posts nothing. */
  private holdDone(command: ValidatedPosting, used: queries.UsedKey | undefined, item: Item, state: TenantState): Done {
    const nowMs = timeOf(state, this.nowMs);
    const earlier = this.holds.earlier(command, used, item, nowMs);
    if (earlier) return earlier;
    this.checkAllowed(command, item, state);
    if (command.kind === 'void') mustBePending(this.known.holdOf(command).record, nowMs);
    this.checkConsistency(command);
    return command.kind === 'hold' ? this.holds.made(state, command, this.nowMs) : this.holds.ended(state, command, this.nowMs);
  }

  /** Refuses a command of a frozen tenant, one that comes too late, and one whose id was used. */
  private checkAllowed(command: ValidatedPosting, item: Item, state: TenantState): void {
    // The caller may have sent it again meanwhile and got a refusal. Posting it now would contradict that answer.
    if (isAbandoned(item)) throw new Refusal('unavailable', 'the posting was not done in time; a retry with the same key finds out');
    if (state.head.frozen) throw frozenBooks();
    if (command.validUntilMs !== null && timeOf(state, this.nowMs) >= command.validUntilMs) throw tooLate(command.validUntilMs);
    if (this.known.keysOfIds.size > 0 && this.known.keysOfIds.has(idOf(command))) throw idReused(command);
  }

  // Refused before it is written, because a batch that the database rejects is bisected and delays the whole tenant.
  private checkConsistency(command: ValidatedPosting): void {
    const why = this.inconsistencyOf(command);
    if (why !== undefined) throw new Refusal('internal', why);
  }

  private inconsistencyOf(command: ValidatedPosting): string | undefined {
    if (this.inconsistentAccounts.size === 0) return undefined;
    const code = this.known.codesOf(command).find((each) => this.inconsistentAccounts.has(`${command.tenant} ${each}`));
    return code === undefined ? undefined : this.inconsistentAccounts.get(`${command.tenant} ${code}`);
  }

  /**
   * Limits an optimistic write to the time for which every caller waits. A caller that stopped waiting may have sent its posting again and
   * got a refusal. Call it right after the clock is set.
   */
  setDeadline(): void {
    const left = Math.min(...this.items.map(({ expires }) => expires)) - performance.now();
    this.deadlineMs = this.nowMs + Math.max(left, minCallMs);
  }

  /** Writes what was decided if no head has moved since, as a transaction of its own. Returns the database's clock. */
  write(client: Client): Promise<number> {
    const moved = this.moved();
    const movedHeads = moved.map(({ state, from }) => ({ head: state.head, from }));
    const unmovedHeads = [...this.openedTenants.values()].filter((each) => !hasMoved(each)).map(({ from }) => from);
    return write(client, { ...this.rows(moved), deadlineMs: this.deadlineMs, unmovedHeads, movedHeads });
  }

  /** Writes what was decided in the caller's transaction, which has locked the heads. */
  writeLocked(client: Client): Promise<unknown>[] {
    const { ambiguousTenants } = this;
    for (const tenant of ambiguousTenants) (this.openedTenants.get(tenant) as OpenedTenant).state.head.rebuilt += 1n;
    const moved = this.moved();
    return [
      ...(ambiguousTenants.length > 0 ? [fenceHeads(client, ambiguousTenants)] : []),
      ...writeLocked(
        client,
        moved.map(({ state }) => state.head),
        this.rows(moved),
        this.changes.newAccounts,
      ),
    ];
  }

  /** Tenants whose heads move, ascending. */
  private moved(): OpenedTenant[] {
    return [...this.openedTenants.values()].filter(hasMoved).sort((a, b) => (a.from.tenant < b.from.tenant ? -1 : 1));
  }

  private rows(moved: OpenedTenant[]): BatchRows {
    this.writtenTenants = moved.map(({ from }) => from.tenant);
    this.activatedCursors = this.writtenTenants.filter((tenant) => this.cursors.isInactive(tenant, this.nowMs));
    const relayCursors = { tenants: this.activatedCursors, activeUntilMs: activeUntil(this.nowMs) };
    const { log, posted, balances, extras } = this.changes;
    return { tenants: [...this.openedTenants.keys()], relayCursors, log, posted, balances, extras };
  }

  /** Call it after the commit. */
  markCommitted(): void {
    this.cursors.activated(this.activatedCursors, this.nowMs);
  }

  /** As {@link readIdsOfRefused}, for this batch. */
  readIdsOfRefused(client: Client): Promise<void> {
    return readIdsOfRefused(client, this.settled);
  }

  /** After the commit, looks up the keys and ids of refused postings, and decides those anew that an earlier batch has posted. */
  async recheckRefused(client: Client): Promise<void> {
    const refused = this.settled.filter(({ outcome }) => 'refusal' in outcome);
    const startOf = (tenant: string) => this.openedTenants.get(tenant)?.from.sequence ?? 0n;
    const keys = await queries.usedKeys(client, commandsOf(refused.map(({ item }) => item)));
    // The first 36 characters are the tenant.
    const used = new Map([...keys].filter(([key, { sequence }]) => sequence <= startOf(key.slice(0, 36))));
    await queries.readReplays(client, used);
    // Only after the reads, because a batch that starts meanwhile relies on `keys`.
    for (const [key, row] of used) this.known.decided.keys.set(key, row);
    for (const settled of refused) {
      if (settled.item.commands.every((command) => used.has(keyOf(command)))) settled.outcome = this.outcomeOf(settled.item);
    }
    await this.readIdsOfRefused(client);
  }
}

function hasMoved({ state, from }: OpenedTenant): boolean {
  return state.head.sequence !== from.sequence;
}

// The clock may be an estimate behind that of another replica, whose events the batch follows.
function timeOf({ head }: TenantState, nowMs: number): number {
  return Math.max(nowMs, head.lastMs);
}
