// Load over gRPC, straight to the ledger: PostTransactions of 50 from several callers with a connection each.
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { BenchCluster } from './cluster.ts';
import { percentile } from './figures.ts';
import type { Loaded } from './load.ts';
import { postingOf } from './posting.ts';
import { callerOf, type TenantGroup } from './tenants.ts';

const itemsPerCall = 50;

/** Callers at once, each with one call at a time. */
export const callers = 8;

/** Runs one window; with several tenants every call has items of many. Latencies are those of calls. */
export async function callPostTransactions(cluster: BenchCluster, group: TenantGroup, series: string, seconds: number): Promise<Loaded> {
  const connections = Array.from({ length: callers }, () => callerOf(cluster, 'ledger'));
  const latencies: number[] = [];
  let number = 0;
  let requests = 0;
  let posted = 0;
  let cutOff = 0;
  const started = performance.now();
  try {
    await Promise.all(
      connections.map(async (connection) => {
        const ledger = createClient(LedgerService, connection);
        while (performance.now() < started + seconds * 1000) {
          const postings = Array.from({ length: itemsPerCall }, () => {
            const { id } = group.tenants[++number % group.tenants.length]!;
            return postingOf(id, `${series}-1`, number, group.accounts);
          });
          const began = performance.now();
          const results = await ledger.postTransactions({ postings }).then(
            (answer) => answer.results,
            () => null,
          );
          latencies.push(performance.now() - began);
          requests += itemsPerCall;
          posted += results?.filter(({ outcome, replayed }) => outcome.case === 'transaction' && !replayed).length ?? 0;
          // The outcome of a failed call is unknown.
          if (!results) cutOff += itemsPerCall;
        }
      }),
    );
    const perSecond = posted / ((performance.now() - started) / 1000);
    return { requests, perSecond, p50: percentile(latencies, 50), p99: percentile(latencies, 99), failures: requests - posted, cutOff };
  } finally {
    for (const connection of connections) connection.close();
  }
}
