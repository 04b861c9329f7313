// One SQL transaction of the writer: what it reads, what the rules decide item by item, what it writes.
import type { PostingResult, Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { allSettledOrThrow, type Client } from '../platform/postgres.ts';
import { Refusal, type Reason } from './accounting.ts';
import type { TenantState } from './account-cache.ts';
import { Changes } from './changes.ts';
import { insertAccounts } from './chart.ts';
import { readClock, fenceHeads, type Head } from './log.ts';
import { activeUntil, type ActiveCursors } from './outbox/active-cursors.ts';
import { isAbandoned, neverSent, type Item, type Outcome } from './queue.ts';
import { transactionsBySequence } from './reads.ts';
import * as store from './writer-queries.ts';
import { suspenseCode } from './templates.ts';
import type { ValidatedPosting } from './mapping.ts';
import { moveHeads, write } from './write.ts';

/**
 * So long at least a call may take to the database, milliseconds, however soon its callers give up: what comes later is decided again under locks,
 * which costs all tenants of the batch.
 */
const leastLateMs = 1_000;

/** Refusals that come before the look at what a transaction's id was used for: what does not exist, and what a key was used for. */
const firstOf: Reason[] = ['transaction_not_found', 'idempotency_key_reused'];

/** What a change that only moves heads leaves out. */
const nothingElse = { opened: { tenants: [], untilMs: 0 }, log: [], posted: [], balances: [] };

/** A tenant's books and where its log stood when the batch began. */
interface OpenedTenant {
  books: TenantState;
  from: Head;
}

/**
 * A batch: items, the books of their tenants, and what was decided, which is written on the condition that the heads stand where these books
 * have them. The caller begins and commits. The books given to a batch are changed by it: when its transaction fails they are void.
 */
export class Batch {
  readonly items: Item[];
  /** Tenants (UUIDs) of the items, ascending. */
  readonly tenants: string[];
  readonly settled: { item: Item; outcome: Outcome }[] = [];
  /** Tenants (UUIDs) whose logs were written to. */
  written: string[] = [];
  private readonly cursors: ActiveCursors;
  private activated: string[] = [];
  private readonly states = new Map<string, OpenedTenant>();
  /** By tenant and key. */
  readonly keys = new Map<string, store.UsedKey>();
  private readonly before: readonly ReadonlyMap<string, store.UsedKey>[];
  private readonly originals = new Map<string, store.Original>();
  /** Accounts whose balances are not what their entries left, by tenant and code: nothing is posted to them, and they are read again each time. */
  private readonly inconsistent = new Map<string, string>();
  private readonly changes = new Changes();
  /** Tenants (UUIDs) of which something was refused that an earlier call may have been sent with. */
  private readonly refusedAgain = new Set<string>();
  /** The database's clock, milliseconds since the Unix epoch; set before anything is decided. */
  nowMs = 0;
  /** When it is too late to write by that clock; never, for who holds the heads. */
  untilMs = Infinity;

  /** `before`: keys of batches whose commits may not be visible yet to what this one reads. */
  constructor(items: Item[], cursors: ActiveCursors, before: readonly ReadonlyMap<string, store.UsedKey>[] = []) {
    this.items = items;
    this.tenants = [...new Set(items.map(({ posting }) => posting.tenant))].sort();
    this.cursors = cursors;
    this.before = before;
  }

  /** Gives the batch a tenant's books; items of tenants without are not decided. */
  open(books: TenantState): void {
    this.states.set(books.head.tenant, { books, from: { ...books.head } });
  }

  /** The books of all tenants, ascending by tenant. */
  get books(): TenantState[] {
    return [...this.states].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { books }]) => books);
  }

  /** Tenants (UUIDs) whose logs have grown. */
  get movedTenants(): string[] {
    return [...this.states].filter(([, { books, from }]) => books.head.sequence !== from.sequence).map(([tenant]) => tenant);
  }

  /**
   * Tenants (UUIDs) of which something was refused that an earlier call may have been sent with, whose heads stand: if it reaches the database late,
   * it finds them where it needs them, and posts what was refused where others that it was sent with allow it.
   */
  get ambiguous(): string[] {
    if (this.refusedAgain.size === 0) return [];
    const moved = new Set(this.movedTenants);
    return [...this.refusedAgain].filter((tenant) => !moved.has(tenant));
  }

  /** Accounts that come into being with the batch. */
  get made(): Changes['newAccounts'] {
    return this.changes.newAccounts;
  }

  /** Whether everything that the rules need is at hand, but for the keys that were used. */
  get complete(): boolean {
    return this.items.every(({ posting, uncertain }) => {
      if (posting.reverses || posting.retry || uncertain) return false;
      const accounts = this.states.get(posting.tenant)?.books.accounts;
      return accounts !== undefined && this.codesOf(posting).every((code) => accounts.has(code));
    });
  }

  /**
   * Asks for the clock, the used keys and what is to be reversed; in statements after those that lock, because one that waited for a lock
   * would still read what it saw before. To be sent together with `begin`; then `readOn`.
   */
  read(client: Client): Promise<void> {
    const orders = this.items.map(({ posting }) => posting);
    return allSettledOrThrow([
      client.query<{ now_ms: number }>(readClock),
      store.usedKeys(client, orders),
      store.originalsOf(
        client,
        orders.filter((order) => order.reverses),
      ),
    ]).then(([time, keys, originals]) => {
      this.nowMs = (time.rows[0] as { now_ms: number }).now_ms;
      for (const row of keys) this.keys.set(`${row.tenant_id} ${row.idempotency_key}`, row);
      for (const row of originals) this.originals.set(`${row.tenant_id} ${row.id}`, row);
    });
  }

  /** Reads the accounts that the books lack and the records of replays; most batches need no round trip for it. */
  async readOn(client: Client): Promise<void> {
    await Promise.all([this.openAccounts(client), readReplays(client, this.repeated(this.keys))]);
  }

  /** Of used keys those that an order repeats: who uses one for another request is refused, whatever it was. */
  private repeated(keys: ReadonlyMap<string, store.UsedKey>): Map<string, store.UsedKey> {
    const found = new Map<string, store.UsedKey>();
    for (const { posting } of this.items) {
      const place = `${posting.tenant} ${posting.idempotencyKey}`;
      const known = keys.get(place);
      if (known?.fingerprint.equals(posting.fingerprint)) found.set(place, known);
    }
    return found;
  }

  private async openAccounts(client: Client): Promise<void> {
    const wanted = new Map<string, [tenant: string, code: string]>();
    for (const { posting } of this.items) {
      const state = this.states.get(posting.tenant);
      if (!state) continue;
      for (const code of this.codesOf(posting)) {
        if (!state.books.accounts.has(code)) wanted.set(`${posting.tenant} ${code}`, [posting.tenant, code]);
      }
    }
    if (wanted.size === 0) return;
    for (const found of await store.readAccounts(client, [...wanted.values()])) {
      const { tenant, code, state, differences } = found;
      if (differences.length === 0) this.states.get(tenant)?.books.accounts.set(code, state);
      else this.inconsistent.set(`${tenant} ${code}`, store.whyInconsistent(found));
    }
  }

  private codesOf(order: ValidatedPosting): string[] {
    const original = order.reverses && this.originals.get(`${order.tenant} ${order.reverses.uuid}`);
    if (original) return store.eventOfOriginal(original)?.entries.map((entry) => entry.accountCode) ?? [];
    const codes = order.entries.map((entry) => entry.code);
    return order.kind === 'single' ? [...codes, suspenseCode(order.entries[0]?.currency ?? '')] : codes;
  }

  /** The rules, item by item. */
  decide(): void {
    for (const item of this.items) {
      if (this.states.has(item.posting.tenant)) this.settled.push({ item, outcome: this.outcomeOf(item) });
    }
  }

  /** Lets no earlier call post for the tenants that are contested, whose heads the caller holds; to be sent before `write`. */
  fence(client: Client): Promise<void>[] {
    const { ambiguous } = this;
    for (const tenant of ambiguous) {
      const { books, from } = this.states.get(tenant) as OpenedTenant;
      books.head.rebuilt += 1n;
      from.rebuilt += 1n;
    }
    return ambiguous.length === 0 ? [] : [fenceHeads(client, ambiguous)];
  }

  /**
   * Lets what is written without holding the heads do so only while somebody waits for each of its items: who was told that the outcome is not known
   * may have asked again since, and been refused for what comes before this in its batch. To be called when the clock has just been set.
   */
  expire(): void {
    const left = Math.min(...this.items.map(({ expires }) => expires)) - performance.now();
    this.untilMs = this.nowMs + Math.max(left, leastLateMs);
  }

  /**
   * Sends everything that was decided; the last answer is the database's clock. It is a transaction of its own where the caller has not begun one,
   * unless accounts were `made`. `holds`: he has begun one, which holds the heads.
   */
  write(client: Client, { holds = false } = {}): Promise<unknown>[] {
    const heads = [...this.states.values()].map(({ books, from }) => ({ head: books.head, from }));
    const { true: moved = [], false: standing = [] } = Object.groupBy(heads, ({ head, from }) => `${head.sequence !== from.sequence}`);
    moved.sort((a, b) => (a.head.tenant < b.head.tenant ? -1 : 1));
    const heads_ = moved.map(({ head }) => head);
    this.written = heads_.map(({ tenant }) => tenant);
    this.activated = this.written.filter((tenant) => this.cursors.isInactive(tenant, this.nowMs));
    const opened = { tenants: this.activated, untilMs: activeUntil(this.nowMs) };
    const { tenants, untilMs, made } = this;
    const { log, posted, balances } = this.changes;
    const places = { tenants, untilMs, unmovedHeads: standing.map(({ from }) => from), movedHeads: moved };
    const change = { opened, log, posted, balances };
    if (made.length === 0 && !holds) return [write(client, { ...places, ...change })];
    // Balances refer to accounts by foreign key, and nothing comes before the heads.
    return [
      holds ? moveHeads(client, heads_) : write(client, { ...places, ...nothingElse }),
      ...(made.length > 0 ? [insertAccounts(client, made)] : []),
      write(client, { tenants, untilMs: Infinity, unmovedHeads: [], movedHeads: [], ...change }),
    ];
  }

  /** To be called after the commit. */
  committed(): void {
    this.cursors.activated(this.activated, this.nowMs);
  }

  // Of a key that was met with another request alone nobody has read the transaction: whoever repeats it meets it again in the database.
  private knownBefore(place: string, { fingerprint }: ValidatedPosting): store.UsedKey | undefined {
    const known = this.before.find((keys) => keys.has(place))?.get(place);
    return known?.transaction || !known?.fingerprint.equals(fingerprint) ? known : undefined;
  }

  private outcomeOf(item: Item): Outcome {
    const { posting } = item;
    const place = `${posting.tenant} ${posting.idempotencyKey}`;
    const known = this.keys.get(place) ?? this.knownBefore(place, posting);
    try {
      // What does not exist is said before what its key was used for; whatever was reversed exists.
      const original = posting.reverses ? this.originalOf(posting) : null;
      if (known) return this.replayOf(item, known);
      // It has not been posted. Whoever waited for it may have asked again since, and been refused for what comes before it in its batch. A call with
      // it that was sent on a connection given up since comes too late now, unless the caller gave it less than a call may take.
      if (isAbandoned(item)) throw new Refusal('unavailable', 'the posting was not done in time; a retry with the same key finds out');
      this.mustBeWhole(posting);
      const { books } = this.states.get(posting.tenant) as OpenedTenant;
      const transaction = this.changes.post(books, posting, original, this.nowMs);
      this.keys.set(place, { id: posting.transaction, fingerprint: posting.fingerprint, sequence: transaction.sequence, transaction });
      return resultOf(transaction, false);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!neverSent(item) && error.reason !== 'unavailable') this.refusedAgain.add(posting.tenant);
      return { refusal: error };
    }
  }

  // Known before anything is decided, so that nothing of the batch is undone: halved until the order was alone, five of them a second had all other
  // accounts of a tenant wait for seconds.
  private mustBeWhole(order: ValidatedPosting): void {
    if (this.inconsistent.size === 0) return;
    for (const code of this.codesOf(order)) {
      const why = this.inconsistent.get(`${order.tenant} ${code}`);
      if (why !== undefined) throw new Refusal('internal', why);
    }
  }

  /** Whether something was refused: its key or its transaction's id may have been used, which is told first, as no rule refuses a repetition. */
  get hasRefusals(): boolean {
    return this.settled.some(({ outcome }) => 'refusal' in outcome);
  }

  /**
   * Reads the ids of what the rules have refused: one that was posted under another key is told as it is where the rules allow the posting, or its
   * caller would take it for not posted. To be sent behind `write`, so that what the batch has posted is found, too.
   */
  async readIdsOfRefused(client: Client): Promise<void> {
    const refused = this.settled.filter(({ outcome }) => 'refusal' in outcome && !firstOf.includes(outcome.refusal.reason));
    if (refused.length === 0) return;
    const orders = refused.map(({ item }) => item.posting);
    const keys = await store.keysOfIds(client, orders);
    for (const settled of refused) {
      const { posting } = settled.item;
      const key = keys.get(`${posting.tenant} ${posting.transaction}`);
      if (key !== undefined && key !== posting.idempotencyKey) settled.outcome = { refusal: idReused(posting) };
    }
  }

  /** Reads the keys of what was refused and decides it anew where one was used before this batch; to be called after the commit. */
  async readKeysOfRefused(client: Client): Promise<void> {
    const refused = this.settled.filter(({ outcome }) => 'refusal' in outcome);
    const orders = refused.map(({ item }) => item.posting);
    const used = new Map<string, store.UsedKey>();
    for (const row of await store.usedKeys(client, orders)) {
      const from = this.states.get(row.tenant_id)?.from.sequence ?? 0n;
      if (row.sequence <= from) used.set(`${row.tenant_id} ${row.idempotency_key}`, row);
    }
    await readReplays(client, this.repeated(used));
    // Not before: a batch that is begun meanwhile goes by these.
    for (const [place, key] of used) this.keys.set(place, key);
    for (const settled of refused) {
      const { posting } = settled.item;
      const known = this.keys.get(`${posting.tenant} ${posting.idempotencyKey}`);
      if (known && known.sequence <= (this.states.get(posting.tenant)?.from.sequence ?? 0n)) settled.outcome = this.outcomeOf(settled.item);
    }
  }

  private replayOf(item: Item, known: store.UsedKey): Outcome {
    const { posting, uncertain } = item;
    if (!known.fingerprint.equals(posting.fingerprint)) throw keyReused(posting);
    const { transaction } = known;
    if (!transaction) throw new Error(`transaction ${known.id} has no event`);
    const own = known.id === posting.transaction && (posting.retry || uncertain);
    // Whoever waits no more may have sent it elsewhere, and it was posted there.
    return { ...resultOf(transaction, !own), found: own && (posting.retry || isAbandoned(item)) };
  }

  private originalOf({ tenant, reverses }: ValidatedPosting): store.Original {
    const original = this.originals.get(`${tenant} ${reverses?.uuid}`);
    if (!original) throw new Refusal('transaction_not_found', 'transaction not found');
    return original;
  }
}

function resultOf(transaction: Transaction, replayed: boolean): { result: PostingResult } {
  return { result: { $typeName: 'ledger.v1.PostingResult', outcome: { case: 'transaction', value: transaction }, replayed } };
}

function keyReused(order: ValidatedPosting): Refusal {
  const blame = { field: 'idempotency_key', tag: 'idempotency_key_reused', value: order.idempotencyKey };
  return new Refusal('idempotency_key_reused', 'this idempotency key was used for another request', blame);
}

/** The refusal of a posting whose transaction's id was posted under another key. */
export function idReused(order: ValidatedPosting): Refusal {
  const blame = { field: order.reverses ? 'reversal_id' : 'transaction_id', tag: 'idempotency_key_reused', value: order.transactionId };
  return new Refusal('idempotency_key_reused', 'this transaction id was used under another key', blame);
}

/** The refusal of a posting to a tenant that has no books. */
export function unknownTenant(order: ValidatedPosting): Refusal {
  if (order.reverses) return new Refusal('transaction_not_found', 'transaction not found');
  const code = order.entries[0]?.code ?? '';
  const field = order.kind === 'single' ? 'account_code' : 'entries[0].account_code';
  return new Refusal('account_not_found', `account ${code} not found`, { field, tag: 'account_not_found', value: code });
}

/** Reads the transactions that keys which were used before stand for; `keys` is by tenant and key. */
async function readReplays(client: Client, keys: ReadonlyMap<string, store.UsedKey>): Promise<void> {
  const used = [...keys].filter(([, { transaction }]) => !transaction);
  for (const [tenant, replays] of Map.groupBy(used, ([place]) => place.slice(0, place.indexOf(' ')))) {
    const sequences = replays.map(([, { sequence }]) => sequence);
    const found = new Map((await transactionsBySequence(client, tenant, sequences)).map((each) => [each.sequence, each]));
    for (const [, key] of replays) {
      const transaction = found.get(key.sequence);
      if (transaction) key.transaction = transaction;
    }
  }
}
