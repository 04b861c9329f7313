// Settings of a tenant's books, changed under its head, and reads of them.
import { create, toBinary } from '@bufbuild/protobuf';
import { BooksUpdatedSchema, type AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { BooksSchema, type Books } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { epochMs, inTransaction, readTenant, type Client, type Connections, type Statement } from '../platform/postgres.ts';
import { accountsByCode } from './account-reads.ts';
import { Refusal, type Reason } from './accounting.ts';
import { writeEvents } from './accounts.ts';
import { nextPosition, type AuditContext } from './chart.ts';
import { invalid } from './fields.ts';
import { append, lockHead } from './log.ts';
import { declaredSince, readyKeys } from './metadata-indexes.ts';

/** What can be set, with the names of REST; stored as JSON. */
export interface BooksSettings {
  timezone: string;
  /** `MM-DD`; `02-29` is the last day of February. */
  fiscal_year_end: string;
  retained_earnings_code: string;
  late_entries: 'refuse' | 'next_open';
  future_days: number;
  cash_accounts: string[];
  indexed_metadata: string[];
}

/** The settings of books where nothing was set. */
export const defaultSettings: BooksSettings = {
  timezone: 'UTC',
  fiscal_year_end: '12-31',
  retained_earnings_code: 'RETAINED-EARNINGS',
  late_entries: 'refuse',
  future_days: 366,
  cash_accounts: [],
  indexed_metadata: [],
};

/** Books as they are stored. */
export interface StoredBooks {
  /** Counts changes, closings and reopenings. */
  version: bigint;
  settings: BooksSettings;
  /** Last closed days, `YYYY-MM-DD`; null: none. */
  closedThrough: string | null;
  finalThrough: string | null;
  /** The first open millisecond since the Unix epoch; null: nothing is closed. */
  openFromMs: number | null;
  /** Milliseconds since the Unix epoch; null: never. */
  updatedMs: number | null;
  /** For each key of `indexed_metadata` the sequence of the event that declared it: older transactions are indexed by the auditor. */
  indexedSince: Record<string, number>;
  /** Keys whose index is complete. */
  readyKeys: string[];
}

interface BooksRow {
  version: bigint;
  record: string;
  closed_through: string | null;
  final_through: string | null;
  open_from_ms: number | null;
  updated_ms: number;
  indexed_since: string;
  ready_keys: string[];
}

/** A tenant's books. */
export async function getBooks(pool: Connections, tenant: string): Promise<Books> {
  const [rows] = await readTenant<[BooksRow[]]>(pool, tenant, selectBooks(tenant));
  return booksOf(storedOf(rows[0]));
}

/** A change of settings; undefined fields stay. */
export type BooksChange = { [Field in keyof BooksSettings]?: BooksSettings[Field] | undefined };

/**
 * Changes settings; without effect there is no event. `version`: changes only this one. Throws {@link Refusal}: `version_conflict`,
 * `validation_failed` with the tag `immutable` for the time zone while a period is closed, and `account_not_found`, `account_is_group`,
 * `account_is_system` or `account_closed` naming the field.
 */
export function updateBooks(
  pool: Connections,
  tenant: string,
  change: BooksChange,
  version: bigint | undefined,
  context: AuditContext,
): Promise<Books> {
  return inTransaction(pool, [tenant], async (client) => {
    // A tenant gets a head only with an event.
    const isNew = textOf(changed(defaultSettings, change)) !== textOf(defaultSettings);
    const locked = (await lockHead(client, tenant, false)) ?? (isNew ? await lockHead(client, tenant, true) : null);
    const before = await storedBooks(client, tenant);
    if (version !== undefined && version !== before.version) {
      throw refusalOf('version_conflict', `the books have version ${before.version}, not ${version}`, 'version', version.toString());
    }
    const settings = changed(before.settings, change);
    if (!locked || textOf(settings) === textOf(before.settings)) return booksOf(before);
    if (settings.timezone !== before.settings.timezone && before.closedThrough !== null) {
      throw invalid('timezone', 'immutable', settings.timezone, 'timezone can’t be changed while a period is closed');
    }
    await checkAccounts(client, tenant, change);
    const { head, nowMs } = locked;
    const { sequence, createdMs } = nextPosition(head, nowMs);
    const indexedSince = declaredSince(before.indexedSince, settings.indexed_metadata, sequence);
    const after = { ...before, settings, version: before.version + 1n, updatedMs: createdMs, indexedSince };
    await storeBooks(client, tenant, after);
    const payload = toBinary(BooksUpdatedSchema, create(BooksUpdatedSchema, { record: textOf(settings) }));
    await writeEvents(client, [append(head, { type: 'books.updated', ...context, payload }, nowMs)], head, nowMs);
    return booksOf(after);
  });
}

/** A tenant's books, for a caller whose SQL transaction sees its rows. */
export async function storedBooks(client: Client, tenant: string): Promise<StoredBooks> {
  const { rows } = await client.query<BooksRow>(selectBooks(tenant));
  return storedOf(rows[0]);
}

/** Stores books in a transaction that has locked the head. */
export async function storeBooks(client: Client, tenant: string, books: StoredBooks): Promise<void> {
  const { version, settings, closedThrough, finalThrough, openFromMs, updatedMs, indexedSince } = books;
  await client.query({
    name: 'store_books',
    text: `insert into books (tenant_id, version, record, closed_through, final_through, open_from, updated_at, indexed_since)
      values ($1, $2, $3, $4, $5, to_timestamp($6::float8 / 1000.0), to_timestamp($7::float8 / 1000.0), $8)
      on conflict (tenant_id) do update set version = excluded.version, record = excluded.record, closed_through = excluded.closed_through,
        final_through = excluded.final_through, open_from = excluded.open_from, updated_at = excluded.updated_at,
        indexed_since = excluded.indexed_since`,
    values: [tenant, version, textOf(settings), closedThrough, finalThrough, openFromMs, updatedMs, JSON.stringify(indexedSince)],
  });
}

/** Refuses an account that can't take what was earned: it must be an open equity account, no group. */
export function checkRetained(code: string, account: AccountRecord | undefined): void {
  const field = 'retained_earnings_code';
  checkAccount(field, code, account);
  if (account?.isGroup) throw refusalOf('account_is_group', `account ${code} is a group, which takes no postings`, field, code);
  if (account?.status === 'closed') throw refusalOf('account_closed', `account ${code} is closed`, field, code);
  if (account?.type === 'equity') return;
  throw refusalOf('account_not_found', `there is no equity account ${code}: its type is ${account?.type ?? ''}`, field, code);
}

async function checkAccounts(client: Client, tenant: string, change: BooksChange): Promise<void> {
  const { retained_earnings_code: retained, cash_accounts: cash = [] } = change;
  const codes = [...new Set([...(retained === undefined ? [] : [retained]), ...cash])];
  if (codes.length === 0) return;
  const accounts = await accountsByCode(client, tenant, codes);
  if (retained !== undefined) checkRetained(retained, accounts.get(retained));
  cash.forEach((code, index) => checkAccount(`cash_accounts[${index}]`, code, accounts.get(code)));
}

function checkAccount(field: string, code: string, account: AccountRecord | undefined): void {
  if (!account) throw refusalOf('account_not_found', `account ${code} not found`, field, code);
  if (account.system) throw refusalOf('account_is_system', `account ${code} is a system account`, field, code);
}

function changed(settings: BooksSettings, change: BooksChange): BooksSettings {
  return { ...settings, ...Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) };
}

// The fields in one order, so that equal settings are equal texts.
function textOf(settings: BooksSettings): string {
  return JSON.stringify(settings, Object.keys(defaultSettings));
}

function selectBooks(tenant: string): Statement {
  return {
    name: 'get_books',
    text: `select version, record, closed_through::text, final_through::text, ${epochMs('open_from')} as open_from_ms,
        ${epochMs('updated_at')} as updated_ms, indexed_since, array(${readyKeys}) as ready_keys
      from books where tenant_id = $1`,
    values: [tenant],
  };
}

function storedOf(row: BooksRow | undefined): StoredBooks {
  return {
    version: row?.version ?? 0n,
    settings: row ? (JSON.parse(row.record) as BooksSettings) : defaultSettings,
    closedThrough: row?.closed_through ?? null,
    finalThrough: row?.final_through ?? null,
    openFromMs: row?.open_from_ms ?? null,
    updatedMs: row?.updated_ms ?? null,
    indexedSince: row ? (JSON.parse(row.indexed_since) as Record<string, number>) : {},
    readyKeys: row?.ready_keys ?? [],
  };
}

function booksOf({ version, settings, closedThrough, finalThrough, updatedMs, readyKeys }: StoredBooks): Books {
  return create(BooksSchema, {
    timezone: settings.timezone,
    fiscalYearEnd: settings.fiscal_year_end,
    retainedEarningsCode: settings.retained_earnings_code,
    lateEntries: settings.late_entries,
    futureDays: settings.future_days,
    cashAccounts: settings.cash_accounts,
    indexedMetadata: settings.indexed_metadata,
    readyIndexes: readyKeys.filter((key) => settings.indexed_metadata.includes(key)),
    closedThrough: closedThrough ?? undefined,
    finalThrough: finalThrough ?? undefined,
    status: 'active',
    version,
    updatedMs: updatedMs === null ? undefined : BigInt(updatedMs),
  });
}

function refusalOf(reason: Reason, message: string, field: string, value: string): Refusal {
  return new Refusal(reason, message, { field, tag: reason, value });
}
