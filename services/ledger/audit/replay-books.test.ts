// Books and periods: changes, closings and postings that the ledger would refuse, found in a log; and the rows of correct ones.
import { create, toBinary, type MessageInitShape } from '@bufbuild/protobuf';
import { BooksUpdatedSchema, PeriodChangedSchema, type TransactionPostedSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { by, event, findings, nowMs, posting, replayed, tenant } from '../../../test/replay.ts';
import { newId, toUuid } from '../../platform/ids.ts';
import { defaultSettings, type BooksSettings } from '../books.ts';
import type { NewEvent } from '../log.ts';

const midnight = (day: string) => Date.parse(day);
const textOf = (change: Partial<BooksSettings> = {}) => JSON.stringify({ ...defaultSettings, ...change });

function updated(change: Partial<BooksSettings>): NewEvent {
  return { type: 'books.updated', ...by, payload: toBinary(BooksUpdatedSchema, create(BooksUpdatedSchema, { record: textOf(change) })) };
}

const periodId = newId('period');
/** A period that ends with a day and is open from midnight after it. */
function period(type: 'closed' | 'reopened', through: string | null, more: MessageInitShape<typeof PeriodChangedSchema> = {}): NewEvent {
  const end = through === null ? {} : { through, openFromMs: BigInt(midnight(through) + 86_400_000) };
  const message = create(PeriodChangedSchema, { id: periodId, reason: 'Month', ...end, ...more });
  return { type: `period.${type}`, ...by, payload: toBinary(PeriodChangedSchema, message) };
}

/** 5.00 from b to a, which counts at a time. */
function dated(atMs: number | null, more: MessageInitShape<typeof TransactionPostedSchema> = {}): NewEvent {
  const lines = ['a debit 5.00 NGN 5.00', 'b credit 5.00 NGN 5.00'];
  const effective = atMs === null ? {} : { effectiveMs: BigInt(atMs) };
  return event(posting(lines, ['a NGN 0.00 5.00 5.00 0.00 1', 'b NGN 0.00 5.00 0.00 5.00 1'], { ...effective, ...more }));
}
const closing = { kind: 'closing', transactionId: newId('txn') };
const yearEnd = period('closed', '2023-10-31', { yearEnd: true, closingTransactions: [closing.transactionId] });
const october = period('closed', '2023-10-31');
const openMs = midnight('2023-11-01');

test('books have one row, as the last event leaves them, and each closing and reopening has its own', () => {
  const year = period('closed', '2023-10-31', { yearEnd: true, final: true, closingTransactions: [closing.transactionId] });
  const log = [
    ...[
      updated({ late_entries: 'next_open', indexed_metadata: ['order'] }),
      dated(openMs - 1, closing),
      year,
      period('closed', '2023-11-13'),
    ],
    period('reopened', '2023-10-31'),
  ];
  const { findings: found, replay } = replayed(log);
  expect(found).toEqual([]);
  const { books, periods } = replay.latest();
  const record = textOf({ late_entries: 'next_open', indexed_metadata: ['order'] });
  const at = new Date(nowMs).toISOString();
  const closed = { closed_through: '2023-10-31', final_through: '2023-10-31', open_from: new Date(openMs).toISOString() };
  expect(books).toEqual([{ tenant_id: tenant, version: 4, record, indexed_since: '{"order":6}', ...closed, updated_at: at }]);
  const common = { tenant_id: tenant, id: toUuid('period', periodId), reason: 'Month', actor: by.actor, created_at: at };
  const plain = { final: false, year_end: false, closing_transactions: '{}' };
  expect(periods).toEqual([
    {
      ...{ ...common, sequence: '8', action: 'close', through: '2023-10-31', final: true, year_end: true },
      closing_transactions: `{${toUuid('txn', closing.transactionId)}}`,
    },
    { ...common, ...plain, sequence: '9', action: 'close', through: '2023-11-13' },
    { ...common, ...plain, sequence: '10', action: 'reopen', through: '2023-10-31' },
  ]);
  expect(replayed([]).replay.latest()).toMatchObject({ books: [], periods: [] });
});

test('what counts in an open period, or was moved into it, is correct', () => {
  expect(findings([october, dated(openMs)])).toEqual([]);
  expect(findings([october, dated(null)])).toEqual([]);
  expect(findings([updated({ late_entries: 'next_open' }), october, dated(openMs, { requestedEffectiveMs: 0n })])).toEqual([]);
  expect(findings([october, period('reopened', null), dated(openMs - 1)])).toEqual([]);
});

test.each<[what: string, log: NewEvent[], finding: RegExp]>([
  ['a time zone that moves closed books', [october, updated({ timezone: 'Africa/Lagos' })], /moves closed books from UTC to Africa\/Lagos/],
  ['cash on no account', [updated({ cash_accounts: ['a', 'nobody'] })], /has cash on nobody, which there is not/],
  ['a closing of nothing', [period('closed', null)], /closes nothing/],
  ['a closing of a day that is not over', [period('closed', '2023-11-14')], /closes 2023-11-14, which is not over/],
  ['a closing of an earlier day', [october, period('closed', '2023-10-30')], /closes 2023-10-30, where 2023-10-31 is closed/],
  [
    'a closing that ends with another day',
    [period('closed', '2023-10-31', { openFromMs: BigInt(openMs - 90_000_000) })],
    /not the end of 2023-10-31/,
  ],
  ['closing transactions that there are not', [period('closed', '2023-10-31', { yearEnd: true, closingTransactions: ['txn_1'] })], /txn_1/],
  ['closing transactions of no year', [dated(0, closing), period('closed', '2023-10-31')], /closes by nothing, where the log has txn_/],
  ['closing transactions before another posting', [dated(0, closing), dated(null)], /follows txn_\w+, which close no period/],
  ['a closing transaction of another day', [dated(openMs, closing), yearEnd], /closes by txn_\w+, which does not count at its end/],
  ['a closing transaction without a day', [dated(null, closing), yearEnd], /closes by txn_\w+, which does not count at its end/],
  ['a reopening of what is open', [period('reopened', null)], /reopens what is not closed/],
  ['a reopening beyond what is closed', [october, period('reopened', '2023-11-13')], /reopens what is not closed/],
  ['a final reopening', [october, period('reopened', null, { final: true })], /reopens with a mark of a closing/],
  [
    'a reopening of what is final',
    [period('closed', '2023-10-31', { final: true }), period('reopened', '2023-10-30')],
    /reopens what is closed for ever/,
  ],
  ['a posting into a closed period', [october, dated(openMs - 1)], /counts from 2023-10-31T23:59:59.999Z on, and all before 2023-11-01/],
  ['a posting before 1970', [dated(-1)], /counts from 1969-12-31T23:59:59.999Z on, which is out of range/],
  ['a posting too far ahead', [updated({ future_days: 1 }), dated(nowMs + 86_400_001)], /which is out of range/],
  ['a late posting that was to be refused', [october, dated(openMs, { requestedEffectiveMs: 0n })], /was moved from 1970-01-01/],
  [
    'a posting that was moved too far',
    [updated({ late_entries: 'next_open' }), october, dated(openMs + 1, { requestedEffectiveMs: 0n })],
    /was moved from 1970-01-01/,
  ],
  ['a posting that was moved to nowhere', [dated(null, { requestedEffectiveMs: 0n })], /was moved from a closed period to nowhere/],
])('%s is found', (_, log, finding) => {
  expect(findings(log).join('\n')).toMatch(finding);
});
