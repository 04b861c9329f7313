// Accounts that the demo adds to the chart of a wallet: customers and merchants.
import { SeededRandom } from './seeded-random.ts';

/** The currencies of the demo, the home currency first. */
export const currencies = ['NGN', 'USD', 'EUR', 'GBP'] as const;

/** One of them. */
export type Currency = (typeof currencies)[number];

/** An account as `accounts/batch` takes it. */
export interface DemoAccount {
  account_code: string;
  name: string;
  type: 'liability';
  parent_code: string;
  is_group?: boolean;
  allow_negative?: boolean;
  metadata?: Record<string, string | number>;
}

/** A customer, and the currency that it is paid in. */
export interface Customer {
  code: string;
  name: string;
  home: Currency;
}

/** A merchant that customers pay. */
export interface Merchant {
  code: string;
  name: string;
  /** Bounds of a purchase in naira; prices in other currencies are a fraction of it. */
  price: readonly [number, number];
}

const firstNames = [
  ...['Ada', 'Bola', 'Chidi', 'Dayo', 'Efe', 'Femi', 'Grace', 'Halima', 'Ify', 'Jide', 'Kemi', 'Lanre', 'Musa', 'Ngozi', 'Obi', 'Peju'],
  ...[
    'Ronke',
    'Sade',
    'Tunde',
    'Uche',
    'Wale',
    'Yemi',
    'Zainab',
    'Anna',
    'Ben',
    'Clara',
    'David',
    'Elena',
    'Louis',
    'Maria',
    'Nora',
    'Paul',
  ],
];
const lastNames = [
  ...['Adeyemi', 'Bello', 'Chukwu', 'Danjuma', 'Eze', 'Falana', 'Garba', 'Ibrahim', 'Johnson', 'Kalu', 'Lawal', 'Mohammed', 'Nwosu'],
  ...['Okafor', 'Okonkwo', 'Oni', 'Sani', 'Taiwo', 'Umar', 'Williams', 'Yusuf', 'Meyer', 'Rossi', 'Smith', 'Dubois', 'Novak', 'Silva'],
];

/** The merchants, largest shops last. */
export const merchants: readonly Merchant[] = [
  ['Mama Put Kitchen', 1_500, 9_000],
  ['Lagos Airtime', 500, 10_000],
  ['Ikeja Electric', 3_000, 45_000],
  ['Danfo Rides', 800, 7_500],
  ['Palm Pharmacy', 1_200, 28_000],
  ['Balogun Fabrics', 6_000, 90_000],
  ['Lekki Fitness', 12_000, 30_000],
  ['Naija Streaming', 2_900, 4_900],
  ['Victoria Books', 2_500, 22_000],
  ['Yaba Gadgets', 15_000, 380_000],
  ['Jollof Express', 2_000, 16_000],
  ['Eko Travel', 40_000, 620_000],
].map(([name, min, max], index) => ({
  code: `MERCH-${String(index + 1).padStart(2, '0')}`,
  name: name as string,
  price: [min as number, max as number] as const,
}));

/** So many customers. Most are paid in naira, some abroad. */
export function customersOf(count: number, seed: number): Customer[] {
  const random = new SeededRandom(seed);
  return Array.from({ length: count }, (_, index) => ({
    code: `CUST-${String(index + 1).padStart(4, '0')}`,
    name: `${random.pick(firstNames)} ${random.pick(lastNames)}`,
    home: random.weighted([
      ['NGN', 78],
      ['USD', 10],
      ['GBP', 7],
      ['EUR', 5],
    ]),
  }));
}

/** The accounts of customers and merchants, a group before what is below it. */
export function demoAccounts(customers: Customer[]): DemoAccount[] {
  const common = { type: 'liability', metadata: {} } as const;
  return [
    { ...common, account_code: 'CUSTOMERS', name: 'Customers', parent_code: 'CUSTOMER-WALLETS', is_group: true },
    { ...common, account_code: 'MERCHANTS', name: 'Merchant balances', parent_code: 'LIABILITIES', is_group: true },
    ...merchants.map(({ code, name }) => ({ ...common, account_code: code, name, parent_code: 'MERCHANTS' })),
    ...customers.map(({ code, name, home }, index) => ({
      ...common,
      account_code: code,
      name,
      parent_code: 'CUSTOMERS',
      allow_negative: false,
      metadata: { home_currency: home, kyc_tier: 1 + (index % 3) },
    })),
  ];
}
