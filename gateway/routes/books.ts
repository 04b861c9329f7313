// The settings of a tenant's books.
import { Type } from 'typebox';
import type { Books } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { accountCode, lateEntries, object, oneOf, optional, patterned, whole } from '../fields.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const text = (description: string, example: string) => Type.Unsafe<string>({ type: 'string', description, example });
const listOf = (items: object, maxItems: number, description: string, example: string[]) =>
  optional(Type.Unsafe<string[]>({ type: 'array', items, maxItems, description, example }));

const changes = object({
  timezone: optional(text('An IANA name. It can’t change while a period is closed (tag `immutable`).', 'Africa/Lagos')),
  fiscal_year_end: optional(text('Last day of the fiscal year, `MM-DD`; `02-29` is the last day of February.', '12-31')),
  retained_earnings_code: optional({
    ...accountCode,
    description: 'An equity account, no group.',
    example: 'RETAINED-EARNINGS',
  } as typeof accountCode),
  late_entries: optional(
    oneOf(lateEntries, { description: 'A posting into a closed period: `refuse` it, or let it count from the first open millisecond on.' }),
  ),
  future_days: optional(whole(0, 3_660, { description: 'How many days ahead a posting may count.', example: 366 })),
  cash_accounts: listOf(accountCode, 50, 'Codes of accounts and groups that the cash flow calls cash.', ['OPERATING-CASH']),
  indexed_metadata: listOf(
    patterned('key', '^[A-Za-z0-9_-]{1,64}$', {}),
    16,
    'Keys of transactions’ `metadata` by which lists can be filtered. Older transactions are indexed in the background.',
    ['order_id'],
  ),
  version: optional(
    whole(0, Number.MAX_SAFE_INTEGER, { description: 'The version that you have read; any other is rejected.', example: 1 }),
  ),
});

const exampleBooks = {
  ...{ timezone: 'Africa/Lagos', fiscal_year_end: '12-31', retained_earnings_code: 'RETAINED-EARNINGS', late_entries: 'refuse' },
  ...{ future_days: 366, cash_accounts: ['OPERATING-CASH'], indexed_metadata: ['order_id'] },
  ...{
    closed_through: '2029-12-31',
    final_through: null,
    status: 'active',
    frozen: null,
    verified: { sequence: 41, at: '2030-01-31T12:00:00.000Z' },
  },
  ...{ indexes: [{ key: 'order_id', status: 'ready' }], version: 3, updated_at: '2030-01-31T12:00:00.000Z' },
};
const one = { name: 'Books', schema: record({ books: ref('Books') }), example: { books: exampleBooks } };
const path = '/v1/tenants/:slug/books';
const tag = 'Books';

function booksRecord(books: Books | undefined): Record<string, unknown> {
  if (!books) throw new Error('the ledger answered without books');
  const { closedThrough = null, finalThrough = null, status, indexedMetadata, readyIndexes, version, updatedMs, frozen, verified } = books;
  return {
    timezone: books.timezone,
    fiscal_year_end: books.fiscalYearEnd,
    retained_earnings_code: books.retainedEarningsCode,
    late_entries: books.lateEntries,
    future_days: books.futureDays,
    cash_accounts: books.cashAccounts,
    indexed_metadata: indexedMetadata,
    closed_through: closedThrough,
    final_through: finalThrough,
    status,
    frozen: frozen ? { at: timeOf(frozen.atMs), reason: frozen.reason, sequence: Number(frozen.sequence) } : null,
    verified: verified ? { sequence: Number(verified.sequence), at: timeOf(verified.atMs) } : null,
    indexes: indexedMetadata.map((key) => ({ key, status: readyIndexes.includes(key) ? 'ready' : 'building' })),
    version: Number(version),
    updated_at: updatedMs === undefined ? null : timeOf(updatedMs),
  };
}

/** `/books`. */
export function booksRoutes(app: App, { ledger, times }: Services): void {
  app.get(
    path,
    {
      config: {
        access: { by: 'key', scope: 'accounts:read' },
        doc: {
          id: 'getBooks',
          tag,
          summary: 'Read the settings of the books',
          description: 'Defaults where nothing was set; then `version` is 0.',
          answers: { 200: { ...one, description: 'The books' } },
        },
      },
    },
    async (request) => {
      const { books } = await ledger.getBooks({ tenantId: request.caller.tenantId }, callOptions(request, 5_000));
      return { success: true, data: { books: booksRecord(books) } };
    },
  );

  app.patch(
    path,
    {
      schema: { body: changes },
      config: {
        access: { by: 'key', scope: 'accounts:write' },
        doc: {
          id: 'updateBooks',
          tag,
          summary: 'Change the settings of the books',
          description: [
            'Absent or null fields stay as they are; a list replaces the one before.',
            'A call that changes nothing, such as a second one without `version`, makes no new version and no event (`books.updated`).',
          ].join(' '),
          bodies: {
            zone: { timezone: 'Africa/Lagos', fiscal_year_end: '12-31' },
            late: { late_entries: 'next_open', version: 1 },
            lists: { cash_accounts: ['OPERATING-CASH'], indexed_metadata: ['order_id'] },
          },
          bodyOptional: true,
          answers: { 200: { ...one, description: 'The books after the change' } },
          errors: ['version_conflict', 'account_not_found', 'account_is_group', 'account_is_system', 'account_closed'],
          errorFields: {
            account_not_found: [{ field: 'retained_earnings_code' }, { field: 'cash_accounts[0]' }],
            account_is_group: { field: 'retained_earnings_code', value: 'EQUITY' },
            account_is_system: { field: 'cash_accounts[0]' },
            account_closed: { field: 'retained_earnings_code', value: 'RETAINED-EARNINGS' },
          },
        },
      },
    },
    async (request) => {
      const { body, caller } = request;
      const rpcRequest = {
        tenantId: caller.tenantId,
        timezone: body.timezone ?? undefined,
        fiscalYearEnd: body.fiscal_year_end ?? undefined,
        retainedEarningsCode: body.retained_earnings_code ?? undefined,
        lateEntries: body.late_entries ?? undefined,
        futureDays: body.future_days ?? undefined,
        cashAccounts: body.cash_accounts == null ? undefined : { items: body.cash_accounts },
        indexedMetadata: body.indexed_metadata == null ? undefined : { items: body.indexed_metadata },
        version: body.version == null ? undefined : BigInt(body.version),
        ...auditContext(request),
      };
      const { books } = await ledger.updateBooks(rpcRequest, callOptions(request, 10_000));
      times.forget(caller.tenantId);
      return { success: true, data: { books: booksRecord(books) } };
    },
  );
}
