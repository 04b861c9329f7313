// Routes of the chart of accounts: set-up from a template, and the tree.
import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { missingScope } from '../auth.ts';
import { asOf, asOfRequest } from '../as-of.ts';
import { validationError } from '../errors.ts';
import { accountCode, businessType, businessTypes, object, oneOf, whole } from '../fields.ts';
import { record, ref } from '../records.ts';
import { auditContext, callOptions, type App } from '../request-context.ts';
import type { Services } from '../services.ts';
import { accountJson } from '../../services/platform/ledger-records.ts';
import { envelope, json, treeJson } from '../mapping.ts';
import { exampleAccount } from './accounts.ts';

const chart = {
  name: 'Chart',
  schema: record({ business_type: { type: 'string', enum: [...businessTypes] }, accounts: { type: 'array', items: ref('Account') } }),
  example: { business_type: 'wallet', accounts: [exampleAccount] },
};
// Documented in full, because a tenant's template can't be changed later.
const commonCodes =
  'PREPAID-EXPENSES FIXED-ASSETS ACCUMULATED-DEPRECIATION ACCOUNTS-PAYABLE ACCRUED-EXPENSES TAXES-PAYABLE SUSPENSE-… SHARE-CAPITAL RETAINED-EARNINGS DIVIDENDS OPENING-BALANCES OTHER-REVENUE SALARIES TECHNOLOGY MARKETING PROFESSIONAL-FEES OFFICE-EXPENSES DEPRECIATION INCOME-TAX';
const codesByType = {
  wallet:
    'SETTLEMENT-… REGULATORY-RESERVE-… PROVIDER-RECEIVABLE OPERATING-CASH CUSTOMER-WALLETS-… WITHDRAWALS-IN-TRANSIT FX-POSITION-… STATUTORY-RESERVE FEES-TRANSACTION FEES-FX FEES-WITHDRAWAL FEE-REFUNDS FX-GAINS INTEREST-INCOME PROVIDER-FEES FX-LOSSES FRAUD-LOSSES',
  exchange:
    'SETTLEMENT-… LIQUIDITY-… COLLATERAL-POSTED OPERATING-CASH CUSTOMER-FUNDS-… CUSTOMER-ORDERS-… WITHDRAWALS-IN-TRANSIT LIQUIDITY-PAYABLE FX-POSITION-… FEES-TRADING SPREAD-INCOME FEES-WITHDRAWAL MAKER-REBATES FX-GAINS LIQUIDITY-COSTS BANK-CHARGES FX-LOSSES SETTLEMENT-LOSSES',
  lending:
    'FUNDING-… LOANS-PRINCIPAL-… INTEREST-RECEIVABLE FEES-RECEIVABLE LOAN-LOSS-ALLOWANCE REPAYMENTS-IN-TRANSIT OPERATING-CASH BORROWER-CREDITS-… DISBURSEMENTS-IN-TRANSIT BORROWINGS INTEREST-PAYABLE DEFERRED-FEES INTEREST-INCOME FEES-ORIGINATION FEES-LATE INTEREST-WAIVED RECOVERIES LOAN-LOSSES INTEREST-EXPENSE COLLECTION-COSTS BANK-CHARGES',
  payment_processor:
    'SETTLEMENT-… ACQUIRER-RECEIVABLE-… AUTHORISED-PAYMENTS CHARGEBACKS-DISPUTED MERCHANT-RECEIVABLE MERCHANT-LOSS-ALLOWANCE OPERATING-CASH MERCHANT-PENDING-… MERCHANT-BALANCES-… MERCHANT-RESERVES-… AUTHORISED-OBLIGATIONS PAYOUTS-IN-TRANSIT FX-POSITION-… FEES-PROCESSING FEES-FX FEES-PAYOUT FEES-CHARGEBACK FEE-REFUNDS FX-GAINS INTERCHANGE SCHEME-FEES ACQUIRER-FEES CHARGEBACK-LOSSES FX-LOSSES',
  other:
    'CASH BANK-… ACCOUNTS-RECEIVABLE DOUBTFUL-DEBT-ALLOWANCE INVENTORY CUSTOMER-DEPOSITS-… DEFERRED-REVENUE BORROWINGS SALES SERVICES SALES-RETURNS COST-OF-SALES BANK-CHARGES BAD-DEBTS INTEREST-EXPENSE',
};

// `CASH`: an account; `BANK-…`: one for each currency.
const asCodes = (codes: string): string =>
  codes
    .split(' ')
    .map((code) => `\`${code}\``)
    .join(', ');

const exampleTotal = { currency: 'USD', debits: '0.00', credits: '100.00', balance: '100.00' };
const exampleGroup = {
  ...exampleAccount,
  id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t7',
  account_code: 'CUSTOMER-WALLETS',
  name: 'Customer wallet pools',
  currency: null,
  parent_code: 'LIABILITIES',
  is_group: true,
  allow_negative: true,
};

const exampleTop = {
  ...exampleGroup,
  id: 'acc_01jd1zq5v8e6n9w2k4m7p3r5t6',
  account_code: 'LIABILITIES',
  name: 'Liabilities',
  parent_code: null,
};
const exampleTree = [exampleAccount, exampleGroup, exampleTop].reduce<object[]>(
  (children, account) => [{ ...account, children_count: children.length, balances: [exampleTotal], children }],
  [],
)[0];

/** `/accounts/setup` and `/accounts/hierarchy`. */
export function chartRoutes(app: App, { ledger, times }: Services): void {
  app.post(
    '/v1/tenants/:slug/accounts/setup',
    {
      schema: { body: object({ business_type: businessType }) },
      config: {
        access: { by: 'key', scope: 'accounts:write' },
        doc: {
          id: 'setUpChart',
          tag: 'Accounts',
          summary: 'Create the chart of accounts of a business',
          description: [
            'Creates all of its accounts or none. The same template again changes nothing; another one is rejected (`chart_exists`).',
            `Every template has ${asCodes(commonCodes)}, where \`…\` is each currency, and also:`,
            Object.entries(codesByType)
              .map(([business, codes]) => `- \`${business}\`: ${asCodes(codes)}`)
              .join('\n'),
            'These are accounts, not groups. Put your own accounts, such as one for each customer, next to them below a group (`GET …/accounts/hierarchy`).',
          ].join('\n\n'),
          bodies: { wallet: { business_type: 'wallet' } },
          answers: {
            201: { ...chart, description: 'Created' },
            200: { ...chart, description: 'Existed already' },
          },
          errors: ['chart_exists', 'account_code_taken'],
          errorFields: { account_code_taken: { value: 'SETTLEMENT-USD' } },
        },
      },
    },
    async (request, reply) => {
      const { body, caller } = request;
      const rpcRequest = { tenantId: caller.tenantId, businessType: body.business_type, ...auditContext(request) };
      const { businessType: made, accounts, created } = await ledger.setUpChart(rpcRequest, callOptions(request, 10_000));
      reply.code(created ? 201 : 200);
      return envelope(reply, `"business_type":${JSON.stringify(made)},"accounts":[${accounts.map(accountJson).join()}]`);
    },
  );

  app.get(
    '/v1/tenants/:slug/accounts/hierarchy',
    {
      schema: {
        querystring: object({
          include: Type.Optional(oneOf(['balances'], { description: 'Needs the scope balances:read too.', example: 'balances' })),
          root: Type.Optional({
            ...accountCode,
            description: 'Only this account and those below it.',
            example: 'LIABILITIES',
          } as typeof accountCode),
          depth: Type.Optional(
            whole(1, 32, { description: 'Levels to show, all by default; 1 is the root, or the top level, alone.', example: 3 }),
          ),
          ...asOf,
        }),
      },
      config: {
        access: { by: 'key', scope: 'accounts:read' },
        doc: {
          id: 'getHierarchy',
          tag: 'Accounts',
          summary: 'Read the chart as a tree',
          description: [
            'An answer of more than 20,000 accounts is rejected (422 `too_large`): read it in parts with `root` and `depth`.',
            'If a single level has more, list its accounts page by page with `GET …/accounts`.',
            'Where `depth` cuts, `children_count` shows that there is more, and balances include it.',
            '`as_of`, `known_at` and `known_sequence` need `include=balances` and bound them as they bound a balance, of at most 100,000 accounts.',
            'Tree and balances are of one moment. A large answer is sent as it is read: a connection that ends early has failed.',
          ].join(' '),
          errors: ['account_not_found', 'too_large'],
          answers: {
            200: {
              description: 'The root, or the accounts without a parent, each with all accounts below it',
              schema: record({ accounts: { type: 'array', items: ref('AccountNode') } }),
              example: { accounts: [exampleTree] },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { caller, query } = request;
      const includeBalances = query.include === 'balances';
      if (includeBalances && !caller.scopes.has('balances:read')) throw missingScope('balances:read');
      if (!includeBalances && Object.keys(asOf).some((name) => query[name as keyof typeof asOf] !== undefined)) {
        const message = 'include must be balances with as_of, known_at or known_sequence';
        throw validationError([{ field: 'include', tag: 'required', value: '', message }]);
      }
      const bounds = await asOfRequest(times, caller.tenantId, query);
      const asked = { tenantId: caller.tenantId, includeBalances, root: query.root, depth: query.depth, ...bounds };
      const parts = treeJson(ledger.streamHierarchy(asked, callOptions(request, 60_000)), includeBalances);
      // An error before the first part is answered as one.
      const first = await parts.next();
      reply.header('content-type', json);
      return reply.send(
        Readable.from(
          (async function* () {
            yield `{"success":true,"data":{"accounts":[${first.value ?? ''}`;
            yield* parts;
            yield ']}}';
          })(),
        ),
      );
    },
  );
}
