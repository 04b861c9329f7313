import { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { withClient } from '../../deploy/local/databases.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { until } from '../../test/notifier.ts';
import { startOwnPostgres, type OwnPostgres } from '../../test/own-postgres.ts';
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

const schemaOf = (migrations: (typeof first)[], appendOnly: string[] = []) => ({
  names: migrations.map(({ name }) => name),
  migrations: () => Promise.resolve(migrations),
  appendOnly,
});

test('a migration waits for a long reader of the table, and other readers do not queue behind it', async () => {
  const database = await freshDatabase('identity');
  const to = (...migrations: (typeof first)[]) => migrate(database.ownerUrl, database.serviceUrl, schemaOf(migrations));
  await to(first);
  const [reader, other] = [database.ownerUrl, database.ownerUrl].map((connectionString) => new pg.Client({ connectionString }));
  await Promise.all([reader!.connect(), other!.connect()]);
  try {
    await reader!.query('begin; select from things');
    const migrated = to(first, second);
    const waiting = () => other!.query(`select from pg_locks where not granted and relation = 'things'::regclass`);
    // It has twice waited for the lock and stopped.
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

test('a migration in a deadlock with a reader runs again, and both succeed', async () => {
  const database = await freshDatabase('identity');
  class Tables extends Migration {
    override up(): void {
      this.addSql('create table one (id int)');
      this.addSql('create table two (id int)');
    }
  }
  class Columns extends Migration {
    override up(): void {
      this.addSql('alter table one add column name text');
      this.addSql('alter table two add column name text');
    }
  }
  const migrations = [Tables, Columns].map((each) => ({ name: each.name, class: each }));
  const to = (count: number) => {
    return migrate(database.ownerUrl, database.serviceUrl, schemaOf(migrations.slice(0, count)));
  };
  await to(1);
  const [reader, other] = [database.adminUrl, database.adminUrl].map((connectionString) => new pg.Client({ connectionString }));
  await Promise.all([reader!.connect(), other!.connect()]);
  try {
    // The migration detects the deadlock, and before its lock time-out.
    await other!.query(`alter database "${new URL(database.adminUrl).pathname.slice(1)}" set deadlock_timeout = '500ms'`);
    await reader!.query(`set deadlock_timeout = '1min'; begin; select from two`);
    const migrated = to(2);
    const waiting = (table: string) => other!.query(`select from pg_locks where not granted and relation = $1::regclass`, [table]);
    await until(async () => (await waiting('two')).rowCount === 1);
    await reader!.query('select from one');
    await reader!.query('commit');
    await migrated;
    expect((await other!.query('select one.name, two.name from one, two')).rowCount).toBe(0);
  } finally {
    await Promise.all([reader!.end(), other!.end()]);
    await database.drop();
  }
});

test('an up-to-date schema loads no migration, and the role gets its rights again', async () => {
  const database = await freshDatabase('identity');
  const { ownerUrl, serviceUrl } = database;
  const owner = new pg.Client({ connectionString: ownerUrl });
  await owner.connect();
  try {
    await migrate(ownerUrl, serviceUrl, schemaOf([first]));
    const role = owner.escapeIdentifier(new URL(serviceUrl).username);
    await owner.query(`revoke all on things from ${role}`);
    const migrations = () => Promise.reject(new Error('loaded'));
    await migrate(ownerUrl, serviceUrl, { names: [first.name], migrations, appendOnly: [] });
    const may = 'select has_table_privilege($1, $2, $3) as granted';
    for (const [table, what, granted] of [
      ['things', 'insert', true],
      ['mikro_orm_migrations', 'select', true],
      ['mikro_orm_migrations', 'insert, update, delete', false],
    ] as const) {
      expect((await owner.query(may, [new URL(serviceUrl).username, table, what])).rows).toEqual([{ granted }]);
    }
    await expect(migrate(ownerUrl, serviceUrl, { names: [first.name, second.name], migrations, appendOnly: [] })).rejects.toThrow('loaded');
  } finally {
    await owner.end();
    await database.drop();
  }
});

test('a role that is not the owner gets one line, before and after there is a schema', async () => {
  const database = await freshDatabase('identity');
  const { ownerUrl, serviceUrl } = database;
  const another = new URL(serviceUrl);
  another.username += '_2';
  const to = (url: string, ...migrations: (typeof first)[]) =>
    migrate(url, url === serviceUrl ? another.href : serviceUrl, schemaOf(migrations));
  try {
    await to(ownerUrl);
    const message = /^MIGRATION_DATABASE_URL: this role may not migrate: [^\n]+$/;
    await expect(to(serviceUrl, first)).rejects.toThrow(message);
    await to(ownerUrl, first);
    await expect(to(serviceUrl, first, second)).rejects.toThrow(message);
  } finally {
    await database.drop();
  }
});

test('whatever the search path of the database, a migration is of the schema public', async () => {
  const database = await freshDatabase('identity');
  try {
    await withClient(database.ownerUrl, (client) => client.query('create schema app'));
    await withClient(database.adminUrl, (client) => client.query(`alter database "${database.name}" set search_path = app`));
    await migrate(database.ownerUrl, database.serviceUrl, schemaOf([first]));
    await migrate(database.ownerUrl, database.serviceUrl, schemaOf([first, second]));
    const { rows } = await withClient(database.adminUrl, (client) =>
      client.query(`select relnamespace::regnamespace::text as schema from pg_class where relname in ('things', 'mikro_orm_migrations')`),
    );
    expect(rows).toEqual([{ schema: 'public' }, { schema: 'public' }]);
  } finally {
    await database.drop();
  }
});

test('on a hardened server the role may connect, and in an old database nobody may create in the schema any more', async () => {
  const database = await freshDatabase('identity');
  const service = new URL(database.serviceUrl);
  const query = (text: string) => withClient(database.adminUrl, (client) => client.query(text));
  const owner = new URL(database.ownerUrl).username;
  try {
    await query(`revoke connect on database "${database.name}" from public, "${service.username}"`);
    await query(`alter database "${database.name}" owner to "${owner}"; alter schema public owner to "${owner}"`);
    await query('grant all on schema public to public');
    await migrate(database.ownerUrl, database.serviceUrl, schemaOf([first]));
    await withClient(database.serviceUrl, async (client) => {
      expect((await client.query('select from things')).rowCount).toBe(0);
      await expect(client.query('create table others ()')).rejects.toThrow('permission denied for schema public');
    });
  } finally {
    await database.drop();
  }
});

test.each([
  ['create table things (id int)', 'create type things as enum ()'],
  ['create function made() returns int return 1', 'create function made() returns int return 2'],
])('an object in the way of %j is named in one line', async (text, before) => {
  class Made extends Migration {
    override up(): void {
      for (const each of text.split('; ')) this.addSql(each);
    }
  }
  const database = await freshDatabase('identity');
  try {
    await withClient(database.ownerUrl, (client) => client.query(before));
    await expect(migrate(database.ownerUrl, database.serviceUrl, schemaOf([{ name: '0001-made', class: Made }]))).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: [^\n]* already exists/,
    );
  } finally {
    await database.drop();
  }
});

test('URLs of two databases, or of one role, change nothing', async () => {
  const database = await freshDatabase('identity');
  const { ownerUrl, serviceUrl } = database;
  const elsewhere = new URL(serviceUrl);
  elsewhere.pathname = '/postgres';
  try {
    const migrateFor = (url: string) => migrate(ownerUrl, url, schemaOf([first]));
    await expect(migrateFor(elsewhere.href)).rejects.toThrow('DATABASE_URL and MIGRATION_DATABASE_URL must name the same database');
    await expect(migrateFor(ownerUrl)).rejects.toThrow(/^DATABASE_URL and MIGRATION_DATABASE_URL name the same role/);
    const migrateWith = (url: string) =>
      migrate(ownerUrl, serviceUrl, {
        ...schemaOf([first]),
        second: { variable: 'SECOND', url: () => url, tables: ['things'], adds: [], calls: [] },
      });
    await expect(migrateWith(elsewhere.href)).rejects.toThrow('SECOND and MIGRATION_DATABASE_URL must name the same database');
    await expect(migrateWith(ownerUrl)).rejects.toThrow(/^SECOND and MIGRATION_DATABASE_URL name the same role/);
    await expect(migrateWith(serviceUrl)).rejects.toThrow(/^SECOND and DATABASE_URL name the same role/);
    const { rows } = await withClient(ownerUrl, (client) => client.query(`select to_regclass('things') as created`));
    expect(rows).toEqual([{ created: null }]);
  } finally {
    await database.drop();
  }
});

test.each(['while it waits for another run', 'in a migration', 'with the lock, in a migration', 'while it grants'])(
  'a connection that is cut %s fails with one line, and the next run continues from there',
  async (moment) => {
    const database = await freshDatabase('identity');
    class Slow extends Migration {
      override up(): void {
        this.addSql(moment.endsWith('in a migration') ? 'select pg_sleep(60)' : 'select 1');
      }
    }
    const to = (...migrations: (typeof first)[]) => migrate(database.ownerUrl, database.serviceUrl, schemaOf(migrations));
    await to(first);
    const [holder, other] = ['holder', 'other'].map(
      (application_name) => new pg.Client({ connectionString: database.adminUrl, application_name }),
    ) as [pg.Client, pg.Client];
    await Promise.all([holder.connect(), other.connect()]);
    try {
      if (moment === 'while it waits for another run')
        await holder.query(`select pg_advisory_lock(hashtext('migrations of this database'))`);
      if (moment === 'while it grants') await holder.query('begin; alter table things add column name text');
      const failed = expect(to(first, { name: '0002-slow', class: Slow })).rejects.toThrow(/^MIGRATION_DATABASE_URL: [^\n]+$/);
      const cut = `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'holder' and query ~ $1`;
      const statement = {
        'while it waits for another run': '^select pg_advisory_lock.*database',
        'in a migration': 'pg_sleep',
        'with the lock, in a migration': '^select name from public.mikro_orm_migrations',
        'while it grants': '^begin; set local',
      };
      if (moment.endsWith('in a migration'))
        await until(async () => (await other.query(`select from pg_stat_activity where query = 'select pg_sleep(60)'`)).rowCount === 1);
      await until(async () => (await other.query(cut, [statement[moment as keyof typeof statement]])).rowCount === 1);
      await failed;
      // The migration runs on in this process; a real one would have ended.
      expect((await other.query(cut, ['pg_sleep'])).rowCount).toBe(moment === 'with the lock, in a migration' ? 1 : 0);
      await holder.query('rollback; select pg_advisory_unlock_all()');
      await to(first, second);
    } finally {
      await Promise.all([holder.end(), other.end()]);
      await database.drop();
    }
  },
);

test('a database without the schema public fails with one line', async () => {
  const database = await freshDatabase('identity');
  try {
    await withClient(database.adminUrl, (client) => client.query('drop schema public cascade'));
    await expect(migrate(database.ownerUrl, database.serviceUrl, schemaOf([]))).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: schema "public" does not exist$/,
    );
  } finally {
    await database.drop();
  }
});

describe('the password of a service', () => {
  // Quotes, and characters that SASLprep replaces or removes.
  const password = `secret'"$$\\ e\u0301\ufb01\u2460\u00a0\u00ad\u{1f469}`;
  let server: OwnPostgres;
  let database: FreshDatabase;
  const migrateFor = async (username: string, given: string) => {
    const url = new URL(database.serviceUrl);
    Object.assign(url, { username, password: encodeURIComponent(given) });
    await migrate(database.ownerUrl, url.href, schemaOf([]));
    return url.href;
  };
  beforeAll(async () => {
    server = await startOwnPostgres();
    database = await freshDatabase('identity', { adminUrl: server.adminUrl });
  });
  afterAll(() => server.end());

  const asAdmin = (change: string) =>
    withClient(server.adminUrl, (client) => client.query(`alter role ${new URL(database.ownerUrl).username} ${change}`));

  test('works for a login, and is not in the log of a server that logs each change of a role', async () => {
    await asAdmin(`set log_statement = 'ddl'`);
    const url = await migrateFor('made', password);
    const { rows } = await withClient(url, (client) => client.query('select current_user as role'));
    expect(rows).toEqual([{ role: 'made' }]);
    expect(server.log()).toMatch(/statement: create role "made" /);
    expect(server.log()).not.toContain('secret');
  });

  test('is none where the URL has none', async () => {
    await migrateFor('without', '');
    const { rows } = await withClient(server.adminUrl, (client) =>
      client.query(`select rolpassword as password from pg_authid where rolname = 'without'`),
    );
    expect(rows).toEqual([{ password: null }]);
  });

  test('is not in the log either where the owner may not create the role', async () => {
    await asAdmin('nocreaterole');
    await expect(migrateFor('refused', password)).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: this role may not migrate: permission denied to create role$/,
    );
    expect(server.log()).toMatch(/STATEMENT: +create role "refused" /);
    expect(server.log()).not.toContain('secret');
  });
});
