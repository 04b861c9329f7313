// Routes of single accounts.
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { AccountRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import {
  accountCode,
  accountStatuses,
  accountTypes,
  description,
  flag,
  immutable,
  metadata,
  name,
  object,
  oneOf,
  optional,
  paging,
  whole,
} from '../fields.ts';
import { metadataText } from '../metadata.ts';
import { accountRules, limitsOf, ruleErrorFields, ruleErrors } from '../payment-fields.ts';
import { examplePagination, pageOf } from '../pages.ts';
import { ApiError } from '../errors.ts';
import { pagination, record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { accountJson } from '../../services/platform/ledger-records.ts';
import { envelope, pageJson } from '../mapping.ts';

/** An account as an example. */
export const exampleAccount = {
  id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t8',
  account_code: 'CUSTOMER-WALLETS-USD',
  name: 'Customer wallet pool (USD)',
  type: 'liability',
  normal_balance: 'credit',
  currency: 'USD',
  parent_code: 'CUSTOMER-WALLETS',
  is_group: false,
  description: null,
  allow_negative: false,
  status: 'active',
  system: false,
  limits: [],
  blocked: [],
  metadata: {},
  version: 1,
  created_at: '2030-01-31T12:00:00.000Z',
  updated_at: '2030-01-31T12:00:00.000Z',
};

const changes = object({
  account_code: immutable,
  name: optional(name),
  type: immutable,
  normal_balance: immutable,
  currency: immutable,
  parent_code: optional({
    ...accountCode,
    description: 'Another group of the same type that is not below the account.',
    example: 'CUSTOMER-WALLETS',
  } as typeof accountCode),
  is_group: immutable,
  description: optional(description),
  allow_negative: optional(flag),
  status: optional(oneOf(accountStatuses, { description: 'An account with a balance cannot be closed.', example: 'closed' })),
  ...accountRules,
  metadata: optional(metadata),
  version: optional(
    whole(1, Number.MAX_SAFE_INTEGER, { description: 'The version that you have read; any other is rejected.', example: 1 }),
  ),
});

const filters = object({
  type: Type.Optional(oneOf(accountTypes, { example: 'liability' })),
  status: Type.Optional(oneOf(accountStatuses, { example: 'active' })),
  parent_code: Type.Optional({ ...accountCode, description: 'An unknown code matches nothing.' } as typeof accountCode),
  ...paging,
});

const codePattern = new RegExp((accountCode as unknown as { pattern: string }).pattern);

/** The account code of a path. Throws `account_not_found` for a malformed one. */
export function codeOf(params: unknown): string {
  const code = (params as Record<string, string>)['account_code'] ?? '';
  if (!codePattern.test(code)) throw new ApiError('account_not_found');
  return code;
}

/** Answers with one account. */
export function send(reply: FastifyReply, account: AccountRecord | undefined): string {
  if (!account) throw new Error('the ledger answered without an account');
  return envelope(reply, `"account":${accountJson(account)}`);
}

/** Answer of one account, for the document. */
export const one = { name: 'Account', schema: record({ account: ref('Account') }), example: { account: exampleAccount } };

/** `/accounts` and `/accounts/code/{account_code}`. */
export function accountRoutes(app: App, { ledger }: Services): void {
  app.get(
    '/v1/tenants/:slug/accounts',
    {
      schema: { querystring: filters },
      config: {
        access: { by: 'key', scope: 'accounts:read' },
        doc: {
          id: 'listAccounts',
          tag: 'Accounts',
          summary: 'List accounts',
          description: 'Newest first.',
          answers: {
            200: {
              description: 'A page of accounts',
              schema: record({ accounts: { type: 'array', items: ref('Account') }, pagination }),
              example: { accounts: [exampleAccount], pagination: examplePagination },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { caller, query } = request;
      const { type, status, parent_code, limit = 50, cursor = '' } = query;
      const rpcRequest = { tenantId: caller.tenantId, type, status, parentCode: parent_code, limit, cursor };
      const { accounts, nextCursor } = await ledger.listAccounts(rpcRequest, callOptions(request, 5_000));
      return envelope(reply, pageJson('accounts', accounts.map(accountJson), pageOf(limit, nextCursor)));
    },
  );

  app.get(
    '/v1/tenants/:slug/accounts/code/:account_code',
    {
      config: {
        access: { by: 'key', scope: 'accounts:read' },
        doc: {
          id: 'getAccount',
          tag: 'Accounts',
          summary: 'Read an account',
          answers: { 200: { ...one, description: 'The account' } },
          errors: ['account_not_found'],
        },
      },
    },
    async (request, reply) => {
      const { caller, params } = request;
      const { account } = await ledger.getAccount({ tenantId: caller.tenantId, accountCode: codeOf(params) }, callOptions(request, 5_000));
      return send(reply, account);
    },
  );

  app.patch(
    '/v1/tenants/:slug/accounts/code/:account_code',
    {
      schema: { body: changes },
      config: {
        access: { by: 'key', scope: 'accounts:write' },
        doc: {
          id: 'updateAccount',
          tag: 'Accounts',
          summary: 'Change an account',
          description: [
            'Absent or null fields stay as they are. An empty description removes it. `metadata` replaces the previous one as a whole.',
            '`account_code`, `type`, `normal_balance`, `currency` and `is_group` never change: sending them is an error (tag `immutable`).',
            'A call that changes nothing, such as a second one without `version`, makes no new version and no event.',
            '`parent_code` moves an account or group with all below it; the new parent fits as for a new account, and is not the group itself or below it (`parent_invalid`). Balances and history stay.',
            'An account with a balance and a group with active accounts cannot be closed (`account_not_empty`). An account below a closed group cannot be reopened (`parent_invalid`).',
            '`allow_negative` cannot become false while `available` is below zero (`insufficient_funds`).',
          ].join(' '),
          bodies: {
            rename: { name: 'Wallets of customers, USD', version: 1 },
            move: { parent_code: 'LIABILITIES' },
            close: { status: 'closed' },
          },
          bodyOptional: true,
          answers: {
            200: {
              ...one,
              example: { account: { ...exampleAccount, name: 'Wallets of customers, USD', version: 2 } },
              description: 'The account after the change',
            },
          },
          errors: [
            'account_not_found',
            'account_is_system',
            'version_conflict',
            'account_not_empty',
            'parent_invalid',
            'insufficient_funds',
            ...ruleErrors,
          ],
          errorFields: {
            account_not_found: { field: 'parent_code' },
            parent_invalid: [{ field: 'parent_code' }, { field: 'status', value: 'active' }],
            insufficient_funds: { field: 'allow_negative', value: false },
            ...ruleErrorFields(''),
          },
        },
      },
    },
    async (request, reply) => {
      const { body, caller, params } = request;
      // Errors of the body come before `account_not_found`.
      const freeText = body.metadata == null ? undefined : metadataText(body.metadata);
      const { account } = await ledger.updateAccount(
        {
          tenantId: caller.tenantId,
          accountCode: codeOf(params),
          name: body.name ?? undefined,
          parentCode: body.parent_code ?? undefined,
          description: body.description ?? undefined,
          metadata: freeText,
          allowNegative: body.allow_negative ?? undefined,
          status: body.status ?? undefined,
          limits: body.limits == null ? undefined : { limits: limitsOf(body.limits) },
          blocked: body.blocked == null ? undefined : { sides: body.blocked },
          version: body.version == null ? undefined : BigInt(body.version),
          ...auditContext(request),
        },
        callOptions(request, 10_000),
      );
      return send(reply, account);
    },
  );
}
