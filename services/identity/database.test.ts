import { randomBytes } from 'node:crypto';
import { createServer, connect, type Socket } from 'node:net';
import pg from 'pg';
import { v7 as uuidv7 } from 'uuid';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { encryptionKey, launchIdentity, newEmail, newUser, password, refusal, signingKey, startIdentity } from '../../test/identity.ts';
import { newKeyText } from './credentials.ts';
import { newId } from '../platform/ids.ts';
import { migrations } from './migrations.ts';
import { appendOnly, migrationNames } from './schema.ts';

describe('row-level security', () => {
  const tables = ['tenants', 'memberships', 'api_keys', 'invitations', 'tenant_audit', 'vaults', 'subjects'];
  // Worked off by jobs that know no tenant.
  const jobs = ['closings', 'mails', 'erasures'];
  let database: FreshDatabase;
  let admin: pg.Client;
  let service: pg.Client;
  const mine = newRows();
  const theirs = newRows();

  beforeAll(async () => {
    database = await freshDatabase('identity', { migrated: true });
    admin = new pg.Client({ connectionString: database.adminUrl });
    service = new pg.Client({ connectionString: database.serviceUrl });
    await Promise.all([admin.connect(), service.connect()]);
    for (const each of [mine, theirs]) await within({ 'app.tenants': `{${each.tenant}}` }, () => insertAll(each));
  });

  afterAll(async () => {
    await Promise.all([admin.end(), service.end()]);
    await database.drop();
  });

  function newRows() {
    return { tenant: uuidv7(), user: uuidv7(), key: uuidv7(), slug: `s-${randomBytes(8).toString('hex')}` };
  }

  async function insertAll(each: ReturnType<typeof newRows>): Promise<void> {
    await service.query('insert into slugs values ($1, $2)', [each.slug, each.tenant]);
    for (const table of tables) await insert(table, each);
  }

  function insert(table: string, { tenant, user, key, slug }: ReturnType<typeof newRows>): Promise<unknown> {
    if (table === 'tenants') {
      return service.query(`insert into tenants values ($1, 'Books', $2, 'wallet', null, 'active', now())`, [tenant, slug]);
    }
    if (table === 'memberships') return service.query(`insert into memberships values ($1, $2, 'owner', now())`, [tenant, user]);
    if (table === 'invitations') {
      return service.query(`insert into invitations values ($1, $2, 'a@example.com', 'viewer', $3, now(), now())`, [tenant, key, user]);
    }
    if (table === 'tenant_audit') {
      const audit = `insert into tenant_audit values ($1, 1, $2, 'tenant.created', null, null, null, null, now(), '{}', $3, $3)`;
      return service.query(audit, [tenant, key, '0'.repeat(64)]);
    }
    if (table === 'vaults') return service.query(`insert into vaults values ($1, 'encrypted', now())`, [tenant]);
    if (table === 'subjects') {
      return service.query(`insert into subjects values ($1, $2, decode($3, 'hex'), 'encrypted', now())`, [tenant, key, '0'.repeat(64)]);
    }
    const values = [tenant, key, '0'.repeat(64), user];
    return service.query(`insert into api_keys values ($1, $2, 'till', null, '{accounts:read}', $3, 'last', now(), $4)`, values);
  }

  // A transaction on the one connection that served all others before it.
  async function within<Result>(settings: Record<string, string>, work: () => Promise<Result>): Promise<Result> {
    await service.query('begin');
    try {
      for (const [name, value] of Object.entries(settings)) await service.query('select set_config($1, $2, true)', [name, value]);
      const result = await work();
      await service.query('commit');
      return result;
    } catch (error) {
      await service.query('rollback');
      throw error;
    }
  }

  const tenantsIn = async (table: string) =>
    (await service.query(`select tenant_id from ${table} order by 1`)).rows.map((row) => row.tenant_id);
  const otherTenant = { 'app.tenants': `{${uuidv7()}}` };
  const empty = { 'app.tenants': '', 'app.user_id': '', 'app.key_id': '' };

  /** Rows that a statement changes, or the code of its error. */
  const changed = (settings: Record<string, string>, text: string, values: string[] = []) =>
    within(settings, () => service.query(text, values)).then(
      ({ rowCount }) => rowCount,
      ({ code }: { code: string }) => code,
    );

  describe.each(tables)('%s', (table) => {
    // Without the right to change rows it does not matter which are seen.
    const nothing = appendOnly.includes(table) ? '42501' : 0;

    test.each([
      ['no setting', {}],
      ['empty settings', empty],
      ['another tenant', otherTenant],
      ['no tenants', { 'app.tenants': '{}' }],
      ['an unknown user and key', { 'app.user_id': uuidv7(), 'app.key_id': uuidv7() }],
    ])('with %s no row is seen, changed or deleted', async (_, settings) => {
      await within(settings as Record<string, string>, async () => {
        expect(await tenantsIn(table)).toEqual([]);
      });
      expect(await changed(settings as Record<string, string>, `update ${table} set created_at = now()`)).toBe(nothing);
      expect(await changed(settings as Record<string, string>, `delete from ${table}`)).toBe(nothing);
    });

    test.each([
      ['no setting', {}],
      ['another tenant', otherTenant],
      ['its user and its key alone', { 'app.user_id': mine.user, 'app.key_id': mine.key }],
    ])('with %s no row is added', async (_, settings) => {
      const more = { ...newRows(), tenant: mine.tenant, slug: mine.slug };
      await expect(within(settings as Record<string, string>, () => insert(table, more))).rejects.toMatchObject({ code: '42501' });
    });

    test('with one tenant its rows are seen and no others, with two tenants those of both', async () => {
      await within({ 'app.tenants': `{${mine.tenant}}` }, async () => expect(await tenantsIn(table)).toEqual([mine.tenant]));
      await within({ 'app.tenants': `{${mine.tenant},${theirs.tenant}}` }, async () =>
        expect(await tenantsIn(table)).toEqual([mine.tenant, theirs.tenant].sort()),
      );
    });

    test('another tenant’s row is not changed, deleted, taken over or given away', async () => {
      const own = { 'app.tenants': `{${mine.tenant}}` };
      expect(await changed(own, `update ${table} set created_at = now() where tenant_id = $1`, [theirs.tenant])).toBe(nothing);
      expect(await changed(own, `delete from ${table} where tenant_id = $1`, [theirs.tenant])).toBe(nothing);
      const give = () => service.query(`update ${table} set tenant_id = $1`, [theirs.tenant]);
      await expect(within({ 'app.tenants': `{${mine.tenant}}` }, give)).rejects.toMatchObject({ code: '42501' });
      const copy = () => service.query(`insert into ${table} select * from ${table} on conflict do nothing`);
      await within({ 'app.tenants': `{${mine.tenant}}` }, async () => expect(await copy()).toMatchObject({ rowCount: 0 }));
      await within({ 'app.tenants': `{${theirs.tenant}}` }, async () => expect(await tenantsIn(table)).toEqual([theirs.tenant]));
    });

    test('a conflict with another tenant’s row does not lead to it', async () => {
      const takeOver = () =>
        service.query(
          table === 'tenants'
            ? `insert into tenants values ('${theirs.tenant}', 'x', '${theirs.slug}', 'wallet', null, 'active', now())
               on conflict (tenant_id) do update set name = 'taken'`
            : table === 'memberships'
              ? `insert into memberships values ('${theirs.tenant}', '${theirs.user}', 'owner', now())
               on conflict (tenant_id, user_id) do update set role = 'viewer'`
              : table === 'invitations'
                ? `insert into invitations values ('${theirs.tenant}', '${theirs.key}', 'x', 'owner', '${mine.user}', now(), now())
               on conflict (tenant_id, id) do update set role = 'owner'`
                : table === 'tenant_audit'
                  ? `insert into tenant_audit values ('${theirs.tenant}', 1, '${theirs.key}', 'x', null, null, null, null, now(), '{}', repeat('1', 64), repeat('1', 64))
               on conflict (tenant_id, sequence) do update set type = 'x'`
                  : `insert into api_keys values ('${theirs.tenant}', '${theirs.key}', 'x', null, '{accounts:read}', repeat('1', 64), 'last', now(), '${mine.user}')
               on conflict (tenant_id, id) do update set hash = repeat('1', 64)`,
        );
      await expect(within({ 'app.tenants': `{${mine.tenant}}` }, takeOver)).rejects.toMatchObject({ code: '42501' });
    });
  });

  test('each table has a replica identity, so that a database can be replicated', async () => {
    const { rows } = await admin.query(
      `select relname from pg_class c where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace and relreplident = 'd'
        and not exists (select from pg_index where indrelid = c.oid and indisprimary)`,
    );
    expect(rows).toEqual([]);
  });

  test('a user sees its memberships and their tenants, no keys, and changes nothing', async () => {
    await within({ 'app.user_id': mine.user }, async () => {
      expect(await tenantsIn('memberships')).toEqual([mine.tenant]);
      expect(await tenantsIn('tenants')).toEqual([mine.tenant]);
      expect(await tenantsIn('api_keys')).toEqual([]);
      for (const table of ['memberships', 'tenants']) {
        expect((await service.query(`update ${table} set created_at = now()`)).rowCount).toBe(0);
        expect((await service.query(`delete from ${table}`)).rowCount).toBe(0);
      }
    });
  });

  test('a key sees itself and its tenant, no memberships, and changes nothing', async () => {
    await within({ 'app.key_id': mine.key }, async () => {
      expect(await tenantsIn('api_keys')).toEqual([mine.tenant]);
      expect(await tenantsIn('tenants')).toEqual([mine.tenant]);
      expect(await tenantsIn('memberships')).toEqual([]);
      for (const table of ['api_keys', 'tenants']) {
        expect((await service.query(`update ${table} set created_at = now()`)).rowCount).toBe(0);
        expect((await service.query(`delete from ${table}`)).rowCount).toBe(0);
      }
    });
  });

  test('every table with tenant_id has it forced and leads its keys with it', async () => {
    const { rows } = await admin.query(`
      select c.relname as table, c.relrowsecurity and c.relforcerowsecurity as forced,
             (select count(*)::int from pg_policy p where p.polrelid = c.oid) as policies,
             (select bool_and(i.indkey[0] = a.attnum) from pg_index i where i.indrelid = c.oid and i.indisunique) as unique_keys,
             (select bool_and(k.conkey[1] = a.attnum) from pg_constraint k where k.conrelid = c.oid and k.contype = 'f') as foreign_keys
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') order by 1`);
    expect(rows.map((row) => row.table)).toEqual([...tables, ...jobs].sort());
    for (const row of rows.filter(({ table }) => !jobs.includes(table))) {
      expect(row).toMatchObject({ forced: true, unique_keys: true, foreign_keys: true });
      expect(row.policies).toBeGreaterThan(0);
    }
  });

  test('each tenant’s slug is in the directory, where none is changed or released', async () => {
    const thief = { ...newRows(), slug: theirs.slug };
    await expect(within({ 'app.tenants': `{${thief.tenant}}` }, () => insert('tenants', thief))).rejects.toMatchObject({ code: '23503' });
    await expect(service.query('update slugs set taken_by = $1', [mine.tenant])).rejects.toMatchObject({ code: '42501' });
    await expect(service.query('delete from slugs')).rejects.toMatchObject({ code: '42501' });
  });

  test('the audit log of a tenant is deleted only when its deletion has started', async () => {
    const gone = newRows();
    const entries = async () => (await admin.query('select from tenant_audit where tenant_id = $1', [gone.tenant])).rowCount;
    const remove = () => service.query('select delete_tenant_audit($1, 10)', [gone.tenant]);
    await within({ 'app.tenants': `{${gone.tenant}}` }, () => insertAll(gone));
    await service.query('insert into closings (tenant_id, slug, delete_at, next_attempt_at) values ($1, $2, now(), now())', [
      ...[gone.tenant, gone.slug],
    ]);
    await remove();
    expect(await entries()).toBe(1);
    await service.query('update closings set started_at = now() where tenant_id = $1', [gone.tenant]);
    await remove();
    expect(await entries()).toBe(0);
    const { rows } = await admin.query(
      `select distinct acl.grantee = 0 as is_public from pg_proc, aclexplode(proacl) acl where proname = 'delete_tenant_audit'`,
    );
    expect(rows).toEqual([{ is_public: false }]);
  });

  test('the service’s role can’t change the schema', async () => {
    await expect(service.query('alter table users add column x int')).rejects.toMatchObject({ code: '42501' });
    await expect(service.query('create table x ()')).rejects.toMatchObject({ code: '42501' });
  });
});

describe('start', () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase('identity', { migrated: true });
  });
  afterAll(() => database.drop());

  async function failedStart(env: NodeJS.ProcessEnv, args: string[] = []): Promise<string> {
    const { child, end } = launchIdentity(env, args);
    expect(await child.ended).toEqual({ code: 1, signal: null });
    const output = child.output();
    await end();
    expect(output.trim().split('\n')).toHaveLength(1);
    return output.trim();
  }
  const settings = (databaseUrl: string) => ({
    DATABASE_URL: databaseUrl,
    INTERNAL_TOKEN: 'token',
    JWT_PRIVATE_KEY: signingKey,
    IDENTITY_ENCRYPTION_KEY: encryptionKey,
    SUBJECT_ENCRYPTION_KEY: encryptionKey,
    PORT: '0',
  });

  test('is refused as the owner of the tables', async () => {
    expect(await failedStart(settings(database.ownerUrl))).toMatch(/^DATABASE_URL: role \S+ owns the tables/);
  });

  test('is refused on a schema that is older than the code', async () => {
    const bare = await freshDatabase('identity');
    expect(await failedStart(settings(bare.serviceUrl))).toBe(
      `DATABASE_URL: the schema lacks ${migrationNames.join(', ')}: run migrate first`,
    );
    await bare.drop();
  });

  test('is refused with a bad setting, in one line that names it, and with an unknown command', async () => {
    expect(await failedStart({ ...settings(database.serviceUrl), JWT_PRIVATE_KEY: 'x' })).toMatch(/^JWT_PRIVATE_KEY /);
    expect(await failedStart({ ...settings(database.serviceUrl), INTERNAL_TOKEN: '' })).toBe('INTERNAL_TOKEN is not set');
    expect(await failedStart({ DATABASE_URL: database.serviceUrl }, ['migrate'])).toBe('MIGRATION_DATABASE_URL is not set');
    expect(await failedStart({}, ['migrat'])).toMatch(/^unknown command migrat/);
  });
});

describe('migrate', () => {
  test('runs twice and at once, and leaves a schema that the service starts on', async () => {
    const bare = await freshDatabase('identity');
    const run = async () => {
      const { child, end } = launchIdentity({ DATABASE_URL: bare.serviceUrl, MIGRATION_DATABASE_URL: bare.ownerUrl }, ['migrate']);
      expect({ ...(await child.ended), output: child.output() }).toEqual({ code: 0, signal: null, output: '' });
      await end();
    };
    await Promise.all([run(), run(), run()]);
    await run();
    const identity = await startIdentity(bare.serviceUrl);
    await newUser(identity.client);
    await identity.end();
    await bare.drop();
  });

  test('the migrations are those that the service asks for', () => {
    expect(migrations.map((migration) => migration.name)).toEqual(migrationNames);
  });
});

test('while the database is unreachable calls are `unavailable`, and served again when it is back', async () => {
  const database = await freshDatabase('identity', { migrated: true });
  const target = new URL(database.serviceUrl);
  const road = await openRoad(Number(target.port), target.hostname);
  target.hostname = '127.0.0.1';
  target.port = String(road.port);
  const identity = await startIdentity(target.href);
  const { client } = identity;
  const user = await newUser(client);
  road.cut();
  const away = [
    () => client.verifyApiKey({ key: newKeyText(newId('key')) }),
    () => client.getUser({ userId: user.id }),
    () => client.login({ email: user.email, password }),
    () => client.register({ email: newEmail(), password, firstName: 'Ada', lastName: 'Lovelace' }),
    () => client.createTenant({ userId: user.id, name: 'Books', slug: 'books', businessType: 'wallet' }),
    () => client.refresh({ refreshToken: 'x' }),
  ];
  for (const call of away) expect(await refusal(call())).toMatchObject({ reason: 'unavailable', retryAfter: 1 });
  await expect(client.getKeySet({})).resolves.toBeDefined();
  road.mend();
  expect((await client.getUser({ userId: user.id })).user).toEqual(user);
  expect((await client.verifyApiKey({ key: newKeyText(newId('key')) })).verified).toBeUndefined();
  await identity.end();
  road.close();
  await database.drop();
});

test('on SIGTERM it answers the calls in flight and exits with 0', async () => {
  const database = await freshDatabase('identity', { migrated: true });
  const identity = await startIdentity(database.serviceUrl);
  const calls = Array.from({ length: 10 }, () => newUser(identity.client));
  await calls[0];
  identity.child.signal('SIGTERM');
  expect((await Promise.allSettled(calls)).map((call) => call.status)).toEqual(Array(10).fill('fulfilled'));
  expect(await identity.child.ended).toEqual({ code: 0, signal: null });
  await identity.end();
  await database.drop();
});

// A way to the database that can be cut: connections break, new ones are refused.
async function openRoad(port: number, host: string): Promise<{ port: number; cut(): void; mend(): void; close(): void }> {
  const sockets = new Set<Socket>();
  let open = true;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  };
  const server = createServer((near) => {
    keep(near);
    if (!open) return void near.destroy();
    const far = connect(port, host);
    keep(far);
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const cut = () => {
    open = false;
    for (const socket of sockets) socket.destroy();
  };
  return { port: (server.address() as { port: number }).port, cut, mend: () => (open = true), close: () => (cut(), server.close()) };
}
