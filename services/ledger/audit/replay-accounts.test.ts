// Changes of accounts that the ledger would refuse, found in a log.
import type { AccountRecord } from '../../../proto/gen/ledger/v1/events_pb.js';
import { a, account, by, byCode, changedHold, endedEvent, findings, heldEvent, hold, nowMs, suspense } from '../../../test/replay.ts';
import { createdEvent, updatedEvent } from '../chart.ts';
import type { NewEvent } from '../log.ts';

const group = byCode.get('group')!;
/** The event of an account's next version. */
const update = (before: AccountRecord, more: Partial<AccountRecord>, ...changes: string[]): NewEvent =>
  updatedEvent({ ...before, version: before.version + 1n, ...more }, changes, by);
const closing = update(group, { status: 'closed' }, 'status');
const below = account('below', { parentCode: 'group' });
const made = createdEvent(below, null, by);

test('no account is created or reopened below a closed group', () => {
  expect(findings([closing, made])).toEqual(['event 7 has an active account below a closed group']);
  const closed = { ...below, status: 'closed', version: 2n };
  const shut = update(below, { status: 'closed' }, 'status');
  expect(findings([made, shut, closing, update(closed, { status: 'active' }, 'status')])).toEqual([
    'event 9 has an active account below a closed group',
  ]);
  expect(findings([made, shut, update(closed, { status: 'active' }, 'status')])).toEqual([]);
  expect(findings([made, shut, closing, update(closed, { name: 'B' }, 'name')])).toEqual([]);
});

test('a group is closed when the accounts below it are', () => {
  const shut = update(below, { status: 'closed' }, 'status');
  expect(findings([made, closing])).toEqual(['event 7 closes a group that has active accounts below it']);
  expect(findings([made, shut, closing])).toEqual([]);
  expect(findings([createdEvent(account('other'), null, by), closing])).toEqual([]);
});

test('an account with something pending can’t be closed', () => {
  const closingA = update(a, { status: 'closed' }, 'status');
  const idle = account('idle', { type: 'liability', normalBalance: 'credit' });
  byCode.set('idle', idle);
  for (const [mine, other, pending] of [
    ['debit', 'credit', '1.00 0.00 0.00'],
    ['credit', 'debit', '0.00 1.00 -1.00'],
  ] as const) {
    const made = hold([`a ${mine} 1.00 NGN`, `idle ${other} 1.00 NGN`], 7n);
    const others = pending === '1.00 0.00 0.00' ? '0.00 1.00 0.00' : '1.00 0.00 -1.00';
    const log = [
      createdEvent(idle, null, by),
      heldEvent(made, [`a NGN 0.00 0.00 0.00 0.00 1 ${pending}`, `idle NGN 0.00 0.00 0.00 0.00 1 ${others}`]),
    ];
    expect(findings([...log, closingA])).toEqual(['event 8 closes an account that has a balance']);
    const voided = changedHold(made, ['0.00 0.00', '0.00 0.00'], { status: 'voided', endedMs: BigInt(nowMs) });
    const end = endedEvent(voided, ['a NGN 0.00 0.00 0.00 0.00 2', 'idle NGN 0.00 0.00 0.00 0.00 2']);
    expect(findings([...log, end, closingA])).toEqual([]);
  }
});

test('an account is moved below another group of its type, but not below itself', () => {
  const inner = account('inner', { parentCode: 'group', isGroup: true });
  const log = [createdEvent(inner, null, by), createdEvent(account('top', { isGroup: true }), null, by)];
  expect(findings([...log, update(group, { parentCode: 'top' }, 'parent_code')])).toEqual([]);
  expect(findings([...log, update(group, { parentCode: 'inner' }, 'parent_code')])).toEqual(['event 8 puts a group below itself']);
  expect(findings([...log, update(group, { parentCode: 'group' }, 'parent_code')])).toEqual(['event 8 puts a group below itself']);
});

test('only the parent of system accounts changes', () => {
  const own = createdEvent(suspense, null, by);
  const liabilities = createdEvent(account('liabilities', { type: 'liability', isGroup: true }), null, by);
  const wrong = ['event 8 changes what can’t change of an account'];
  expect(findings([liabilities, own, update(suspense, { parentCode: 'liabilities' }, 'parent_code')])).toEqual([]);
  expect(findings([liabilities, own, update(suspense, { parentCode: 'group' }, 'parent_code')])).toEqual([
    'event 8 puts an account where no group is',
  ]);
  for (const [more, name] of [
    [{ name: 'Mine' }, 'name'],
    [{ description: 'd' }, 'description'],
    [{ allowNegative: false }, 'allow_negative'],
    [{ status: 'closed' }, 'status'],
    [{ metadata: '{"a":1}' }, 'metadata'],
  ] as const) {
    expect(findings([liabilities, own, update(suspense, more, name)])).toEqual(wrong);
  }
});
