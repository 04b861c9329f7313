import { newId } from '../services/platform/ids.ts';
import { scopes } from './auth.ts';
import { checkedRest, readContract, type Contract, type Operation } from '../test/contract.ts';
import { startHouse, type House, type Person, type RestOptions, type Tenant } from '../test/house.ts';

let house: House;
let rest: House['rest'];
let contract: Contract;
let stranger: Person;
let mine: Tenant;
let theirs: Tenant;
let key: string;
const ofScope = new Map<string, string>();

beforeAll(async () => {
  house = await startHouse();
  contract = await readContract(house.url);
  rest = checkedRest(house, contract);
  mine = await house.tenant();
  stranger = await house.signUp();
  theirs = await house.tenant({ person: stranger });
  key = await house.apiKey(mine);
  for (const scope of scopes) ofScope.set(scope, await house.apiKey(mine, [scope]));
  await rest('POST', `/v1/tenants/${mine.slug}/accounts/setup`, { key, body: { business_type: 'wallet' } });
});
afterAll(() => house.stop());

/** The operation's path; unknown but well-formed records, unless told otherwise. */
const pathOf = (operation: Operation, { tenant = mine, id = 'sound' }: { tenant?: Tenant; id?: 'sound' | 'malformed' } = {}) =>
  operation.path
    .replace('{slug}', tenant.slug)
    .replace('{tenant_id}', tenant.id)
    .replace('{transaction_id}', id === 'sound' ? newId('txn') : 'txn_1')
    .replace('{key_id}', id === 'sound' ? newId('key') : newId('txn'))
    .replace('{delivery_id}', id === 'sound' ? newId('wh_delivery') : 'wh_delivery_1')
    .replace('{account_code}', id === 'sound' ? 'NO-SUCH-ACCOUNT' : '-x-');

const credentialOf = ({ security }: Operation) => (security === 'apiKey' ? key : mine.owner.token);
const guarded = () => contract.operations.filter(({ security }) => security !== '');
const withBody = () => contract.operations.filter(({ body }) => body !== undefined);
const takesId = ({ path }: Operation) => /\{(transaction_id|key_id|delivery_id)\}/.test(path);

/** A body that fails every later check: too large, of the wrong type, no JSON. */
const hopeless = ({ method }: Operation): RestOptions =>
  method === 'GET' ? {} : { body: Buffer.alloc(1_048_577, '{'), headers: { 'content-type': 'text/plain' } };

const ask = async (operation: Operation, path: string, options: RestOptions) => {
  const { status, body } = await rest(operation.method, path, options);
  return [operation.id, status, body.code];
};

describe('who may call', () => {
  test('without a credential no guarded route says more than that, whatever else is wrong', async () => {
    for (const operation of guarded()) {
      const path = pathOf(operation, { tenant: theirs, id: 'malformed' });
      expect(await ask(operation, path, hopeless(operation))).toEqual([operation.id, 401, 'unauthenticated']);
    }
  });

  test('garbage, keys with a wrong checksum, tokens that are tampered with and other schemes are no credential', async () => {
    const [head, payload] = mine.owner.token.split('.');
    const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`;
    const bad = ['x', '', key.slice(0, -1), `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`, `${head}.${payload}.AAAA`, unsigned];
    for (const operation of guarded()) {
      for (const each of bad)
        expect(await ask(operation, pathOf(operation), { key: each })).toEqual([operation.id, 401, 'unauthenticated']);
      const { status, headers } = await rest(operation.method, pathOf(operation), { headers: { authorization: `Basic ${key}` } });
      expect([operation.id, status, headers.get('www-authenticate')]).toEqual([
        operation.id,
        401,
        'Bearer realm="ledger", error="invalid_token"',
      ]);
    }
  });

  test('a key does not open the routes of users, a token not those of keys', async () => {
    for (const operation of guarded()) {
      const wrong = operation.security === 'apiKey' ? mine.owner.token : key;
      expect(await ask(operation, pathOf(operation), { ...hopeless(operation), key: wrong })).toEqual([
        operation.id,
        401,
        'unauthenticated',
      ]);
    }
  });

  test('another tenant is an unknown one, before scope, body and ids', async () => {
    const single = ofScope.get('reports:read') ?? '';
    for (const operation of guarded().filter(({ path }) => /\{(slug|tenant_id)\}/.test(path))) {
      const credential = operation.security === 'apiKey' ? single : mine.owner.token;
      const path = pathOf(operation, { tenant: theirs, id: 'malformed' });
      const answer = await rest(operation.method, path, { ...hopeless(operation), key: credential });
      expect([operation.id, answer.status, answer.body.error]).toEqual([operation.id, 404, 'tenant not found']);
      const upper = { ...mine, slug: mine.slug.toUpperCase(), id: mine.id.toUpperCase() };
      for (const tenant of [upper, { ...mine, slug: 'nobody', id: newId('tenant') }]) {
        expect(await ask(operation, pathOf(operation, { tenant }), { key: credential })).toEqual([operation.id, 404, 'tenant_not_found']);
      }
    }
  });

  test('each route wants its own scope and no other, before body and ids', async () => {
    const guardedByKey = contract.operations.filter(({ security }) => security === 'apiKey');
    expect(guardedByKey.length).toBeGreaterThan(10);
    for (const operation of guardedByKey) {
      for (const scope of scopes) {
        const path = pathOf(operation, { id: 'malformed' });
        const { status, body } = await rest(operation.method, path, { ...hopeless(operation), key: ofScope.get(scope) ?? '' });
        const refused = status === 403 && body.code === 'forbidden';
        expect([operation.id, scope, refused ? 'refused' : status]).toEqual([
          operation.id,
          scope,
          scope === operation.scope ? expect.any(Number) : 'refused',
        ]);
      }
    }
    const wanted = Object.fromEntries(guardedByKey.map(({ id, scope }) => [id, scope]));
    expect(wanted).toEqual({
      setUpChart: 'accounts:write',
      getHierarchy: 'accounts:read',
      createAccount: 'accounts:write',
      listAccounts: 'accounts:read',
      getAccount: 'accounts:read',
      updateAccount: 'accounts:write',
      postSingle: 'transactions:write',
      postDouble: 'transactions:write',
      reverseTransaction: 'transactions:write',
      listTransactions: 'transactions:read',
      getTransaction: 'transactions:read',
      getBalance: 'balances:read',
      listBalanceHistory: 'balances:read',
      listEvents: 'transactions:read',
      configureWebhook: 'webhooks:manage',
      getWebhook: 'webhooks:manage',
      updateWebhook: 'webhooks:manage',
      updateWebhooks: 'webhooks:manage',
      deleteWebhook: 'webhooks:manage',
      deleteWebhooks: 'webhooks:manage',
      rotateWebhookSecret: 'webhooks:manage',
      testWebhook: 'webhooks:manage',
      listDeliveries: 'webhooks:manage',
      getDelivery: 'webhooks:manage',
      retryDelivery: 'webhooks:manage',
    });
  });

  test('balances in the hierarchy want balances:read too', async () => {
    const path = `/v1/tenants/${mine.slug}/accounts/hierarchy?include=balances`;
    expect((await rest('GET', path, { key: ofScope.get('accounts:read') ?? '' })).status).toBe(403);
    const both = await house.apiKey(mine, ['accounts:read', 'balances:read']);
    expect((await rest('GET', path, { key: both })).status).toBe(200);
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
      expect(await send(Buffer.alloc(1_048_577, '{'), 'text/plain')).toEqual([operation.id, 413, 'payload_too_large']);
      expect(await send('{', 'text/plain')).toEqual([operation.id, 415, 'unsupported_media_type']);
      expect(await send('{', 'application/json')).toEqual([operation.id, 400, 'invalid_json']);
      expect(await send('[]', 'application/json')).toEqual([operation.id, 400, 'validation_failed']);
    }
  });

  test('fields come before a malformed id of the path, and that before the record', async () => {
    const operations = contract.operations.filter(takesId);
    expect(operations.length).toBe(6);
    for (const operation of operations) {
      const given = { key: credentialOf(operation), ...(operation.body && { body: operation.body }) };
      if (operation.body) {
        const [field = ''] = Object.keys(operation.body);
        const wrong = { ...given, body: { [field]: [] } };
        const { body } = await rest(operation.method, pathOf(operation, { id: 'malformed' }), wrong);
        expect([operation.id, body.details]).toEqual([operation.id, { field, tag: 'type', value: [] }]);
      }
      const [, name = ''] = /\{(key_id|transaction_id|delivery_id)\}/.exec(operation.path) ?? [];
      const { status, body } = await rest(operation.method, pathOf(operation, { id: 'malformed' }), given);
      // A malformed delivery has a code and a message of its own.
      const details = name === 'delivery_id' ? undefined : { field: name, tag: 'id', value: expect.any(String) };
      expect([operation.id, status, body.details]).toEqual([operation.id, 400, details]);
      const unknown = await ask(operation, pathOf(operation), given);
      expect(unknown).toEqual([operation.id, 404, name.replace('_id', '_not_found')]);
    }
  });

  test('a malformed account code in a path is an unknown one, and comes after the fields', async () => {
    for (const operation of contract.operations.filter(({ path }) => path.includes('{account_code}'))) {
      for (const code of ['-x-', 'a%20b', 'a%00b', 'x'.repeat(65), 'x'.repeat(500), 'NO-SUCH-ACCOUNT']) {
        const path = operation.path.replace('{slug}', mine.slug).replace('{account_code}', code);
        const good = { key, ...(operation.body && { body: operation.body }) };
        expect(await ask(operation, `${path}?currency=USD`, good)).toEqual([operation.id, 404, 'account_not_found']);
        if (operation.body)
          expect(await ask(operation, path, { key, body: { name: 5 } })).toEqual([operation.id, 400, 'validation_failed']);
        else if (path.includes('balance')) {
          expect(await ask(operation, `${path}?currency=XXX`, good)).toEqual([operation.id, 400, 'validation_failed']);
        }
      }
    }
  });

  test('routes that come later are unknown today', async () => {
    for (const path of ['reports', 'statements', 'holds', 'exports', 'transactions/batch/x']) {
      const { status, body } = await rest('GET', `/v1/tenants/${mine.slug}/${path}`, { key });
      expect([path, status, body.code]).toEqual([path, 404, 'route_not_found']);
    }
  });
});
