// What the writer reads of a tenant's books before it decides.
import { uuidArray } from '../platform/arrays.ts';
import { epochMs, type Client } from '../platform/postgres.ts';
import { defaultDateRules, type DateRules } from './effective-time.ts';
import type { Head } from './log.ts';

/** Settings that postings depend on. */
export interface BooksRules extends DateRules {
  /** Keys of metadata whose texts are indexed. */
  indexedKeys: readonly string[];
}

/** Those of books without settings. */
export const defaultBooks: BooksRules = { ...defaultDateRules, indexedKeys: [] };

interface BooksRow {
  tenant_id: string;
  record: string;
  open_from_ms: number | null;
}

/** Reads the books of tenants whose state has none yet. They change by events only, so what was read is good as long as the head stands. */
export async function readBooks(client: Client, states: { head: Head; books?: BooksRules }[]): Promise<void> {
  const unread = states.filter(({ books }) => books === undefined);
  if (unread.length === 0) return;
  const { rows } = await client.query<BooksRow>({
    name: 'books_of_tenants',
    text: `select b.tenant_id, b.record, ${epochMs('b.open_from')} as open_from_ms from unnest($1::uuid[]) as wanted (tenant), lateral (
        select * from books where tenant_id = wanted.tenant offset 0) b`,
    values: [uuidArray(unread.map(({ head }) => head.tenant))],
  });
  const found = new Map(rows.map((row) => [row.tenant_id, rulesOf(row)]));
  for (const state of unread) state.books = found.get(state.head.tenant) ?? defaultBooks;
}

function rulesOf({ record, open_from_ms: openFromMs }: BooksRow): BooksRules {
  const settings = JSON.parse(record) as { late_entries: DateRules['lateEntries']; future_days: number; indexed_metadata: string[] };
  return { futureDays: settings.future_days, lateEntries: settings.late_entries, openFromMs, indexedKeys: settings.indexed_metadata };
}
