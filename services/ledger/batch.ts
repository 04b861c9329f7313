// One batch of the writer: what it reads, what the rules decide item by item, and what it writes in one SQL transaction.
import type { PostingResult, Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import type { TenantState } from './account-cache.ts';
import { Refusal, type Reason } from './accounting.ts';
import { Changes } from './changes.ts';
import { insertAccounts } from './chart.ts';
import { differingFields } from './fingerprint.ts';
import { fenceHeads, readClock, type Head } from './log.ts';
import type { ValidatedPosting } from './mapping.ts';
import { activeUntil, type ActiveCursors } from './outbox/active-cursors.ts';
import { isAbandoned, neverSent, type Item, type Outcome } from './queue.ts';
import { transactionsBySequence } from './reads.ts';
import { suspenseCode } from './templates.ts';
import { moveHeads, write } from './write.ts';
import * as queries from './writer-queries.ts';

/** Time a call to the database gets at least, milliseconds: a call that comes too late is decided again on the locking path. */
const minCallMs = 1_000;

/** Refusals that take precedence over what a transaction's id was used for. */
const beforeIds: Reason[] = ['transaction_not_found', 'idempotency_key_reused'];

/** A change that only moves heads. */
const noRows = { opened: { tenants: [], untilMs: 0 }, log: [], posted: [], balances: [] };

/** A tenant's state, changed by the batch, and its head before. */
interface OpenedTenant {
  state: TenantState;
  from: Head;
}

/**
 * Items, the state of their tenants, and what was decided. It is written on condition that the heads are still as in that state. The
 * caller begins and commits. The states given to a batch are changed by it: when its transaction fails they are void.
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
  private readonly refusedAgain = new Set<string>();

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
  get ambiguous(): string[] {
    return [...this.refusedAgain].filter((tenant) => {
      const { state, from } = this.opened.get(tenant) as OpenedTenant;
      return state.head.sequence === from.sequence;
    });
  }

  get newAccounts(): Changes['newAccounts'] {
    return this.changes.newAccounts;
  }

  /** Whether nothing has to be read before the rules can decide, used keys aside. */
  get isComplete(): boolean {
    return this.items.every(({ posting, uncertain }) => {
      if (posting.reverses || posting.retry || uncertain) return false;
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
   * statement that waited for a lock still sees what it saw before. Send it together with `begin`, then call `readOn`.
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
  async readOn(client: Client): Promise<void> {
    await Promise.all([this.readAccounts(client), readReplays(client, this.keys)]);
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
      this.checkConsistency(posting);
      const { state } = this.opened.get(posting.tenant) as OpenedTenant;
      const transaction = this.changes.post(state, posting, original, this.nowMs);
      this.keys.set(key, { id: posting.transaction, fingerprint: posting.fingerprint, sequence: transaction.sequence, transaction });
      return resultOf(transaction, false);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!neverSent(item) && error.reason !== 'unavailable') this.refusedAgain.add(posting.tenant);
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

  /** Keeps earlier calls from posting for ambiguous tenants, whose heads the caller has locked. Send it before `write`. */
  fence(client: Client): Promise<void>[] {
    const { ambiguous } = this;
    for (const tenant of ambiguous) {
      const { state, from } = this.opened.get(tenant) as OpenedTenant;
      state.head.rebuilt += 1n;
      from.rebuilt += 1n;
    }
    return ambiguous.length === 0 ? [] : [fenceHeads(client, ambiguous)];
  }

  /**
   * Limits a write without locked heads to the time in which every item's caller waits: a caller that got an unknown outcome may have
   * repeated its posting and been refused. Call it when the clock has just been set.
   */
  expire(): void {
    const left = Math.min(...this.items.map(({ expires }) => expires)) - performance.now();
    this.untilMs = this.nowMs + Math.max(left, minCallMs);
  }

  /**
   * Sends everything that was decided; the last answer is the database's clock. It is a transaction of its own unless the caller has begun
   * one, which it must where there are `newAccounts`. `locked`: the caller's transaction has locked the heads.
   */
  write(client: Client, { locked = false } = {}): Promise<unknown>[] {
    const heads = [...this.opened.values()].map(({ state, from }) => ({ head: state.head, from }));
    const { moved = [], unmoved = [] } = Object.groupBy(heads, ({ head, from }) => (head.sequence === from.sequence ? 'unmoved' : 'moved'));
    const movedHeads = moved.sort((a, b) => (a.head.tenant < b.head.tenant ? -1 : 1));
    const unmovedHeads = unmoved.map(({ from }) => from);
    this.written = movedHeads.map(({ head }) => head.tenant);
    this.activated = this.written.filter((tenant) => this.cursors.isInactive(tenant, this.nowMs));
    const { tenants, untilMs, newAccounts } = this;
    const { log, posted, balances } = this.changes;
    const positions = { tenants, untilMs, unmovedHeads, movedHeads };
    const rows = { opened: { tenants: this.activated, untilMs: activeUntil(this.nowMs) }, log, posted, balances };
    if (newAccounts.length === 0 && !locked) return [write(client, { ...positions, ...rows })];
    const newHeads = movedHeads.map(({ head }) => head);
    // Heads first, because they are the lock; then accounts, to which balances refer by foreign key.
    return [
      locked ? moveHeads(client, newHeads) : write(client, { ...positions, ...noRows }),
      ...(newAccounts.length > 0 ? [insertAccounts(client, newAccounts)] : []),
      write(client, { tenants, untilMs: Infinity, unmovedHeads: [], movedHeads: [], ...rows }),
    ];
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

  /** Reads the keys of refused postings and decides those anew whose key was used before this batch. Call it after the commit. */
  async readKeysOfRefused(client: Client): Promise<void> {
    const refused = this.settled.filter(({ outcome }) => 'refusal' in outcome);
    const startOf = (tenant: string) => this.opened.get(tenant)?.from.sequence ?? 0n;
    const rows = await queries.usedKeys(
      client,
      refused.map(({ item }) => item.posting),
    );
    const before = rows.filter((row) => row.sequence <= startOf(row.tenant_id));
    const used = new Map<string, queries.UsedKey>(before.map((row) => [`${row.tenant_id} ${row.idempotency_key}`, row]));
    await readReplays(client, used);
    // Only now, because a batch that is begun meanwhile goes by these.
    for (const [key, row] of used) this.keys.set(key, row);
    for (const settled of refused) {
      const { posting } = settled.item;
      const known = this.keys.get(keyOf(posting));
      if (known && known.sequence <= startOf(posting.tenant)) settled.outcome = this.outcomeOf(settled.item);
    }
  }
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

function keyReused(posting: ValidatedPosting, transaction: Transaction): Refusal {
  const fields = differingFields(posting, transaction);
  const details = { transaction_id: transaction.transactionId, fields: fields.join() };
  const message = `this idempotency key was used for another request, which differs in ${fields.join(', ')}`;
  const blame = { field: 'idempotency_key', tag: 'idempotency_key_reused', value: posting.idempotencyKey, details };
  return new Refusal('idempotency_key_reused', message, blame);
}

/** The refusal of a posting whose transaction id was posted under another key. */
export function idReused(posting: ValidatedPosting): Refusal {
  const { transactionId } = posting;
  const field = posting.reverses ? 'reversal_id' : 'transaction_id';
  const details = { transaction_id: transactionId, fields: 'idempotency_key' };
  const blame = { field, tag: 'idempotency_key_reused', value: transactionId, details };
  return new Refusal('idempotency_key_reused', 'this transaction id was used under another key', blame);
}

/** The refusal of a posting to a tenant without a log: none of its accounts or transactions exist. */
export function unknownTenant(posting: ValidatedPosting): Refusal {
  if (posting.reverses) return new Refusal('transaction_not_found', 'transaction not found');
  const code = posting.entries[0]?.code ?? '';
  const field = posting.kind === 'single' ? 'account_code' : 'entries[0].account_code';
  return new Refusal('account_not_found', `account ${code} not found`, { field, tag: 'account_not_found', value: code });
}

/** Reads the transactions that used keys stand for; `keys` is by tenant and key. */
async function readReplays(client: Client, keys: ReadonlyMap<string, queries.UsedKey>): Promise<void> {
  const unread = [...keys].filter(([, { transaction }]) => !transaction);
  for (const [tenant, replays] of Map.groupBy(unread, ([key]) => key.slice(0, key.indexOf(' ')))) {
    const sequences = replays.map(([, { sequence }]) => sequence);
    const found = new Map((await transactionsBySequence(client, tenant, sequences)).map((each) => [each.sequence, each]));
    for (const [, key] of replays) {
      const transaction = found.get(key.sequence);
      if (transaction) key.transaction = transaction;
    }
  }
}
