// Velocity limits: faulty changes and counts, found in a log; and the rows of correct ones.
import { create, toBinary } from '@bufbuild/protobuf';
import { DefinitionChangedSchema, OriginSchema, VelocityUsesSchema, type VelocityUses } from '../../../proto/gen/ledger/v1/events_pb.js';
import { account, by, capture, changedHold, endedEvent, event, first, heldEvent, hold, nowMs, posting } from '../../../test/replay.ts';
import { findings, replayed, tenant } from '../../../test/replay.ts';
import { createdEvent } from '../chart.ts';
import type { NewEvent } from '../log.ts';

const limitId = 'limit_01m8md6fster0bs4539pvznk26';
const iso = (ms: number) => new Date(ms).toISOString();
/** Midnight in Lagos before all events. */
const dayMs = Date.parse('2023-11-14T00:00:00+01:00');
/** The minute of all events. */
const minuteMs = Math.floor(nowMs / 60_000) * 60_000;

/** On what comes to b, as its first version. */
const limit = {
  ...{ limit_id: limitId, account_code: 'b', applies: 'account', currency: 'NGN', side: 'credit' },
  ...{ max_amount: '8.00' as string | null, max_count: null as number | null },
  window: { calendar: 'day', time_zone: 'Africa/Lagos' } as object,
  ...{ name: null, status: 'active', version: 1, created_at: iso(nowMs), updated_at: iso(nowMs) },
};
const hourly = { rolling_seconds: 3600 };

function changed(more: Partial<typeof limit> = {}, { version = more.version ?? 1, kind = 'limit' } = {}): NewEvent {
  const message = create(DefinitionChangedSchema, {
    kind,
    id: limitId,
    version: BigInt(version),
    record: JSON.stringify({ ...limit, ...more }),
  });
  return { type: 'definition.changed', ...by, payload: toBinary(DefinitionChangedSchema, message) };
}

function deleted(version: bigint): NewEvent {
  const message = create(DefinitionChangedSchema, { kind: 'limit', id: limitId, version });
  return { type: 'definition.changed', ...by, payload: toBinary(DefinitionChangedSchema, message) };
}

type Use = [amount: string, count: number, stepMs?: number, subject?: string];
function uses(...all: Use[]): VelocityUses {
  return create(VelocityUsesSchema, {
    uses: all.map(([amount, count, stepMs = dayMs, subject = 'b']) => ({ limitId, subject, stepMs: BigInt(stepMs), amount, count })),
  });
}

/** The n-th posting of 5.00 to b, at a time. */
const nth = (n: number, use: Use | null, more: object = {}, atMs = nowMs) => {
  const [before, after] = [`${(n - 1) * 5}.00`, `${n * 5}.00`];
  const lines = [`a debit 5.00 NGN ${after}`, `b credit 5.00 NGN ${after}`];
  const message = posting(lines, [`a NGN ${before} ${after} ${after} 0.00 ${n}`, `b NGN ${before} ${after} 0.00 ${after} ${n}`], more);
  if (use) message.uses = uses(use);
  return { ...event(message), atMs };
};
const stepsIn = (events: Parameters<typeof findings>[0]) => {
  const { findings: found, replay } = replayed(events);
  expect(found).toEqual([]);
  return replay.latest()['velocity']!.map((row) => [row['subject'], row['steps']]);
};

test('a limit has a row, as its last event has it, and none when it is deleted', () => {
  const { findings: found, replay } = replayed([changed(), changed({ version: 2, max_count: 3 })]);
  expect(found).toEqual([]);
  const record = JSON.stringify({ ...limit, version: 2, max_count: 3 });
  expect(replay.latest()).toMatchObject({
    definitions: [{ tenant_id: tenant, kind: 'limit', id: limitId, version: '2', record }],
    velocity: [],
  });
  const gone = replayed([changed(), nth(1, ['5.00', 1]), deleted(2n), nth(2, null)]);
  expect([gone.findings, gone.replay.latest()]).toMatchObject([[], { definitions: [], velocity: [] }]);
});

test.each<[what: string, event: NewEvent, finding: RegExp]>([
  ['has no version before it', changed({ version: 2 }), /makes version 2 of limit_\w+ after none/],
  ['is of another version than its record', changed({ version: 2 }, { version: 1 }), /has a record of limit_\w+ 2 .*, not limit_\w+ 1 /],
  ['is of another id', changed({ limit_id: 'limit_1' }), /has a record of limit_1 1 /],
  ['is of another time', changed({ updated_at: iso(nowMs + 1) }), /has a record of/],
  ['is older than its making', changed({ created_at: iso(nowMs - 1) }), /has a record of/],
  ['is on no account', changed({ account_code: 'nobody' }), /limits nobody, which there is not/],
  ['is of an unknown kind', changed({}, { kind: 'rule' }), /defines a rule, which there is not/],
  ['deletes what there is not', deleted(1n), /deletes limit_\w+, which there is not/],
])('a definition that %s is found', (_what, made, finding) => {
  expect(findings([made]).join('\n')).toMatch(finding);
});

test.each([{ account_code: 'a' }, { applies: 'each' }, { currency: 'USD' }, { side: 'debit' }, { window: hourly }])(
  'a change of %j, which can’t change, is found',
  (more) => {
    expect(findings([changed(), changed({ ...more, version: 2 })])).toEqual([`event 7 changes what can’t change of ${limitId}`]);
  },
);

test('an event counts what it must, and nothing else', () => {
  const expected = `5.00 and 1 of b for ${limitId} at ${dayMs}`;
  expect(stepsIn([changed(), nth(1, ['5.00', 1])])).toEqual([['b', `[[${dayMs},"500",1]]`]]);
  expect(findings([changed(), nth(1, null)])).toEqual([expect.stringMatching(/^event 7 counts nothing, not 5.00 and 1 of b/)]);
  expect(findings([nth(1, ['5.00', 1])])).toEqual([`event 6 counts ${expected}, not nothing`]);
  for (const wrong of [
    ['5.01', 1],
    ['5.00', 2],
    ['5.00', 1, dayMs, 'a'],
  ] satisfies Use[]) {
    expect(findings([changed(), nth(1, wrong)]).join()).toMatch(/^event 7 counts .*, not 5.00 and 1 of b/);
  }
  // A step can't begin later than the event, nor longer before it than the longest window.
  for (const stepMs of [nowMs + 1, nowMs - 368 * 86_400_000]) {
    expect(findings([changed(), nth(1, ['5.00', 1, stepMs])]).join()).toMatch(
      /^event 7 counts .*, not 5.00 and 1 of b for limit_\w+ at NaN$/,
    );
  }
  for (const other of [{ side: 'debit' }, { currency: 'USD' }, { account_code: 'pounds' }]) {
    expect(findings([changed(other), nth(1, null)])).toEqual([]);
  }
  // A reversal never counts.
  const reversal = { kind: 'reversal', reverses: 'txn_1' };
  expect(findings([changed(), nth(1, null, reversal)])).toEqual([]);
  expect(findings([changed(), nth(1, ['5.00', 1], reversal)])).toEqual([`event 7 counts ${expected}, not nothing`]);
});

test('a group counts each account below it, or the sum of all', () => {
  const inGroup = (code: string) => account(code, { parentCode: 'group' });
  const [c, d] = [inGroup('c'), inGroup('d')];
  const message = posting(
    ['b debit 3.00 NGN 2.00', 'c debit 2.00 NGN 2.00', 'd debit 1.00 NGN 1.00', 'a credit 6.00 NGN -1.00'],
    ['b NGN 5.00 2.00 3.00 5.00 2', 'c NGN 0.00 2.00 2.00 0.00 1', 'd NGN 0.00 1.00 1.00 0.00 1', 'a NGN 5.00 -1.00 5.00 6.00 2'],
  );
  for (const each of [...message.entries, ...message.balances]) {
    const id = { c: c.id, d: d.id }[each.accountCode];
    if (id !== undefined) each.accountId = id;
  }
  const log = (applies: string, ...counted: Use[]) => {
    message.uses = uses(...counted);
    const rule = changed({ account_code: 'group', side: 'debit', applies });
    return [...[c, d].map((each) => createdEvent(each, null, by)), event(first()), rule, event(message)];
  };
  expect(stepsIn(log('sum', ['3.00', 1, dayMs, 'group']))).toEqual([['group', `[[${dayMs},"300",1]]`]]);
  expect(stepsIn(log('each', ['2.00', 1, dayMs, 'c'], ['1.00', 1, dayMs, 'd']))).toEqual([
    ['c', `[[${dayMs},"200",1]]`],
    ['d', `[[${dayMs},"100",1]]`],
  ]);
});

test('no maximum is exceeded while the limit is active, but for an override', () => {
  const twice = (more: Partial<typeof limit>, second: object = {}) =>
    findings([changed(more), nth(1, ['5.00', 1]), nth(2, ['5.00', 1], second)]);
  expect(twice({})).toEqual([`event 8 brings b to 10.00 of the 8.00 that ${limitId} allows`]);
  expect(twice({ max_amount: '10.00', max_count: 1 })).toEqual([`event 8 brings b to 2 of the 1 that ${limitId} allows`]);
  expect(twice({ max_amount: null, max_count: 2 })).toEqual([]);
  expect(twice({ status: 'paused' })).toEqual([]);
  const origin = create(OriginSchema, { override: { reason: 'r', broken: [limitId] } });
  expect(twice({}, { origin })).toEqual([]);
});

test('a calendar window begins anew where an event says', () => {
  const tomorrow = dayMs + 86_400_000;
  const log = [changed(), nth(1, ['5.00', 1]), nth(2, ['5.00', 1, tomorrow], {}, tomorrow)];
  expect(stepsIn(log)).toEqual([['b', `[[${tomorrow},"500",1]]`]]);
});

test('a rolling window moves in steps of a sixtieth, the oldest of which counts whole', () => {
  const minute = (n: number) => minuteMs + n * 60_000;
  const log = (...at: number[]) => at.map((atMs, n) => nth(n + 1, ['5.00', 1, Math.floor(atMs / 60_000) * 60_000], {}, atMs));
  const rolling = changed({ window: hourly });
  expect(findings([rolling, ...log(nowMs, minute(61) - 1)])).toEqual([`event 8 brings b to 10.00 of the 8.00 that ${limitId} allows`]);
  expect(stepsIn([rolling, ...log(nowMs, minute(61))])).toEqual([['b', `[[${minute(61)},"500",1]]`]]);
  const wide = changed({ window: hourly, max_amount: null, max_count: 9 });
  expect(stepsIn([wide, ...log(nowMs, nowMs, minute(1), minute(60), minute(61))])).toEqual([
    [
      'b',
      JSON.stringify([
        [minute(1), '500', 1],
        [minute(60), '500', 1],
        [minute(61), '500', 1],
      ]),
    ],
  ]);
  expect(findings([wide, nth(1, ['5.00', 1, minute(1)])]).join()).toMatch(/at \d+, not 5.00 and 1 of b for limit_\w+ at \d+$/);
});

describe('a hold', () => {
  const made = hold(['a debit 4.00 NGN', 'b credit 4.00 NGN'], 7n);
  const held = heldEvent(made, ['a NGN 0.00 0.00 0.00 0.00 1 4.00 0.00 0.00', 'b NGN 0.00 0.00 0.00 0.00 1 0.00 4.00 0.00'], {
    uses: uses(['4.00', 1]),
  });
  const released = ['a NGN 0.00 0.00 0.00 0.00 2', 'b NGN 0.00 0.00 0.00 0.00 2'];
  const endedMs = BigInt(nowMs);
  const voided = (...given: Use[]) => {
    const record = changedHold(made, ['0.00 0.00', '0.00 0.00'], { status: 'voided', endedMs });
    return [changed(), held, endedEvent(record, released, given.length === 0 ? {} : { uses: uses(...given) })];
  };
  const captured = (status: string, ...given: Use[]) => {
    const left = status === 'captured' ? '0.00' : '3.00';
    const record = changedHold(made, [`1.00 ${left}`, `1.00 ${left}`], { status, captures: 1, ...(status === 'captured' && { endedMs }) });
    const pending = status === 'captured' ? ['', ''] : [' 3.00 0.00 1.00', ' 0.00 3.00 1.00'];
    const balances = [`a NGN 0.00 1.00 1.00 0.00 2${pending[0]}`, `b NGN 0.00 1.00 0.00 1.00 2${pending[1]}`];
    const message = capture(record, ['a debit 1.00 NGN 1.00', 'b credit 1.00 NGN 1.00'], balances);
    if (given.length > 0) message.uses = uses(...given);
    return [changed(), held, event(message)];
  };

  test('counts when it is made', () => {
    expect(stepsIn([changed(), held])).toEqual([['b', `[[${dayMs},"400",1]]`]]);
  });

  test('gives back all when it is voided, and the rest when it is captured', () => {
    expect(stepsIn(voided(['-4.00', -1]))).toEqual([['b', `[[${dayMs},"0",0]]`]]);
    expect(findings(voided())).toEqual([expect.stringMatching(/^event 8 counts nothing, not -4.00 and -1 of b/)]);
    expect(findings(voided(['-4.00', 0]))).toEqual([expect.stringMatching(/^event 8 counts -4.00 and 0 of b .*, not -4.00 and -1 of b/)]);
    expect(stepsIn(captured('captured', ['-3.00', 0]))).toEqual([['b', `[[${dayMs},"100",1]]`]]);
    expect(findings(captured('captured'))).toEqual([expect.stringMatching(/^event 8 counts nothing, not -3.00 and 0 of b/)]);
    expect(findings(captured('captured', ['-3.00', -1])).join()).toMatch(/counts -3.00 and -1 of b .*, not -3.00 and 0/);
    expect(stepsIn(captured('pending'))).toEqual([['b', `[[${dayMs},"400",1]]`]]);
    expect(findings(captured('pending', ['1.00', 1]))).toEqual([expect.stringMatching(/^event 8 counts 1.00 and 1 of b .*, not nothing$/)]);
  });

  test('gives nothing back to a limit that was made later or is deleted', () => {
    const [, , end] = voided();
    const unlimited = hold(['a debit 4.00 NGN', 'b credit 4.00 NGN'], 6n, { holdId: made.holdId, idempotencyKey: made.idempotencyKey });
    const begin = heldEvent(unlimited, ['a NGN 0.00 0.00 0.00 0.00 1 4.00 0.00 0.00', 'b NGN 0.00 0.00 0.00 0.00 1 0.00 4.00 0.00']);
    const record = changedHold(unlimited, ['0.00 0.00', '0.00 0.00'], { status: 'voided', endedMs });
    expect(stepsIn([begin, changed(), endedEvent(record, released)])).toEqual([]);
    expect(stepsIn([changed(), held, deleted(2n), end!])).toEqual([]);
  });
});
