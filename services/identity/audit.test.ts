import pg from 'pg';
import { pino } from 'pino';
import { chainFaults, restEntry, type Entry } from '../../test/audit-chain.ts';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { newEmail, newTenant, newUser, password, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { openPool } from '../platform/postgres.ts';
import { deleteAudit } from './retention.ts';

let database: FreshDatabase;
let proxy: Proxy;
let proxied: string;
let identity: RunningIdentity;
let admin: pg.Client;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  const address = new URL(database.serviceUrl);
  proxy = await openProxy(Number(address.port));
  [address.hostname, address.port] = ['127.0.0.1', String(proxy.port)];
  proxied = address.href;
  identity = await startIdentity(proxied);
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
});

afterAll(async () => {
  await admin.end();
  await identity.end();
  await proxy.close();
  await database.drop();
});

type Read = (cursor: string) => Promise<{ entries: Parameters<typeof restEntry>[0][]; nextCursor: string }>;

async function whole(read: Read): Promise<Entry[]> {
  const log: Entry[] = [];
  for (let cursor = ''; ;) {
    const page = await read(cursor);
    log.push(...page.entries.map(restEntry));
    if (page.nextCursor === '') return log;
    cursor = page.nextCursor;
  }
}

const tenantLog = (userId: string, tenantId: string) =>
  whole((cursor) => identity.client.listAudit({ userId, tenantId, limit: 7, cursor }));
const userLog = (userId: string) => whole((cursor) => identity.client.listUserAudit({ userId, limit: 7, cursor }));
const typesOf = (log: Entry[]) => log.map(({ type }) => type).reverse();
const till = { name: 'till', scopes: ['accounts:read'] };

async function owner(): Promise<{ userId: string; tenantId: string; email: string }> {
  const { id: userId, email } = await newUser(identity.client);
  return { userId, email, tenantId: await newTenant(identity.client, userId) };
}

describe('a log', () => {
  test('has no gap and no fork after many changes at once', async () => {
    const { userId, tenantId, email } = await owner();
    const login = (each: string, index: number) => identity.client.login({ email, password: each, clientAddress: `192.0.2.${index}` });
    await Promise.all([
      ...Array.from({ length: 20 }, () => identity.client.createApiKey({ userId, tenantId, ...till })),
      ...Array.from({ length: 6 }, (_, index) => login(password, index)),
      ...Array.from({ length: 6 }, (_, index) => refusal(login('wrong password', index))),
    ]);
    const [ofTenant, ofUser] = [await tenantLog(userId, tenantId), await userLog(userId)];
    expect(typesOf(ofTenant)).toEqual(['tenant.created', ...Array.from({ length: 20 }, () => 'api_key.created')]);
    expect(typesOf(ofUser)[0]).toBe('user.registered');
    expect(typesOf(ofUser).slice(1).sort()).toEqual([
      ...Array.from({ length: 6 }, () => 'login.failed'),
      ...Array.from({ length: 6 }, () => 'login.succeeded'),
    ]);
    expect([chainFaults(ofTenant), chainFaults(ofUser)]).toEqual([[], []]);
  });

  test.each([
    ['type', `'api_key.revoked'`],
    ['actor', `'user_x'`],
    ['subject', 'null'],
    ['address', `'192.0.2.9'`],
    ['created_at', `created_at + interval '1 ms'`],
    ['data', `'{}'`],
    ['hash', `repeat('a', 64)`],
  ])('shows that its row was changed: %s', async (column, value) => {
    const { userId, tenantId } = await owner();
    for (let count = 0; count < 3; count += 1) await identity.client.createApiKey({ userId, tenantId, ...till });
    await admin.query(`update tenant_audit set ${column} = ${value} where tenant_id = $1 and sequence = 2`, [toUuid('tenant', tenantId)]);
    expect(chainFaults(await tenantLog(userId, tenantId))).toContain(2);
  });

  test('shows that a row was removed', async () => {
    const { userId, tenantId } = await owner();
    for (let count = 0; count < 3; count += 1) await identity.client.createApiKey({ userId, tenantId, ...till });
    await admin.query('delete from tenant_audit where tenant_id = $1 and sequence = 2', [toUuid('tenant', tenantId)]);
    expect(chainFaults(await tenantLog(userId, tenantId))).toEqual([3]);
  });

  test('is for owners and admins of the tenant, and a user reads its own', async () => {
    const [{ tenantId }, other] = [await owner(), await owner()];
    expect(await refusal(identity.client.listAudit({ userId: other.userId, tenantId }))).toMatchObject({ reason: 'tenant_not_found' });
    expect(await refusal(identity.client.listUserAudit({ userId: newId('user') }))).toMatchObject({ reason: 'unauthenticated' });
    for (const role of ['accountant', 'viewer']) {
      await admin.query('insert into memberships values ($1, $2, $3, now()) on conflict (tenant_id, user_id) do update set role = $3', [
        toUuid('tenant', tenantId),
        toUuid('user', other.userId),
        role,
      ]);
      expect(await refusal(identity.client.listAudit({ userId: other.userId, tenantId }))).toMatchObject({ reason: 'forbidden' });
    }
  });
});

describe('an entry and its change', () => {
  const without = async (table: string, rule: string, work: () => Promise<void>) => {
    await admin.query(`alter table ${table} add constraint injected check (${rule}) not valid`);
    await work().finally(() => admin.query(`alter table ${table} drop constraint injected`));
  };
  const keysOf = async (tenantId: string) => {
    const { rows } = await admin.query<{ id: string }>('select id from api_keys where tenant_id = $1', [toUuid('tenant', tenantId)]);
    return rows.map(({ id }) => id).sort();
  };
  const auditedKeys = async (userId: string, tenantId: string) =>
    (await tenantLog(userId, tenantId))
      .flatMap(({ type, subject }) => (type === 'api_key.created' ? [toUuid('key', subject!)!] : []))
      .sort();

  test('a change that fails leaves no entry, and one whose entry fails is not made', async () => {
    const { userId, tenantId, email } = await owner();
    const create = () => identity.client.createApiKey({ userId, tenantId, ...till });
    await without('api_keys', 'false', async () => {
      await expect(create()).rejects.toThrow();
    });
    await without('tenant_audit', 'false', async () => {
      await expect(create()).rejects.toThrow();
    });
    expect([await keysOf(tenantId), typesOf(await tenantLog(userId, tenantId))]).toEqual([[], ['tenant.created']]);

    const counted = async () =>
      (await admin.query<{ n: string }>('select (select count(*) from login_failures) + (select count(*) from sessions) as n')).rows[0]!.n;
    const before = await counted();
    await without('user_audit', 'false', async () => {
      for (const each of [password, 'wrong password']) {
        await expect(identity.client.login({ email, password: each })).rejects.toThrow('internal');
      }
      const taken = newEmail();
      const names = { firstName: 'Ada', lastName: 'Obi' };
      await expect(identity.client.register({ email: taken, password, ...names })).rejects.toThrow('internal');
      expect((await admin.query('select from users where email = $1', [taken])).rowCount).toBe(0);
    });
    expect([await counted(), typesOf(await userLog(userId))]).toEqual([before, ['user.registered']]);
  });

  test('after a crash both are there, or none', async () => {
    const { userId, tenantId } = await owner();
    const create = async () => {
      for (;;) await identity.client.createApiKey({ userId, tenantId, ...till });
    };
    // Killed while statements are on their way, each time another one.
    for (const after of [40, 61, 83]) {
      const loops = Promise.allSettled([create(), create()]);
      let chunks = 0;
      await new Promise<void>((done) => {
        proxy.watch = () => {
          chunks += 1;
          if (chunks === after) done();
          return chunks < after ? 'pass' : 'hold';
        };
      });
      identity.child.signal('SIGKILL');
      await loops;
      proxy.cut();
      proxy.watch = () => 'pass';
      await identity.end();
      identity = await startIdentity(proxied);
      const log = await tenantLog(userId, tenantId);
      expect(log.length).toBeGreaterThan(1);
      expect(await auditedKeys(userId, tenantId)).toEqual(await keysOf(tenantId));
      expect(chainFaults(log)).toEqual([]);
    }
  });
});

describe('a failed login', () => {
  test('stands in the log of the user, with its reason and the client; one that is refused by the limit does not', async () => {
    const { userId, email } = await owner();
    const fail = () =>
      refusal(identity.client.login({ email, password: 'wrong password', clientAddress: '192.0.2.7', userAgent: 'curl/8' }));
    const reasons = await Promise.all(Array.from({ length: 15 }, fail));
    const log = await userLog(userId);
    expect(reasons.filter(({ reason }) => reason === 'unauthenticated')).toHaveLength(10);
    expect(typesOf(log)).toEqual(['user.registered', ...Array.from({ length: 10 }, () => 'login.failed')]);
    expect(log[0]).toMatchObject({
      actor: null,
      subject: userId,
      address: '192.0.2.7',
      user_agent: 'curl/8',
      data: { reason: 'password' },
    });
  });

  test('of an unknown email writes nothing, and costs as many round trips', async () => {
    const { email } = await owner();
    const entries = async () => (await admin.query<{ n: string }>('select count(*) as n from user_audit')).rows[0]!.n;
    const trips = async (of: string) => {
      const counts: number[] = [];
      for (let time = 0; time < 5; time += 1) {
        let count = 0;
        proxy.watch = () => ((count += 1), 'pass');
        await refusal(identity.client.login({ email: of, password: 'wrong password' }));
        counts.push(count);
      }
      proxy.watch = () => 'pass';
      // Loops of the service may come between.
      return Math.min(...counts);
    };
    // The first opens connections and prepares statements.
    await trips(newEmail());
    const before = await entries();
    const unknown = await trips(newEmail());
    expect(await entries()).toBe(before);
    expect([unknown, unknown > 3]).toEqual([await trips(email), true]);
  });

  test('of one email waits for another of it, whether a user has the email or not', async () => {
    const { email } = await owner();
    for (const each of [email, newEmail()]) {
      await admin.query('begin');
      // As one of another address that has not committed.
      await admin.query('select pg_advisory_xact_lock(hashtextextended(lower($1), 2))', [each]);
      const answered = refusal(identity.client.login({ email: each, password: 'wrong password', clientAddress: '192.0.2.8' }));
      const waiting = `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`;
      while ((await admin.query(waiting)).rowCount === 0);
      await admin.query('commit');
      expect((await answered).reason).toBe('unauthenticated');
    }
  });
});

test('a refresh token that is used again ends the session, and stands in the log once', async () => {
  const { userId, email } = await owner();
  const { session } = await identity.client.login({ email, password });
  const use = () => identity.client.refresh({ refreshToken: session!.refreshToken, clientAddress: '192.0.2.7', userAgent: 'curl/8' });
  await use();
  for (const { reason } of await Promise.all([refusal(use()), refusal(use()), refusal(use())])) expect(reason).toBe('unauthenticated');
  const log = await userLog(userId);
  expect(typesOf(log)).toEqual(['user.registered', 'login.succeeded', 'session.revoked']);
  expect(log[0]).toMatchObject({ actor: null, subject: userId, address: '192.0.2.7', data: { reason: 'refresh_token_reused' } });
  expect(chainFaults(log)).toEqual([]);
});

test.each([
  ['NUL', 'a\0b', 'ab'],
  ['only NUL', '\0', null],
  ['right-to-left', '\u202eabc\u2066', '\u202eabc\u2066'],
  ['beyond the BMP', '😀'.repeat(600), '😀'.repeat(512)],
  ['16 KiB', 'x'.repeat(16_384), 'x'.repeat(512)],
  ['quotes and control characters', `'"\\;\n\u001b[2J\u2028`, `'"\\;\n\u001b[2J\u2028`],
  ['not normalized', 'e\u0301', 'e\u0301'],
])('a user agent is kept as it can be stored: %s', async (_, userAgent, kept) => {
  const { userId, tenantId } = await owner();
  await identity.client.createApiKey({ userId, tenantId, ...till, origin: { userAgent, clientAddress: '192.0.2.7' } });
  const log = await tenantLog(userId, tenantId);
  expect(log[0]).toMatchObject({ type: 'api_key.created', user_agent: kept, address: '192.0.2.7' });
  expect(chainFaults(log)).toEqual([]);
});

describe('the retention job', () => {
  test('deletes what is older than 400 days, in steps, but the newest entry of a user and no entry of a tenant', async () => {
    const pool = openPool(database.serviceUrl, { max: 2, name: 'test', logger: pino({ level: 'silent' }) });
    const [active, away, recent] = [await owner(), await owner(), await owner()];
    const add = (userId: string, count: number, days: number) =>
      admin.query(
        `insert into user_audit select $1, last + n, gen_random_uuid(), 'login.failed', null, null, null, null, now() - $3 * interval '1 day', '{}',
           repeat('0', 64), repeat('0', 64)
         from generate_series(1, $2::int) n, (select max(sequence) as last from user_audit where user_id = $1) head`,
        [toUuid('user', userId), count, days],
      );
    await admin.query(`update user_audit set created_at = now() - interval '401 days'`);
    await admin.query(`update tenant_audit set created_at = now() - interval '401 days'`);
    await add(active.userId, 2_500, 401);
    await add(active.userId, 1, 399);
    await add(away.userId, 30, 401);
    await add(recent.userId, 3, 399);
    await admin.query(`create table deletions (rows int);
      create function note() returns trigger language plpgsql security definer as
        'begin insert into deletions select count(*) from old; return null; end';
      create trigger note after delete on user_audit referencing old table as old for each statement execute function note()`);
    // As two replicas do.
    await Promise.all([deleteAudit(pool), deleteAudit(pool)]);
    await pool.end();
    const left = async ({ userId }: { userId: string }) => {
      const { rows } = await admin.query<{ sequence: string }>('select sequence from user_audit where user_id = $1 order by sequence', [
        toUuid('user', userId),
      ]);
      return rows.map(({ sequence }) => Number(sequence));
    };
    expect(await left(active)).toEqual([2_502]);
    expect(await left(away)).toEqual([31]);
    expect(await left(recent)).toEqual([2, 3, 4]);
    const { rows } = await admin.query('select max(rows) <= 1000 as bounded from deletions');
    expect(rows).toEqual([{ bounded: true }]);
    expect(typesOf(await tenantLog(active.userId, active.tenantId))).toEqual(['tenant.created']);

    // The log goes on after what is left.
    const { hash } = (await userLog(away.userId))[0]!;
    await identity.client.login({ email: away.email, password });
    expect((await userLog(away.userId))[0]).toMatchObject({ sequence: 32, previous_hash: hash });
  });
});
