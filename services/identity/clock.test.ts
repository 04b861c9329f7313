// What is compared with the database's clock is reckoned from it, whatever identity's own says.
import { decodeJwt } from 'jose';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { codeOf } from '../../test/second-factor.ts';
import { newTenant, newUser, password, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';

let database: FreshDatabase;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
});

afterAll(() => database.drop());

/** Every date that the process makes of its own is so many seconds from the right one. */
function wrongBy(seconds: number): NodeJS.ProcessEnv {
  const script = `const Right = Date, off = ${seconds * 1000};
    globalThis.Date = class extends Right {
      constructor(...given) { given.length > 0 ? super(...given) : super(Right.now() + off); }
      static now() { return Right.now() + off; }
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
}

describe.each([
  ['ahead', 7_200],
  ['behind', -7_200],
])('two hours %s', (_, seconds) => {
  let identity: RunningIdentity;
  let client: RunningIdentity['client'];

  beforeAll(async () => {
    identity = await startIdentity(database.serviceUrl, wrongBy(seconds));
    client = identity.client;
  });

  afterAll(() => identity.end());

  const isNow = (ms: number | bigint) => expect(Math.abs(Number(ms) - Date.now())).toBeLessThan(60_000);

  test('a key that is rotated without an overlap ends at once, and one with an overlap after it', async () => {
    const userId = (await newUser(client)).id;
    const tenantId = await newTenant(client, userId);
    const create = () => client.createApiKey({ userId, tenantId, name: 'till', scopes: ['accounts:read'] });
    const [ended, ending] = [await create(), await create()];
    isNow(ended.apiKey!.createdMs);
    await client.rotateApiKey({ userId, tenantId, keyId: ended.apiKey!.id, overlapSeconds: 0 });
    expect((await client.verifyApiKey({ key: ended.key })).verified).toBeUndefined();
    await client.rotateApiKey({ userId, tenantId, keyId: ending.apiKey!.id, overlapSeconds: 600 });
    const { expiresMs } = (await client.verifyApiKey({ key: ending.key })).verified!;
    isNow(expiresMs! - 600_000n);
  });

  test('tenants and keys are listed newest first', async () => {
    const right = await startIdentity(database.serviceUrl);
    try {
      const userId = (await newUser(client)).id;
      const [tenants, keys]: [string[], string[]] = [[], []];
      // The middle one by a process whose clock is right.
      for (const each of [client, right.client, client]) tenants.unshift(await newTenant(each, userId));
      const [tenantId = ''] = tenants;
      for (const each of [client, right.client, client]) {
        const { apiKey } = await each.createApiKey({ userId, tenantId, name: 'till', scopes: ['accounts:read'] });
        keys.unshift(apiKey!.id);
      }
      expect((await client.listTenants({ userId })).tenants.map(({ id }) => id)).toEqual(tenants);
      expect((await client.listApiKeys({ userId, tenantId })).apiKeys.map(({ id }) => id)).toEqual(keys);
    } finally {
      await right.end();
    }
  });

  test('a key may expire in an hour, and not an hour ago', async () => {
    const userId = (await newUser(client)).id;
    const tenantId = await newTenant(client, userId);
    const create = (ms: number) =>
      client.createApiKey({ userId, tenantId, name: 'till', scopes: ['accounts:read'], expiresMs: BigInt(Date.now() + ms) });
    const { key } = await create(3_600_000);
    expect((await client.verifyApiKey({ key })).verified).toBeDefined();
    expect(await refusal(create(-3_600_000))).toMatchObject({ field: 'expires_at', tag: 'gt' });
  });

  test('a code of a second factor is good by the clock of the database', async () => {
    const { id: userId, email } = await newUser(client);
    const { secret } = await client.startTotp({ userId, password });
    const wrong = codeOf(secret, seconds / 30);
    expect(await refusal(client.confirmTotp({ userId, code: wrong }))).toMatchObject({ reason: 'forbidden' });
    await client.confirmTotp({ userId, code: codeOf(secret) });
    const { session } = await client.login({ email, password, totpCode: codeOf(secret, 1) });
    isNow(decodeJwt(session!.token).iat! * 1000);
  });

  test('a token lives from now on for an hour, after a login and after a refresh', async () => {
    const { email } = await newUser(client);
    const login = await client.login({ email, password, clientAddress: '192.0.2.1' });
    const refreshed = await client.refresh({ refreshToken: login.session!.refreshToken });
    for (const { session } of [login, refreshed]) {
      const { iat, exp } = decodeJwt(session!.token);
      isNow(iat! * 1000);
      expect(exp! - iat!).toBe(3_600);
      expect(Number(session!.expiresMs)).toBe(exp! * 1000);
    }
  });
});
