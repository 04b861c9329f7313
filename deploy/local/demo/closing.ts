// What the demo has besides postings of the year: closed periods, limits, saved filters, holds and refused postings.
import { ApiProblem, type Api } from './api.ts';
import { entriesOf, type Line } from './journal.ts';

const dayMs = 86_400_000;

/** The settings of the books that the demo has from its first posting on. */
export const bookSettings = {
  timezone: 'Africa/Lagos',
  cash_accounts: ['SETTLEMENT', 'OPERATING-CASH'],
  indexed_metadata: ['order_id', 'channel'],
};

const filters = {
  'card-deposits': 'metadata.channel=card&q=deposit',
  exchanges: 'kind=exchange',
  refunds: 'kind=reversal',
  'unknown-senders': 'account_code=SUSPENSE-NGN',
};

/** Keeps filters of transactions under names. */
export async function saveFilters(api: Api, path: string): Promise<void> {
  for (const [name, query] of Object.entries(filters)) await api('PUT', `${path}/filters/${name}`, { query });
}

/** Closes the months before the last one, and the fiscal year if it has ended by then. */
export async function closePeriods(api: Api, path: string, end: Date): Promise<void> {
  const monthEnd = (monthsAgo: number) => new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - monthsAgo, 1) - dayMs);
  const date = (day: Date) => day.toISOString().slice(0, 10);
  for (let monthsAgo = 11; monthsAgo >= 1; monthsAgo -= 1) {
    const through = monthEnd(monthsAgo);
    const isYearEnd = through.getUTCMonth() === 11;
    const reason = isYearEnd ? 'Annual accounts approved' : 'Month closed';
    await api('POST', `${path}/periods/close`, { through: date(through), reason, ...(isYearEnd && { year_end: true }) });
  }
}

/** A daily limit of withdrawals, and a credit line of the first customer. */
export async function setLimits(api: Api, path: string): Promise<void> {
  const { limits } = await api('GET', `${path}/limits?limit=100`);
  const name = 'Withdrawals a day';
  if (!limits.some((limit: { name: string }) => limit.name === name))
    await api('POST', `${path}/limits`, {
      ...{ account_code: 'CUSTOMERS', applies: 'each', currency: 'NGN', side: 'debit', max_amount: '5000000.00', name },
      window: { calendar: 'day', time_zone: bookSettings.timezone },
    });
}

/** Money that is reserved: open, captured in part, captured, voided and about to expire. */
export async function makeHolds(api: Api, path: string, [first, second]: readonly string[]): Promise<void> {
  const hold = async (number: number, minor: bigint, description: string, code: string | undefined, more: object = {}) => {
    const lines: Line[] = [
      [code ?? '', 'debit', minor, 'NGN'],
      ['MERCH-01', 'credit', minor, 'NGN'],
    ];
    const body = { idempotency_key: `demo-hold-${number}`, description, entries: entriesOf(lines), reference: `AUTH-${number}`, ...more };
    const answer = await api('POST', `${path}/holds`, body);
    return `${path}/holds/${answer.hold.hold_id}`;
  };
  const capture = (at: string, key: string, more: object = {}) =>
    api('POST', `${at}/capture`, { idempotency_key: key, description: 'Card payment captured', ...more });
  await hold(1, 850_000n, 'Restaurant table', first, { expires_in: 7 * 86_400 });
  await hold(2, 1_200_000n, 'Hotel deposit', second);
  await capture(await hold(3, 640_000n, 'Ride', first), 'demo-capture-3');
  await capture(await hold(4, 900_000n, 'Order in two parcels', second), 'demo-capture-4', { amount: '3500.00', final: false });
  const voided = await hold(5, 300_000n, 'Order cancelled by the shop', first);
  await api('POST', `${voided}/void`, { description: 'Out of stock' });
  await hold(6, 150_000n, 'Fuel pump', second, { expires_in: 1 });
}

/** Postings that the ledger refuses, which leave nothing in the books. Answers the codes. */
export async function tryRefused(api: Api, path: string, customer: string): Promise<string[]> {
  const attempts: Line[][] = [
    // More than there is, an account that does not exist, and sides that are not equal.
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
  const codes: string[] = [];
  for (const [index, lines] of attempts.entries()) {
    const body = { idempotency_key: `demo-refused-${index + 1}`, description: 'Refused on purpose', entries: entriesOf(lines) };
    const error: unknown = await api('POST', `${path}/transactions/double-entry`, body).catch((thrown: unknown) => thrown);
    if (!(error instanceof ApiProblem)) throw new Error('a posting that had to be refused was posted');
    codes.push(error.code);
  }
  return codes;
}
