// Fills a deployment with a tenant that has a year of business; a second call changes nothing.
import { setTimeout as pause } from 'node:timers/promises';
import { ApiProblem, apiOf, type Api } from './api.ts';
import { customersOf, demoAccounts, type Customer } from './chart.ts';
import { bookSettings, closePeriods, makeHolds, saveFilters, setLimits, tryRefused } from './closing.ts';
import { goLive, lastKey, receiverOf } from './live.ts';
import { accessKey, inviteColleagues, logIn, makeKeys, newKey, owner } from './people.ts';
import { Poster } from './posting.ts';
import type { DemoReceiver } from './receiver.ts';
import { yearOfBusiness, type Size } from './year.ts';

const seed = 42;

/** What to fill, and how much of it. */
export interface DemoOptions {
  /** The gateway. */
  url: string;
  size?: Size;
  /** Where the deployment writes mails as files; without it no member accepts its invitation. */
  mailDirectory?: string;
  /** The port of the receiver of webhooks; 0 is any. */
  receiverPort?: number;
  /** Takes lines about the progress. */
  say?: (line: string) => void;
}

/** The tenant of the demo and how to get in. */
export interface Demo {
  email: string;
  password: string;
  tenantId: string;
  slug: string;
  /** An API key with all scopes; where nothing was changed, one for an hour. */
  key: string;
  /** Whether the call has changed anything. */
  changed: boolean;
  /** Receives the tenant's webhooks until it is closed. */
  receiver: DemoReceiver | undefined;
}

/** The size of `npm run demo`. */
export const fullSize: Size = { customers: 300, transactions: 20_000 };

/** Fills the tenant `demo`. The same size and day lead to the same balances. */
export async function fillDemo(options: DemoOptions): Promise<Demo> {
  const { url, say = () => undefined } = options;
  const user = await logIn(url, owner);
  const { tenant, isNew } = await tenantOf(user, options.size ?? fullSize);
  const [slug, tenantId, path] = [tenant.slug as string, tenant.id as string, `/v1/tenants/${tenant.slug}`];
  const { size, end } = plannedBy(tenant.description as string);
  const answer = { email: owner.email, password: owner.password, tenantId, slug };
  if (!isNew) {
    const key = await accessKey(user, tenantId);
    const reading = apiOf(url, key);
    const { transactions } = await reading('GET', `${path}/transactions?idempotency_key=${lastKey}`);
    if (transactions.length > 0)
      return { ...answer, key, changed: false, receiver: await receiverOf(reading, path, options.receiverPort ?? 0) };
  }
  const key = await newKey(user, tenantId, 'Demo');
  const api = apiOf(url, key);
  const customers = customersOf(size.customers, seed);
  say(`opening the books of ${customers.length} customers`);
  await openBooks(api, path, customers);
  await inviteColleagues(url, user, tenantId, options.mailDirectory);
  await makeKeys(user, tenantId);
  await postYear(api, path, size, end, say);
  await closePeriods(api, path, end);
  await setLimits(api, path);
  await saveFilters(api, path);
  const codes = customers.filter(({ home }) => home === 'NGN').map(({ code }) => code);
  await makeHolds(api, path, codes);
  await tryRefused(api, path, codes[0] ?? '');
  const receiver = await receiverOf(api, path, options.receiverPort ?? 0);
  await goLive(api, path, codes, receiver);
  return { ...answer, key, changed: true, receiver };
}

async function tenantOf(user: Api, size: Size): Promise<{ tenant: { slug: string; id: string; description: string }; isNew: boolean }> {
  const { tenants } = await user('GET', '/v1/tenants?limit=100');
  const known = tenants.find(({ slug }: { slug: string }) => slug === 'demo');
  if (known) return { tenant: known, isNew: false };
  // A later run goes on with the same plan.
  const end = new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString();
  const description = `A year of business up to ${end}: ${size.customers} customers, ${size.transactions} transactions`;
  const body = { name: 'Demo Wallet', slug: 'demo', business_type: 'wallet', description };
  const { tenant } = await user('POST', '/v1/tenants', body).catch((error: unknown) => {
    if (error instanceof ApiProblem && error.code === 'slug_taken')
      throw new Error(`the tenant demo belongs to another user than ${owner.email}`);
    throw error;
  });
  return { tenant, isNew: true };
}

function plannedBy(description: string): { size: Size; end: Date } {
  const [, end = '', customers, transactions] = /up to (\S+): (\d+) customers, (\d+) transactions/.exec(description) ?? [];
  if (transactions === undefined) throw new Error('the tenant demo was not made by the demo: its description has no plan');
  return { size: { customers: Number(customers), transactions: Number(transactions) }, end: new Date(end) };
}

async function openBooks(api: Api, path: string, customers: Customer[]): Promise<void> {
  await api('POST', `${path}/accounts/setup`, { business_type: 'wallet' });
  await api('PATCH', `${path}/books`, bookSettings);
  await api('POST', `${path}/accounts/batch`, { accounts: demoAccounts(customers), on_existing: 'skip' });
  // Postings are indexed as they come once the index is ready.
  const isReady = ({ books }: any) => books.indexes.every(({ status }: { status: string }) => status === 'ready');
  for (const until = Date.now() + 10_000; !isReady(await api('GET', `${path}/books`)) && Date.now() < until;) await pause(50);
}

async function postYear(api: Api, path: string, size: Size, end: Date, say: (line: string) => void): Promise<void> {
  const poster = new Poster(api, path);
  let next = 0;
  for (const items of yearOfBusiness(size, end, seed)) {
    for (const item of items) await poster.add(item);
    const done = poster.posted + poster.replayed;
    if (done < next) continue;
    say(`${done.toLocaleString('en')} of about ${size.transactions.toLocaleString('en')} transactions`);
    next = done + size.transactions / 4;
  }
  await poster.flush();
}
