// A posting that makes the database or this program fail does not affect the others of its batch.
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { failures, openWriters, reasonOf, tally, transfer, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import type { Outcome } from './queue.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

/** Makes the database raise an error for each transaction that matches a condition (SQL). */
async function injecting(sqlstate: string, poisoned: string, work: () => Promise<void>): Promise<void> {
  await writers.owner.query(`create function injected() returns trigger language plpgsql as
    $$ begin raise exception 'injected' using errcode = '${sqlstate}'; end $$;
    create trigger injected before insert on transactions for each row when (${poisoned}) execute function injected()`);
  try {
    await work();
  } finally {
    await writers.owner.query('drop function injected cascade');
  }
}

// A trigger, an unreadable page, an internal error, a missing right, a wrong state.
test.each(['P0001', 'XX001', 'XX000', '42501', '55000'])('one rejected with %s does not affect the others', async (sqlstate) => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const writer = writers.open({ pipelines: 1 });
  await injecting(sqlstate, `new.reference = 'poison'`, async () => {
    // The first batch of a tenant takes the locking path, the next one the pipeline.
    for (let turn = 0; turn < 2; turn++) {
      const outcomes = await Promise.all(
        tenants.map((tenant, index) => writer.post(transfer(tenant, 'a', 'b', '1.00', index === 3 ? { reference: 'poison' } : {}))),
      );
      expect(outcomes.map(reasonOf)).toEqual(tenants.map((_, index) => (index === 3 ? 'internal' : 'posted')));
    }
  });
});

test.each([
  ['not cached', 0],
  ['cached', undefined],
])(
  'nor does it change the order of another tenant’s postings, whose head is locked elsewhere; tenants are %s',
  async (_, maxCachedAccounts) => {
    const [poisoned, locked] = [await writers.tenantWith('a', 'b'), await writers.tenantWith('a', 'b')];
    const writer = writers.open({ pipelines: 1, isPatient: true, ...(maxCachedAccounts !== undefined && { maxCachedAccounts }) });
    for (const tenant of [poisoned, locked]) await writer.post(transfer(tenant, 'a', 'b', '1.00'));
    await injecting('P0001', `new.reference = 'poison'`, async () => {
      await writers.owner.query('begin');
      await writers.owner.query('select from heads where tenant_id = $1 for update', [toUuid('tenant', locked)]);
      const posted = Array.from({ length: 4 }, () => writer.post(transfer(locked, 'a', 'b', '1.00')));
      const refused = writer.post(transfer(poisoned, 'a', 'b', '1.00', { reference: 'poison' }));
      posted.push(...Array.from({ length: 4 }, () => writer.post(transfer(locked, 'a', 'b', '1.00'))));
      expect(reasonOf(await refused)).toBe('internal');
      await writers.owner.query('rollback');
      const sequences = (await Promise.all(posted)).map((outcome) => {
        const { result } = outcome as Extract<Outcome, { result: unknown }>;
        return result.outcome.case === 'transaction' ? Number(result.outcome.value.sequence) : NaN;
      });
      expect(sequences).toEqual(sequences.toSorted((one, other) => one - other));
      expect(new Set(sequences).size).toBe(8);
    });
  },
);

test('a repetition of a posting whose event can’t be decoded does not affect the others', async () => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const damaged = tenants[3]!;
  const writer = writers.open({ pipelines: 1 });
  const postAll = () => Promise.all(tenants.map((tenant) => writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'once' }))));
  expect(tally(await postAll())).toEqual({ posted: 10 });
  // An invalid wire type.
  await writers.owner.query(`update log set payload = '\\x0f' where tenant_id = $1 and type = 'transaction.posted'`, [
    toUuid('tenant', damaged),
  ]);
  const outcomes = await postAll();
  expect(outcomes.map(reasonOf)).toEqual(tenants.map((tenant) => (tenant === damaged ? 'internal' : 'replayed')));
});

test('one that makes this program fail does not affect the others', async () => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const postings = tenants.map((tenant) => transfer(tenant, 'a', 'b', '1.00'));
  Object.defineProperty(postings[3], 'overrideReason', {
    get: () => {
      throw new TypeError('injected');
    },
  });
  const writer = writers.open({ pipelines: 1 });
  const outcomes = await Promise.all(postings.map((posting) => writer.post(posting)));
  expect(outcomes.map(reasonOf)).toEqual(tenants.map((_, index) => (index === 3 ? 'internal' : 'posted')));
});

test('if the database rejects every posting, each is refused after at most two batches per posting', async () => {
  const tenants = await Promise.all(Array.from({ length: 20 }, () => writers.tenantWith('a', 'b')));
  const metrics = new Registry();
  const writer = writers.open({ pipelines: 1, metrics });
  await injecting('P0001', 'true', async () => {
    const outcomes = await Promise.all(tenants.map((tenant) => writer.post(transfer(tenant, 'a', 'b', '1.00'))));
    expect(tally(outcomes)).toEqual({ internal: 20 });
  });
  const { P0001: count, ...others } = await failures(metrics);
  expect(others).toEqual({});
  expect(count).toBeLessThan(2 * 20);
});

/** Makes new connections read-only. */
async function readingOnly(work: () => Promise<void>): Promise<void> {
  const { rows } = await writers.owner.query<{ name: string }>('select quote_ident(current_database()) as name');
  const alter = `alter database ${rows[0]!.name}`;
  await writers.owner.query(`${alter} set default_transaction_read_only = on`);
  try {
    await work();
  } finally {
    await writers.owner.query(`${alter} reset default_transaction_read_only`);
  }
}

test('an unreachable database is logged once, however often the writer retries', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  let logged = 0;
  const log = pino({ level: 'warn' }, { write: () => (logged += 1) });
  const writer = writers.open({ pipelines: 1, metrics, log });
  let outcome: Promise<Outcome> | undefined;
  const retries = async () => (await failures(metrics))['25006'] ?? 0;
  await readingOnly(async () => {
    outcome = writer.post(transfer(tenant, 'a', 'b', '1.00'));
    while ((await retries()) < 6) await new Promise((done) => setTimeout(done, 10));
  });
  expect(reasonOf((await outcome)!)).toBe('posted');
  expect(logged).toBeGreaterThan(0);
  // Again only if this process stalls for a second.
  expect(logged).toBeLessThan(await retries());
});

test('a pipeline does not keep a connection that was read-only', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  const writer = writers.open({ pipelines: 1, metrics });
  const post = async () => reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  expect(await post()).toBe('posted');
  await readingOnly(async () => expect(await post()).toBe('posted'));
  // More than one if earlier connections were still in use.
  const failed = await failures(metrics);
  expect(failed).toEqual({ 25006: expect.any(Number) });
  for (let times = 0; times < 3; times++) expect(await post()).toBe('posted');
  expect(await failures(metrics)).toEqual(failed);
});

test('after a reconnect, which may lead to a standby that was behind, relay cursors are activated again', async () => {
  const tenantId = await writers.tenantWith('a', 'b');
  const values = [toUuid('tenant', tenantId)];
  const isOpen = async () =>
    (await writers.owner.query<{ is: boolean }>('select open_until is not null as is from relay_marks where tenant_id = $1', values))
      .rows[0]?.is;
  const writer = writers.open({ proxied: true });
  const post = () => writer.post(transfer(tenantId, 'a', 'b', '1.00'));
  // The first one takes the locking path, and the next one opens the pipeline's connection.
  for (let turn = 0; turn < 2; turn++) expect(reasonOf(await post())).toBe('posted');
  expect(await isOpen()).toBe(true);
  await writers.owner.query('update relay_marks set open_until = null where tenant_id = $1', values);
  expect(reasonOf(await post())).toBe('posted');
  expect(await isOpen()).toBe(false);
  writers.proxy.cut();
  expect(reasonOf(await post())).toBe('posted');
  expect(await isOpen()).toBe(true);
});
