import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jest } from '@jest/globals';
import { Provider } from 'oidc-provider';
import { TOTP } from 'otpauth';
import pg from 'pg';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import type { Answer, Person } from '../test/cluster.ts';

const app = 'https://app.example.com';
const secret = 'secret-of-the-client';

let cluster: CheckedCluster;
let admin: pg.Client;
let server: Server;
let stalled: Server;
/** Emails that the provider has verified. */
const verified = new Set<string>();

const listening = async (given: Server) => {
  await new Promise<void>((done) => given.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${(given.address() as AddressInfo).port}`;
};

beforeAll(async () => {
  server = createServer();
  stalled = createServer(() => undefined);
  const setting = (issuer: string) => ({ issuer, client_id: 'ledger', client_secret: secret });
  const issuer = await listening(server);
  const providers = { real: setting(issuer), second: setting(issuer), stalled: setting(await listening(stalled)) };
  cluster = await startCheckedCluster({
    environment: { identity: { OIDC_PROVIDERS: JSON.stringify(providers) }, gateway: { CORS_ORIGINS: `${app},http://localhost:3000` } },
  });
  admin = new pg.Client({ connectionString: cluster.databases.identity.adminUrl });
  await admin.connect();
  const redirectUris = ['real', 'second'].map((name) => `${cluster.url}/v1/auth/oidc/${name}/callback`);
  // It warns of its defaults, which do for a test.
  for (const level of ['warn', 'info'] as const) jest.spyOn(console, level).mockImplementation(() => undefined);
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'ledger', client_secret: secret, redirect_uris: redirectUris }],
    claims: { email: ['email', 'email_verified'], profile: ['given_name', 'family_name'] },
    findAccount: (_, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: sub, email_verified: verified.has(sub), given_name: 'Grace', family_name: 'Hopper' }),
    }),
  });
  server.on('request', (request, response) => void provider.callback()(request, response));
});

afterAll(async () => {
  for (const name of ['gateway', 'identity']) expect(cluster.logs(name)).not.toContain(secret);
  for (const each of [server, stalled]) each.closeAllConnections();
  await Promise.all([server, stalled].map((each) => new Promise((done) => each.close(done))));
  await admin.end();
  await cluster.stop();
});

let people = 0;
const newEmail = () => `grace.${process.pid}.${++people}@example.com`;
const isUser = async (email: string) => (await admin.query('select 1 from users where email = $1', [email])).rowCount === 1;

/** A browser: keeps cookies by host and path, follows redirects while `goes` says so, and fills in the provider's forms. */
class Browser {
  readonly cookies = new Map<string, { path: string; name: string; value: string }>();

  /** Sends a request; answers of the gateway are checked against its document. */
  async request(url: string, init: RequestInit = {}): Promise<Answer> {
    const { origin, pathname } = new URL(url);
    const sent = [...this.cookies].filter(([key, { path }]) => key.startsWith(`${origin} `) && pathname.startsWith(path));
    const cookie = sent.map(([, { name, value }]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { redirect: 'manual', ...init, headers: { cookie, ...(init.headers as object) } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = '', attributes = ''] = /^([^=]+)=([^;]*)(.*)$/.exec(line) ?? [];
      const path = /path=([^;]+)/i.exec(attributes)?.[1] ?? '/';
      if (value === '') this.cookies.delete(`${origin} ${path} ${name}`);
      else this.cookies.set(`${origin} ${path} ${name}`, { path, name, value });
    }
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('/json') === true;
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    if (origin === cluster.url) expect(cluster.contract.faults(init.method ?? 'GET', pathname, answer)).toEqual([]);
    return answer;
  }

  /** Begins a login; the address of the provider. */
  async start(returnTo = `${app}/done`, provider = 'real'): Promise<string> {
    const answer = await this.request(`${cluster.url}/v1/auth/oidc/${provider}/start?return_to=${encodeURIComponent(returnTo)}`);
    expect([answer.status, answer.body]).toEqual([302, '']);
    return answer.headers.get('location')!;
  }

  /** Logs in at the provider, or gives up; the address of the callback. */
  async logIn(authorizationUrl: string, email: string | null): Promise<string> {
    let url = authorizationUrl;
    for (let step = 0; step < 20 && !url.startsWith(cluster.url); step += 1) {
      const answer = await this.request(url);
      const [, prompt] = /name="prompt" value="(\w+)"/.exec(answer.body as string) ?? [];
      if (prompt === undefined) url = new URL(answer.headers.get('location')!, url).href;
      else if (email === null) url = `${url}/abort`;
      else {
        const body = new URLSearchParams({ prompt, login: email, password: 'any' });
        url = new URL((await this.request(url, { method: 'POST', body })).headers.get('location')!, url).href;
      }
    }
    return url;
  }

  /** The whole way to the code. */
  async code(email: string, provider = 'real'): Promise<string> {
    const answer = await this.request(await this.logIn(await this.start(undefined, provider), email));
    const back = new URL(answer.headers.get('location')!);
    expect([answer.status, back.searchParams.get('error')]).toEqual([302, null]);
    return back.searchParams.get('code')!;
  }
}

const token = (code: string, more: object = {}) => cluster.rest('POST', '/v1/auth/oidc/token', { body: { code, ...more } });
const link = (person: Person | { token: string }, code: string, provider = 'real') =>
  cluster.rest('POST', `/v1/auth/oidc/${provider}/link`, { key: person.token, body: { code } });
const verify = async (email: string) => {
  verified.add(email);
  await admin.query('update users set email_verified_at = now() where email = $1', [email]);
};

describe('a login with an identity provider', () => {
  test('leads to the provider, back to the page that wanted it, and to a session; the user is created only there', async () => {
    const email = newEmail();
    verified.add(email);
    const browser = new Browser();
    const begun = await browser.request(
      `${cluster.url}/v1/auth/oidc/real/start?return_to=${encodeURIComponent(`${app}/done?x=1&code=old&error=old#part`)}`,
    );
    expect([begun.status, begun.headers.get('cache-control'), begun.headers.get('referrer-policy')]).toEqual([
      302,
      'no-store',
      'no-referrer',
    ]);
    expect(begun.headers.get('set-cookie')).toMatch(/^oidc-login=[^;]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/);
    const callback = await browser.logIn(begun.headers.get('location')!, email);
    expect(new URL(callback).pathname).toBe('/v1/auth/oidc/real/callback');
    expect(await isUser(email)).toBe(false);

    const { status, headers } = await browser.request(callback);
    expect([status, headers.get('cache-control'), headers.get('referrer-policy')]).toEqual([302, 'no-store', 'no-referrer']);
    expect(headers.get('set-cookie')).toMatch(/^oidc-login=; Max-Age=0; Path=\/; HttpOnly; SameSite=Lax$/);
    const location = headers.get('location')!;
    expect(location).toMatch(/^https:\/\/app\.example\.com\/done\?x=1&code=[0-9A-Za-z]{43}#part$/);
    expect(await isUser(email)).toBe(false);

    const code = new URL(location).searchParams.get('code')!;
    const { body } = await token(code);
    expect(body).toMatchObject({
      success: true,
      message: 'Login successful',
      data: { user: { email, first_name: 'Grace', last_name: 'Hopper', email_verified: true } },
    });
    expect(Object.keys(body.data as object).sort()).toEqual(['expires_at', 'refresh_token', 'token', 'user']);
    const me = await cluster.rest('GET', '/v1/user', { key: body.data.token });
    expect(me.body.data.user).toEqual(body.data.user);
    expect((await cluster.rest('POST', '/v1/auth/refresh', { body: { refresh_token: body.data.refresh_token } })).status).toBe(200);

    const again = await token(code);
    expect([again.status, again.body.code]).toEqual([401, 'unauthenticated']);
    expect((await browser.request(callback)).status).toBe(401);
    expect((await token(await new Browser().code(email))).body.data.user.id).toBe(body.data.user.id);
  });

  test('returns to a path of this server too, and tells a refusal of the provider', async () => {
    const browser = new Browser();
    const { status, headers } = await browser.request(await browser.logIn(await browser.start('/docs/?a=b'), null));
    expect([status, headers.get('location')]).toEqual([302, `${cluster.url}/docs/?a=b&error=access_denied`]);
    expect([...browser.cookies.keys()].filter((key) => key.includes('oidc-login'))).toEqual([]);
  });

  test('belongs to one browser: without its cookie, or with the one of another login, an answer of the provider is of no use', async () => {
    const [mine, other] = [new Browser(), new Browser()];
    const email = newEmail();
    const callback = await mine.logIn(await mine.start(), email);
    await other.start(`${app}/other`);
    const bare = await new Browser().request(callback);
    expect([bare.status, bare.body.code]).toEqual([401, 'unauthenticated']);
    const forged = await new Browser().request(callback, { headers: { cookie: 'a=b; oidc-login=k1%3Aabc; oidc-login' } });
    expect([forged.status, forged.body.code]).toEqual([401, 'unauthenticated']);
    expect((await other.request(callback)).headers.get('location')).toBe(`${app}/other?error=login_failed`);
    // A login with one provider is none with another.
    expect((await mine.request(callback.replace('/real/', '/second/'))).status).toBe(401);
    expect((await mine.request(callback)).headers.get('location')).toContain(`${app}/done?code=`);
    expect(await isUser(email)).toBe(false);
  });

  test.each([
    ...[
      '//evil.example.com',
      '///evil.example.com',
      '/\\evil.example.com',
      '\\\\evil.example.com',
      '/\t/evil.example.com',
      '/ok\nx',
      ' /ok',
    ],
    ...['https://evil.example.com/', 'https://app.example.com.evil.example.com/', 'https://app.example.com@evil.example.com/'],
    ...['https://user:password@app.example.com/', 'http://app.example.com/', 'https://app.example.com:444/'],
    ...[
      'javascript:alert(1)',
      'data:text/html,x',
      'blob:https://app.example.com/x',
      '*',
      'done',
      '?x',
      '/\u00e9',
      `${app}\\@evil.example.com`,
    ],
  ])('does not return to %j', async (returnTo) => {
    const answer = await cluster.rest('GET', `/v1/auth/oidc/real/start?return_to=${encodeURIComponent(returnTo)}`);
    expect([answer.status, answer.body.details]).toEqual([400, { field: 'return_to', tag: 'url', value: returnTo }]);
    expect(answer.headers.get('set-cookie')).toBeNull();
  });

  test('returns to any allowed origin, and needs to know where', async () => {
    for (const returnTo of ['http://localhost:3000', `${app}/#/in`, '/', '/a//b']) await new Browser().start(returnTo);
    const missing = await cluster.rest('GET', '/v1/auth/oidc/real/start');
    expect([missing.status, missing.body.details]).toEqual([400, { field: 'return_to', tag: 'required', value: '' }]);
    const long = await cluster.rest('GET', `/v1/auth/oidc/real/start?return_to=/${'x'.repeat(1_000)}`);
    expect([long.status, long.body.details.tag]).toEqual([400, 'max']);
  });

  test('with a provider that nobody has set up is 404', async () => {
    const person = await cluster.signUp();
    const answers = [
      await cluster.rest('GET', '/v1/auth/oidc/nobody/start?return_to=/'),
      await new Browser().request(`${cluster.url}/v1/auth/oidc/nobody/callback?code=x`, { headers: { cookie: 'oidc-login=x' } }),
      await link(person, 'x', 'nobody'),
    ];
    for (const { status, body } of answers) expect([status, body.code]).toEqual([404, 'provider_not_found']);
  });

  test('with a provider that stalls is 503 within seconds', async () => {
    const { status, body, headers } = await cluster.rest('GET', '/v1/auth/oidc/stalled/start?return_to=/');
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'unavailable', '5']);
  });
});

describe('the user of an identity', () => {
  test('an email that the provider has not verified joins no account; its user links it with the same code', async () => {
    const person = await cluster.signUp();
    const code = await new Browser().code(person.email);
    await admin.query('update users set email_verified_at = now() where email = $1', [person.email]);
    const taken = await token(code);
    expect([taken.status, taken.body.code]).toEqual([409, 'email_taken']);
    const linked = await link(person, code);
    expect([linked.status, linked.body.data.user]).toMatchObject([200, { id: person.id, email: person.email }]);
    expect((await token(await new Browser().code(person.email))).body.data.user.id).toBe(person.id);
  });

  test('an email that only the provider has verified joins no account either, and one that both have joins it', async () => {
    const person = await cluster.signUp();
    verified.add(person.email);
    expect((await token(await new Browser().code(person.email))).body.code).toBe('email_taken');
    await verify(person.email);
    expect((await token(await new Browser().code(person.email))).body.data.user.id).toBe(person.id);
  });

  test('a link needs a login and a code of that provider, and takes no identity from another user', async () => {
    const [email, person] = [newEmail(), await cluster.signUp()];
    await token(await new Browser().code(email));
    const taken = await link(person, await new Browser().code(email));
    expect([taken.status, taken.body.code]).toEqual([409, 'email_taken']);
    expect((await link(person, await new Browser().code(newEmail()), 'second')).status).toBe(401);
    const bare = await cluster.rest('POST', '/v1/auth/oidc/real/link', { body: { code: 'x' } });
    expect([bare.status, bare.body.code]).toEqual([401, 'unauthenticated']);
  });

  test('a second factor is asked for as well, and the code waits for it', async () => {
    const person = await cluster.signUp();
    await verify(person.email);
    const { body } = await cluster.rest('POST', '/v1/auth/totp', { key: person.token, body: { password: person.password } });
    const factor = () => new TOTP({ secret: body.data.secret as string }).generate();
    const confirmed = await cluster.rest('POST', '/v1/auth/totp/confirm', { key: person.token, body: { code: factor() } });
    const code = await new Browser().code(person.email);
    const required = await token(code);
    expect([required.status, required.body.code]).toEqual([401, 'totp_required']);
    expect((await token(code, { totp_code: '000' })).body.code).toBe('unauthenticated');
    const [recoveryCode] = confirmed.body.data.recovery_codes as string[];
    const opened = await token(code, { totp_code: recoveryCode });
    expect([opened.status, opened.body.data.user]).toMatchObject([200, { id: person.id, totp_enabled: true }]);
  });
});

test('where browsers come by https the cookie is kept from all that is not, and from other hosts', async () => {
  await cluster.restart('gateway', { PUBLIC_URL: 'https://ledger.example.com/api/' });
  const { headers } = await new Browser().request(`${cluster.url}/v1/auth/oidc/real/start?return_to=/done`);
  const cookie = headers.get('set-cookie')!;
  expect(cookie).toMatch(/^__Host-oidc-login=[^;]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax; Secure$/);
  const { searchParams } = new URL(headers.get('location')!);
  expect(searchParams.get('redirect_uri')).toBe('https://ledger.example.com/api/v1/auth/oidc/real/callback');
  // The provider is gone by the time of the answer.
  await new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
  const callback = `${cluster.url}/v1/auth/oidc/real/callback?code=x&iss=${encodeURIComponent(new URL(headers.get('location')!).origin)}&state=${searchParams.get('state')!}`;
  const down = await new Browser().request(callback, { headers: { cookie: cookie.split(';')[0]! } });
  expect([down.status, down.headers.get('location')]).toEqual([302, 'https://ledger.example.com/done?error=unavailable']);
  expect(down.headers.get('set-cookie')).toBe('__Host-oidc-login=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax; Secure');
});
