// Which credential opens which route, in which order a request is checked, and how users, tenants and keys are made and revoked.
import { newId } from '../services/platform/ids.ts';
import { scopes } from '../services/platform/roles.ts';
import { startCheckedCluster, type CheckedCluster, type Contract, type Operation } from '../test/contract.ts';
import { id, time } from '../test/customer.ts';
import type { Person, RestOptions, Tenant } from '../test/cluster.ts';

let cluster: CheckedCluster;
let contract: Contract;
let outsider: Person;
let mine: Tenant;
let theirs: Tenant;
let key: string;
/** For each scope a key that has it alone, and one with all the others. */
const ofScope = new Map<string, [own: string, others: string]>();

beforeAll(async () => {
  cluster = await startCheckedCluster();
  ({ contract } = cluster);
  mine = await cluster.tenant();
  outsider = await cluster.signUp();
  theirs = await cluster.tenant({ person: outsider });
  key = await cluster.apiKey(mine);
  for (const scope of scopes) {
    const others = scopes.filter((each) => each !== scope);
    ofScope.set(scope, [await cluster.apiKey(mine, [scope]), await cluster.apiKey(mine, others)]);
  }
  await cluster.rest('POST', `/v1/tenants/${mine.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => cluster.stop());

/** The operation's path; unknown but well-formed records, by default. */
const pathOf = (operation: Operation, { tenant = mine, id = 'sound' }: { tenant?: Tenant; id?: 'sound' | 'malformed' } = {}) =>
  operation.path
    .replace('{slug}', tenant.slug)
    .replace('{name}', 'deposits')
    .replace('{tenant_id}', tenant.id)
    .replace('{transaction_id}', id === 'sound' ? newId('txn') : 'txn_1')
    .replace('{sequence}', id === 'sound' ? '999999' : 'x')
    .replace('{level}', id === 'sound' ? '0' : 'x')
    .replace('{tile}', id === 'sound' ? '999' : 'x')
    .replace('{hold_id}', id === 'sound' ? newId('hold') : 'hold_1')
    .replace('{limit_id}', id === 'sound' ? newId('limit') : 'limit_1')
    .replace('{job_id}', id === 'sound' ? newId('job') : 'job_1')
    .replace('{key_id}', id === 'sound' ? newId('key') : newId('txn'))
    .replace('{user_id}', id === 'sound' ? newId('user') : 'user_1')
    .replace('{invitation_id}', id === 'sound' ? newId('inv') : 'inv_1')
    .replace('{delivery_id}', id === 'sound' ? newId('wh_delivery') : 'wh_delivery_1')
    .replace('{account_code}', id === 'sound' ? 'NO-SUCH-ACCOUNT' : '-x-');

const credentialOf = ({ security }: Operation) => (security === 'apiKeyToken' ? key : mine.owner.token);
const guarded = () => contract.operations.filter(({ security }) => security !== '');
const withBody = () => contract.operations.filter(({ body }) => body !== undefined);
const idOfPath = /\{(transaction_id|hold_id|limit_id|job_id|key_id|user_id|invitation_id|delivery_id)\}/;

/** A body that fails every later check: too large, of the wrong type, no JSON. */
const hopeless = ({ method }: Operation): RestOptions =>
  // A stream of events would not end.
  method === 'GET'
    ? { headers: { 'last-event-id': 'none' } }
    : { body: Buffer.alloc(1_048_577, '{'), headers: { 'content-type': 'text/plain' } };

const ask = async (operation: Operation, path: string, options: RestOptions) => {
  const { status, body } = await cluster.rest(operation.method, path, options);
  return [operation.id, status, body.code];
};

describe('access to routes', () => {
  test('without a credential every guarded route answers 401, whatever else is wrong', async () => {
    for (const operation of guarded()) {
      const path = pathOf(operation, { tenant: theirs, id: 'malformed' });
      expect(await ask(operation, path, hopeless(operation))).toEqual([operation.id, 401, 'unauthenticated']);
    }
  });

  test('garbage, keys with a wrong checksum, tokens that are tampered with and other schemes are no credential', async () => {
    const [head, payload] = mine.owner.token.split('.');
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`;
    const bad = ['x', '', key.slice(0, -1), `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`, `${head}.${payload}.AAAA`, unsigned];
    const none = 'Bearer realm="ledger"';
    // What is no bearer token is not called a wrong one (RFC 6750, section 3.1).
    const headers = [...bad.map((each) => [`Bearer ${each}`, `${none}, error="invalid_token"`]), [`Basic ${key}`, none]] as const;
    for (const operation of guarded().filter(({ id }) => ['getUser', 'listApiKeys', 'postSingle'].includes(id))) {
      for (const [authorization, challenge] of headers) {
        const answer = await cluster.rest(operation.method, pathOf(operation), { headers: { authorization } });
        expect([operation.id, answer.status, answer.headers.get('www-authenticate')]).toEqual([operation.id, 401, challenge]);
      }
    }
  });

  test('a key does not open the routes of users, a token not those of keys', async () => {
    for (const operation of guarded()) {
      const [wrong, said] =
        operation.security === 'apiKeyToken'
          ? [mine.owner.token, 'this route takes an API key, not a user’s token']
          : [key, 'this route takes a user’s token, not an API key'];
      const { status, body } = await cluster.rest(operation.method, pathOf(operation), { ...hopeless(operation), key: wrong });
      expect([operation.id, status, body.code, body.error]).toEqual([operation.id, 401, 'unauthenticated', said]);
    }
  });

  test('another tenant is an unknown one, before scope, body and ids', async () => {
    const [single = ''] = ofScope.get('reports:read') ?? [];
    for (const operation of guarded().filter(({ path }) => /\{(slug|tenant_id)\}/.test(path))) {
      const credential = operation.security === 'apiKeyToken' ? single : mine.owner.token;
      const path = pathOf(operation, { tenant: theirs, id: 'malformed' });
      const answer = await cluster.rest(operation.method, path, { ...hopeless(operation), key: credential });
      expect([operation.id, answer.status, answer.body.error]).toEqual([operation.id, 404, 'tenant not found']);
      const upper = { ...mine, slug: mine.slug.toUpperCase(), id: mine.id.toUpperCase() };
      for (const tenant of [upper, { ...mine, slug: 'nobody', id: newId('tenant') }]) {
        expect(await ask(operation, pathOf(operation, { tenant }), { key: credential })).toEqual([operation.id, 404, 'tenant_not_found']);
      }
    }
  });

  test('each route wants its own scope and no other, before body and ids', async () => {
    const guardedByKey = contract.operations.filter(({ security }) => security === 'apiKeyToken');
    expect(guardedByKey.length).toBeGreaterThan(10);
    for (const operation of guardedByKey) {
      const [own = '', others = ''] = ofScope.get(operation.scope!) ?? [];
      const path = pathOf(operation, { id: 'malformed' });
      const { status, headers, body } = await cluster.rest(operation.method, path, { ...hopeless(operation), key: others });
      const challenge = `Bearer realm="ledger", error="insufficient_scope", scope="${operation.scope}"`;
      expect([operation.id, status, body.code, headers.get('www-authenticate')]).toEqual([operation.id, 403, 'forbidden', challenge]);
      // It needs those of all records.
      if (operation.id === 'exportEverything') continue;
      expect([operation.id, (await ask(operation, path, { ...hopeless(operation), key: own }))[1]]).not.toEqual([operation.id, 403]);
    }
  });

  test('balances in the hierarchy want balances:read too', async () => {
    const path = `/v1/tenants/${mine.slug}/accounts/hierarchy?include=balances`;
    expect((await cluster.rest('GET', path, { key: ofScope.get('accounts:read')![0] })).status).toBe(403);
    const both = await cluster.apiKey(mine, ['accounts:read', 'balances:read']);
    expect((await cluster.rest('GET', path, { key: both })).status).toBe(200);
  });
});

describe('after the credential', () => {
  test('size comes before media type, media type before JSON, JSON before fields', async () => {
    for (const operation of withBody()) {
      const path = pathOf(operation, { id: 'malformed' });
      const send = (body: string | Buffer, type: string) =>
        ask(operation, path, {
          body,
          headers: { 'content-type': type },
          ...(operation.security !== '' && { key: credentialOf(operation) }),
        });
      const maxMiB = operation.id === 'submitBatch' ? 4 : 1;
      expect(await send(Buffer.alloc((maxMiB << 20) + 1, '{'), 'text/plain')).toEqual([operation.id, 413, 'payload_too_large']);
      expect(await send('{', 'text/plain')).toEqual([operation.id, 415, 'unsupported_media_type']);
      expect(await send('{', 'application/json')).toEqual([operation.id, 400, 'invalid_json']);
      expect(await send('[]', 'application/json')).toEqual([operation.id, 400, 'validation_failed']);
    }
  });

  test('a malformed body of a route that takes none is rejected, and nothing is changed', async () => {
    const operations = contract.operations.filter(({ method, definition }) => method !== 'GET' && !definition.requestBody);
    // What each answers without one; a tenant that is suspended is resumed, and one that is closed is reopened.
    const withoutBody: Record<string, number> = {
      sendVerificationEmail: 202,
      suspendTenant: 200,
      resumeTenant: 200,
      closeTenant: 200,
      reopenTenant: 200,
      deleteInvitation: 404,
      removeMember: 404,
      revokeApiKey: 404,
      deleteFilter: 404,
      deleteLimit: 404,
      deleteJob: 404,
      deleteWebhook: 404,
      deleteWebhooks: 404,
      retryDelivery: 404,
    };
    expect(operations.map(({ id: each }) => each).sort()).toEqual(Object.keys(withoutBody).sort());
    for (const operation of operations) {
      const send = (body: string | Buffer, type: string) =>
        ask(operation, pathOf(operation), { body, headers: { 'content-type': type }, key: credentialOf(operation) });
      expect(await send(Buffer.alloc(1_048_577, '{'), 'text/plain')).toEqual([operation.id, 413, 'payload_too_large']);
      expect(await send('{', 'text/plain')).toEqual([operation.id, 415, 'unsupported_media_type']);
      expect(await send('{', 'application/json')).toEqual([operation.id, 400, 'invalid_json']);
      expect((await ask(operation, pathOf(operation), { key: credentialOf(operation) })).slice(0, 2)).toEqual([
        operation.id,
        withoutBody[operation.id],
      ]);
    }
  });

  test('fields come before a malformed id of the path, and that before the record', async () => {
    const operations = contract.operations.filter(({ path }) => idOfPath.test(path));
    expect(operations.length).toBe(21);
    for (const operation of operations) {
      const given = { key: credentialOf(operation), ...(operation.body && { body: operation.body }) };
      if (operation.body) {
        const [field = ''] = Object.keys(operation.body);
        const value = Array.isArray(operation.body[field]) ? {} : [];
        const wrong = { ...given, body: { [field]: value } };
        const { body } = await cluster.rest(operation.method, pathOf(operation, { id: 'malformed' }), wrong);
        expect([operation.id, body.details]).toEqual([operation.id, { field, tag: 'type', value }]);
      }
      const [, name = ''] = idOfPath.exec(operation.path) ?? [];
      const { status, body } = await cluster.rest(operation.method, pathOf(operation, { id: 'malformed' }), given);
      // A malformed delivery has a code and a message of its own.
      const details = name === 'delivery_id' ? undefined : { field: name, tag: 'id', value: expect.any(String) };
      expect([operation.id, status, body.details]).toEqual([operation.id, 400, details]);
      const unknown = await ask(operation, pathOf(operation), given);
      expect(unknown).toEqual([operation.id, 404, name.replace('user', 'member').replace('_id', '_not_found')]);
    }
  });

  test('a malformed account code in a path is an unknown one, and comes after the fields', async () => {
    for (const operation of contract.operations.filter(({ path }) => path.includes('{account_code}'))) {
      for (const code of ['-x-', 'a%20b', 'a%00b', 'x'.repeat(65), 'x'.repeat(500), 'NO-SUCH-ACCOUNT']) {
        const path = operation.path.replace('{slug}', mine.slug).replace('{account_code}', code);
        const good = { key, ...(operation.body && { body: operation.body }) };
        const days = path.endsWith('daily') ? '&from=2030-01-01&to=2030-01-31' : '';
        const query = path.includes('balance') ? `?currency=USD${days}` : '';
        expect(await ask(operation, path + query, good)).toEqual([operation.id, 404, 'account_not_found']);
        if (operation.body)
          expect(await ask(operation, path, { key, body: { name: 5 } })).toEqual([operation.id, 400, 'validation_failed']);
        else if (path.includes('balance')) {
          expect(await ask(operation, `${path}?currency=XXX`, good)).toEqual([operation.id, 400, 'validation_failed']);
        }
      }
    }
  });
});

describe('users', () => {
  const email = `Ada.${process.pid}@Example.com`;
  const password = 'correct horse';

  test('register, log in in any case of the email, read themselves, renew and leave', async () => {
    const registered = await cluster.rest('POST', '/v1/auth/register', {
      body: { email, password, first_name: 'Ada', last_name: 'Lovelace' },
    });
    expect(registered.status).toBe(201);
    const user = {
      id: id('user'),
      email: expect.any(String),
      first_name: 'Ada',
      last_name: 'Lovelace',
      status: 'active',
      email_verified: false,
      totp_enabled: false,
      created_at: time,
    };
    expect(registered.body).toEqual({ success: true, data: { user }, message: expect.any(String) });

    const login = await cluster.rest('POST', '/v1/auth/login', { body: { email: email.toLowerCase(), password } });
    expect(login.status).toBe(200);
    expect(login.body.data).toEqual({ token: expect.any(String), expires_at: time, refresh_token: expect.any(String), user });
    expect(login.headers.get('ratelimit-policy')).toBe('"login";q=10;w=900');
    expect(login.headers.get('ratelimit')).toMatch(/^"login";r=10;t=\d+$/);
    expect(login.headers.get('cache-control')).toBe('no-store');

    const me = await cluster.rest('GET', '/v1/user', { key: login.body.data.token });
    expect(me.body.data).toEqual({ user: registered.body.data.user });

    const renewed = await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: login.body.data.refresh_token } });
    expect(renewed.body.data.user).toEqual(registered.body.data.user);
    expect(renewed.body.data.refresh_token).not.toBe(login.body.data.refresh_token);
    const left = await cluster.rest('POST', '/v1/auth/logout', { body: { refresh_token: renewed.body.data.refresh_token } });
    expect([left.status, left.body.success]).toEqual([200, true]);
    const again = await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: renewed.body.data.refresh_token } });
    expect([again.status, again.body.code]).toEqual([401, 'unauthenticated']);
  });

  test('an email that is taken is a conflict that names the field', async () => {
    const { status, body } = await cluster.rest('POST', '/v1/auth/register', {
      body: { email, password, first_name: 'A', last_name: 'L' },
    });
    expect([status, body.code, body.details.field]).toEqual([409, 'email_taken', 'email']);
  });

  test('an email typed with combined letters is the one typed with combining marks', async () => {
    const typed = `jos\u00e9-${Date.now()}@example.com`;
    const names = { password, first_name: 'José', last_name: 'L' };
    const first = await cluster.rest('POST', '/v1/auth/register', { body: { ...names, email: typed.normalize('NFD') } });
    expect([first.status, first.body.data.user.email]).toEqual([201, typed]);
    const second = await cluster.rest('POST', '/v1/auth/register', { body: { ...names, email: typed } });
    expect([second.status, second.body.code]).toEqual([409, 'email_taken']);
    for (const email of [typed, typed.normalize('NFD')]) {
      expect((await cluster.rest('POST', '/v1/auth/login', { body: { email, password } })).status).toBe(200);
    }
  });

  test('a wrong password and an unknown email get the same answer, and after ten failures a time to wait', async () => {
    const tries = [];
    for (let attempt = 0; attempt < 11; attempt += 1)
      tries.push(await cluster.rest('POST', '/v1/auth/login', { body: { email, password: 'wrong' } }));
    const unknown = await cluster.rest('POST', '/v1/auth/login', {
      body: { email: `nobody.${process.pid}@example.com`, password: 'wrong' },
    });
    expect({ ...unknown.body, request_id: '' }).toEqual({ ...tries[0]!.body, request_id: '' });
    expect(unknown.body).toMatchObject({ error: 'invalid email or password', code: 'unauthenticated' });
    expect(tries.map(({ status }) => status)).toEqual([...Array(10).fill(401), 429]);
    expect(tries[0]!.headers.get('ratelimit')).toMatch(/^"login";r=9;t=\d+$/);
    // X-Forwarded-For of a client that is no trusted proxy is ignored.
    const forwarded = { body: { email, password: 'wrong' }, headers: { 'x-forwarded-for': '192.0.2.1' } };
    expect((await cluster.rest('POST', '/v1/auth/login', forwarded)).status).toBe(429);
    const { headers, body } = tries[10]!;
    expect(body.code).toBe('rate_limited');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(headers.get('ratelimit-policy')).toBe('"login";q=10;w=900');
    expect(headers.get('ratelimit')).toMatch(/^"login";r=0;t=\d+$/);
  });
});

describe('tenants and keys', () => {
  test('a tenant is created, its slug taken, and listed by page', async () => {
    const person = await cluster.signUp();
    for (const name of ['one', 'two', 'three']) {
      const body = { name, slug: `${name}-${process.pid}`, business_type: 'other', description: name === 'one' ? 'First' : null };
      const created = await cluster.rest('POST', '/v1/tenants', { key: person.token, body });
      expect(created.status).toBe(201);
      expect(created.body.data.tenant).toEqual({
        ...{ ...body, id: id('tenant'), status: 'active', created_at: time },
        ...{ role: 'owner', require_totp: false, delete_at: null },
      });
      const taken = await cluster.rest('POST', '/v1/tenants', { key: person.token, body });
      expect([taken.status, taken.body.code]).toEqual([409, 'slug_taken']);
    }
    const names = [];
    let cursor = '';
    do {
      const { body } = await cluster.rest('GET', `/v1/tenants?limit=2&cursor=${cursor}`, { key: person.token });
      names.push(...body.data.tenants.map((each: any) => each.name));
      expect(body.data.pagination).toEqual({ limit: 2, next_cursor: cursor === '' ? expect.any(String) : null, has_more: cursor === '' });
      cursor = body.data.pagination.next_cursor;
    } while (cursor);
    expect(names).toEqual(['three', 'two', 'one']);
  });

  test('a key is shown once, listed without its text, replaced and revoked', async () => {
    const token = { key: mine.owner.token };
    const keys = `/v1/tenants/${mine.id}/api-keys`;
    const body = { name: 'Batch', scopes: ['balances:read', 'balances:read'], expires_at: '2099-01-01T00:00:00Z' };
    const created = await cluster.rest('POST', keys, { ...token, body });
    expect([created.status, created.headers.get('cache-control')]).toEqual([201, 'no-store']);
    const { key: text, ...shown } = created.body.data.api_key;
    expect(shown).toEqual({
      id: id('key'),
      name: 'Batch',
      scopes: ['balances:read'],
      description: null,
      last4: text.slice(-4),
      created_at: time,
      expires_at: '2099-01-01T00:00:00.000Z',
      revoked_at: null,
    });
    expect(text).toMatch(/^lk_live_[0-9a-z]{26}_[0-9A-Za-z]{49}$/);
    const listed = await cluster.rest('GET', keys, token);
    expect(listed.body.data.api_keys[0]).toEqual(shown);
    expect(JSON.stringify(listed.body)).not.toContain(text.slice(36, 60));

    const replaced = await cluster.rest('POST', `${keys}/${shown.id}/rotate`, { ...token, body: { overlap_seconds: 60 } });
    expect(replaced.status).toBe(201);
    expect(replaced.body.data.api_key).toMatchObject({ id: id('key'), name: 'Batch', scopes: ['balances:read'], key: expect.any(String) });
    expect(replaced.body.data.previous).toEqual({ ...shown, expires_at: time });
    const deleted = await cluster.rest('DELETE', `${keys}/${shown.id}`, token);
    expect([deleted.status, deleted.body]).toEqual([200, { success: true, data: { id: shown.id, deleted: true } }]);
    expect((await cluster.rest('DELETE', `${keys}/${shown.id}`, token)).status).toBe(200);
    expect((await cluster.rest('POST', `${keys}/${shown.id}/rotate`, token)).body.code).toBe('key_not_found');
  });
});
