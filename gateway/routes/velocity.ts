// Velocity limits: how much may move on one side of an account or group in a window of time.
import { Type, type Static } from 'typebox';
import type { Definition, GetUsageResponse } from '../../proto/gen/ledger/v1/ledger_pb.js';
import {
  accountCode,
  amount,
  calendars,
  currency,
  immutable,
  limitStatuses,
  limitSubjects,
  name,
  object,
  oneOf,
  optional,
  paging,
  side,
  whole,
} from '../fields.ts';
import { timeOf } from '../../services/platform/ledger-records.ts';
import { envelope, pageJson } from '../mapping.ts';
import { examplePagination, pageOf, pathId } from '../pages.ts';
import { pagination, record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';

const window = object({
  rolling_seconds: optional(whole(60, 31_622_400, { description: 'The last so many seconds, in steps of a sixtieth.', example: 86_400 })),
  calendar: optional(oneOf(calendars, { description: 'A week begins on Monday.' })),
  time_zone: optional(Type.Unsafe<string>({ type: 'string', description: 'Of the calendar: an IANA name.', example: 'Africa/Lagos' })),
});

const changeable = {
  max_amount: optional(Type.Unsafe<string>({ ...amount, description: 'Inclusive.', example: '500.00' })),
  max_count: optional(whole(1, 1_000_000_000, { description: 'Transactions and holds, inclusive.', example: 20 })),
  status: optional(oneOf(limitStatuses, { description: 'A paused limit goes on counting, but refuses nothing.' })),
};

const newLimit = object({
  account_code: accountCode,
  applies: optional(
    oneOf(limitSubjects, {
      default: 'account',
      description: 'Of a group: `each` account below it by itself, or the `sum` of all together.',
    }),
  ),
  currency,
  side,
  window: Type.Unsafe<Static<typeof window>>({
    ...window,
    description: 'Either `rolling_seconds`, or `calendar` and `time_zone`.',
    example: { calendar: 'day', time_zone: 'Africa/Lagos' },
  }),
  ...changeable,
  name: optional(name),
});

const changes = object({
  account_code: immutable,
  applies: immutable,
  currency: immutable,
  side: immutable,
  window: immutable,
  ...changeable,
  name: optional(Type.Unsafe<string>({ ...name, minLength: undefined, description: 'Empty: removed.' })),
  version: optional(
    whole(1, Number.MAX_SAFE_INTEGER, { description: 'The version that you have read; any other is rejected.', example: 1 }),
  ),
});

const exampleLimit = {
  limit_id: 'limit_01jd1zq5v8e6n9w2k4m7p3r5t8',
  account_code: 'CUSTOMER-WALLETS',
  applies: 'each',
  currency: 'NGN',
  side: 'debit',
  max_amount: '500.00',
  max_count: null,
  window: { calendar: 'day', time_zone: 'Africa/Lagos' },
  name: 'Daily withdrawals',
  status: 'active',
  version: 1,
  created_at: '2030-01-31T12:00:00.000Z',
  updated_at: '2030-01-31T12:00:00.000Z',
};

const { account_code, applies, currency: of, side: onSide, max_amount, window: daily } = exampleLimit;
const exampleBodies = {
  hourly: {
    ...{ account_code, applies: 'sum', currency: of, side: onSide, max_amount: '1000000.00', max_count: 10_000 },
    window: { rolling_seconds: 3600 },
  },
  daily: { account_code, applies, currency: of, side: onSide, max_amount, window: daily, name: exampleLimit.name },
};

const one = { name: 'Limit', schema: record({ limit: ref('VelocityLimit') }), example: { limit: exampleLimit } };
const tag = 'Limits';
const [read, write] = [{ by: 'key', scope: 'accounts:read' } as const, { by: 'key', scope: 'accounts:write' } as const];
const kind = 'limit';

// The ledger's record is that of REST.
function limitJson(definition: Definition | undefined): string {
  if (!definition) throw new Error('the ledger answered without a limit');
  return definition.record;
}

function usageRecord(usage: GetUsageResponse): Record<string, unknown> {
  const { limitId, accountCode: code, amount: used, count, remainingAmount = null, remainingCount, windowStartMs, windowEndMs } = usage;
  return {
    limit_id: limitId,
    account_code: code,
    amount: used,
    count: Number(count),
    remaining_amount: remainingAmount,
    remaining_count: remainingCount === undefined ? null : Number(remainingCount),
    window_start: timeOf(windowStartMs),
    window_end: timeOf(windowEndMs),
  };
}

/** `/limits` and below. */
export function velocityRoutes(app: App, services: Services): void {
  listRoutes(app, services);
  limitRoutes(app, services);
  usageRoute(app, services);
}

function listRoutes(app: App, { ledger }: Services): void {
  app.post(
    '/v1/tenants/:slug/limits',
    {
      schema: { body: newLimit },
      config: {
        access: write,
        doc: {
          id: 'createLimit',
          tag,
          summary: 'Create a velocity limit',
          description: [
            'Limits how much moves on one side of an account, or of the accounts below a group, in a window of time: by `max_amount`, `max_count`, or both.',
            'From its creation on a transaction counts once, its entries on that side together. A hold counts when it is made, its capture not again; what is released is given back. Reversals neither count nor give back.',
            'A rolling window moves in steps of a sixtieth (whole seconds, rounded up), and its oldest step counts whole: no window ever exceeds the maximum. A calendar window begins anew at local midnight.',
            'Beyond it a request is refused (`limit_exceeded`, tag `max_amount` or `max_count`, value: the limit’s id), unless it has an `override_reason`, which is counted too.',
            'A tenant has at most 1,000 limits (`too_many`). A second call makes a second limit: after a lost answer, list them first.',
          ].join(' '),
          bodies: exampleBodies,
          answers: { 201: { ...one, description: 'Created' } },
          errors: ['account_not_found', 'account_is_group', 'currency_not_allowed', 'too_many'],
          errorFields: {
            account_is_group: { field: 'account_code', value: 'CUSTOMER-WALLETS' },
            currency_not_allowed: { field: 'currency', value: 'USD' },
          },
        },
      },
    },
    async (request, reply) => {
      const rpcRequest = { tenantId: request.caller.tenantId, kind, record: JSON.stringify(request.body), ...auditContext(request) };
      const { definition } = await ledger.putDefinition(rpcRequest, callOptions(request, 10_000));
      return envelope(reply.code(201), `"limit":${limitJson(definition)}`);
    },
  );

  app.get(
    '/v1/tenants/:slug/limits',
    {
      schema: { querystring: object(paging) },
      config: {
        access: read,
        doc: {
          id: 'listLimits',
          tag,
          summary: 'List velocity limits',
          description: 'Newest first.',
          answers: {
            200: {
              description: 'A page of limits',
              schema: record({ limits: { type: 'array', items: ref('VelocityLimit') }, pagination }),
              example: { limits: [exampleLimit], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { caller, query } = request;
      const { limit = 50, cursor = '' } = query;
      const rpcRequest = { tenantId: caller.tenantId, kind, limit, cursor };
      const { definitions, nextCursor } = await ledger.listDefinitions(rpcRequest, callOptions(request, 5_000));
      return envelope(reply, pageJson('limits', definitions.map(limitJson), pageOf(limit, nextCursor)));
    },
  );
}

function limitRoutes(app: App, { ledger }: Services): void {
  const path = '/v1/tenants/:slug/limits/:limit_id';
  app.get(
    path,
    {
      config: {
        access: read,
        doc: {
          id: 'getLimit',
          tag,
          summary: 'Read a velocity limit',
          answers: { 200: { ...one, description: 'The limit' } },
          errors: ['limit_not_found'],
        },
      },
    },
    async (request, reply) => {
      const rpcRequest = { tenantId: request.caller.tenantId, kind, id: pathId('limit_id', request.params) };
      const { definition } = await ledger.getDefinition(rpcRequest, callOptions(request, 5_000));
      return envelope(reply, `"limit":${limitJson(definition)}`);
    },
  );

  app.patch(
    path,
    {
      schema: { body: changes },
      config: {
        access: write,
        doc: {
          id: 'updateLimit',
          tag,
          summary: 'Change a velocity limit',
          description: [
            'Absent or null fields stay as they are. An empty name removes it. What it has counted stays.',
            '`account_code`, `applies`, `currency`, `side` and `window` never change: sending them is an error (tag `immutable`).',
            'A call that changes nothing, such as a second one without `version`, makes no new version and no event.',
          ].join(' '),
          bodies: { raise: { max_amount: '750.00', version: 1 }, pause: { status: 'paused' } },
          bodyOptional: true,
          answers: {
            200: {
              ...one,
              example: { limit: { ...exampleLimit, max_amount: '750.00', version: 2 } },
              description: 'The limit after the change',
            },
          },
          errors: ['limit_not_found', 'version_conflict'],
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      const id = pathId('limit_id', params);
      const rpcRequest = { tenantId: caller.tenantId, kind, id, record: JSON.stringify(body), mustExist: true, ...auditContext(request) };
      const { definition } = await ledger.putDefinition(rpcRequest, callOptions(request, 10_000));
      return envelope(reply, `"limit":${limitJson(definition)}`);
    },
  );

  app.delete(
    path,
    {
      config: {
        access: write,
        doc: {
          id: 'deleteLimit',
          tag,
          summary: 'Delete a velocity limit',
          description: 'It refuses and counts nothing from then on. A second call is rejected (`limit_not_found`).',
          answers: {
            200: {
              description: 'Deleted',
              schema: record({ id: { type: 'string' }, deleted: { type: 'boolean' } }),
              name: 'LimitDeleted',
              example: { id: exampleLimit.limit_id, deleted: true },
            },
          },
          errors: ['limit_not_found'],
        },
      },
    },
    async (request) => {
      const id = pathId('limit_id', request.params);
      await ledger.deleteDefinition(
        { tenantId: request.caller.tenantId, kind, id, ...auditContext(request) },
        callOptions(request, 10_000),
      );
      return { success: true, data: { id, deleted: true } };
    },
  );
}

const usageQuery = object({
  account_code: Type.Optional({
    ...accountCode,
    description: 'Whose use; required where the limit applies to `each` account of a group.',
    example: 'CUSTOMER-WALLETS-NGN',
  } as typeof accountCode),
});

function usageRoute(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/limits/:limit_id/usage',
    {
      schema: { querystring: usageQuery },
      config: {
        access: read,
        doc: {
          id: 'getLimitUsage',
          tag,
          summary: 'Read what a velocity limit has counted',
          description: 'In its present window. An account that the limit does not count is `account_not_found`.',
          answers: {
            200: {
              description: 'The usage',
              schema: record({ usage: ref('LimitUsage') }),
              example: {
                usage: {
                  limit_id: exampleLimit.limit_id,
                  account_code: 'CUSTOMER-WALLETS-NGN',
                  amount: '120.00',
                  count: 2,
                  remaining_amount: '380.00',
                  remaining_count: null,
                  window_start: '2030-01-30T23:00:00.000Z',
                  window_end: '2030-01-31T23:00:00.000Z',
                },
              },
            },
          },
          errors: ['limit_not_found', 'account_not_found'],
        },
      },
    },
    async (request) => {
      const { caller, params, query } = request;
      const rpcRequest = { tenantId: caller.tenantId, limitId: pathId('limit_id', params), accountCode: query.account_code };
      return { success: true, data: { usage: usageRecord(await ledger.getUsage(rpcRequest, callOptions(request, 5_000))) } };
    },
  );
}
