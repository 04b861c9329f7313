// Queries of the writer, before it decides.
//
// Each row is found by its whole key: `lateral (… offset 0)` keeps the planner from reordering the join, as it does for young tables.
import type { Transaction } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toId } from '../platform/ids.ts';
import { textArray, uuidArray } from '../platform/arrays.ts';
import { currencies, toDecimal } from '../platform/money.ts';
import { epochMs, setTenants, type Client } from '../platform/postgres.ts';
import { net, type Balance, type Side } from './accounting.ts';
import { accountRules, rulesOfRow } from './account-rules.ts';
import type { CachedAccount, AccountState } from './account-cache.ts';
import { keysOfHoldIds, usedHoldKeys, type KeyOfId } from './hold-queries.ts';
import { currentHold, type CurrentHold } from './holds.ts';
import type { ValidatedPosting } from './mapping.ts';
import { newestPart, transactionsBySequence } from './reads.ts';
import type { OriginalRow } from './reversals.ts';

/** What an idempotency key was used for, in the database or in a batch. */
export interface UsedKey {
  /** UUID of the transaction or hold. */
  id: string;
  fingerprint: Buffer;
  sequence: bigint;
  /** The transaction, once it is decided or read. */
  transaction?: Transaction;
  /** The hold, if the key is that of one. */
  hold?: CurrentHold;
}

/** Begins a transaction that sees the tenants' rows. */
export function begin(client: Client, tenants: string[]): Promise<unknown>[] {
  return [client.query('begin'), client.query(setTenants(tenants))];
}

/** Which of the commands' keys were used, by tenant and key as batches name them. */
export async function usedKeys(client: Client, commands: ValidatedPosting[]): Promise<Map<string, UsedKey>> {
  const [holds, transactions] = [commands.filter(isHold), commands.filter(makesTransaction)];
  const [made, { rows }] = await Promise.all([
    usedHoldKeys(client, holds),
    client.query<UsedKey & { tenant_id: string; idempotency_key: string }>({
      name: 'known_keys',
      text: `select t.tenant_id, t.idempotency_key, t.id, t.fingerprint, t.sequence
        from unnest($1::uuid[], $2::text[]) as wanted (tenant, key), lateral (
          select * from transactions where tenant_id = wanted.tenant and idempotency_key = wanted.key offset 0) t`,
      values: [uuidArray(transactions.map(({ tenant }) => tenant)), textArray(transactions.map(({ idempotencyKey }) => idempotencyKey))],
    }),
  ]);
  const used = new Map<string, UsedKey>(rows.map((row) => [`${row.tenant_id} ${row.idempotency_key}`, row]));
  for (const row of made) {
    const { id, fingerprint, sequence } = row;
    used.set(`${row.tenant_id}#${row.idempotency_key}`, { id, fingerprint, sequence, hold: currentHold(row) });
  }
  return used;
}

function isHold({ kind }: ValidatedPosting): boolean {
  return kind === 'hold';
}

function makesTransaction({ kind }: ValidatedPosting): boolean {
  return kind !== 'hold' && kind !== 'void' && kind !== 'expire';
}

/** Reads the transactions that used keys stand for; `keys` is by tenant and key. */
export async function readReplays(client: Client, keys: ReadonlyMap<string, UsedKey>): Promise<void> {
  const unread = [...keys].filter(([, { transaction, hold }]) => !transaction && !hold);
  for (const [tenant, replays] of Map.groupBy(unread, ([key]) => key.slice(0, key.indexOf(' ')))) {
    const sequences = replays.map(([, { sequence }]) => sequence);
    const found = new Map((await transactionsBySequence(client, tenant, sequences)).map((each) => [each.sequence, each]));
    for (const [, key] of replays) {
      const transaction = found.get(key.sequence);
      if (transaction) key.transaction = transaction;
    }
  }
}

/** The keys under which the ids of the commands' transactions and holds were used, by tenant and id as batches name them. */
export async function keysOfIds(client: Client, commands: ValidatedPosting[]): Promise<Map<string, string>> {
  const [holds, transactions] = [commands.filter(isHold), commands.filter(makesTransaction)];
  const [made, posted] = await Promise.all([keysOfHoldIds(client, holds), keysOfTransactionIds(client, transactions)]);
  return new Map([
    ...posted.map((row) => [`${row.tenant_id} ${row.id}`, row.idempotency_key] as const),
    ...made.map((row) => [`${row.tenant_id}#${row.id}`, row.idempotency_key] as const),
  ]);
}

async function keysOfTransactionIds(client: Client, postings: ValidatedPosting[]): Promise<KeyOfId[]> {
  if (postings.length === 0) return [];
  const { rows } = await client.query<KeyOfId>({
    name: 'keys_of_ids',
    text: `select t.tenant_id, t.id, t.idempotency_key
      from unnest($1::uuid[], $2::uuid[]) as wanted (tenant, id), lateral (
        select * from transactions where tenant_id = wanted.tenant and id = wanted.id offset 0) t`,
    values: [uuidArray(postings.map((posting) => posting.tenant)), uuidArray(postings.map((posting) => posting.transaction))],
  });
  return rows;
}

/** The transactions that the postings reverse. */
export async function originalsOf(client: Client, reversals: ValidatedPosting[]): Promise<OriginalRow[]> {
  if (reversals.length === 0) return [];
  const { rows } = await client.query<OriginalRow>({
    name: 'originals',
    text: `select t.tenant_id, t.id, ${epochMs('t.created_at')} as created_ms, l.payload, r.id as reversed_by,
        part.number as part, part.payload as part_payload
      from (select distinct tenant, id from unnest($1::uuid[], $2::uuid[]) as each (tenant, id)) as wanted,
        lateral (select * from transactions where tenant_id = wanted.tenant and id = wanted.id offset 0) t,
        lateral (select * from log where tenant_id = t.tenant_id and sequence = t.sequence offset 0) l
        left join lateral (select * from transactions where tenant_id = t.tenant_id and reverses = t.id offset 0) r on true
        left join lateral (${newestPart}) part on true`,
    values: [uuidArray(reversals.map((posting) => posting.tenant)), uuidArray(reversals.map((posting) => posting.target?.uuid ?? null))],
  });
  return rows;
}

/** A row for each balance of an account, or one without a balance. */
interface AccountBalanceRow {
  tenant_id: string;
  code: string;
  id: string;
  normal_balance: Side;
  currency: string | null;
  is_group: boolean;
  allow_negative: boolean;
  limits: string | null;
  blocked: string | null;
  closed: boolean;
  system: boolean;
  /** The balance's currency; null, as all of the balance, where there is none. */
  balance_currency: string | null;
  debits: string;
  credits: string;
  pending_debits: string;
  pending_credits: string;
  version: bigint;
  /** Milliseconds since the Unix epoch, as `entry_ms`. */
  updated_ms: string;
  /** The balance after the newest entry, and its time; null where there is no entry, or no transaction of it. */
  entry_balance: string | null;
  entry_ms: string | null;
  /** What remains of open holds; null: there are none. */
  held_debits: string | null;
  held_credits: string | null;
  /** Whether the account ever had a hold, which changes a balance without an entry. */
  has_holds: boolean;
  /** Currencies in which there are entries or open holds and no balance; null: none. */
  missing: string | null;
}

/** An account as it was found. */
export interface FoundAccount {
  tenant: string;
  code: string;
  state: AccountState;
  /** How balances differ from the account's newest entries; empty where they agree. */
  differences: string[];
}

/**
 * Reads the wanted accounts (tenant's UUID and code) that exist, with their balances. Each balance is compared with the newest entry and with
 * open holds, because a balance changed by hand would enter the log with the next posting, and a log cannot be repaired. `verify` finds the rest.
 */
export async function readAccounts(client: Client, wanted: [tenant: string, code: string][]): Promise<FoundAccount[]> {
  const { rows } = await client.query<AccountBalanceRow>({
    name: 'read_accounts',
    text: `select a.tenant_id, a.code, a.id, a.normal_balance, a.currency, a.is_group, a.allow_negative, a.limits, a.blocked, a.status = 'closed' as closed,
        a.system, b.*, case when b.balance_currency = a.currency then null else (
          select string_agg(each.currency, ', ') from unnest(case when a.currency is null then $3::text[] else array[a.currency] end) as each (currency)
          where each.currency is distinct from b.balance_currency
            and (select true from balances where tenant_id = a.tenant_id and account_id = a.id and currency = each.currency) is null
            and coalesce(
              (select true from entries where tenant_id = a.tenant_id and account_id = a.id and currency = each.currency limit 1),
              (select true from hold_entries
                where tenant_id = a.tenant_id and account_id = a.id and currency = each.currency and remaining > 0 limit 1))
        ) end as missing
      from unnest($1::uuid[], $2::text[]) as wanted (tenant, code),
        lateral (select * from accounts where tenant_id = wanted.tenant and code = wanted.code offset 0) a
        left join lateral (
          select currency as balance_currency, debits, credits, pending_debits, pending_credits, version, entry.entry_balance,
            open_holds.*, (select true from hold_entries where tenant_id = a.tenant_id and account_id = a.id limit 1) is true as has_holds,
            round(extract(epoch from updated_at) * 1000)::text as updated_ms, round(extract(epoch from t.created_at) * 1000)::text as entry_ms
          from (select * from balances where tenant_id = a.tenant_id and account_id = a.id offset 0) as balance left join lateral (
              select balance_after as entry_balance, sequence from entries
              where tenant_id = a.tenant_id and account_id = a.id and currency = balance.currency
              order by sequence desc, position desc limit 1) as entry on true left join lateral (
              select created_at from transactions where tenant_id = a.tenant_id and sequence = entry.sequence offset 0) as t on true
            cross join lateral (
              select (sum(remaining) filter (where side = 'debit'))::text as held_debits,
                (sum(remaining) filter (where side = 'credit'))::text as held_credits
              from hold_entries where tenant_id = a.tenant_id and account_id = a.id and currency = balance.currency and remaining > 0) as open_holds
          ) b on true`,
    values: [uuidArray(wanted.map(([tenant]) => tenant)), textArray(wanted.map(([, code]) => code)), textArray(currencies)],
  });
  const found = new Map<string, FoundAccount>();
  for (const row of rows) {
    const key = `${row.tenant_id} ${row.code}`;
    const account: FoundAccount = found.get(key) ?? {
      tenant: row.tenant_id,
      code: row.code,
      state: { account: accountOf(row), balances: new Map() },
      differences: [],
    };
    // The same in every row of the account.
    if (row.missing !== null && !found.has(key)) account.differences.push(`there is no balance in ${row.missing}, where there are entries`);
    found.set(key, account);
    addBalance(account, row);
  }
  return [...found.values()];
}

function addBalance({ state, differences }: FoundAccount, row: AccountBalanceRow): void {
  const currency = row.balance_currency;
  if (currency === null) return;
  const balance = balanceOf(row);
  const { entry_balance: newest, entry_ms: entryMs, has_holds: hasHolds } = row;
  // A hold or release may have changed it later than the newest entry.
  const isLater = hasHolds && entryMs !== null && Number(row.updated_ms) > Number(entryMs);
  const stored = amountAt(net(state.account, balance), isLater ? entryMs : row.updated_ms);
  const expected = newest === null ? (hasHolds ? amountAt(0n, row.updated_ms) : 'none') : amountAt(BigInt(newest), entryMs);
  const pending = shownPending(balance.pendingDebits, balance.pendingCredits);
  const held = shownPending(BigInt(row.held_debits ?? 0), BigInt(row.held_credits ?? 0));
  if (stored !== expected) differences.push(`the balance in ${currency} is ${stored}, where the newest entry left ${expected}`);
  else if (pending !== held) differences.push(`pending in ${currency} are ${pending}, where open holds have ${held}`);
  else state.balances.set(currency, balance);
}

function shownPending(debits: bigint, credits: bigint): string {
  return `debits of ${toDecimal(debits)} and credits of ${toDecimal(credits)}`;
}

function amountAt(minor: bigint, ms: string | null): string {
  const at = new Date(ms === null ? NaN : Number(ms));
  return `${toDecimal(minor)} of ${Number.isNaN(at.getTime()) ? 'no time' : at.toISOString()}`;
}

/** Throws where an account's balances differ from its entries: a decision based on them would enter the log. */
export async function checkBalances(client: Client, tenant: string, code: string): Promise<void> {
  for (const found of await readAccounts(client, [[tenant, code]])) {
    if (found.differences.length > 0) throw new Error(whyInconsistent(found));
  }
}

/** Describes an account that has differences. */
export function whyInconsistent({ code, differences }: FoundAccount): string {
  return `account ${code}: ${differences.join('; ')}; rebuild repairs it`;
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
    rules: accountRules(rulesOfRow(row)),
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
