// The console's pages in a real browser, with the demo's data: every page by axe and keyboard, lists, the live log, reports and keys.
import { jest } from '@jest/globals';
import type { Page } from 'playwright-core';
import { withClient } from '../../deploy/local/databases.ts';
import { Ledger } from '../../gateway/clients/typescript/ledger.ts';
import { toUuid } from '../../services/platform/ids.ts';
import { axeFaults, chromiumPath, keyboardFaults, overflowAt360, type Profile } from './browser.ts';
import { openAs, people, startConsole, type Console } from './deployment.ts';

// A busy machine needs minutes for all pages.
jest.setTimeout(400_000);

const ifChromium = chromiumPath === undefined ? describe.skip : describe;

/** The pages below a tenant, and their headings. */
const pages: [path: string, heading: RegExp][] = [
  ['/', /^Overview$/],
  ['/accounts', /^Accounts$/],
  ['/accounts/OPERATING-CASH', /./],
  ['/post', /^New posting$/],
  ['/transactions', /^Transactions$/],
  ['/holds', /^Holds$/],
  ['/reports', /^Reports$/],
  ['/reports/trial-balance?depth=2', /^Trial balance$/],
  ['/reports/balance-sheet?depth=2&currency=NGN', /^Balance sheet$/],
  ['/reports/income-statement?depth=2&columns=quarter&currency=NGN', /^Income statement$/],
  ['/reports/cash-flow?depth=2&currency=USD', /^Cash flow$/],
  ['/reports/account-statement?account_code=OPERATING-CASH&currency=GBP&period=last-month', /^Account statement$/],
  ['/reports/general-ledger?account_code=OPERATING-CASH&currency=GBP&period=last-month', /^General ledger$/],
  ['/reports/journal?period=last-month&currency=GBP', /^Journal$/],
  ['/periods', /^Periods$/],
  ['/verification', /^Verification$/],
  ['/webhooks', /^Webhooks$/],
  ['/events', /^Event log$/],
  ['/events/1', / 1$/],
  ['/keys', /^API keys$/],
  ['/members', /^Members$/],
  ['/settings', /^Settings$/],
];

const heading = (page: Page, name: RegExp | string) => page.getByRole('heading', { level: 1, name });

/** Resolves when nothing is loaded any more. */
async function settled(page: Page, name: RegExp | string): Promise<void> {
  await heading(page, name).waitFor();
  // No locator of one place: several may be loading.
  while ((await page.locator('.loading').count()) > 0) await page.locator('.loading').first().waitFor({ state: 'detached' });
}

async function faultsOf(page: Page): Promise<string[]> {
  const overflow = await overflowAt360(page);
  return [...(await axeFaults(page)), ...(await keyboardFaults(page)), ...(overflow > 0 ? [`${overflow} pixels too wide`] : [])];
}

ifChromium('the console', () => {
  let app: Console;
  const profiles: Profile[] = [];

  beforeAll(async () => {
    app = await startConsole();
  });
  afterAll(() => app.close());
  afterEach(async () => {
    for (const { context } of profiles.splice(0)) await context.close();
  });

  /** A page of a new profile; what its pages do wrong is compared at the end of `use`. */
  async function use(
    path: string,
    work: (page: Page, profile: Profile) => Promise<void>,
    { person = people.owner, expected }: { person?: { email: string; password: string }; expected?: RegExp } = {},
  ): Promise<void> {
    const opened = await openAs(app, person, path, expected ? { expected } : {});
    profiles.push(opened);
    await work(opened.page, opened);
    expect(opened.faults).toEqual([]);
  }

  /** A tenant of a new user, with a chart. */
  async function ownTenant(): Promise<{ person: { email: string; password: string }; slug: string; ledger: Ledger; tenantId: string }> {
    const { owner, slug, id: tenantId } = await app.cluster.tenant();
    const ledger = new Ledger({ url: app.cluster.url, tenant: slug, token: owner.token });
    await ledger.accounts.setUp({ business_type: 'wallet' });
    return { person: owner, slug, ledger, tenantId };
  }

  const posting = (number: number, amount = '10.00') => ({
    idempotency_key: `p-${number}`,
    description: `Posting ${number}`,
    entries: [
      { account_code: 'SETTLEMENT-NGN', side: 'debit' as const, amount, currency: 'NGN' as const },
      { account_code: 'CUSTOMER-WALLETS-NGN', side: 'credit' as const, amount, currency: 'NGN' as const },
    ],
  });

  test('every page passes all rules of axe in light and dark, keeps to its policy, is reached by Tab, and fits 360 pixels', async () => {
    await use('/t/demo/settings', async (page) => {
      await heading(page, 'Settings').waitFor();
      const found: Record<string, string[]> = {};
      for (const [path, name] of pages) {
        await page.goto(`${app.url}/t/demo${path}`);
        await settled(page, name);
        found[path] = await faultsOf(page);
      }
      // Each kind of record, from its list.
      for (const list of ['/transactions', '/holds', '/webhooks']) {
        await page.goto(`${app.url}/t/demo${list}`);
        await page.getByRole('grid').getByRole('row').nth(1).click();
        await page.waitForURL(new RegExp(`${list}/\\w`));
        await settled(page, /./);
        found[`${list}/:id`] = await faultsOf(page);
      }
      expect(found).toEqual(Object.fromEntries(Object.keys(found).map((path) => [path, []])));
    });
  });

  test('a viewer reads, and what it may not do is disabled with the scope that it lacks, or answered as forbidden', async () => {
    await use(
      '/t/demo/transactions',
      async (page) => {
        await page.getByRole('grid').getByRole('row').nth(1).click();
        const reverse = page.getByRole('button', { name: 'Reverse…' });
        await reverse.waitFor();
        expect(await reverse.isDisabled()).toBe(true);
        expect(await page.getByText('needs transactions:write').count()).toBeGreaterThan(0);
        for (const [path, button] of [
          ['/keys', 'New key'],
          ['/members', 'Invite'],
          ['/periods', 'Close a period…'],
        ] as const) {
          await page.goto(`${app.url}/t/demo${path}`);
          await page.getByRole('button', { name: button }).waitFor();
          expect(await page.getByRole('button', { name: button }).isDisabled()).toBe(true);
        }
        await page.goto(`${app.url}/t/demo/webhooks`);
        const alert = page.getByRole('alert');
        await alert.waitFor();
        expect(await alert.innerText()).toMatch(/403[\s\S]*forbidden[\s\S]*Request/);
        expect(await axeFaults(page)).toEqual([]);
      },
      { person: people.viewer, expected: /403 \(Forbidden\)/ },
    );
  });

  test('a statement shows the days of the books, wherever its reader is; what a list opens takes the focus', async () => {
    const { person, slug, ledger } = await ownTenant();
    // In UTC, the zone of these books, that is the last hour of a day; in the reader's zone it is the next day.
    const day = new Date(Date.now() - 172_800_000).toISOString().slice(0, 10);
    await ledger.transactions.post({ ...posting(1), effective_at: `${day}T23:30:00Z` });
    await use(
      `/t/${slug}/accounts/SETTLEMENT-NGN`,
      async (page) => {
        await page.getByText('23:30').waitFor();
        await page.goto(`${app.url}/t/${slug}/transactions`);
        await page.getByRole('grid').getByRole('row').nth(1).focus();
        await page.keyboard.press('Enter');
        await heading(page, 'Posting 1').waitFor();
        await page.waitForFunction("document.activeElement.tagName === 'H1'");
      },
      { person },
    );
  });

  test('a double click reverses once; by keyboard alone', async () => {
    const { person, slug, ledger } = await ownTenant();
    const { transaction } = await ledger.transactions.post(posting(1));
    await use(
      `/t/${slug}`,
      async (page) => {
        await heading(page, 'Overview').waitFor();
        await page.keyboard.press('g');
        await page.keyboard.press('t');
        await heading(page, 'Transactions').waitFor();
        await page.getByRole('grid').getByRole('row').nth(1).focus();
        await page.keyboard.press('Enter');
        await page.waitForURL(new RegExp(transaction.transaction_id));
        await page.getByRole('button', { name: 'Reverse…' }).press('Enter');
        await page.getByLabel('Description').fill('Charged back');
        await page.getByRole('button', { name: 'Reverse this transaction' }).dblclick();
        await heading(page, 'Charged back').waitFor();
        const { transactions } = await ledger.transactions.list({ reverses: transaction.transaction_id });
        expect(transactions.map(({ description }) => description)).toEqual(['Charged back']);
      },
      { person },
    );
  });

  test('a list of 3,000 transactions scrolls to its end with fewer than 60 rows in the document, and its search finds one', async () => {
    await use('/t/demo/transactions', async (page) => {
      const rows = page.getByRole('grid').getByRole('row');
      await rows.nth(5).waitFor();
      const last = page.getByRole('row', { name: /Opening/ });
      for (let presses = 0; presses < 60 && (await last.count()) === 0; presses += 1) {
        await page.getByRole('grid').evaluate('(grid) => (grid.scrollTop = grid.scrollHeight)');
        expect(await rows.count()).toBeLessThan(60);
      }
      await page.getByLabel('Search').fill('live-16');
      await page.waitForURL(/q=live-16/);
      await page.getByRole('row', { name: /Card deposit/ }).waitFor();
      expect(await rows.count()).toBe(2);
      await page.goBack();
    });
  });

  test('the log shows a posting within a second, checks its links, and goes on after a break', async () => {
    const { person, slug, ledger } = await ownTenant();
    await use(
      `/t/${slug}/events`,
      async (page, { context }) => {
        await page.getByText('Live', { exact: true }).waitFor();
        await ledger.transactions.post(posting(2));
        await page.getByText('Posting 2').waitFor({ timeout: 5_000 });
        await context.setOffline(true);
        await page.getByText('You are offline').waitFor();
        await ledger.transactions.post(posting(3));
        await context.setOffline(false);
        await page.getByText('Posting 3').waitFor();
        await page.getByText('each linked to the one before').waitFor();
        expect(await page.getByText('You are offline').count()).toBe(0);
      },
      { person, expected: /net::ERR_INTERNET_DISCONNECTED|net::ERR_NETWORK_CHANGED/ },
    );
  });

  test('reports print without what surrounds them, and are downloaded in three formats', async () => {
    await use('/t/demo/reports/trial-balance?depth=2', async (page) => {
      await settled(page, 'Trial balance');
      await page.emulateMedia({ media: 'print' });
      expect(await page.getByRole('navigation').first().isVisible()).toBe(false);
      expect(await page.locator('.filters').isVisible()).toBe(false);
      await page.emulateMedia({ media: 'screen' });
      for (const [name, file] of [
        ['CSV', 'demo-trial-balance.csv'],
        ['Excel (XLSX)', 'demo-trial-balance.xlsx'],
        ['PDF', 'demo-trial-balance.pdf'],
      ] as const) {
        await page.getByRole('button', { name: 'Download' }).click();
        const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name }).click()]);
        expect(download.suggestedFilename()).toBe(file);
      }
    });
  });

  test('a key is shown once and revoked; the chains of the log and of the audit log are checked in the browser', async () => {
    const { person, slug, ledger } = await ownTenant();
    await use(
      `/t/${slug}/keys`,
      async (page) => {
        await page.getByRole('button', { name: 'New key' }).click();
        await page.getByLabel('Name').fill('Till');
        await page.getByText('Read balances').click();
        await page.getByRole('dialog').getByRole('button', { name: 'New key' }).click();
        const shown = page.getByRole('dialog', { name: 'The new key' });
        expect(await shown.locator('.secret-text').innerText()).toMatch(/^lk_live_/);
        await shown.getByRole('button', { name: 'Close' }).click();
        await page.getByRole('button', { name: 'Revoke…' }).click();
        await page.getByRole('button', { name: /Revoke this key/ }).click();
        await page.getByText('Revoked', { exact: true }).first().waitFor();
        const { api_keys: keys } = await ledger.keys.list();
        expect(keys.map(({ name, revoked_at: at }) => [name, at !== null])).toEqual([['Till', true]]);
        await page.goto(`${app.url}/t/${slug}/verification`);
        await page.getByRole('button', { name: 'Check the last' }).click();
        await page.getByText(/events read: no gap, every link fits/).waitFor();
        await page.getByRole('button', { name: 'Check the audit log' }).click();
        await page.getByText(/entries hashed: all as recorded/).waitFor();
      },
      { person },
    );
  });

  test('the browser checks the proof of a transaction and of an event, and that nothing has changed since a checkpoint that was kept; a freeze is seen', async () => {
    const { person, slug, ledger, tenantId } = await ownTenant();
    const { transaction } = await ledger.transactions.post(posting(1));
    await use(
      `/t/${slug}/transactions/${transaction.transaction_id}`,
      async (page) => {
        const isProven = page.getByText(/It stands in the signed log of \d+ events\./);
        await isProven.waitFor();
        await page.goto(`${app.url}/t/${slug}/events/1`);
        await isProven.waitFor();
        const kept = await (await ledger.proofs.checkpoint()).text();
        const { sequence } = (await ledger.transactions.post(posting(2))).transaction;
        await ledger.proofs.event(String(sequence));
        await page.goto(`${app.url}/t/${slug}/verification`);
        await page.getByLabel('Your checkpoint').fill(kept);
        await page.getByRole('button', { name: 'Check that nothing has changed' }).click();
        await page.getByText(`The first ${sequence - 1} of ${sequence} events have not changed.`).waitFor();
        await page.getByLabel('Your checkpoint').fill(kept.replace(`\n${sequence - 1}\n`, `\n${sequence - 2}\n`));
        await page.getByRole('button', { name: 'Check that nothing has changed' }).click();
        await page.getByText(/^the signature of .* is wrong$/).waitFor();
        // An answer of the server that is not what it signed.
        await page.route('**/proof', async (route) => {
          const answer = await (await route.fetch()).text();
          await route.fulfill({ contentType: 'application/json', body: answer.replace('"payload":"C', '"payload":"D') });
        });
        await page.goto(`${app.url}/t/${slug}/transactions/${transaction.transaction_id}`);
        await page.getByText('The proof does not hold: the payload does not have the hash payload_hash').waitFor();
        await withClient(app.cluster.databases.ledger.adminUrl, (admin) =>
          admin.query('select freeze_tenant($1, $2)', [toUuid('tenant', tenantId), 'a balance differs']),
        );
        await page.goto(`${app.url}/t/${slug}`);
        await page.getByRole('status').filter({ hasText: 'These books are frozen' }).getByRole('link', { name: 'Why' }).click();
        await page.getByText('a balance differs').waitFor();
      },
      { person },
    );
  });
});
