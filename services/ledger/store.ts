// The writer's SQL: what a batch reads, and how it writes what was decided, set-based.
//
// Rows are always found from the wanted side, each by its whole key: `lateral (… offset 0)` keeps the planner from turning the join round,
// which it does while a table is small or not analysed, and keeps doing when it has grown (7 ms for 190 balances; so, 1 ms).
import { toId } from '../platform/ids.ts';
import { bigintArray, bytesArray, doubleArray, plainArray, seeing, uuidArray, type Client } from '../platform/postgres.ts';
import type { Balance, Posted, Side } from './accounting.ts';
import type { BookedAccount, OpenAccount } from './books.ts';
import type { Head, LogRow } from './log.ts';
import type { Order } from './wire.ts';

/** A key that was used. */
export interface KnownKey {
  tenant_id: string;
  idempotency_key: string;
  /** UUID of the transaction. */
  id: string;
  fingerprint: Buffer;
  sequence: bigint;
}

/** A transaction that is to be reversed. */
export interface Original {
  tenant_id: string;
  id: string;
  payload: Buffer;
  reversed_by: string | null;
}

/** A balance after a batch. */
export interface ChangedBalance {
  tenant: string;
  account: BookedAccount;
  currency: string;
  /** The version that was read. */
  from: bigint;
  after: Balance;
  atMs: number;
}

/** A posting in its place. */
export interface PostedOrder {
  order: Order;
  row: LogRow;
  result: Posted;
}

/** Waits for every answer, then throws the error that began it: the statements behind it only say that their transaction is aborted. */
export async function all<const Queries extends readonly Promise<unknown>[]>(
  queries: Queries,
): Promise<{ -readonly [Place in keyof Queries]: Awaited<Queries[Place]> }> {
  const answers = await Promise.allSettled(queries);
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as { code?: unknown }] : []));
  if (errors.length > 0) throw (errors.find(({ code }) => code !== '25P02') ?? errors[0]) as Error;
  return answers.map((answer) => (answer as PromiseFulfilledResult<unknown>).value) as {
    -readonly [Place in keyof Queries]: Awaited<Queries[Place]>;
  };
}

/** Begins a transaction that sees the tenants' rows. */
export function begin(client: Client, tenants: string[]): Promise<unknown>[] {
  return [client.query('begin'), client.query(seeing(tenants))];
}

/** Commits; rejects where the transaction had failed and was rolled back, which PostgreSQL answers without an error. */
export async function commit(client: Client): Promise<void> {
  const { command } = await client.query('commit');
  if (command !== 'COMMIT') throw new Error(`the batch ended with ${command}`);
}

/**
 * Locks heads that nobody else holds and raises unless all stand where they are remembered. `heads` are ordered by tenant, as every lock of
 * several heads is.
 */
export function holdHeads(client: Client, heads: Head[]): Promise<unknown> {
  return client.query({
    name: 'hold_heads',
    text: `select must_be($2, (select string_agg(sequence || '.' || rebuilt, ',' order by tenant_id) from
      (select tenant_id, sequence, rebuilt from heads where tenant_id = any($1::uuid[]) order by tenant_id for update skip locked) held), 'heads')`,
    values: [uuidArray(heads.map((head) => head.tenant)), heads.map((head) => `${head.sequence}.${head.rebuilt}`).join(',')],
  });
}

/** Which of the orders' keys were used. */
export async function knownKeys(client: Client, orders: Order[]): Promise<KnownKey[]> {
  const { rows } = await client.query<KnownKey>({
    name: 'known_keys',
    text: `select t.tenant_id, t.idempotency_key, t.id, t.fingerprint, t.sequence
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, key), lateral (
        select * from transactions where tenant_id = wanted.tenant and idempotency_key = wanted.key offset 0) t`,
    values: [uuidArray(orders.map((order) => order.tenant)), orders.map((order) => order.idempotencyKey)],
  });
  return rows;
}

/** The transactions that orders reverse. */
export async function originalsOf(client: Client, reversals: Order[]): Promise<Original[]> {
  if (reversals.length === 0) return [];
  const { rows } = await client.query<Original>({
    name: 'originals',
    text: `select t.tenant_id, t.id, l.payload, r.id as reversed_by
      from unnest($1::uuid[], $2::uuid[]) as wanted (tenant, id),
        lateral (select * from transactions where tenant_id = wanted.tenant and id = wanted.id offset 0) t,
        lateral (select * from log where tenant_id = t.tenant_id and sequence = t.sequence offset 0) l
        left join lateral (select * from transactions where tenant_id = t.tenant_id and reverses = t.id offset 0) r on true`,
    values: [uuidArray(reversals.map((order) => order.tenant)), uuidArray(reversals.map((order) => order.reverses?.uuid ?? null))],
  });
  return rows;
}

interface AccountBalanceRow {
  tenant_id: string;
  code: string;
  id: string;
  normal_balance: Side;
  currency: string | null;
  is_group: boolean;
  allow_negative: boolean;
  closed: boolean;
  system: boolean;
  held: string | null;
  debits: string;
  credits: string;
  pending_debits: string;
  pending_credits: string;
  version: bigint;
}

/** Accounts with all their balances, by tenant (UUID) and code; null for a code that the tenant does not have. */
export async function openAccounts(
  client: Client,
  wanted: [tenant: string, code: string][],
): Promise<[tenant: string, code: string, open: OpenAccount | null][]> {
  const { rows } = await client.query<AccountBalanceRow>({
    name: 'open_accounts',
    text: `select a.tenant_id, a.code, a.id, a.normal_balance, a.currency, a.is_group, a.allow_negative, a.status = 'closed' as closed,
        a.system, b.currency as held, b.debits, b.credits, b.pending_debits, b.pending_credits, b.version
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, code),
        lateral (select * from accounts where tenant_id = wanted.tenant and code = wanted.code offset 0) a
        left join lateral (select * from balances where tenant_id = a.tenant_id and account_id = a.id offset 0) b on true`,
    values: [uuidArray(wanted.map(([tenant]) => tenant)), wanted.map(([, code]) => code)],
  });
  const found = new Map<string, OpenAccount>();
  for (const row of rows) {
    const place = `${row.tenant_id} ${row.code}`;
    const open = found.get(place) ?? { account: accountOf(row), balances: new Map<string, Balance>() };
    found.set(place, open);
    if (row.held !== null) open.balances.set(row.held, balanceOf(row));
  }
  return wanted.map(([tenant, code]) => [tenant, code, found.get(`${tenant} ${code}`) ?? null]);
}

function accountOf(row: AccountBalanceRow): BookedAccount {
  return {
    id: toId('acc', row.id),
    uuid: row.id,
    code: row.code,
    normalBalance: row.normal_balance,
    currency: row.currency,
    isGroup: row.is_group,
    allowNegative: row.allow_negative,
    closed: row.closed,
    system: row.system,
  };
}

function balanceOf(row: AccountBalanceRow): Balance {
  return {
    debits: BigInt(row.debits),
    credits: BigInt(row.credits),
    pendingDebits: BigInt(row.pending_debits),
    pendingCredits: BigInt(row.pending_credits),
    version: row.version,
  };
}

/** Writes what transactions are found by. */
export function insertTransactions(client: Client, posted: PostedOrder[]): Promise<unknown> {
  return client.query({
    name: 'insert_transactions',
    text: `insert into transactions (tenant_id, sequence, id, idempotency_key, fingerprint, reference, reverses, created_at)
      select t, s, i, k, f, r, v, to_timestamp(c / 1000.0)
      from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bytea[], $6::text[], $7::uuid[], $8::float8[])
        as new (t, s, i, k, f, r, v, c)`,
    values: [
      uuidArray(posted.map(({ order }) => order.tenant)),
      bigintArray(posted.map(({ row }) => row.sequence)),
      uuidArray(posted.map(({ order }) => order.transaction)),
      posted.map(({ order }) => order.idempotencyKey),
      bytesArray(posted.map(({ order }) => order.fingerprint)),
      posted.map(({ order }) => order.reference),
      uuidArray(posted.map(({ order }) => order.reverses?.uuid ?? null)),
      doubleArray(posted.map(({ row }) => row.createdMs)),
    ],
  });
}

/** Writes all entries in one statement, which the trigger that sums them needs. */
export function insertEntries(client: Client, posted: PostedOrder[]): Promise<unknown> {
  const tenants: string[] = [];
  const accounts: string[] = [];
  const currencies: string[] = [];
  const sequences: bigint[] = [];
  const positions: number[] = [];
  const sides: string[] = [];
  const amounts: bigint[] = [];
  const balances: bigint[] = [];
  for (const { row, result } of posted) {
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
  return client.query({
    name: 'insert_entries',
    text: `insert into entries (tenant_id, account_id, currency, sequence, position, side, amount, balance_after)
      select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::smallint[], $6::text[], $7::bigint[], $8::numeric[])`,
    values: [
      uuidArray(tenants),
      uuidArray(accounts),
      plainArray(currencies),
      bigintArray(sequences),
      plainArray(positions),
      plainArray(sides),
      bigintArray(amounts),
      plainArray(balances),
    ],
  });
}

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

/** Writes balances, each on the version that was read; a row that has another one rolls the transaction back. */
export function writeBalances(client: Client, changed: Iterable<ChangedBalance>): Promise<unknown>[] {
  const groups = Map.groupBy(changed, ({ from, after }) => (from === 0n ? 0n : after.version - from));
  return [...groups].map(([postings, balances]) => {
    const values = [
      uuidArray(balances.map(({ tenant }) => tenant)),
      uuidArray(balances.map(({ account }) => account.uuid)),
      plainArray(balances.map(({ currency }) => currency)),
      plainArray(balances.map(({ after }) => after.debits)),
      plainArray(balances.map(({ after }) => after.credits)),
      plainArray(balances.map(({ after }) => after.pendingDebits)),
      plainArray(balances.map(({ after }) => after.pendingCredits)),
      bigintArray(balances.map(({ after }) => after.version)),
      doubleArray(balances.map(({ atMs }) => atMs)),
    ];
    if (postings === 0n) return client.query({ name: 'insert_balances', text: insertBalances, values });
    return client.query({ name: 'update_balances', text: updateBalances, values: [...values, postings, balances.length] });
  });
}
