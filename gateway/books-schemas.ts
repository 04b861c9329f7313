// Schemas of books and periods in answers, for the OpenAPI document.
import { lateEntries, periodActions } from './fields.ts';
import { freeze } from './proof-schemas.ts';
import { flag, id, integer, list, long, maybe, record, string, time, word, type Schema } from './records.ts';

const day: Schema = { type: 'string', format: 'date' };

const settings = {
  timezone: { ...string, description: 'IANA name: where the days of dates and periods begin.' },
  fiscal_year_end: { ...string, description: 'Last day of the fiscal year, `MM-DD`; `02-29` is the last day of February.' },
  retained_earnings_code: { ...string, description: 'The equity account that takes what a year has earned.' },
  late_entries: {
    ...word(lateEntries),
    description: 'What happens to a posting into a closed period: it is refused, or counts from the first open millisecond on.',
  },
  future_days: { ...integer, description: 'How many days ahead a posting may count.' },
  cash_accounts: { ...list(string), description: 'Codes of accounts and groups that the cash flow calls cash.' },
  indexed_metadata: { ...list(string), description: 'Keys of transactions’ `metadata` by which lists can be filtered.' },
};

/** What a period says in its event as well. */
export const changedPeriod = {
  id: id('period'),
  through: { ...maybe(day), description: 'The last closed day; null: nothing is closed any more.' },
  final: { ...flag, description: 'Closed for ever.' },
  year_end: { ...flag, description: 'Revenue and expense were brought to zero.' },
  closing_transactions: { ...list(id('txn')), description: 'The transactions that did so.' },
  reason: string,
};

/** The schemas by name. */
export const booksSchemas: Record<string, Schema> = {
  BooksSettings: record(settings),
  Books: record({
    ...settings,
    closed_through: { ...maybe(day), description: 'The last closed day; null: nothing is closed.' },
    final_through: { ...maybe(day), description: 'The last day that is closed for ever.' },
    status: word(['active', 'frozen']),
    frozen: {
      ...maybe(freeze),
      description: 'Since when every change is `books_frozen`, and what verification has found; null: the books are active.',
    },
    verified: {
      ...maybe(record({ sequence: long, at: time })),
      description: 'The last event of the last walk over the whole log that found no difference, and its end; null: there was none yet.',
    },
    indexes: {
      ...list(record({ key: string, status: word(['building', 'ready']) })),
      description: 'How far the keys of `indexed_metadata` are indexed.',
    },
    version: { ...long, description: 'Counts changes, closings and reopenings; 0 before the first.' },
    updated_at: maybe(time),
  }),
  Period: record({
    ...changedPeriod,
    action: word(periodActions),
    actor: { ...string, description: 'Id of the key or user, or the name of the internal caller.' },
    created_at: time,
    sequence: { ...long, description: 'Position of its event in the tenant’s log.' },
  }),
};
