// Holds over lost connections, several replicas and faults of the database: each command has one effect.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { CaptureSchema, HoldSchema, VoidSchema } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { entries } from '../../test/ledger.ts';
import { until } from '../../test/polling.ts';
import { waitingLocks } from '../../test/table-locks.ts';
import { openWriters, posted, reasonOf, transfer, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import { verify } from './audit/verify.ts';
import { openOperator } from './audit/operator.ts';
import { validateCapture, validateHold, validateVoid } from './hold-commands.ts';
import type { ValidatedPosting } from './mapping.ts';
import type { Outcome } from './queue.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

const callOf = (tenantId: string) => ({ tenantId, actor: 'test', requestId: 'r', traceparent: '', retry: false, timeoutMs: 60_000 });
const hold = (tenantId: string, amount: string, more: MessageInitShape<typeof HoldSchema> = {}) => {
  const lines = entries(`b debit ${amount} NGN`, `a credit ${amount} NGN`);
  return validateHold(create(HoldSchema, { entries: lines, ...more }), callOf(tenantId));
};
const capture = (tenantId: string, holdId: string, more: MessageInitShape<typeof CaptureSchema> = {}) =>
  validateCapture(create(CaptureSchema, { holdId, ...more }), callOf(tenantId));
const release = (tenantId: string, holdId: string) => validateVoid(create(VoidSchema, { holdId }), callOf(tenantId));

async function holdIdOf(outcome: Promise<Outcome>): Promise<string> {
  const done = await outcome;
  if (!('hold' in done)) throw new Error(reasonOf(done));
  return done.hold.holdId;
}

const typesOf = async (tenantId: string): Promise<string[]> => {
  const text = `select type from log where tenant_id = $1 and type not like 'account.%' order by sequence`;
  return (await writers.owner.query<{ type: string }>(text, [toUuid('tenant', tenantId)])).rows.map(({ type }) => type);
};

async function isSound(tenantId: string): Promise<void> {
  const lines: string[] = [];
  const operator = await openOperator(writers.ownerUrl);
  await verify(operator, { only: toUuid('tenant', tenantId)! }, (line) => lines.push(line));
  await operator.end();
  expect(lines).toEqual([]);
}

/** Cuts the connection while the statement that writes waits in the database, which then commits it. */
async function losingConnection(table: string, send: () => Promise<Outcome>): Promise<Outcome> {
  await writers.owner.query(`begin; lock table ${table} in share mode`);
  const answer = send();
  await until(
    () => writers.owner.query(`select from pg_locks where ${waitingLocks} and relation = '${table}'::regclass`),
    ({ rowCount }) => rowCount === 1,
  );
  writers.proxy.cut();
  await writers.owner.query('rollback');
  return answer;
}

test('a hold, a capture and a void whose connection is lost during the statement are done once, and answered so', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ proxied: true, pipelines: 1, isPatient: true });
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  const holding = hold(tenant, '1.00');
  const holdId = await holdIdOf(losingConnection('hold_entries', () => writer.post(holding)));
  const capturing = capture(tenant, holdId, { amount: '0.40', final: false });
  const releasing = release(tenant, holdId);
  expect(reasonOf(await losingConnection('parts', () => writer.post(capturing)))).toBe('posted');
  expect(reasonOf(await losingConnection('parts', () => writer.post(releasing)))).toBe('posted');
  const types = ['transaction.posted', 'hold.created', 'transaction.posted', 'hold.voided'];
  expect(await typesOf(tenant)).toEqual(types);
  // Callers that heard nothing send them again: none is a replay.
  for (const command of [holding, capturing, releasing]) {
    expect(reasonOf(await writer.post({ ...command, retry: true }))).toBe('posted');
    expect(reasonOf(await writer.post(command))).toBe('replayed');
  }
  expect(await typesOf(tenant)).toEqual(types);
  await isSound(tenant);
});

test('parts of one hold, captured by two replicas at once, take no more than there is, and one void ends it', async () => {
  const replicas = [writers.open({ isPatient: true }), writers.open({ isPatient: true })];
  const tenants = await Promise.all(Array.from({ length: 4 }, () => writers.tenantWith('a', 'b')));
  const holds = await Promise.all(tenants.map((tenant) => holdIdOf(replicas[0]!.post(hold(tenant, '10.00')))));
  const all = await Promise.all(
    tenants.flatMap((tenant, index) =>
      Array.from({ length: 16 }, async (_, turn) => {
        const outcome = await replicas[turn % 2]!.post(capture(tenant, holds[index]!, { amount: '0.90', final: false }));
        return { tenant, reason: reasonOf(outcome) };
      }),
    ),
  );
  for (const [index, tenant] of tenants.entries()) {
    const reasons = all.filter((each) => each.tenant === tenant).map(({ reason }) => reason);
    expect(reasons.filter((each) => each === 'posted')).toHaveLength(11);
    expect(reasons.filter((each) => each === 'hold_exceeded')).toHaveLength(5);
    const voids = await Promise.all(replicas.flatMap((each) => [each, each]).map((each) => each.post(release(tenant, holds[index]!))));
    expect(voids.map(reasonOf).toSorted()).toEqual(['posted', 'replayed', 'replayed', 'replayed']);
    expect(await writers.balance(tenant, 'a')).toBe('-990');
    await isSound(tenant);
  }
});

test('captures of many holds in batches that follow each other need no lock', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  const writer = writers.open({ pipelines: 1, items: 8, metrics });
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  const made = await Promise.all(Array.from({ length: 40 }, () => writer.post(hold(tenant, '1.00'))));
  const ids = made.map((outcome) => ('hold' in outcome ? outcome.hold.holdId : ''));
  const before = await lockedBatches(metrics);
  const commands = ids.flatMap((holdId) => [capture(tenant, holdId, { amount: '0.50', final: false }), capture(tenant, holdId)]);
  const captures = await Promise.all(commands.map((command) => writer.post(command)));
  expect(captures.map(reasonOf)).toEqual(Array(80).fill('posted'));
  expect(await lockedBatches(metrics)).toBe(before);
  await isSound(tenant);
});

/** How many batches have taken the locking path. */
async function lockedBatches(metrics: Registry): Promise<number> {
  const { values } = (await metrics.getSingleMetric('ledger_commit_seconds')!.get()) as {
    values: { metricName?: string; value: number }[];
  };
  return values.find(({ metricName }) => metricName?.endsWith('_count'))!.value;
}

test('a hold that the database rejects is refused alone and uses no key', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ pipelines: 1 });
  posted(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  await writers.owner.query(`create function injected() returns trigger language plpgsql as
    $$ begin raise exception 'injected' using errcode = 'P0001'; end $$;
    create trigger injected before insert on holds for each row when (new.reference = 'poison') execute function injected()`);
  const commands: ValidatedPosting[] = [
    hold(tenant, '1.00'),
    hold(tenant, '2.00', { reference: 'poison', idempotencyKey: 'k' }),
    transfer(tenant, 'a', 'b', '1.00'),
  ];
  try {
    expect((await Promise.all(commands.map((command) => writer.post(command)))).map(reasonOf)).toEqual(['posted', 'internal', 'posted']);
  } finally {
    await writers.owner.query('drop function injected cascade');
  }
  expect(reasonOf(await writer.post(hold(tenant, '3.00', { idempotencyKey: 'k' })))).toBe('posted');
  await isSound(tenant);
});

test('a remainder that was changed by hand is not captured', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const writer = writers.open({ pipelines: 1 });
  const holdId = await holdIdOf(writer.post(hold(tenant, '1.00')));
  const change = `update hold_entries set remaining = remaining - 1 where tenant_id = $1 and side = 'debit'`;
  await writers.owner.query(change, [toUuid('tenant', tenant)]);
  for (const command of [capture(tenant, holdId), release(tenant, holdId)]) expect(reasonOf(await writer.post(command))).toBe('internal');
  expect(await typesOf(tenant)).toEqual(['hold.created']);
});
