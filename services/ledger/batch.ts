// One batch of the writer: what it reads, what the rules decide item by item, and what it writes in one SQL transaction.
import type { PostingResult, Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import type { TenantState } from './account-cache.ts';
import { Refusal, type Reason } from './accounting.ts';
import { Changes } from './changes.ts';
import { idReused, keyReused } from './fingerprint.ts';
import { fenceHeads, readClock, type Head } from './log.ts';
import type { ValidatedPosting } from './mapping.ts';
import { activeUntil, type ActiveCursors } from './outbox/active-cursors.ts';
import { isAbandoned, neverSent, type Item, type Outcome } from './queue.ts';
import { suspenseCode } from './templates.ts';
import { write, writeLocked, type BatchRows } from './write.ts';
import * as queries from './writer-queries.ts';

/** Time a call to the database gets at least, milliseconds: a call that comes too late is decided again on the locking path. */
const minCallMs = 1_000;

/** Refusals that take precedence over what a transaction's id was used for. */
const beforeIds: Reason[] = ['transaction_not_found', 'idempotency_key_reused'];

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
  /** Tenants (UUIDs) of the items, ascending. */
  readonly tenants: string[];
  readonly settled: { item: Item; outcome: Outcome }[] = [];
  /** Used keys, by tenant and key. */
  readonly keys = new Map<string, queries.UsedKey>();
  /** Tenants (UUIDs) whose logs were written to. */
  written: string[] = [];
  /** The database's clock, milliseconds since the Unix epoch; set before anything is decided. */
  nowMs = 0;
  /** By that clock, when it is too late to write; no limit where the heads are locked. */
  private untilMs = Infinity;
  private readonly cursors: ActiveCursors;
  private activated: string[] = [];
  private readonly opened = new Map<string, OpenedTenant>();
  private readonly pendingKeys: readonly ReadonlyMap<string, queries.UsedKey>[];
  private readonly originals = new Map<string, queries.Original>();
  /** By tenant and code: accounts whose balances differ from their entries, and how. Nothing is posted to them. */
  private readonly inconsistent = new Map<string, string>();
  private readonly changes = new Changes();
  /** Tenants (UUIDs) of refused items that an earlier call may have been sent with. */
  private readonly refusedAfterSend = new Set<string>();

  /** `pendingKeys`: keys of batches whose commits may not be visible yet to what this one reads. */
  constructor(items: Item[], cursors: ActiveCursors, pendingKeys: readonly ReadonlyMap<string, queries.UsedKey>[] = []) {
    this.items = items;
    this.tenants = [...new Set(items.map(({ posting }) => posting.tenant))].sort();
    this.cursors = cursors;
    this.pendingKeys = pendingKeys;
  }

  /** Adds a tenant's state; items of tenants without are not decided. */
  addState(state: TenantState): void {
    this.opened.set(state.head.tenant, { state, from: { ...state.head } });
  }

  get states(): TenantState[] {
    return [...this.opened.values()].map(({ state }) => state);
  }

  /**
   * Tenants (UUIDs) whose heads do not move, of which something was refused that an earlier call may have been sent with. If that call
   * reaches the database late it still finds the head it needs, and would post what was refused.
   */
  private get ambiguous(): string[] {
    return [...this.refusedAfterSend].filter((tenant) => !hasMoved(this.opened.get(tenant) as OpenedTenant));
  }

  /** Why only the locking path can write what was decided, or null. */
  get needsLock(): string | null {
    if (this.changes.newAccounts.length > 0) return 'accounts are created under the lock';
    return this.ambiguous.length > 0 ? 'a refused posting may be on its way' : null;
  }

  /** Whether nothing has to be read before the rules can decide, used keys aside. */
  get isComplete(): boolean {
    return this.items.every(({ posting, uncertain }) => {
      if (posting.reverses || posting.dryRun || posting.retry || uncertain) return false;
      const accounts = this.opened.get(posting.tenant)?.state.accounts;
      return accounts !== undefined && this.codesOf(posting).every((code) => accounts.has(code));
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
    const postings = this.items.map(({ posting }) => posting);
    const reversals = postings.filter((posting) => posting.reverses);
    const [time, keys, originals] = await allSettledOrThrow([
      client.query<{ now_ms: number }>(readClock),
      queries.usedKeys(client, postings),
      queries.originalsOf(client, reversals),
    ]);
    this.nowMs = (time.rows[0] as { now_ms: number }).now_ms;
    for (const row of keys) this.keys.set(`${row.tenant_id} ${row.idempotency_key}`, row);
    for (const row of originals) this.originals.set(`${row.tenant_id} ${row.id}`, row);
  }

  /** Reads accounts that are not cached and the transactions of repeated keys; for most batches nothing. */
  async readMissing(client: Client): Promise<void> {
    await Promise.all([this.readAccounts(client), queries.readReplays(client, this.keys)]);
  }

  private async readAccounts(client: Client): Promise<void> {
    const wanted = new Map<string, [tenant: string, code: string]>();
    for (const { posting } of this.items) {
      const accounts = this.opened.get(posting.tenant)?.state.accounts;
      if (!accounts) continue;
      for (const code of this.codesOf(posting)) {
        if (!accounts.has(code)) wanted.set(`${posting.tenant} ${code}`, [posting.tenant, code]);
      }
    }
    if (wanted.size === 0) return;
    for (const found of await queries.readAccounts(client, [...wanted.values()])) {
      const { tenant, code, state, differences } = found;
      if (differences.length === 0) this.opened.get(tenant)?.state.accounts.set(code, state);
      else this.inconsistent.set(`${tenant} ${code}`, queries.whyInconsistent(found));
    }
  }

  private codesOf(posting: ValidatedPosting): string[] {
    const original = posting.reverses && this.originals.get(`${posting.tenant} ${posting.reverses.uuid}`);
    if (original) return queries.eventOfOriginal(original)?.entries.map((entry) => entry.accountCode) ?? [];
    const codes = posting.entries.map((entry) => entry.code);
    if (posting.require) codes.push(...posting.require.map(({ code }) => code));
    return posting.kind === 'single' ? [...codes, suspenseCode(posting.entries[0]?.currency ?? '')] : codes;
  }

  /** Applies the rules, item by item. */
  decide(): void {
    for (const item of this.items) {
      if (this.opened.has(item.posting.tenant)) this.settled.push({ item, outcome: this.outcomeOf(item) });
    }
  }

  private outcomeOf(item: Item): Outcome {
    const { posting } = item;
    const key = keyOf(posting);
    const used = this.keys.get(key) ?? this.usedByPending(key);
    try {
      // An unknown original takes precedence over a used key; a transaction that was reversed exists.
      const original = posting.reverses ? this.originalOf(posting) : null;
      if (used) return replayOf(item, used);
      // The caller may have repeated it since and been refused for what then came before it, so posting it now would contradict.
      if (isAbandoned(item)) throw new Refusal('unavailable', 'the posting was not done in time; a retry with the same key finds out');
      if (posting.validUntilMs !== null && this.nowMs >= posting.validUntilMs) throw tooLate(posting.validUntilMs);
      this.checkConsistency(posting);
      const { state } = this.opened.get(posting.tenant) as OpenedTenant;
      const transaction = this.changes.post(state, posting, original, this.nowMs);
      if (!posting.dryRun)
        this.keys.set(key, { id: posting.transaction, fingerprint: posting.fingerprint, sequence: transaction.sequence, transaction });
      return resultOf(transaction, false);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!neverSent(item) && error.reason !== 'unavailable') this.refusedAfterSend.add(posting.tenant);
      return { refusal: error };
    }
  }

  /** A pending key's transaction may not have been read; then the posting meets the unique index and takes the locking path. */
  private usedByPending(key: string): queries.UsedKey | undefined {
    const used = this.pendingKeys.find((keys) => keys.has(key))?.get(key);
    return used?.transaction && used;
  }

  private originalOf({ tenant, reverses }: ValidatedPosting): queries.Original {
    const original = this.originals.get(`${tenant} ${reverses?.uuid}`);
    if (!original) throw new Refusal('transaction_not_found', 'transaction not found');
    return original;
  }

  // Refused before it is written, because a batch that the database rejects is bisected and delays the whole tenant.
  private checkConsistency(posting: ValidatedPosting): void {
    if (this.inconsistent.size === 0) return;
    for (const code of this.codesOf(posting)) {
      const why = this.inconsistent.get(`${posting.tenant} ${code}`);
      if (why !== undefined) throw new Refusal('internal', why);
    }
  }

  /**
   * Limits a write without locked heads to the time in which every item's caller waits: a caller that got an unknown outcome may have
   * repeated its posting and been refused. Call it when the clock has just been set.
   */
  expire(): void {
    const left = Math.min(...this.items.map(({ expires }) => expires)) - performance.now();
    this.untilMs = this.nowMs + Math.max(left, minCallMs);
  }

  /** Writes what was decided if no head has moved since, as a transaction of its own. Returns the database's clock. */
  write(client: Client): Promise<number> {
    const moved = this.moved();
    const movedHeads = moved.map(({ state, from }) => ({ head: state.head, from }));
    const unmovedHeads = [...this.opened.values()].filter((each) => !hasMoved(each)).map(({ from }) => from);
    return write(client, { ...this.rows(moved), untilMs: this.untilMs, unmovedHeads, movedHeads });
  }

  /** Writes what was decided in the caller's transaction, which has locked the heads. */
  writeLocked(client: Client): Promise<unknown>[] {
    const { ambiguous } = this;
    for (const tenant of ambiguous) (this.opened.get(tenant) as OpenedTenant).state.head.rebuilt += 1n;
    const moved = this.moved();
    return [
      ...(ambiguous.length > 0 ? [fenceHeads(client, ambiguous)] : []),
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
    return [...this.opened.values()].filter(hasMoved).sort((a, b) => (a.from.tenant < b.from.tenant ? -1 : 1));
  }

  private rows(moved: OpenedTenant[]): BatchRows {
    this.written = moved.map(({ from }) => from.tenant);
    this.activated = this.written.filter((tenant) => this.cursors.isInactive(tenant, this.nowMs));
    const { log, posted, balances } = this.changes;
    return { tenants: this.tenants, opened: { tenants: this.activated, untilMs: activeUntil(this.nowMs) }, log, posted, balances };
  }

  /** Call it after the commit. */
  committed(): void {
    this.cursors.activated(this.activated, this.nowMs);
  }

  /**
   * Reads the ids of refused postings: one that was posted under another key is refused for that, or the caller would take it for not
   * posted. Send it after `write`, so that it sees what the batch has posted.
   */
  async readIdsOfRefused(client: Client): Promise<void> {
    const refused = this.settled.filter(({ outcome }) => 'refusal' in outcome && !beforeIds.includes(outcome.refusal.reason));
    if (refused.length === 0) return;
    const keys = await queries.keysOfIds(
      client,
      refused.map(({ item }) => item.posting),
    );
    for (const settled of refused) {
      const { posting } = settled.item;
      const key = keys.get(`${posting.tenant} ${posting.transaction}`);
      if (key !== undefined && key !== posting.idempotencyKey) settled.outcome = { refusal: idReused(posting) };
    }
  }

  /** After the commit, looks up what the refused postings' keys and ids were used for, and decides them anew where they were used before. */
  async recheckRefused(client: Client): Promise<void> {
    const refused = this.settled.filter(({ outcome }) => 'refusal' in outcome);
    const startOf = (tenant: string) => this.opened.get(tenant)?.from.sequence ?? 0n;
    const rows = await queries.usedKeys(
      client,
      refused.map(({ item }) => item.posting),
    );
    const before = rows.filter((row) => row.sequence <= startOf(row.tenant_id));
    const used = new Map<string, queries.UsedKey>(before.map((row) => [`${row.tenant_id} ${row.idempotency_key}`, row]));
    await queries.readReplays(client, used);
    // Only now, because a batch that is begun meanwhile goes by these.
    for (const [key, row] of used) this.keys.set(key, row);
    for (const settled of refused) {
      if (used.has(keyOf(settled.item.posting))) settled.outcome = this.outcomeOf(settled.item);
    }
    await this.readIdsOfRefused(client);
  }
}

function hasMoved({ state, from }: OpenedTenant): boolean {
  return state.head.sequence !== from.sequence;
}

function keyOf({ tenant, idempotencyKey }: ValidatedPosting): string {
  return `${tenant} ${idempotencyKey}`;
}

function replayOf(item: Item, used: queries.UsedKey): Outcome {
  const { posting, uncertain } = item;
  const { transaction } = used;
  if (!transaction) throw new Error(`transaction ${used.id} has no event`);
  if (!used.fingerprint.equals(posting.fingerprint)) throw keyReused(posting, transaction);
  const own = used.id === posting.transaction && (posting.retry || uncertain);
  // A caller that no longer waits may have sent it to another replica, which posted it.
  return { ...resultOf(transaction, !own), found: own && (posting.retry || isAbandoned(item)) };
}

function resultOf(transaction: Transaction, replayed: boolean): { result: PostingResult } {
  return { result: { $typeName: 'ledger.v1.PostingResult', outcome: { case: 'transaction', value: transaction }, replayed } };
}

function tooLate(validUntilMs: number): Refusal {
  const value = new Date(validUntilMs).toISOString();
  return new Refusal('too_late', `the posting was valid until ${value}`, { field: 'valid_until', tag: 'too_late', value });
}
