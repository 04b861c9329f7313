// The check of histories finds what it is for: each kind of fault, in a log of two postings.
import { create } from '@bufbuild/protobuf';
import { EventSchema, type Event } from '../../../proto/gen/ledger/v1/events_pb.js';
import type { Read, Tried } from './clients.ts';
import { historyFaults } from './history.ts';

const place = { accountCode: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' };

function events(sequence: bigint, key: string, credits: string, version: bigint): Event[] {
  const transactionId = `id of ${key}`;
  const posted = { transactionId, idempotencyKey: key, entries: [{ ...place, side: 'credit', amount: '1.00' }] };
  const balance = { ...place, debits: '0.00', credits, version };
  return [
    create(EventSchema, { tenantId: 't', sequence, data: { case: 'transactionPosted', value: posted } }),
    create(EventSchema, { tenantId: 't', sequence, data: { case: 'balanceUpdated', value: { transactionId, balance } } }),
  ];
}

const tried = (key: string, askedAt: number, more: Partial<Tried> = {}): Tried => ({
  ...{ tenantId: 't', key, kind: 'double', amount: 100n, during: '', askedAt, answeredAt: askedAt + 10, transactionId: `id of ${key}` },
  ...more,
});

const read = (start: number, version: number, credits: string): Read => ({
  ...{ tenantId: 't', place: 'CUSTOMER-WALLETS-NGN NGN', start, end: start + 1, version, debits: '0.00', credits },
});

const log = [...events(1n, 'a', '1.00', 1n), ...events(2n, 'b', '2.00', 2n)];
const [a, b] = [tried('a', 0), tried('b', 20)];
const reads = [read(12, 1, '1.00'), read(32, 2, '2.00')];
const check = (all: Event[], sent: Tried[], seen: Read[]) => historyFaults(all, new Map(sent.map((each) => [each.key, each])), seen);

test('a right history has no fault', () => {
  expect(check(log, [a, b], reads)).toEqual({ lost: [], doubled: [], findings: [] });
});

test.each<[string, Event[], Tried[], Read[], RegExp]>([
  ['a posting that is not in the log', log, [a, b, tried('c', 40)], [], /^posting c was answered and is not/],
  ['a posting that is there twice', [...log, ...events(3n, 'a', '3.00', 3n)], [a, b], [], /^posting a is in the log more than once/],
  ['a posting with another amount', log, [tried('a', 0, { amount: 99n }), b], [], /sent with 99.* stored for t with 100/],
  ['an order that is not that of the clients', log, [tried('a', 40), b], [], /^posting a was sent after one behind it/],
  ['a read that misses an answered posting', log, [a, b], [read(32, 1, '1.00')], /at least version 2/],
  ['a read of what was never there', log, [a, b], [read(12, 1, '1.50')], /"credits":"1.50"/],
  ['a read that goes back', log, [a, tried('b', 20, { answeredAt: 99 })], [read(22, 2, '2.00'), read(25, 1, '1.00')], /at least version 2/],
])('%s is found', (_, all, sent, seen, finding) => {
  expect(check(all, sent, seen).findings).toContainEqual(expect.stringMatching(finding));
});
