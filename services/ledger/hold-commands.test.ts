import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { CaptureSchema, HoldSchema, VoidSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';
import { Refusal } from './accounting.ts';
import { validateCapture, validateHold, validateVoid } from './hold-commands.ts';

const call = { tenantId: newId('tenant'), actor: 'key_1', requestId: 'r', traceparent: '', retry: false };
const pair = entries('a debit 5.00 NGN', 'b credit 5.00 NGN');
const [holdId, transactionId] = [newId('hold'), newId('txn')];
const hold = (more: MessageInitShape<typeof HoldSchema> = {}) =>
  validateHold(create(HoldSchema, { holdId, idempotencyKey: 'k', entries: pair, ...more }), call);
const capture = (more: MessageInitShape<typeof CaptureSchema> = {}) =>
  validateCapture(create(CaptureSchema, { holdId, transactionId, idempotencyKey: 'k', ...more }), call);

function blame(refused: () => unknown): [field: string, tag: string, value: string] {
  try {
    refused();
  } catch (error) {
    if (error instanceof Refusal && error.reason === 'validation_failed' && error.blame)
      return [error.blame.field, error.blame.tag, error.blame.value];
  }
  throw new Error('was not refused');
}

test('a hold, a capture and a void have the names and amounts that were sent', () => {
  const { tenantId, actor, requestId } = call;
  const common = { tenantId, actor, requestId, retry: false, dryRun: false, timeoutMs: 10_000 };
  expect(hold({ expiresMs: 1_800_000_000_000n, description: 'd', reference: 'r', metadata: '{"a": 1}' })).toMatchObject({
    ...common,
    kind: 'hold',
    transactionId: holdId,
    entries: [{ code: 'a', amount: 500n }, { code: 'b' }],
    target: null,
    options: { expiresAtMs: 1_800_000_000_000 },
    description: 'd',
    reference: 'r',
    metadata: '{"a":1}',
  });
  const target = { id: holdId, uuid: hold().transaction };
  expect(capture({ amount: '5' })).toMatchObject({
    ...common,
    kind: 'capture',
    transactionId,
    target,
    options: { amount: 500n, final: true },
  });
  expect(capture({ entries: pair, final: false })).toMatchObject({ entries: [{ code: 'a' }, { code: 'b' }], options: { final: false } });
  const voided = validateVoid(create(VoidSchema, { holdId, description: 'why' }), { ...call, timeoutMs: 5, dryRun: true });
  expect(voided).toMatchObject({ ...common, kind: 'void', target, description: 'why', timeoutMs: 5, dryRun: true });
});

test('without ids and keys a hold and a capture have ids of their own, which are their keys', () => {
  const made = [hold({ holdId: '', idempotencyKey: '' }), capture({ transactionId: '', idempotencyKey: '' })];
  expect(made.map((each) => each.transactionId.split('_')[0])).toEqual(['hold', 'txn']);
  for (const each of made) expect(each.idempotencyKey).toBe(each.transactionId);
});

test.each<[string, () => unknown, string, string, string]>([
  ['a malformed id', () => hold({ holdId: transactionId }), 'hold_id', 'id', transactionId],
  ['no entries', () => hold({ entries: [] }), 'entries', 'required', ''],
  ['one entry', () => hold({ entries: pair.slice(1) }), 'entries', 'min', '1'],
  ['201 entries', () => hold({ entries: Array(201).fill(pair[0]) }), 'entries', 'max', '201'],
  ['an amount of zero', () => hold({ entries: entries('a debit 0.00 NGN', 'b credit 0.00 NGN') }), 'entries[0].amount', 'gt', '0.00'],
  ['two times of expiry', () => hold({ expiresMs: 9n, expiresIn: 9n }), 'expires_in', 'same', '9'],
  ['a life of nothing', () => hold({ expiresIn: 0n }), 'expires_in', 'min', '0'],
  ['a life beyond 400 days', () => hold({ expiresIn: 34_560_001n }), 'expires_in', 'max', '34560001'],
  ['an expiry before the epoch', () => hold({ expiresMs: -1n }), 'expires_at', 'datetime', '-1'],
  ['an empty reason', () => hold({ overrideReason: '' }), 'override_reason', 'required', ''],
  ['an empty condition', () => hold({ require: [{ accountCode: 'a', currency: 'NGN' }] }), 'require[0]', 'required', ''],
  ['no hold to capture', () => capture({ holdId: '' }), 'hold_id', 'required', ''],
  ['a malformed transaction id', () => capture({ transactionId: holdId }), 'transaction_id', 'id', holdId],
  ['an amount and entries', () => capture({ amount: '5.00', entries: pair }), 'amount', 'same', '5.00'],
  ['a malformed amount', () => capture({ amount: '5.001' }), 'amount', 'decimal', '5.001'],
  ['one entry of a capture', () => capture({ entries: pair.slice(1) }), 'entries', 'min', '1'],
  ['no hold to void', () => validateVoid(create(VoidSchema, {}), call), 'hold_id', 'required', ''],
  [
    'a long reason of a void',
    () => validateVoid(create(VoidSchema, { holdId, description: 'd'.repeat(1001) }), call),
    'description',
    'max',
    'd'.repeat(1000),
  ],
])('%s is refused, and the field is named', (_, refused, field, tag, value) => {
  expect(blame(refused)).toEqual([field, tag, value]);
});

test('the same request has the same fingerprint however amounts and absent defaults are written', () => {
  const print = ({ fingerprint }: { fingerprint: Buffer }) => fingerprint.toString('hex');
  const same: [string, string][] = [
    [print(hold()), print(hold({ entries: entries('a debit 5 NGN', 'b credit 5.0 NGN'), metadata: '{}', require: [] }))],
    [print(hold({ metadata: '{"a":1,"b":2}' })), print(hold({ metadata: '{"b":2,"a":1}' }))],
    [print(capture()), print(capture({ final: true }))],
    [print(capture({ amount: '5' })), print(capture({ amount: '5.00' }))],
  ];
  for (const [one, other] of same) expect(one).toBe(other);
  const different = [
    ...[hold(), hold({ expiresIn: 60n }), hold({ expiresIn: 61n }), hold({ expiresMs: 60n }), hold({ description: 'd' })],
    ...[hold({ reference: 'r' }), hold({ validUntilMs: 60n }), hold({ overrideReason: 'r' })],
    hold({ require: [{ accountCode: 'a', currency: 'NGN', version: 1n }] }),
    ...[capture(), capture({ final: false }), capture({ amount: '5' }), capture({ entries: pair }), capture({ holdId: newId('hold') })],
  ];
  expect(new Set(different.map(print)).size).toBe(different.length);
  expect(different.map((each) => each.fingerprint[0])).toEqual(different.map(() => 2));
});
