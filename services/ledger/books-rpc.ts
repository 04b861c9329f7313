// The RPCs of a tenant's books and their periods: check the request's fields, then run the use case.
import type { ServiceImpl } from '@connectrpc/connect';
import type { LedgerService, UpdateBooksRequest } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { dayOf, isFiscalYearEnd, isTimeZone } from '../platform/calendar.ts';
import { getBooks } from './books.ts';
import { updateBooks, type BooksChange } from './books-update.ts';
import { checkedCode, checkedText, invalid, oneOf, optional, tenantOf } from './fields.ts';
import { auditContextOf, withTraceparent } from './mapping.ts';
import { pageOf } from './page.ts';
import { closePeriod, listPeriods, reopenPeriod } from './periods.ts';
import type { TenantCalls } from './tenant-calls.ts';

const maxFutureDays = 3_660;
const maxCashAccounts = 50;
const maxIndexedKeys = 16;

/** Handlers of books and periods. They throw {@link Refusal} and, if too many calls wait, Overloaded. */
export function booksHandlers({ pool, changed }: TenantCalls): Partial<ServiceImpl<typeof LedgerService>> {
  return {
    async getBooks(request, { signal }) {
      const tenant = tenantOf(request);
      return { books: await getBooks(pool.of(tenant, signal), tenant) };
    },
    async updateBooks(request, context) {
      const tenant = tenantOf(request);
      const change = checkedChange(request);
      const { version } = request;
      if (version !== undefined && version < 0n) throw invalid('version', 'min', String(version), 'version must not be below zero');
      const auditContext = auditContextOf(withTraceparent(request, context));
      return { books: await changed(tenant, context, (own) => updateBooks(own, tenant, change, version, auditContext)) };
    },
    async closePeriod(request, context) {
      const tenant = tenantOf(request);
      const { final, yearEnd } = request;
      const wanted = { through: checkedDay(request.through), final, yearEnd, reason: checkedText('reason', request.reason, { max: 1000 }) };
      const auditContext = auditContextOf(withTraceparent(request, context));
      return changed(tenant, context, (own) => closePeriod(own, tenant, wanted, auditContext));
    },
    async reopenPeriod(request, context) {
      const tenant = tenantOf(request);
      const through = optional(request.through, checkedDay) ?? null;
      const wanted = { through, reason: checkedText('reason', request.reason, { min: 1, max: 1000 }) };
      const auditContext = auditContextOf(withTraceparent(request, context));
      return changed(tenant, context, (own) => reopenPeriod(own, tenant, wanted, auditContext));
    },
    async listPeriods(request, { signal }) {
      const tenant = tenantOf(request);
      return listPeriods(pool.of(tenant, signal), tenant, pageOf(request));
    },
  };
}

function checkedChange(request: UpdateBooksRequest): BooksChange {
  return {
    timezone: optional(request.timezone, checkedZone),
    fiscal_year_end: optional(request.fiscalYearEnd, checkedYearEnd),
    retained_earnings_code: optional(request.retainedEarningsCode, (code) => checkedCode('retained_earnings_code', code)),
    late_entries: optional(request.lateEntries, (text) => oneOf('late_entries', text, ['refuse', 'next_open'])),
    future_days: optional(request.futureDays, checkedDays),
    cash_accounts: optional(request.cashAccounts?.items, (codes) => checkedList('cash_accounts', codes, maxCashAccounts, checkedCode)),
    indexed_metadata: optional(request.indexedMetadata?.items, (keys) =>
      checkedList('indexed_metadata', keys, maxIndexedKeys, checkedMetadataKey),
    ),
  };
}

// Nothing counts before 1970.
function checkedDay(text: string): string {
  const day = dayOf(text);
  if (text === '') throw invalid('through', 'required', text, 'through is required');
  if (day === null) throw invalid('through', 'datetime', text, 'through must be a date like 2030-01-31');
  if (day < 0) throw invalid('through', 'min', text, 'through must not be before 1970-01-01');
  return text;
}

function checkedZone(text: string): string {
  if (isTimeZone(text)) return text;
  throw invalid('timezone', 'timezone', text, 'timezone must be a name of the IANA time zone database like Africa/Lagos');
}

function checkedYearEnd(text: string): string {
  if (isFiscalYearEnd(text)) return text;
  throw invalid('fiscal_year_end', 'datetime', text, 'fiscal_year_end must be a day of a year like 12-31');
}

function checkedDays(days: number): number {
  const tag = days < 0 ? 'min' : 'max';
  if (days < 0 || days > maxFutureDays) throw invalid('future_days', tag, String(days), `future_days must be from 0 to ${maxFutureDays}`);
  return days;
}

function checkedMetadataKey(field: string, key: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(key)) return key;
  throw invalid(field, key === '' ? 'required' : 'key', key, `${field} must be 1 to 64 letters, digits, _ and -`);
}

function checkedList(field: string, items: string[], max: number, check: (field: string, item: string) => string): string[] {
  if (items.length > max) throw invalid(field, 'max', String(items.length), `${field} must have at most ${max} items`);
  return items.map((item, index) => {
    const path = `${field}[${index}]`;
    if (items.indexOf(item) < index) throw invalid(path, 'unique', item, `${path} repeats ${field}[${items.indexOf(item)}]`);
    return check(path, item);
  });
}
