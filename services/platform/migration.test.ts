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

class Maker extends First {
  override up(): void {
    super.up();
    this.addSql('create function made(int) returns int return 1');
  }
}

/** To make so many takes its time, and to grant them. */
class Many extends Migration {
  override up(): void {
    this.addSql(
      `do $$ begin for each in 1..2000 loop execute format('create function many_%s() returns int return 1', each); end loop; end $$`,
    );
  }
}

const first = { name: '0001-first', class: First };
const maker = { name: '0001-maker', class: Maker };
const second = { name: '0002-second', class: Second };
const many = { name: '0003-many', class: Many };

const schemaOf = (migrations: (typeof first)[], appendOnly: string[] = []) => ({
  names: migrations.map(({ name }) => name),
  migrations: () => Promise.resolve(migrations),
  appendOnly,
});

test('a change of a table that somebody reads for long waits for him, and nobody waits long behind it', async () => {
  const database = await freshDatabase('identity');
  const to = (...migrations: (typeof first)[]) => migrate(database.ownerUrl, database.serviceUrl, schemaOf(migrations));
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

test('a change that waits for a reader who waits for it begins anew, and both go on', async () => {
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
    // It is the migration that looks for a deadlock, and before it would give up waiting.
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

test('of a schema that lacks nothing no migration is loaded, and the role is granted again what it needs', async () => {
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

test('whoever is not the owner is told that in one line, before and after there is a schema', async () => {
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

test('whatever the database says of its sessions, a migration is of the schema public, and has its time', async () => {
  const database = await freshDatabase('identity');
  const to = (...migrations: (typeof first)[]) =>
    migrate(database.ownerUrl, database.serviceUrl, {
      names: migrations.map((each) => each.name),
      migrations: () => Promise.resolve(migrations),
      appendOnly: [],
    });
  const say = (...settings: string[]) =>
    withClient(database.adminUrl, async (client) => {
      for (const setting of settings) await client.query(`alter database "${database.name}" set ${setting}`);
    });
  try {
    const version = await withClient(database.ownerUrl, async (client) => {
      await client.query('create schema app');
      const { rows } = await client.query<{ version: number }>(`select current_setting('server_version_num')::int as version`);
      return rows[0]!.version;
    });
    const limits = version >= 170_000 ? ['statement_timeout', 'transaction_timeout'] : ['statement_timeout'];
    await say('search_path = app', ...limits.map((limit, number) => `${limit} = '${[1, 20][number]}ms'`));
    await to(first);
    await to(first, second, many);
    const patient = new URL(database.adminUrl);
    patient.searchParams.set('options', limits.map((limit) => `-c ${limit}=0`).join(' '));
    const { rows } = await withClient(patient.href, (client) =>
      client.query(`select relnamespace::regnamespace::text as schema from pg_class where relname in ('things', 'mikro_orm_migrations')`),
    );
    expect(rows).toEqual([{ schema: 'public' }, { schema: 'public' }]);
    await withClient(new URL('/postgres', database.adminUrl).href, (client) =>
      client.query(`alter database "${database.name}" set default_transaction_read_only = on`),
    );
    await expect(to(first, second, many)).rejects.toThrow(/^MIGRATION_DATABASE_URL: cannot execute GRANT in a read-only transaction/);
  } finally {
    await database.drop();
  }
});

test('a way to the database on which its settings are lost is refused before anything is changed', async () => {
  const database = await freshDatabase('identity');
  const lost = new URL(database.ownerUrl);
  // In the place of those of the cluster, as a pooler may leave them out.
  lost.searchParams.set('options', '-c jit=off');
  const schema = schemaOf([first]);
  try {
    await expect(migrate(lost.href, database.serviceUrl, schema)).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: the settings of a connection are lost/,
    );
    await migrate(database.ownerUrl, database.serviceUrl, schema);
  } finally {
    await database.drop();
  }
});

test('a schema in which every role may create is refused before anything is made there, and what is told helps', async () => {
  const database = await freshDatabase('identity');
  const schema = schemaOf([first]);
  const run = (serviceUrl = database.serviceUrl) => migrate(database.ownerUrl, serviceUrl, schema);
  const ask = (text: string) => withClient(database.adminUrl, (client) => client.query(text));
  const [owner, service] = [database.ownerUrl, database.serviceUrl].map((url) => `"${new URL(url).username}"`);
  const unmade = new URL(database.serviceUrl);
  unmade.username += '_unmade';
  try {
    // As a database of before PostgreSQL 15 has it: the owner may create there as everybody may.
    await ask(`alter schema public owner to current_user; revoke all on schema public from ${owner}; grant all on schema public to public`);
    const advice = `revoke create on schema public from public; grant create on schema public to ${owner}`;
    await expect(run(unmade.href)).rejects.toThrow(
      "MIGRATION_DATABASE_URL: every role may create in schema public, where a function could take the place of one of PostgreSQL's: " +
        `as the schema's owner, ${advice}`,
    );
    const made = `select from pg_class where relname in ('things', 'mikro_orm_migrations') union all select from pg_roles where rolname = $1`;
    const { rowCount } = await withClient(database.adminUrl, (client) => client.query(made, [unmade.username]));
    expect(rowCount).toBe(0);
    await ask(advice);
    await run();
    await ask(`revoke usage on schema public from public, ${service}; grant usage on schema public to ${owner}`);
    await expect(run()).rejects.toThrow(`as the schema's owner, grant usage on schema public to ${service}`);
    await ask(`grant usage on schema public to ${service}`);
    await run();
  } finally {
    await database.drop();
  }
});

test('a function of the owner’s own may have any name, also before he has a table; another’s table makes nobody the owner', async () => {
  const database = await freshDatabase('identity');
  const run = () => migrate(database.ownerUrl, database.serviceUrl, schemaOf([maker]));
  const ask = (url: string, text: string) => withClient(url, (client) => client.query(text));
  try {
    await ask(database.adminUrl, 'create table mikro_orm_migrations (); grant all on mikro_orm_migrations to public');
    const { rows } = await withClient(database.adminUrl, (client) => client.query<{ name: string }>('select current_user as name'));
    await expect(run()).rejects.toThrow(
      `MIGRATION_DATABASE_URL: this role may not migrate: public.mikro_orm_migrations is of role ${rows[0]!.name}`,
    );
    await ask(database.adminUrl, 'drop table mikro_orm_migrations; create table things (); create function made() returns int return 1');
    await expect(run()).rejects.toThrow(/^MIGRATION_DATABASE_URL: [^\n]*relation "things" already exists[^\n]*$/);
    await ask(database.adminUrl, 'drop table things');
    // Of the same name as one that is about to be made.
    await expect(run()).rejects.toThrow(/: what another role has made in schema public can .*: function public\.made\(\) of role /);
    await ask(database.adminUrl, 'drop function made()');
    await ask(database.ownerUrl, `create function date_trunc(int) returns int language sql as 'select 1'`);
    await run();
    await run();
  } finally {
    await database.drop();
  }
});

test.each([
  ['create table things (id int)', 'create type things as enum ()'],
  ['create type things as enum ()', 'create table things ()'],
  ['create function made() returns int return 1', 'create function made() returns int return 2'],
  ['create table things (id int); alter table things add column id int', ''],
])('what is in the way of %j is told', async (text, before) => {
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

test('an event trigger of the database that has none of it is told in one line', async () => {
  const database = await freshDatabase('identity');
  const ask = (text: string) => withClient(database.adminUrl, (client) => client.query(text));
  try {
    await ask(`create function no_tables() returns event_trigger language plpgsql as $$ begin raise exception 'ask the DBA'; end $$`);
    await ask(`create event trigger no_tables on ddl_command_start when tag in ('CREATE TABLE') execute function no_tables()`);
    await expect(migrate(database.ownerUrl, database.serviceUrl, schemaOf([first]))).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: [^\n]*ask the DBA[^\n]*$/,
    );
  } finally {
    await ask('drop event trigger if exists no_tables');
    await database.drop();
  }
});

test('addresses of two databases, or of one role, change nothing and are told apart', async () => {
  const database = await freshDatabase('identity');
  const { ownerUrl, serviceUrl } = database;
  const [elsewhere, asOwner] = [new URL(serviceUrl), new URL(ownerUrl)];
  elsewhere.pathname = '/postgres';
  const owner = new pg.Client({ connectionString: ownerUrl });
  await owner.connect();
  try {
    const by = (url: URL) => migrate(ownerUrl, url.href, schemaOf([first]));
    await expect(by(elsewhere)).rejects.toThrow(
      /^DATABASE_URL names the database postgres, MIGRATION_DATABASE_URL [^\n]+: both must name one$/,
    );
    await expect(by(asOwner)).rejects.toThrow(/^DATABASE_URL names the role [^\n]+, as MIGRATION_DATABASE_URL does: [^\n]+$/);
    expect((await owner.query(`select to_regclass('things') as made`)).rows).toEqual([{ made: null }]);
  } finally {
    await owner.end();
    await database.drop();
  }
});

test('what is granted and revoked again the role has at no time', async () => {
  const database = await freshDatabase('identity');
  const to = () => migrate(database.ownerUrl, database.serviceUrl, schemaOf([first], ['things']));
  await to();
  const other = new pg.Client({ connectionString: database.adminUrl });
  await other.connect();
  try {
    // What takes back takes its time.
    await other.query(`create function dawdle() returns event_trigger language plpgsql as 'begin perform pg_sleep(0.1); end'`);
    await other.query(`create event trigger dawdles on ddl_command_start when tag in ('REVOKE') execute function dawdle()`);
    const role = decodeURIComponent(new URL(database.serviceUrl).username);
    const state = { isOver: false };
    const migrated = to().finally(() => (state.isOver = true));
    while (!state.isOver) {
      const { rows } = await other.query(
        `select has_table_privilege($1, 'things', 'delete') as things, has_table_privilege($1, 'mikro_orm_migrations', 'insert') as names`,
        [role],
      );
      expect(rows).toEqual([{ things: false, names: false }]);
    }
    await migrated;
  } finally {
    await other.end();
    await database.drop();
  }
});

test.each(['while it waits for another run', 'in a migration', 'with the lock, in a migration', 'while it grants'])(
  'a connection that is cut %s is told in one line, and the next run goes on from there',
  async (moment) => {
    const database = await freshDatabase('identity');
    class Slow extends Migration {
      override up(): void {
        this.addSql(moment.endsWith('in a migration') ? 'select pg_sleep(60)' : 'select 1');
      }
    }
    const to = (...migrations: (typeof first)[]) => migrate(database.ownerUrl, database.serviceUrl, schemaOf(migrations));
    await to(first);
    const [holder, other] = [database.adminUrl, database.adminUrl].map((connectionString) => new pg.Client({ connectionString })) as [
      pg.Client,
      pg.Client,
    ];
    await Promise.all([holder.connect(), other.connect()]);
    try {
      if (moment === 'while it waits for another run')
        await holder.query(`select pg_advisory_lock(hashtext('migrations of this database'))`);
      if (moment === 'while it grants') await holder.query('begin; alter table things add column name text');
      const failed = expect(to(first, { name: '0002-slow', class: Slow })).rejects.toThrow(/^MIGRATION_DATABASE_URL: [^\n]+$/);
      const cut = `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and query ~ $1`;
      const statement = {
        'while it waits for another run': 'pg_try_advisory_lock',
        'in a migration': 'pg_sleep',
        'with the lock, in a migration': '^select name from public.mikro_orm_migrations',
        'while it grants': '^begin; set local',
      };
      if (moment.endsWith('in a migration'))
        await until(async () => (await other.query(`select from pg_stat_activity where query = 'select pg_sleep(60)'`)).rowCount === 1);
      await until(async () => (await other.query(cut, [statement[moment as keyof typeof statement]])).rowCount === 1);
      await failed;
      // It does not go on without the lock; the process, which ends with that, would have taken the migration along.
      expect((await other.query(cut, ['pg_sleep'])).rowCount).toBe(moment === 'with the lock, in a migration' ? 1 : 0);
      await holder.query('rollback; select pg_advisory_unlock_all()');
      await to(first, second);
    } finally {
      await Promise.all([holder.end(), other.end()]);
      await database.drop();
    }
  },
);

test.each([
  ['1s', '2000'],
  ['3s', '4000'],
  ['20s', '5000'],
])('a change has its time, but for waiting longer than until PostgreSQL ends an autovacuum, after %s', async (after, setting) => {
  const database = await freshDatabase('identity');
  const name = new URL(database.adminUrl).pathname.slice(1);
  await withClient(database.adminUrl, (client) => client.query(`alter database "${name}" set deadlock_timeout = '${after}'`));
  class Told extends Migration {
    override up(): void {
      this.addSql(`create table told as select name, setting from pg_settings
        where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout') order by name`);
    }
  }
  try {
    await migrate(database.ownerUrl, database.serviceUrl, schemaOf([{ name: '0001-told', class: Told }]));
    const { rows } = await withClient(database.ownerUrl, (client) => client.query('select * from told'));
    expect(rows).toEqual([
      { name: 'idle_in_transaction_session_timeout', setting: '0' },
      { name: 'lock_timeout', setting },
      { name: 'statement_timeout', setting: '0' },
    ]);
  } finally {
    await database.drop();
  }
});

test('a database without the schema public is told in one line', async () => {
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

test('grants wait for whoever changes a table, and nobody waits long behind them', async () => {
  const database = await freshDatabase('identity');
  const to = () => migrate(database.ownerUrl, database.serviceUrl, schemaOf([first], ['things']));
  await to();
  const [changing, other] = [database.ownerUrl, database.adminUrl].map((connectionString) => new pg.Client({ connectionString })) as [
    pg.Client,
    pg.Client,
  ];
  await Promise.all([changing.connect(), other.connect()]);
  try {
    await changing.query('begin; alter table things add column name text');
    const role = decodeURIComponent(new URL(database.serviceUrl).username);
    await other.query(`revoke all on schema public from ${other.escapeIdentifier(role)}`);
    const migrated = to();
    // It has given up waiting once, and with that what it had granted before.
    const tries = async () => {
      const { rows } = await other.query<{ since: string }>(
        `select distinct query_start::text as since from pg_stat_activity where query like 'begin; set local%' and datname = current_database()`,
      );
      return rows.map(({ since }) => since);
    };
    const seen = new Set<string>();
    await until(async () => {
      for (const since of await tries()) seen.add(since);
      return seen.size > 1;
    });
    await changing.query('commit');
    await migrated;
    const { rows } = await other.query(`select has_schema_privilege($1, 'public', 'usage') as usage`, [role]);
    expect(rows).toEqual([{ usage: true }]);
  } finally {
    await Promise.all([changing.end(), other.end()]);
    await database.drop();
  }
});

describe('the password of a service', () => {
  // Quotes, and what SASLprep makes another letter, a space or nothing.
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

  test('lets its role in, and is not in the log of a PostgreSQL that logs each change of a role', async () => {
    await asAdmin(`set log_statement = 'ddl'`);
    const url = await migrateFor('made', password);
    const { rows } = await withClient(url, (client) => client.query('select current_user as role'));
    expect(rows).toEqual([{ role: 'made' }]);
    expect(server.log()).toMatch(/statement: create role "made" /);
    expect(server.log()).not.toContain('secret');
  });

  test('is none where the address has none', async () => {
    await migrateFor('without', '');
    const { rows } = await withClient(server.adminUrl, (client) =>
      client.query(`select rolpassword as password from pg_authid where rolname = 'without'`),
    );
    expect(rows).toEqual([{ password: null }]);
  });

  test('is not in the log either where the owner may not make the role', async () => {
    await asAdmin('nocreaterole');
    await expect(migrateFor('refused', password)).rejects.toThrow(
      /^MIGRATION_DATABASE_URL: this role may not migrate: permission denied to create role$/,
    );
    expect(server.log()).toMatch(/STATEMENT: +create role "refused" /);
    expect(server.log()).not.toContain('secret');
  });
});
