import { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { freshDatabase } from '../../test/house.ts';
import { until } from '../../test/notifier.ts';
import { migrate } from './migration.ts';

class First extends Migration {
  override up(): void {
    this.addSql('create table things (id int)');
  }
}

class Second extends Migration {
  override up(): void {
    this.addSql('alter table things add column name text');
  }
}

const first = { name: '0001-first', class: First };
const second = { name: '0002-second', class: Second };

test('a change of a table that somebody reads for long waits for him, and nobody waits long behind it', async () => {
  const database = await freshDatabase('identity');
  const to = (...migrations: (typeof first)[]) => migrate(database.ownerUrl, database.serviceUrl, { migrations, appendOnly: [] });
  await to(first);
  const [reader, other] = [database.ownerUrl, database.ownerUrl].map((connectionString) => new pg.Client({ connectionString }));
  await Promise.all([reader!.connect(), other!.connect()]);
  try {
    await reader!.query('begin; select from things');
    const migrated = to(first, second);
    const waiting = () => other!.query(`select from pg_locks where not granted and relation = 'things'::regclass`);
    // Twice it has begun to wait, and given up.
    for (let turn = 0; turn < 2; turn++) {
      await until(async () => (await waiting()).rowCount === 1);
      await other!.query('select from things');
      await until(async () => (await waiting()).rowCount === 0);
    }
    await reader!.query('commit');
    await migrated;
    expect((await other!.query('select name from things')).rowCount).toBe(0);
  } finally {
    await Promise.all([reader!.end(), other!.end()]);
    await database.drop();
  }
});
