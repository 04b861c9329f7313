// Logging in and out of the console in a real browser: what is kept, what is shared between tabs, and how a session ends.
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { buildIfStale, builds } from '../../deploy/local/stale-build.ts';
import { codeOf } from '../second-factor.ts';
import type { Cluster, Person } from '../cluster.ts';
import { sharedCluster } from '../shared-cluster.ts';
import { chromiumPath, newProfile, startBrowser } from './browser.ts';
import { logIn, openAs } from './deployment.ts';

let cluster: Cluster;
let browser: Browser;
let url: string;

beforeAll(async () => {
  if (chromiumPath === undefined) return;
  [cluster, browser] = await Promise.all([buildIfStale(builds.console).then(sharedCluster), startBrowser()]);
  url = `${cluster.url}/console`;
});
afterAll(async () => {
  if (chromiumPath !== undefined) await browser.close();
});

const loginShown = (page: Page) => page.getByRole('heading', { name: 'Log in' }).waitFor();
const overviewShown = (page: Page) => page.getByRole('heading', { name: 'Overview' }).waitFor();

/** A tenant's owner in a new profile, on the overview. */
async function opened() {
  const { owner, slug } = await cluster.tenant();
  // The browser reports every answer of 401.
  const profile = await openAs({ browser, url }, owner, `/t/${slug}`, { expected: /status of 401/ });
  await overviewShown(profile.page);
  return { ...profile, owner, slug };
}

async function newTab(context: BrowserContext, path: string): Promise<Page> {
  const tab = await context.newPage();
  await tab.goto(url + path);
  return tab;
}

/** Ends all sessions of a user but a new one. */
async function endElsewhere({ email, password }: Person): Promise<void> {
  const login = await cluster.rest('POST', '/v1/auth/login', { body: { email, password } });
  const body = { current: password, password: `${password}2` };
  const changed = await cluster.rest('POST', '/v1/auth/password/change', { key: login.body.data.token, body });
  expect(changed.status).toBe(200);
}

(chromiumPath === undefined ? describe.skip : describe)('the session of a browser', () => {
  test('a wrong password is answered on the page; the right one leads to where the address pointed', async () => {
    const { owner, slug } = await cluster.tenant();
    const { context, faults } = await newProfile(browser, { expected: /status of 401/ });
    const page = await newTab(context, `/t/${slug}/accounts?currency=USD`);
    await logIn(page, { ...owner, password: 'wrong' });
    await page.getByRole('alert').getByText('unauthenticated').waitFor();
    await logIn(page, owner);
    await page.getByRole('heading', { name: 'Accounts' }).waitFor();
    expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe(`/console/t/${slug}/accounts?currency=USD`);
    expect(faults).toEqual([]);
    await context.close();
  });

  test('no script can read what outlives the page: a cookie, and nothing in any storage', async () => {
    const { context, page } = await opened();
    const cookies = await context.cookies();
    expect(cookies).toMatchObject([
      { name: '__Host-ledger_session', httpOnly: true, secure: true, sameSite: 'Strict', path: '/', domain: '127.0.0.1' },
    ]);
    const kept = await page.evaluate(async () => {
      const { document, localStorage, sessionStorage, indexedDB, caches } = globalThis as any;
      return [
        document.cookie,
        localStorage.length,
        sessionStorage.length,
        (await indexedDB.databases()).length,
        (await caches.keys()).length,
      ];
    });
    expect(kept).toEqual(['', 0, 0, 0, 0]);
    await context.close();
  });

  test('three tabs that reload at once all stay logged in, and a log-out in one is one in all', async () => {
    const { context, page, faults, slug } = await opened();
    const tabs = [page, await newTab(context, `/t/${slug}`), await newTab(context, `/t/${slug}`)];
    // Also while they still renew the session.
    await Promise.all(tabs.map((tab) => tab.reload({ waitUntil: 'commit' })));
    await Promise.all(tabs.map((tab) => tab.reload()));
    await Promise.all(tabs.map(overviewShown));
    await page.getByRole('button', { name: /^Your account/ }).click();
    await page.getByRole('menuitem', { name: 'Log out' }).click();
    await Promise.all(tabs.map(loginShown));
    expect(await context.cookies()).toEqual([]);
    expect(faults).toEqual([]);
    await context.close();
  });

  test('a session that ends elsewhere ends on the page within five seconds', async () => {
    const { context, page, owner } = await opened();
    await endElsewhere(owner);
    const ended = Date.now();
    await loginShown(page);
    // With the time that a busy machine may need.
    expect(Date.now() - ended).toBeLessThan(8_000);
    await context.close();
  });

  test('where another user logs in, every tab is theirs and shows nothing of the first', async () => {
    const { context, page, slug } = await opened();
    await context.clearCookies();
    const tab = await newTab(context, '/');
    const other = await cluster.tenant();
    await logIn(tab, other.owner);
    await overviewShown(tab);
    await page.getByText('You are not a member of this tenant').waitFor();
    await page.goto(url);
    await page.getByText(`${other.slug} · owner`).waitFor();
    expect(await page.getByText(slug).count()).toBe(0);
    await context.close();
  });

  test('without HTTPS the page says that it is needed', async () => {
    const { context, page } = await opened();
    await context.route('http://ledger.test/**', async (route) => {
      await route.fulfill({ response: await route.fetch({ url: route.request().url().replace('http://ledger.test', cluster.url) }) });
    });
    await page.goto('http://ledger.test/console/');
    await page.getByRole('heading', { name: 'This page needs HTTPS' }).waitFor();
    // What is still on its way, such as the icon, is no failure.
    await context.unrouteAll({ behavior: 'ignoreErrors' });
    await context.close();
  });

  test('a secret that is shown once stays until it is closed', async () => {
    const { context, page, slug } = await opened();
    await page.goto(`${url}/t/${slug}/keys`);
    await page.getByRole('button', { name: 'New key' }).first().click();
    await page.getByLabel('Name').fill('shop');
    await page.getByText('accounts:read', { exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'New key' }).click();
    const secret = page.getByText(/^lk_live_/);
    await secret.waitFor();
    await page.keyboard.press('Escape');
    await page.mouse.click(5, 5);
    expect(await secret.isVisible()).toBe(true);
    await page.getByRole('button', { name: 'Close' }).click();
    await secret.waitFor({ state: 'detached' });
    await context.close();
  });

  test('a user with a second factor is asked for a code', async () => {
    const person = await cluster.signUp();
    const started = await cluster.rest('POST', '/v1/auth/totp', { key: person.token, body: { password: person.password } });
    const { secret } = started.body.data;
    await cluster.rest('POST', '/v1/auth/totp/confirm', { key: person.token, body: { code: codeOf(secret) } });
    const { context, page } = await openAs({ browser, url }, person, '/', { expected: /status of 401/ });
    await page.getByLabel('Code of the second factor').fill(codeOf(secret, 1));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Create a tenant' }).waitFor();
    await context.close();
  });

  test('without a network the page stays and says so', async () => {
    const { context, page } = await opened();
    await context.setOffline(true);
    await page.getByText('You are offline.').waitFor();
    await context.setOffline(false);
    await page.getByText('You are offline.').waitFor({ state: 'detached' });
    await overviewShown(page);
    await context.close();
  });

  test('a proxy may serve all of it below another path', async () => {
    const proxy = await startProxy('/books', cluster.url);
    const { owner, slug } = await cluster.tenant();
    const at = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/books/console`;
    const { context, page, faults } = await openAs({ browser, url: at }, owner, '/');
    await overviewShown(page);
    expect(page.url()).toBe(`${at}/t/${slug}`);
    await page.getByRole('link', { name: 'Accounts', exact: true }).click();
    await page.reload();
    await page.getByRole('heading', { name: 'Accounts' }).waitFor();
    expect(faults).toEqual([]);
    await context.close();
    proxy.closeAllConnections();
    proxy.close();
  });
});

/** Passes on what is below a path, without it. */
async function startProxy(below: string, to: string): Promise<Server> {
  const server = createServer((incoming, response) => {
    if (!incoming.url!.startsWith(`${below}/`)) return void response.writeHead(404).end();
    const { method, headers } = incoming;
    const outgoing = request(to + incoming.url!.slice(below.length), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    outgoing.on('error', () => response.destroy());
    return void incoming.pipe(outgoing);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return server;
}
