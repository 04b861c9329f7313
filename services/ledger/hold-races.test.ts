// Several commands on one hold: in one call, in one batch, and at once.
import type { HoldRecord } from '../../proto/gen/ledger/v1/events_pb.js';
import { openAudit, type Audit } from '../../test/audit.ts';
import { capture, hold, holdCalls, posting, refusedWith, release, shown, spend } from '../../test/hold-commands.ts';
import type { RunningLedger } from '../../test/ledger.ts';
import { newId } from '../platform/ids.ts';

let audit: Audit;
let ledger: RunningLedger;
const { submit, one, done, made, tenantWith, balanceOf } = holdCalls(() => ledger.client);

beforeAll(async () => {
  audit = await openAudit();
  ({ ledger } = audit);
});

afterAll(() => audit.end());

describe('the events', () => {
  test('of a hold, its capture and its end have the hold after them and the balances that they change', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00', { idempotencyKey: 'k' }));
    await done(tenantId, capture(holdId, { amount: '20.00', final: false }));
    await done(tenantId, release(holdId));
    const { events } = await ledger.client.listEvents({ tenantId, afterSequence: 5n });
    expect(events.map(({ type, actor }) => [type, actor])).toEqual([
      ['hold.created', 'k'],
      ['transaction.posted', 'k'],
      ['hold.voided', 'k'],
    ]);
    const [created, captured, voided] = events.map(({ data }) => data.value) as { hold: HoldRecord; balances: Record<string, unknown>[] }[];
    expect([created, captured, voided].map((each) => shown(each!.hold))).toEqual([
      ['pending', 0, '0.00 50.00', '0.00 50.00'],
      ['pending', 1, '20.00 30.00', '20.00 30.00'],
      ['voided', 1, '20.00 0.00', '20.00 0.00'],
    ]);
    const purse = (each: typeof created) => each!.balances.find(({ accountCode }) => accountCode === 'purse');
    expect(purse(created)).toMatchObject({ previousBalance: '100.00', balance: '100.00', available: '50.00', pendingDebits: '50.00' });
    expect(purse(captured)).toMatchObject({ previousBalance: '100.00', balance: '80.00', available: '50.00', pendingDebits: '30.00' });
    expect(purse(voided)).toMatchObject({
      previousBalance: '80.00',
      balance: '80.00',
      available: '80.00',
      pendingDebits: '0.00',
      version: 4n,
    });
  });
});

describe('several commands on one hold', () => {
  test('in one call see what those before them have done', async () => {
    const { tenantId } = await tenantWith('100.00');
    const holdId = newId('hold');
    const commands = [
      hold('50.00', { holdId }),
      capture(holdId, { amount: '20.00', final: false }),
      capture(holdId, { amount: '30.01' }),
      release(holdId),
      capture(holdId),
      release(holdId),
      spend('80.00'),
    ];
    for (const [of, more] of [
      [tenantId, {}],
      [(await tenantWith('100.00')).tenantId, { dryRun: true }],
    ] as const) {
      const results = await submit(of, commands, more);
      const seen = results.map(({ refusal: refused, hold: after, replayed }) => refused?.reason ?? `${after?.status} ${replayed}`);
      // Each of a dry run is by itself.
      if ('dryRun' in more) expect(seen.slice(0, 2)).toEqual(['pending false', 'hold_not_found']);
      else
        expect(seen).toEqual([
          ...['pending false', 'pending false', 'hold_exceeded', 'voided false', 'hold_ended', 'voided true', 'undefined false'],
        ]);
    }
    expect(await balanceOf(tenantId, 'purse')).toEqual(['0.00', '0.00', '0.00', '0.00', 5n]);
  });

  test('are decided in their order, also behind one that is refused while it is not known whether the hold is due', async () => {
    const { tenantId } = await tenantWith('10.00');
    await made(tenantId, hold('10.00'));
    const results = await submit(tenantId, [spend('5.00'), posting('bank debit 5.00 NGN', 'purse credit 5.00 NGN'), spend('6.00')]);
    expect(results.map(({ refusal: refused }) => refused?.reason)).toEqual(['insufficient_funds', undefined, 'insufficient_funds']);
  });

  test('that are atomic are all done or none, and as a dry run change nothing', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00'));
    const next = newId('hold');
    // A longer or larger hold: the old one is voided and a new one made.
    const grow = (amount: string) => [release(holdId), hold(amount, { holdId: next, idempotencyKey: 'next' })];
    const refused = await submit(tenantId, grow('100.01'), { atomic: true });
    expect(refused.map(({ refusal: each, hold: after }) => each?.reason ?? after?.status)).toEqual([undefined, 'insufficient_funds']);
    expect(shown((await ledger.client.getHold({ tenantId, holdId })).hold!)).toEqual(['pending', 0, '0.00 50.00', '0.00 50.00']);
    const tried = await submit(tenantId, grow('100.00'), { atomic: true, dryRun: true });
    expect(tried.map(({ hold: after }) => [after!.status, after!.holdId, after!.sequence > 0n])).toEqual([
      ['voided', holdId, true],
      ['pending', '', false],
    ]);
    expect((await balanceOf(tenantId, 'purse'))[1]).toBe('50.00');
    const results = await submit(tenantId, grow('100.00'), { atomic: true });
    expect(results.map(({ hold: after }) => [after!.status, after!.holdId])).toEqual([
      ['voided', holdId],
      ['pending', next],
    ]);
    const again = await submit(tenantId, grow('100.00'), { atomic: true });
    expect(again).toEqual(results.map((each) => ({ ...each, replayed: true })));
    expect(await balanceOf(tenantId, 'purse')).toEqual(['100.00', '0.00', '100.00', '0.00', 4n]);
  });

  test('an atomic one that is undone leaves a hold as the commands before it in the same batch have', async () => {
    const { tenantId } = await tenantWith('100.00');
    const { holdId } = await made(tenantId, hold('50.00'));
    const [first, undone, last] = await Promise.all([
      submit(tenantId, [capture(holdId, { amount: '10.00', final: false })]),
      submit(tenantId, [capture(holdId, { amount: '15.00', final: false }), spend('999.00')], { atomic: true }),
      submit(tenantId, [capture(holdId, { amount: '25.00', final: false })]),
    ]);
    expect([first, undone, last].map((each) => each.at(-1)!.refusal?.reason)).toEqual([undefined, 'insufficient_funds', undefined]);
    const after = (await ledger.client.getHold({ tenantId, holdId })).hold!;
    expect(shown(after)).toEqual(['pending', 2, '35.00 15.00', '35.00 15.00']);
    expect(await balanceOf(tenantId, 'purse')).toEqual(['65.00', '50.00', '15.00', '0.00', 4n]);
  });

  test('by 200 callers at once end each of 50 holds once', async () => {
    const { tenantId } = await tenantWith('1000.00');
    const holds = await Promise.all(Array.from({ length: 50 }, () => made(tenantId, hold('10.00'))));
    const calls = holds.flatMap(({ holdId }, index) =>
      [capture(holdId), release(holdId), capture(holdId, { amount: '4.00' }), index % 2 === 0 ? release(holdId) : capture(holdId)].map(
        (command) => ({ holdId, command }),
      ),
    );
    const results = await Promise.all(
      calls.map(async ({ holdId, command }) => ({ holdId, command, result: await one(tenantId, command) })),
    );
    let left = 100_000;
    for (const { holdId } of holds) {
      const own = results.filter((each) => each.holdId === holdId);
      const ended = own.filter(({ result }) => !result.refusal && !result.replayed);
      expect(ended).toHaveLength(1);
      const { status, entries: lines } = ended[0]!.result.hold!;
      for (const { command, result } of own) {
        if (result.refusal) expect(refusedWith(result)).toEqual(['hold_ended', 'hold_id', status]);
        else if (result.replayed) expect([command.command?.case, status]).toEqual(['void', 'voided']);
      }
      left -= Number(lines[0]!.captured.replace('.', ''));
    }
    const [net, available, debits, credits] = await balanceOf(tenantId, 'purse');
    expect([net, available, debits, credits]).toEqual([(left / 100).toFixed(2), (left / 100).toFixed(2), '0.00', '0.00']);
    const { events } = await ledger.client.listEvents({ tenantId, limit: 100, afterSequence: 55n });
    expect(events).toHaveLength(50);
  });
});

test('the log explains all that was written above', async () => {
  expect(await audit.verified()).toEqual([]);
  expect(await audit.checked()).toEqual([]);
});
