// Routes that create accounts, one or many.
import { Type, type Static } from 'typebox';
import {
  accountCode,
  accountTypes,
  currency,
  description,
  flag,
  metadata,
  name,
  object,
  onExisting,
  oneOf,
  optional,
  sides,
} from '../fields.ts';
import { metadataText } from '../metadata.ts';
import { accountRules, limitsOf, ruleErrorFields, ruleErrors } from '../payment-fields.ts';
import { accountJson } from '../../services/platform/ledger-records.ts';
import { envelope } from '../mapping.ts';
import { long, record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { exampleAccount, one, send } from './accounts.ts';

// Not a code of any template.
const exampleNewAccount = { ...exampleAccount, account_code: 'MERCHANT-WALLETS-USD', name: 'Merchant wallets USD', parent_code: null };

const newAccount = object({
  account_code: { ...accountCode, example: 'MERCHANT-WALLETS-USD' } as typeof accountCode,
  name: { ...name, example: 'Merchant wallets USD' } as typeof name,
  type: oneOf(accountTypes, { example: 'liability' }),
  normal_balance: optional(
    oneOf(sides, { description: 'Follows from the type by default; the other side makes a contra account.', example: 'credit' }),
  ),
  currency: optional({ ...currency, description: 'All four by default.' } as typeof currency),
  parent_code: optional({ ...accountCode, description: 'A group of the same type.', example: 'CUSTOMER-WALLETS' } as typeof accountCode),
  is_group: optional({ ...flag, description: 'A group takes no postings.', default: false } as typeof flag),
  description: optional(description),
  allow_negative: optional({
    ...flag,
    description: 'false: no posting or hold may leave `available` below zero.',
    default: true,
  } as typeof flag),
  ...accountRules,
  metadata: optional(metadata),
});

const batch = object({
  accounts: Type.Unsafe<Static<typeof newAccount>[]>({
    type: 'array',
    minItems: 1,
    maxItems: 1_000,
    items: newAccount,
    description: 'Each code once. Parents may be among them, in any order.',
  }),
  on_existing: optional(
    oneOf(onExisting, {
      description: '`error`: a code that exists rejects the batch. `skip`: such an account stays as it is, whatever the batch says of it.',
      default: 'error',
      example: 'skip',
    }),
  ),
});

/** A new account as the ledger takes it. `at` stands before the names of its fields in errors. */
function asked(account: Static<typeof newAccount>, at = '') {
  return {
    accountCode: account.account_code,
    name: account.name,
    type: account.type,
    normalBalance: account.normal_balance ?? undefined,
    currency: account.currency ?? undefined,
    parentCode: account.parent_code ?? undefined,
    isGroup: account.is_group ?? false,
    description: account.description ?? undefined,
    allowNegative: account.allow_negative ?? undefined,
    metadata: metadataText(account.metadata, `${at}metadata`),
    limits: limitsOf(account.limits ?? []),
    blocked: account.blocked ?? [],
  };
}

/** `POST /accounts` and `/accounts/batch`. */
export function newAccountRoutes(app: App, { ledger }: Services): void {
  app.post(
    '/v1/tenants/:slug/accounts',
    {
      schema: { body: newAccount },
      config: {
        access: { by: 'key', scope: 'accounts:write' },
        doc: {
          id: 'createAccount',
          tag: 'Accounts',
          summary: 'Create an account',
          description: [
            'The parent must be an active group of the same type, and a chart is at most 32 deep (`parent_invalid`).',
            'Codes of system accounts, such as `SUSPENSE-NGN` and `FX-POSITION-NGN`, are taken (`account_code_taken`). A second call with the same code is rejected the same way.',
          ].join(' '),
          bodies: {
            pool: {
              account_code: 'MERCHANT-WALLETS-USD',
              name: 'Merchant wallets USD',
              type: 'liability',
              currency: 'USD',
              allow_negative: false,
            },
          },
          answers: { 201: { ...one, example: { account: exampleNewAccount }, description: 'Created' } },
          errors: ['account_code_taken', 'parent_invalid', 'account_not_found', ...ruleErrors],
          errorFields: { account_not_found: { field: 'parent_code' }, ...ruleErrorFields('') },
        },
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const rpcRequest = { tenantId: caller.tenantId, ...asked(body), ...auditContext(request) };
      const { account } = await ledger.createAccount(rpcRequest, callOptions(request, 10_000));
      return send(reply.code(201), account);
    },
  );

  app.post(
    '/v1/tenants/:slug/accounts/batch',
    {
      schema: { body: batch },
      config: {
        access: { by: 'key', scope: 'accounts:write' },
        doc: {
          id: 'createAccounts',
          tag: 'Accounts',
          summary: 'Create up to 1,000 accounts',
          description: [
            'All or none, in one commit; the rules are those of a single account, and each account is an event of its own.',
            'Errors name the account and its field, such as `accounts[3].parent_code`. A group that would be below itself is `parent_invalid`.',
            'A second call is rejected (`account_code_taken`); with `on_existing` `skip` it creates what is missing and changes nothing else.',
          ].join(' '),
          bodies: {
            customers: {
              on_existing: 'skip',
              accounts: [
                { account_code: 'CUSTOMERS', name: 'Customers', type: 'liability', is_group: true },
                { account_code: 'CUSTOMER:4711', name: 'Ada Obi', type: 'liability', parent_code: 'CUSTOMERS', allow_negative: false },
              ],
            },
          },
          answers: {
            201: {
              description: 'Every account, in the order of the request, as it is now',
              name: 'Accounts',
              schema: record({
                created: long,
                skipped: { type: 'integer', description: 'Accounts that existed.' },
                accounts: { type: 'array', items: ref('Account') },
              }),
              example: { created: 1, skipped: 0, accounts: [exampleNewAccount] },
            },
          },
          errors: ['account_code_taken', 'parent_invalid', 'account_not_found', 'too_large', ...ruleErrors],
          errorFields: {
            account_code_taken: { field: 'accounts[0].account_code' },
            parent_invalid: { field: 'accounts[1].parent_code' },
            account_not_found: { field: 'accounts[1].parent_code' },
            too_large: { field: 'accounts', value: 1000 },
            ...ruleErrorFields('accounts[0].'),
          },
        },
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const wanted = body.accounts.map((account, place) => asked(account, `accounts[${place}].`));
      const rpcRequest = {
        tenantId: caller.tenantId,
        accounts: wanted,
        onExisting: body.on_existing ?? undefined,
        ...auditContext(request),
      };
      const { created, skipped, accounts } = await ledger.createAccounts(rpcRequest, callOptions(request, 10_000));
      reply.code(201);
      return envelope(reply, `"created":${created},"skipped":${skipped},"accounts":[${accounts.map(accountJson).join()}]`);
    },
  );
}
