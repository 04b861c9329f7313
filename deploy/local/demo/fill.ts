// Fills a deployment with a tenant that has a year of business; a second call changes nothing.
import { setTimeout as pause } from 'node:timers/promises';
import { Ledger, LedgerError } from '../../../gateway/clients/typescript/ledger.ts';
import { scopes } from '../../../services/platform/roles.ts';
import { customersOf, demoAccounts, type Customer } from './chart.ts';
import { bookSettings, closePeriods, makeHolds, saveFilters, setLimits, tryRefused } from './closing.ts';
import { goLive, lastKey, receiverOf } from './live.ts';
import { inviteColleagues, logIn, makeKeys, owner, verifyEmail } from './people.ts';
import { Poster } from './posting.ts';
import type { DemoReceiver } from './receiver.ts';
import { yearOfBusiness, type Size } from './year.ts';

const seed = 42;
const slug = 'demo';

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
export async function fillDemo({ url, size: wanted = fullSize, mailDirectory, receiverPort = 0, say }: DemoOptions): Promise<Demo> {
  const user = new Ledger({ url, tenant: slug, token: await logIn(url, owner), timeoutMs: 60_000 });
  const { tenant, isNew } = await tenantOf(user, wanted);
  const answer = { email: owner.email, password: owner.password, tenantId: tenant.id, slug };
  if (!isNew && (await user.transactions.list({ idempotency_key: lastKey })).transactions.length > 0) {
    const { access } = await user.keys.access();
    return { ...answer, key: access.key, changed: false, receiver: await receiverOf(user, receiverPort) };
  }
  const { api_key: key } = await user.keys.create({ name: 'Demo', scopes: [...scopes] });
  const ledger = new Ledger({ url, tenant: slug, key: key.key, timeoutMs: 60_000 });
  const { size, end } = plannedBy(tenant.description ?? '');
  const customers = customersOf(size.customers, seed);
  say?.(`opening the books of ${customers.length} customers`);
  await openBooks(ledger, customers);
  const hasMails = mailDirectory !== undefined && (await verifyEmail(user, mailDirectory));
  await inviteColleagues(user, hasMails ? mailDirectory : undefined);
  await makeKeys(user);
  await postYear(ledger, size, end, say);
  await closePeriods(ledger, end);
  await setLimits(ledger);
  await saveFilters(ledger);
  const codes = customers.filter(({ home }) => home === 'NGN').map(({ code }) => code);
  await makeHolds(ledger, codes);
  await tryRefused(ledger, codes[0] ?? '');
  const receiver = await receiverOf(ledger, receiverPort);
  await goLive(ledger, codes, receiver);
  return { ...answer, key: key.key, changed: true, receiver };
}

async function tenantOf({ tenants }: Ledger, size: Size): Promise<{ tenant: { id: string; description?: string | null }; isNew: boolean }> {
  const known = (await tenants.list({ limit: 100 }).all()).find((each) => each.slug === slug);
  if (known) return { tenant: known, isNew: false };
  // A later run goes on with the same plan.
  const end = new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString();
  const description = `A year of business up to ${end}: ${size.customers} customers, ${size.transactions} transactions`;
  const { tenant } = await tenants.create({ name: 'Demo Wallet', slug, business_type: 'wallet', description }).catch((error: unknown) => {
    if (error instanceof LedgerError && error.code === 'slug_taken')
      throw new Error(`the tenant ${slug} belongs to another user than ${owner.email}`);
    throw error;
  });
  return { tenant, isNew: true };
}

function plannedBy(description: string): { size: Size; end: Date } {
  const [, end = '', customers, transactions] = /up to (\S+): (\d+) customers, (\d+) transactions/.exec(description) ?? [];
  if (transactions === undefined) throw new Error(`the tenant ${slug} was not made by the demo: its description has no plan`);
  return { size: { customers: Number(customers), transactions: Number(transactions) }, end: new Date(end) };
}

async function openBooks({ accounts, books }: Ledger, customers: Customer[]): Promise<void> {
  await accounts.setUp({ business_type: 'wallet' });
  await books.update(bookSettings);
  await accounts.createMany({ accounts: demoAccounts(customers), on_existing: 'skip' });
  // Postings are indexed as they come once the index is ready.
  const isReady = async () => (await books.get()).books.indexes.every(({ status }) => status === 'ready');
  for (const until = Date.now() + 10_000; !(await isReady()) && Date.now() < until;) await pause(50);
}

async function postYear(ledger: Ledger, size: Size, end: Date, say: DemoOptions['say']): Promise<void> {
  const poster = new Poster(ledger);
  let next = 1;
  for (const items of yearOfBusiness(size, end, seed)) {
    for (const item of items) await poster.add(item);
    const done = poster.posted + poster.replayed;
    if (done < next) continue;
    say?.(`${done.toLocaleString('en')} of about ${size.transactions.toLocaleString('en')} transactions`);
    next = done + size.transactions / 4;
  }
  await poster.flush();
}
