// Chart templates by business type. An account without a currency has a separate balance in each of the four.
import { currencies, type Currency } from '../platform/money.ts';
import { opposite, type Side } from './accounting.ts';

/** An account's class in the balance sheet or the profit and loss account. */
export type AccountType = 'asset' | 'liability' | 'equity' | 'revenue' | 'expense';

/** Types of accounts, in the order in which a balance sheet and then a profit and loss account names them. */
export const accountTypes: readonly AccountType[] = ['asset', 'liability', 'equity', 'revenue', 'expense'];

/** The businesses that have a template. */
export const businessTypes = ['wallet', 'exchange', 'lending', 'payment_processor', 'other'] as const;

/** One of the businesses that have a template. */
export type BusinessType = (typeof businessTypes)[number];

/** One line of a template. */
export interface TemplateAccount {
  code: string;
  name: string;
  type: AccountType;
  normalBalance: Side;
  /** The only currency, or null for all four. */
  currency: Currency | null;
  /** Code of the group above, which comes before and has the same type; null at the top. */
  parentCode: string | null;
  isGroup: boolean;
  /** False for money owed to customers: it can't be spent twice. */
  allowNegative: boolean;
  /** Suspense and FX position, which the ledger owns. */
  system: boolean;
}

/** The side on which accounts of a type grow. */
export function normalSide(type: AccountType): Side {
  return type === 'asset' || type === 'expense' ? 'debit' : 'credit';
}

/** Code of the account that balances single entries in a currency. */
export function suspenseCode(currency: string): string {
  return `SUSPENSE-${currency}`;
}

/** Code of the account that holds what exchanges have left open in a currency. */
export function fxPositionCode(currency: string): string {
  return `FX-POSITION-${currency}`;
}

/** Whether a code is that of an FX position. */
export function isFxPosition(code: string): boolean {
  return currencies.some((currency) => code === fxPositionCode(currency));
}

/** Whether a code is reserved for system accounts, which only a template or the first use creates. */
export function isSystemCode(code: string): boolean {
  return isFxPosition(code) || currencies.some((currency) => code === suspenseCode(currency));
}

// The notation of templates: groups contain their children, so that a parent is always a group of the same type.
type Line = Partial<Pick<TemplateAccount, 'currency' | 'allowNegative' | 'system'>> & {
  code: string;
  name: string;
  contra?: true;
  children?: Line[];
};
type Traits = Pick<Line, 'contra' | 'allowNegative' | 'system'>;

const group = (code: string, name: string, children: Line[]): Line => ({ code, name, children });
const account = (code: string, name: string, traits: Traits = {}): Line => ({ code, name, ...traits });
const perCurrency = (code: string, name: string, traits: Traits = {}): Line[] =>
  currencies.map((currency) => ({ code: `${code}-${currency}`, name: `${name} (${currency})`, currency, ...traits }));
/** Grows on the other side than its type, and is subtracted from its neighbours. */
const contra: Traits = { contra: true };
/** Owed to customers. */
const pool: Traits = { allowNegative: false };

const suspense = group('SUSPENSE', 'Suspense accounts', perCurrency('SUSPENSE', 'Suspense', { system: true }));
const fxPositions = group('FX-POSITIONS', 'Foreign exchange positions', perCurrency('FX-POSITION', 'FX position', { system: true }));

const payables = group('PAYABLES', 'Payables and accruals', [
  account('ACCOUNTS-PAYABLE', 'Trade payables'),
  account('ACCRUED-EXPENSES', 'Accrued expenses'),
  account('TAXES-PAYABLE', 'Value added tax and other taxes payable'),
]);
const operatingAssets = [
  account('OPERATING-CASH', 'Operating bank accounts'),
  account('PREPAID-EXPENSES', 'Prepaid expenses'),
  account('FIXED-ASSETS', 'Property and equipment at cost'),
  account('ACCUMULATED-DEPRECIATION', 'Accumulated depreciation', contra),
];
const equity = [
  account('SHARE-CAPITAL', 'Share capital'),
  account('RETAINED-EARNINGS', 'Retained earnings'),
  account('DIVIDENDS', 'Dividends declared', contra),
  account('OPENING-BALANCES', 'Opening balances'),
];
const operatingExpenses = [
  account('SALARIES', 'Salaries and benefits'),
  account('TECHNOLOGY', 'Technology and hosting'),
  account('MARKETING', 'Marketing'),
  account('PROFESSIONAL-FEES', 'Legal, audit and compliance fees'),
  account('OFFICE-EXPENSES', 'Rent and office expenses'),
  account('DEPRECIATION', 'Depreciation'),
  account('INCOME-TAX', 'Income tax'),
];

const wallet = chart({
  asset: [
    group('SETTLEMENT', 'Settlement accounts', perCurrency('SETTLEMENT', 'Settlement bank account')),
    group('REGULATORY-RESERVES', 'Regulatory reserves', perCurrency('REGULATORY-RESERVE', 'Restricted regulatory reserve deposit')),
    group('OPERATING-ASSETS', 'Operating assets', [account('PROVIDER-RECEIVABLE', 'Due from payment providers'), ...operatingAssets]),
  ],
  liability: [
    group('CUSTOMER-WALLETS', 'Customer wallet pools', perCurrency('CUSTOMER-WALLETS', 'Customer wallet pool', pool)),
    account('WITHDRAWALS-IN-TRANSIT', 'Customer withdrawals in transit'),
    payables,
    fxPositions,
    suspense,
  ],
  equity: [...equity, account('STATUTORY-RESERVE', 'Statutory and regulatory risk reserve')],
  revenue: [
    group('FEES', 'Fee collection', [
      account('FEES-TRANSACTION', 'Transaction fees'),
      account('FEES-FX', 'Foreign exchange fees'),
      account('FEES-WITHDRAWAL', 'Withdrawal fees'),
      account('FEE-REFUNDS', 'Fee refunds and rebates', contra),
    ]),
    account('FX-GAINS', 'Foreign exchange gains'),
    account('INTEREST-INCOME', 'Interest on settlement funds'),
    account('OTHER-REVENUE', 'Other operating revenue'),
  ],
  expense: [
    group('DIRECT-COSTS', 'Cost of payments', [
      account('PROVIDER-FEES', 'Bank and payment provider charges'),
      account('FX-LOSSES', 'Foreign exchange losses'),
      account('FRAUD-LOSSES', 'Fraud and chargeback losses'),
    ]),
    group('OPERATING-EXPENSES', 'Operating expenses', operatingExpenses),
  ],
});

const exchange = chart({
  asset: [
    group('SETTLEMENT', 'Settlement accounts', perCurrency('SETTLEMENT', 'Settlement bank account')),
    group('LIQUIDITY', 'Funds at liquidity providers', perCurrency('LIQUIDITY', 'Funds at liquidity providers')),
    account('COLLATERAL-POSTED', 'Margin and collateral posted'),
    group('OPERATING-ASSETS', 'Operating assets', operatingAssets),
  ],
  liability: [
    group('CUSTOMER-FUNDS', 'Customer funds', perCurrency('CUSTOMER-FUNDS', 'Customer funds available', pool)),
    group('CUSTOMER-ORDERS', 'Customer funds in open orders', perCurrency('CUSTOMER-ORDERS', 'Customer funds in open orders', pool)),
    account('WITHDRAWALS-IN-TRANSIT', 'Customer withdrawals in transit'),
    account('LIQUIDITY-PAYABLE', 'Trades payable to liquidity providers'),
    payables,
    fxPositions,
    suspense,
  ],
  equity,
  revenue: [
    group('TRADING-REVENUE', 'Trading revenue', [
      account('FEES-TRADING', 'Trading fees'),
      account('SPREAD-INCOME', 'Spread income'),
      account('FEES-WITHDRAWAL', 'Withdrawal fees'),
      account('MAKER-REBATES', 'Maker rebates', contra),
    ]),
    account('FX-GAINS', 'Foreign exchange gains'),
    account('OTHER-REVENUE', 'Other operating revenue'),
  ],
  expense: [
    group('DIRECT-COSTS', 'Cost of trading', [
      account('LIQUIDITY-COSTS', 'Liquidity provider commissions'),
      account('BANK-CHARGES', 'Bank charges'),
      account('FX-LOSSES', 'Foreign exchange losses'),
      account('SETTLEMENT-LOSSES', 'Settlement and fraud losses'),
    ]),
    group('OPERATING-EXPENSES', 'Operating expenses', operatingExpenses),
  ],
});

const lending = chart({
  asset: [
    group('FUNDING', 'Funding accounts', perCurrency('FUNDING', 'Loan funding bank account')),
    group('LOANS', 'Loans to customers', [
      ...perCurrency('LOANS-PRINCIPAL', 'Loan principal outstanding'),
      account('INTEREST-RECEIVABLE', 'Interest receivable'),
      account('FEES-RECEIVABLE', 'Loan fees receivable'),
      account('LOAN-LOSS-ALLOWANCE', 'Allowance for expected loan losses', contra),
    ]),
    account('REPAYMENTS-IN-TRANSIT', 'Repayments in transit from collectors'),
    group('OPERATING-ASSETS', 'Operating assets', operatingAssets),
  ],
  liability: [
    group('BORROWER-CREDITS', 'Borrower credit balances', perCurrency('BORROWER-CREDITS', 'Borrower credit balances', pool)),
    account('DISBURSEMENTS-IN-TRANSIT', 'Loan disbursements in transit'),
    account('BORROWINGS', 'Borrowings from funders'),
    account('INTEREST-PAYABLE', 'Interest payable to funders'),
    account('DEFERRED-FEES', 'Deferred origination fees'),
    payables,
    suspense,
  ],
  equity,
  revenue: [
    account('INTEREST-INCOME', 'Interest income on loans'),
    account('FEES-ORIGINATION', 'Origination fees'),
    account('FEES-LATE', 'Late payment fees'),
    account('INTEREST-WAIVED', 'Interest and fees waived', contra),
    account('RECOVERIES', 'Recoveries of loans written off'),
    account('OTHER-REVENUE', 'Other operating revenue'),
  ],
  expense: [
    group('DIRECT-COSTS', 'Cost of lending', [
      account('LOAN-LOSSES', 'Impairment losses on loans'),
      account('INTEREST-EXPENSE', 'Interest on borrowings'),
      account('COLLECTION-COSTS', 'Collection and credit bureau costs'),
      account('BANK-CHARGES', 'Bank charges'),
    ]),
    group('OPERATING-EXPENSES', 'Operating expenses', operatingExpenses),
  ],
});

const paymentProcessor = chart({
  asset: [
    group('SETTLEMENT', 'Settlement accounts', perCurrency('SETTLEMENT', 'Settlement bank account')),
    group('ACQUIRER-RECEIVABLE', 'Due from acquirers and schemes', perCurrency('ACQUIRER-RECEIVABLE', 'Due from acquirers and schemes')),
    account('AUTHORISED-PAYMENTS', 'Authorised payments awaiting capture'),
    account('CHARGEBACKS-DISPUTED', 'Chargebacks under dispute'),
    account('MERCHANT-RECEIVABLE', 'Negative balances due from merchants'),
    account('MERCHANT-LOSS-ALLOWANCE', 'Allowance for merchant losses', contra),
    group('OPERATING-ASSETS', 'Operating assets', operatingAssets),
  ],
  liability: [
    group(
      'MERCHANT-PENDING',
      'Merchant funds pending settlement',
      perCurrency('MERCHANT-PENDING', 'Merchant funds pending settlement', pool),
    ),
    group('MERCHANT-BALANCES', 'Merchant balances', perCurrency('MERCHANT-BALANCES', 'Merchant balances available for payout', pool)),
    group('MERCHANT-RESERVES', 'Merchant reserves', perCurrency('MERCHANT-RESERVES', 'Merchant rolling reserve', pool)),
    account('AUTHORISED-OBLIGATIONS', 'Obligations on authorised payments'),
    account('PAYOUTS-IN-TRANSIT', 'Merchant payouts in transit'),
    payables,
    fxPositions,
    suspense,
  ],
  equity,
  revenue: [
    group('FEES', 'Merchant fees', [
      account('FEES-PROCESSING', 'Processing fees'),
      account('FEES-FX', 'Foreign exchange fees'),
      account('FEES-PAYOUT', 'Payout fees'),
      account('FEES-CHARGEBACK', 'Chargeback fees'),
      account('FEE-REFUNDS', 'Fee refunds and rebates', contra),
    ]),
    account('FX-GAINS', 'Foreign exchange gains'),
    account('OTHER-REVENUE', 'Other operating revenue'),
  ],
  expense: [
    group('DIRECT-COSTS', 'Cost of processing', [
      account('INTERCHANGE', 'Interchange fees'),
      account('SCHEME-FEES', 'Card scheme fees'),
      account('ACQUIRER-FEES', 'Acquirer and bank charges'),
      account('CHARGEBACK-LOSSES', 'Chargeback and fraud losses'),
      account('FX-LOSSES', 'Foreign exchange losses'),
    ]),
    group('OPERATING-EXPENSES', 'Operating expenses', operatingExpenses),
  ],
});

const other = chart({
  asset: [
    group('CURRENT-ASSETS', 'Current assets', [
      account('CASH', 'Cash on hand'),
      ...perCurrency('BANK', 'Bank account'),
      account('ACCOUNTS-RECEIVABLE', 'Trade receivables'),
      account('DOUBTFUL-DEBT-ALLOWANCE', 'Allowance for doubtful debts', contra),
      account('INVENTORY', 'Inventory'),
      account('PREPAID-EXPENSES', 'Prepaid expenses'),
    ]),
    group('NON-CURRENT-ASSETS', 'Non-current assets', [
      account('FIXED-ASSETS', 'Property and equipment at cost'),
      account('ACCUMULATED-DEPRECIATION', 'Accumulated depreciation', contra),
    ]),
  ],
  liability: [
    group('CUSTOMER-DEPOSITS', 'Customer deposits', perCurrency('CUSTOMER-DEPOSITS', 'Customer deposits and prepayments', pool)),
    account('DEFERRED-REVENUE', 'Deferred revenue'),
    account('BORROWINGS', 'Borrowings'),
    payables,
    suspense,
  ],
  equity,
  revenue: [
    account('SALES', 'Sales of goods'),
    account('SERVICES', 'Service revenue'),
    account('SALES-RETURNS', 'Sales returns and discounts', contra),
    account('OTHER-REVENUE', 'Other revenue'),
  ],
  expense: [
    account('COST-OF-SALES', 'Cost of sales'),
    account('BANK-CHARGES', 'Bank charges'),
    account('BAD-DEBTS', 'Bad debts'),
    account('INTEREST-EXPENSE', 'Interest expense'),
    group('OPERATING-EXPENSES', 'Operating expenses', operatingExpenses),
  ],
});

/** Every template's accounts, a parent always before what is below it. */
export const templates: Record<BusinessType, readonly TemplateAccount[]> = {
  wallet,
  exchange,
  lending,
  payment_processor: paymentProcessor,
  other,
};

/** A system account that its first use creates, for a tenant without a chart that has it; a template puts it below its own group. */
export function systemLine(code: string): TemplateAccount {
  const line = [suspense, fxPositions].flatMap(({ children = [] }) => children).find((each) => each.code === code);
  if (!line) throw new Error(`no system account has the code ${code}`);
  return accountOf(line, 'liability', null);
}

function chart(lines: Record<AccountType, Line[]>): TemplateAccount[] {
  const top: Record<AccountType, [code: string, name: string]> = {
    asset: ['ASSETS', 'Assets'],
    liability: ['LIABILITIES', 'Liabilities'],
    equity: ['EQUITY', 'Equity'],
    revenue: ['REVENUE', 'Revenue'],
    expense: ['EXPENSES', 'Expenses'],
  };
  return accountTypes.flatMap((type) => accountsOf(group(...top[type], lines[type]), type, null));
}

function accountsOf(line: Line, type: AccountType, parentCode: string | null): TemplateAccount[] {
  return [accountOf(line, type, parentCode), ...(line.children ?? []).flatMap((child) => accountsOf(child, type, line.code))];
}

function accountOf(line: Line, type: AccountType, parentCode: string | null): TemplateAccount {
  return {
    code: line.code,
    name: line.name,
    type,
    normalBalance: line.contra ? opposite(normalSide(type)) : normalSide(type),
    currency: line.currency ?? null,
    parentCode,
    isGroup: line.children !== undefined,
    allowNegative: line.allowNegative ?? true,
    system: line.system ?? false,
  };
}
