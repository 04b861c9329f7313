import { createPrivateKey } from 'node:crypto';
import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose';
import pg from 'pg';
import { pino } from 'pino';
import { v7 as uuidv7 } from 'uuid';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { newSigningKey } from '../../deploy/local/secrets.ts';
import { newUser, password, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { toUuid } from '../platform/ids.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { deleteSessions } from './retention.ts';
import { openSigner } from './sessions.ts';

test('tokens of the key before stay good when a new one is put in front of it', async () => {
  const [old, young] = [createPrivateKey(newSigningKey()), createPrivateKey(newSigningKey())];
  const before = await openSigner([old]);
  const after = await openSigner([young, old]);
  const keySet = createLocalJWKSet(JSON.parse(after.keySet) as JSONWebKeySet);
  for (const signer of [before, after]) {
    const { token } = await signer.sign('user_x', Date.now());
    expect((await jwtVerify(token, keySet)).payload.sub).toBe('user_x');
  }
  const { token } = await after.sign('user_x', Date.now());
  await expect(jwtVerify(token, createLocalJWKSet(JSON.parse(before.keySet) as JSONWebKeySet))).rejects.toThrow('no applicable key');
});

describe('the retention job', () => {
  let database: FreshDatabase;
  let identity: RunningIdentity;
  let pool: Pool;
  let admin: pg.Client;
  let email: string;
  let userId: string;

  beforeAll(async () => {
    database = await freshDatabase('identity', { migrated: true });
    identity = await startIdentity(database.serviceUrl);
    pool = openPool(database.serviceUrl, { max: 2, name: 'test', logger: pino({ level: 'silent' }) });
    admin = new pg.Client({ connectionString: database.adminUrl });
    await admin.connect();
    const user = await newUser(identity.client);
    email = user.email;
    userId = toUuid('user', user.id)!;
    // What each statement has deleted of a table.
    await admin.query(`create table deletions (name text, rows int);
      create function note() returns trigger language plpgsql security definer as
        'begin insert into deletions select tg_table_name, count(*) from old having count(*) > 0; return null; end';
      create trigger note after delete on sessions referencing old table as old for each statement execute function note();
      create trigger note after delete on refresh_tokens referencing old table as old for each statement execute function note()`);
  });

  afterAll(async () => {
    await admin.end();
    await pool.end();
    await identity.end();
    await database.drop();
  });

  const refresh = (refreshToken: string) => identity.client.refresh({ refreshToken });
  const sessionOf = async (refreshToken: string) => {
    const { rows } = await admin.query<{ id: string }>(
      `select session_id as id from refresh_tokens where hash = encode(sha256($1), 'hex')`,
      [refreshToken],
    );
    return rows[0]!.id;
  };
  const addSpent = (session: string, tokens: number) =>
    admin.query(
      `insert into refresh_tokens
       select encode(sha256(convert_to($1 || n, 'UTF8')), 'hex'), $1::uuid, now() - interval '31 days', now() - interval '1 day', now() - interval '31 days'
       from generate_series(1, $2) n`,
      [session, tokens],
    );
  const count = async (table: string) => (await admin.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]!.n;

  test('deletes expired tokens of a live session; a spent one that has not expired still ends the session', async () => {
    const { session } = await identity.client.login({ email, password });
    const { session: next } = await refresh(session!.refreshToken);
    await addSpent(await sessionOf(session!.refreshToken), 10);
    await deleteSessions(pool);
    expect(await count('refresh_tokens')).toBe(2);
    const { session: last } = await refresh(next!.refreshToken);
    expect(await refusal(refresh(session!.refreshToken))).toMatchObject({ reason: 'unauthenticated' });
    expect(await refusal(refresh(last!.refreshToken))).toMatchObject({ reason: 'unauthenticated' });
  });

  test('deletes thousands of expired tokens, at most a thousand rows a statement', async () => {
    const ended = [uuidv7(), ...Array.from({ length: 1_200 }, () => uuidv7())];
    await admin.query(
      `insert into sessions select id, $2, now() - interval '31 days', now() - interval '1 day' from unnest($1::uuid[]) as ended (id)`,
      [ended, userId],
    );
    await addSpent(ended[0]!, 2_500);
    await admin.query('truncate deletions');
    // As two replicas do.
    await Promise.all([deleteSessions(pool), deleteSessions(pool)]);
    const { rows } = await admin.query(
      'select name, max(rows) <= 1000 as bounded, sum(rows)::int as all from deletions group by name order by name',
    );
    expect(rows).toEqual([
      { name: 'refresh_tokens', bounded: true, all: 2_500 },
      { name: 'sessions', bounded: true, all: 1_201 },
    ]);
    const { rows: left } = await admin.query('select from sessions where expires_at < now()');
    expect(left).toEqual([]);
  });
});
