// The check of holds finds what it is for: each kind of fault, in a log of one hold that is captured in two parts.
import { create } from '@bufbuild/protobuf';
import { EventSchema, HoldRecordSchema, type Event, type HoldRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import type { TriedHold } from './hold-clients.ts';
import { holdFaults } from './hold-history.ts';

const record = (status: string, captured: string, remaining: string): HoldRecord => {
  const line = { accountCode: 'a', side: 'debit', currency: 'EUR', amount: '3.00', captured, remaining };
  return create(HoldRecordSchema, { holdId: 'hold_1', idempotencyKey: 'k', status, entries: [line, { ...line, side: 'credit' }] });
};
const event = (sequence: bigint, data: Event['data']) => create(EventSchema, { tenantId: 't', sequence, data });
const made = (hold: HoldRecord, sequence = 1n) => event(sequence, { case: 'holdCreated', value: { hold } as never });
const captured = (sequence: bigint, amount: string, hold: HoldRecord) =>
  event(sequence, { case: 'transactionPosted', value: { hold, entries: [{ amount }] } as never });
const ended = (sequence: bigint, hold: HoldRecord) => event(sequence, { case: 'holdEnded', value: { hold } as never });

const begin = made(record('pending', '0.00', '3.00'));
const part = captured(2n, '1.00', record('pending', '1.00', '2.00'));
const last = captured(3n, '2.00', record('captured', '3.00', '0.00'));
const tried = (more: Partial<TriedHold> = {}): TriedHold => ({
  ...{ tenantId: 't', key: 'k', amount: 300n, isExpiring: false, holdId: 'hold_1', ends: [] },
  ...more,
});

test('a right history of a hold has no fault', () => {
  expect(holdFaults([begin, part, last], [tried()])).toEqual([]);
  expect(holdFaults([begin, part, ended(3n, record('voided', '1.00', '0.00'))], [tried({ isVoided: true, ends: ['voided'] })])).toEqual([]);
});

test.each<[string, Event[], Partial<TriedHold>, RegExp]>([
  ['a hold that is not in the log', [], {}, /^hold k was answered and is not in the log$/],
  [
    'a hold that is there twice',
    [begin, made(record('pending', '0.00', '3.00'), 2n), part, last],
    {},
    /^hold k is in the log more than once$/,
  ],
  ['a hold that was answered as another', [begin, part, last], { holdId: 'hold_2' }, /^hold k is in the log as hold_1, and was never/],
  [
    'an end after the end',
    [begin, part, last, ended(4n, record('voided', '3.00', '0.00'))],
    {},
    /^event 4 changes hold_1, which is captured$/,
  ],
  ['an end that was answered otherwise', [begin, part, last], { isVoided: true }, /^hold k is captured, and was answered as voided$/],
  ['a refusal that names another end', [begin, part, last], { ends: ['expired'] }, /^hold k is captured, and was answered as expired$/],
  ['a hold that never ends', [begin, part], {}, /^hold k has not ended$/],
  ['a captured sum that is wrong', [begin, last], {}, /^hold k of 300 has captured 200, and its line is/],
  ['another amount than was sent', [begin, part, last], { amount: 301n }, /^hold k of 301 has captured 300/],
])('%s is found', (_, events, more, finding) => {
  expect(holdFaults(events, [tried(more)])).toContainEqual(expect.stringMatching(finding));
});
