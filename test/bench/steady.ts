// Load over REST at a steady rate, from a thread of its own. Latency counts from the planned start, so waiting for slow answers is included.
import { setTimeout as pause } from 'node:timers/promises';
import { createHistogram } from 'node:perf_hooks';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { Pool } from 'undici';
import type { Loaded } from './load.ts';
import { bodyOf } from './posting.ts';
import { now } from './receiver.ts';
import type { TenantGroup } from './tenants.ts';

/** One window. */
export interface Steady {
  group: TenantGroup;
  /** Postings per second, the tenants in turn. */
  perSecond: number;
  seconds: number;
  /** Requests in flight; more wait, and their waiting counts. */
  connections: number;
  /** Six characters, unique to the window, with which idempotency keys begin. */
  series: string;
  /** Whether the result has the time of each answer. */
  keepAnswers?: boolean;
}

/** The result; `answers`: by idempotency key, as {@link now} tells it. */
export interface SteadyResult extends Loaded {
  answers: Map<string, number>;
}

interface Order {
  window: Steady;
  url: string;
}

/** Runs one window; resolves when every posting is answered. */
export async function postSteadily(url: string, window: Steady): Promise<SteadyResult> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { window, url } satisfies Order });
  try {
    return await new Promise<SteadyResult>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
  } finally {
    await worker.terminate();
  }
}

async function run({ window, url }: Order): Promise<SteadyResult> {
  const { group, perSecond, seconds, connections, series, keepAnswers = false } = window;
  const pool = new Pool(url, { connections, pipelining: 1, headersTimeout: 15_000 });
  // Microseconds. A list would grow with the length of the window.
  const latencies = createHistogram();
  const answers = new Map<string, number>();
  let failures = 0;
  const post = async (number: number, planned: number) => {
    const { slug, key } = group.tenants[number % group.tenants.length]!;
    const path = `/v1/tenants/${slug}/transactions/double-entry`;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = bodyOf(series, number, group.accounts);
    try {
      const answer = await pool.request({ method: 'POST', path, headers, body });
      await answer.body.dump();
      if (answer.statusCode !== 201) failures++;
      else if (keepAnswers) answers.set((JSON.parse(body) as { idempotency_key: string }).idempotency_key, now());
    } catch {
      failures++;
    }
    latencies.record(Math.max(1, Math.round((performance.now() - planned) * 1000)));
  };
  const [started, count] = [performance.now(), Math.floor(perSecond * seconds)];
  const open = new Set<Promise<void>>();
  for (let begun = 0; begun < count;) {
    const planned = started + (begun * 1000) / perSecond;
    if (planned > performance.now()) {
      await pause(1);
      continue;
    }
    const one = post(begun++, planned).finally(() => open.delete(one));
    open.add(one);
  }
  await Promise.all(open);
  const requests = latencies.count;
  await pool.close();
  const [p50, p99] = [latencies.percentile(50) / 1000, latencies.percentile(99) / 1000];
  // The outcome of a failed request is unknown.
  return { requests, perSecond: (1000 * requests) / (performance.now() - started), p50, p99, failures, cutOff: failures, answers };
}

const order = workerData as Partial<Order> | null;
if (!isMainThread && order?.window) void run(order as Order).then((result) => parentPort?.postMessage(result));
