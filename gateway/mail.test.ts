// Routes and pages of mails through the gateway, on a deployment of real processes.
import { TOTP } from 'otpauth';
import type { Answer, Person } from '../test/cluster.ts';
import { startCheckedCluster, type CheckedCluster } from '../test/contract.ts';
import { until } from '../test/polling.ts';

let cluster: CheckedCluster;
beforeAll(async () => {
  cluster = await startCheckedCluster();
});
afterAll(() => cluster.stop());

const post = (path: string, body?: object, key?: string) =>
  cluster.rest('POST', `/v1/${path}`, { ...(body && { body }), ...(key !== undefined && { key }) });
const login = ({ email }: Person, password: string, code?: string) =>
  post('auth/login', { email, password, ...(code !== undefined && { totp_code: code }) });
const outcome = ({ status, body }: Answer) => [status, body.code, body.details?.field, body.details?.tag];
const invalidToken = [422, 'token_invalid', 'token', 'token_invalid'];
const next = 'a new password';

test('an address is verified by a mail, once', async () => {
  const ada = await cluster.signUp();
  const sent = await post('auth/email/send', undefined, ada.token);
  expect([sent.status, sent.body.data]).toEqual([202, {}]);
  const [mail] = await cluster.mails(ada.email);
  expect(mail!.link.href).toBe(`${cluster.url}/mail/verify-email?token=${mail!.token}`);
  const verified = await post('auth/email/verify', { token: mail!.token });
  expect([verified.status, verified.body.data.user]).toMatchObject([200, { id: ada.id, email_verified: true }]);
  const again = await post('auth/email/verify', { token: mail!.token });
  expect(outcome(again)).toEqual(invalidToken);
  expect(JSON.stringify(again.body)).not.toContain(mail!.token);
  const read = await cluster.rest('GET', '/v1/user', { key: ada.token });
  expect(read.body.data.user.email_verified).toBe(true);
});

test('only a user asks for a verification', async () => {
  const tenant = await cluster.tenant();
  for (const key of [undefined, 'x', await cluster.apiKey(tenant)]) {
    expect(outcome(await post('auth/email/send', undefined, key)).slice(0, 2)).toEqual([401, 'unauthenticated']);
  }
});

test('beyond five mails an hour the limit is told, but not where it could tell who is registered', async () => {
  const ada = await cluster.signUp();
  for (let count = 0; count < 5; count += 1) expect((await post('auth/email/send', undefined, ada.token)).status).toBe(202);
  const limited = await post('auth/email/send', undefined, ada.token);
  expect(outcome(limited).slice(0, 2)).toEqual([429, 'rate_limited']);
  expect(limited.headers.get('ratelimit-policy')).toBe('"mail";q=5;w=3600');
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(3_500);
  expect((await post('auth/password/forgot', { email: ada.email })).status).toBe(202);
  expect(await cluster.mails(ada.email, 5)).toHaveLength(5);
});

test('a wrong body names its field and repeats no secret', async () => {
  const answers = [
    await post('auth/email/verify', {}),
    await post('auth/email/verify', { token: 'a secret'.repeat(100) }),
    await post('auth/password/forgot', { email: 'ada' }),
    await post('auth/password/reset', { token: 'a secret' }),
    await post('auth/password/reset', { token: 'a secret', password: 'secret' }),
    await post('auth/password/reset', { token: 'a secret', password: 'a secret' }),
  ];
  expect(answers.map(outcome)).toEqual([
    [400, 'validation_failed', 'token', 'required'],
    [400, 'validation_failed', 'token', 'max'],
    [400, 'validation_failed', 'email', 'email'],
    [400, 'validation_failed', 'password', 'required'],
    [400, 'validation_failed', 'password', 'min'],
    invalidToken,
  ]);
  expect(JSON.stringify(answers.map(({ body }) => body))).not.toContain('a secret');
});

test('a reset ends sessions, their tokens and access keys, while API keys and the second factor stay', async () => {
  const ada = await cluster.signUp();
  const tenant = await cluster.tenant({ person: ada });
  const accounts = (key: string) => cluster.rest('GET', `/v1/tenants/${tenant.slug}/accounts`, { key });
  const apiKey = await cluster.apiKey(tenant);
  const { secret } = (await post('auth/totp', { password: ada.password }, ada.token)).body.data;
  const code = () => new TOTP({ secret }).generate();
  const { recovery_codes: codes } = (await post('auth/totp/confirm', { code: code() }, ada.token)).body.data;
  const session = (await login(ada, ada.password, codes[0])).body.data;
  const access = (await post(`tenants/${tenant.id}/access`, undefined, session.token)).body.data.access.key;
  expect([(await accounts(access)).status, (await accounts(apiKey)).status]).toEqual([200, 200]);

  const known = await post('auth/password/forgot', { email: ada.email });
  const unknown = await post('auth/password/forgot', { email: `nobody.${ada.email}` });
  expect([known.status, known.body]).toEqual([202, unknown.body]);
  const [mail] = await cluster.mails(ada.email);
  expect(mail!.link.pathname).toBe('/mail/reset-password');
  const reset = await post('auth/password/reset', { token: mail!.token, password: next });
  expect([reset.status, reset.body.data]).toEqual([200, {}]);
  expect(outcome(await post('auth/password/reset', { token: mail!.token, password: next }))).toEqual(invalidToken);

  for (const token of [ada.token, session.token]) {
    expect((await cluster.rest('GET', '/v1/user', { key: token })).status).toBe(401);
    expect((await cluster.rest('GET', `/v1/tenants/${tenant.id}/api-keys`, { key: token })).status).toBe(401);
    expect((await post(`tenants/${tenant.id}/access`, undefined, token)).status).toBe(401);
  }
  expect((await post('auth/refresh', { refresh_token: session.refresh_token })).status).toBe(401);
  const began = Date.now();
  await until(
    () => accounts(access),
    ({ status }) => status === 401,
  );
  expect(Date.now() - began).toBeLessThan(5_000);
  expect((await accounts(apiKey)).status).toBe(200);
  expect(outcome(await login(ada, ada.password, codes[1])).slice(0, 2)).toEqual([401, 'unauthenticated']);
  expect(outcome(await login(ada, next)).slice(0, 2)).toEqual([401, 'totp_required']);
  expect((await login(ada, next, codes[2])).status).toBe(200);
});

describe('the pages of links', () => {
  const policy = [
    `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'`,
    `form-action 'none'; frame-ancestors 'none'; base-uri 'none'`,
  ].join('; ');

  test('are static: what is in an address changes nothing, and opening one uses no token', async () => {
    const ada = await cluster.signUp();
    await post('auth/email/send', undefined, ada.token);
    const [{ link, token } = { link: new URL('x:'), token: '' }] = await cluster.mails(ada.email);
    for (const method of ['GET', 'HEAD']) expect((await fetch(link, { method })).status).toBe(200);
    const page = await (await fetch(link)).text();
    expect(page).not.toContain(token);
    for (const name of ['reset-password', 'accept-invitation', 'verify-email?token=%22%3E%3Cscript%3E']) {
      expect(await (await fetch(`${cluster.url}/mail/${name}`)).text()).toBe(page);
    }
    expect((await post('auth/email/verify', { token })).status).toBe(200);
  });

  test('run only their own script, in no frame, and tell nobody their address', async () => {
    const page = await fetch(`${cluster.url}/mail/verify-email?token=x`);
    const html = await page.text();
    expect(html).not.toMatch(/<script(?! src)|\sstyle=|\son\w+=/);
    const sources = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => source);
    expect(sources).toEqual(['page.css', 'page.js']);
    const parts = await Promise.all(sources.map((source) => fetch(`${cluster.url}/mail/${source!}`)));
    for (const { status, headers } of [page, ...parts]) {
      expect([status, headers.get('content-security-policy'), headers.get('referrer-policy')]).toEqual([200, policy, 'no-referrer']);
      expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff']);
    }
    const types = [page, ...parts].map(({ headers }) => headers.get('content-type')?.split(';')[0]);
    expect(types).toEqual(['text/html', 'text/css', 'text/javascript']);
    // Every form that the script looks for is there.
    const script = await parts[1]!.text();
    for (const [, id = ''] of html.matchAll(/<form id="([\w-]+)"/g)) expect(script).toContain(`'${id}'`);
  });

  test('are read only, and no others', async () => {
    expect((await cluster.rest('GET', '/mail/other')).status).toBe(404);
    expect((await cluster.rest('POST', '/mail/verify-email')).status).toBe(405);
  });
});
