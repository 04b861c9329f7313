// The end of the benchmark: whether the books balance and hold what was answered.
import type { Cluster } from './cluster.ts';
import type { Loaded } from './load.ts';

/** Compares what was answered with what the ledger's database holds. `before`: postings made before the windows. */
export async function checkBooks(cluster: Cluster, before: number, windows: Loaded[]): Promise<{ right: boolean; lines: string[] }> {
  const database = cluster.known.databases.ledger.name;
  const [sums, counted] = await Promise.all([
    cluster.query<{ tenants: string; wrong: string }>(
      database,
      `select count(distinct tenant_id)::text as tenants, count(*) filter (where sum <> 0)::text as wrong
       from (select tenant_id, sum(debits - credits) as sum from balances group by tenant_id, currency) as each`,
    ),
    cluster.query<{ transactions: string; entries: string }>(
      database,
      `select (select count(*) from transactions)::text as transactions, (select count(*) from entries)::text as entries`,
    ),
  ]);
  const total = (figure: (window: Loaded) => number) => windows.reduce((sum, window) => sum + figure(window), 0);
  const failures = total((window) => window.failures);
  const answered = before + total((window) => window.requests) - failures;
  const cutOff = total((window) => window.cutOff);
  const transactions = Number(counted[0]?.transactions);
  const conserved = sums[0]?.wrong === '0' && Number(counted[0]?.entries) === 2 * transactions;
  const complete = transactions >= answered && transactions <= answered + cutOff;
  const mark = (right: boolean) => (right ? 'right' : 'WRONG');
  return {
    right: conserved && complete && failures === 0,
    lines: [
      `conservation: ${mark(conserved)}: debits equal credits in each of ${sums[0]?.tenants ?? '?'} tenants, ${counted[0]?.entries ?? '?'} entries`,
      `count: ${mark(complete)}: ${answered} postings were answered, ${transactions} are in the database ` +
        `(at most ${cutOff} more were on their way when a window ended)`,
      `failed requests: ${mark(failures === 0)}: ${failures}`,
      ...(failures > 0 ? cluster.warnings() : []),
    ],
  };
}
