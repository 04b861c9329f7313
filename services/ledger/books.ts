// Settings of a tenant's books and what is closed of them: as they are stored, and reads of them.
import { create } from '@bufbuild/protobuf';
import { BooksSchema, type Books } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { epochMs, readTenant, type Client, type Connections, type Statement } from '../platform/postgres.ts';
import { readyKeys } from './metadata-indexes.ts';

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
  const [rows, watched] = await readTenant<[BooksRow[], WatchedRow[]]>(pool, tenant, selectBooks(tenant), selectWatched(tenant));
  return booksOf(storedOf(rows[0]), watched[0]);
}

/** What the auditor's watch says of a tenant's books. */
interface WatchedRow {
  frozen_ms: number | null;
  frozen_sequence: bigint | null;
  reason: string | null;
  verified_ms: number | null;
  verified_sequence: bigint | null;
}

/** The same, for a caller whose SQL transaction sees its rows. */
export async function watchedBooks(client: Client, tenant: string): Promise<WatchedRow | undefined> {
  return (await client.query<WatchedRow>(selectWatched(tenant))).rows[0];
}

function selectWatched(tenant: string): Statement {
  return {
    name: 'watched_books',
    text: `select ${epochMs('f.at')} as frozen_ms, f.sequence as frozen_sequence, f.reason, ${epochMs('v.verified_at')} as verified_ms,
        v.sequence as verified_sequence
      from (select * from freezes where tenant_id = $1) f full join (select * from verifications where tenant_id = $1) v using (tenant_id)`,
    values: [tenant],
  };
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

/** Settings as JSON: the fields in one order, so that equal settings are equal texts. */
export function textOf(settings: BooksSettings): string {
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

/** Books as their message. */
export function booksOf(
  { version, settings, closedThrough, finalThrough, updatedMs, readyKeys }: StoredBooks,
  watched?: WatchedRow,
): Books {
  const {
    frozen_ms: frozenMs = null,
    frozen_sequence: sequence,
    reason,
    verified_ms: verifiedMs = null,
    verified_sequence: verified,
  } = watched ?? {};
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
    status: frozenMs === null ? 'active' : 'frozen',
    version,
    updatedMs: updatedMs === null ? undefined : BigInt(updatedMs),
    ...(frozenMs !== null && { frozen: { atMs: BigInt(frozenMs), reason: reason ?? '', sequence: sequence ?? 0n } }),
    ...(verifiedMs !== null && { verified: { atMs: BigInt(verifiedMs), sequence: verified ?? 0n } }),
  });
}
