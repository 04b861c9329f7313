// Joins waiting postings into PostTransactions calls, fairly over tenants, and resolves calls of unknown outcome.
import { setTimeout as pause } from 'node:timers/promises';
import type { ConnectError } from '@connectrpc/connect';
import { Counter, Histogram, type Registry } from 'prom-client';
import { LedgerService, type Posting, type PostingResult, type Transaction } from '../proto/gen/ledger/v1/ledger_pb.js';
import { codeOf, refusalOf } from '../services/platform/caller.ts';
import type { RefusalInfo } from '../services/platform/errors.ts';
import { openGauge } from '../services/platform/gauges.ts';
import type { Logger } from '../services/platform/telemetry.ts';
import { SpanKind, rpcResult, rpcSpan, startSpans } from '../services/platform/tracing.ts';
import { failure, rejection } from './rejections.ts';
import { ledgerOf, type Ledger } from './tenant-replica.ts';

/** What a batcher needs. */
export interface BatcherOptions {
  /** The replicas that are available; all, if none is. Never empty. */
  ledgers: () => Ledger[];
  logger: Logger;
  metrics: Registry;
  /** Postings waiting or in flight; half of them for one tenant. */
  maxPostings: number;
  /** Milliseconds a posting may take in all. */
  timeoutMs: number;
}

/** A posted transaction; `replayed` where an earlier request had posted it. */
export interface PostedTransaction {
  transaction: Transaction;
  replayed: boolean;
}

/** A posting that waits for its answer, and the request that waits for it. */
interface WaitingPosting {
  posting: Posting;
  bytes: number;
  expiresMs: number;
  response: { destroyed: boolean } | undefined;
  resolve: (posted: PostedTransaction) => void;
  reject: (error: ConnectError) => void;
}

/** Postings that share calls. There is one queue for small postings, one for large ones, and one for each isolated tenant. */
interface Queue {
  /** The only tenant, while another replica has locked its log head: its postings must not delay others. */
  isolatedTenant: string | undefined;
  /** By tenant; the next one's turn first. */
  waiting: Map<string, WaitingPosting[]>;
  /** By the ledger's address. */
  inFlight: Map<string, { calls: number; postings: number }>;
  isScheduled: boolean;
}

// One call commits, one travels, one is read: more in flight to a ledger gain nothing.
const callsPerQueue = 3;
const maxItemsPerCall = 250;
const maxBytesPerCall = 1 << 20;
// With fewer postings per call, the cost of the call outweighs the gain of sending it at once.
const minItemsPerShare = 64;
// While a call is in flight, the next one waits until it has this part of its share.
const minFill = 0.75;
// A call ends with its slowest posting, so larger ones have calls of their own.
const largePostingBytes = 4 << 10;
// After this time, a call to a stalled replica is repeated on another one.
const attemptMs = 3_000;
// How often a call checks whether all its clients have disconnected.
const clientCheckMs = 100;

const method = `${LedgerService.typeName}/PostTransactions`;

const unknownOutcome = 'the ledger did not answer in time; a retry with the same key finds out';

/**
 * Sends postings to the ledger in batches. All gateways send a tenant's postings to the same replica: two that write to one log
 * invalidate each other's caches.
 */
export class Batcher {
  private readonly options: BatcherOptions;
  private readonly small = newQueue();
  private readonly large = newQueue();
  private readonly isolated = new Map<string, Queue>();
  private readonly perTenant = new Map<string, number>();
  private postings = 0;
  private readonly calls: Histogram;
  private readonly retries: Counter;

  constructor(options: BatcherOptions) {
    this.options = options;
    const registers = [options.metrics];
    openGauge(options.metrics, 'gateway_postings_in_flight', 'Postings waiting for or sent to the ledger', () => this.postings);
    this.calls = new Histogram({
      name: 'gateway_call_postings',
      help: 'Postings in one PostTransactions call',
      buckets: [1, 2, 5, 10, 20, 50, 100, 250],
      registers,
    });
    this.retries = new Counter({ name: 'gateway_call_retries_total', help: 'Calls repeated because their outcome was unknown', registers });
  }

  /**
   * Posts one transaction. Rejects with the ledger's ConnectError, with `overloaded`, or with `unavailable` where the outcome is unknown
   * and a retry with the same key finds out. `response` is destroyed once the client is gone: then nothing more is sent for it.
   * Sets the posting's `timeout_ms` and `retry`.
   */
  async post(posting: Posting, response?: { destroyed: boolean }): Promise<PostedTransaction> {
    const { tenantId } = posting;
    const tenantPostings = this.perTenant.get(tenantId) ?? 0;
    const { maxPostings, timeoutMs } = this.options;
    if (this.postings >= maxPostings || tenantPostings >= maxPostings / 2) throw failure('overloaded', 'too many postings are waiting');
    this.postings++;
    this.perTenant.set(tenantId, tenantPostings + 1);
    const sealed = posting.personal.reduce((sum, { ciphertext }) => sum + 100 + ciphertext.length, 0);
    const bytes = 300 + sealed + posting.metadata.length * 2 + posting.description.length * 2 + posting.entries.length * 100;
    const expiresMs = performance.now() + timeoutMs;
    try {
      return await new Promise<PostedTransaction>((resolve, reject) => {
        const queue = this.isolated.get(tenantId) ?? (bytes > largePostingBytes ? this.large : this.small);
        this.enqueue(queue, [{ posting, bytes, expiresMs, response, resolve, reject }]);
      });
    } finally {
      this.postings--;
      const left = (this.perTenant.get(tenantId) ?? 1) - 1;
      if (left > 0) this.perTenant.set(tenantId, left);
      else this.perTenant.delete(tenantId);
    }
  }

  private enqueue(queue: Queue, postings: WaitingPosting[]): void {
    for (const each of postings) {
      const { tenantId } = each.posting;
      const own = queue.waiting.get(tenantId);
      if (own) own.push(each);
      else queue.waiting.set(tenantId, [each]);
    }
    // Later in the event loop, so that requests that arrived together share a call.
    if (queue.isScheduled) return;
    queue.isScheduled = true;
    setImmediate(() => {
      queue.isScheduled = false;
      this.send(queue);
    });
  }

  private send(queue: Queue): void {
    const maxCalls = queue.isolatedTenant === undefined ? callsPerQueue : 1;
    const ledgers = this.options.ledgers();
    const byLedger = Map.groupBy(queue.waiting.keys(), (tenant) => ledgerOf(tenant, ledgers).address);
    for (const [address, tenantsOfLedger] of byLedger) {
      const tenants = new Set(tenantsOfLedger);
      const load = queue.inFlight.get(address) ?? { calls: 0, postings: 0 };
      queue.inFlight.set(address, load);
      while (load.calls < maxCalls) {
        let waiting = 0;
        for (const tenant of tenants) waiting += queue.waiting.get(tenant)?.length ?? 0;
        // Each call takes its share of the load: a call that took all would leave the processes to take turns.
        const share = Math.ceil((waiting + load.postings) / maxCalls);
        if (load.calls > 0 && share > minItemsPerShare && waiting < share * minFill) break;
        const batch = take(queue, tenants, Math.min(maxItemsPerCall, Math.max(share, minItemsPerShare)));
        const postings = batch.length;
        if (postings === 0) break;
        load.calls++;
        load.postings += postings;
        void this.call(batch, queue.isolatedTenant === undefined).finally(() => {
          load.calls--;
          load.postings -= postings;
          this.send(queue);
        });
      }
      if (load.calls === 0) queue.inFlight.delete(address);
    }
    for (const [address, { calls }] of queue.inFlight) if (calls === 0) queue.inFlight.delete(address);
    const { isolatedTenant } = queue;
    if (isolatedTenant !== undefined && queue.inFlight.size === 0 && queue.waiting.size === 0) this.isolated.delete(isolatedTenant);
  }

  /** Moves postings whose log head is locked elsewhere, and what waits behind them, to a queue of their tenant, in their order. */
  private isolate(lockedElsewhere: WaitingPosting[]): void {
    for (const [tenant, postings] of Map.groupBy(lockedElsewhere, ({ posting }) => posting.tenantId)) {
      const behind = [this.small, this.large].flatMap(({ waiting }) => waiting.get(tenant) ?? []);
      for (const { waiting } of [this.small, this.large]) waiting.delete(tenant);
      const queue = this.isolated.get(tenant) ?? newQueue(tenant);
      this.isolated.set(tenant, queue);
      this.enqueue(queue, [...postings, ...behind]);
    }
  }

  /** Sends a batch, and sends it again with the same transaction ids while its outcome is unknown, so that it posts once. */
  private async call(batch: WaitingPosting[], failFastOnLock: boolean): Promise<void> {
    this.calls.observe(batch.length);
    for (let attempt = 0; ; attempt++) {
      const abandoned = new AbortController();
      const check = setInterval(() => batch.every(hasDisconnected) && abandoned.abort(), clientCheckMs);
      try {
        await this.attempt(batch, failFastOnLock, abandoned.signal);
        return;
      } catch (error) {
        const refusal = refusalOf(error);
        // The ledger's own answers are final, except `unavailable`. A lost connection or a deadline leaves the outcome unknown.
        if (refusal && refusal.reason !== 'unavailable') {
          this.options.logger.error({ err: error, items: batch.length }, 'posting call rejected');
          this.rejectAll(batch, refusal);
          return;
        }
        const items = batch.length;
        const retryMs = performance.now() + Math.min(50 * 2 ** attempt, 500);
        batch = rejectUnknown(batch, (each) => each.expiresMs <= retryMs);
        const retried = batch.filter((each) => !hasDisconnected(each)).length;
        if (abandoned.signal.aborted) this.options.logger.info({ items, attempt }, 'posting call abandoned by its clients');
        else this.options.logger.warn({ err: error, items, retried, attempt }, 'posting call outcome unknown');
        if (batch.length > 0) await pause(retryMs - performance.now());
        batch = rejectUnknown(batch, hasDisconnected);
        if (batch.length === 0) return;
        this.retries.inc();
        for (const each of batch) each.posting.retry = true;
      } finally {
        clearInterval(check);
      }
    }
  }

  private async attempt(batch: WaitingPosting[], failFastOnLock: boolean, signal: AbortSignal): Promise<void> {
    const now = performance.now();
    for (const each of batch) each.posting.timeoutMs = Math.max(1, Math.round(Math.min(each.expiresMs - now, attemptMs)));
    const timeoutMs = Math.max(...batch.map(({ posting }) => posting.timeoutMs));
    // All tenants of a batch had one ledger when it was taken. That may be unavailable by now.
    const { client } = ledgerOf((batch[0] as WaitingPosting).posting.tenantId, this.options.ledgers());
    const postings = batch.map(({ posting }) => posting);
    // Each posting has a span of its own for the call that they share.
    const endSpans = startSpans(postings, method, rpcSpan(method, SpanKind.CLIENT));
    const call = client.postTransactions({ postings, handBackHeld: failFastOnLock }, { timeoutMs, signal });
    const endAs = (code: string) => endSpans(...rpcResult(code));
    call.then(
      () => endAs('ok'),
      (error: unknown) => endAs(codeOf(error)),
    );
    const { results } = await call;
    const lockedElsewhere = batch.filter((each, index) => !settle(each, results[index]));
    if (lockedElsewhere.length > 0) this.isolate(lockedElsewhere);
  }

  private rejectAll(batch: WaitingPosting[], { reason, message }: RefusalInfo): void {
    const error = reason === 'overloaded' ? failure('overloaded', message) : failure('internal', 'internal error');
    for (const each of batch) each.reject(error);
  }
}

// Nothing is sent for a client that has disconnected: it may get a refusal for the same posting elsewhere, which a later commit contradicts.
const hasDisconnected = ({ response }: WaitingPosting) => response?.destroyed === true;

/** Rejects as `unavailable` those postings of unknown outcome that are not tried again; returns the others. */
function rejectUnknown(batch: WaitingPosting[], mustEnd: (each: WaitingPosting) => boolean): WaitingPosting[] {
  return batch.filter((each) => {
    if (!mustEnd(each)) return true;
    each.reject(failure('unavailable', unknownOutcome));
    return false;
  });
}

function newQueue(isolatedTenant?: string): Queue {
  return { isolatedTenant, waiting: new Map(), inFlight: new Map(), isScheduled: false };
}

/** Takes at most `max` postings, one of each of these tenants in turn. Rejects those that have expired or whose client has disconnected. */
function take(queue: Queue, tenants: Set<string>, max: number): WaitingPosting[] {
  const batch: WaitingPosting[] = [];
  const now = performance.now();
  let bytes = 0;
  const shares = [...queue.waiting].filter(([tenant]) => tenants.has(tenant)).map(([tenant, own]) => ({ tenant, own, taken: 0 }));
  const takeNext = (share: (typeof shares)[number]): boolean => {
    const each = share.own[share.taken];
    if (!each || batch.length >= max || (batch.length > 0 && bytes + each.bytes > maxBytesPerCall)) return false;
    share.taken++;
    if (hasDisconnected(each) || each.expiresMs <= now) {
      each.reject(failure('unavailable', 'the posting was not sent'));
    } else {
      batch.push(each);
      bytes += each.bytes;
    }
    return true;
  };
  for (let turn = shares; turn.length > 0;) turn = turn.filter(takeNext);
  for (const { tenant, own, taken } of shares) {
    if (taken === 0) continue;
    // Move the tenant behind those whose turn has not come.
    queue.waiting.delete(tenant);
    if (taken < own.length) queue.waiting.set(tenant, own.slice(taken));
  }
  return batch;
}

/** Settles a posting; false if the ledger returned it undecided, because another replica has locked the tenant's log head. */
function settle(waiting: WaitingPosting, result: PostingResult | undefined): boolean {
  if (result?.outcome.case === 'transaction') waiting.resolve({ transaction: result.outcome.value, replayed: result.replayed });
  else if (result?.outcome.case === 'refusal') waiting.reject(rejection(result.outcome.value));
  else if (result) return false;
  else waiting.reject(failure('internal', 'internal error'));
  return true;
}
