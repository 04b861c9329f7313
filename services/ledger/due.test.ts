// The loop that writes the events of holds that are due.
import { openAudit, type Audit } from '../../test/audit.ts';
import { capture, hold, holdCalls, release } from '../../test/hold-commands.ts';
import { startLedger, type RunningLedger } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';

let audit: Audit;
/** Replicas with the loop, on the database of the first, which has none. */
let replicas: RunningLedger[];
const { submit, one, made, done, holdOf, tenantWith, balanceOf } = holdCalls(() => audit.ledger.client);

beforeAll(async () => {
  audit = await openAudit();
  // The database is dropped once.
  const database = { ...audit.ledger.database, drop: async () => undefined };
  replicas = await Promise.all(Array.from({ length: 3 }, () => startLedger({ database, duePollMs: 100 })));
});

afterAll(async () => {
  for (const each of replicas) await each.end();
  await audit.end();
});

async function expiriesOf(tenantId: string): Promise<{ actor: string; createdMs: bigint; holdId: string }[]> {
  const all = [];
  for (let afterSequence = 0n; ;) {
    const { events, hasMore } = await audit.ledger.client.listEvents({ tenantId, limit: 100, afterSequence });
    for (const { type, actor, createdMs, data } of events) {
      if (type === 'hold.expired' && data.case === 'holdEnded') all.push({ actor, createdMs, holdId: data.value.hold!.holdId });
    }
    if (!hasMore) return all;
    afterSequence = events.at(-1)!.sequence;
  }
}

const metric = async ({ metrics }: RunningLedger, name: string): Promise<Record<string, number>> => {
  const { values } = (await metrics.getSingleMetric(name)?.get()) ?? { values: [] };
  return Object.fromEntries(values.map(({ labels, value }) => [labels['outcome'] ?? '', value]));
};

test('a due hold gets one event though several replicas look, never early, and soon also when one of them stops', async () => {
  const { tenantId, tenant } = await tenantWith('500.00');
  const holds = await Promise.all(Array.from({ length: 40 }, () => made(tenantId, hold('1.00', { expiresIn: 1n }))));
  const lasting = await made(tenantId, hold('1.00', { expiresIn: 60n }));
  await Promise.all([
    replicas.pop()!.end(),
    until(
      () => expiriesOf(tenantId),
      (events) => events.length === holds.length,
    ),
  ]);
  const events = await expiriesOf(tenantId);
  expect(new Set(events.map(({ holdId }) => holdId))).toEqual(new Set(holds.map(({ holdId }) => holdId)));
  for (const { actor, createdMs, holdId } of events) {
    expect(actor).toBe('ledger');
    const late = Number(createdMs - holds.find((each) => each.holdId === holdId)!.expiresMs!);
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(5_000);
  }
  expect((await holdOf(tenantId, holds[0]!.holdId)).endedMs).toBe(events.find(({ holdId }) => holdId === holds[0]!.holdId)!.createdMs);
  expect(await balanceOf(tenantId, 'purse')).toEqual(['500.00', '499.00', '1.00', '0.00', 82n]);
  await done(tenantId, release(lasting.holdId));
  expect(await audit.verified(tenant)).toEqual([]);
});

test('holds that are captured and voided until they are due end once', async () => {
  const { tenantId, tenant } = await tenantWith('500.00');
  const holds = await Promise.all(Array.from({ length: 60 }, () => made(tenantId, hold('1.00', { expiresIn: 1n }))));
  const ended = new Map<string, string>();
  const [first] = holds;
  // One after the other until after the last is due.
  for (let turn = 0; Date.now() < Number(first!.expiresMs) + 500; turn++) {
    const { holdId } = holds[(turn * 7) % holds.length]!;
    const result = await one(tenantId, turn % 2 === 0 ? capture(holdId, { amount: '0.40', final: turn % 3 === 0 }) : release(holdId));
    if (!result.refusal && !result.replayed && result.hold!.status !== 'pending') {
      expect(ended.has(holdId)).toBe(false);
      ended.set(holdId, result.hold!.status);
    }
  }
  await until(
    () => Promise.all(holds.map(({ holdId }) => holdOf(tenantId, holdId))),
    (all) => all.every(({ status }) => status !== 'pending'),
  );
  for (const { holdId } of await expiriesOf(tenantId)) {
    expect(ended.has(holdId)).toBe(false);
    ended.set(holdId, 'expired');
  }
  expect(ended.size).toBe(holds.length);
  for (const [holdId, status] of ended) expect((await holdOf(tenantId, holdId)).status).toBe(status);
  const [net, available, debits] = await balanceOf(tenantId, 'purse');
  expect([net, debits]).toEqual([available, '0.00']);
  expect(await audit.verified(tenant)).toEqual([]);
});

test('a hold that can’t expire is left alone, and others expire', async () => {
  const [damaged, sound] = [await tenantWith('10.00'), await tenantWith('10.00')];
  await made(damaged.tenantId, hold('1.00', { expiresIn: 1n }));
  await audit.change(damaged.tenant, 'update balances set pending_debits = pending_debits + 5 where tenant_id = $1 and pending_debits > 0');
  await made(sound.tenantId, hold('1.00', { expiresIn: 1n }));
  await until(
    () => expiriesOf(sound.tenantId),
    (events) => events.length === 1,
  );
  await until(
    async () => (await Promise.all(replicas.map((each) => metric(each, 'ledger_due_holds_total')))).map(({ internal = 0 }) => internal),
    (refused) => refused.every((count) => count === 1),
  );
  expect(await expiriesOf(damaged.tenantId)).toEqual([]);
  await audit.rebuilt(damaged.tenant);
});

test('a thousand of one tenant delay those of no other', async () => {
  const [large, small] = [await tenantWith('9000.00'), await tenantWith('10.00')];
  await submit(
    large.tenantId,
    Array.from({ length: 1_000 }, () => hold('1.00', { expiresIn: 1n })),
  );
  const { holdId, expiresMs } = await made(small.tenantId, hold('1.00', { expiresIn: 1n }));
  const { endedMs } = await until(
    () => holdOf(small.tenantId, holdId),
    ({ status }) => status === 'expired',
  );
  expect(Number(endedMs! - expiresMs!)).toBeLessThan(5_000);
  await until(
    () => balanceOf(large.tenantId, 'purse'),
    ([, available]) => available === '9000.00',
  );
  expect(await expiriesOf(large.tenantId)).toHaveLength(1_000);
  const overdue = await Promise.all(replicas.map((each) => metric(each, 'ledger_holds_overdue_seconds')));
  for (const { '': seconds } of overdue) expect(seconds).toBeGreaterThanOrEqual(0);
});
