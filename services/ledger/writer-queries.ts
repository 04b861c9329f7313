// What the writer asks of the database before it decides, set-based.
//
// Rows are always found from the wanted side, each by its whole key: `lateral (… offset 0)` keeps the planner from turning the join round,
// which it does while a table is small or not analysed, and keeps doing when it has grown (7 ms for 190 balances; so, 1 ms).
import type { TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId } from '../platform/ids.ts';
import { textArray, uuidArray } from '../platform/arrays.ts';
import { currencies, toDecimal } from '../platform/money.ts';
import { setTenants, type Client } from '../platform/postgres.ts';
import { net, type Balance, type Side } from './accounting.ts';
import type { CachedAccount, AccountState } from './account-cache.ts';
import { decodePosted, type ValidatedPosting } from './mapping.ts';

/** What an idempotency key was used for: before, or by what a batch has decided. */
export interface UsedKey {
  /** UUID of the transaction. */
  id: string;
  fingerprint: Buffer;
  sequence: bigint;
  /** The transaction, where it was decided in memory or has been read. */
  transaction?: Transaction;
}

interface KnownKeyRow extends UsedKey {
  tenant_id: string;
  idempotency_key: string;
}

/** A transaction that is to be reversed. */
export interface Original {
  tenant_id: string;
  id: string;
  /** Null where it can't be reversed: it is reversed already, or a reversal itself. */
  payload: Buffer | null;
  reversed_by: string | null;
  /** What the payload says, once it has been read. */
  event?: TransactionPosted;
}

/** The event of a transaction that can be reversed; read once, however many orders reverse it. */
export function eventOfOriginal(original: Original): TransactionPosted | undefined {
  if (original.payload) original.event ??= decodePosted(original.payload);
  return original.event;
}

/** Begins a transaction that sees the tenants' rows. */
export function begin(client: Client, tenants: string[]): Promise<unknown>[] {
  return [client.query('begin'), client.query(setTenants(tenants))];
}

/**
 * Commits; rejects where the transaction had failed and was rolled back, which PostgreSQL answers without an error, with the code of any
 * other statement behind the one that failed.
 */
export async function commit(client: Client): Promise<void> {
  const { command } = await client.query('commit');
  if (command !== 'COMMIT') throw Object.assign(new Error(`the batch ended with ${command}`), { code: '25P02' });
}

/** Which of the orders' keys were used. */
export async function usedKeys(client: Client, orders: ValidatedPosting[]): Promise<KnownKeyRow[]> {
  const { rows } = await client.query<KnownKeyRow>({
    name: 'known_keys',
    text: `select t.tenant_id, t.idempotency_key, t.id, t.fingerprint, t.sequence
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, key), lateral (
        select * from transactions where tenant_id = wanted.tenant and idempotency_key = wanted.key offset 0) t`,
    values: [uuidArray(orders.map((order) => order.tenant)), textArray(orders.map((order) => order.idempotencyKey))],
  });
  return rows;
}

/** Under which keys the orders' transaction ids were posted, by tenant and id. */
export async function keysOfIds(client: Client, orders: ValidatedPosting[]): Promise<Map<string, string>> {
  const { rows } = await client.query<{ place: string; idempotency_key: string }>({
    name: 'keys_of_ids',
    text: `select t.tenant_id || ' ' || t.id as place, t.idempotency_key
      from unnest($1::uuid[], $2::uuid[]) as wanted (tenant, id), lateral (
        select * from transactions where tenant_id = wanted.tenant and id = wanted.id offset 0) t`,
    values: [uuidArray(orders.map((order) => order.tenant)), uuidArray(orders.map((order) => order.transaction))],
  });
  return new Map(rows.map((row) => [row.place, row.idempotency_key]));
}

/** The transactions that orders reverse. */
export async function originalsOf(client: Client, reversals: ValidatedPosting[]): Promise<Original[]> {
  if (reversals.length === 0) return [];
  const { rows } = await client.query<Original>({
    name: 'originals',
    text: `select t.tenant_id, t.id, case when r.id is null and t.reverses is null then l.payload end as payload, r.id as reversed_by
      from (select distinct tenant, id from unnest($1::uuid[], $2::uuid[]) as each (tenant, id)) as wanted,
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
  /** Null, as all of the balance, where there is none. */
  held: string | null;
  debits: string;
  credits: string;
  pending_debits: string;
  pending_credits: string;
  version: bigint;
  /** Milliseconds since the Unix epoch, as `left_ms`. */
  is_ms: string;
  /** What the newest entry has left, and when; null where there is no entry, or, of the time, no transaction of it. */
  left: string | null;
  left_ms: string | null;
  /** Currencies in which there are entries and no balance; null: none. */
  lost: string | null;
}

/** An account as it was found. */
export interface FoundAccount {
  tenant: string;
  code: string;
  state: AccountState;
  /** What a balance says other than the account's newest entry; empty where they agree. */
  differences: string[];
}

/**
 * Those accounts that there are of the wanted ones (by the tenant's UUID and code), with all their balances. Each is held against what the newest entry
 * left, and when, and one that is missing is missed: a balance that somebody has changed by hand, or put back from a copy, would go into the log with
 * the next posting, and nothing repairs a log. (Only what a process doesn't remember is read; two ledgers that take turns on a tenant are 0 to 15 %
 * slower for it.) Who changes debits and credits alike, or the version, is found by `verify`.
 */
export async function readAccounts(client: Client, wanted: [tenant: string, code: string][]): Promise<FoundAccount[]> {
  const { rows } = await client.query<AccountBalanceRow>({
    name: 'open_accounts',
    text: `select a.tenant_id, a.code, a.id, a.normal_balance, a.currency, a.is_group, a.allow_negative, a.status = 'closed' as closed,
        a.system, b.*, case when b.held = a.currency then null else (
          select string_agg(each.currency, ', ') from unnest(case when a.currency is null then $3::text[] else array[a.currency] end) as each (currency)
          where each.currency is distinct from b.held
            and (select true from balances where tenant_id = a.tenant_id and account_id = a.id and currency = each.currency) is null
            and (select true from entries where tenant_id = a.tenant_id and account_id = a.id and currency = each.currency limit 1)
        ) end as lost
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, code),
        lateral (select * from accounts where tenant_id = wanted.tenant and code = wanted.code offset 0) a
        left join lateral (
          select currency as held, debits, credits, pending_debits, pending_credits, version, entry.left,
            round(extract(epoch from updated_at) * 1000)::text as is_ms, round(extract(epoch from t.created_at) * 1000)::text as left_ms
          from (select * from balances where tenant_id = a.tenant_id and account_id = a.id offset 0) as balance left join lateral (
              select balance_after as left, sequence from entries where tenant_id = a.tenant_id and account_id = a.id and currency = balance.currency
              order by sequence desc, position desc limit 1) as entry on true left join lateral (
              select created_at from transactions where tenant_id = a.tenant_id and sequence = entry.sequence offset 0) as t on true) b on true`,
    values: [uuidArray(wanted.map(([tenant]) => tenant)), textArray(wanted.map(([, code]) => code)), textArray(currencies)],
  });
  const found = new Map<string, FoundAccount>();
  for (const row of rows) {
    const place = `${row.tenant_id} ${row.code}`;
    const one: FoundAccount = found.get(place) ?? {
      tenant: row.tenant_id,
      code: row.code,
      state: { account: accountOf(row), balances: new Map() },
      differences: [],
    };
    const { state, differences } = one;
    // Each of its balances says so.
    if (row.lost !== null && !found.has(place)) differences.push(`there is no balance in ${row.lost}, where there are entries`);
    found.set(place, one);
    if (row.held === null) continue;
    const balance = balanceOf(row);
    const is = told(net(state.account, balance), row.is_ms);
    const left = row.left === null ? 'none' : told(BigInt(row.left), row.left_ms);
    if (is !== left) differences.push(`the balance in ${row.held} is ${is}, where the newest entry left ${left}`);
    else if (balance.pendingDebits !== 0n || balance.pendingCredits !== 0n)
      differences.push(`something is pending in ${row.held}, which nothing can be`);
    else state.balances.set(row.held, balance);
  }
  return [...found.values()];
}

function told(minor: bigint, ms: string | null): string {
  const at = new Date(ms === null ? NaN : Number(ms));
  return `${toDecimal(minor)} of ${Number.isNaN(at.getTime()) ? 'no time' : at.toISOString()}`;
}

/** Fails where an account's balances are not what its entries left: what is decided by them would go into the log. */
export async function checkBalances(client: Client, tenant: string, code: string): Promise<void> {
  for (const found of await readAccounts(client, [[tenant, code]]))
    if (found.differences.length > 0) throw new Error(whyInconsistent(found));
}

/** Of an account that `differs`. */
export function whyInconsistent({ code, differences }: FoundAccount): string {
  return `account ${code}: ${differences.join('; ')}; rebuild mends it`;
}

function accountOf(row: AccountBalanceRow): CachedAccount {
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
