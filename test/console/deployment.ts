// The deployment, the browser and the people of the console's tests.
import type { Browser, Page } from 'playwright-core';
import { fillDemo } from '../../deploy/local/demo/fill.ts';
import { Ledger } from '../../gateway/clients/typescript/ledger.ts';
import { buildIfStale, builds } from '../../deploy/local/stale-build.ts';
import type { Cluster } from '../cluster.ts';
import { sharedCluster } from '../shared-cluster.ts';
import { newProfile, startBrowser, type Profile } from './browser.ts';

/** What the tests of the console share. */
export interface Console {
  cluster: Cluster;
  browser: Browser;
  /** Of the console, without a slash at the end. */
  url: string;
  /** With the rights of the demo's owner. */
  ledger: Ledger;
  close(): Promise<void>;
}

/** Who can log in to the demo's tenant. */
export const people = {
  owner: { email: 'demo@example.com', password: 'demo-password-42' },
  viewer: { email: 'viewer@example.com', password: 'demo-password-42' },
};

/** Starts the deployment with demo data, and Chromium. */
export async function startConsole(): Promise<Console> {
  const [cluster, browser] = await Promise.all([buildIfStale(builds.console).then(sharedCluster), startBrowser()]);
  const size = { customers: 40, transactions: 3_000 };
  const { key, receiver } = await fillDemo({ url: cluster.url, mailDirectory: cluster.mailDirectory, size });
  return {
    cluster,
    browser,
    url: `${cluster.url}/console`,
    ledger: new Ledger({ url: cluster.url, tenant: 'demo', key }),
    close: async () => {
      await browser.close();
      await receiver?.close();
    },
  };
}

/** A page of a new profile whose user has logged in, on the path below the tenant. */
export async function openAs(
  { browser, url }: Pick<Console, 'browser' | 'url'>,
  person: { email: string; password: string },
  path = '/t/demo',
  options: Parameters<typeof newProfile>[1] = {},
): Promise<Profile & { page: Page }> {
  const profile = await newProfile(browser, options);
  const page = await profile.context.newPage();
  await page.goto(url + path);
  await logIn(page, person);
  return { ...profile, page };
}

/** Fills in the login page. */
export async function logIn(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}
