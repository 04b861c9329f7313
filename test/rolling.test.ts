// A rolling update under load, with the migrations of a later version: clients notice nothing, and books, streams and deliveries are complete.
import { jest } from '@jest/globals';
import { withClient } from '../deploy/local/databases.ts';
import { services } from '../deploy/local/plan.ts';
import { underLoad } from './load.ts';
import { startRolling, type Rolling } from './rolling.ts';

jest.setTimeout(300_000);

let rolling: Rolling;

beforeAll(async () => {
  rolling = await startRolling();
});
afterAll(() => rolling.stop());

/** What migrations of a later version do: a column more in every table, and a name in the list of migrations. */
async function migrateFurther(): Promise<void> {
  for (const service of services) {
    await withClient(rolling.cluster.databases[service].ownerUrl, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `select quote_ident(tablename) as name from pg_tables where schemaname = 'public' and tablename <> 'mikro_orm_migrations'`,
      );
      for (const { name } of rows) await client.query(`alter table ${name} add column of_a_later_version text`);
      await client.query(`insert into mikro_orm_migrations (name, executed_at) values ('9999-later', now())`);
    });
  }
}

test('migrations run and every process is restarted one by one under load, and no client gets an error', async () => {
  const { faults } = await underLoad(rolling.url, async () => {
    await migrateFurther();
    await rolling.roll();
  });
  expect(faults).toEqual([]);
});
