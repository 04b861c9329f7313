// Closed-loop clients of several tenants: each posts one after another, and repeats with the same key until it is answered.
import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster, Tenant } from '../cluster.ts';
import { openChance, type Chance } from './chance.ts';

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
  /** What went on when it was first sent. */
  during: string;
  /** Once it was answered with 201 or 200. */
  transactionId?: string;
}

/** A time without any answered posting of one tenant, by `performance.now()`. */
interface Silence {
  tenantId: string;
  from: number;
  to: number;
}

// Shorter times are the clients' own pace.
const leastSilenceMs = 50;
/** Longer than the gateway itself takes for anything. */
const patienceMs = 12_000;
/** What was begun must be answered so long after everything was mended, milliseconds: a proof that waits for ever tells nothing. */
const endMs = 120_000;
const readsAtOnce = 8;
/** In the place of a status: a reset or a time-out. */
const noAnswer = 599;

/** The account and currency that the credits of each kind add up on; nothing else credits them. */
export const sums = {
  double: { code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
  reversal: { code: 'SETTLEMENT-NGN', currency: 'NGN' },
  single: { code: 'OPERATING-CASH', currency: 'USD' },
} as const;

/** Clients at work. */
export class Clients {
  readonly customers: readonly Customer[];
  /** By key, which no two tenants share. */
  readonly tried = new Map<string, Tried>();
  /** How often each status was answered; `none` is a reset or a time-out. */
  readonly statuses = new Map<string, number>();
  /** Answers that no fault excuses. */
  readonly wrong: string[] = [];
  /** Said of the postings that are first sent from now on. */
  during = '';
  private readonly cluster: Cluster;
  private readonly restMs: number;
  private readonly silences: Silence[] = [];
  private readonly answeredAt = new Map<string, number>();
  private readonly reads = new Set<Promise<void>>();
  private readonly ending = new AbortController();
  private endedAt = Infinity;
  private readonly work: Promise<unknown>;

  /** Starts so many clients of each customer, who rest for so many milliseconds at most between two postings. */
  constructor(cluster: Cluster, customers: readonly Customer[], seed: number, each: number, restMs: number) {
    this.cluster = cluster;
    this.restMs = restMs;
    this.customers = customers;
    const began = performance.now();
    for (const { tenant } of customers) this.answeredAt.set(tenant.id, began);
    const clients = customers.flatMap((customer) => Array.from({ length: each }, () => customer));
    this.work = Promise.all(clients.map((customer, number) => this.run(customer, number, openChance(seed, number + 1))));
  }

  /** The longest time without any answered posting of one of these tenants (all, without) that reaches into this time, seconds. */
  longestSilence(from: number, to: number, tenantIds = this.customers.map(({ tenant }) => tenant.id)): number {
    const open = [...this.answeredAt].map(([tenantId, at]) => ({ tenantId, from: at, to }));
    const within = [...this.silences, ...open].filter((each) => tenantIds.includes(each.tenantId) && each.to > from && each.from < to);
    return Math.max(0, ...within.map((each) => each.to - each.from)) / 1000;
  }

  /** The time of each tenant's last answered posting is later than this. */
  allAnsweredSince(time: number): boolean {
    return [...this.answeredAt.values()].every((at) => at > time);
  }

  /** Begins no more postings; resolves when all that were begun are answered, or found to be wrong. */
  async end(): Promise<void> {
    this.endedAt = performance.now();
    this.ending.abort();
    await this.work;
    await Promise.all(this.reads);
  }

  private async run(customer: Customer, number: number, chance: Chance): Promise<void> {
    const { tenant } = customer;
    const doubles: Tried[] = [];
    for (let turn = 0; !this.ending.signal.aborted; turn++) {
      const tried: Tried = {
        tenantId: tenant.id,
        key: `client-${number}-${turn}`,
        kind: chance.happens(0.25) ? 'single' : 'double',
        amount: BigInt(chance.whole(1, 1_000_000)),
        during: this.during,
      };
      const reversed = chance.happens(0.2) ? doubles.pop() : undefined;
      if (reversed) Object.assign(tried, { kind: 'reversal', amount: reversed.amount, reverses: reversed.transactionId });
      this.tried.set(tried.key, tried);
      const transactionId = await this.post(customer, tried);
      if (transactionId !== null) {
        tried.transactionId = transactionId;
        if (tried.kind === 'double') doubles.push(tried);
        this.answered(tenant.id);
        // Beside the postings: what is measured is how long they wait.
        if (chance.happens(0.2) && this.reads.size < readsAtOnce) {
          const read = this.read(customer, transactionId).finally(() => this.reads.delete(read));
          this.reads.add(read);
        }
      }
      // Leaves the machine time for what is tried here: the cluster, not its speed.
      await pause(chance.whole(0, this.restMs));
    }
  }

  /** Null where the posting was refused, which none is. */
  private async post(customer: Customer, tried: Tried): Promise<string | null> {
    const path = { single: '', double: '/double-entry', reversal: `/${tried.reverses}/reverse` }[tried.kind];
    for (let attempt = 0; ; attempt++) {
      const answer = await this.ask(customer, 'POST', `/transactions${path}`, bodyOf(tried));
      // The first to be told of a posting is told that it is new.
      if (answer.status === 201 || (answer.status === 200 && attempt > 0)) return answer.body.data.transaction.transaction_id as string;
      if (this.isFinal(answer, `posting ${tried.key}, attempt ${attempt + 1},`)) return null;
      if (performance.now() - this.endedAt > endMs) {
        this.wrong.push(`posting ${tried.key} is not answered, ${endMs / 1000} s after all faults`);
        return null;
      }
      await pause(Math.min(50 * 2 ** attempt, 400));
    }
  }

  /** What was answered is there. */
  private async read(customer: Customer, transactionId: string): Promise<void> {
    for (;;) {
      const answer = await this.ask(customer, 'GET', `/transactions/${transactionId}`);
      if (answer.status === 200 && answer.body.data.transaction.transaction_id === transactionId) return;
      // Nobody waits for a read.
      if (this.isFinal(answer, `reading ${transactionId}`) || this.ending.signal.aborted) return;
      await pause(200);
    }
  }

  private async ask({ tenant, key }: Customer, method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> {
    const signal = AbortSignal.timeout(patienceMs);
    const url = `/v1/tenants/${tenant.slug}${path}`;
    const answer = await this.cluster
      .rest(method, url, { key, signal, ...(body !== undefined && { body }) })
      .catch(() => ({ status: noAnswer, body: undefined }));
    const name = answer.status === noAnswer ? 'none' : String(answer.status);
    this.statuses.set(name, (this.statuses.get(name) ?? 0) + 1);
    return answer;
  }

  /** Whether to ask no more; whatever no fault excuses is noted. 408: a gateway that was stalled found that the request took long. */
  private isFinal({ status, body }: { status: number; body: any }, what: string): boolean {
    if (status === 408 || status === 503 || status === noAnswer) return false;
    if (this.wrong.length < 100) this.wrong.push(`${what} was answered ${status} ${JSON.stringify(body)}`);
    return status < 500;
  }

  private answered(tenantId: string): void {
    const now = performance.now();
    const before = this.answeredAt.get(tenantId) ?? now;
    if (now - before > leastSilenceMs) this.silences.push({ tenantId, from: before, to: now });
    this.answeredAt.set(tenantId, now);
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
