// The expiry of holds through REST: exact by the database's clock, written once by whichever replica comes first.
import { setTimeout as pause } from 'node:timers/promises';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { lines, newHolder, out, refusal, type Fields, type Holder } from '../test/holder.ts';
import { until } from '../test/polling.ts';

// Every answer below is also held against the OpenAPI document.
let cluster: CheckedCluster;
let holder: Holder;

/** Waits until a hold is due by this machine's clock, which is the database's. */
const due = async ({ expires_at }: Fields) => {
  await pause(Math.max(0, Date.parse(expires_at) - Date.now() + 20));
};
const typesOf = async (hold: Fields): Promise<string[]> => {
  const { events } = await holder.customer.get(`events?after_sequence=${hold['sequence'] - 1}&limit=100`);
  return events.filter(({ data }: Fields) => data.hold_id === hold['hold_id']).map(({ type }: Fields) => type as string);
};

describe('while no ledger looks for what is due', () => {
  beforeAll(async () => {
    cluster = await startCheckedCluster({ environment: { ledger: { DUE_POLL_MS: '600000' } } });
    holder = await newHolder(cluster);
  });
  afterAll(() => cluster.stop());

  test('from its expiry on a hold can be neither captured nor voided, and a capture before it counts', async () => {
    const payer = await holder.newPayer();
    const made = await holder.held(payer, '60.00', { expires_in: 2 });
    expect((await holder.capture(made, { amount: '10.00', final: false })).status).toBe(201);
    await due(made);
    const ended = [409, 'hold_ended', { field: 'hold_id', tag: 'hold_ended', value: 'expired' }];
    expect(refusal(await holder.capture(made, { amount: '10.00' }))).toEqual(ended);
    expect(refusal(await holder.release(made))).toEqual(ended);
    // A repeated request for the hold is still answered.
    expect((await holder.read(made))['hold_id']).toBe(made['hold_id']);
  });

  test('a posting that needs the money of a hold that is due gets it', async () => {
    const payer = await holder.newPayer();
    const made = await holder.held(payer, '100.00', { expires_in: 1 });
    const spend = () => holder.customer.post('transactions/double-entry', { entries: out(payer, '100.00') });
    expect((await spend()).status).toBe(422);
    await due(made);
    expect((await spend()).status).toBe(201);
    expect(await holder.read(made)).toMatchObject({ status: 'expired', captures: 0 });
    expect(await typesOf(made)).toEqual(['hold.created', 'hold.expired']);
    expect(await holder.sums(payer)).toEqual(['0.00', '0.00', '0.00']);
  });

  test('a hold that is due stands in the way of no other one, also in a batch and a dry run', async () => {
    const payer = await holder.newPayer();
    const made = await holder.held(payer, '100.00', { expires_in: 1 });
    await due(made);
    const tried = await holder.hold(payer, '100.00', {}, '?dry_run=true');
    expect(tried.status).toBe(200);
    const items = [{ op: 'hold', idempotency_key: `expiry-${payer}`, entries: out(payer, '100.00') }];
    expect((await holder.customer.post('transactions/batch', { atomic: true, items })).status).toBe(201);
    expect(await holder.sums(payer)).toEqual(['100.00', '0.00', '100.00']);
  });
});

describe('with three ledgers, of which one is killed', () => {
  beforeAll(async () => {
    cluster = await startCheckedCluster({ replicas: { ledger: 3 } });
    holder = await newHolder(cluster);
  });
  afterAll(() => cluster.stop());

  test('each hold expires once, within 5 seconds, and releases what remains', async () => {
    const payer = await holder.newPayer('500.00');
    const others = await Promise.all(Array.from({ length: 49 }, () => holder.held(payer, '10.00', { expires_in: 3 })));
    // A busy machine captures within ten seconds, too.
    const captured = await holder.held(payer, '10.00', { expires_in: 10 });
    expect((await holder.capture(captured, { amount: '4.00', final: false })).status).toBe(201);
    const holds = [captured, ...others];
    await cluster.kill('ledger-2');
    await Promise.all(holds.map(due));
    const ended = await until(
      async () => (await holder.customer.get(`holds?account_code=${payer}&status=expired&limit=100`)).holds as Fields[],
      (found) => found.length === 50,
    );
    for (const { expires_at, ended_at } of ended) {
      expect(Date.parse(ended_at)).toBeGreaterThanOrEqual(Date.parse(expires_at));
      expect(Date.parse(ended_at) - Date.parse(expires_at)).toBeLessThan(5_000);
    }
    expect(await holder.sums(payer)).toEqual(['496.00', '496.00', '0.00']);
    expect(lines(await holder.read(captured))[0]).toEqual(['10.00', '4.00', '0.00']);
    for (const each of holds) expect(await typesOf(each)).toEqual(['hold.created', 'hold.expired']);
    await cluster.restart('ledger-2');
    await pause(2_000);
    for (const each of holds.slice(0, 3)) expect(await typesOf(each)).toEqual(['hold.created', 'hold.expired']);
  });
});
