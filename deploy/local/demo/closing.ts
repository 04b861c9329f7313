// What the demo has besides postings of the year: closed periods, limits, saved filters, holds and refused postings.
import { LedgerError, type Ledger } from '../../../gateway/clients/typescript/ledger.ts';
import { entriesOf, type Line } from './journal.ts';

const dayMs = 86_400_000;

/** The settings of the books that the demo has from its first posting on. */
export const bookSettings = {
  timezone: 'Africa/Lagos',
  cash_accounts: ['SETTLEMENT', 'OPERATING-CASH'],
  indexed_metadata: ['order_id', 'channel'],
};

const queries = {
  'card-deposits': 'metadata.channel=card&q=deposit',
  exchanges: 'kind=exchange',
  refunds: 'kind=reversal',
  'unknown-senders': 'account_code=SUSPENSE-NGN',
};

/** Keeps filters of transactions under names. */
export async function saveFilters({ filters }: Ledger): Promise<void> {
  for (const [name, query] of Object.entries(queries)) await filters.set(name, { query });
}

/** Closes the months before the last one, and the fiscal year if it has ended by then. */
export async function closePeriods({ periods }: Ledger, end: Date): Promise<void> {
  const monthEnd = (monthsAgo: number) => new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - monthsAgo, 1) - dayMs);
  const date = (day: Date) => day.toISOString().slice(0, 10);
  for (let monthsAgo = 11; monthsAgo >= 1; monthsAgo -= 1) {
    const through = monthEnd(monthsAgo);
    const isYearEnd = through.getUTCMonth() === 11;
    const reason = isYearEnd ? 'Annual accounts approved' : 'Month closed';
    await periods.close({ through: date(through), reason, ...(isYearEnd && { year_end: true }) });
  }
}

/** A limit of what a customer pays in a day. */
export async function setLimits({ limits }: Ledger): Promise<void> {
  const name = 'Withdrawals a day';
  const known = await limits.list({ limit: 100 }).all();
  if (known.some((limit) => limit.name === name)) return;
  const window = { calendar: 'day', time_zone: bookSettings.timezone } as const;
  await limits.create({
    account_code: 'CUSTOMERS',
    applies: 'each',
    currency: 'NGN',
    side: 'debit',
    max_amount: '5000000.00',
    name,
    window,
  });
}

/** Money that is reserved: open, captured in part, captured, voided and about to expire. */
export async function makeHolds({ holds }: Ledger, [first = '', second = '']: readonly string[]): Promise<void> {
  const make = async (number: number, minor: bigint, description: string, code: string, more: { expires_in?: number } = {}) => {
    const lines: Line[] = [
      [code, 'debit', minor, 'NGN'],
      ['MERCH-01', 'credit', minor, 'NGN'],
    ];
    const names = { idempotency_key: `demo-hold-${number}`, reference: `AUTH-${number}`, description };
    const { hold } = await holds.create({ ...names, entries: entriesOf(lines), ...more });
    return hold.hold_id;
  };
  const description = 'Card payment captured';
  await make(1, 850_000n, 'Restaurant table', first, { expires_in: 7 * 86_400 });
  await make(2, 1_200_000n, 'Hotel deposit', second);
  await holds.capture(await make(3, 640_000n, 'Ride', first), { idempotency_key: 'demo-capture-3', description });
  const parcels = await make(4, 900_000n, 'Order in two parcels', second);
  await holds.capture(parcels, { idempotency_key: 'demo-capture-4', description, amount: '3500.00', final: false });
  await holds.void(await make(5, 300_000n, 'Order cancelled by the shop', first), { description: 'Out of stock' });
  await make(6, 150_000n, 'Fuel pump', second, { expires_in: 1 });
}

/** Postings that the ledger refuses, which leave nothing in the books: too much, an unknown account, and unequal sides. */
export async function tryRefused({ transactions }: Ledger, customer: string): Promise<void> {
  const attempts: Line[][] = [
    [
      [customer, 'debit', 90_000_000_000n, 'NGN'],
      ['WITHDRAWALS-IN-TRANSIT', 'credit', 90_000_000_000n, 'NGN'],
    ],
    [
      ['SETTLEMENT-NGN', 'debit', 100_000n, 'NGN'],
      ['CUST-9999', 'credit', 100_000n, 'NGN'],
    ],
    [
      ['SETTLEMENT-NGN', 'debit', 100_000n, 'NGN'],
      [customer, 'credit', 90_000n, 'NGN'],
    ],
  ];
  for (const [index, lines] of attempts.entries()) {
    const body = { idempotency_key: `demo-refused-${index + 1}`, description: 'Refused on purpose', entries: entriesOf(lines) };
    const error: unknown = await transactions.post(body).catch((thrown: unknown) => thrown);
    if (!(error instanceof LedgerError)) throw new Error('a posting that had to be refused was posted');
    if (error.status !== 422) throw error;
  }
}
