// Holds, captures and their ends that the ledger would refuse, found in a log; and the rows of correct ones.
import { create } from '@bufbuild/protobuf';
import { AccountLimitSchema, OriginSchema, type AccountRecord, type HoldRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import {
  account,
  b,
  by,
  capture,
  changedHold,
  endedEvent,
  event,
  findings,
  first,
  heldEvent,
  hold,
  nowMs,
  posting,
  replayed,
  tenant,
} from '../../../test/replay.ts';
import { newId, toUuid } from '../../platform/ids.ts';
import { updatedEvent } from '../chart.ts';

const endedMs = BigInt(nowMs);
// After 5.00 on a and b (event 6), 4.00 of it is held to leave again (event 7).
const made = hold(['b debit 4.00 NGN', 'a credit 4.00 NGN'], 7n, { reference: 'order-1' });
const heldBalances = ['b NGN 5.00 5.00 0.00 5.00 2 4.00 0.00 1.00', 'a NGN 5.00 5.00 5.00 0.00 2 0.00 4.00 1.00'];
const log = [event(first()), heldEvent(made, heldBalances)];

const partly = changedHold(made, ['1.00 3.00', '1.00 3.00'], { captures: 1 });
const partBalances = ['b NGN 5.00 4.00 1.00 5.00 3 3.00 0.00 1.00', 'a NGN 5.00 4.00 5.00 1.00 3 0.00 3.00 1.00'];
const part = (record = partly, balances = partBalances) => capture(record, ['b debit 1.00 NGN 4.00', 'a credit 1.00 NGN 4.00'], balances);
/** The rest of it, from which 2.00 is captured and 1.00 released. */
const captured = changedHold(partly, ['3.00 0.00', '3.00 0.00'], { captures: 2, status: 'captured', endedMs });
const lastBalances = ['b NGN 4.00 2.00 3.00 5.00 4', 'a NGN 4.00 2.00 5.00 3.00 4'];
const last = () => capture(captured, ['b debit 2.00 NGN 2.00', 'a credit 2.00 NGN 2.00'], lastBalances);

const releasedBalances = ['b NGN 5.00 5.00 0.00 5.00 3', 'a NGN 5.00 5.00 5.00 0.00 3'];
const ended = (status: string, more: Partial<HoldRecord> = {}) =>
  changedHold(made, ['0.00 0.00', '0.00 0.00'], { status, endedMs, ...more });
const voided = endedEvent(ended('voided'), releasedBalances);

describe('rows of correct holds', () => {
  const { findings: found, replay, added } = replayed([...log, event(part()), event(last())]);
  const [uuid, ids] = [toUuid('hold', made.holdId), made.entries.map((entry) => toUuid('acc', entry.accountId))];

  test('are the hold, its entries, and a part for each capture', () => {
    expect(found).toEqual([]);
    const { holds, hold_entries: entries } = added.at(-1)!.rows;
    expect(holds).toEqual([
      {
        ...{ tenant_id: tenant, sequence: '7', id: uuid, idempotency_key: made.holdId, fingerprint: `\\x${'00'.repeat(33)}` },
        ...{ reference: 'order-1', status: 'captured', expires_at: null, created_at: new Date(nowMs).toISOString() },
      },
    ]);
    const line = { tenant_id: tenant, hold_sequence: '7', currency: 'NGN', amount: '400', captured: '300', remaining: '0' };
    expect(entries).toEqual([
      { ...line, position: 0, account_id: ids[0], side: 'debit' },
      { ...line, position: 1, account_id: ids[1], side: 'credit' },
    ]);
    expect(added.flatMap(({ rows }) => rows.parts)).toEqual([
      { tenant_id: tenant, of: uuid, number: 1, sequence: '8' },
      { tenant_id: tenant, of: uuid, number: 2, sequence: '9' },
    ]);
    expect(replay.latest()).toMatchObject({ holds: [], hold_entries: [] });
  });

  test('of a pending one come last', () => {
    const before = replayed([...log, event(part())]);
    expect(before.findings).toEqual([]);
    expect(before.added.flatMap(({ rows }) => [...rows.holds, ...rows.hold_entries])).toEqual([]);
    expect(before.replay.latest()).toMatchObject({
      holds: [{ status: 'pending' }],
      hold_entries: [
        { captured: '100', remaining: '300' },
        { captured: '100', remaining: '300' },
      ],
    });
    expect(before.replay.latest()['balances']).toMatchObject([
      { version: '3', pending_debits: '0', pending_credits: '300' },
      { version: '3', pending_debits: '300', pending_credits: '0' },
    ]);
  });

  test('have the time at which they expire', () => {
    const expiring = { ...made, expiresMs: BigInt(nowMs + 1) };
    expect(replayed([log[0]!, heldEvent(expiring, heldBalances)]).replay.latest()).toMatchObject({
      holds: [{ expires_at: new Date(nowMs + 1).toISOString() }],
    });
  });
});

const made2 = (change: (record: HoldRecord) => void, balances = heldBalances) => {
  const record = hold(['b debit 4.00 NGN', 'a credit 4.00 NGN'], 7n);
  change(record);
  return findings([log[0]!, heldEvent(record, balances)]).join('\n');
};

test.each<[what: string, change: (record: HoldRecord) => void, finding: RegExp]>([
  ['is captured', (record) => (record.status = 'captured'), /status of hold_\w+ is captured, not pending/],
  ['was captured', (record) => (record.captures = 1), /captures of hold_\w+ is 1, not absent/],
  ['is of another time', (record) => (record.createdMs += 1n), /createdMs of hold_\w+ is 1700000000001, not 1700000000000/],
  ['is of another position', (record) => (record.sequence = 6n), /sequence of hold_\w+ is 6, not 7/],
  ['has an end', (record) => (record.endedMs = endedMs), /endedMs of hold_\w+ is 1700000000000, not absent/],
  ['has less left', (record) => (record.entries[0]!.remaining = '3.00'), /entries.0.remaining of hold_\w+ is 3.00, not 4.00/],
  ['has something captured', (record) => (record.entries[1]!.captured = '1.00'), /entries.1.captured of hold_\w+ is 1.00, not 0.00/],
  ['is due', (record) => (record.expiresMs = BigInt(nowMs)), /^event 7 makes hold_\w+, which is due$/],
  ['has no id', (record) => (record.holdId = newId('txn')), /^event 7 can't be read: no hold$/],
  ['does not balance', (record) => (record.entries[1]!.currency = 'USD'), /does not balance in NGN\n.*does not balance in USD/],
  ['has a negative entry', (record) => record.entries.forEach((entry) => (entry.amount = '-1.00')), /not greater than zero/],
  ['is on no account', (record) => (record.entries[0]!.accountId = newId('acc')), /can't be read: no account b/],
])('a new hold that %s is found', (_what, change, finding) => {
  expect(made2(change)).toMatch(finding);
});

test('a new hold with wrong pending sums, on a group, or of an id that is pending, is found', () => {
  expect(made2(() => undefined, [heldBalances[0]!.replace('4.00 0.00 1.00', '0.00 0.00 5.00'), heldBalances[1]!])).toMatch(
    /^event 7 promises the balance .* 0.00 0.00 5.00, not .* 4.00 0.00 1.00$/,
  );
  expect(made2(() => undefined, [heldBalances[0]!])).toBe('event 7 changes 2 balances and tells of 1');
  const onGroup = hold(['group debit 1.00 NGN', 'a credit 1.00 NGN'], 6n);
  const balances = ['group NGN 0.00 0.00 0.00 0.00 1 1.00 0.00 0.00', 'a NGN 0.00 0.00 0.00 0.00 1 0.00 1.00 -1.00'];
  expect(findings([heldEvent(onGroup, balances)])).toEqual(['event 6 posts to group, a group or closed account']);
  const again = ['b NGN 5.00 5.00 0.00 5.00 3 5.00 0.00 0.00', 'a NGN 5.00 5.00 5.00 0.00 3 0.00 5.00 0.00'];
  const twice = hold(['b debit 1.00 NGN', 'a credit 1.00 NGN'], 8n, { holdId: made.holdId });
  expect(findings([...log, heldEvent(twice, again)])).toEqual([`event 8 makes ${made.holdId} again`]);
});

test('what is held can’t be spent or held again, but for an override', () => {
  const spent = posting(
    ['b debit 1.01 NGN 3.99', 'a credit 1.01 NGN 3.99'],
    ['b NGN 5.00 3.99 1.01 5.00 3 4.00 0.00 -0.01', 'a NGN 5.00 3.99 5.00 1.01 3 0.00 4.00 -0.01'],
  );
  expect(findings([...log, event(spent)])).toEqual(['event 8 leaves b below zero in NGN']);
  const heldAgain = hold(['b debit 1.01 NGN', 'a credit 1.01 NGN'], 8n);
  const balances = ['b NGN 5.00 5.00 0.00 5.00 3 5.01 0.00 -0.01', 'a NGN 5.00 5.00 5.00 0.00 3 0.00 5.01 -0.01'];
  expect(findings([...log, heldEvent(heldAgain, balances)])).toEqual(['event 8 leaves b below zero in NGN']);
  const origin = create(OriginSchema, { override: { reason: 'r', broken: ['insufficient_funds'] } });
  expect(findings([...log, heldEvent({ ...heldAgain, origin }, balances)])).toEqual([]);
});

test('a ceiling counts what is incoming, a block refuses holds and captures, and no limit a capture', () => {
  const bounded = (more: Partial<AccountRecord>) =>
    updatedEvent(
      account('b', { id: b.id, type: 'liability', normalBalance: 'credit', allowNegative: false, version: 2n, ...more }),
      Object.keys(more),
      by,
    );
  const limits = (more: object) => [create(AccountLimitSchema, { currency: 'NGN', ...more })];
  const incoming = hold(['a debit 1.00 NGN', 'b credit 1.00 NGN'], 8n);
  const balances = ['a NGN 5.00 5.00 5.00 0.00 2 1.00 0.00 5.00', 'b NGN 5.00 5.00 0.00 5.00 2 0.00 1.00 5.00'];
  const ceiling = bounded({ limits: limits({ maxBalance: '5.99' }) });
  expect(findings([log[0]!, ceiling, heldEvent(incoming, balances)])).toEqual(['event 8 leaves b above 5.99 in NGN']);
  const blocked = bounded({ blocked: ['debit'] });
  const blockedHold = heldEvent({ ...made, sequence: 8n }, heldBalances);
  expect(findings([log[0]!, blocked, blockedHold])).toEqual(['event 8 has a debit entry on b, which is blocked for it']);
  expect(findings([...log, blocked, event(part())])).toEqual(['event 9 has a debit entry on b, which is blocked for it']);
  expect(findings([...log, blocked, voided])).toEqual([]);
  // Both are broken by what was held before.
  const both = bounded({ limits: limits({ minAvailable: '4.00', maxBalance: '1.00' }) });
  expect(findings([...log, both, event(part())])).toEqual([]);
});

test.each<[what: string, change: (record: HoldRecord) => void, finding: RegExp]>([
  ['leaves more', (record) => (record.entries[0]!.remaining = '4.00'), /entries.0.remaining of hold_\w+ is 4.00, not 3.00/],
  ['says that more was captured', (record) => (record.entries[1]!.captured = '2.00'), /entries.1.captured of hold_\w+ is 2.00, not 1.00/],
  ['is not counted', (record) => (record.captures = 0), /captures of hold_\w+ is absent, not 1/],
  ['changes the amount', (record) => (record.entries[0]!.amount = '5.00'), /entries.0.amount of hold_\w+ is 5.00, not 4.00/],
  ['changes the reference', (record) => delete record.reference, /reference of hold_\w+ is absent, not order-1/],
  ['has another status', (record) => (record.status = 'voided'), /status of hold_\w+ is voided, not pending/],
  ['ends it with something left', (record) => (record.status = 'captured'), /remaining of hold_\w+ is 3.00, not 0.00/],
  ['is of another hold', (record) => (record.holdId = newId('hold')), /captures hold_\w+, which is not pending/],
])('a capture that %s is found', (_what, change, finding) => {
  const record = structuredClone(partly);
  change(record);
  expect(findings([...log, event(part(record))]).join('\n')).toMatch(finding);
});

test('a capture of more than is left, of another account, without a hold or without its name is found', () => {
  const more = ['b debit 4.01 NGN 0.99', 'a credit 4.01 NGN 0.99'];
  const balances = ['b NGN 5.00 0.99 4.01 5.00 3', 'a NGN 5.00 0.99 5.00 4.01 3'];
  const all = changedHold(made, ['4.00 0.00', '4.00 0.00'], { captures: 1, status: 'captured', endedMs });
  expect(findings([...log, event(capture(all, more, balances))])).toEqual([
    `event 8 captures 0.01 NGN of b more than is left of ${made.holdId}`,
    `event 8 captures 0.01 NGN of a more than is left of ${made.holdId}`,
  ]);
  const swapped = part();
  swapped.entries.forEach((entry) => (entry.side = entry.side === 'debit' ? 'credit' : 'debit'));
  expect(findings([...log, event(swapped)]).join()).toMatch(/captures 1.00 NGN of b more than is left/);
  expect(findings([...log, event({ ...part(), kind: 'double' })]).join()).toMatch(/^event 8 is double and has hold_/);
  const { hold: _hold, ...without } = part();
  expect(findings([...log, event(without)]).join()).toMatch(/^event 8 is capture and has no hold/);
  expect(findings([...log, event({ ...part(), origin: create(OriginSchema) })])).toEqual([
    `event 8 captures ${made.holdId} and says nothing`,
  ]);
  const double = { ...first(), origin: create(OriginSchema, { holdId: made.holdId }) };
  expect(findings([event(double)])).toEqual(['event 6 is double and has no hold']);
});

test('a hold that has ended is changed no more', () => {
  const again = endedEvent(ended('voided'), []);
  expect(findings([...log, voided, again])).toEqual([`event 9 ends ${made.holdId}, which is not pending`]);
  expect(findings([...log, voided, event(part())]).join()).toMatch(/event 9 captures hold_\w+, which is not pending/);
  expect(findings([...log, event(part()), event(last()), again])).toEqual([`event 10 ends ${made.holdId}, which is not pending`]);
});

test('a hold expires at its time or later, and until then it is captured or voided', () => {
  const expiresMs = BigInt(nowMs + 10);
  const begin = [log[0]!, heldEvent({ ...made, expiresMs }, heldBalances)];
  const end = (status: string, afterMs: number) => {
    const record = { ...ended(status), expiresMs, endedMs: BigInt(nowMs + afterMs) };
    return findings([...begin, { ...endedEvent(record, releasedBalances), atMs: nowMs + afterMs }]);
  };
  expect(end('voided', 9)).toEqual([]);
  expect(end('voided', 10)).toEqual([`event 8 is hold.voided of ${made.holdId}, which is due`]);
  expect(end('expired', 9)).toEqual([`event 8 is hold.expired of ${made.holdId}, which is not due`]);
  expect(end('expired', 10)).toEqual([]);
  expect(end('expired', 11)).toEqual([]);
  const captured = (afterMs: number) => findings([...begin, { ...event(part({ ...partly, expiresMs })), atMs: nowMs + afterMs }]);
  expect(captured(9)).toEqual([]);
  expect(captured(10)).toEqual([`event 8 captures ${made.holdId}, which is due`]);
  const never = endedEvent(ended('expired'), releasedBalances);
  expect(findings([...log, never])).toEqual([`event 8 is hold.expired of ${made.holdId}, which is not due`]);
});

test.each<[what: string, change: (record: HoldRecord) => void, finding: RegExp]>([
  ['leaves something', (record) => (record.entries[0]!.remaining = '4.00'), /entries.0.remaining of hold_\w+ is 4.00, not 0.00/],
  ['captures something', (record) => (record.entries[0]!.captured = '4.00'), /entries.0.captured of hold_\w+ is 4.00, not 0.00/],
  ['has no time', (record) => delete record.endedMs, /endedMs of hold_\w+ is absent, not 1700000000000/],
  ['has another status than its type', (record) => (record.status = 'captured'), /status of hold_\w+ is captured, not voided/],
])('a void that %s is found', (_what, change, finding) => {
  const record = structuredClone(ended('voided'));
  change(record);
  expect(findings([...log, endedEvent(record, releasedBalances)]).join('\n')).toMatch(finding);
});

test('a void has a description, an expiry none; and both have the balances after it', () => {
  expect(findings([...log, endedEvent(ended('voided'), releasedBalances, { description: 'd' })])).toEqual([]);
  const expiresMs = BigInt(nowMs + 10);
  const expired = endedEvent({ ...ended('expired'), expiresMs, endedMs: expiresMs }, releasedBalances, { description: 'd' });
  const begin = [log[0]!, heldEvent({ ...made, expiresMs }, heldBalances)];
  expect(findings([...begin, { ...expired, atMs: nowMs + 10 }])).toEqual(['event 8 has a description, which only a void has']);
  const wrong = [releasedBalances[0]!, 'a NGN 5.00 5.00 5.00 0.00 2'];
  expect(findings([...log, endedEvent(ended('voided'), wrong)]).join()).toMatch(/^event 8 promises the balance acc_\w+ a NGN 2/);
  expect(findings([...log, endedEvent(ended('voided'), [])])).toEqual(['event 8 changes 2 balances and tells of 0']);
});
