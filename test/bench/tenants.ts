// The tenants that benchmarks post to: groups with the same number of customers each, every wallet funded.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type Client } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { NotifierService } from '../../proto/gen/notifier/v1/notifier_pb.js';
import type { Service } from '../../deploy/local/plan.ts';
import { openCaller, type Caller } from '../../services/platform/caller.ts';
import type { Cluster } from '../cluster.ts';
import { currentRun } from '../run.ts';
import { currency, wallet } from './posting.ts';
import { secret, type BenchReceiver } from './receiver.ts';

/** A tenant that can be posted to. */
export interface Tenant {
  id: string;
  slug: string;
  /** An API key with every scope. */
  key: string;
}

/** Tenants with the same number of customers each. */
export interface TenantGroup {
  tenants: Tenant[];
  /** Customers per tenant; their accounts are `wallet(1)` and up, `wallet(0)` is the merchant. */
  accounts: number;
  /** A file for the load tool: `slug key`, a line each. */
  file: string;
}

/** What a group has; its file is called after it. */
export interface GroupPlan {
  name: string;
  tenants: number;
  accounts: number;
}

const by = { actor: 'benchmark', requestId: 'benchmark' };

/** Opens a connection to a service of the cluster. */
export function callerOf({ addresses, internalToken }: Pick<Cluster, 'addresses' | 'internalToken'>, service: Service): Caller {
  return openCaller({ addresses: addresses[service], token: internalToken, maxMessageBytes: 8 << 20 });
}

/** Makes tenants, keys, charts and accounts, and funds every wallet by one posting. */
export async function makeTenants(cluster: Cluster, plans: GroupPlan[]): Promise<TenantGroup[]> {
  const caller = callerOf(cluster, 'ledger');
  const ledger = createClient(LedgerService, caller);
  try {
    const person = await cluster.signUp();
    const groups: TenantGroup[] = [];
    for (const { name, tenants: count, accounts } of plans) {
      const tenants: Tenant[] = [];
      await inParallel(8, count, async (index) => {
        const tenant = await cluster.tenant({ person });
        await ledger.setUpChart({ tenantId: tenant.id, businessType: 'wallet', ...by });
        tenants[index] = { id: tenant.id, slug: tenant.slug, key: await cluster.apiKey(tenant) };
      });
      await inParallel(16, count * (accounts + 1), (index) => newWallet(ledger, tenants[index % count]!.id, Math.floor(index / count)));
      await inParallel(4, count, (index) => fund(ledger, tenants[index]!.id, accounts));
      const file = join(currentRun().directory, `${name}.txt`);
      writeFileSync(file, tenants.map(({ slug, key }) => `${slug} ${key}\n`).join(''));
      groups.push({ tenants, accounts, file });
    }
    return groups;
  } finally {
    caller.close();
  }
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
    ...by,
  });
}

/** Of one call. */
const maxPostings = 1_000;

/** A deposit into every wallet, more than the benchmark can spend. */
async function fund(ledger: Client<typeof LedgerService>, tenantId: string, accounts: number): Promise<void> {
  const amount = '100000000.00';
  const postings = Array.from({ length: accounts }, (_, index) => ({
    tenantId,
    idempotencyKey: `deposit-${index + 1}`,
    description: 'Deposit',
    entries: [
      { accountCode: `SETTLEMENT-${currency}`, amount, side: 'debit', currency },
      { accountCode: wallet(index + 1), amount, side: 'credit', currency },
    ],
    ...by,
  }));
  for (let from = 0; from < accounts; from += maxPostings) {
    const { results } = await ledger.postTransactions({ postings: postings.slice(from, from + maxPostings) });
    const refused = results.find(({ outcome }) => outcome.case !== 'transaction');
    if (refused) throw new Error(`a deposit was refused: ${JSON.stringify(refused.outcome.value)}`);
  }
}

/** Has the postings of these tenants delivered to the receiver from now on. */
export async function subscribe(cluster: Cluster, tenants: Tenant[], receiver: BenchReceiver): Promise<void> {
  const caller = callerOf(cluster, 'notifier');
  const notifier = createClient(NotifierService, caller);
  try {
    await inParallel(8, tenants.length, async (index) => {
      const webhook = { tenantId: tenants[index]!.id, url: `${receiver.url}/hook`, secret, events: ['transaction.posted'] };
      await notifier.configureWebhook(webhook);
    });
  } finally {
    caller.close();
  }
}

async function inParallel(workers: number, count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: workers }, async () => {
      while (next < count) await work(next++);
    }),
  );
}
