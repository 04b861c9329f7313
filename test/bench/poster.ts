// Postings by gRPC at a steady rate, one a call, from a thread of their own: what the receiver's side does, and what collecting its garbage takes,
// is in no posting's latency.
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { callerOf, type Reached } from './books.ts';
import { percentile } from './figures.ts';
import { atRate } from './pace.ts';
import { postingOf } from './posting.ts';
import { now } from './receiver.ts';

/** One window of them. */
export interface Window {
  tenants: string[];
  /** Accounts of each tenant that are posted to. */
  accounts: number;
  /** Postings a second, the tenants in turn, whatever the answers do. */
  perSecond: number;
  seconds: number;
  /** Six characters that no other window has: keys begin with them. */
  series: string;
}

/** Postings that were answered; milliseconds. */
export interface Postings {
  /** Of their answers, by transaction. */
  answered: Map<string, number>;
  p50: number;
  p99: number;
}

interface Ended {
  series: string;
  postings?: Postings;
  problem?: unknown;
}

/** The other side of the thread. */
export class Poster {
  private readonly worker: Worker;
  private readonly open = new Map<string, PromiseWithResolvers<Postings>>();
  /** What the thread has died of. */
  private failure: Error | undefined;

  /** `cluster`: where its ledger is. */
  constructor({ known: { addresses, internalToken } }: Reached) {
    this.worker = new Worker(new URL(import.meta.url), { workerData: { known: { addresses, internalToken } } satisfies Reached });
    this.worker.on('message', ({ series, postings, problem }: Ended) => {
      const done = this.open.get(series);
      this.open.delete(series);
      if (postings) done?.resolve(postings);
      else done?.reject(problem);
    });
    this.worker.on('error', (error: Error) => {
      this.failure = error;
      for (const done of this.open.values()) done.reject(error);
    });
  }

  /** Posts, and waits for every answer. Throws what a posting throws, or what the thread has died of. Windows may overlap. */
  post(window: Window): Promise<Postings> {
    if (this.failure) return Promise.reject(this.failure);
    const done = Promise.withResolvers<Postings>();
    this.open.set(window.series, done);
    this.worker.postMessage(window);
    return done.promise;
  }

  /** Ends the thread with its connections. */
  async close(): Promise<void> {
    await this.worker.terminate();
  }
}

function serve(cluster: Reached): void {
  const ledger = createClient(LedgerService, callerOf(cluster, 'ledger'));
  const post = async ({ tenants, accounts, perSecond, seconds, series }: Window): Promise<Postings> => {
    const answered = new Map<string, number>();
    const latencies: number[] = [];
    await atRate(perSecond, seconds, async (number) => {
      const begun = now();
      const posting = postingOf(tenants[number % tenants.length]!, series, number, accounts);
      const { transaction } = await ledger.postTransaction({ posting });
      const ended = now();
      answered.set(transaction!.transactionId, ended);
      latencies.push(ended - begun);
    });
    return { answered, p50: percentile(latencies, 50), p99: percentile(latencies, 99) };
  };
  const tell = (ended: Ended) => parentPort?.postMessage(ended);
  parentPort?.on('message', (window: Window) => {
    const { series } = window;
    void post(window).then(
      (postings) => tell({ series, postings }),
      (problem: unknown) => tell({ series, problem }),
    );
  });
}

const reached = workerData as Partial<Reached> | null;
if (!isMainThread && reached?.known) serve(reached as Reached);
