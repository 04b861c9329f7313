// The guide in Chromium: accessible in both themes, usable by keyboard alone, narrow windows, search, copy.
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';
import type { Browser, Page } from 'playwright-core';
import { buildIfStale, builds } from '../../deploy/local/stale-build.ts';
import { guidePages } from '../../gateway/guide.ts';
import type { App } from '../../gateway/request-context.ts';
import { axeFaults, chromiumPath, keyboardFaults, newProfile, overflowAt360, startBrowser, type Profile } from './browser.ts';

const withBrowser = chromiumPath === undefined ? describe.skip : describe;

withBrowser('the guide', () => {
  const app = Fastify() as unknown as App;
  let browser: Browser;
  let profile: Profile;
  let page: Page;
  let url: string;

  beforeAll(async () => {
    await buildIfStale(builds.guide);
    guidePages(app);
    await app.listen({ port: 0, host: '127.0.0.1' });
    url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/docs/guide/`;
    browser = await startBrowser();
    profile = await newProfile(browser);
    await profile.context.grantPermissions(['clipboard-read', 'clipboard-write']);
    page = await profile.context.newPage();
  });

  afterEach(() => expect(profile.faults).toEqual([]));
  afterAll(async () => {
    await browser.close();
    await app.close();
  });

  test.each(['', 'tutorials/console-tour', 'tutorials/wallet-app-typescript', 'reference/errors', 'operate/runbook'])(
    'page "%s" is accessible in both themes, by keyboard, and in a narrow window',
    async (path) => {
      await page.goto(url + path);
      expect([await axeFaults(page), await overflowAt360(page), await keyboardFaults(page)]).toEqual([[], 0, []]);
    },
  );

  test('search is found and used by keyboard, and finds a word within a page', async () => {
    await page.goto(`${url}reference/errors`);
    await page.keyboard.press('/');
    await page.keyboard.type('otpauth authenticat');
    await page.getByRole('status').getByText('found').waitFor();
    expect(await axeFaults(page)).toEqual([]);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/how-to/work-as-a-team');
    await page.keyboard.press('/');
    await page.keyboard.type('zzzz');
    await page.getByText('Nothing found').waitFor();
    // No page has all of its words.
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('how do I undo a posting');
    await page.getByRole('status').getByText('found', { exact: false }).filter({ hasNotText: 'Nothing' }).waitFor();
    await page.keyboard.press('Escape');
    expect(await page.getByRole('dialog').count()).toBe(0);
  });

  test('a theme stays on the next page, and a copied command is the command', async () => {
    await page.goto(`${url}how-to/retry-safely`);
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    await page.getByRole('button', { name: 'Theme: system' }).click();
    const light = await background();
    await page.getByRole('button', { name: 'Theme: light' }).click();
    expect(await background()).not.toBe(light);
    const dark = await background();
    await page.getByRole('link', { name: 'Errors', exact: true }).first().click();
    await page.waitForURL('**/reference/errors');
    expect(await background()).toBe(dark);
    await page.getByRole('button', { name: 'Theme: dark' }).click();
    await page.goto(`${url}how-to/catch-up`);
    await page.locator('.code').first().hover();
    await page.getByRole('button', { name: 'Copy' }).first().click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const code = await page.locator('pre').first().textContent();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(code);
  });
});
