// Settings of a tenant's books: what is stored of them, and reads.
import { create } from '@bufbuild/protobuf';
import { BooksSchema, type Books } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { epochMs, readTenant, type Connections } from '../platform/postgres.ts';

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

interface BooksRow {
  version: bigint;
  record: string;
  closed_through: string | null;
  final_through: string | null;
  updated_ms: number;
}

/** A tenant's books. */
export async function getBooks(pool: Connections, tenant: string): Promise<Books> {
  const [rows] = await readTenant<[BooksRow[]]>(pool, tenant, {
    name: 'get_books',
    text: `select version, record, closed_through::text, final_through::text, ${epochMs('updated_at')} as updated_ms
      from books where tenant_id = $1`,
    values: [tenant],
  });
  const row = rows[0];
  const settings = row ? (JSON.parse(row.record) as BooksSettings) : defaultSettings;
  return create(BooksSchema, {
    timezone: settings.timezone,
    fiscalYearEnd: settings.fiscal_year_end,
    retainedEarningsCode: settings.retained_earnings_code,
    lateEntries: settings.late_entries,
    futureDays: settings.future_days,
    cashAccounts: settings.cash_accounts,
    indexedMetadata: settings.indexed_metadata,
    closedThrough: row?.closed_through ?? undefined,
    finalThrough: row?.final_through ?? undefined,
    status: 'active',
    version: row?.version ?? 0n,
    updatedMs: row ? BigInt(row.updated_ms) : undefined,
  });
}
