// The books that the benchmark posts to: one tenant with 1,000 customers and 100 tenants with ten each, every wallet funded.
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type Client } from '@connectrpc/connect';
import { IdentityService } from '../../proto/gen/identity/v1/identity_pb.js';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { DeploymentPlan, Service } from '../../deploy/local/plan.ts';
import { openCaller, type Caller } from '../../services/platform/caller.ts';
import type { Cluster } from './cluster.ts';
import { currency, wallet } from './posting.ts';

/** A tenant that can be posted to. */
export interface Tenant {
  id: string;
  slug: string;
  /** Text of an API key with every scope. */
  key: string;
}

/** Tenants with the same number of customers each. */
export interface Books {
  tenants: Tenant[];
  /** Customers of each tenant; their accounts are `wallet(1)` and up, `wallet(0)` is the merchant. */
  accounts: number;
  /** The tenants as the load tool reads them, `slug key` a line. */
  file: string;
}

/** Everything that was made. */
export interface AllBooks {
  one: Books;
  hundred: Books;
  /** Postings so far. */
  postings: number;
}

const scopes = ['accounts:read', 'accounts:write', 'balances:read', 'transactions:read', 'transactions:write'];

/** What a caller of a cluster's services needs of it. */
export interface Reached {
  known: Pick<DeploymentPlan, 'addresses' | 'internalToken'>;
}

/** Opens a connection of its own to a service of the cluster. */
export function callerOf(cluster: Reached, service: Service): Caller {
  const { addresses, internalToken } = cluster.known;
  return openCaller({ addresses: addresses[service], token: internalToken, maxMessageBytes: 32 << 20 });
}

/** Books to be made: tenants called `name-001` and up with so many customers each. */
export interface BooksPlan {
  name: string;
  tenants: number;
  accounts: number;
}

/** Makes what the benchmark posts to. */
export async function prepareBooks(cluster: Cluster): Promise<AllBooks> {
  const plans = [
    { name: 'one', tenants: 1, accounts: 1000 },
    { name: 'hundred', tenants: 100, accounts: 10 },
  ];
  const [one, hundred] = await makeBooks(cluster, plans);
  return { one: one!, hundred: hundred!, postings: 2000 };
}

/** Makes tenants, keys, charts and accounts, and funds every wallet by one posting. */
export async function makeBooks(cluster: Cluster, plans: BooksPlan[]): Promise<Books[]> {
  const callers = [callerOf(cluster, 'identity'), callerOf(cluster, 'ledger')] as const;
  const [identity, ledger] = [createClient(IdentityService, callers[0]), createClient(LedgerService, callers[1])];
  try {
    const email = `bench.${randomBytes(6).toString('hex')}@example.com`;
    const { user } = await identity.register({ email, password: randomBytes(12).toString('hex'), firstName: 'Bea', lastName: 'Bench' });
    const make = async ({ name, tenants, accounts }: BooksPlan): Promise<Books> => {
      const made = Array.from({ length: tenants }, () => undefined as unknown as Tenant);
      await inParallel(8, tenants, async (place) => {
        made[place] = await newTenant(identity, ledger, user?.id ?? '', `${name}-${String(place + 1).padStart(3, '0')}`);
      });
      await inParallel(16, tenants * (accounts + 1), async (place) => {
        const tenantId = made[place % tenants]!.id;
        await newWallet(ledger, tenantId, Math.floor(place / tenants));
      });
      await inParallel(4, tenants, (place) => fund(ledger, made[place]!.id, accounts));
      const file = join(cluster.directory, `${name}.txt`);
      writeFileSync(file, made.map(({ slug, key }) => `${slug} ${key}\n`).join(''));
      return { tenants: made, accounts, file };
    };
    const books: Books[] = [];
    for (const plan of plans) books.push(await make(plan));
    return books;
  } finally {
    for (const caller of callers) caller.close();
  }
}

async function newTenant(
  identity: Client<typeof IdentityService>,
  ledger: Client<typeof LedgerService>,
  userId: string,
  slug: string,
): Promise<Tenant> {
  const { tenant } = await identity.createTenant({ userId, name: slug, slug, businessType: 'wallet' });
  const tenantId = tenant?.id ?? '';
  const { key } = await identity.createApiKey({ userId, tenantId, name: 'benchmark', scopes });
  await ledger.setUpChart({ tenantId, businessType: 'wallet', actor: userId, requestId: 'benchmark' });
  return { id: tenantId, slug, key };
}

async function newWallet(ledger: Client<typeof LedgerService>, tenantId: string, customer: number): Promise<void> {
  await ledger.createAccount({
    tenantId,
    accountCode: wallet(customer),
    name: customer === 0 ? 'Merchant' : `Wallet of customer ${customer}`,
    type: 'liability',
    currency,
    parentCode: 'CUSTOMER-WALLETS',
    allowNegative: false,
    actor: 'benchmark',
    requestId: 'benchmark',
  });
}

/** A deposit into every customer's wallet, more than the benchmark can ever take out of it. */
async function fund(ledger: Client<typeof LedgerService>, tenantId: string, accounts: number): Promise<void> {
  const amount = '100000000.00';
  const postings = Array.from({ length: accounts }, (_, place) => ({
    tenantId,
    idempotencyKey: `deposit-${place + 1}`,
    description: 'Deposit',
    entries: [
      { accountCode: `SETTLEMENT-${currency}`, amount, side: 'debit', currency },
      { accountCode: wallet(place + 1), amount, side: 'credit', currency },
    ],
    actor: 'benchmark',
    requestId: 'benchmark',
  }));
  const { results } = await ledger.postTransactions({ postings });
  const refused = results.find(({ outcome }) => outcome.case !== 'transaction');
  if (refused) throw new Error(`a deposit was refused: ${JSON.stringify(refused.outcome.value)}`);
}

async function inParallel(hands: number, count: number, work: (place: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: hands }, async () => {
      while (next < count) await work(next++);
    }),
  );
}
