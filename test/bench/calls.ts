// Load over gRPC, straight to the ledger: calls with many postings from several callers with a connection each.
import { createClient, type Client } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { BenchCluster } from './cluster.ts';
import { percentile } from './figures.ts';
import type { Loaded } from './load.ts';
import { postingOf } from './posting.ts';
import { callerOf, type TenantGroup } from './tenants.ts';

/** Callers at once, each with one call at a time. */
export const callers = 8;

/** One window of calls. */
export interface Calls {
  group: TenantGroup;
  /** Six characters, unique to the window, with which idempotency keys begin. */
  series: string;
  seconds: number;
  /** Postings per call, 50 by default. */
  items?: number;
  /** All or none, by `Submit`; else by `PostTransactions`. */
  atomic?: boolean;
}

/** Runs one window; with several tenants every call has items of many, unless it is atomic. Latencies are those of calls. */
export async function callPostings(cluster: BenchCluster, { group, series, seconds, items = 50, atomic = false }: Calls): Promise<Loaded> {
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
          const postings = Array.from({ length: items }, () => {
            const { id } = group.tenants[++number % group.tenants.length]!;
            return postingOf(id, `${series}-1`, number, group.accounts);
          });
          const began = performance.now();
          const done = await (atomic ? submit(ledger, postings) : post(ledger, postings)).catch(() => null);
          latencies.push(performance.now() - began);
          requests += items;
          posted += done ?? 0;
          // The outcome of a failed call is unknown.
          if (done === null) cutOff += items;
        }
      }),
    );
    const perSecond = posted / ((performance.now() - started) / 1000);
    return { requests, perSecond, p50: percentile(latencies, 50), p99: percentile(latencies, 99), failures: requests - posted, cutOff };
  } finally {
    for (const connection of connections) connection.close();
  }
}

type Ledger = Client<typeof LedgerService>;
type Postings = ReturnType<typeof postingOf>[];

/** How many were posted. */
async function post(ledger: Ledger, postings: Postings): Promise<number> {
  const { results } = await ledger.postTransactions({ postings });
  return results.filter(({ outcome, replayed }) => outcome.case === 'transaction' && !replayed).length;
}

async function submit(ledger: Ledger, postings: Postings): Promise<number> {
  const [{ tenantId = '', actor = '', requestId = '' } = {}] = postings;
  const commands = postings.map((value) => ({ command: { case: 'posting', value } as const }));
  const { results } = await ledger.submit({ tenantId, actor, requestId, atomic: true, commands });
  return results.filter(({ transaction, replayed }) => transaction && !replayed).length;
}
