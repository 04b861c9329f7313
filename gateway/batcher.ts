// Joins postings that wait while calls are in flight into PostTransactions calls, fairly over tenants. Of several ledgers each tenant has one
// that all gateways send its postings to while it answers: two that write to the same books find each other's heads moved, and have to run
// their batches again (two ledgers posted 57 to 65 % of what one did). A tenant whose books another process
// holds is handed back and goes in calls of its own until it flows again, so that nobody waits with it. A call whose outcome is unknown is
// sent again with the same transaction ids, so that it posts once.
import { Code, type Client, type ConnectError } from '@connectrpc/connect';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { LedgerService, Posting, PostingResult, Refusal, Transaction } from '../proto/gen/ledger/v1/ledger_pb.js';
import { refusalOf } from '../services/platform/caller.ts';
import { openGauge } from '../services/platform/gauges.ts';
import { refuse } from '../services/platform/errors.ts';
import type { Logger } from '../services/platform/telemetry.ts';

/** One replica of the ledger. */
export interface Ledger {
  /** The same in all gateways. */
  address: string;
  client: Client<typeof LedgerService>;
}

/** What a batcher needs. */
export interface BatcherOptions {
  /** Those not known to be away, where all are, all. */
  ledgers: () => Ledger[];
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
  answer: { destroyed: boolean } | undefined;
  resolve: (posted: PostedTransaction) => void;
  reject: (error: ConnectError) => void;
}

/** Postings that travel together: of all tenants, or of one whose books were held. */
interface Stream {
  /** The tenant of a stream of one. */
  alone: string | undefined;
  /** By tenant, in turn. */
  waiting: Map<string, Waiting[]>;
  /** In flight, by the address of the ledger that they were meant for. */
  flying: Map<string, { calls: number; postings: number }>;
  woken: boolean;
}

// To each ledger. All that the gateway holds for it is to be in three places: one part being committed, one on its way, one being read or
// answered here. So where it holds much, a call takes a third at most and is begun beside others when most of a third waits. (When it took
// whatever waited, one call soon had nearly all, and the processes took turns: with 256 connections 1.3 of two cores were busy.) Smaller parts
// cost more by themselves than they gain: 64 connections were a tenth slower in the surest comparison, 5 % slower to 6 % faster in six before.
const callsPerStream = 3;
const smallestPart = 64;
const fillBesideOthers = 0.75;
const rememberedTenants = 10_000;
const itemsPerCall = 250;
/** A posting of more bytes travels with its like: a call is answered with its last posting, and small ones would wait for large ones. */
const heavyBytes = 4 << 10;
const bytesPerCall = 1024 * 1024;
// A stalled replica is left for another one after this.
const attemptMs = 3_000;
/** How often a call is looked at whose clients may all have gone: then it ends, and the ledger posts nothing of it that is not begun. */
const lookMs = 100;

/** Sends postings to the ledger in groups. */
export class Batcher {
  private readonly options: BatcherOptions;
  private readonly shared = newStream();
  private readonly heavy = newStream();
  /** Tenants that were handed back. */
  private readonly alone = new Map<string, Stream>();
  private readonly perTenant = new Map<string, number>();
  private postings = 0;
  /** The ledgers' addresses, and of each tenant the one that it has among them. */
  private homes = { among: '', of: new Map<string, string>() };
  private readonly calls: Histogram;
  private readonly retries: Counter;

  constructor(options: BatcherOptions) {
    this.options = options;
    const registers = [options.metrics];
    openGauge(options.metrics, 'gateway_postings_in_flight', 'Postings waiting or on their way to the ledger', () => this.postings);
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
   * `unavailable` where the outcome is open and a retry with the same key finds out. `answer` is destroyed once the client is gone: what is
   * not yet sent is then dropped, nothing is sent again, and a call that nobody waits for any more ends. The posting's `timeout_ms` and `retry`
   * are set here.
   */
  post(posting: Posting, answer?: { destroyed: boolean }): Promise<PostedTransaction> {
    const tenant = posting.tenantId;
    const ofTenant = this.perTenant.get(tenant) ?? 0;
    if (this.postings >= this.options.mostPostings || ofTenant >= this.options.mostPostings / 2) {
      return Promise.reject(failure('overloaded', 'too many postings are waiting'));
    }
    const bytes = 300 + posting.metadata.length * 2 + posting.description.length * 2 + posting.entries.length * 100;
    const expires = performance.now() + this.options.timeoutMs;
    this.postings++;
    this.perTenant.set(tenant, ofTenant + 1);
    return new Promise<PostedTransaction>((resolve, reject) => {
      let settled = false;
      const forget = () => {
        if (!settled) this.forget(each);
        settled = true;
      };
      const each: Waiting = {
        posting,
        bytes,
        expires,
        answer,
        resolve: (posted) => {
          forget();
          resolve(posted);
        },
        reject: (error) => {
          forget();
          reject(error);
        },
      };
      this.enqueue(this.alone.get(tenant) ?? (bytes > heavyBytes ? this.heavy : this.shared), [each]);
    });
  }

  private forget(each: Waiting): void {
    // What leads to a batch for seconds yet, as old tables of V8's do, is not to lead to whole requests.
    each.answer = undefined;
    const tenant = each.posting.tenantId;
    this.postings--;
    const left = (this.perTenant.get(tenant) ?? 1) - 1;
    if (left > 0) this.perTenant.set(tenant, left);
    else this.perTenant.delete(tenant);
  }

  private enqueue(stream: Stream, postings: Waiting[]): void {
    for (const each of postings) {
      const { tenantId } = each.posting;
      const queue = stream.waiting.get(tenantId);
      if (queue) queue.push(each);
      else stream.waiting.set(tenantId, [each]);
    }
    // After this turn of the event loop: requests that arrived together travel together.
    if (stream.woken) return;
    stream.woken = true;
    setImmediate(() => {
      stream.woken = false;
      this.send(stream);
    });
  }

  private send(stream: Stream): void {
    const most = stream.alone === undefined ? callsPerStream : 1;
    const ledgers = this.options.ledgers();
    const addresses = ledgers.map(({ address }) => address);
    for (const { address } of ledgers) {
      const isHere = (tenant: string) => this.homeOf(tenant, addresses) === address;
      for (;;) {
        const flying = stream.flying.get(address) ?? { calls: 0, postings: 0 };
        const waiting = countWaiting(stream, isHere);
        const part = Math.ceil((waiting + flying.postings) / most);
        const isMuch = part > smallestPart;
        if (flying.calls >= most || (flying.calls > 0 && isMuch && waiting < part * fillBesideOthers)) break;
        const batch = take(stream, isHere, Math.min(itemsPerCall, isMuch ? part : smallestPart));
        const postings = batch.length;
        if (postings === 0) break;
        stream.flying.set(address, flying);
        flying.calls++;
        flying.postings += postings;
        void this.call(batch, stream.alone === undefined).finally(() => {
          flying.calls--;
          flying.postings -= postings;
          if (flying.calls === 0) stream.flying.delete(address);
          this.send(stream);
        });
      }
    }
    if (stream.alone !== undefined && stream.flying.size === 0 && stream.waiting.size === 0) this.alone.delete(stream.alone);
  }

  /** Of these addresses the tenant's: the one that makes the largest number together with its id. */
  private homeOf(tenant: string, addresses: string[]): string {
    if (addresses.length === 1) return addresses[0] as string;
    const among = addresses.join(' ');
    if (this.homes.among !== among || this.homes.of.size > rememberedTenants) this.homes = { among, of: new Map() };
    let home = this.homes.of.get(tenant);
    if (home === undefined) {
      const weighed = addresses.map((address) => ({ address, weight: weightOf(`${address} ${tenant}`) }));
      home = weighed.reduce((most, each) => (each.weight > most.weight ? each : most)).address;
      this.homes.of.set(tenant, home);
    }
    return home;
  }

  /** Where a batch goes now: all its tenants had one home when it was taken, and that may be away since. */
  private ledgerOf(batch: Waiting[]): Client<typeof LedgerService> {
    const ledgers = this.options.ledgers();
    const addresses = ledgers.map(({ address }) => address);
    const home = this.homeOf((batch[0] as Waiting).posting.tenantId, addresses);
    return (ledgers.find(({ address }) => address === home) as Ledger).client;
  }

  // The tenant's books are another process's at the moment: what waits for them, waits by itself and in its order.
  private setApart(heldBack: Waiting[]): void {
    for (const [tenant, held] of Map.groupBy(heldBack, ({ posting }) => posting.tenantId)) {
      const behind = [this.shared, this.heavy].flatMap(({ waiting }) => waiting.get(tenant) ?? []);
      for (const { waiting } of [this.shared, this.heavy]) waiting.delete(tenant);
      const stream = this.alone.get(tenant) ?? newStream(tenant);
      this.alone.set(tenant, stream);
      this.enqueue(stream, [...held, ...behind]);
    }
  }

  private async call(batch: Waiting[], handBackHeld: boolean): Promise<void> {
    this.calls.observe(batch.length);
    for (let attempt = 0; ; attempt++) {
      const now = performance.now();
      const longest = Math.max(...batch.map((each) => each.expires)) - now;
      for (const each of batch) each.posting.timeoutMs = Math.max(1, Math.round(Math.min(each.expires - now, attemptMs)));
      const abandoned = new AbortController();
      const look = setInterval(() => batch.every(isAbandoned) && abandoned.abort(), lookMs);
      try {
        const { results } = await this.ledgerOf(batch).postTransactions(
          { postings: batch.map((each) => each.posting), handBackHeld },
          { timeoutMs: Math.max(1, Math.min(longest, attemptMs)), signal: abandoned.signal },
        );
        const heldBack = batch.filter((each, place) => !settle(each, results[place]));
        // Promises of a call lead to its answer for seconds after it: not emptied, it had twice as many bytes outlive two scavenges.
        results.length = 0;
        if (heldBack.length > 0) this.setApart(heldBack);
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
        const then = performance.now() + Math.min(50 * 2 ** attempt, 500);
        const items = batch.length;
        batch = without(batch, (each) => each.expires <= then);
        const again = batch.filter((each) => !isAbandoned(each)).length;
        if (abandoned.signal.aborted) this.options.logger.info({ items, attempt }, 'a call that nobody waited for any more was given up');
        else this.options.logger.warn({ err: error, items, again, attempt }, 'outcome of a call unknown');
        if (batch.length > 0) await new Promise((done) => setTimeout(done, then - performance.now()));
        batch = without(batch, isAbandoned);
        if (batch.length === 0) return;
        this.retries.inc();
        for (const each of batch) each.posting.retry = true;
      } finally {
        clearInterval(look);
      }
    }
  }
}

// Whose client has gone may have asked again elsewhere and been refused: what is sent or waits for him yet could be posted behind that.
const isAbandoned = ({ answer }: Waiting) => answer?.destroyed === true;

/** The others of a call whose outcome is unknown; these are told that. */
function without(batch: Waiting[], isOver: (each: Waiting) => boolean): Waiting[] {
  const { true: over = [], false: left = [] } = Object.groupBy(batch, (each) => `${isOver(each)}`);
  for (const each of over) each.reject(failure('unavailable', 'the ledger did not answer in time; a retry with the same key finds out'));
  return left;
}

function newStream(alone?: string): Stream {
  return { alone, waiting: new Map(), flying: new Map(), woken: false };
}

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/: any number will do that is the same everywhere.
function weightOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 0x01000193);
  return hash >>> 0;
}

function countWaiting(stream: Stream, isWanted: (tenant: string) => boolean): number {
  let count = 0;
  for (const [tenant, queue] of stream.waiting) if (isWanted(tenant)) count += queue.length;
  return count;
}

// A posting of each of these tenants in turn, `most` at most. What nobody waits for any more is dropped here, before it was ever sent.
function take(stream: Stream, isWanted: (tenant: string) => boolean, most: number): Waiting[] {
  const batch: Waiting[] = [];
  const now = performance.now();
  let bytes = 0;
  const tenants = [...stream.waiting].filter(([tenant]) => isWanted(tenant)).map(([tenant, queue]) => ({ tenant, queue, taken: 0 }));
  const takeNext = (of: (typeof tenants)[number]): boolean => {
    const each = of.queue[of.taken];
    if (!each || batch.length >= most || (batch.length > 0 && bytes + each.bytes > bytesPerCall)) return false;
    of.taken++;
    if (isAbandoned(each) || each.expires <= now) {
      each.reject(failure('unavailable', 'the posting was not begun'));
    } else {
      batch.push(each);
      bytes += each.bytes;
    }
    return true;
  };
  for (let turn = tenants; turn.length > 0;) turn = turn.filter(takeNext);
  for (const { tenant, queue, taken } of tenants) {
    if (taken === 0) continue;
    // Emptied: an old table of the map may lead to it for seconds yet.
    queue.splice(0, taken);
    // Behind those whose turn has not come.
    stream.waiting.delete(tenant);
    if (queue.length > 0) stream.waiting.set(tenant, queue);
  }
  return batch;
}

/** False where the posting was handed back. */
function settle(waiting: Waiting, result: PostingResult | undefined): boolean {
  if (result?.outcome.case === 'transaction') waiting.resolve({ transaction: result.outcome.value, replayed: result.replayed });
  else if (result?.outcome.case === 'refusal') waiting.reject(refused(result.outcome.value));
  else if (result) return false;
  else waiting.reject(failure('internal', 'internal error'));
  return true;
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
