// Forged, stolen and misplaced credentials against a running cluster.
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { SignJWT, exportJWK, type JWTHeaderParameters } from 'jose';
import { idOfKeyText, newKeyText } from '../../services/identity/credentials.ts';
import { newId } from '../../services/platform/ids.ts';
import { readContract, type Contract } from '../contract.ts';
import { startCluster, type Cluster, type Person, type Tenant } from '../cluster.ts';
import { newSigningKey } from '../../deploy/local/secrets.ts';

const pem = newSigningKey();
const signingKey = createPrivateKey(pem);
let cluster: Cluster;
let contract: Contract;
let ada: Person;
let tenant: Tenant;
let key: string;
let kid: string;

beforeAll(async () => {
  cluster = await startCluster({ environment: { identity: { JWT_PRIVATE_KEY: pem } } });
  contract = await readContract(cluster.url);
  ada = await cluster.signUp();
  tenant = await cluster.tenant({ person: ada });
  key = await cluster.apiKey(tenant);
  kid = (await cluster.rest('GET', '/.well-known/jwks.json')).body.keys[0].kid;
});
afterAll(() => cluster.stop());

const soon = () => Math.floor(Date.now() / 1000) + 600;
const base64 = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

type Claims = Record<string, unknown>;

/** A token as identity makes it, with changes. */
function token(change: { claims?: Claims; header?: Partial<JWTHeaderParameters>; by?: KeyObject } = {}): Promise<string> {
  const claims = { iss: 'ledger', aud: 'ledger', sub: ada.id, iat: soon() - 600, exp: soon(), ...change.claims };
  const header = { alg: 'EdDSA', typ: 'JWT', kid, ...change.header };
  return new SignJWT(claims).setProtectedHeader(header).sign(change.by ?? signingKey);
}

/** A token with any header and signature. */
function unsigned(header: object, signature: string): string {
  return `${base64(header)}.${base64({ iss: 'ledger', aud: 'ledger', sub: ada.id, exp: soon() })}.${signature}`;
}

const userRoutes = () => ['/v1/user', '/v1/tenants', `/v1/tenants/${tenant.id}/api-keys`];

async function expectRefused(credential: string): Promise<void> {
  for (const path of userRoutes()) {
    const { status, body } = await cluster.rest('GET', path, { key: credential });
    expect([path, status, body.code]).toEqual([path, 401, 'unauthenticated']);
  }
}

describe('a token', () => {
  test('without a change is accepted, so that those below are refused for their change', async () => {
    for (const path of userRoutes()) expect((await cluster.rest('GET', path, { key: await token() })).status).toBe(200);
  });

  test.each(['none', 'nOnE', ''])('of the algorithm %j is refused, signed or not', async (alg) => {
    const [, , signature = ''] = (await token()).split('.');
    for (const each of ['', signature]) await expectRefused(unsigned({ alg, typ: 'JWT', kid }, each));
  });

  test('whose HMAC is keyed with the published public key is refused', async () => {
    const published = createPublicKey(signingKey);
    const jwks = await (await fetch(`${cluster.url}/.well-known/jwks.json`)).text();
    const forms = [published.export({ type: 'spki', format: 'pem' }), (await exportJWK(published)).x ?? '', jwks, kid];
    for (const form of forms) {
      for (const alg of ['HS256', 'HS512']) await expectRefused(await token({ header: { alg }, by: createSecretKey(Buffer.from(form)) }));
    }
  });

  test('that contains or points to its own key is refused', async () => {
    const own = generateKeyPairSync('ed25519').privateKey;
    const jwk = { ...(await exportJWK(createPublicKey(own))), kid: 'own' };
    for (const header of [
      {},
      { kid: 'own', jwk },
      { jwk },
      { jku: `${cluster.url}/.well-known/jwks.json` },
      { kid: '../../../../dev/null' },
      { kid: '__proto__' },
      { kid: undefined },
    ]) {
      await expectRefused(await token({ header: header as Partial<JWTHeaderParameters>, by: own }));
    }
    const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
    await expectRefused(await token({ header: { alg: 'ES256', jwk: await exportJWK(createPublicKey(elliptic)) }, by: elliptic }));
    await expectRefused(await token({ header: { alg: 'RS256' }, by: rsa }));
  });

  test('with a header that must be understood is refused', async () => {
    const header = { crit: ['exp2'], exp2: 1 };
    const head = base64({ alg: 'EdDSA', kid, ...header });
    const [, payload, signature] = (await token()).split('.');
    await expectRefused(`${head}.${payload}.${signature}`);
  });

  test('with other claims under an old signature, or claims that do not hold under a right one, is refused', async () => {
    const [head = '', payload = '', signature = ''] = (await token()).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Claims;
    for (const change of [{ sub: newId('user') }, { exp: soon() + 3600 }])
      await expectRefused(`${head}.${base64({ ...claims, ...change })}.${signature}`);
    for (const change of [{ iss: 'other' }, { aud: 'other' }, { exp: soon() - 601 }, { sub: newId('key') }])
      await expectRefused(await token({ claims: change }));
  });

  test('that refreshes is no access, and one for access, or an API key, refreshes nothing', async () => {
    const { email, password } = ada;
    const login = await cluster.rest('POST', '/v1/auth/login', { body: { email, password } });
    const { refresh_token: refresh } = login.body.data;
    await expectRefused(refresh);
    for (const each of [login.body.data.token, key, await token()]) {
      const answer = await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: each } });
      expect([answer.status, answer.body.code]).toEqual([401, 'unauthenticated']);
    }
    expect((await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: refresh } })).status).toBe(200);
  });
});

describe('an API key', () => {
  const routes = () => contract.operations.filter(({ security }) => security === 'apiKeyToken');
  const pathOf = ({ path }: { path: string }) =>
    path
      .replace('{slug}', tenant.slug)
      .replace('{transaction_id}', newId('txn'))
      .replace('{delivery_id}', newId('wh_delivery'))
      .replace('{account_code}', 'CASH');

  test('that is invented is refused by every route', async () => {
    // The right id with another secret, an unknown id, and ids that are no UUID.
    const odd = newId('key').replace(/^(.{14})./, '$10');
    const invented = [idOfKeyText(key) ?? '', newId('key'), odd, 'key_7zzzzzzzzzzzzzzzzzzzzzzzzz'].map(newKeyText);
    for (const operation of routes()) {
      for (const each of invented) {
        const { status, body } = await cluster.rest(operation.method, pathOf(operation), { key: each });
        expect([operation.id, status, body.code]).toEqual([operation.id, 401, 'unauthenticated']);
      }
    }
  });

  test('counts in the Authorization header alone', async () => {
    const path = `/v1/tenants/${tenant.slug}/accounts`;
    for (const [query, headers] of [
      [`?api_key=${key}`, {}],
      ['', { 'x-api-key': key }],
      ['', { cookie: `authorization=${key}; token=${key}` }],
      ['', { authorization: key }],
      ['', { authorization: `Bearer Bearer ${key}` }],
    ] as const) {
      expect((await cluster.rest('GET', path + query, { headers })).status).toBe(401);
    }
  });

  test('that is revoked, has expired or was replaced is refused by every route', async () => {
    const keys = `/v1/tenants/${tenant.id}/api-keys`;
    const made = async (more: object = {}) => {
      const body = { name: 'short', scopes: ['accounts:read', 'webhooks:manage'], ...more };
      return (await cluster.rest('POST', keys, { key: ada.token, body })).body.data.api_key as { id: string; key: string };
    };
    const expires = Date.now() + 5_000;
    const [expired, revoked, replaced] = [await made({ expires_at: new Date(expires).toISOString() }), await made(), await made()];
    const dead = [revoked, expired, replaced];
    const path = `/v1/tenants/${tenant.slug}/accounts`;
    const alive = async (each: { key: string }) => (await cluster.rest('GET', path, { key: each.key })).status === 200;
    expect(await Promise.all([revoked, replaced].map(alive))).toEqual([true, true]);
    expect((await cluster.rest('DELETE', `${keys}/${revoked.id}`, { key: ada.token })).status).toBe(200);
    const rotated = await cluster.rest('POST', `${keys}/${replaced.id}/rotate`, { key: ada.token, body: { overlap_seconds: 0 } });
    expect(rotated.status).toBe(201);
    const end = Math.max(expires, Date.now() + 5_000);
    for (let sentAt = Date.now(); (await Promise.all(dead.map(alive))).includes(true); sentAt = Date.now())
      expect(sentAt).toBeLessThan(end);
    for (const operation of routes()) {
      for (const each of dead) {
        const { status, body } = await cluster.rest(operation.method, pathOf(operation), { key: each.key });
        expect([operation.id, status, body.code]).toEqual([operation.id, 401, 'unauthenticated']);
      }
    }
    expect(await alive({ key: rotated.body.data.api_key.key })).toBe(true);
  });
});
