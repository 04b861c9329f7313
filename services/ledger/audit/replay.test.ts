// Faults of bookkeeping in logs with a valid chain, as a faulty writer would leave them.
import { create, toBinary } from '@bufbuild/protobuf';
import {
  AccountLimitSchema,
  OriginSchema,
  SealedDataSchema,
  SubjectErasedSchema,
  type AccountRecord,
  type TransactionPosted,
} from '../../../proto/gen/ledger/v1/events_pb.js';
import { a, account, b, by, event, findings, first, nowMs, posting, second, suspense } from '../../../test/replay.ts';
import { newId } from '../../platform/ids.ts';
import { createdEvent, updatedEvent } from '../chart.ts';
import type { LogRow, NewEvent } from '../log.ts';
import type { BusinessType } from '../templates.ts';

const changedFirst = (change: (message: TransactionPosted) => void) => {
  const message = first();
  change(message);
  return findings([event(message)]);
};

test('correct postings have no findings', () => {
  expect(findings([event(first()), event(second())])).toEqual([]);
});

const faults: [what: string, change: (message: TransactionPosted) => void, finding: RegExp][] = [
  ['does not balance', ({ entries }) => (entries[1]!.amount = '4.00'), /does not balance in NGN/],
  ['balances only across currencies', ({ entries }) => (entries[1]!.currency = 'USD'), /does not balance in USD/],
  ['has an entry of nothing', ({ entries }) => entries.forEach((entry) => (entry.amount = '0.00')), /not greater than zero/],
  ['has a negative entry', ({ entries }) => entries.forEach((entry) => (entry.amount = '-5.00')), /not greater than zero/],
  ['has an amount with a prefix', ({ entries }) => (entries[0]!.amount = 'x5.00'), /x5.00 is no amount/],
  ['has an entry of half a unit', ({ entries }) => (entries[0]!.amount = '5.000'), /5.000 is no amount/],
  ['has a wrong balance after an entry', ({ entries }) => (entries[0]!.balanceAfter = '5.01'), /leaves a at 5.01, where .* 5.00/],
  [
    'has a wrong balance',
    ({ balances }) => (balances[0]!.balance = '6.00'),
    /^event 6 promises the balance acc_\w+ a NGN 1 0.00 6.00 5.00 0.00 0.00 0.00 5.00, not acc_\w+ a NGN 1 0.00 5.00 5.00 0.00 0.00 0.00 5.00$/,
  ],
  ['has a wrong total', ({ balances }) => (balances[1]!.credits = '6.00'), /promises the balance/],
  ['has a wrong version', ({ balances }) => (balances[1]!.version = 2n), /promises the balance/],
  ['has a wrong previous balance', ({ balances }) => (balances[1]!.previousBalance = '1.00'), /promises the balance/],
  ['has a wrong pending sum', ({ balances }) => (balances[0]!.pendingCredits = '1.00'), /promises the balance/],
  ['omits a balance', ({ balances }) => balances.pop(), /^event 6 changes 2 balances and tells of 1$/],
  ['has balances in another order', ({ balances }) => balances.reverse(), /promises the balance/],
  ['is single without a counter-entry', (message) => (message.kind = 'single'), /is single with 2 entries, 0 of them counter-entries/],
  ['is double with a counter-entry', ({ entries }) => (entries[1]!.counter = true), /is double with 2 entries, 1 of them/],
  ['has an unknown kind', (message) => (message.kind = 'triple'), /^event 6 is of the kind triple, which there is not$/],
  ['is double and reverses', (message) => (message.reverses = 'txn_1'), /^event 6 is double and reverses txn_1$/],
  ['is a reversal of nothing', (message) => (message.kind = 'reversal'), /^event 6 is reversal and reverses nothing$/],
  ['posts to an unknown account', ({ entries }) => (entries[0]!.accountId = newId('acc')), /no account a/],
  ['posts to one account under the code of another', ({ entries }) => (entries[0]!.accountCode = 'b'), /no account b/],
];

test.each(faults)('a posting that %s is found', (_what, change, finding) => {
  expect(changedFirst(change).join('\n')).toMatch(finding);
});

test.each(['closed', 'group'])('a posting to an account that is %s is found', (code) => {
  const message = posting(
    [`${code} debit 5.00 NGN 5.00`, 'b credit 5.00 NGN 5.00'],
    [`${code} NGN 0.00 5.00 5.00 0.00 1`, 'b NGN 0.00 5.00 0.00 5.00 1'],
  );
  expect(findings([event(message)])).toEqual([`event 6 posts to ${code}, a group or closed account`]);
});

test('a posting in another currency than the account’s is found', () => {
  const message = posting(
    ['pounds debit 5.00 NGN 5.00', 'b credit 5.00 NGN 5.00'],
    ['pounds NGN 0.00 5.00 5.00 0.00 1', 'b NGN 0.00 5.00 0.00 5.00 1'],
  );
  expect(findings([event(message)])).toEqual(['event 6 posts NGN to pounds']);
  const inPounds = posting(
    ['pounds debit 1234.56 GBP 1234.56', 'b credit 1234.56 GBP 1234.56'],
    ['pounds GBP 0.00 1234.56 1234.56 0.00 1', 'b GBP 0.00 1234.56 0.00 1234.56 1'],
  );
  expect(findings([event(inPounds)])).toEqual([]);
});

test('subjects have a row for each transaction with their data, and one for their erasure', () => {
  const [subject, other] = [newId('subj'), newId('subj')];
  const sealed = (subjectId: string) => ({ subjectId, nonce: new Uint8Array(12), ciphertext: new Uint8Array(17) });
  const posted = (...ids: string[]) => Object.assign(first(), { personal: ids.map((id) => create(SealedDataSchema, sealed(id))) });
  const payload = toBinary(SubjectErasedSchema, create(SubjectErasedSchema, { subjectId: subject }));
  const erased: NewEvent = { ...by, type: 'subject.erased', payload };
  expect(findings([event(posted(subject, other)), erased])).toEqual([]);
  expect(findings([event(posted(subject, subject)), erased, erased])).toEqual([
    'event 6 has personal data of one subject twice, or of more than four',
    `event 8 erases ${subject}, who was erased before`,
  ]);
});

test('a change without its version or its name, or that closes an account with a balance, is found', () => {
  const next = (more: Partial<AccountRecord>) => account('a', { id: a.id, version: 2n, ...more });
  expect(findings([updatedEvent(next({ name: 'A' }), ['name'], by)])).toEqual([]);
  expect(findings([updatedEvent(next({ name: 'A', version: 3n }), ['name'], by)])).toEqual([
    'event 6 has another version or time than its change',
  ]);
  expect(findings([updatedEvent(next({ name: 'A' }), ['status'], by)])).toEqual(['event 6 changes name and says status']);
  const closing = updatedEvent(next({ status: 'closed' }), ['status'], by);
  expect(findings([closing])).toEqual([]);
  expect(findings([event(first()), closing])).toEqual(['event 7 closes an account that has a balance']);
});

test('a chain with a gap, a swap, a step back in time or a changed byte is found', () => {
  const events = [event(first()), event(second())];
  expect(findings(events, (rows) => rows.splice(2, 1)).join()).toMatch(/event 4 follows event 2.*event 4 does not have the hash/);
  expect(findings(events, (rows) => rows.reverse()).length).toBeGreaterThan(3);
  expect(findings(events, (rows) => (rows[3]!.createdMs -= 1)).join()).toMatch(/event 4 is older than the event before it/);
  for (const change of [
    (row: LogRow) => (row.actor = 'x'),
    (row: LogRow) => (row.requestId = 'x'),
    (row: LogRow) => (row.eventId = '01a1fb00-56d3-7ddc-8316-6d72a3f74836'),
    (row: LogRow) => (row.createdMs += 0.001),
    (row: LogRow) => (row.payload = row.payload.slice(1)),
    (row: LogRow) => (row.hash = Buffer.alloc(32, 1)),
  ]) {
    expect(findings(events, (rows) => change(rows[1]!)).join()).toMatch(/event 2 does not have the hash/);
  }
});

describe('a single posting', () => {
  const single = (change: (message: TransactionPosted) => void, more: Partial<AccountRecord> = {}) => {
    const message = posting(
      ['a debit 5.00 NGN 5.00', 'SUSPENSE-NGN credit 5.00 NGN 5.00'],
      ['a NGN 0.00 5.00 5.00 0.00 1', 'SUSPENSE-NGN NGN 0.00 5.00 0.00 5.00 1'],
      { kind: 'single' },
    );
    message.entries[1]!.counter = true;
    change(message);
    return findings([createdEvent({ ...suspense, ...more }, null, by), event(message)]);
  };

  test('has two entries, one of which is the counter-entry', () => {
    expect(single(() => undefined)).toEqual([]);
    expect(single(({ entries }) => (entries[0]!.counter = true))).toContain('event 7 is single with 2 entries, 2 of them counter-entries');
    const three = second();
    three.kind = 'single';
    three.entries[0]!.counter = true;
    expect(findings([event(first()), event(three)])).toContain('event 7 is single with 3 entries, 1 of them counter-entries');
  });

  test('has its counter-entry on the suspense account of its currency, and its own entry on no system account', () => {
    const swapped = ({ entries }: TransactionPosted) => entries.forEach((entry) => (entry.counter = !entry.counter));
    expect(single(swapped)).toEqual(['event 7 is single with its counter-entry on a', 'event 7 is single with an entry on SUSPENSE-NGN']);
    expect(single(() => undefined, { system: false })).toEqual(['event 7 is single with its counter-entry on SUSPENSE-NGN']);
    const onOther = first();
    onOther.kind = 'single';
    onOther.entries[1]!.counter = true;
    expect(findings([event(onOther)])).toEqual(['event 6 is single with its counter-entry on b']);
    const inDollars = (message: TransactionPosted) => [...message.entries, ...message.balances].forEach((each) => (each.currency = 'USD'));
    expect(single(inDollars, { currency: undefined })).toEqual(['event 7 is single with its counter-entry on SUSPENSE-NGN']);
  });
});

test('an account that may not be negative may be so already and become less so', () => {
  const free = account('b', { id: b.id, type: 'liability', normalBalance: 'credit', allowNegative: true, version: 2n });
  const below = posting(
    ['b debit 5.00 NGN -5.00', 'a credit 5.00 NGN -5.00'],
    ['b NGN 0.00 -5.00 5.00 0.00 1', 'a NGN 0.00 -5.00 0.00 5.00 1'],
  );
  const nearer = posting(
    ['a debit 2.00 NGN -3.00', 'b credit 2.00 NGN -3.00'],
    ['a NGN -5.00 -3.00 2.00 5.00 2', 'b NGN -5.00 -3.00 5.00 2.00 2'],
  );
  const back = posting(
    ['a debit 5.00 NGN 0.00', 'b credit 5.00 NGN 0.00'],
    ['a NGN -5.00 0.00 5.00 5.00 2', 'b NGN -5.00 0.00 5.00 5.00 2'],
  );
  const forbidden = { ...free, allowNegative: false, version: 3n };
  const freed = updatedEvent(free, ['allow_negative'], by);
  const bound = updatedEvent(forbidden, ['allow_negative'], by);
  expect(findings([freed, event(below), bound])).toEqual(['event 8 forbids an account below zero to be there']);
  expect(findings([freed, event(below), event(back), bound])).toEqual([]);
  expect(findings([freed, event(below), bound, event(nearer)])).toEqual(['event 8 forbids an account below zero to be there']);
});

test('an account that may not be negative may be emptied, and stay negative', () => {
  const emptied = posting(
    ['b debit 5.00 NGN 0.00', 'a credit 5.00 NGN 0.00'],
    ['b NGN 5.00 0.00 5.00 5.00 2', 'a NGN 5.00 0.00 5.00 5.00 2'],
  );
  expect(findings([event(first()), event(emptied)])).toEqual([]);
  const below = posting(
    ['b debit 5.00 NGN -5.00', 'a credit 5.00 NGN -5.00'],
    ['b NGN 0.00 -5.00 5.00 0.00 1', 'a NGN 0.00 -5.00 0.00 5.00 1'],
  );
  const toAndFro = posting(
    ['b debit 1.00 NGN -6.00', 'b credit 1.00 NGN -5.00', 'a debit 1.00 NGN -4.00', 'a credit 1.00 NGN -5.00'],
    ['b NGN -5.00 -5.00 6.00 1.00 2', 'a NGN -5.00 -5.00 1.00 6.00 2'],
  );
  expect(findings([event(below), event(toAndFro)])).toEqual(['event 6 leaves b below zero in NGN']);
});

test('blocks and limits hold but for an override', () => {
  const bounded = (more: Partial<AccountRecord>) =>
    updatedEvent(
      account('b', { id: b.id, type: 'liability', normalBalance: 'credit', allowNegative: false, version: 2n, ...more }),
      Object.keys(more),
      by,
    );
  const limits = (more: object) => [create(AccountLimitSchema, { currency: 'NGN', ...more })];
  const found = (change: ReturnType<typeof updatedEvent>) => findings([change, event(first())]);
  expect(found(bounded({ limits: limits({ maxBalance: '4.99' }) }))).toEqual(['event 7 leaves b above 4.99 in NGN']);
  expect(found(bounded({ limits: limits({ maxBalance: '5.00' }) }))).toEqual([]);
  expect(found(bounded({ blocked: ['credit'] }))).toEqual(['event 7 has a credit entry on b, which is blocked for it']);
  const overridden = { ...first(), origin: create(OriginSchema, { override: { reason: 'r', broken: ['account_blocked'] } }) };
  expect(findings([bounded({ blocked: ['credit'] }), event(overridden)])).toEqual([]);
  // What an override has left below zero can be changed in other respects.
  const below = posting(
    ['b debit 5.00 NGN -5.00', 'a credit 5.00 NGN -5.00'],
    ['b NGN 0.00 -5.00 5.00 0.00 1', 'a NGN 0.00 -5.00 0.00 5.00 1'],
  );
  below.origin = create(OriginSchema, { override: { reason: 'r', broken: ['insufficient_funds'] } });
  expect(findings([event(below), bounded({ blocked: ['debit'] })])).toEqual([]);
});

describe('an account with several balances', () => {
  const inCurrency = (currency: string) => {
    const message = first();
    for (const each of [...message.entries, ...message.balances]) each.currency = currency;
    return event(message);
  };
  const closing = updatedEvent(account('a', { id: a.id, version: 2n, status: 'closed' }), ['status'], by);

  test.each(['NGN', 'USD', 'EUR', 'GBP'])('can’t be closed with a balance in %s', (currency) => {
    expect(findings([inCurrency(currency), closing])).toEqual(['event 7 closes an account that has a balance']);
  });

  test('can be closed when all of them are empty', () => {
    const back = posting(
      ['b debit 5.00 NGN 0.00', 'a credit 5.00 NGN 0.00'],
      ['b NGN 5.00 0.00 5.00 5.00 2', 'a NGN 5.00 0.00 5.00 5.00 2'],
    );
    expect(findings([inCurrency('NGN'), event(back), closing])).toEqual([]);
    expect(findings([inCurrency('NGN'), inCurrency('EUR'), event(back), closing])).toEqual([
      'event 9 closes an account that has a balance',
    ]);
  });

  test('is negative if one of them is', () => {
    const owing = posting(
      ['pounds debit 5.00 GBP 5.00', 'a credit 5.00 GBP -5.00'],
      ['pounds GBP 0.00 5.00 5.00 0.00 1', 'a GBP 0.00 -5.00 0.00 5.00 1'],
    );
    const bound = updatedEvent(account('a', { id: a.id, version: 2n, allowNegative: false }), ['allow_negative'], by);
    expect(findings([inCurrency('NGN'), bound])).toEqual([]);
    expect(findings([inCurrency('NGN'), event(owing), bound])).toEqual(['event 8 forbids an account below zero to be there']);
  });
});

test('events without an account are findings', () => {
  const empty = (type: NewEvent['type']): NewEvent => ({ type, ...by, payload: new Uint8Array() });
  expect(findings([empty('account.created')])).toEqual(["event 6 can't be read: no account"]);
  expect(findings([empty('account.updated')])).toEqual(["event 6 can't be read: no account that was made before"]);
});

test('a created account is new, below a group of its type, and of the tenant’s chart', () => {
  const made = (more: Partial<AccountRecord>, template: BusinessType | null = null) =>
    findings([createdEvent(account('c', more), template, by)], undefined, 'wallet');
  expect(made({})).toEqual([]);
  expect(made({ parentCode: 'group' })).toEqual([]);
  expect(made({ parentCode: 'group', type: 'liability' })).toEqual(['event 6 puts an account where no group is']);
  for (const parentCode of ['a', 'nowhere', '']) expect(made({ parentCode })).toEqual(['event 6 puts an account where no group is']);
  expect(made({}, 'wallet')).toEqual([]);
  expect(made({}, 'lending')).toEqual(['event 6 is of the chart lending, not wallet']);
  for (const older of [{ version: 2n }, { createdMs: BigInt(nowMs - 1) }, { updatedMs: BigInt(nowMs + 1) }]) {
    expect(made(older)).toEqual(['event 6 makes an account that is not new']);
  }
  expect(made({ id: a.id })).toEqual(['event 6 makes account c again']);
  expect(findings([createdEvent(account('a'), null, by)])).toEqual(['event 6 makes account a again']);
  expect(made({ id: newId('txn') })).toEqual(["event 6 can't be read: no account"]);
});

test.each<[keyof AccountRecord, Partial<AccountRecord>, string]>([
  ['accountCode', { accountCode: 'z' }, 'account_code'],
  ['type', { type: 'expense' }, 'type'],
  ['normalBalance', { normalBalance: 'credit' }, 'normal_balance'],
  ['currency', { currency: 'NGN' }, 'currency'],
  ['isGroup', { isGroup: true }, 'is_group'],
  ['system', { system: true }, 'system'],
  ['createdMs', { createdMs: BigInt(nowMs - 1) }, 'created_ms'],
])('a change of an account’s %s is found', (_field, more, named) => {
  const next = account('a', { id: a.id, version: 2n, ...more });
  expect(findings([updatedEvent(next, [named], by)])).toEqual(['event 6 changes what can’t change of an account']);
});

test('a change of an unknown account, or with another time than its event’s, is found', () => {
  expect(findings([updatedEvent(account('c', { version: 2n }), [], by)])).toEqual([
    "event 6 can't be read: no account that was made before",
  ]);
  const late = account('a', { id: a.id, version: 2n, updatedMs: BigInt(nowMs - 1), name: 'A', metadata: '{"m":1}' });
  expect(findings([updatedEvent(late, ['metadata', 'name'], by)])).toEqual(['event 6 has another version or time than its change']);
});
