// One SQL transaction of the writer: lock the heads, read what the rules need, decide item by item, write set-based, commit.
import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import type { AccountRecord, ChangedBalanceSchema, PostedEntrySchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { TransactionPostedSchema } from '../../proto/gen/ledger/v1/events_pb.js';
import { PostingResultSchema, type Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId, toUuid } from '../platform/ids.ts';
import { toDecimal, type Currency } from '../platform/money.ts';
import { plainArray, together, type Client, type Pool } from '../platform/postgres.ts';
import { Refusal, net, nothing, opposite, post, type Balance, type Books, type Posted, type Side } from './accounting.ts';
import type { BookedAccount, OpenAccount, Shelf, TenantBooks } from './books.ts';
import { createdEvent, insertAccounts, newSuspenseAccount, nextPlace } from './chart.ts';
import { append, clock, headOf, selectHead, writeLog, type Head, type HeadRow, type LogRow, type NewEvent } from './log.ts';
import { openMarks, type OpenMarks } from './marks.ts';
import type { Item, Outcome } from './queue.ts';
import { transactionsBySequence } from './reads.ts';
import { suspenseCode } from './templates.ts';
import { postedEvent, transactionOf, type Order } from './wire.ts';

/** What became of a batch. Whatever is settled here has been committed, or changed nothing. */
export interface BatchEnd {
  settled: { item: Item; outcome: Outcome }[];
  /** Items of tenants whose head another process holds; only without waiting. */
  held: Item[];
  /** Tenants whose head stood where this process left it. */
  current: string[];
}

/** Who is told what, and what is remembered, between batches. */
export interface Surroundings {
  shelf: Shelf;
  marks: OpenMarks;
  /** Told each tenant (UUID) whose log has grown, after the commit. */
  committed: (tenant: string) => void;
}

/**
 * Posts a batch in one SQL transaction. With `wait` false a tenant whose head another process holds is left out; with true the lock is
 * waited for, which only a batch of one tenant may do: so no transaction waits for one tenant while it holds another.
 * Throws what PostgreSQL answers. Nothing is known to be posted then, and what the shelf said of these tenants is forgotten.
 */
export async function runBatch(pool: Pool, surroundings: Surroundings, items: Item[], wait: boolean): Promise<BatchEnd> {
  const client = await pool.connect();
  let usable = false;
  try {
    const batch = new Batch(client, surroundings, items, wait);
    const end = await batch.run();
    usable = true;
    return end;
  } catch (error) {
    // A refused statement leaves a good connection behind, a lost connection does not.
    if (typeof (error as { severity?: unknown }).severity === 'string') usable = await cleared(client);
    throw error;
  } finally {
    client.release(!usable);
  }
}

async function cleared(client: Client): Promise<boolean> {
  return client.query('rollback').then(
    () => true,
    () => false,
  );
}

// Rows are always found from the wanted side, each by its whole key: `lateral (… offset 0)` keeps the planner from turning the join round,
// which it does while a table is small or not analysed, and keeps doing when it has grown (7 ms for 190 balances; so, 1 ms).

const insertBalances = `insert into balances
    (tenant_id, account_id, currency, debits, credits, pending_debits, pending_credits, version, updated_at)
  select t, a, u, d, c, pd, pc, v, to_timestamp(at / 1000.0)
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::numeric[], $5::numeric[], $6::numeric[], $7::numeric[], $8::bigint[], $9::float8[])
    as new (t, a, u, d, c, pd, pc, v, at)`;

// Optimistic locking: every row must still have the version that was read, which is the new one less the postings between ($10). An insert
// that conflicts goes by the primary key whatever the planner thinks, as an update with a join does not. A row that was inserted after all
// (xmax 0) was not there to be updated.
const updateBalances = `with changed as (
    ${insertBalances}
    on conflict (tenant_id, account_id, currency) do update set
      debits = excluded.debits, credits = excluded.credits, pending_debits = excluded.pending_debits,
      pending_credits = excluded.pending_credits, version = excluded.version, updated_at = excluded.updated_at
    where balances.version = excluded.version - $10
    returning xmax <> 0 as updated)
  select must_change($11, (select count(*) from changed where updated), 'balances')`;

/** Waits for every answer, then throws the error that began it: the statements behind it only say that their transaction is aborted. */
async function all<const Queries extends readonly Promise<unknown>[]>(
  queries: Queries,
): Promise<{ -readonly [Place in keyof Queries]: Awaited<Queries[Place]> }> {
  const answers = await Promise.allSettled(queries);
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as { code?: unknown }] : []));
  if (errors.length > 0) throw (errors.find(({ code }) => code !== '25P02') ?? errors[0]) as Error;
  return answers.map((answer) => (answer as PromiseFulfilledResult<unknown>).value) as {
    -readonly [Place in keyof Queries]: Awaited<Queries[Place]>;
  };
}

interface KnownKey {
  tenant_id: string;
  idempotency_key: string;
  id: string;
  fingerprint: Buffer;
  sequence: bigint;
}

interface Original {
  tenant_id: string;
  id: string;
  payload: Buffer;
  reversed_by: string | null;
}

interface AccountBalanceRow {
  tenant_id: string;
  code: string;
  id: string | null;
  normal_balance: Side;
  currency: string | null;
  is_group: boolean;
  allow_negative: boolean;
  closed: boolean;
  system: boolean;
  held: string | null;
  debits: string | null;
  credits: string | null;
  pending_debits: string | null;
  pending_credits: string | null;
  version: bigint | null;
}

interface Clock {
  now_ms: number;
  xid: string;
}

interface TenantState {
  head: Head;
  from: bigint;
  /** What is remembered was still true. */
  current: boolean;
  books: TenantBooks;
}

interface ChangedBalance {
  tenant: string;
  account: BookedAccount;
  currency: string;
  from: bigint;
  after: Balance;
  atMs: number;
}

class Batch {
  private readonly client: Client;
  private readonly surroundings: Surroundings;
  private readonly shelf: Shelf;
  private readonly items: Item[];
  private readonly wait: boolean;
  private nowMs = 0;
  private xid = '';
  private readonly states = new Map<string, TenantState>();
  /** What is already posted, or decided in this batch, by tenant and idempotency key. */
  private readonly keys = new Map<string, { id: string; fingerprint: Buffer; sequence: bigint; transaction?: Transaction }>();
  private readonly originals = new Map<string, Original>();
  private readonly log: LogRow[] = [];
  private readonly made: { tenant: string; account: AccountRecord }[] = [];
  private readonly posted: { order: Order; row: LogRow; result: Posted }[] = [];
  private readonly changed = new Map<string, ChangedBalance>();
  private readonly settled: BatchEnd['settled'] = [];
  private readonly replays: { item: Item; sequence: bigint; own: boolean }[] = [];

  constructor(client: Client, surroundings: Surroundings, items: Item[], wait: boolean) {
    this.client = client;
    this.surroundings = surroundings;
    this.shelf = surroundings.shelf;
    this.items = items;
    this.wait = wait;
  }

  async run(): Promise<BatchEnd> {
    const held = await this.lockAndRead();
    const current = await this.openBooks();
    for (const item of this.items) {
      if (this.states.has(item.order.tenant)) this.decide(item);
    }
    const replayed = await this.writeAndCommit();
    for (const state of this.states.values()) {
      if (state.head.sequence !== state.from) state.books.xmin = this.xid;
      this.shelf.put(state.head.tenant, state.books);
      if (state.head.sequence !== state.from) this.surroundings.committed(state.head.tenant);
    }
    this.settleReplays(replayed);
    return { settled: this.settled, held, current };
  }

  /** First round trip: heads, clock, keys. Answers the items whose head another process holds. */
  private async lockAndRead(): Promise<Item[]> {
    const tenants = [...new Set(this.items.map(({ order }) => order.tenant))];
    const orders = this.items.map(({ order }) => order);
    const reversals = orders.filter((order) => order.reverses);
    const lock = this.wait
      ? { name: 'lock_head', text: `${selectHead} where tenant_id = $1 for update`, values: [tenants[0]] }
      : {
          name: 'lock_heads',
          text: `${selectHead} where tenant_id = any($1::uuid[]) order by tenant_id for update skip locked`,
          values: [tenants],
        };
    const { client } = this;
    const [, , heads, time, keys, originals] = await all(
      together(
        client,
        () =>
          [
            client.query('begin'),
            client.query({ name: 'set_tenants', text: `select set_config('app.tenants', $1, true)`, values: [`{${tenants.join(',')}}`] }),
            client.query<HeadRow>(lock),
            client.query<Clock>(clock),
            // In a statement after the lock's: one that waited for a lock would still read what it saw before.
            client.query<KnownKey>({
              name: 'known_keys',
              text: `select t.tenant_id, t.idempotency_key, t.id, t.fingerprint, t.sequence
          from unnest($1::uuid[], $2::text[]) as wanted (tenant, key), lateral (
            select * from transactions where tenant_id = wanted.tenant and idempotency_key = wanted.key offset 0) t`,
              values: [orders.map((order) => order.tenant), orders.map((order) => order.idempotencyKey)],
            }),
            reversals.length === 0
              ? Promise.resolve({ rows: [] as Original[] })
              : client.query<Original>({
                  name: 'originals',
                  text: `select t.tenant_id, t.id, l.payload, r.id as reversed_by
              from unnest($1::uuid[], $2::uuid[]) as wanted (tenant, id),
                lateral (select * from transactions where tenant_id = wanted.tenant and id = wanted.id offset 0) t,
                lateral (select * from log where tenant_id = t.tenant_id and sequence = t.sequence offset 0) l
                left join lateral (select * from transactions where tenant_id = t.tenant_id and reverses = t.id offset 0) r on true`,
                  values: [reversals.map((order) => order.tenant), reversals.map((order) => order.reverses?.uuid)],
                }),
          ] as const,
      ),
    );
    const { now_ms, xid } = time.rows[0] as Clock;
    this.nowMs = now_ms;
    this.xid = xid;
    for (const row of heads.rows) {
      const head = headOf(row);
      const books = this.shelf.take(head.tenant);
      const current = books?.xmin === row.xmin;
      this.states.set(head.tenant, {
        head,
        from: head.sequence,
        current,
        books: current ? books : { xmin: row.xmin, accounts: new Map() },
      });
    }
    for (const row of keys.rows) this.keys.set(`${row.tenant_id} ${row.idempotency_key}`, row);
    for (const row of originals.rows) this.originals.set(`${row.tenant_id} ${row.id}`, row);
    return this.settleHeadless(tenants.filter((tenant) => !this.states.has(tenant)));
  }

  // A head that was not locked is another process's at the moment, or was never made: then no account exists either.
  private async settleHeadless(tenants: string[]): Promise<Item[]> {
    if (tenants.length === 0) return [];
    const { rows } = await this.client.query<{ tenant_id: string }>({
      name: 'existing_heads',
      text: 'select tenant_id from heads where tenant_id = any($1::uuid[])',
      values: [tenants],
    });
    const existing = new Set(rows.map((row) => row.tenant_id));
    const held: Item[] = [];
    for (const item of this.items) {
      if (this.states.has(item.order.tenant)) continue;
      if (existing.has(item.order.tenant)) held.push(item);
      else this.settled.push({ item, outcome: { refusal: withoutBooks(item.order) } });
    }
    return held;
  }

  /** Reads the accounts and balances that are not at hand; most batches need no round trip for it. */
  private async openBooks(): Promise<string[]> {
    const current = [...this.states.values()].filter((state) => state.current).map(({ head }) => head.tenant);
    const wanted = new Map<string, [tenant: string, code: string]>();
    for (const { order } of this.items) {
      const state = this.states.get(order.tenant);
      if (!state) continue;
      for (const code of this.codesOf(order)) {
        if (!state.books.accounts.has(code)) wanted.set(`${order.tenant} ${code}`, [order.tenant, code]);
      }
    }
    if (wanted.size === 0) return current;
    const pairs = [...wanted.values()];
    const { rows } = await this.client.query<AccountBalanceRow>({
      name: 'open_accounts',
      text: `select a.tenant_id, a.code, a.id, a.normal_balance, a.currency, a.is_group, a.allow_negative, a.status = 'closed' as closed,
          a.system, b.currency as held, b.debits, b.credits, b.pending_debits, b.pending_credits, b.version
        from unnest($1::uuid[], $2::text[]) as wanted (tenant, code),
          lateral (select * from accounts where tenant_id = wanted.tenant and code = wanted.code offset 0) a
          left join lateral (select * from balances where tenant_id = a.tenant_id and account_id = a.id offset 0) b on true`,
      values: [pairs.map(([tenant]) => tenant), pairs.map(([, code]) => code)],
    });
    for (const row of rows) {
      const accounts = (this.states.get(row.tenant_id) as TenantState).books.accounts;
      const open = accounts.get(row.code) ?? openAccount(row);
      accounts.set(row.code, open);
      if (row.held !== null) open.balances.set(row.held, balanceOf(row));
    }
    for (const [tenant, code] of pairs) {
      const { accounts } = (this.states.get(tenant) as TenantState).books;
      if (!accounts.has(code)) accounts.set(code, null);
    }
    return current;
  }

  private codesOf(order: Order): string[] {
    const original = order.reverses && this.originals.get(`${order.tenant} ${order.reverses.uuid}`);
    if (original) return postedEvent(original.payload).entries.map((entry) => entry.accountCode);
    const codes = order.entries.map((entry) => entry.code);
    return order.kind === 'single' ? [...codes, suspenseCode(order.entries[0]?.currency ?? '')] : codes;
  }

  /** The rules for one item; its refusal touches no neighbour. */
  private decide(item: Item): void {
    const { order } = item;
    const key = `${order.tenant} ${order.idempotencyKey}`;
    try {
      const known = this.keys.get(key);
      if (known) {
        if (!known.fingerprint.equals(order.fingerprint)) throw keyReused(order);
        const own = known.id === order.transaction && (order.retry || item.uncertain);
        if (known.transaction) this.settled.push({ item, outcome: resultOf(known.transaction, !own) });
        else this.replays.push({ item, sequence: known.sequence, own });
        return;
      }
      // It was picked up once and may have been posted; it was not, and nobody waits for it any more.
      if (item.uncertain && item.expires < performance.now()) {
        throw new Refusal('unavailable', 'the database was away; nothing was posted');
      }
      const transaction = this.post(order);
      this.keys.set(key, { id: order.transaction, fingerprint: order.fingerprint, sequence: transaction.sequence, transaction });
      this.settled.push({ item, outcome: resultOf(transaction, false) });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.settled.push({ item, outcome: { refusal: error } });
    }
  }

  private post(order: Order): Transaction {
    const state = this.states.get(order.tenant) as TenantState;
    let made: { record: AccountRecord; open: OpenAccount } | undefined;
    const books: Books = {
      account: (code) => state.books.accounts.get(code)?.account,
      balance: (account, currency) => state.books.accounts.get(account.code)?.balances.get(currency) ?? nothing,
      suspense: (currency) => {
        const open = state.books.accounts.get(suspenseCode(currency));
        if (open) return open.account;
        const record = newSuspenseAccount(currency as Currency, nextPlace(state.head, this.nowMs));
        made = { record, open: { account: accountOf(record), balances: new Map() } };
        return made.open.account;
      },
    };
    const result = post(order.reverses ? { kind: order.kind, entries: this.mirrored(order) } : order, books);
    // The first single entry in a currency of a tenant without a chart: its suspense account comes into being, as an event of its own.
    if (made) {
      this.append(state, createdEvent(made.record, null, order));
      this.made.push({ tenant: order.tenant, account: made.record });
      state.books.accounts.set(made.open.account.code, made.open);
    }
    const event = create(TransactionPostedSchema, eventOf(order, result));
    const payload = toBinary(TransactionPostedSchema, event);
    const row = this.append(state, { type: 'transaction.posted', actor: order.actor, requestId: order.requestId, payload });
    for (const change of result.changes) {
      const open = state.books.accounts.get(change.account.code) as OpenAccount;
      open.balances.set(change.currency, change.after);
      const place = `${change.account.id} ${change.currency}`;
      const first = this.changed.get(place);
      const from = first?.from ?? change.before.version;
      this.changed.set(place, {
        tenant: order.tenant,
        account: open.account,
        currency: change.currency,
        from,
        after: change.after,
        atMs: row.createdMs,
      });
    }
    this.posted.push({ order, row, result });
    return transactionOf(event, { tenantId: order.tenantId, sequence: row.sequence, createdMs: row.createdMs });
  }

  private append(state: TenantState, event: NewEvent): LogRow {
    const row = append(state.head, event, this.nowMs);
    this.log.push(row);
    return row;
  }

  private mirrored(order: Order): Order['entries'] {
    const reverses = order.reverses as { id: string; uuid: string };
    const original = this.originals.get(`${order.tenant} ${reverses.uuid}`);
    if (!original) throw new Refusal('transaction_not_found', 'transaction not found');
    const event = postedEvent(original.payload);
    if (event.kind === 'reversal') throw new Refusal('already_reversed', `transaction ${reverses.id} is a reversal itself`);
    const taken = this.posted.some((each) => each.order.tenant === order.tenant && each.order.reverses?.uuid === reverses.uuid);
    if (original.reversed_by !== null || taken) throw new Refusal('already_reversed', `transaction ${reverses.id} is reversed already`);
    return event.entries.map((entry) => ({
      code: entry.accountCode,
      amount: BigInt(entry.amount.replace('.', '')),
      side: opposite(entry.side as Side),
      currency: entry.currency,
      counter: entry.counter,
    }));
  }

  /** Last round trip: everything that was decided, and the commit. Answers the records of what had been posted before. */
  private async writeAndCommit(): Promise<Map<Item, Transaction>> {
    const replayed = new Map<Item, Transaction>();
    for (const [tenant, replays] of Map.groupBy(this.replays, ({ item }) => item.order.tenant)) {
      const sequences = replays.map(({ sequence }) => sequence);
      const found = await transactionsBySequence(this.client, tenant, sequences);
      const bySequence = new Map(found.map((transaction) => [transaction.sequence, transaction]));
      for (const { item, sequence } of replays) {
        const transaction = bySequence.get(sequence);
        if (transaction) replayed.set(item, transaction);
      }
    }
    const moved = [...this.states.values()].filter(({ head, from }) => head.sequence !== from);
    const { marks } = this.surroundings;
    const opened = moved.map(({ head }) => head.tenant).filter((tenant) => marks.mustOpen(tenant, this.nowMs));
    const writes = together(this.client, () => [
      ...(opened.length > 0 ? [openMarks(this.client, opened, this.nowMs)] : []),
      ...(moved.length > 0 ? this.writeAll(moved) : []),
      this.client.query('commit').then((answer) => {
        // A commit of a failed transaction answers that it rolled back.
        if (answer.command !== 'COMMIT') throw new Error(`the batch ended with ${answer.command}`);
      }),
    ]);
    await all(writes);
    marks.opened(opened, this.nowMs);
    return replayed;
  }

  private writeAll(moved: TenantState[]): Promise<unknown>[] {
    const { client, made, log, posted } = this;
    const writes: Promise<unknown>[] = [];
    // Balances refer to accounts by foreign key.
    if (made.length > 0) writes.push(insertAccounts(client, made));
    writes.push(writeLog(client, log, moved));
    if (posted.length > 0) writes.push(this.writeTransactions(), this.writeEntries(), ...this.writeBalances());
    return writes;
  }

  private writeTransactions(): Promise<unknown> {
    const { posted } = this;
    return this.client.query({
      name: 'insert_transactions',
      text: `insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
        select t, s, i, k, f, r, v, to_timestamp(c / 1000.0)
        from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bytea[], $6::text[], $7::uuid[], $8::float8[])
          as new (t, s, i, k, f, r, v, c)`,
      values: [
        plainArray(posted.map(({ order }) => order.tenant)),
        plainArray(posted.map(({ row }) => row.sequence)),
        plainArray(posted.map(({ order }) => order.transaction)),
        posted.map(({ order }) => order.idempotencyKey),
        posted.map(({ order }) => order.fingerprint),
        posted.map(({ order }) => order.reference),
        plainArray(posted.map(({ order }) => order.reverses?.uuid ?? null)),
        plainArray(posted.map(({ row }) => row.createdMs)),
      ],
    });
  }

  private writeEntries(): Promise<unknown> {
    const tenants: string[] = [];
    const accounts: string[] = [];
    const currencies: string[] = [];
    const sequences: bigint[] = [];
    const positions: number[] = [];
    const sides: string[] = [];
    const amounts: bigint[] = [];
    const balances: bigint[] = [];
    for (const { row, result } of this.posted) {
      result.lines.forEach((line, position) => {
        tenants.push(row.tenant);
        accounts.push((line.account as BookedAccount).uuid);
        currencies.push(line.currency);
        sequences.push(row.sequence);
        positions.push(position);
        sides.push(line.side);
        amounts.push(line.amount);
        balances.push(line.balanceAfter);
      });
    }
    return this.client.query({
      name: 'insert_entries',
      text: `insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
        select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::smallint[], $6::text[], $7::bigint[], $8::numeric[])`,
      values: [tenants, accounts, currencies, sequences, positions, sides, amounts, balances].map(plainArray),
    });
  }

  private writeBalances(): Promise<unknown>[] {
    const groups = Map.groupBy(this.changed.values(), ({ from, after }) => (from === 0n ? 0n : after.version - from));
    return [...groups].map(([postings, balances]) => {
      const values = [
        balances.map(({ tenant }) => tenant),
        balances.map(({ account }) => account.uuid),
        balances.map(({ currency }) => currency),
        balances.map(({ after }) => after.debits),
        balances.map(({ after }) => after.credits),
        balances.map(({ after }) => after.pendingDebits),
        balances.map(({ after }) => after.pendingCredits),
        balances.map(({ after }) => after.version),
        balances.map(({ atMs }) => atMs),
      ].map(plainArray);
      if (postings === 0n) return this.client.query({ name: 'insert_balances', text: insertBalances, values });
      return this.client.query({ name: 'update_balances', text: updateBalances, values: [...values, postings, balances.length] });
    });
  }

  private settleReplays(replayed: Map<Item, Transaction>): void {
    for (const { item, own } of this.replays) {
      const transaction = replayed.get(item);
      const lost = new Refusal('internal', 'a posted transaction could not be read');
      this.settled.push({ item, outcome: transaction ? resultOf(transaction, !own) : { refusal: lost } });
    }
  }
}

function resultOf(transaction: Transaction, replayed: boolean): Outcome {
  return { result: create(PostingResultSchema, { outcome: { case: 'transaction', value: transaction }, replayed }) };
}

function keyReused(order: Order): Refusal {
  const blame = { field: 'idempotency_key', tag: 'idempotency_key_reused', value: order.idempotencyKey };
  return new Refusal('idempotency_key_reused', 'this idempotency key was used for another request', blame);
}

function withoutBooks(order: Order): Refusal {
  if (order.reverses) return new Refusal('transaction_not_found', 'transaction not found');
  const code = order.entries[0]?.code ?? '';
  const field = order.kind === 'single' ? 'account_code' : 'entries[0].account_code';
  return new Refusal('account_not_found', `account ${code} not found`, { field, tag: 'account_not_found', value: code });
}

function accountOf(record: AccountRecord): BookedAccount {
  return {
    id: record.id,
    uuid: toUuid('acc', record.id) as string,
    code: record.accountCode,
    normalBalance: record.normalBalance as Side,
    currency: record.currency ?? null,
    isGroup: record.isGroup,
    allowNegative: record.allowNegative,
    closed: record.status === 'closed',
    system: record.system,
  };
}

function openAccount(row: AccountBalanceRow): OpenAccount {
  const account = {
    id: toId('acc', row.id as string),
    uuid: row.id as string,
    code: row.code,
    normalBalance: row.normal_balance,
    currency: row.currency,
    isGroup: row.is_group,
    allowNegative: row.allow_negative,
    closed: row.closed,
    system: row.system,
  };
  return { account, balances: new Map() };
}

function balanceOf(row: AccountBalanceRow): Balance {
  return {
    debits: BigInt(row.debits as string),
    credits: BigInt(row.credits as string),
    pendingDebits: BigInt(row.pending_debits as string),
    pendingCredits: BigInt(row.pending_credits as string),
    version: row.version as bigint,
  };
}

function eventOf(order: Order, { lines, changes }: Posted): MessageInitShape<typeof TransactionPostedSchema> {
  const event: MessageInitShape<typeof TransactionPostedSchema> = {
    transactionId: order.transactionId,
    kind: order.kind,
    idempotencyKey: order.idempotencyKey,
    fingerprint: order.fingerprint,
    description: order.description,
    metadata: order.metadata,
    entries: lines.map((line): MessageInitShape<typeof PostedEntrySchema> => ({
      accountId: line.account.id,
      accountCode: line.account.code,
      amount: toDecimal(line.amount),
      side: line.side,
      currency: line.currency,
      counter: line.counter,
      balanceAfter: toDecimal(line.balanceAfter),
    })),
    balances: changes.map(({ account, currency, before, after }): MessageInitShape<typeof ChangedBalanceSchema> => {
      const balance = net(account, after);
      const outgoing = account.normalBalance === 'debit' ? after.pendingCredits : after.pendingDebits;
      return {
        accountId: account.id,
        accountCode: account.code,
        currency,
        previousBalance: toDecimal(net(account, before)),
        balance: toDecimal(balance),
        debits: toDecimal(after.debits),
        credits: toDecimal(after.credits),
        pendingDebits: toDecimal(after.pendingDebits),
        pendingCredits: toDecimal(after.pendingCredits),
        available: toDecimal(balance - outgoing),
        version: after.version,
      };
    }),
  };
  if (order.reference !== null) event.reference = order.reference;
  if (order.reverses) event.reverses = order.reverses.id;
  return event;
}
