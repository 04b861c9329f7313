// Joins postings that wait while calls are in flight into PostTransactions calls: a queue per bucket of tenants, so that a slow tenant delays
// only its bucket. A call whose outcome is unknown is sent again with the same transaction ids, so that it posts once.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, type Client, type ConnectError } from '@connectrpc/connect';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import {
  PostingSchema,
  type LedgerService,
  type Posting,
  type PostingResult,
  type Refusal,
  type Transaction,
} from '../proto/gen/ledger/v1/ledger_pb.js';
import { refusalOf } from '../services/platform/caller.ts';
import { refuse } from '../services/platform/serve.ts';
import type { Logger } from '../services/platform/telemetry.ts';

/** What a batcher needs. */
export interface BatcherOptions {
  ledger: Client<typeof LedgerService>;
  logger: Logger;
  metrics: Registry;
  /** Postings in the gateway, waiting or on their way; a tenant may hold half. */
  mostPostings: number;
  /** Milliseconds a posting may take in all. */
  timeoutMs: number;
}

/** A posted transaction; `replayed` where an earlier request had posted it. */
export interface PostedTransaction {
  transaction: Transaction;
  replayed: boolean;
}

interface Waiting {
  posting: Posting;
  bytes: number;
  expires: number;
  signal: AbortSignal | undefined;
  resolve: (posted: PostedTransaction) => void;
  reject: (error: ConnectError) => void;
}

interface Bucket {
  waiting: Waiting[];
  calls: number;
}

const buckets = 16;
// Two: while one batch commits the next is on its way, and both fill better than with more.
const callsPerBucket = 2;
const itemsPerCall = 250;
const bytesPerCall = 1024 * 1024;
// A stalled replica is left for another one after this.
const attemptMs = 3_000;

/** Sends postings to the ledger in groups. */
export class Batcher {
  private readonly options: BatcherOptions;
  private readonly buckets: Bucket[] = Array.from({ length: buckets }, () => ({ waiting: [], calls: 0 }));
  private readonly perTenant = new Map<string, number>();
  private postings = 0;
  private readonly calls: Histogram;
  private readonly retries: Counter;

  constructor(options: BatcherOptions) {
    this.options = options;
    const registers = [options.metrics];
    const inFlight: Gauge = new Gauge({
      name: 'gateway_postings_in_flight',
      help: 'Postings waiting or on their way to the ledger',
      registers,
      collect: () => inFlight.set(this.postings),
    });
    this.calls = new Histogram({
      name: 'gateway_call_postings',
      help: 'Postings in one PostTransactions call',
      buckets: [1, 2, 5, 10, 20, 50, 100, 250],
      registers,
    });
    this.retries = new Counter({
      name: 'gateway_call_retries_total',
      help: 'Calls sent again because their outcome was unknown',
      registers,
    });
  }

  /**
   * Posts one transaction. Rejects with a ConnectError that carries what the ledger said: a refusal, `overloaded` before memory grows, or
   * `unavailable` where the outcome is open and a retry with the same key finds out. `signal` tells that the client is gone: what is not
   * yet sent is then dropped.
   */
  post(init: MessageInitShape<typeof PostingSchema>, signal?: AbortSignal): Promise<PostedTransaction> {
    const posting = create(PostingSchema, init);
    const tenant = posting.tenantId;
    const ofTenant = this.perTenant.get(tenant) ?? 0;
    if (this.postings >= this.options.mostPostings || ofTenant >= this.options.mostPostings / 2) {
      return Promise.reject(failure('overloaded', 'too many postings are waiting'));
    }
    this.postings++;
    this.perTenant.set(tenant, ofTenant + 1);
    return new Promise<PostedTransaction>((resolve, reject) => {
      const bytes = 300 + posting.metadata.length * 2 + posting.description.length * 2 + posting.entries.length * 100;
      const expires = performance.now() + this.options.timeoutMs;
      const bucket = this.buckets[bucketOf(tenant)] as Bucket;
      bucket.waiting.push({ posting, bytes, expires, signal, resolve, reject });
      // After this turn of the event loop: requests that arrived together travel together.
      if (bucket.waiting.length === 1) setImmediate(() => this.send(bucket));
    }).finally(() => {
      this.postings--;
      const left = (this.perTenant.get(tenant) ?? 1) - 1;
      if (left > 0) this.perTenant.set(tenant, left);
      else this.perTenant.delete(tenant);
    });
  }

  /** Postings waiting or on their way. */
  get size(): number {
    return this.postings;
  }

  private send(bucket: Bucket): void {
    while (bucket.calls < callsPerBucket && bucket.waiting.length > 0) {
      const batch = take(bucket);
      if (batch.length === 0) continue;
      bucket.calls++;
      void this.call(batch).finally(() => {
        bucket.calls--;
        this.send(bucket);
      });
    }
  }

  private async call(batch: Waiting[]): Promise<void> {
    this.calls.observe(batch.length);
    for (let attempt = 0; batch.length > 0; attempt++) {
      const now = performance.now();
      const longest = Math.max(...batch.map((each) => each.expires)) - now;
      for (const each of batch) each.posting.timeoutMs = Math.max(1, Math.round(Math.min(each.expires - now, attemptMs)));
      try {
        const { results } = await this.options.ledger.postTransactions(
          { postings: batch.map((each) => each.posting) },
          { timeoutMs: Math.max(1, Math.min(longest, attemptMs)) },
        );
        batch.forEach((each, place) => settle(each, results[place]));
        return;
      } catch (error) {
        const refusal = refusalOf(error);
        // What the ledger itself said is an answer, `unavailable` excepted. Everything else (a lost connection, a reset stream, a deadline)
        // leaves open whether it has posted.
        if (refusal && refusal.reason !== 'unavailable') {
          this.options.logger.error({ err: error, items: batch.length }, 'a call of postings was refused');
          const reason = refusal.reason === 'overloaded' ? 'overloaded' : 'internal';
          for (const each of batch) each.reject(failure(reason, reason === 'overloaded' ? refusal.message : 'internal error'));
          return;
        }
        this.retries.inc();
        this.options.logger.warn({ err: error, items: batch.length, attempt }, 'outcome of a call unknown, sending it again');
        const then = performance.now() + Math.min(50 * 2 ** attempt, 500);
        for (const each of batch.filter(({ expires }) => expires <= then)) {
          each.reject(failure('unavailable', 'the ledger did not answer in time; a retry with the same key finds out'));
        }
        batch = batch.filter(({ expires }) => expires > then);
        for (const each of batch) each.posting.retry = true;
        if (batch.length > 0) await new Promise((done) => setTimeout(done, then - performance.now()));
      }
    }
  }
}

// What nobody waits for any more is dropped here, before it was ever sent.
function take(bucket: Bucket): Waiting[] {
  const batch: Waiting[] = [];
  const now = performance.now();
  let bytes = 0;
  let taken = 0;
  for (const each of bucket.waiting) {
    if (batch.length >= itemsPerCall || (batch.length > 0 && bytes + each.bytes > bytesPerCall)) break;
    taken++;
    if (each.signal?.aborted === true || each.expires <= now) {
      each.reject(failure('unavailable', 'the posting was not begun'));
      continue;
    }
    batch.push(each);
    bytes += each.bytes;
  }
  bucket.waiting.splice(0, taken);
  return batch;
}

function settle(waiting: Waiting, result: PostingResult | undefined): void {
  if (result?.outcome.case === 'transaction') waiting.resolve({ transaction: result.outcome.value, replayed: result.replayed });
  else if (result?.outcome.case === 'refusal') waiting.reject(refused(result.outcome.value));
  else waiting.reject(failure('internal', 'internal error'));
}

const codes: Record<string, Code> = {
  validation_failed: Code.InvalidArgument,
  overloaded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  internal: Code.Internal,
};

function refused({ reason, message, field, tag, value }: Refusal): ConnectError {
  const waits = reason === 'overloaded' || reason === 'unavailable';
  return refuse(codes[reason] ?? Code.FailedPrecondition, { reason, message, field, tag, value, retryAfter: waits ? 1 : undefined });
}

function failure(reason: 'overloaded' | 'unavailable' | 'internal', message: string): ConnectError {
  return refuse(codes[reason] as Code, { reason, message, retryAfter: reason === 'internal' ? undefined : 1 });
}

// Any spread will do; the end of a TypeID is random.
function bucketOf(tenant: string): number {
  const end = tenant.length;
  return (tenant.charCodeAt(end - 1) + 31 * tenant.charCodeAt(end - 2) + 7 * tenant.charCodeAt(end - 3)) % buckets;
}
