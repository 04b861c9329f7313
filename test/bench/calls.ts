// Load over gRPC, straight to the ledger: PostTransactions of 50, several callers at once, each with a connection of its own.
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { callerOf, type Books } from './books.ts';
import { percentile } from './figures.ts';
import type { Cluster } from './cluster.ts';
import type { Loaded } from './load.ts';
import { postingOf } from './posting.ts';

const itemsPerCall = 50;

/** Callers at once, each waiting for its answer before it calls again. */
export const callers = 8;

/** Runs one window; with several tenants every call holds items of many. The latency is that of a call. Every call is waited for. */
export async function callPostTransactions(cluster: Cluster, books: Books, series: string, seconds: number): Promise<Loaded> {
  const channels = Array.from({ length: callers }, () => callerOf(cluster, 'ledger'));
  const latencies: number[] = [];
  let number = 0;
  let requests = 0;
  let posted = 0;
  let cutOff = 0;
  const started = performance.now();
  const until = started + seconds * 1000;
  try {
    await Promise.all(
      channels.map(async (channel) => {
        const ledger = createClient(LedgerService, channel);
        while (performance.now() < until) {
          const postings = Array.from({ length: itemsPerCall }, () => {
            const { id } = books.tenants[++number % books.tenants.length]!;
            return postingOf(id, `${series}-1`, number, books.accounts);
          });
          const begun = performance.now();
          const results = await ledger.postTransactions({ postings }).then(
            (answer) => answer.results,
            () => null,
          );
          latencies.push(performance.now() - begun);
          const fresh = results?.filter(({ outcome, replayed }) => outcome.case === 'transaction' && !replayed).length ?? 0;
          requests += itemsPerCall;
          posted += fresh;
          // What became of a call that failed is not known.
          if (!results) cutOff += itemsPerCall;
        }
      }),
    );
    const perSecond = posted / ((performance.now() - started) / 1000);
    const [p50, p99] = [percentile(latencies, 50), percentile(latencies, 99)];
    return { requests, perSecond, p50, p99, failures: requests - posted, cutOff };
  } finally {
    for (const channel of channels) channel.close();
  }
}
