// One posting at which the database or this program fails costs the others of its batch nothing.
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { failures, openWriters, reasonOf, tally, transfer, type Writers } from '../../test/writers.ts';
import { toUuid } from '../platform/ids.ts';
import type { Outcome } from './queue.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterEach(() => {
  writers.proxy.translate = (chunk) => chunk;
});

afterAll(() => writers.end());

test('a posting that the database itself refuses costs the other forty-nine nothing', async () => {
  await writers.owner.query(`alter table transactions add constraint injected check (reference is distinct from 'poison')`);
  try {
    const tenants = await Promise.all(Array.from({ length: 50 }, () => writers.tenantWith('a', 'b')));
    const writer = writers.open({ pipelines: 1 });
    const outcomes = await Promise.all(
      tenants.map((tenant, place) => writer.post(transfer(tenant, 'a', 'b', '1.00', place === 23 ? { reference: 'poison' } : {}))),
    );
    expect(tally(outcomes)).toEqual({ posted: 49, internal: 1 });
    expect(reasonOf(outcomes[23] as Outcome)).toBe('internal');
  } finally {
    await writers.owner.query('alter table transactions drop constraint injected');
  }
});

/** Has the database raise an error for each transaction of which this is true (SQL). */
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

// Of a trigger; of a page that can't be read; of whatever PostgreSQL itself did not expect; of a right that is missing.
test.each(['P0001', 'XX001', 'XX000', '42501', '55000'])(
  'one that it refuses with %s costs the others nothing either',
  async (sqlstate) => {
    const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
    const writer = writers.open({ pipelines: 1 });
    await injecting(sqlstate, `new.reference = 'poison'`, async () => {
      // The first batch of a tenant is locked, the next one is sent ahead.
      for (let turn = 0; turn < 2; turn++) {
        const outcomes = await Promise.all(
          tenants.map((tenant, place) => writer.post(transfer(tenant, 'a', 'b', '1.00', place === 3 ? { reference: 'poison' } : {}))),
        );
        expect(outcomes.map(reasonOf)).toEqual(tenants.map((_, place) => (place === 3 ? 'internal' : 'posted')));
      }
    });
  },
);

test.each([
  ['not remembered', 0],
  ['remembered', undefined],
])(
  'nor does it change the order in which another tenant’s are posted, whose head another process holds; the books are %s',
  async (_, maxCachedAccounts) => {
    const [poisoned, held] = [await writers.tenantWith('a', 'b'), await writers.tenantWith('a', 'b')];
    const writer = writers.open({ pipelines: 1, isPatient: true, ...(maxCachedAccounts !== undefined && { maxCachedAccounts }) });
    for (const tenant of [poisoned, held]) await writer.post(transfer(tenant, 'a', 'b', '1.00'));
    await injecting('P0001', `new.reference = 'poison'`, async () => {
      await writers.owner.query('begin');
      await writers.owner.query('select from heads where tenant_id = $1 for update', [toUuid('tenant', held)]);
      const posted = Array.from({ length: 4 }, () => writer.post(transfer(held, 'a', 'b', '1.00')));
      const refused = writer.post(transfer(poisoned, 'a', 'b', '1.00', { reference: 'poison' }));
      posted.push(...Array.from({ length: 4 }, () => writer.post(transfer(held, 'a', 'b', '1.00'))));
      expect(reasonOf(await refused)).toBe('internal');
      await writers.owner.query('rollback');
      const places = (await Promise.all(posted)).map((outcome) => {
        const { result } = outcome as Extract<Outcome, { result: unknown }>;
        return result.outcome.case === 'transaction' ? Number(result.outcome.value.sequence) : NaN;
      });
      expect(places).toEqual(places.toSorted((one, other) => one - other));
      expect(new Set(places).size).toBe(8);
    });
  },
);

test('so it is where its messages are Czech', async () => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const writer = writers.open({ pipelines: 1, proxied: true });
  // As long as the English word, so that the rest of the message stays as it is. No PostgreSQL of the tests has translations.
  writers.proxy.translate = (chunk) => Buffer.from(chunk.toString('latin1').replaceAll('SERROR\0', 'SCHYBA\0'), 'latin1');
  await injecting('P0001', `new.reference = 'poison'`, async () => {
    for (let turn = 0; turn < 2; turn++) {
      const outcomes = await Promise.all(
        tenants.map((tenant, place) => writer.post(transfer(tenant, 'a', 'b', '1.00', place === 3 ? { reference: 'poison' } : {}))),
      );
      expect(outcomes.map(reasonOf)).toEqual(tenants.map((_, place) => (place === 3 ? 'internal' : 'posted')));
    }
  });
});

test('a repetition of a posting whose event can not be read any more costs the others nothing', async () => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const damaged = tenants[3]!;
  const writer = writers.open({ pipelines: 1 });
  const postAll = () => Promise.all(tenants.map((tenant) => writer.post(transfer(tenant, 'a', 'b', '1.00', { idempotencyKey: 'once' }))));
  expect(tally(await postAll())).toEqual({ posted: 10 });
  // A field of a wire type that there is none of.
  await writers.owner.query(`update log set payload = '\\x0f' where tenant_id = $1 and type = 'transaction.posted'`, [
    toUuid('tenant', damaged),
  ]);
  const outcomes = await postAll();
  expect(outcomes.map(reasonOf)).toEqual(tenants.map((tenant) => (tenant === damaged ? 'internal' : 'replayed')));
});

test('one at which this program fails costs the others nothing either', async () => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const orders = tenants.map((tenant) => transfer(tenant, 'a', 'b', '1.00'));
  Object.defineProperty(orders[3], 'kind', {
    get: () => {
      throw new TypeError('injected');
    },
  });
  const writer = writers.open({ pipelines: 1 });
  const outcomes = await Promise.all(orders.map((order) => writer.post(order)));
  expect(outcomes.map(reasonOf)).toEqual(tenants.map((_, place) => (place === 3 ? 'internal' : 'posted')));
});

test('where the database refuses every posting, each is told so, and no more than two batches are run for each', async () => {
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

/** Has the database allow new connections only to read. */
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

test('a database that is away is told of once, however often it is asked', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  let told = 0;
  const log = pino({ level: 'warn' }, { write: () => (told += 1) });
  const writer = writers.open({ pipelines: 1, metrics, log });
  let outcome: Promise<Outcome> | undefined;
  const asked = async () => (await failures(metrics))['25006'] ?? 0;
  await readingOnly(async () => {
    outcome = writer.post(transfer(tenant, 'a', 'b', '1.00'));
    while ((await asked()) < 6) await new Promise((done) => setTimeout(done, 10));
  });
  expect(reasonOf((await outcome)!)).toBe('posted');
  expect(told).toBeGreaterThan(0);
  // Again only where this process stood still for a second.
  expect(told).toBeLessThan(await asked());
});

test('connections that were made while the database allowed only reading are not kept when that is over', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  const writer = writers.open({ pipelines: 1, metrics });
  let outcome: Promise<Outcome> | undefined;
  await readingOnly(async () => {
    outcome = writer.post(transfer(tenant, 'a', 'b', '1.00'));
    while ((await failures(metrics))['25006'] === undefined) await new Promise((done) => setTimeout(done, 10));
  });
  expect(reasonOf((await outcome)!)).toBe('posted');
});

test('nor is that of a lane', async () => {
  const tenant = await writers.tenantWith('a', 'b');
  const metrics = new Registry();
  const writer = writers.open({ pipelines: 1, metrics });
  const post = async () => reasonOf(await writer.post(transfer(tenant, 'a', 'b', '1.00')));
  expect(await post()).toBe('posted');
  await readingOnly(async () => expect(await post()).toBe('posted'));
  // More than one where those of before were still in use.
  const failed = await failures(metrics);
  expect(failed).toEqual({ 25006: expect.any(Number) });
  for (let times = 0; times < 3; times++) expect(await post()).toBe('posted');
  expect(await failures(metrics)).toEqual(failed);
});

test('over a new connection, which may lead to a server that lacks what was committed last, marks are opened again', async () => {
  const tenantId = await writers.tenantWith('a', 'b');
  const values = [toUuid('tenant', tenantId)];
  const isOpen = async () =>
    (await writers.owner.query<{ is: boolean }>('select open_until is not null as is from relay_marks where tenant_id = $1', values))
      .rows[0]?.is;
  const writer = writers.open({ proxied: true });
  const post = () => writer.post(transfer(tenantId, 'a', 'b', '1.00'));
  // The first one locks, on a connection of its own, and the next one makes the lane's.
  for (let turn = 0; turn < 2; turn++) expect(reasonOf(await post())).toBe('posted');
  expect(await isOpen()).toBe(true);
  await writers.owner.query('update relay_marks set open_until = null where tenant_id = $1', values);
  expect(reasonOf(await post())).toBe('posted');
  expect(await isOpen()).toBe(false);
  writers.proxy.cut();
  expect(reasonOf(await post())).toBe('posted');
  expect(await isOpen()).toBe(true);
});
