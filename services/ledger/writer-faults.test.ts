// One posting at which the database or this program fails costs the others of its batch nothing.
import { Registry } from 'prom-client';
import { openWriters, reasonOf, tally, transfer, type Writers } from '../../test/writers.ts';
import type { Outcome } from './queue.ts';

let writers: Writers;

beforeAll(async () => {
  writers = await openWriters();
});

afterAll(() => writers.end());

test('a posting that the database itself refuses costs the other forty-nine nothing', async () => {
  await writers.owner.query(`alter table transactions add constraint injected check (reference is distinct from 'poison')`);
  try {
    const tenants = await Promise.all(Array.from({ length: 50 }, () => writers.tenantWith('a', 'b')));
    const writer = writers.open({ lanes: 1 });
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
    const writer = writers.open({ lanes: 1 });
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

test('one at which this program fails costs the others nothing either', async () => {
  const tenants = await Promise.all(Array.from({ length: 10 }, () => writers.tenantWith('a', 'b')));
  const orders = tenants.map((tenant) => transfer(tenant, 'a', 'b', '1.00'));
  Object.defineProperty(orders[3], 'kind', {
    get: () => {
      throw new TypeError('injected');
    },
  });
  const writer = writers.open({ lanes: 1 });
  const outcomes = await Promise.all(orders.map((order) => writer.post(order)));
  expect(outcomes.map(reasonOf)).toEqual(tenants.map((_, place) => (place === 3 ? 'internal' : 'posted')));
});

test('where the database refuses every posting, each is told so, and no more than two batches are run for each', async () => {
  const tenants = await Promise.all(Array.from({ length: 20 }, () => writers.tenantWith('a', 'b')));
  const metrics = new Registry();
  const writer = writers.open({ lanes: 1, metrics });
  await injecting('P0001', 'true', async () => {
    const outcomes = await Promise.all(tenants.map((tenant) => writer.post(transfer(tenant, 'a', 'b', '1.00'))));
    expect(tally(outcomes)).toEqual({ internal: 20 });
  });
  const { values } = (await metrics.getSingleMetric('ledger_batch_failures_total')?.get()) ?? { values: [] };
  expect(values).toMatchObject([{ labels: { sqlstate: 'P0001' } }]);
  expect(values[0]!.value).toBeLessThan(2 * 20);
});
