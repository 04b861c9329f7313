// The files of the console and the session of a browser, against a deployment of real processes.
import { buildIfStale, builds } from '../deploy/local/stale-build.ts';
import { startCluster, type Cluster } from '../test/cluster.ts';

let cluster: Cluster;
beforeAll(async () => {
  [cluster] = await Promise.all([startCluster(), buildIfStale(builds.console)]);
});
afterAll(() => cluster.stop());

const get = (path: string, headers: Record<string, string> = {}) => fetch(cluster.url + path, { headers, redirect: 'manual' });

test('every page is the program, whose files are named relative to it, under a policy that forbids all else', async () => {
  const redirect = await get('/console');
  expect([redirect.status, redirect.headers.get('location')]).toEqual([302, 'console/']);
  for (const [path, script] of [
    ['/console/', 'main.js'],
    ['/console/login?next=%2Fa.b', 'main.js'],
    ['/console/t/acme', '../main.js'],
    ['/console/t/acme/accounts/A.1', '../../../main.js'],
  ] as const) {
    const page = await get(path);
    expect([path, page.status, page.headers.get('content-type')]).toEqual([path, 200, 'text/html; charset=utf-8']);
    expect(await page.text()).toContain(`src="${script}"`);
    expect(page.headers.get('content-security-policy')).toBe(
      `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'`,
    );
  }
  expect((await get('/console/missing.js')).status).toBe(404);
});

test('a file is compressed where the browser can read it, and not sent again unchanged', async () => {
  const plain = await get('/console/main.js', { 'accept-encoding': 'identity' });
  const packed = await get('/console/main.js', { 'accept-encoding': 'gzip, br' });
  expect([plain.headers.get('content-encoding'), packed.headers.get('content-encoding')]).toEqual([null, 'br']);
  expect(await packed.text()).toBe(await plain.text());
  const etag = plain.headers.get('etag')!;
  expect((await get('/console/main.js', { 'if-none-match': etag })).status).toBe(304);
});

/** Calls as a page of this server does. */
async function session(
  method: string,
  path: string,
  { cookie = '', body, site = 'same-origin' }: { cookie?: string; body?: object; site?: string },
) {
  const headers = { 'sec-fetch-site': site, cookie, ...(body && { 'content-type': 'application/json' }) };
  const answer = await fetch(`${cluster.url}/console/session${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const [set] = answer.headers.getSetCookie();
  const answered = (await answer.json()) as { code?: string; data?: { session?: Record<string, unknown> | null } };
  return { status: answer.status, code: answered.code, session: answered.data?.session, set, cookie: set?.split(';')[0] ?? '' };
}

test('a session is opened, renewed and ended by a cookie that no script can read', async () => {
  const { email, password } = await cluster.signUp();
  const opened = await session('POST', '', { body: { email, password } });
  expect(opened.set).toMatch(/^__Host-ledger_session=lrt_[^;]+; Max-Age=2592000; Path=\/; HttpOnly; Secure; SameSite=Strict$/);
  expect(Object.keys(opened.session!)).toEqual(['token', 'expires_at', 'user']);
  expect((await cluster.rest('GET', '/v1/user', { key: opened.session!['token'] as string })).status).toBe(200);

  const renewed = await session('POST', '/refresh', { cookie: `a=b; ${opened.cookie}` });
  expect([renewed.status, renewed.cookie === opened.cookie]).toEqual([200, false]);
  // The page that asked may have been reloaded before it had the answer.
  const again = await Promise.all([1, 2].map(() => session('POST', '/refresh', { cookie: opened.cookie })));
  expect(again.map(({ status, cookie }) => [status, cookie])).toEqual([1, 2].map(() => [200, renewed.cookie]));
  const ended = await session('DELETE', '', { cookie: renewed.cookie });
  const cleared = '__Host-ledger_session=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Strict';
  expect([ended.status, ended.set]).toEqual([200, cleared]);
  for (const { cookie } of [renewed, opened])
    expect(await session('POST', '/refresh', { cookie })).toMatchObject({ status: 401, set: cleared });
  expect(await session('POST', '/refresh', {})).toMatchObject({ status: 200, session: null });
});

test('a wrong password opens no session, and no other site may use one', async () => {
  const { email, password } = await cluster.signUp();
  expect(await session('POST', '', { body: { email, password: 'wrong' } })).toMatchObject({ status: 401, set: undefined });
  const { cookie } = await session('POST', '', { body: { email, password } });
  for (const site of ['same-site', 'cross-site', 'none', '']) {
    for (const [method, path] of [
      ['POST', '/refresh'],
      ['DELETE', ''],
    ] as const)
      expect(await session(method, path, { cookie, site })).toMatchObject({ status: 403, code: 'forbidden', set: undefined });
    expect(await session('POST', '', { body: { email, password }, site })).toMatchObject({ status: 403, set: undefined });
  }
  expect((await session('POST', '/refresh', { cookie })).status).toBe(200);
});
