// Whether the ledger balances after a benchmark and contains exactly what was answered.
import type { BenchCluster } from './cluster.ts';
import type { Loaded } from './load.ts';

/** Compares the answers of these windows with the ledger's database. `before`: postings made earlier. */
export async function checkLedger(cluster: BenchCluster, before: number, windows: Loaded[]): Promise<{ right: boolean; lines: string[] }> {
  const [[sums], [counted]] = await Promise.all([
    // Every hold was captured.
    cluster.query<{ tenants: string; wrong: string }>(
      'ledger',
      `select count(distinct tenant_id)::text as tenants, count(*) filter (where sum <> 0 or pending <> 0)::text as wrong
       from (select tenant_id, sum(debits - credits) as sum, sum(pending_debits + pending_credits) as pending
         from balances group by tenant_id, currency) as each`,
    ),
    cluster.query<{ transactions: string; entries: string }>(
      'ledger',
      `select (select count(*) from transactions)::text as transactions, (select count(*) from entries)::text as entries`,
    ),
  ]);
  const total = (figure: (window: Loaded) => number) => windows.reduce((sum, window) => sum + figure(window), 0);
  const failures = total((window) => window.failures);
  const answered = before + total((window) => window.requests) - failures;
  const cutOff = total((window) => window.cutOff);
  const transactions = Number(counted?.transactions);
  const conserved = sums?.wrong === '0' && Number(counted?.entries) === 2 * transactions;
  const complete = transactions >= answered && transactions <= answered + cutOff;
  const mark = (right: boolean) => (right ? 'right' : 'WRONG');
  return {
    right: conserved && complete && failures === 0,
    lines: [
      `conservation: ${mark(conserved)}: debits equal credits in each of ${sums?.tenants} tenants, ${counted?.entries} entries`,
      `count: ${mark(complete)}: ${answered} postings were answered, ${transactions} are stored (up to ${cutOff} more were cut off when a window ended)`,
      `failed requests: ${mark(failures === 0)}: ${failures}`,
      ...(failures > 0 ? cluster.warnings() : []),
    ],
  };
}
