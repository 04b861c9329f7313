// Clients of several tenants that post one after another and repeat each posting with its key until it is answered.
import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster, Tenant } from '../../cluster.ts';
import { seededRandom, type SeededRandom } from '../seeded-random.ts';

/** A tenant with a chart and a key. */
export interface Customer {
  tenant: Tenant;
  key: string;
}

/** A posting that a client has sent. */
export interface Tried {
  /** The tenant's id. */
  tenantId: string;
  key: string;
  kind: keyof typeof sums;
  /** Minor units. */
  amount: bigint;
  /** Of a reversal: the id of the transaction. */
  reverses?: string;
  /** The fault during which it was first sent. */
  during: string;
  /** Set once it was answered with 201 or 200. */
  transactionId?: string;
}

/** A time in which no posting of a tenant was answered, by `performance.now()`. */
interface Silence {
  tenantId: string;
  from: number;
  to: number;
}

/** Shorter times are pauses of the clients. */
const minSilenceMs = 50;
/** Longer than the gateway's own deadlines. */
const timeoutMs = 12_000;
/** Every posting must be answered so long after the last fault, milliseconds. */
const endMs = 120_000;
const maxReads = 8;
/** Instead of a status: a reset or a timeout. */
const noAnswer = 599;

/** The account and currency that each kind of posting credits; nothing else credits them. */
export const sums = {
  double: { code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
  reversal: { code: 'SETTLEMENT-NGN', currency: 'NGN' },
  single: { code: 'OPERATING-CASH', currency: 'USD' },
} as const;

/** Clients at work until `end`. */
export class Clients {
  readonly customers: readonly Customer[];
  /** By key, which no two tenants share. */
  readonly tried = new Map<string, Tried>();
  /** How often each status was answered; `none`: a reset or a timeout. */
  readonly statuses = new Map<string, number>();
  /** Answers that no fault explains. */
  readonly wrong: string[] = [];
  /** Noted with each posting that is first sent from now on. */
  during = '';
  private readonly cluster: Cluster;
  private readonly pauseMs: number;
  private readonly silences: Silence[] = [];
  private readonly lastAnswerAt = new Map<string, number>();
  private readonly reads = new Set<Promise<void>>();
  private readonly ending = new AbortController();
  private endedAt = Infinity;
  private readonly work: Promise<unknown>;

  /** Starts so many clients per tenant; each pauses at most `pauseMs` between two postings. */
  constructor(
    cluster: Cluster,
    customers: readonly Customer[],
    { seed, perTenant, pauseMs }: { seed: number; perTenant: number; pauseMs: number },
  ) {
    this.cluster = cluster;
    this.pauseMs = pauseMs;
    this.customers = customers;
    const began = performance.now();
    for (const { tenant } of customers) this.lastAnswerAt.set(tenant.id, began);
    const clients = customers.flatMap((customer) => Array.from({ length: perTenant }, () => customer));
    this.work = Promise.all(clients.map((customer, number) => this.run(customer, number, seededRandom(seed, number + 1))));
  }

  /** The longest time without an answered posting of one of these tenants (by default all) within these limits, seconds. */
  longestSilence(from: number, to: number, tenantIds = this.customers.map(({ tenant }) => tenant.id)): number {
    const open = [...this.lastAnswerAt].map(([tenantId, at]) => ({ tenantId, from: at, to }));
    const within = [...this.silences, ...open].filter((each) => tenantIds.includes(each.tenantId) && each.to > from && each.from < to);
    return Math.max(0, ...within.map((each) => each.to - each.from)) / 1000;
  }

  /** Whether every tenant has had a posting answered after this time. */
  allAnsweredSince(time: number): boolean {
    return [...this.lastAnswerAt.values()].every((at) => at > time);
  }

  /** Begins no more postings; resolves when all that were begun are answered, or noted as wrong. */
  async end(): Promise<void> {
    this.endedAt = performance.now();
    this.ending.abort();
    await this.work;
    await Promise.all(this.reads);
  }

  private async run(customer: Customer, number: number, random: SeededRandom): Promise<void> {
    const { tenant } = customer;
    const doubles: Tried[] = [];
    for (let turn = 0; !this.ending.signal.aborted; turn++) {
      const tried: Tried = {
        tenantId: tenant.id,
        key: `client-${number}-${turn}`,
        kind: random.happens(0.25) ? 'single' : 'double',
        amount: BigInt(random.whole(1, 1_000_000)),
        during: this.during,
      };
      const reversed = random.happens(0.2) ? doubles.pop() : undefined;
      if (reversed) Object.assign(tried, { kind: 'reversal', amount: reversed.amount, reverses: reversed.transactionId });
      this.tried.set(tried.key, tried);
      const transactionId = await this.post(customer, tried);
      if (transactionId !== null) {
        tried.transactionId = transactionId;
        if (tried.kind === 'double') doubles.push(tried);
        this.answered(tenant.id);
        // Not awaited: the time between postings is what is measured.
        if (random.happens(0.2) && this.reads.size < maxReads) {
          const read = this.read(customer, transactionId).finally(() => this.reads.delete(read));
          this.reads.add(read);
        }
      }
      // The machine needs time for the faults, and speed is not tested here.
      await pause(random.whole(0, this.pauseMs));
    }
  }

  /** Resolves to the transaction's id; null where it was wrongly refused. */
  private async post(customer: Customer, tried: Tried): Promise<string | null> {
    const path = { single: '', double: '/double-entry', reversal: `/${tried.reverses}/reverse` }[tried.kind];
    for (let attempt = 0; ; attempt++) {
      const answer = await this.call(customer, 'POST', `/transactions${path}`, bodyOf(tried));
      // A first attempt is never a replay.
      if (answer.status === 201 || (answer.status === 200 && attempt > 0)) return answer.body.data.transaction.transaction_id as string;
      if (this.isFinal(answer, `posting ${tried.key}, attempt ${attempt + 1},`)) return null;
      if (performance.now() - this.endedAt > endMs) {
        this.wrong.push(`posting ${tried.key} is not answered, ${endMs / 1000} s after all faults`);
        return null;
      }
      await pause(Math.min(50 * 2 ** attempt, 400));
    }
  }

  /** Reads what was answered, until it is there. */
  private async read(customer: Customer, transactionId: string): Promise<void> {
    for (;;) {
      const answer = await this.call(customer, 'GET', `/transactions/${transactionId}`);
      if (answer.status === 200 && answer.body.data.transaction.transaction_id === transactionId) return;
      if (this.isFinal(answer, `reading ${transactionId}`) || this.ending.signal.aborted) return;
      await pause(200);
    }
  }

  private async call({ tenant, key }: Customer, method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> {
    const signal = AbortSignal.timeout(timeoutMs);
    const url = `/v1/tenants/${tenant.slug}${path}`;
    const answer = await this.cluster
      .rest(method, url, { key, signal, ...(body !== undefined && { body }) })
      .catch(() => ({ status: noAnswer, body: undefined }));
    const name = answer.status === noAnswer ? 'none' : String(answer.status);
    this.statuses.set(name, (this.statuses.get(name) ?? 0) + 1);
    return answer;
  }

  /** Whether to stop repeating; notes an answer that no fault explains. 408: a stalled gateway found that the request took too long. */
  private isFinal({ status, body }: { status: number; body: any }, what: string): boolean {
    if (status === 408 || status === 503 || status === noAnswer) return false;
    if (this.wrong.length < 100) this.wrong.push(`${what} was answered ${status} ${JSON.stringify(body)}`);
    return status < 500;
  }

  private answered(tenantId: string): void {
    const now = performance.now();
    const before = this.lastAnswerAt.get(tenantId) ?? now;
    if (now - before > minSilenceMs) this.silences.push({ tenantId, from: before, to: now });
    this.lastAnswerAt.set(tenantId, now);
  }
}

function bodyOf({ key, kind, amount }: Tried): unknown {
  if (kind === 'reversal') return { idempotency_key: key };
  const digits = String(amount).padStart(3, '0');
  const { code, currency } = sums[kind];
  const line = { account_code: code, amount: `${digits.slice(0, -2)}.${digits.slice(-2)}`, side: 'credit', currency };
  if (kind === 'single') return { idempotency_key: key, ...line };
  return { idempotency_key: key, entries: [{ ...line, account_code: 'SETTLEMENT-NGN', side: 'debit' }, line] };
}
