// Totals and lines by both times: random postings, plain, late and future, against sums by hand.
import { randomInt } from 'node:crypto';
import { freshDatabase } from '../../test/cluster.ts';
import { withClient } from '../../deploy/local/databases.ts';
import { newTenant, refusal, startLedger, type RunningLedger } from '../../test/ledger.ts';
import type { Event, TransactionPosted } from '../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../platform/ids.ts';
import { toDecimal, toMinor } from '../platform/money.ts';
import { inSnapshot, type Client } from '../platform/postgres.ts';
import { entriesInOrder, transactionsInOrder, type DatedEntry, type LineRange } from './effective-lines.ts';
import { placesOf, totalsAt, type Bound, type AccountTotal, type Totals } from './totals.ts';

let ledger: RunningLedger;
const { tenant, tenantId } = newTenant();
const codes = ['A', 'B', 'C', 'D'];
const dayMs = 86_400_000;
let log: Event[];

beforeAll(async () => {
  // Months are those of UTC, whatever the server's time zone.
  const database = await freshDatabase('ledger', { migrated: true });
  const zone = `do $$ begin execute format('alter database %I set timezone to ''America/New_York''', current_database()); end $$`;
  await withClient(database.adminUrl, (admin) => admin.query(zone));
  ledger = await startLedger({ database });
  await ledger.client.createAccounts({
    tenantId,
    accounts: codes.map((accountCode) => ({ accountCode, name: accountCode, type: 'asset' })),
  });
  const posted: string[] = [];
  for (let round = 0; round < 250; round++) {
    const [from, to] = [randomInt(4), randomInt(4)].map((index) => codes[index] as string) as [string, string];
    const currency = randomInt(3) === 0 ? 'USD' : 'NGN';
    const amount = (randomInt(1, 10_000_000) / 100).toFixed(2);
    const entries = [
      { accountCode: from, side: 'debit', amount, currency },
      { accountCode: to, side: 'credit', amount, currency },
    ];
    // Days near the ends of months, so that some months are whole and others are not; a few days ahead as well.
    const effectiveMs = BigInt(Date.UTC(2026, randomInt(4), randomInt(-2, 4)) + randomInt(2) - 1);
    const dated = [{}, {}, { effectiveMs }, { effectiveMs: BigInt(Date.now() + randomInt(-3, 4) * dayMs) }][randomInt(4)];
    if (randomInt(8) > 0 || posted.length === 0) {
      const { transaction } = await ledger.client.postTransaction({ posting: { tenantId, entries, ...dated } });
      posted.push(transaction!.transactionId);
    } else {
      const transactionId = posted.splice(randomInt(posted.length), 1)[0]!;
      await ledger.client.reverseTransaction({ tenantId, transactionId, effectiveAsOriginal: randomInt(2) === 0 });
    }
  }
  log = [];
  for (let more = true; more;) {
    const page = await ledger.client.listEvents({ tenantId, afterSequence: BigInt(log.length), limit: 100 });
    log.push(...page.events);
    more = page.hasMore;
  }
}, 60_000);

afterAll(() => ledger.end());

const read = <Result>(work: (client: Client) => Promise<Result>) => inSnapshot(ledger.pool, [tenant], work);

function byHand({ effectiveMs, sequence }: Bound): Totals<AccountTotal> {
  const totals: Totals<AccountTotal> = new Map();
  for (const { data, createdMs, sequence: own } of log) {
    if (data.case !== 'transactionPosted' || own > sequence || Number(data.value.effectiveMs ?? createdMs) > effectiveMs) continue;
    for (const { accountId, currency, side, amount } of data.value.entries) {
      const key = `${toUuid('acc', accountId)} ${currency}`;
      const total = totals.get(key) ?? { debits: 0n, credits: 0n, lastShifted: 0n };
      if (data.value.effectiveMs !== undefined) total.lastShifted = own;
      total[side === 'debit' ? 'debits' : 'credits'] += toMinor(amount)!;
      totals.set(key, total);
    }
  }
  return totals;
}

test('totals at random instants and sequences equal sums by hand', async () => {
  // Months as a whole: up to their last millisecond.
  const monthEnds = Array.from({ length: 6 }, (_, month) => Date.UTC(2026, month) - 1);
  const instants = log.flatMap(({ createdMs, data }) => [
    Number(createdMs),
    Number((data.value as TransactionPosted).effectiveMs ?? createdMs),
    monthEnds[randomInt(monthEnds.length)]!,
  ]);
  const sequences = [1_000, ...Array.from({ length: 12 }, () => randomInt(log.length + 1))];
  const bounds = Array.from({ length: 300 }, () => ({
    effectiveMs: [instants[randomInt(instants.length)]! + randomInt(-1, 2), Date.now() + randomInt(-5, 6) * dayMs, Infinity, 0, -1][
      Math.min(4, randomInt(8) > 2 ? 0 : randomInt(5))
    ]!,
    sequence: BigInt(sequences[randomInt(sequences.length)]!),
  }));
  expect(log.filter(({ data }) => data.case === 'transactionPosted' && data.value.effectiveMs !== undefined).length).toBeGreaterThan(20);
  const all = await read((client) => totalsAt(client, tenant, bounds));
  expect(all).toEqual(bounds.map(byHand));
  const [account] = [...all.flatMap((totals) => [...totals.keys()])][0]!.split(' ') as [string];
  const own = await read((client) => totalsAt(client, tenant, bounds.slice(0, 20), [account]));
  expect(own).toEqual(bounds.slice(0, 20).map((bound) => new Map([...byHand(bound)].filter(([key]) => key.startsWith(account)))));
});

test('balances and the tree at random bounds equal sums by hand, with the version and time of the newest transaction that counts', async () => {
  const posted = log.flatMap(({ data, createdMs, sequence }) =>
    data.case === 'transactionPosted' ? [{ event: data.value, createdMs, sequence }] : [],
  );
  for (let round = 0; round < 60; round++) {
    const [code, currency] = [codes[randomInt(4)] as string, randomInt(2) === 0 ? 'USD' : 'NGN'];
    const pick = posted[randomInt(posted.length)]!;
    const asOfMs = [undefined, pick.createdMs, pick.event.effectiveMs ?? pick.createdMs][randomInt(3)];
    const knownSequence = randomInt(3) === 0 ? 1_000n : BigInt(randomInt(log.length + 1));
    const { balance } = await ledger.client.getBalance({ tenantId, accountCode: code, currency, asOfMs, knownSequence });
    const bound = { effectiveMs: asOfMs === undefined ? Infinity : Number(asOfMs), sequence: knownSequence };
    const total = byHand(bound).get(`${toUuid('acc', balance!.accountId)} ${currency}`) ?? { debits: 0n, credits: 0n };
    const last = posted.findLast(
      ({ event, createdMs, sequence }) =>
        sequence <= bound.sequence &&
        Number(event.effectiveMs ?? createdMs) <= bound.effectiveMs &&
        event.entries.some((entry) => entry.accountCode === code && entry.currency === currency),
    );
    expect(balance).toMatchObject({
      ...{ balance: toDecimal(total.debits - total.credits), debits: toDecimal(total.debits), credits: toDecimal(total.credits) },
      version: last?.event.balances.find((each) => each.accountCode === code && each.currency === currency)?.version ?? 0n,
      knownSequence: knownSequence < BigInt(log.length) ? knownSequence : BigInt(log.length),
      ...{ available: '', pendingDebits: '', pendingCredits: '' },
    });
    expect([balance?.updatedMs, balance?.asOfMs]).toEqual([last?.createdMs, asOfMs]);
    const { accounts } = await ledger.client.getHierarchy({ tenantId, includeBalances: true, asOfMs, knownSequence });
    const shown = accounts.find(({ account }) => account?.accountCode === code)?.balances.find((each) => each.currency === currency);
    expect(shown?.balance ?? '0.00').toBe(balance!.balance);
  }
});

test.each([
  [{ knownMs: 1n, knownSequence: 1n }, 'known_at', 'oneof'],
  [{ knownSequence: -1n }, 'known_sequence', 'min'],
  [{ asOfMs: 253_402_300_800_000n }, 'as_of', 'datetime'],
  [{ knownMs: 253_402_300_800_000n }, 'known_at', 'datetime'],
])('%o is refused, naming %s', async (bounds, field, tag) => {
  const balance = ledger.client.getBalance({ tenantId, accountCode: 'A', currency: 'NGN', ...bounds });
  expect(await refusal(balance)).toMatchObject({ reason: 'validation_failed', field, tag });
  const tree = ledger.client.getHierarchy({ tenantId, includeBalances: true, ...bounds });
  expect(await refusal(tree)).toMatchObject({ reason: 'validation_failed', field, tag });
});

test('bounds of the tree need its balances, and days are dates or times', async () => {
  expect(await refusal(ledger.client.getHierarchy({ tenantId, asOfMs: 1n }))).toMatchObject({ field: 'include', tag: 'required' });
  const days = (from: string, to: string) => ledger.client.listDailyBalances({ tenantId, accountCode: 'A', currency: 'NGN', from, to });
  for (const [from, to, field, tag] of [
    ['', '2026-01-01', 'from', 'required'],
    ['2026-01-01', '2026-1-2', 'to', 'datetime'],
    ['2026-01-02', '2026-01-01', 'from', 'oneof'],
    ['2025-01-01', '2026-01-02', 'to', 'max'],
  ] as const) {
    expect(await refusal(days(from, to))).toMatchObject({ reason: 'validation_failed', field, tag });
  }
});

test('lines between random instants, after random places, equal a sorted log', async () => {
  const posted = log.flatMap(({ data, createdMs, sequence }) =>
    data.case === 'transactionPosted'
      ? [{ event: data.value, sequence, createdMs: Number(createdMs), effectiveMs: Number(data.value.effectiveMs ?? createdMs) }]
      : [],
  );
  const byTime = [...posted].sort((one, other) => one.effectiveMs - other.effectiveMs || Number(one.sequence - other.sequence));
  const accounts = [...new Set(posted.flatMap(({ event }) => event.entries.map(({ accountId, currency }) => `${accountId} ${currency}`)))];
  for (let round = 0; round < 60; round++) {
    const order = randomInt(2) === 0 ? 'effective' : 'posted';
    const time = order === 'effective' ? 'effectiveMs' : 'createdMs';
    const pick = () => posted[randomInt(posted.length)]!;
    const range: LineRange = {
      order,
      pageSize: randomInt(1, 60),
      fromMs: randomInt(3) === 0 ? 0 : pick()[time],
      toMs: randomInt(3) === 0 ? Infinity : pick()[time],
      sequence: randomInt(3) === 0 ? pick().sequence : 1_000n,
    };
    const [accountId = '', currency = ''] = accounts[randomInt(accounts.length)]!.split(' ');
    if (randomInt(2) === 0) range.account = { id: toUuid('acc', accountId)!, currency };
    const all = (order === 'effective' ? byTime : posted)
      .filter((each) => each.sequence <= range.sequence && each[time] >= range.fromMs && each[time] <= range.toMs)
      .flatMap((each) => each.event.entries.map((entry, position): DatedEntry => ({ ...each, entry, position })))
      .filter(({ entry }) => !range.account || (entry.accountId === accountId && entry.currency === currency));
    const cut = randomInt(all.length + 1);
    if (cut > 0) range.after = all[cut - 1];
    const place = ({ sequence, position, effectiveMs, createdMs }: DatedEntry) => [sequence, position, effectiveMs, createdMs];
    const lines = await read((client) => Array.fromAsync(entriesInOrder(client, tenant, range)));
    expect(lines.map(place)).toEqual(all.slice(cut).map(place));
    expect(lines.every(({ entry }, index) => entry.balanceAfter === all[cut + index]!.entry.balanceAfter)).toBe(true);
    const whole = await read((client) => Array.fromAsync(transactionsInOrder(client, tenant, range)));
    const after = new Set(all.slice(cut).map(({ sequence }) => sequence));
    if (range.after) after.delete(range.after.sequence);
    expect(whole.map(({ sequence }) => sequence)).toEqual([...after]);
  }
});

test('a tenant without events has no totals; places are the last sequences of times', async () => {
  const other = newTenant().tenant;
  const none = await inSnapshot(ledger.pool, [other], (client) => totalsAt(client, other, [{ effectiveMs: Infinity, sequence: 5n }]));
  expect(none).toEqual([new Map()]);
  const times = [0, ...log.slice(0, 20).map(({ createdMs }) => Number(createdMs)), Infinity];
  const { head, places } = await read((client) => placesOf(client, tenant, times));
  expect(head).toBe(BigInt(log.length));
  expect(places).toEqual(times.map((ms) => BigInt(log.filter(({ createdMs }) => Number(createdMs) <= ms).length)));
});
