import pg from 'pg';
import { freshDatabase, type FreshDatabase } from '../../test/cluster.ts';
import { newSlug, newTenant, newUser, refusal, startIdentity, type RunningIdentity } from '../../test/identity.ts';
import { openProxy, type Proxy } from '../../test/proxy.ts';
import { refusalOf } from '../platform/caller.ts';
import { newId, toUuid } from '../platform/ids.ts';
import { hashOf, newKeyText } from './credentials.ts';

let database: FreshDatabase;
let proxy: Proxy;
let identity: RunningIdentity;
let client: RunningIdentity['client'];
let admin: pg.Client;
let userId: string;
let tenantId: string;

beforeAll(async () => {
  database = await freshDatabase('identity', { migrated: true });
  const address = new URL(database.serviceUrl);
  proxy = await openProxy(Number(address.port));
  [address.hostname, address.port] = ['127.0.0.1', String(proxy.port)];
  identity = await startIdentity(address.href);
  client = identity.client;
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
  userId = (await newUser(client)).id;
  tenantId = await newTenant(client, userId);
});

afterAll(async () => {
  await admin.end();
  await identity.end();
  await proxy.close();
  await database.drop();
});

const till = { name: 'till', scopes: ['accounts:read'] };
const create = (change = {}) => client.createApiKey({ userId, tenantId, ...till, ...change });
const verify = async (key: string) => (await client.verifyApiKey({ key })).verified;
const revoke = (keyId: string) => client.revokeApiKey({ userId, tenantId, keyId });
const inMs = (ms: number) => BigInt(Date.now() + ms);

describe('create', () => {
  test('the text is returned once and stored as a hash and its last four characters', async () => {
    const { key, apiKey } = await create({ description: 'at the door' });
    expect(key).toMatch(/^lk_live_[0-9a-z]{26}_[0-9A-Za-z]{49}$/);
    expect(key).toContain(apiKey!.id.slice('key_'.length));
    expect(apiKey).toMatchObject({ ...till, description: 'at the door', last4: key.slice(-4) });
    expect(apiKey!.expiresMs).toBeUndefined();
    expect(apiKey!.revokedMs).toBeUndefined();
    expect((await client.listApiKeys({ userId, tenantId })).apiKeys).toContainEqual(apiKey);
    const { rows } = await admin.query('select * from api_keys where id = $1', [toUuid('key', apiKey!.id)]);
    expect(rows[0].hash).toBe(hashOf(key));
    expect(JSON.stringify(rows)).not.toContain(key.slice(35));
    expect(identity.child.output()).not.toContain(key);
  });

  test.each([
    ['name', 'required', { name: '' }],
    ['scopes', 'min', { scopes: [] }],
    ['scopes[1]', 'oneof', { scopes: ['accounts:read', 'accounts:all'] }],
    ['description', 'max', { description: 'x'.repeat(1001) }],
    ['expires_at', 'gt', { expiresMs: 0n }],
    ['expires_at', 'datetime', { expiresMs: 2n ** 63n - 1n }],
  ])('%s is rejected with the tag %s', async (field, tag, change) => {
    expect(await refusal(create(change))).toMatchObject({ reason: 'validation_failed', field, tag });
  });
});

describe('verify', () => {
  test('keys are verified while a migration changes what was prepared', async () => {
    const { key } = await create();
    const verified = () => Promise.all(Array.from({ length: 20 }, () => verify(key)));
    const before = await verified();
    const owner = new pg.Client({ connectionString: database.ownerUrl });
    await owner.connect();
    try {
      await owner.query('alter table api_keys alter column hash type varchar');
      expect(await verified()).toEqual(before);
    } finally {
      await owner.end();
    }
  });

  test('a verified key has its tenant, the slug, scopes and expiry', async () => {
    const slug = newSlug();
    const { tenant } = await client.createTenant({ userId, name: 'Shop', slug, businessType: 'other' });
    const expiresMs = inMs(3_600_000);
    const { key, apiKey } = await create({ tenantId: tenant!.id, expiresMs });
    expect(apiKey!.expiresMs).toBe(expiresMs);
    expect(await verify(key)).toMatchObject({ keyId: apiKey!.id, tenantId: tenant!.id, tenantSlug: slug, scopes: till.scopes, expiresMs });
    expect((await verify((await create()).key))!.expiresMs).toBeUndefined();
  });

  test('the right id with another secret is no valid key', async () => {
    const { apiKey } = await create();
    expect(await verify(newKeyText(apiKey!.id))).toBeUndefined();
  });

  test('garbage is not valid, without a look-up', async () => {
    const { key } = await create();
    let lookUps = 0;
    proxy.watch = (chunk) => {
      if (chunk.includes('key_verify')) lookUps++;
      return 'pass';
    };
    await verify(key);
    const before = lookUps;
    expect(before).toBeGreaterThan(0);
    for (const garbage of [
      '',
      'x',
      'lk_live_',
      `${key.slice(0, -1)}~`,
      key.replace('lk_live', 'lk_test'),
      `${key} `,
      'eyJhbGciOi.e30.x',
      '\0',
    ]) {
      expect(await verify(garbage)).toBeUndefined();
    }
    expect(lookUps).toBe(before);
    proxy.watch = () => 'pass';
  });

  test('an expired key is not valid', async () => {
    const { key, apiKey } = await create({ expiresMs: inMs(3_600_000) });
    await admin.query('update api_keys set expires_at = now() where id = $1', [toUuid('key', apiKey!.id)]);
    expect(await verify(key)).toBeUndefined();
  });

  test('a thousand verifications at once each return their own key', async () => {
    const keys = await Promise.all(Array.from({ length: 10 }, () => create()));
    // On a busy machine some time out waiting for a connection, and are repeated.
    const patient = async (key: string): ReturnType<typeof verify> => {
      try {
        return await verify(key);
      } catch (error) {
        if (refusalOf(error)?.reason !== 'unavailable') throw error;
        return patient(key);
      }
    };
    const answers = await Promise.all(Array.from({ length: 1000 }, (_, place) => patient(keys[place % 10]!.key)));
    answers.forEach((answer, place) => expect(answer!.keyId).toBe(keys[place % 10]!.apiKey!.id));
  });
});

describe('revoke', () => {
  test('a revoked key is no longer valid, stays in the list, and is revoked twice with the same result', async () => {
    const { key, apiKey } = await create();
    await revoke(apiKey!.id);
    expect(await verify(key)).toBeUndefined();
    const shown = async () => (await client.listApiKeys({ userId, tenantId })).apiKeys.find((each) => each.id === apiKey!.id)!;
    const { revokedMs } = await shown();
    expect(revokedMs).toBeDefined();
    await revoke(apiKey!.id);
    expect((await shown()).revokedMs).toBe(revokedMs);
  });

  test('a key of another tenant is no key of this one', async () => {
    const { key, apiKey } = await create();
    const other = await newTenant(client, userId);
    expect((await refusal(client.revokeApiKey({ userId, tenantId: other, keyId: apiKey!.id }))).reason).toBe('key_not_found');
    expect((await refusal(client.rotateApiKey({ userId, tenantId: other, keyId: apiKey!.id }))).reason).toBe('key_not_found');
    expect(await verify(key)).toBeDefined();
    expect((await client.listApiKeys({ userId, tenantId: other })).apiKeys).toEqual([]);
  });
});

describe('rotate', () => {
  const rotate = (keyId: string, change = {}) => client.rotateApiKey({ userId, tenantId, keyId, ...change });

  test('the successor has name, scopes and description, the old key works for another day', async () => {
    const { key, apiKey } = await create({ description: 'at the door' });
    const { key: newKey, apiKey: successor, previous } = await rotate(apiKey!.id);
    expect(successor).toMatchObject({ ...till, description: 'at the door' });
    expect(successor!.id).not.toBe(apiKey!.id);
    expect(successor!.expiresMs).toBeUndefined();
    expect(previous!.id).toBe(apiKey!.id);
    expect(Math.abs(Number(previous!.expiresMs) - Date.now() - 86_400_000)).toBeLessThan(60_000);
    expect((await verify(key))!.expiresMs).toBe(previous!.expiresMs);
    expect((await verify(newKey))!.keyId).toBe(successor!.id);
    expect((await client.listApiKeys({ userId, tenantId, limit: 100 })).apiKeys).toContainEqual(previous);
  });

  test('with no overlap the old key is revoked at once', async () => {
    const { key, apiKey } = await create();
    const { key: newKey, apiKey: successor, previous } = await rotate(apiKey!.id, { overlapSeconds: 0 });
    expect(await verify(key)).toBeUndefined();
    expect(await verify(newKey)).toBeDefined();
    expect(previous!.revokedMs).toBe(previous!.expiresMs);
    expect((await client.listApiKeys({ userId, tenantId, limit: 100 })).apiKeys).toContainEqual(previous);
    // Also one that was to last for a while.
    expect((await rotate(successor!.id, { overlapSeconds: 3600 })).previous!.revokedMs).toBeUndefined();
    expect((await rotate(successor!.id, { overlapSeconds: 0 })).previous!.revokedMs).toBeDefined();
  });

  test('a key that would expire earlier is not kept alive, and its successor expires when it would have', async () => {
    const expiresMs = inMs(60_000);
    const { apiKey } = await create({ expiresMs });
    const { apiKey: successor, previous } = await rotate(apiKey!.id, { overlapSeconds: 3600 });
    expect(previous!.expiresMs).toBe(expiresMs);
    expect(successor!.expiresMs).toBe(expiresMs);
  });

  test('rotated again, the old key ends no later, and the overlap is not inherited', async () => {
    const { apiKey } = await create();
    const first = await rotate(apiKey!.id, { overlapSeconds: 60 });
    const second = await rotate(apiKey!.id, { overlapSeconds: 3600 });
    expect(second.previous!.expiresMs).toBe(first.previous!.expiresMs);
    expect(second.apiKey!.expiresMs).toBeUndefined();
  });

  test('rotated five times at once it has five successors, and ends after the shortest overlap', async () => {
    for (let time = 0; time < 10; time++) {
      const { key, apiKey } = await create();
      const overlaps = [86_400, 60, 600, 3600, 43_200];
      const rotated = await Promise.all(overlaps.map((overlapSeconds) => rotate(apiKey!.id, { overlapSeconds })));
      expect(new Set(rotated.map((each) => each.apiKey!.id)).size).toBe(5);
      const ends = rotated.map(({ previous }) => Number(previous!.expiresMs));
      expect(Number((await verify(key))!.expiresMs)).toBe(Math.min(...ends));
      expect(Math.min(...ends) - Date.now()).toBeLessThanOrEqual(60_000);
    }
  });

  test('revoked at the same time it has a successor only where that came first', async () => {
    for (let time = 0; time < 20; time++) {
      const { apiKey } = await create();
      const [rotated] = await Promise.allSettled([rotate(apiKey!.id), revoke(apiKey!.id)]);
      if (rotated.status === 'rejected') {
        expect(refusalOf(rotated.reason)?.reason).toBe('key_not_found');
        continue;
      }
      const { apiKeys } = await client.listApiKeys({ userId, tenantId });
      const revokedMs = apiKeys.find(({ id }) => id === apiKey!.id)!.revokedMs!;
      expect(rotated.value.apiKey!.createdMs).toBeLessThanOrEqual(revokedMs);
    }
  });

  test('a key that has ended has no successor', async () => {
    const [revoked, expired] = [await create(), await create({ expiresMs: inMs(3_600_000) })];
    await revoke(revoked.apiKey!.id);
    await admin.query('update api_keys set expires_at = now() where id = $1', [toUuid('key', expired.apiKey!.id)]);
    for (const { apiKey } of [revoked, expired]) expect((await refusal(rotate(apiKey!.id))).reason).toBe('key_not_found');
  });

  test.each([
    ['min', -1],
    ['max', 2_592_001],
  ])('an overlap is rejected with the tag %s', async (tag, overlapSeconds) => {
    const { apiKey } = await create();
    const info = await refusal(rotate(apiKey!.id, { overlapSeconds }));
    expect(info).toMatchObject({ reason: 'validation_failed', field: 'overlap_seconds', tag });
  });
});

test('the keys of a tenant are listed newest first, page by page', async () => {
  const tenant = await newTenant(client, userId);
  const made: string[] = [];
  for (let count = 0; count < 5; count++) made.unshift((await create({ tenantId: tenant })).apiKey!.id);
  const first = await client.listApiKeys({ userId, tenantId: tenant, limit: 3 });
  const second = await client.listApiKeys({ userId, tenantId: tenant, limit: 3, cursor: first.nextCursor });
  expect([...first.apiKeys, ...second.apiKeys].map((key) => key.id)).toEqual(made);
  expect(second.nextCursor).toBe('');
  expect(await refusal(client.listApiKeys({ userId, tenantId: tenant, cursor: 'x' }))).toMatchObject({ field: 'cursor', tag: 'cursor' });
  // Nor is a list of something else continued.
  expect(await refusal(client.listTenants({ userId, cursor: first.nextCursor }))).toMatchObject({ field: 'cursor', tag: 'cursor' });
});

test('to users who are not members a tenant has no keys, and does not exist', async () => {
  const { apiKey } = await create();
  const place = { userId: (await newUser(client)).id, tenantId, keyId: apiKey!.id };
  const refused = await Promise.all([
    refusal(client.createApiKey({ ...place, ...till })),
    refusal(client.listApiKeys(place)),
    refusal(client.revokeApiKey(place)),
    refusal(client.rotateApiKey(place)),
    refusal(client.createApiKey({ userId, tenantId: 'tenant_x', ...till })),
    refusal(client.listApiKeys({ userId, tenantId: newId('tenant') })),
  ]);
  expect(refused.map((info) => info.reason)).toEqual(Array(6).fill('tenant_not_found'));
});

test.each(['accountant', 'viewer'])('a member with the role %s lists keys and changes none', async (role) => {
  const { key, apiKey } = await create();
  const member = (await newUser(client)).id;
  await admin.query(`insert into memberships values ($1, $2, $3, now())`, [toUuid('tenant', tenantId), toUuid('user', member), role]);
  const place = { userId: member, tenantId, keyId: apiKey!.id };
  expect((await client.listApiKeys(place)).apiKeys.length).toBeGreaterThan(0);
  expect(await client.verifyTenantMember(place)).toMatchObject({ role });
  for (const call of [
    () => client.createApiKey({ ...place, ...till }),
    () => client.revokeApiKey(place),
    () => client.rotateApiKey(place),
  ]) {
    expect((await refusal(call())).reason).toBe('forbidden');
  }
  expect(await verify(key)).toBeDefined();
});

test.each(['key_x', 'x', '', newId('key'), newId('tenant')])('there is no key %j', async (keyId) => {
  expect((await refusal(revoke(keyId))).reason).toBe('key_not_found');
  expect((await refusal(client.rotateApiKey({ userId, tenantId, keyId }))).reason).toBe('key_not_found');
});
