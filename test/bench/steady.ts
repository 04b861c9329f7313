// Load over REST at a steady rate, from a thread of its own, so that what else this process does is in nobody's latency. A posting's latency
// counts from the moment it was planned for: one that had to wait because others were slow has waited.
import { createHistogram } from 'node:perf_hooks';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { Pool } from 'undici';
import type { Books } from './books.ts';
import type { Loaded } from './load.ts';
import { atRate } from './pace.ts';
import { bodyOf } from './posting.ts';

/** One window of it. */
export interface Steady {
  books: Books;
  /** Postings a second, the tenants in turn. */
  perSecond: number;
  seconds: number;
  /** Requests on their way at once, at most; others wait, and their time counts. */
  connections: number;
  /** Six characters that no other window has: keys begin with them. */
  series: string;
}

interface Order {
  steadily: Steady;
  url: string;
}

/** Runs one window; every posting is waited for. */
export async function postSteadily(url: string, steadily: Steady): Promise<Loaded> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { steadily, url } satisfies Order });
  try {
    return await new Promise<Loaded>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
  } finally {
    await worker.terminate();
  }
}

async function post({ steadily, url }: Order): Promise<Loaded> {
  const { books, perSecond, seconds, connections, series } = steadily;
  const pool = new Pool(url, { connections, pipelining: 1, headersTimeout: 15_000 });
  // Microseconds. A list of all latencies would grow for as long as it is measured.
  const latencies = createHistogram();
  let failures = 0;
  const started = performance.now();
  await atRate(perSecond, seconds, async (number, planned) => {
    const { slug, key } = books.tenants[number % books.tenants.length]!;
    const path = `/v1/tenants/${slug}/transactions/double-entry`;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    try {
      const answer = await pool.request({ method: 'POST', path, headers, body: bodyOf(series, number, books.accounts) });
      await answer.body.dump();
      if (answer.statusCode !== 201) failures++;
    } catch {
      failures++;
    }
    latencies.record(Math.max(1, Math.round((performance.now() - planned) * 1000)));
  });
  const requests = latencies.count;
  await pool.close();
  const [p50, p99] = [latencies.percentile(50) / 1000, latencies.percentile(99) / 1000];
  // What became of a request that broke is not known.
  return { requests, perSecond: (1000 * requests) / (performance.now() - started), p50, p99, failures, cutOff: failures };
}

const order = workerData as Partial<Order> | null;
if (!isMainThread && order?.steadily) void post(order as Order).then((loaded) => parentPort?.postMessage(loaded));
