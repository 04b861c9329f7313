// Periods of a tenant's books: closed, reopened and listed.
import { Type } from 'typebox';
import type { Period } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { changedPeriod } from '../../services/platform/books-records.ts';
import { flag, object, optional, paging } from '../fields.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { examplePagination, pageOf } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const day = Type.Unsafe<string>({ type: 'string', format: 'date', example: '2025-12-31' });
const reason = (options: object) => Type.Unsafe<string>({ type: 'string', maxLength: 1000, example: 'Approved by the board', ...options });

const closing = object({
  through: Type.Unsafe<string>({ ...day, description: 'The last day to be closed, in the books’ time zone. It must be over.' }),
  final: optional(Type.Unsafe<boolean>({ ...flag, description: 'For ever: nobody can reopen it.' })),
  year_end: optional(
    Type.Unsafe<boolean>({
      ...flag,
      description: 'Brings revenue and expense to zero against `retained_earnings_code`, in the same commit.',
    }),
  ),
  reason: optional(reason({})),
});
const reopening = object({
  through: Type.Unsafe<string | null>({ ...day, type: ['string', 'null'], description: 'The last day that stays closed; null: none.' }),
  reason: reason({ minLength: 1 }),
});

const examplePeriod = {
  ...{ id: 'period_01jd1zq5v8e6n9w2k4m7p3r5t8', action: 'close', through: '2025-12-31', final: false, year_end: true },
  ...{ closing_transactions: ['txn_01jd1zq5v8e6n9w2k4m7p3r5t8'], reason: 'Approved by the board' },
  ...{ actor: 'key_01jd1zq5v8e6n9w2k4m7p3r5t8', created_at: '2030-01-31T12:00:00.000Z', sequence: 35 },
};
const exampleReopening = {
  ...{ ...examplePeriod, action: 'reopen', through: '2025-11-30', year_end: false, closing_transactions: [] },
  ...{ reason: 'A late invoice', sequence: 36 },
};
const one = { name: 'Period', schema: record({ period: ref('Period') }), example: { period: examplePeriod } };
const tag = 'Books';

function periodRecord(period: Period | undefined): Record<string, unknown> {
  if (!period) throw new Error('the ledger answered without a period');
  const { action, actor, createdMs, sequence } = period;
  return { ...changedPeriod(period), action, actor, created_at: timeOf(createdMs), sequence: Number(sequence) };
}

/** `/periods` and below. */
export function periodRoutes(app: App, services: Services): void {
  closeRoute(app, services);
  reopenRoute(app, services);
  listRoute(app, services);
}

function closeRoute(app: App, { ledger }: Services): void {
  app.post(
    '/v1/tenants/:slug/periods/close',
    {
      schema: { body: closing },
      config: {
        access: { by: 'key', scope: 'periods:close' },
        doc: {
          id: 'closePeriod',
          tag,
          summary: 'Close a period',
          description: [
            'Closes all that counts until the end of a day: a posting dated before is refused (`period_closed`), or counts from the first open millisecond on, as the books’ `late_entries` says. Postings without `effective_at` are not affected.',
            'With `year_end` transactions of the kind `closing`, dated the last millisecond, bring each balance of revenue and expense to zero, by currency, with at most 200 entries each. Blocks and limits of accounts don’t refuse them. Closed again after a reopening, they move only the difference. The tenant’s other postings wait meanwhile: with 20,000 balances some seconds.',
            'A second call changes nothing and answers the first period with 200. One with a new `final` or `year_end` on the same day is a period of its own.',
          ].join('\n\n'),
          bodies: {
            forEver: { through: '2024-12-31', final: true },
            month: { through: '2025-11-30' },
            year: { through: '2025-12-31', year_end: true, reason: 'Approved by the board' },
          },
          answers: { 201: { ...one, description: 'Closed' }, 200: { ...one, description: 'It was closed so already' } },
          errors: [
            ...(['period_not_over', 'period_closed', 'report_too_large'] as const),
            ...(['account_not_found', 'account_is_group', 'account_closed', 'currency_not_allowed', 'balance_overflow'] as const),
          ],
          errorFields: {
            period_closed: { field: 'through', value: '2024-12-31' },
            account_not_found: { field: 'retained_earnings_code', value: 'RETAINED-EARNINGS' },
            account_is_group: { field: 'retained_earnings_code', value: 'EQUITY' },
            account_closed: { field: 'year_end', value: 'FEES-OLD' },
            report_too_large: { field: 'year_end', tag: 'report_too_large', value: true },
            currency_not_allowed: { field: 'retained_earnings_code', value: 'RETAINED-EARNINGS' },
            balance_overflow: { field: 'retained_earnings_code', value: 'RETAINED-EARNINGS' },
          },
        },
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const { period, repeated } = await ledger.closePeriod(
        {
          tenantId: caller.tenantId,
          through: body.through,
          final: body.final ?? false,
          yearEnd: body.year_end ?? false,
          reason: body.reason ?? '',
          ...auditContext(request),
        },
        callOptions(request, 20_000),
      );
      reply.code(repeated ? 200 : 201);
      return { success: true, data: { period: periodRecord(period) } };
    },
  );
}

function reopenRoute(app: App, { ledger }: Services): void {
  app.post(
    '/v1/tenants/:slug/periods/reopen',
    {
      schema: { body: reopening },
      config: {
        access: { by: 'key', scope: 'periods:reopen' },
        doc: {
          id: 'reopenPeriod',
          tag,
          summary: 'Reopen periods',
          description:
            'Leaves closed only what ends at or before a day. Closing transactions stay: reverse them, or close the year again. A repeated call answers the same period with 200.',
          bodies: {
            part: { through: '2025-11-30', reason: 'A late invoice' },
            all: { through: null, reason: 'Books of the trial month' },
          },
          answers: {
            201: { ...one, example: { period: exampleReopening }, description: 'Reopened' },
            200: { ...one, example: { period: exampleReopening }, description: 'It was reopened so already' },
          },
          errors: ['period_final', 'period_closed'],
          errorFields: { period_closed: { field: 'through', value: '2030-01-31' } },
        },
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const rpcRequest = { tenantId: caller.tenantId, through: body.through ?? undefined, reason: body.reason, ...auditContext(request) };
      const { period, repeated } = await ledger.reopenPeriod(rpcRequest, callOptions(request, 10_000));
      reply.code(repeated ? 200 : 201);
      return { success: true, data: { period: periodRecord(period) } };
    },
  );
}

function listRoute(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/periods',
    {
      schema: { querystring: object(paging) },
      config: {
        access: { by: 'key', scope: 'accounts:read' },
        doc: {
          id: 'listPeriods',
          tag,
          summary: 'List closings and reopenings',
          description: 'Newest first. What is closed now stands in `closed_through` of the books.',
          answers: {
            200: {
              description: 'A page of periods',
              schema: record({ periods: { type: 'array', items: ref('Period') }, pagination }),
              example: { periods: [examplePeriod], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request) => {
      const { caller, query } = request;
      const { limit = 50, cursor = '' } = query;
      const page = await ledger.listPeriods({ tenantId: caller.tenantId, limit, cursor }, callOptions(request, 5_000));
      return { success: true, data: { periods: page.periods.map(periodRecord), pagination: pageOf(limit, page.nextCursor) } };
    },
  );
}
