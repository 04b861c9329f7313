import type { AccountNode } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { toMinor } from '../platform/money.ts';
import { businessTypes, normalSide, templates, type BusinessType } from './templates.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

describe.each(businessTypes)('the template of %s', (business) => {
  const lines = templates[business];
  const byCode = new Map(lines.map((line) => [line.code, line]));

  test('has each code once, and each parent before its children, as a group of the same type', () => {
    expect(byCode.size).toBe(lines.length);
    lines.forEach((line, place) => {
      expect(line.code).toMatch(/^[A-Z][A-Z0-9-]{0,63}$/);
      if (line.parentCode === null) return;
      const parent = byCode.get(line.parentCode)!;
      expect(lines.indexOf(parent)).toBeLessThan(place);
      expect(parent).toMatchObject({ isGroup: true, type: line.type });
    });
  });

  test('has suspense accounts for each currency and opening balances', () => {
    for (const currency of ['NGN', 'USD', 'EUR', 'GBP']) {
      const suspense = { type: 'liability', normalBalance: 'credit', currency, allowNegative: true, system: true, isGroup: false };
      expect(byCode.get(`SUSPENSE-${currency}`)).toMatchObject(suspense);
      if (['wallet', 'exchange', 'payment_processor'].includes(business)) {
        expect(byCode.get(`FX-POSITION-${currency}`)).toMatchObject(suspense);
      } else expect(byCode.has(`FX-POSITION-${currency}`)).toBe(false);
    }
    expect(byCode.get('OPENING-BALANCES')).toMatchObject({ type: 'equity', currency: null, system: false });
  });

  test('forbids negative balances of money owed to customers only, and has contra accounts', () => {
    const kept = lines.filter((line) => !line.allowNegative);
    expect(kept.length).toBeGreaterThanOrEqual(4);
    for (const line of kept) expect(line).toMatchObject({ type: 'liability', normalBalance: 'credit', isGroup: false });
    expect(lines.some((line) => line.normalBalance !== normalSide(line.type))).toBe(true);
  });
});

test('the wallet has more than 25 accounts in the five groups of a wallet’s chart', () => {
  const accounts = templates.wallet.filter((line) => !line.isGroup);
  expect(accounts.length).toBeGreaterThan(25);
  const codes = accounts.map((line) => line.code);
  expect(codes).toEqual(
    expect.arrayContaining([
      ...['SETTLEMENT-NGN', 'SETTLEMENT-USD'],
      ...['CUSTOMER-WALLETS-NGN', 'CUSTOMER-WALLETS-USD', 'CUSTOMER-WALLETS-EUR', 'CUSTOMER-WALLETS-GBP'],
      ...['FEES-TRANSACTION', 'FEES-FX'],
      ...['REGULATORY-RESERVE-NGN', 'REGULATORY-RESERVE-USD'],
      ...['SALARIES', 'SHARE-CAPITAL', 'OTHER-REVENUE'],
    ]),
  );
});

/** Typical events of a business, and their entries. */
const lives: Record<BusinessType, [event: string, ...entries: string[]][]> = {
  wallet: [
    ['capital paid in', 'OPERATING-CASH debit 5000000.00 NGN', 'SHARE-CAPITAL credit 5000000.00 NGN'],
    ['deposit', 'SETTLEMENT-NGN debit 200000.00 NGN', 'CUSTOMER-WALLETS-NGN credit 200000.00 NGN'],
    ['deposit in dollars', 'SETTLEMENT-USD debit 500.00 USD', 'CUSTOMER-WALLETS-USD credit 500.00 USD'],
    ['transfer between customers', 'CUSTOMER-WALLETS-NGN debit 20000.00 NGN', 'CUSTOMER-WALLETS-NGN credit 20000.00 NGN'],
    ['fee', 'CUSTOMER-WALLETS-NGN debit 50.00 NGN', 'FEES-TRANSACTION credit 46.51 NGN', 'TAXES-PAYABLE credit 3.49 NGN'],
    [
      'exchange of dollars',
      ...['CUSTOMER-WALLETS-USD debit 100.00 USD', 'FX-POSITION-USD credit 100.00 USD'],
      ...['FX-POSITION-NGN debit 150000.00 NGN', 'CUSTOMER-WALLETS-NGN credit 148500.00 NGN', 'FEES-FX credit 1500.00 NGN'],
    ],
    ['withdrawal asked for', 'CUSTOMER-WALLETS-NGN debit 60000.00 NGN', 'WITHDRAWALS-IN-TRANSIT credit 60000.00 NGN'],
    ['withdrawal paid', 'WITHDRAWALS-IN-TRANSIT debit 60000.00 NGN', 'SETTLEMENT-NGN credit 60000.00 NGN'],
    ['regulatory reserve', 'REGULATORY-RESERVE-NGN debit 10000.00 NGN', 'OPERATING-CASH credit 10000.00 NGN'],
    ['provider charges', 'PROVIDER-FEES debit 120.00 NGN', 'SETTLEMENT-NGN credit 120.00 NGN'],
    ['fee given back', 'FEE-REFUNDS debit 46.51 NGN', 'CUSTOMER-WALLETS-NGN credit 46.51 NGN'],
    ['salaries', 'SALARIES debit 900000.00 NGN', 'OPERATING-CASH credit 900000.00 NGN'],
    ['unknown receipt', 'SETTLEMENT-NGN debit 777.00 NGN'],
  ],
  exchange: [
    ['capital paid in', 'OPERATING-CASH debit 100000.00 GBP', 'SHARE-CAPITAL credit 100000.00 GBP'],
    ['deposit', 'SETTLEMENT-GBP debit 1000.00 GBP', 'CUSTOMER-FUNDS-GBP credit 1000.00 GBP'],
    ['order placed', 'CUSTOMER-FUNDS-GBP debit 400.00 GBP', 'CUSTOMER-ORDERS-GBP credit 400.00 GBP'],
    [
      'order filled',
      ...['CUSTOMER-ORDERS-GBP debit 400.00 GBP', 'FX-POSITION-GBP credit 398.00 GBP', 'FEES-TRADING credit 2.00 GBP'],
      ...['FX-POSITION-EUR debit 460.00 EUR', 'CUSTOMER-FUNDS-EUR credit 459.00 EUR', 'SPREAD-INCOME credit 1.00 EUR'],
    ],
    [
      'position covered',
      ...['FX-POSITION-GBP debit 398.00 GBP', 'LIQUIDITY-PAYABLE credit 398.00 GBP'],
      ...['LIQUIDITY-EUR debit 460.50 EUR', 'FX-POSITION-EUR credit 460.00 EUR', 'FX-GAINS credit 0.50 EUR'],
    ],
    ['provider paid', 'LIQUIDITY-PAYABLE debit 398.00 GBP', 'SETTLEMENT-GBP credit 398.00 GBP'],
    ['commission', 'LIQUIDITY-COSTS debit 1.25 GBP', 'OPERATING-CASH credit 1.25 GBP'],
    ['maker rebate', 'MAKER-REBATES debit 0.10 GBP', 'CUSTOMER-FUNDS-GBP credit 0.10 GBP'],
    ['withdrawal asked for', 'CUSTOMER-FUNDS-EUR debit 200.00 EUR', 'WITHDRAWALS-IN-TRANSIT credit 200.00 EUR'],
    ['funds brought home', 'SETTLEMENT-EUR debit 460.50 EUR', 'LIQUIDITY-EUR credit 460.50 EUR'],
    ['withdrawal paid', 'WITHDRAWALS-IN-TRANSIT debit 200.00 EUR', 'SETTLEMENT-EUR credit 200.00 EUR'],
  ],
  lending: [
    ['funders lend', 'FUNDING-NGN debit 10000000.00 NGN', 'BORROWINGS credit 10000000.00 NGN'],
    [
      'disbursement',
      ...['LOANS-PRINCIPAL-NGN debit 500000.00 NGN', 'DISBURSEMENTS-IN-TRANSIT credit 490000.00 NGN', 'DEFERRED-FEES credit 10000.00 NGN'],
    ],
    ['disbursement paid', 'DISBURSEMENTS-IN-TRANSIT debit 490000.00 NGN', 'FUNDING-NGN credit 490000.00 NGN'],
    ['second loan', 'LOANS-PRINCIPAL-NGN debit 80000.00 NGN', 'FUNDING-NGN credit 80000.00 NGN'],
    ['interest accrued', 'INTEREST-RECEIVABLE debit 25000.00 NGN', 'INTEREST-INCOME credit 25000.00 NGN'],
    ['origination fee earned', 'DEFERRED-FEES debit 2500.00 NGN', 'FEES-ORIGINATION credit 2500.00 NGN'],
    [
      'repayment',
      ...['REPAYMENTS-IN-TRANSIT debit 130000.00 NGN', 'LOANS-PRINCIPAL-NGN credit 100000.00 NGN'],
      ...['INTEREST-RECEIVABLE credit 25000.00 NGN', 'BORROWER-CREDITS-NGN credit 5000.00 NGN'],
    ],
    [
      'collector settles',
      'FUNDING-NGN debit 129000.00 NGN',
      'COLLECTION-COSTS debit 1000.00 NGN',
      'REPAYMENTS-IN-TRANSIT credit 130000.00 NGN',
    ],
    ['late fee', 'FEES-RECEIVABLE debit 1500.00 NGN', 'FEES-LATE credit 1500.00 NGN'],
    ['late fee waived', 'INTEREST-WAIVED debit 1500.00 NGN', 'FEES-RECEIVABLE credit 1500.00 NGN'],
    ['expected losses', 'LOAN-LOSSES debit 90000.00 NGN', 'LOAN-LOSS-ALLOWANCE credit 90000.00 NGN'],
    ['write-off', 'LOAN-LOSS-ALLOWANCE debit 80000.00 NGN', 'LOANS-PRINCIPAL-NGN credit 80000.00 NGN'],
    ['recovery', 'FUNDING-NGN debit 12000.00 NGN', 'RECOVERIES credit 12000.00 NGN'],
    ['interest to funders', 'INTEREST-EXPENSE debit 40000.00 NGN', 'INTEREST-PAYABLE credit 40000.00 NGN'],
  ],
  payment_processor: [
    ['capital paid in', 'OPERATING-CASH debit 250000.00 EUR', 'SHARE-CAPITAL credit 250000.00 EUR'],
    ['authorisation', 'AUTHORISED-PAYMENTS debit 100.00 EUR', 'AUTHORISED-OBLIGATIONS credit 100.00 EUR'],
    [
      'capture',
      ...['AUTHORISED-OBLIGATIONS debit 100.00 EUR', 'AUTHORISED-PAYMENTS credit 100.00 EUR'],
      ...['ACQUIRER-RECEIVABLE-EUR debit 100.00 EUR', 'MERCHANT-PENDING-EUR credit 97.10 EUR', 'FEES-PROCESSING credit 2.90 EUR'],
    ],
    [
      'acquirer settles',
      ...['SETTLEMENT-EUR debit 98.60 EUR', 'INTERCHANGE debit 0.80 EUR', 'SCHEME-FEES debit 0.35 EUR', 'ACQUIRER-FEES debit 0.25 EUR'],
      'ACQUIRER-RECEIVABLE-EUR credit 100.00 EUR',
    ],
    [
      'funds available',
      ...['MERCHANT-PENDING-EUR debit 97.10 EUR', 'MERCHANT-RESERVES-EUR credit 9.71 EUR', 'MERCHANT-BALANCES-EUR credit 87.39 EUR'],
    ],
    ['payout', 'MERCHANT-BALANCES-EUR debit 80.00 EUR', 'PAYOUTS-IN-TRANSIT credit 79.75 EUR', 'FEES-PAYOUT credit 0.25 EUR'],
    ['payout paid', 'PAYOUTS-IN-TRANSIT debit 79.75 EUR', 'SETTLEMENT-EUR credit 79.75 EUR'],
    ['chargeback opened', 'CHARGEBACKS-DISPUTED debit 100.00 EUR', 'SETTLEMENT-EUR credit 100.00 EUR'],
    [
      'chargeback lost',
      ...['MERCHANT-BALANCES-EUR debit 7.39 EUR', 'MERCHANT-RESERVES-EUR debit 9.71 EUR', 'MERCHANT-RECEIVABLE debit 97.90 EUR'],
      ...['CHARGEBACKS-DISPUTED credit 100.00 EUR', 'FEES-CHARGEBACK credit 15.00 EUR'],
    ],
    ['merchant pays part', 'SETTLEMENT-EUR debit 50.00 EUR', 'MERCHANT-RECEIVABLE credit 50.00 EUR'],
    ['the rest is lost', 'CHARGEBACK-LOSSES debit 47.90 EUR', 'MERCHANT-RECEIVABLE credit 47.90 EUR'],
  ],
  other: [
    ['opening balances', 'BANK-USD debit 12000.00 USD', 'FIXED-ASSETS debit 3000.00 USD', 'OPENING-BALANCES credit 15000.00 USD'],
    ['opening balances closed', 'OPENING-BALANCES debit 15000.00 USD', 'SHARE-CAPITAL credit 15000.00 USD'],
    ['goods bought', 'INVENTORY debit 4000.00 USD', 'ACCOUNTS-PAYABLE credit 4000.00 USD'],
    ['deposit taken', 'BANK-USD debit 600.00 USD', 'CUSTOMER-DEPOSITS-USD credit 600.00 USD'],
    ['sale', 'ACCOUNTS-RECEIVABLE debit 5400.00 USD', 'CUSTOMER-DEPOSITS-USD debit 600.00 USD', 'SALES credit 6000.00 USD'],
    ['cost of sale', 'COST-OF-SALES debit 3100.00 USD', 'INVENTORY credit 3100.00 USD'],
    ['return', 'SALES-RETURNS debit 200.00 USD', 'ACCOUNTS-RECEIVABLE credit 200.00 USD'],
    ['customer pays', 'BANK-USD debit 5000.00 USD', 'ACCOUNTS-RECEIVABLE credit 5000.00 USD'],
    ['doubtful debt', 'BAD-DEBTS debit 200.00 USD', 'DOUBTFUL-DEBT-ALLOWANCE credit 200.00 USD'],
    ['subscription sold', 'CASH debit 1200.00 USD', 'DEFERRED-REVENUE credit 1200.00 USD'],
    ['month earned', 'DEFERRED-REVENUE debit 100.00 USD', 'SERVICES credit 100.00 USD'],
    ['depreciation', 'DEPRECIATION debit 50.00 USD', 'ACCUMULATED-DEPRECIATION credit 50.00 USD'],
    ['dividend', 'DIVIDENDS debit 500.00 USD', 'BANK-USD credit 500.00 USD'],
  ],
};

test.each(businessTypes)('typical postings of the business type %s fit its chart, and its balance sheet adds up', async (business) => {
  const { tenantId } = newTenant();
  const set = await ledger.client.setUpChart({ tenantId, businessType: business, actor: 'accountant', requestId: 'r' });
  expect(set.accounts.map((account) => account.accountCode)).toEqual(templates[business].map((line) => line.code));
  for (const [description, ...lines] of lives[business]) {
    const posting = { tenantId, description, entries: entries(...lines), actor: 'accountant' };
    const { transaction } = await ledger.client.postTransaction({ posting });
    expect(transaction).toMatchObject({ description, kind: lines.length === 1 ? 'single' : 'double' });
  }
  const { accounts } = await ledger.client.getHierarchy({ tenantId, includeBalances: true });
  expect(accounts.map((node) => node.account?.accountCode)).toEqual(['ASSETS', 'LIABILITIES', 'EQUITY', 'REVENUE', 'EXPENSES']);
  const total = (code: string, currency: string) => {
    const node = accounts.find((each) => each.account?.accountCode === code)!;
    return minor(node.balances.find((each) => each.currency === currency)?.balance ?? '0.00');
  };
  const used = new Set(accounts.flatMap((node) => node.balances.map((each) => each.currency)));
  expect(used.size).toBeGreaterThan(0);
  for (const currency of used) {
    const profit = total('REVENUE', currency) - total('EXPENSES', currency);
    expect(total('ASSETS', currency)).toBe(total('LIABILITIES', currency) + total('EQUITY', currency) + profit);
  }
  // Each node is the sum of its children, each on its own normal side.
  const sumsOf = (node: AccountNode): bigint => {
    const sign = node.account?.normalBalance === 'debit' ? 1n : -1n;
    const own = node.balances.reduce((sum, each) => sum + sign * minor(each.balance), 0n);
    if (node.children.length > 0) expect(node.children.reduce((sum, child) => sum + sumsOf(child), 0n)).toBe(own);
    return own;
  };
  accounts.forEach(sumsOf);
});

function minor(text: string): bigint {
  return text.startsWith('-') ? -(toMinor(text.slice(1)) ?? 0n) : (toMinor(text) ?? 0n);
}
