// Periods over gRPC: what closing, reopening and a year end do to the log, and what each refuses.
import type { Period } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries, newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import { dateOf } from '../platform/calendar.ts';
import { openOperator } from './audit/operator.ts';
import { verify } from './audit/verify.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startLedger();
});
afterAll(() => ledger.end());

const by = { actor: 'key_of_the_test', requestId: 'request' };
const at = (day: string, time = '12:00:00.000') => BigInt(Date.parse(`${day}T${time}Z`));
const books = async (tenantId: string) => (await ledger.client.getBooks({ tenantId })).books!;
const close = (tenantId: string, through: string, more: { final?: boolean; yearEnd?: boolean; reason?: string } = {}) =>
  ledger.client.closePeriod({ tenantId, through, ...by, ...more });
const closed = async (...wanted: Parameters<typeof close>) => (await close(...wanted)).period!;
const reopen = (tenantId: string, through?: string, reason = 'Late') =>
  ledger.client.reopenPeriod({ tenantId, reason, ...by, ...(through !== undefined && { through }) });
const update = (tenantId: string, change: object) => ledger.client.updateBooks({ tenantId, ...by, ...change });
const post = async (tenantId: string, effectiveMs: bigint | undefined, ...lines: string[]) => {
  const posting = { tenantId, entries: entries(...lines), ...by, ...(effectiveMs !== undefined && { effectiveMs }) };
  return (await ledger.client.postTransaction({ posting })).transaction!;
};
const sale = (amount = '10.00') => [`CASH debit ${amount} NGN`, `SALES credit ${amount} NGN`];
const transactions = async (tenantId: string) => (await ledger.client.listTransactions({ tenantId, limit: 100 })).transactions;
const reverse = async (tenantId: string, transactionId: string) => {
  const reversal = { tenantId, transactionId, ...by };
  return (await ledger.client.reverseTransaction(reversal)).transaction!;
};

async function newBooks(): Promise<string> {
  const { tenantId } = newTenant();
  const accounts = [
    { accountCode: 'CASH', name: 'Cash', type: 'asset' },
    { accountCode: 'SALES', name: 'Sales', type: 'revenue' },
    { accountCode: 'WAGES', name: 'Wages', type: 'expense' },
    { accountCode: 'RETAINED-EARNINGS', name: 'Retained earnings', type: 'equity' },
  ];
  await ledger.client.createAccounts({ tenantId, accounts, ...by });
  return tenantId;
}

/** What all entries of a code, and of a currency, add up to until a time: debits less credits, minor units. */
async function sumUntil(tenantId: string, code: string, untilMs: bigint, currency = 'NGN'): Promise<bigint> {
  const counting = (await transactions(tenantId)).filter(({ effectiveMs, createdMs }) => (effectiveMs ?? createdMs) <= untilMs);
  const own = counting.flatMap((each) => each.entries).filter((entry) => entry.accountCode === code && entry.currency === currency);
  return own.reduce((sum, { side, amount }) => sum + (side === 'debit' ? 1n : -1n) * BigInt(amount.replace('.', '')), 0n);
}

test('what counts in a closed period is refused, or counts from the first open millisecond on', async () => {
  const tenantId = await newBooks();
  await update(tenantId, { timezone: 'Africa/Lagos' });
  const made = await closed(tenantId, '2025-01-31', { reason: 'Month' });
  expect(made).toMatchObject({ action: 'close', through: '2025-01-31', final: false, yearEnd: false, reason: 'Month', actor: by.actor });
  expect(await books(tenantId)).toMatchObject({ closedThrough: '2025-01-31', version: 2n });
  // The day ends at 23:00 UTC.
  const [last, first] = [at('2025-01-31', '22:59:59.999'), at('2025-01-31', '23:00:00.000')];
  const late = { reason: 'period_closed', field: 'effective_at', tag: 'period_closed', value: '2025-01-31T22:59:59.999Z' };
  expect(await refusal(post(tenantId, last, ...sale()))).toMatchObject(late);
  expect(await post(tenantId, first, ...sale())).toMatchObject({ effectiveMs: first });
  expect(await post(tenantId, undefined, ...sale())).not.toHaveProperty('effectiveMs');
  await update(tenantId, { lateEntries: 'next_open' });
  expect(await post(tenantId, at('2025-01-01'), ...sale())).toMatchObject({ effectiveMs: first, requestedEffectiveMs: at('2025-01-01') });
  const { events } = await ledger.client.listEvents({ tenantId, limit: 100 });
  const event = events.find(({ type }) => type === 'period.closed');
  expect(event).toMatchObject({
    ...by,
    sequence: made.sequence,
    data: { case: 'periodClosed', value: { id: made.id, through: '2025-01-31', openFromMs: first, closingTransactions: [] } },
  });
  expect(await refusal(update(tenantId, { timezone: 'UTC' }))).toMatchObject({
    ...{ reason: 'validation_failed', field: 'timezone', tag: 'immutable', value: 'UTC' },
  });
});

test('a day is closed once it is over in the time zone of the books', async () => {
  const today = dateOf(Date.now());
  const tomorrow = dateOf(Date.now() + 86_400_000);
  const tenantId = await newBooks();
  for (const day of [today, tomorrow]) {
    const early = { reason: 'period_not_over', field: 'through', tag: 'period_not_over', value: day };
    expect(await refusal(close(tenantId, day))).toMatchObject(early);
  }
  const yesterday = dateOf(Date.now() - 86_400_000);
  // Behind UTC by twelve hours yesterday is not over before noon, and ahead by fourteen today is from ten on.
  const isMorning = new Date().getUTCHours() < 12;
  await update(tenantId, { timezone: isMorning ? 'Etc/GMT+12' : 'Etc/GMT-14' });
  if (isMorning) expect(await refusal(close(tenantId, yesterday))).toMatchObject({ reason: 'period_not_over' });
  else expect(await closed(tenantId, today)).toMatchObject({ through: today });
  const samoan = await newBooks();
  await update(samoan, { timezone: 'Pacific/Apia' });
  expect(await refusal(close(samoan, '2011-12-30'))).toMatchObject({ field: 'through', tag: 'datetime', value: '2011-12-30' });
  expect(await closed(samoan, '2011-12-29')).toMatchObject({ through: '2011-12-29' });
});

test('a closing is repeated, made final, or moved on, never back', async () => {
  const tenantId = await newBooks();
  const first = await closed(tenantId, '2024-06-30');
  expect(await close(tenantId, '2024-06-30')).toMatchObject({ period: first, repeated: true });
  expect(await refusal(close(tenantId, '2024-06-29'))).toMatchObject({ reason: 'period_closed', field: 'through', value: '2024-06-29' });
  const final = await closed(tenantId, '2024-06-30', { final: true });
  expect(final.id).not.toBe(first.id);
  expect(await close(tenantId, '2024-06-30', { final: true })).toMatchObject({ period: final, repeated: true });
  // Without entries a year has nothing to close; its end is a period of its own all the same.
  const year = await close(tenantId, '2024-06-30', { yearEnd: true });
  expect(year).toMatchObject({ repeated: false, period: { yearEnd: true, closingTransactions: [] } });
  expect((await close(tenantId, '2024-06-30', { final: true, yearEnd: true })).repeated).toBe(true);
  expect(await books(tenantId)).toMatchObject({ closedThrough: '2024-06-30', finalThrough: '2024-06-30', version: 3n });
  const later = await closed(tenantId, '2024-12-31');
  expect(await refusal(reopen(tenantId))).toMatchObject({ reason: 'period_final', field: 'through', value: '' });
  expect(await refusal(reopen(tenantId, '2024-06-29'))).toMatchObject({ reason: 'period_final', field: 'through', value: '2024-06-29' });
  const { period: reopened } = await reopen(tenantId, '2024-06-30');
  expect(reopened).toMatchObject({ action: 'reopen', through: '2024-06-30', final: false });
  expect(await books(tenantId)).toMatchObject({ closedThrough: '2024-06-30', finalThrough: '2024-06-30' });
  expect(await refusal(post(tenantId, at('2024-06-30'), ...sale()))).toMatchObject({ reason: 'period_closed' });
  await post(tenantId, at('2024-07-01'), ...sale());
  // The day stayed closed all the while.
  expect(await close(tenantId, '2024-06-30')).toMatchObject({ repeated: true });

  const pages: Period[] = [];
  for (let cursor = ''; pages.length === 0 || cursor !== '';) {
    const { periods, nextCursor } = await ledger.client.listPeriods({ tenantId, limit: 2, cursor });
    pages.push(...periods);
    cursor = nextCursor;
  }
  expect(pages).toEqual([reopened, later, year.period, final, first]);
});

test('reopening needs a reason and something closed, and opens all after a day', async () => {
  const tenantId = await newBooks();
  expect(await refusal(reopen(newTenant().tenantId))).toMatchObject({ reason: 'period_closed' });
  expect(await refusal(reopen(tenantId))).toMatchObject({ reason: 'period_closed', field: 'through' });
  const first = await closed(tenantId, '2024-01-31');
  expect(await refusal(reopen(tenantId, undefined, ''))).toMatchObject({ field: 'reason', tag: 'required' });
  expect(await refusal(reopen(tenantId, '2024-02-01'))).toMatchObject({ reason: 'period_closed', value: '2024-02-01' });
  const opened = await reopen(tenantId);
  expect(opened).toMatchObject({ repeated: false, period: { action: 'reopen', reason: 'Late' } });
  expect(opened.period).not.toHaveProperty('through');
  expect(await reopen(tenantId)).toMatchObject({ period: opened.period, repeated: true });
  expect(await books(tenantId)).not.toHaveProperty('closedThrough');
  await update(tenantId, { timezone: 'Africa/Lagos' });
  await post(tenantId, at('2024-01-01'), ...sale());
  // It was opened since, so it is a new closing.
  expect((await closed(tenantId, '2024-01-31')).id).not.toBe(first.id);
});

test.each([
  [{ through: '' }, 'through', 'required'],
  [{ through: '2024-02-30' }, 'through', 'datetime'],
  [{ through: '2024-01-31T00:00:00Z' }, 'through', 'datetime'],
  [{ through: '1969-12-31' }, 'through', 'min'],
  [{ through: '2024-01-31', reason: 'x'.repeat(1001) }, 'reason', 'max'],
  [{ through: '2024-01-31', tenantId: 'tenant_1' }, 'tenant_id', 'id'],
])('a closing of %o is refused for its %s', async (wanted, field, tag) => {
  const { tenantId } = newTenant();
  expect(await refusal(ledger.client.closePeriod({ tenantId, ...by, ...wanted }))).toMatchObject({
    reason: 'validation_failed',
    field,
    tag,
  });
});

test('a year end brings revenue and expense to zero, and after a late entry only the difference', async () => {
  const tenantId = await newBooks();
  const [end, next] = [at('2024-12-31', '23:59:59.999'), at('2025-01-01', '00:00:00.000')];
  await post(tenantId, at('2024-03-01'), ...sale('100.00'));
  await post(tenantId, at('2024-04-01'), 'WAGES debit 30.00 NGN', 'CASH credit 30.00 NGN');
  await post(tenantId, at('2024-05-01'), 'CASH debit 7.00 USD', 'SALES credit 7.00 USD');
  await post(tenantId, next, ...sale('5.00'));
  // What is there now is less than what there was then.
  await post(tenantId, next, 'SALES debit 80.00 NGN', 'CASH credit 80.00 NGN');
  await ledger.client.updateAccount({ tenantId, accountCode: 'SALES', allowNegative: false, blocked: { sides: ['debit'] }, ...by });

  const first = await closed(tenantId, '2024-12-31', { yearEnd: true });
  expect(first.closingTransactions).toHaveLength(2);
  const made = (await transactions(tenantId)).filter(({ kind }) => kind === 'closing').reverse();
  expect(made.map(({ transactionId }) => transactionId)).toEqual(first.closingTransactions);
  expect(made.map(({ sequence }) => sequence)).toEqual([first.sequence - 2n, first.sequence - 1n]);
  expect(made[0]).toMatchObject({
    ...{ effectiveMs: end, description: 'Year end 2024-12-31', idempotencyKey: `closing-${first.id}-1` },
    entries: [
      { accountCode: 'SALES', side: 'debit', amount: '100.00', balanceAfter: '-75.00' },
      { accountCode: 'WAGES', side: 'credit', amount: '30.00' },
      { accountCode: 'RETAINED-EARNINGS', side: 'credit', amount: '70.00' },
    ],
  });
  expect(made[1]).toMatchObject({ effectiveMs: end, currency: 'USD', amount: '7.00' });
  const zero = async () => [
    ...(await Promise.all(['SALES', 'WAGES'].map((code) => sumUntil(tenantId, code, end)))),
    await sumUntil(tenantId, 'SALES', end, 'USD'),
  ];
  expect(await zero()).toEqual([0n, 0n, 0n]);
  expect(await sumUntil(tenantId, 'SALES', next)).toBe(7_500n);
  expect(await refusal(reverse(tenantId, made[1]!.transactionId))).toMatchObject({ reason: 'period_closed', field: 'effective_at' });

  await reopen(tenantId, '2024-11-30');
  await post(tenantId, at('2024-12-24'), ...sale('2.50'));
  // The reversal of a closing counts when that does.
  expect(await reverse(tenantId, made[1]!.transactionId)).toMatchObject({ kind: 'reversal', effectiveMs: end });
  const second = await closed(tenantId, '2024-12-31', { yearEnd: true });
  expect(second.closingTransactions).toHaveLength(2);
  const [dollars, naira] = await transactions(tenantId);
  expect(naira!.entries).toMatchObject([
    { accountCode: 'SALES', side: 'debit', amount: '2.50' },
    { accountCode: 'RETAINED-EARNINGS', side: 'credit', amount: '2.50' },
  ]);
  expect(dollars).toMatchObject({ currency: 'USD', amount: '7.00' });
  expect(await zero()).toEqual([0n, 0n, 0n]);
  await reopen(tenantId);
  expect((await closed(tenantId, '2024-12-31', { yearEnd: true })).closingTransactions).toEqual([]);
});

test('a year end of 1,200 balances is one commit of closing transactions with 200 entries each', async () => {
  const tenantId = await newBooks();
  const codes = Array.from({ length: 300 }, (_, index) => `E${index}`);
  await ledger.client.createAccounts({
    tenantId,
    accounts: codes.map((accountCode) => ({ accountCode, name: 'E', type: 'expense' })),
    ...by,
  });
  for (const currency of ['NGN', 'USD', 'EUR', 'GBP']) {
    for (const part of [codes.slice(0, 150), codes.slice(150)]) {
      await post(tenantId, at('2024-02-01'), ...part.map((code) => `${code} debit 1.00 ${currency}`), `CASH credit 150.00 ${currency}`);
    }
  }
  const { closingTransactions, sequence } = await closed(tenantId, '2024-12-31', { yearEnd: true });
  const made = (await transactions(tenantId)).filter(({ kind }) => kind === 'closing').reverse();
  expect(made.map(({ transactionId }) => transactionId)).toEqual(closingTransactions);
  expect(made.map(({ sequence: own }) => own - sequence)).toEqual([-8n, -7n, -6n, -5n, -4n, -3n, -2n, -1n]);
  expect(made.map(({ entries: lines, currency }) => [lines.length, currency])).toEqual(
    ['EUR', 'GBP', 'NGN', 'USD'].flatMap((currency) => [
      [200, currency],
      [102, currency],
    ]),
  );
  const end = at('2024-12-31', '23:59:59.999');
  for (const code of ['E0', 'E198', 'E199', 'E299']) expect(await sumUntil(tenantId, code, end, 'GBP')).toBe(0n);
  expect(await sumUntil(tenantId, 'RETAINED-EARNINGS', end, 'EUR')).toBe(30_000n);
});

test('a year end that can’t be posted is refused whole, naming what is wrong', async () => {
  const tenantId = await newBooks();
  await post(tenantId, at('2024-03-01'), ...sale());
  await post(tenantId, at('2025-03-01'), 'SALES debit 10.00 NGN', 'CASH credit 10.00 NGN');
  const year = () => refusal(close(tenantId, '2024-12-31', { yearEnd: true }));
  const change = (accountCode: string, status: string) => ledger.client.updateAccount({ tenantId, accountCode, status, ...by });
  await change('SALES', 'closed');
  expect(await year()).toMatchObject({ reason: 'account_closed', field: 'year_end', value: 'SALES' });
  await change('SALES', 'active');
  await change('RETAINED-EARNINGS', 'closed');
  expect(await year()).toMatchObject({ reason: 'account_closed', field: 'retained_earnings_code', value: 'RETAINED-EARNINGS' });
  await ledger.client.createAccount({ tenantId, accountCode: 'DOLLARS', name: 'D', type: 'equity', currency: 'USD', ...by });
  await update(tenantId, { retainedEarningsCode: 'DOLLARS' });
  expect(await year()).toMatchObject({ reason: 'currency_not_allowed', field: 'retained_earnings_code', value: 'DOLLARS' });
  expect(await books(tenantId)).not.toHaveProperty('closedThrough');
  expect((await ledger.client.listPeriods({ tenantId })).periods).toEqual([]);
});

test('a closing in the midst of 1,000 late postings lets none in after it', async () => {
  const tenantId = await newBooks();
  const one = () => post(tenantId, at('2024-12-31'), ...sale()).catch((error: unknown) => refusal(Promise.reject(error as Error)));
  const posts = Array.from({ length: 500 }, one);
  await posts[100];
  const closing = closed(tenantId, '2024-12-31', { yearEnd: true });
  posts.push(...Array.from({ length: 500 }, one));
  const [period, outcomes] = [await closing, await Promise.all(posts)];
  const done = outcomes.flatMap((outcome) => ('sequence' in outcome ? [outcome.sequence] : []));
  expect(done.length).toBeGreaterThan(100);
  expect(done.filter((sequence) => sequence > period.sequence)).toEqual([]);
  const refused = outcomes.filter((outcome) => 'reason' in outcome && outcome.reason === 'period_closed');
  expect(refused.length).toBe(1_000 - done.length);
  const closings = (await transactions(tenantId)).filter(({ kind }) => kind === 'closing');
  expect(closings.map(({ amount }) => amount)).toEqual([`${done.length * 10}.00`]);
});

test('verify finds all books and periods of these tests as their logs say', async () => {
  const operator = await openOperator(ledger.database.ownerUrl);
  const lines: string[] = [];
  await verify(operator, {}, (line) => lines.push(line));
  await operator.end();
  expect(lines).toEqual([]);
});
