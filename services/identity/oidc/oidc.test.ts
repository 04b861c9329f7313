import { randomBytes } from 'node:crypto';
import { jest } from '@jest/globals';
import pg from 'pg';
import { freshDatabase, type FreshDatabase } from '../../../test/cluster.ts';
import { newEmail, newUser, refusal, startIdentity, type RunningIdentity } from '../../../test/identity.ts';
import { until } from '../../../test/polling.ts';
import {
  browserOf,
  type Browser,
  person,
  redirectUri,
  returnTo,
  send,
  startIssuer,
  stateIn,
  type IssuerAnswer,
  type TestIssuer,
} from '../../../test/oidc-issuer.ts';
import { OidcClient } from './oidc-client.ts';
import { oidcProviders } from './oidc-providers.ts';
import { SecretEncryption } from '../../platform/secret-encryption.ts';
import { Settings } from '../../platform/settings.ts';

const encryptionKey = `k1:${randomBytes(32).toString('base64')}`;

let database: FreshDatabase;
let identity: RunningIdentity;
let client: RunningIdentity['client'];
let browser: Browser;
let admin: pg.Client;
let one: TestIssuer;
let two: TestIssuer;
let mixed: TestIssuer;

beforeAll(async () => {
  [one, two, mixed] = await Promise.all([startIssuer(), startIssuer(), startIssuer()]);
  mixed.metadata['authorization_response_iss_parameter_supported'] = true;
  const providers = { one: one.setting, two: two.setting, mixed: mixed.setting };
  database = await freshDatabase('identity', { migrated: true });
  const env = { OIDC_PROVIDERS: JSON.stringify(providers), IDENTITY_ENCRYPTION_KEY: encryptionKey };
  identity = await startIdentity(database.serviceUrl, env);
  client = identity.client;
  browser = browserOf(client, one);
  admin = new pg.Client({ connectionString: database.adminUrl });
  await admin.connect();
});

afterAll(async () => {
  // Neither secrets nor tokens of providers are in the log.
  const output = identity.child.output();
  for (const issuer of [one, two, mixed]) expect(output).not.toContain(issuer.setting.client_secret);
  expect(output).not.toContain('eyJ');
  await admin.end();
  await identity.end();
  await database.drop();
  await Promise.all([one, two, mixed].map((issuer) => issuer.close()));
});

const usersOf = async (email: string) => (await admin.query(`select * from users where email = $1`, [email])).rows;

describe('the way to the provider', () => {
  test('carries the client, the scopes, PKCE, and a new state and nonce each time; the state of the browser tells none of it', async () => {
    const [first, second] = [await browser.start(), await browser.start()];
    const { origin, pathname, searchParams } = new URL(first.authorizationUrl);
    expect(`${origin}${pathname}`).toBe(`${one.url}/authorize`);
    expect(Object.fromEntries(searchParams)).toEqual({
      client_id: 'ledger',
      response_type: 'code',
      redirect_uri: redirectUri,
      scope: 'openid email profile',
      code_challenge_method: 'S256',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    });
    for (const name of ['state', 'nonce', 'code_challenge'])
      expect(new URL(second.authorizationUrl).searchParams.get(name)).not.toBe(searchParams.get(name));
    expect(first.state).toMatch(/^k1:/);
    expect(first.state.length).toBeLessThan(3_000);
  });

  test('an unknown provider is rejected by each call', async () => {
    const { user } = { user: await newUser(client) };
    for (const call of [browser.start('nobody'), browser.finish({ provider: 'nobody', state: 'x', query: {} })])
      expect(await refusal(call)).toMatchObject({ reason: 'provider_not_found' });
    const linked = client.linkOidc({ userId: user.id, provider: 'nobody', code: 'x' });
    expect(await refusal(linked)).toMatchObject({ reason: 'provider_not_found' });
  });

  test('fields are checked', async () => {
    const given = { provider: 'one', redirectUri, returnTo };
    for (const [change, field, tag] of [
      [{ redirectUri: '' }, 'redirect_uri', 'required'],
      [{ returnTo: 'javascript:alert(1)' }, 'return_to', 'url'],
      [{ returnTo: `https://app.example.com/${'x'.repeat(1_000)}` }, 'return_to', 'max'],
    ] as const)
      expect(await refusal(client.startOidc({ ...given, ...change }))).toMatchObject({ reason: 'validation_failed', field, tag });
    expect(await refusal(browser.finish({ query: {} }))).toMatchObject({ reason: 'validation_failed', field: 'state', tag: 'required' });
    expect(await refusal(browser.exchange(''))).toMatchObject({ reason: 'validation_failed', field: 'code', tag: 'required' });
  });
});

describe('the answer of a provider', () => {
  test('leads back with a code, and creates no user before its exchange', async () => {
    const email = newEmail();
    const finished = await browser.login({ claims: person(email) });
    expect(finished).toMatchObject({ returnTo, code: expect.stringMatching(/^[0-9A-Za-z]{43}$/), error: '' });
    expect(await usersOf(email)).toEqual([]);
    const { rows } = await admin.query('select * from oidc_codes');
    expect(JSON.stringify(rows)).not.toContain(finished.code);
    await browser.exchange(finished.code);
    expect(await usersOf(email)).toHaveLength(1);
  });

  const past = () => Math.floor(Date.now() / 1000) - 3_600;
  const wrong: [string, RegExp, () => IssuerAnswer][] = [
    ['of another issuer', /"iss".* claim value/, () => ({ claims: { iss: two.url } })],
    ['for another client', /"aud".* claim value/, () => ({ claims: { aud: 'another' } })],
    ['for several clients, without saying for which', /untrusted audiences/, () => ({ claims: { aud: ['ledger', 'another'] } })],
    ['for several clients, and another one', /"azp"/, () => ({ claims: { aud: ['ledger', 'another'], azp: 'another' } })],
    ['with another nonce', /"nonce" claim value/, () => ({ claims: { nonce: 'another' } })],
    ['without a nonce', /"nonce".* missing/, () => ({ claims: { nonce: undefined } })],
    ['that has expired', /expiration is past/, () => ({ claims: { iat: past() - 300, exp: past() } })],
    ['without an end', /"exp".* missing/, () => ({ claims: { exp: undefined } })],
    ['that is not valid yet', /"nbf"/, () => ({ claims: { nbf: Math.floor(Date.now() / 1000) + 3_600 } })],
    ['without a subject', /"sub".* missing/, () => ({ claims: { sub: undefined } })],
    ['with an endless subject', /sub is longer/, () => ({ claims: { sub: 'x'.repeat(256) } })],
    ['with a subject that is not text', /not text/, () => ({ claims: { sub: 'a\0b' } })],
    ['signed with another key', /signature verification failed/, () => ({ signature: 'other key' })],
    ['signed with nothing', /unsupported JWS/, () => ({ signature: 'none' })],
    ['signed with what the client knows', /unsupported JWS/, () => ({ signature: 'client secret' })],
    [
      'that is missing',
      /"id_token" property/,
      () => ({ token: (response) => send(response, 200, { access_token: 'a', token_type: 'Bearer' }) }),
    ],
    [
      'that is no JSON',
      /content-type/,
      () => ({ token: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>') }),
    ],
    [
      'in place of which is an error',
      /error in the response body \(invalid_grant\)/,
      () => ({ token: (response) => send(response, 400, { error: 'invalid_grant' }) }),
    ],
    [
      'in place of which is a challenge',
      /challenge/,
      () => ({ token: (response) => response.writeHead(401, { 'www-authenticate': 'Basic' }).end() }),
    ],
    [
      'behind a redirect',
      /HTTP response status/,
      () => ({ token: (response) => response.writeHead(307, { location: `${two.url}/token` }).end() }),
    ],
  ];
  test.each(wrong)('with an ID token %s is a failed login', async (_, reason, answer) => {
    const before = await admin.query('select count(*) from oidc_codes');
    expect(await browser.login(answer())).toMatchObject({ returnTo, code: '', error: 'login_failed' });
    expect((await admin.query('select count(*) from oidc_codes')).rows).toEqual(before.rows);
    await until(
      async () => reasons(identity).at(-1) ?? '',
      (logged) => reason.test(logged),
    );
  });

  test('from a clock a little ahead or behind is valid', async () => {
    for (const seconds of [-20, 20]) {
      const now = Math.floor(Date.now() / 1000) + seconds;
      const clock = { iat: now, nbf: now, exp: seconds < 0 ? now : now + 300 };
      expect(await browser.login({ claims: { ...person(newEmail()), ...clock } })).toMatchObject({ error: '' });
    }
  });

  test('that rejects the login passes its code on, and no other text', async () => {
    for (const [error, shown] of [
      ['access_denied', 'access_denied'],
      ['<script>', 'login_failed'],
    ]) {
      const { authorizationUrl, state } = await browser.start();
      const query = { error: error!, error_description: 'secret', state: stateIn(authorizationUrl) };
      expect(await browser.finish({ state, query })).toMatchObject({ returnTo, code: '', error: shown });
    }
  });

  test('with a state that is missing, or of another login, is a failed login: the browser of another can not be made to use it', async () => {
    const [mine, another] = [await browser.start(), await browser.start()];
    const code = one.authorize(another.authorizationUrl, { claims: person(newEmail()) });
    for (const query of [{ code }, { code, state: stateIn(another.authorizationUrl) }, { error: 'access_denied' }] as Record<
      string,
      string
    >[]) {
      expect(await browser.finish({ state: mine.state, query })).toMatchObject({ code: '', error: 'login_failed' });
    }
    // The verifier of another login is of no use either.
    expect(await browser.finish({ state: mine.state, query: { code, state: stateIn(mine.authorizationUrl) } })).toMatchObject({
      error: 'login_failed',
    });
  });

  test('of another provider is no answer: the state is for one, and where the provider says who it is, that is checked', async () => {
    const { authorizationUrl, state } = await browser.start();
    const query = { code: two.authorize(authorizationUrl, {}), state: stateIn(authorizationUrl) };
    expect(await refusal(browser.finish({ provider: 'two', state, query }))).toMatchObject({ reason: 'unauthenticated' });
    expect(await browser.finish({ state, query })).toMatchObject({ error: 'login_failed' });

    for (const [iss, error] of [
      [undefined, 'login_failed'],
      [one.url, 'login_failed'],
      [mixed.url, ''],
    ] as const) {
      const begun = await browser.start('mixed');
      const code = mixed.authorize(begun.authorizationUrl, { claims: person(newEmail()) });
      const answer = { code, state: stateIn(begun.authorizationUrl), ...(iss !== undefined && { iss }) };
      expect(await browser.finish({ provider: 'mixed', state: begun.state, query: answer })).toMatchObject({ error });
    }
  });

  test('is of use once', async () => {
    const { authorizationUrl, state } = await browser.start();
    const query = { code: one.authorize(authorizationUrl, { claims: person(newEmail()) }), state: stateIn(authorizationUrl) };
    expect(await browser.finish({ state, query })).toMatchObject({ error: '' });
    expect(await browser.finish({ state, query })).toMatchObject({ code: '', error: 'login_failed' });
  });

  test('needs a state that this service has made, less than ten minutes ago, for this purpose', async () => {
    const { authorizationUrl, state } = await browser.start();
    const query = { code: 'x', state: stateIn(authorizationUrl) };
    const encryption = new SecretEncryption('KEY', new Settings({ KEY: encryptionKey }).encryptionKeys('KEY'));
    const content = JSON.parse(encryption.decrypt('oidc-login', state)) as { expiresMs: number };
    expect(content.expiresMs - Date.now()).toBeGreaterThan(590_000);
    expect(content.expiresMs - Date.now()).toBeLessThanOrEqual(600_000);
    const expired = encryption.encrypt('oidc-login', JSON.stringify({ ...content, expiresMs: Date.now() - 1 }));
    const otherPurpose = encryption.encrypt('user_x', JSON.stringify(content));
    for (const wrongState of [expired, otherPurpose, state.slice(0, -8), `k2:${state.slice(3)}`, 'x'])
      expect(await refusal(browser.finish({ state: wrongState, query }))).toMatchObject({ reason: 'unauthenticated' });
  });
});

describe('a provider that can not be reached', () => {
  let slow: TestIssuer;
  let gone: TestIssuer;
  let liar: TestIssuer;
  let other: RunningIdentity;
  beforeAll(async () => {
    [slow, gone, liar] = await Promise.all([startIssuer(), startIssuer(), startIssuer()]);
    liar.metadata['issuer'] = 'https://accounts.example.com';
    const providers = { slow: slow.setting, gone: gone.setting, liar: liar.setting };
    other = await startIdentity(database.serviceUrl, { OIDC_PROVIDERS: JSON.stringify(providers), IDENTITY_ENCRYPTION_KEY: encryptionKey });
  });
  afterAll(async () => {
    for (const issuer of [slow, gone, liar]) expect(other.child.output()).not.toContain(issuer.setting.client_secret);
    await other.end();
    await Promise.all([slow.close(), liar.close()]);
  });
  const begin = (provider: string) => other.client.startOidc({ provider, redirectUri, returnTo });

  test('makes a start unavailable, within seconds, for as long as it lasts; logins at once ask it once', async () => {
    slow.stalled = true;
    const beganMs = performance.now();
    const rejected = await Promise.all([1, 2, 3].map(async () => refusal(begin('slow'))));
    expect(rejected.map(({ reason, retryAfter }) => [reason, retryAfter])).toEqual(Array(3).fill(['unavailable', 5]));
    expect(performance.now() - beganMs).toBeLessThan(15_000);
    expect(slow.requests['/.well-known/openid-configuration']).toBe(1);
    slow.stalled = false;
    const begun = await Promise.all([begin('slow'), begin('slow')]);
    await begin('slow');
    expect(slow.requests['/.well-known/openid-configuration']).toBe(2);

    slow.stalled = true;
    const [{ authorizationUrl, state }] = begun;
    const callbackUrl = `${redirectUri}?code=x&state=${stateIn(authorizationUrl)}`;
    const finished = await other.client.finishOidc({ provider: 'slow', state, callbackUrl });
    expect(finished).toMatchObject({ returnTo, code: '', error: 'unavailable' });
  });

  test('is asked about itself again after an hour', async () => {
    const encryption = new SecretEncryption('KEY', new Settings({ KEY: encryptionKey }).encryptionKeys('KEY'));
    const providers = oidcProviders(JSON.stringify({ liar: { ...liar.setting } }));
    const oidc = new OidcClient(providers, encryption);
    const metadata = { ...liar.metadata };
    liar.metadata['issuer'] = liar.url;
    const asked = () => liar.requests['/.well-known/openid-configuration'] ?? 0;
    const clock = jest.spyOn(performance, 'now');
    const atMs = async (ms: number) => {
      clock.mockReturnValue(ms);
      await oidc.begin('liar', redirectUri, returnTo);
      return asked();
    };
    try {
      expect([await atMs(0), await atMs(3_599_999), await atMs(3_600_000), await atMs(3_600_001)]).toEqual([1, 1, 2, 2]);
    } finally {
      clock.mockRestore();
      liar.metadata = metadata;
    }
  });

  test('or answers 5xx, or without an end, makes the answer unavailable', async () => {
    const answers: NonNullable<IssuerAnswer['token']>[] = [
      (response) => send(response, 503, { error: 'down' }),
      (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(`"${'x'.repeat(2 << 20)}"`),
      (response) => response.socket?.destroy(),
    ];
    for (const token of answers) expect(await browser.login({ token })).toMatchObject({ code: '', error: 'unavailable' });
  });

  test('or whose metadata is of another issuer, is not used', async () => {
    await gone.close();
    for (const provider of ['gone', 'liar']) expect(await refusal(begin(provider))).toMatchObject({ reason: 'unavailable' });
    await until(
      async () => reasons(other).at(-1) ?? '',
      (logged) => logged.includes('issuer does not match'),
    );
  });
});

/** Why logins failed, from the service's log. */
function reasons({ child }: RunningIdentity): string[] {
  return [...child.output().matchAll(/^\{.*"oidc_reason".*\}$/gm)].map(
    ([line]) => (JSON.parse(line) as { oidc_reason: string }).oidc_reason,
  );
}
