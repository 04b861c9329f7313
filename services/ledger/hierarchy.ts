// The chart of accounts as a tree, with totals of each node and all below it.
import { create } from '@bufbuild/protobuf';
import { AccountNodeSchema, BalanceTotalSchema, type AccountNode } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { toUuid } from '../platform/ids.ts';
import { currencies, toDecimal } from '../platform/money.ts';
import { readTenant, type Connections } from '../platform/postgres.ts';
import { FairSemaphore } from '../platform/fair-semaphore.ts';
import { Refusal, net, type Balance, type Side } from './accounting.ts';
import { accountColumns, recordOf, type AccountRow } from './chart.ts';

/** Sums of one currency, minor units. */
type Total = Pick<Balance, 'debits' | 'credits'>;

// Size of an account without texts in an answer.
const accountBytes = 300;
// Building a tree takes several times its size in memory, so large charts are read one at a time, and none beyond the maximum.
const largeBytes = 1 << 20;
const maxBytes = 8 << 20;
const large = new FairSemaphore({ max: 1, maxPerKey: 1 });

/**
 * The whole chart as trees, in order of creation. With balances, each node has totals of every currency posted to it or below it, signed by
 * the node's own normal side. Throws {@link Refusal}: `overloaded` if the chart is larger than 8 MiB, and {@link Overloaded}. `signal`
 * aborts when the client disconnects.
 */
export async function getHierarchy(
  pool: Connections,
  tenant: string,
  includeBalances: boolean,
  signal: AbortSignal,
): Promise<AccountNode[]> {
  const [[size]] = await readTenant<[[{ bytes: number }]]>(pool, tenant, {
    name: 'chart_size',
    text: `select coalesce(sum(${accountBytes} + octet_length(metadata) + octet_length(name) + coalesce(octet_length(description), 0)), 0)::float8 as bytes
      from accounts where tenant_id = $1`,
    values: [tenant],
  });
  if (size.bytes > maxBytes) throw new Refusal('overloaded', 'the chart is too large to be read at once: list the accounts');
  const read = () => wholeChart(pool, tenant, includeBalances);
  if (size.bytes <= largeBytes) return read();
  return large.run(tenant, signal, read);
}

async function wholeChart(pool: Connections, tenant: string, includeBalances: boolean): Promise<AccountNode[]> {
  const [accounts, balances] = await readTenant<
    [AccountRow[], { account_id: string; currency: string; debits: string; credits: string }[]]
  >(
    pool,
    tenant,
    { name: 'all_accounts', text: `select ${accountColumns} from accounts a where a.tenant_id = $1 order by a.id`, values: [tenant] },
    {
      name: 'all_balances',
      text: 'select account_id, currency, debits::text, credits::text from balances where tenant_id = $1 and $2',
      values: [tenant, includeBalances],
    },
  );
  const nodes = new Map(accounts.map((row) => [row.code, create(AccountNodeSchema, { account: recordOf(row) })]));
  const roots: AccountNode[] = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.account?.parentCode ?? '');
    (parent?.children ?? roots).push(node);
  }
  if (includeBalances) {
    const own = new Map<string, Map<string, Total>>();
    for (const row of balances) {
      const totals = own.get(row.account_id) ?? new Map<string, Total>();
      own.set(row.account_id, totals.set(row.currency, { debits: BigInt(row.debits), credits: BigInt(row.credits) }));
    }
    roots.forEach((root) => addUp(root, own));
  }
  return roots;
}

// Fills in the node's totals and returns them for the node above.
function addUp(node: AccountNode, own: Map<string, Map<string, Total>>): Map<string, Total> {
  const totals = new Map(own.get(toUuid('acc', node.account?.id ?? '') ?? ''));
  for (const child of node.children) {
    for (const [currency, { debits, credits }] of addUp(child, own)) {
      const sum = totals.get(currency) ?? { debits: 0n, credits: 0n };
      totals.set(currency, { debits: sum.debits + debits, credits: sum.credits + credits });
    }
  }
  node.balances = currencies.flatMap((currency) => {
    const total = totals.get(currency);
    if (!total) return [];
    const balance = net(node.account as { normalBalance: Side }, total);
    const [debits, credits] = [toDecimal(total.debits), toDecimal(total.credits)];
    return [create(BalanceTotalSchema, { currency, debits, credits, balance: toDecimal(balance) })];
  });
  return totals;
}
