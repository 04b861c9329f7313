// Rows that a replay derives from when postings count and from indexed metadata, and faults of such postings.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { TransactionPostedSchema } from '../../../proto/gen/ledger/v1/events_pb.js';
import { toUuid } from '../../platform/ids.ts';
import { a, accounts, b, by, event, first, nowMs, posting, tenant } from '../../../test/replay.ts';
import { createdEvent } from '../chart.ts';
import { append, genesisHash, type Head } from '../log.ts';
import { Replay } from './replay.ts';
import { joined } from './rows.ts';

type More = MessageInitShape<typeof TransactionPostedSchema>;
const at = (text: string) => BigInt(Date.parse(text));
/** 5.00 from b to a in two entries, and 2.00 back. */
const forth = (more: More) =>
  posting(
    ['a debit 4.00 NGN 4.00', 'a debit 1.00 NGN 5.00', 'b credit 5.00 NGN 5.00'],
    ['a NGN 0.00 5.00 5.00 0.00 1', 'b NGN 0.00 5.00 0.00 5.00 1'],
    more,
  );
const back = (more: More) =>
  posting(['b debit 2.00 NGN 3.00', 'a credit 2.00 NGN 3.00'], ['b NGN 5.00 3.00 2.00 5.00 2', 'a NGN 5.00 3.00 5.00 2.00 2'], more);

/** A log of the accounts and these postings, and what its replay finds and derives. */
function replayed(messages: ReturnType<typeof posting>[], keys: string[] = []) {
  const head: Head = { tenant, sequence: 0n, hash: genesisHash, lastMs: 0, chart: null, rebuilt: 0n, frozen: false };
  const findings: string[] = [];
  const replay = new Replay(tenant, (problem) => findings.push(problem), { keys, through: 0n });
  const events = [...accounts.map((each) => createdEvent(each, null, by)), ...messages.map(event)];
  const added = joined(events.map((each) => replay.apply(append(head, each, nowMs)).rows));
  return { findings, added, months: replay.latest()['shifted_months'] };
}
const [idOfA, idOfB] = [a, b].map(({ id }) => toUuid('acc', id)) as [string, string];

test('shifted postings have their time, what they move with sums so far, and sums by month; plain ones have none', () => {
  const { findings, added, months } = replayed([
    forth({ effectiveMs: at('2023-10-31T23:59:59.999Z') }),
    back({ effectiveMs: at('2023-10-01T00:00:00Z') }),
  ]);
  expect(findings).toEqual([]);
  expect(added.shifted_transactions).toEqual([
    { tenant_id: tenant, sequence: '6', effective_at: '2023-10-31T23:59:59.999Z' },
    { tenant_id: tenant, sequence: '7', effective_at: '2023-10-01T00:00:00.000Z' },
  ]);
  const rows = added.shifted_entries.map(({ account_id: account, sequence, debits, credits, running_debits, running_credits }) =>
    [account === idOfA ? 'a' : 'b', sequence, debits, credits, running_debits, running_credits].join(' '),
  );
  expect(rows).toEqual(['a 6 500 0 500 0', 'b 6 0 500 0 500', 'b 7 200 0 200 500', 'a 7 0 200 500 200']);
  const month = { tenant_id: tenant, currency: 'NGN', month: '2023-10-01', last_sequence: '7' };
  expect(months).toEqual([
    { ...month, account_id: idOfA, debits: '500', credits: '200' },
    { ...month, account_id: idOfB, debits: '200', credits: '500' },
  ]);
  const plain = replayed([first()]);
  expect([plain.added.shifted_transactions, plain.added.shifted_entries, plain.months]).toEqual([[], [], []]);
});

test('texts under keys that are ready are indexed: strings, numbers and booleans of at most 255 characters', () => {
  const metadata = JSON.stringify({
    order: '42',
    n: 1.5,
    paid: false,
    none: null,
    list: ['x'],
    long: '😀'.repeat(256),
    fits: '😀'.repeat(255),
  });
  const keys = ['order', 'n', 'paid', 'none', 'list', 'long', 'fits', 'absent', 'constructor'];
  const { added, findings } = replayed([{ ...forth({}), metadata }], keys);
  expect(findings).toEqual([]);
  expect(added.transaction_metadata.map(({ key, value, sequence }) => [key, value, sequence])).toEqual([
    ['order', '42', '6'],
    ['n', '1.5', '6'],
    ['paid', 'false', '6'],
    ['fits', '😀'.repeat(255), '6'],
  ]);
  expect(replayed([{ ...forth({}), metadata }]).added.transaction_metadata).toEqual([]);
});

const minute = 60_000;
test.each<[string, More, RegExp | null]>([
  ['says that it counts when it is recorded', { effectiveMs: BigInt(nowMs) }, /^event 6 says that it counts when it is recorded$/],
  ['counts before 1970', { effectiveMs: -1n }, /^event 6 counts from .* out of range$/],
  [
    'counts too far ahead',
    { effectiveMs: BigInt(nowMs + 400 * 1440 * minute), kind: 'double' },
    /^event 6 counts from .* out of range\nevent 6 raises b/,
  ],
  [
    'raises an account that may not go below zero before it counts',
    { effectiveMs: BigInt(nowMs + 6 * minute) },
    /^event 6 raises b, .* before it counts$/,
  ],
  ['counts so soon that clocks may differ', { effectiveMs: BigInt(nowMs + 4 * minute) }, null],
])('a posting that %s', (_what, more, finding) => {
  const { findings } = replayed([forth(more)]);
  if (finding === null) expect(findings).toEqual([]);
  else expect(findings.join('\n')).toMatch(finding);
});
