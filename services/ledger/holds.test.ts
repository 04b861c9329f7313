// Holds over gRPC: made, captured and voided, one by one and again.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { CaptureSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { openAudit, type Audit } from '../../test/audit.ts';
import { capture, hold, holdCalls, refusedWith, release, reverse, shown, spend, type Command } from '../../test/hold-commands.ts';
import { entries, newTenant, refusal, type RunningLedger } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';
import { newId } from '../platform/ids.ts';

let audit: Audit;
let ledger: RunningLedger;
const { submit, one, done, made, tenantWith, balanceOf } = holdCalls(() => ledger.client);

beforeAll(async () => {
  audit = await openAudit();
  ({ ledger } = audit);
});

afterAll(() => audit.end());

describe('a hold', () => {
  test('lowers what is available, and no balance', async () => {
    const { tenantId } = await tenantWith('100.00');
    const result = await done(tenantId, hold('60.00', { description: 'd', reference: 'r', metadata: '{"a":1}', idempotencyKey: 'k' }));
    expect([result.replayed, result.transaction]).toEqual([false, undefined]);
    expect(result.hold).toMatchObject({ status: 'pending', description: 'd', reference: 'r', metadata: '{"a":1}', idempotencyKey: 'k' });
    const { captures, expiresMs, endedMs, origin } = result.hold!;
    expect([captures, expiresMs, endedMs, origin]).toEqual([0, undefined, undefined, undefined]);
    const [line] = result.hold!.entries;
    expect(line).toMatchObject({ accountCode: 'purse', side: 'debit', amount: '60.00', captured: '0.00', remaining: '60.00' });
    expect(line?.accountId).toMatch(/^acc_/);
    expect(await balanceOf(tenantId, 'purse')).toEqual(['100.00', '40.00', '60.00', '0.00', 2n]);
    expect(await balanceOf(tenantId, 'shop')).toEqual(['0.00', '0.00', '0.00', '60.00', 1n]);
    const { history } = await ledger.client.listBalanceHistory({ tenantId, accountCode: 'purse', currency: 'NGN' });
    expect(history).toHaveLength(1);
    expect((await ledger.client.getHold({ tenantId, holdId: result.hold!.holdId })).hold).toEqual(result.hold);
  });

  test('of the same money as another is refused, and a posting can’t spend what is held', async () => {
    const { tenantId } = await tenantWith('100.00');
    await done(tenantId, hold('60.00'));
    const refused = ['insufficient_funds', 'entries[0].account_code', 'purse'];
    expect(refusedWith(await one(tenantId, hold('40.01')))).toEqual(refused);
    expect(refusedWith(await one(tenantId, spend('40.01')))).toEqual(refused);
    await done(tenantId, spend('40.00'));
    expect((await balanceOf(tenantId, 'purse')).slice(0, 2)).toEqual(['60.00', '0.00']);
  });

  test('has several currencies, each balanced', async () => {
    const { tenantId } = await tenantWith('0.00');
    const lines = ['bank debit 5.00 NGN', 'fees credit 5.00 NGN', 'bank debit 2.00 USD', 'shop credit 1.00 USD', 'fees credit 1.00 USD'];
    const { holdId } = await made(tenantId, { command: { case: 'hold', value: { entries: entries(...lines) } } });
    const part = { entries: entries('bank debit 0.50 USD', 'fees credit 0.50 USD'), final: false };
    const first = await done(tenantId, capture(holdId, part));
    expect(first.transaction).toMatchObject({ currency: 'USD', amount: '0.50', kind: 'capture' });
    const rest = await done(tenantId, capture(holdId));
    expect(rest.transaction!.entries.map(({ accountCode, amount, currency }) => `${accountCode} ${amount} ${currency}`)).toEqual([
      ...['bank 5.00 NGN', 'fees 5.00 NGN', 'bank 1.50 USD', 'shop 1.00 USD', 'fees 0.50 USD'],
    ]);
    const unbalanced = { command: { case: 'hold' as const, value: { entries: entries('bank debit 5.00 NGN', 'shop credit 5.00 USD') } } };
    expect(refusedWith(await one(tenantId, unbalanced))).toEqual(['unbalanced', 'entries', 'NGN']);
  });

  test('is refused for what postings are refused for, and then uses no key', async () => {
    const { tenantId } = await tenantWith('100.00');
    await ledger.client.updateAccount({ tenantId, accountCode: 'shop', blocked: { sides: ['credit'] } });
    const key = { idempotencyKey: 'k' };
    const condition = { accountCode: 'purse', currency: 'NGN', available: { gte: '50.00' } };
    const cases: [Command, string[]][] = [
      [hold('1.00', key), ['account_blocked', 'entries[1].account_code', 'shop']],
      [hold('51.00', { ...key, require: [condition] }), ['condition_failed', 'require[0].available.gte', '50.00']],
      [hold('1.00', { ...key, validUntilMs: 1n }), ['too_late', 'valid_until', '1970-01-01T00:00:00.001Z']],
      [hold('1.00', { ...key, expiresMs: 1n }), ['validation_failed', 'expires_at', '1970-01-01T00:00:00.001Z']],
      [hold('1.00', { ...key, expiresIn: 0n }), ['validation_failed', 'expires_in', '0']],
    ];
    for (const [command, refused] of cases) expect(refusedWith(await one(tenantId, command))).toEqual(refused);
    const overridden = await done(tenantId, hold('101.00', { ...key, overrideReason: 'why' }));
    expect(overridden.hold!.origin!.override).toMatchObject({ reason: 'why', broken: ['account_blocked', 'insufficient_funds'] });
  });

  test('is made once by a key of its own, which its capture and other transactions may have too', async () => {
    const { tenantId } = await tenantWith('100.00');
    const key = { idempotencyKey: 'order-42' };
    const first = await done(tenantId, hold('10.00', key));
    expect((await done(tenantId, spend('1.00', { idempotencyKey: 'x' }))).replayed).toBe(false);
    const captured = await done(tenantId, capture(first.hold!.holdId, { ...key, amount: '4.00', final: false }));
    const again = await done(tenantId, hold('10.00', key));
    // As it is now, as transactions are.
    expect(again).toEqual({ ...first, hold: captured.hold, replayed: true });
    const capturedAgain = await done(tenantId, capture(first.hold!.holdId, { ...key, amount: '4.00', final: false }));
    expect(capturedAgain).toEqual({ ...captured, replayed: true });
    expect((await balanceOf(tenantId, 'purse'))[4]).toBe(4n);
  });

  test('is answered again by its key though its money is spent, its time is over and it is too late', async () => {
    const { tenantId } = await tenantWith('100.00');
    const once = hold('60.00', { idempotencyKey: 'k', expiresIn: 1n, validUntilMs: BigInt(Date.now() + 1_000) });
    const first = await done(tenantId, once);
    await done(tenantId, spend('40.00'));
    for (let turn = 0; turn < 3; turn++) expect(await done(tenantId, once)).toEqual({ ...first, replayed: true });
    await until(
      () => one(tenantId, hold('1.00', { validUntilMs: first.hold!.expiresMs! })),
      ({ refusal: refused }) => refused?.reason === 'too_late',
    );
    expect(await done(tenantId, once)).toEqual({ ...first, replayed: true });
  });

  test.each<[string, Command, string]>([
    ['an amount', hold('11.00', { idempotencyKey: 'k' }), 'entries[0].amount,entries[1].amount'],
    ['a reference', hold('10.00', { idempotencyKey: 'k', reference: 'r' }), 'reference'],
    ['its time of expiry', hold('10.00', { idempotencyKey: 'k', expiresMs: 9_000_000_000_000n }), 'expires_at'],
    [
      'something that no record keeps',
      hold('10.00', { idempotencyKey: 'k', validUntilMs: 9_000_000_000_000n }),
      'expires_at,expires_in,require,valid_until,override_reason',
    ],
  ])('that differs in %s from the one under its key is refused', async (_, command, fields) => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('10.00', { idempotencyKey: 'k' }));
    const { refusal: refused } = await one(tenantId, command);
    expect(refused).toMatchObject({ reason: 'idempotency_key_reused', field: 'idempotency_key', details: { hold_id: holdId, fields } });
  });

  test('with the id of another is refused', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('10.00', { idempotencyKey: 'k' }));
    const refused = await one(tenantId, hold('10.00', { holdId, idempotencyKey: 'other' }));
    expect(refusedWith(refused)).toEqual(['idempotency_key_reused', 'hold_id', holdId]);
    const [holdId2, keys] = [newId('hold'), ['a', 'b']];
    const commands = keys.map((idempotencyKey) => hold('1.00', { holdId: holdId2, idempotencyKey }));
    expect((await submit(tenantId, commands, { atomic: true })).map((each) => each.refusal?.field)).toEqual([undefined, 'hold_id']);
    expect((await submit(tenantId, commands)).map((each) => each.refusal?.field)).toEqual([undefined, 'hold_id']);
    expect((await made(tenantId, hold('10.00', { holdId, idempotencyKey: 'k' }))).holdId).toBe(holdId);
  });

  test('keeps an account open, and from being forbidden what it has promised', async () => {
    const { tenantId } = await tenantWith('100.00');
    await ledger.client.updateAccount({ tenantId, accountCode: 'purse', allowNegative: true });
    const { holdId } = await made(tenantId, hold('120.00'));
    const closing = ledger.client.updateAccount({ tenantId, accountCode: 'shop', status: 'closed' });
    expect(await refusal(closing)).toMatchObject({ reason: 'account_not_empty', field: 'status' });
    const forbidding = ledger.client.updateAccount({ tenantId, accountCode: 'purse', allowNegative: false });
    expect(await refusal(forbidding)).toMatchObject({ reason: 'insufficient_funds', field: 'allow_negative' });
    await done(tenantId, release(holdId));
    await ledger.client.updateAccount({ tenantId, accountCode: 'shop', status: 'closed' });
    await ledger.client.updateAccount({ tenantId, accountCode: 'purse', allowNegative: false });
  });
});

describe('a capture', () => {
  test('without an amount moves all that remains, and is a transaction with a kind and origin of its own', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('60.00'));
    const { transaction, hold: after } = await done(tenantId, capture(holdId, { description: 'd', reference: 'r' }));
    expect(transaction).toMatchObject({ kind: 'capture', amount: '60.00', description: 'd', reference: 'r', origin: { holdId } });
    expect(transaction!.entries.map(({ balanceAfter }) => balanceAfter)).toEqual(['40.00', '60.00']);
    expect(shown(after!)).toEqual(['captured', 1, '60.00 0.00', '60.00 0.00']);
    expect(after!.endedMs).toBe(transaction!.createdMs);
    expect(await balanceOf(tenantId, 'purse')).toEqual(['40.00', '40.00', '0.00', '0.00', 3n]);
    const { transactions } = await ledger.client.listTransactions({ tenantId, holdId });
    expect(transactions).toEqual([transaction]);
    expect((await ledger.client.getHold({ tenantId, holdId })).hold).toEqual(after);
  });

  test('of a part releases the rest, but not if it is not final, and parts sum up exactly', async () => {
    const { tenantId } = await tenantWith('100.00');
    const [kept, released] = [await made(tenantId, hold('50.00')), await made(tenantId, hold('50.00'))];
    const partial = { amount: '20.00', final: false };
    expect(shown((await done(tenantId, capture(kept.holdId, partial))).hold!)).toEqual(['pending', 1, '20.00 30.00', '20.00 30.00']);
    expect(shown((await done(tenantId, capture(kept.holdId, { ...partial, amount: '0.01' }))).hold!)).toEqual([
      ...['pending', 2, '20.01 29.99', '20.01 29.99'],
    ]);
    const last = await done(tenantId, capture(kept.holdId));
    expect([last.transaction!.amount, ...shown(last.hold!)]).toEqual(['29.99', 'captured', 3, '50.00 0.00', '50.00 0.00']);
    expect(shown((await done(tenantId, capture(released.holdId, { amount: '20.00' }))).hold!)).toEqual([
      ...['captured', 1, '20.00 0.00', '20.00 0.00'],
    ]);
    expect(await balanceOf(tenantId, 'purse')).toEqual(['30.00', '30.00', '0.00', '0.00', 7n]);
    expect(await balanceOf(tenantId, 'shop')).toEqual(['70.00', '70.00', '0.00', '0.00', 6n]);
  });

  test('that leaves nothing ends the hold, final or not', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00'));
    expect((await done(tenantId, capture(holdId, { amount: '50.00', final: false }))).hold!.status).toBe('captured');
  });

  test.each<[string, MessageInitShape<typeof CaptureSchema>, string[]]>([
    ['of too much', { amount: '50.01' }, ['hold_exceeded', 'amount', '50.01']],
    [
      'of too much of an entry',
      { entries: entries('purse debit 50.01 NGN', 'shop credit 50.01 NGN') },
      ['hold_exceeded', 'entries[0].amount', '50.01'],
    ],
    [
      'of another entry',
      { entries: entries('purse debit 1.00 NGN', 'fees credit 1.00 NGN') },
      ['entries_mismatch', 'entries[1].account_code', 'fees'],
    ],
    ['that is unbalanced', { entries: entries('purse debit 2.00 NGN', 'shop credit 1.00 NGN') }, ['unbalanced', 'entries', 'NGN']],
    ['that is too late', { validUntilMs: 1n }, ['too_late', 'valid_until', '1970-01-01T00:00:00.001Z']],
    [
      'whose condition does not hold',
      { require: [{ accountCode: 'purse', currency: 'NGN', version: 1n }] },
      ['condition_failed', 'require[0].version', '1'],
    ],
    ['of an unknown hold', { holdId: 'hold_00000000000000000000000000' }, ['hold_not_found', '', '']],
  ])('%s is refused and changes nothing', async (_, more, refused) => {
    const { tenantId } = await tenantWith('100.00');
    const before = await made(tenantId, hold('50.00'));
    const balances = await balanceOf(tenantId, 'purse');
    expect(refusedWith(await one(tenantId, capture(before.holdId, { idempotencyKey: 'k', ...more })))).toEqual(refused);
    expect(await balanceOf(tenantId, 'purse')).toEqual(balances);
    expect((await ledger.client.getHold({ tenantId, holdId: before.holdId })).hold).toEqual(before);
    expect((await done(tenantId, capture(before.holdId, { idempotencyKey: 'k' }))).replayed).toBe(false);
  });

  test('is refused by a block, which its override passes, and by no floor', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00'));
    const limits = { limits: [{ currency: 'NGN', minAvailable: '1000.00' }] };
    await ledger.client.updateAccount({ tenantId, accountCode: 'purse', blocked: { sides: ['debit'] }, limits });
    expect(refusedWith(await one(tenantId, capture(holdId)))).toEqual(['account_blocked', 'entries[0].account_code', 'purse']);
    const { transaction } = await done(tenantId, capture(holdId, { overrideReason: 'why', amount: '1.00', final: false }));
    expect(transaction!.origin).toMatchObject({ holdId, override: { reason: 'why', broken: ['account_blocked'] } });
    await ledger.client.updateAccount({ tenantId, accountCode: 'purse', blocked: { sides: [] } });
    await done(tenantId, capture(holdId));
  });

  test('is reversed like any transaction, which revives nothing', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00'));
    const { transaction, hold: captured } = await done(tenantId, capture(holdId));
    const reversal = await done(tenantId, reverse(transaction!.transactionId));
    expect(reversal.transaction).toMatchObject({ kind: 'reversal', reverses: transaction!.transactionId });
    expect(await balanceOf(tenantId, 'purse')).toEqual(['100.00', '100.00', '0.00', '0.00', 4n]);
    expect((await ledger.client.getHold({ tenantId, holdId })).hold).toEqual(captured);
    expect(refusedWith(await one(tenantId, capture(holdId)))).toEqual(['hold_ended', 'hold_id', 'captured']);
  });

  test('under a key that was used for another hold or request is refused', async () => {
    const { tenantId } = await tenantWith('100.00');
    const [first, second] = [await made(tenantId, hold('10.00')), await made(tenantId, hold('10.00'))];
    const key = { idempotencyKey: 'k' };
    await done(tenantId, capture(first.holdId, { ...key, amount: '5.00', final: false }));
    const fieldsOf = async (command: Command) => (await one(tenantId, command)).refusal!.details['fields'];
    expect(await fieldsOf(capture(second.holdId, { ...key, amount: '5.00', final: false }))).toBe('hold_id');
    expect(await fieldsOf(capture(first.holdId, { ...key, amount: '4.00', final: false }))).toBe('amount');
    expect(await fieldsOf(capture(first.holdId, { ...key, amount: '5.00' }))).toContain('final');
    expect(await fieldsOf(spend('5.00', key))).toBe('kind');
  });
});

describe('a void', () => {
  test('releases what remains, also after a capture, and is answered again where it was done', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00'));
    await done(tenantId, capture(holdId, { amount: '20.00', final: false }));
    const first = await done(tenantId, release(holdId, 'changed their mind'));
    expect(shown(first.hold!)).toEqual(['voided', 1, '20.00 0.00', '20.00 0.00']);
    expect(await balanceOf(tenantId, 'purse')).toEqual(['80.00', '80.00', '0.00', '0.00', 4n]);
    expect(await done(tenantId, release(holdId))).toEqual({ ...first, replayed: true });
    // The caller that repeats an unknown outcome is told of its own void.
    expect((await done(tenantId, release(holdId), { retry: true })).replayed).toBe(false);
    const { events } = await ledger.client.listEvents({ tenantId });
    expect(events.map(({ type }) => type).filter((type) => type.startsWith('hold.'))).toEqual(['hold.created', 'hold.voided']);
    expect(events.at(-1)!.data).toMatchObject({ case: 'holdEnded', value: { description: 'changed their mind', hold: { holdId } } });
    for (const command of [capture(holdId), capture(holdId, { amount: '1.00' })]) {
      expect(refusedWith(await one(tenantId, command))).toEqual(['hold_ended', 'hold_id', 'voided']);
    }
  });

  test('of a captured or an unknown hold is refused, and no block stops one', async () => {
    const { tenantId } = await tenantWith('100.00');
    const [captured, held] = [await made(tenantId, hold('10.00')), await made(tenantId, hold('10.00'))];
    await done(tenantId, capture(captured.holdId));
    expect(refusedWith(await one(tenantId, release(captured.holdId)))).toEqual(['hold_ended', 'hold_id', 'captured']);
    expect(refusedWith(await one(tenantId, release(newId('hold'))))).toEqual(['hold_not_found', '', '']);
    expect(refusedWith(await one(newTenant().tenantId, release(held.holdId)))).toEqual(['hold_not_found', '', '']);
    await ledger.client.updateAccount({ tenantId, accountCode: 'purse', blocked: { sides: ['debit', 'credit'] } });
    await done(tenantId, release(held.holdId));
  });
});

test('the log explains all that was written above', async () => {
  expect(await audit.verified()).toEqual([]);
  expect(await audit.checked()).toEqual([]);
});
