// From the first visit to a posting in a real browser, by keyboard alone; and that a posting is done once, whatever happens.
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { buildIfStale, builds } from '../../deploy/local/stale-build.ts';
import type { Cluster } from '../cluster.ts';
import { deposit, newWallet, type Customer } from '../customer.ts';
import { addMember } from '../members.ts';
import { sharedCluster } from '../shared-cluster.ts';
import { axeFaults, chromiumPath, newProfile, startBrowser } from './browser.ts';
import { openAs } from './deployment.ts';

let cluster: Cluster;
let browser: Browser;
let url: string;
let customer: Customer;

beforeAll(async () => {
  if (chromiumPath === undefined) return;
  [cluster, browser] = await Promise.all([buildIfStale(builds.console).then(sharedCluster), startBrowser()]);
  url = `${cluster.url}/console`;
  customer = await newWallet(cluster);
});
afterAll(async () => {
  if (chromiumPath !== undefined) await browser.close();
});

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor();

/** Goes to what has this name by the Tab key, as a user does. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press('Tab');
    const focused = page.locator(':focus');
    // From the end of the page it leads to the browser's own controls.
    if ((await focused.count()) === 0) continue;
    const label = await focused.evaluate((element) =>
      [element.getAttribute('aria-label'), element.closest('.field, label')?.textContent, element.textContent].join(' '),
    );
    if (name.test(label)) return;
  }
  throw new Error(`the Tab key does not lead to ${String(name)}`);
}

async function fillLine(page: Page, line: number, account: string, side: 'Debit' | 'Credit', amount: string): Promise<void> {
  await page.getByLabel(`Account of line ${line}`).fill(account);
  await page.keyboard.press('Escape');
  await page.getByLabel(`${side} of line ${line}`).fill(amount);
}

/** The form with two lines that balance. */
async function filled(page: Page, amount: string, debit = 'SETTLEMENT-USD'): Promise<void> {
  await fillLine(page, 1, debit, 'Debit', amount);
  await fillLine(page, 2, 'CUSTOMER-WALLETS-USD', 'Credit', amount);
  await page.getByText('USD: balanced').waitFor();
}

const countOf = async (amount: string): Promise<number> => {
  const { transactions } = await customer.get('transactions?limit=100');
  return transactions.filter((each: { amount: string }) => each.amount === amount).length;
};

(chromiumPath === undefined ? describe.skip : describe)('a posting', () => {
  test('a new user gets from the login page to a statement by keyboard alone', async () => {
    const { context, faults } = await newProfile(browser);
    const page = await context.newPage();
    await page.goto(url);
    await heading(page, 'Log in');
    await tabTo(page, /Create an account/);
    await page.keyboard.press('Enter');
    await heading(page, 'Create an account');
    for (const text of ['Grace', 'Hopper', `grace.${Date.now()}@example.com`, 'correct horse battery']) {
      await page.keyboard.type(text);
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Enter');
    await heading(page, 'Create a tenant');
    await page.keyboard.type(`Hopper Wallets ${Date.now()}`);
    await page.keyboard.press('Enter');
    await heading(page, 'Overview');
    await page.getByText('Nothing is posted yet').waitFor();
    await page.keyboard.press('n');
    await heading(page, 'New posting');
    await page.getByLabel('Account of line 1').waitFor();
    await page.keyboard.type('First deposit');
    await tabTo(page, /Account of line 1/);
    await page.keyboard.type('settlement-u');
    await page.getByRole('option', { name: 'SETTLEMENT-USD' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await tabTo(page, /Debit of line 1/);
    await page.keyboard.type('12.50');
    await tabTo(page, /Account of line 2/);
    await page.keyboard.type('CUSTOMER-WALLETS-USD');
    await page.keyboard.press('Escape');
    await tabTo(page, /Credit of line 2/);
    await page.keyboard.type('12.50');
    await page.getByText('USD: balanced').waitFor();
    await page.keyboard.press('Enter');
    await page.getByText('Posted', { exact: true }).waitFor();
    await tabTo(page, /New posting/);
    await page.keyboard.press('/');
    await page.getByRole('searchbox').waitFor();
    await page.keyboard.type('customer-wallets-usd');
    await page.getByRole('option', { name: /^CUSTOMER-WALLETS-USD/ }).waitFor();
    await page.keyboard.press('Enter');
    await heading(page, 'CUSTOMER-WALLETS-USD');
    const statement = page.getByRole('region', { name: 'Statement' });
    await statement.getByRole('link', { name: 'First deposit' }).waitFor();
    await tabTo(page, /Closing balance/);
    expect(await page.getByRole('slider').getAttribute('aria-valuetext')).toMatch(/USD 12\.50/);
    await page.keyboard.press('ArrowLeft');
    expect(await page.getByRole('slider').getAttribute('aria-valuetext')).toMatch(/USD 0\.00/);
    expect(faults).toEqual([]);
    await context.close();
  });

  test('is done once by a double click, and once when its answer is lost', async () => {
    const { tenant } = customer;
    const { context, page } = await openAs({ browser, url }, tenant.owner, `/t/${tenant.slug}/post`, { expected: /ERR_FAILED/ });
    await filled(page, '31.07');
    await page.getByRole('button', { name: 'Post', exact: true }).dblclick();
    await page.getByText('Posted', { exact: true }).waitFor();
    await filled(page, '31.08');
    let lost = 0;
    await page.route('**/transactions/double-entry', async (route) => {
      await route.fetch();
      lost += 1;
      await (lost < 3 ? route.abort() : route.continue());
    });
    await page.getByRole('button', { name: 'Post', exact: true }).click();
    await page.getByText('Posted', { exact: true }).waitFor();
    // The second click would have arrived by now.
    await pause(500);
    expect([lost, await countOf('31.07'), await countOf('31.08')]).toEqual([3, 1, 1]);
    await context.close();
  });

  test('is checked without being posted, and an error stands at its line', async () => {
    const { tenant } = customer;
    const { context, page, faults } = await openAs({ browser, url }, tenant.owner, `/t/${tenant.slug}/post`, { expected: /status of 422/ });
    await filled(page, '31.09');
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('It would be posted.').waitFor();
    await filled(page, '31.09', 'NO-SUCH-ACCOUNT');
    await page.getByRole('button', { name: 'Post', exact: true }).click();
    await page.getByRole('alert').waitFor();
    const account = page.getByLabel('Account of line 1');
    expect(await account.getAttribute('aria-invalid')).toBe('true');
    const described = await account.getAttribute('aria-describedby');
    expect(described!.split(' ').length).toBeGreaterThan(0);
    expect(await countOf('31.09')).toBe(0);
    expect(await axeFaults(page)).toEqual([]);
    expect(faults).toEqual([]);
    await context.close();
  });

  test('can not be made by a viewer, who sees which scope is missing', async () => {
    const { tenant } = customer;
    const viewer = await cluster.signUp();
    await addMember(cluster.databases.identity.adminUrl, tenant.id, viewer.id, 'viewer');
    const { context, page, faults } = await openAs({ browser, url }, viewer, `/t/${tenant.slug}/post`);
    await page.getByText('needs transactions:write').first().waitFor();
    await filled(page, '31.10');
    for (const name of ['Check', 'Post']) expect(await page.getByRole('button', { name, exact: true }).isDisabled()).toBe(true);
    expect(await axeFaults(page)).toEqual([]);
    expect(faults).toEqual([]);
    await context.close();
  });

  test('shows personal data to those who may read it, until its subject is erased', async () => {
    const { tenant } = customer;
    const personal = [{ subject: 'customer-7', data: { name: 'Ada of Number 11' } }];
    const { transaction } = (
      await customer.post('transactions/double-entry', deposit('31.11', { personal, description: 'To Ada of Number 12' }))
    ).body.data;
    const { context, page, faults } = await openAs(
      { browser, url },
      tenant.owner,
      `/t/${tenant.slug}/transactions/${transaction.transaction_id}`,
    );
    await page.getByText('Ada of Number 11').waitFor();
    await page.getByRole('link', { name: 'Settings' }).first().click();
    await page.getByLabel('Subject').fill('customer-7');
    await page.getByRole('button', { name: 'Erase…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Erase', exact: true }).click();
    await page.getByText('The subject is erased.').waitFor();
    expect(await axeFaults(page)).toEqual([]);
    await page.goBack();
    await page.getByText('Erased', { exact: true }).waitFor();
    expect([await page.getByText('Ada of Number 11').count(), faults]).toEqual([0, []]);
    // A name in a text is redacted.
    await page.getByRole('button', { name: 'Redact…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('description', { exact: true }).click();
    await dialog.getByLabel('Reason').fill('A name slipped in');
    await dialog.getByRole('button', { name: 'Redact texts' }).click();
    await page.getByRole('heading', { name: 'Transaction', exact: true }).waitFor();
    expect([await page.getByText('of Number 12').count(), await axeFaults(page), faults]).toEqual([0, [], []]);
    await context.close();
  });
});
