// Clients of several tenants that post one after another, each posting with its key until it is answered, and read meanwhile.
import { setTimeout as pause } from 'node:timers/promises';
import { toDecimal } from '../../../services/platform/money.ts';
import type { Tenant } from '../../cluster.ts';
import { Failed, type LedgerApi, type Operation, type Seen, type Via } from '../ledger-api.ts';
import { seededRandom, type SeededRandom } from '../seeded-random.ts';
import { useHold, type TriedHold } from './hold-clients.ts';

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
  /** Of a capture: what it takes it from; it was refused where the hold had ended. */
  hold?: { id: string; isFinal: boolean };
  isRefused?: boolean;
  /** The fault during which it was first sent. */
  during: string;
  /** When it was first sent, and when it was answered, by `performance.now()`. */
  askedAt: number;
  answeredAt: number;
  /** Set once it was answered. */
  transactionId?: string;
}

/** A balance that a client has read. */
export interface Read {
  tenantId: string;
  /** Account and currency. */
  place: string;
  start: number;
  end: number;
  version: number;
  debits: string;
  credits: string;
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

/** The account and currency that each kind of posting credits; nothing else credits them. */
export const sums = {
  double: { code: 'CUSTOMER-WALLETS-NGN', currency: 'NGN' },
  reversal: { code: 'SETTLEMENT-NGN', currency: 'NGN' },
  single: { code: 'OPERATING-CASH', currency: 'USD' },
  capture: { code: 'CUSTOMER-WALLETS-EUR', currency: 'EUR' },
} as const;

/** Clients at work until `end`. */
export class Clients {
  readonly customers: readonly Customer[];
  /** By key, which no two tenants share. */
  readonly tried = new Map<string, Tried>();
  readonly holds: TriedHold[] = [];
  readonly reads: Read[] = [];
  /** How often there was each answer: `ok`, a refusal's code, or `none` for a reset or a timeout. */
  readonly statuses = new Map<string, number>();
  /** Answers that no fault explains. */
  readonly wrong: string[] = [];
  /** Noted with each posting that is first sent from now on. */
  during = '';
  /** Longest pause between two postings of a client, milliseconds. */
  pauseMs = 0;
  private readonly api: LedgerApi;
  private readonly silences: Silence[] = [];
  private readonly lastAnswerAt = new Map<string, number>();
  private readonly aside = new Set<Promise<void>>();
  private readonly ending = new AbortController();
  private endedAt = Infinity;
  private readonly work: Promise<unknown>;

  /** Starts so many clients per tenant. */
  constructor(api: LedgerApi, customers: readonly Customer[], { seed, perTenant }: { seed: number; perTenant: number }) {
    this.api = api;
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
    await Promise.all(this.aside);
  }

  private async run(customer: Customer, number: number, random: SeededRandom): Promise<void> {
    const { tenant } = customer;
    const doubles: Tried[] = [];
    for (let turn = 0; !this.ending.signal.aborted; turn++) {
      const key = `client-${number}-${turn}`;
      if (random.happens(0.2)) {
        await useHold({ customer, key, random, clients: this, send: (...request) => this.sent(customer, ...request) });
        await pause(random.whole(0, this.pauseMs));
        continue;
      }
      const tried = this.begin({
        ...{ tenantId: tenant.id, key, kind: random.happens(0.25) ? 'single' : 'double', amount: BigInt(random.whole(1, 1_000_000)) },
      });
      const reversed = random.happens(0.2) ? doubles.pop() : undefined;
      if (reversed) Object.assign(tried, { kind: 'reversal', amount: reversed.amount, reverses: reversed.transactionId });
      await this.post(customer, tried);
      if (tried.transactionId !== undefined) {
        if (tried.kind === 'double') doubles.push(tried);
        // Not awaited: the time between postings is what is measured.
        if (random.happens(0.3) && this.aside.size < maxReads) {
          const via = random.pick(['rest', 'grpc'] as const);
          const work = (
            random.happens(0.6) ? this.read(customer, via, random) : this.again(customer, via, tried, random.happens(0.5))
          ).finally(() => this.aside.delete(work));
          this.aside.add(work);
        }
      }
      // With faults the machine needs time, and speed is not tested here.
      await pause(random.whole(0, this.pauseMs));
    }
  }

  /** Notes a posting that is about to be sent. */
  begin(posting: Pick<Tried, 'tenantId' | 'key' | 'kind' | 'amount' | 'hold'>): Tried {
    const tried = { ...posting, during: this.during, askedAt: performance.now(), answeredAt: Infinity };
    this.tried.set(tried.key, tried);
    return tried;
  }

  /** Sends a posting until it is answered. Resolves to how its hold had ended, which is wrong unless it `mayHaveEnded`, else null. */
  async post(customer: Customer, tried: Tried, mayHaveEnded = false): Promise<string | null> {
    const seen = await this.sent(customer, ...requestOf(tried));
    if (seen?.code === undefined && seen?.data) {
      tried.transactionId = seen.data.transaction.transaction_id;
      tried.answeredAt = performance.now();
    } else if (mayHaveEnded && seen?.code === 'hold_ended') {
      tried.isRefused = true;
      return String(seen.value);
    } else if (seen) this.note(`posting ${tried.key} was answered ${JSON.stringify(seen)}`);
    return null;
  }

  /** Sends a request with a key until it is answered; null where it never was, which is noted. */
  private async sent(customer: Customer, operation: Operation, request: Record<string, unknown>): Promise<Seen | null> {
    const key = String(request['idempotency_key'] ?? request['hold_id']);
    for (let attempt = 0; ; attempt++) {
      const seen = await this.call(customer, 'rest', operation, request);
      // A first attempt is never a replay.
      if (seen && (attempt > 0 || !seen.replayed)) {
        this.answered(customer.tenant.id);
        return seen;
      }
      if (seen) this.note(`${operation} ${key}, sent for the first time, was answered ${JSON.stringify(seen)}`);
      else if (performance.now() - this.endedAt > endMs)
        this.note(`${operation} ${key} is not answered, ${endMs / 1000} s after all faults`);
      else {
        await pause(Math.min(50 * 2 ** attempt, 400));
        continue;
      }
      return null;
    }
  }

  /** Sends an answered posting once more under its key: the same, which is a replay, or with another amount, which is refused. */
  private async again(customer: Customer, via: Via, tried: Tried, isSame: boolean): Promise<void> {
    const [operation, request] = requestOf(isSame || tried.kind === 'reversal' ? tried : { ...tried, amount: tried.amount + 1n });
    const seen = await this.call(customer, via, operation, request);
    if (!seen) return;
    const isReplay = seen.replayed && seen.data.transaction.transaction_id === tried.transactionId;
    const isRight = isSame || tried.kind === 'reversal' ? isReplay : seen.code === 'idempotency_key_reused';
    if (!isRight)
      this.note(
        `posting ${tried.key}, sent again ${isSame ? '' : 'with another amount '}over ${via}, was answered ${JSON.stringify(seen)}`,
      );
  }

  /** Reads one of the balances that postings credit. */
  private async read(customer: Customer, via: Via, random: SeededRandom): Promise<void> {
    const { code: account_code, currency } = random.pick(Object.values(sums));
    const start = performance.now();
    const seen = await this.call(customer, via, 'balance', { account_code, currency });
    if (!seen) return;
    if (seen.code !== undefined) this.note(`reading a balance was answered ${JSON.stringify(seen)}`);
    else {
      const { version, debits, credits } = seen.data.balance;
      const about = { tenantId: customer.tenant.id, place: `${account_code} ${currency}`, start, end: performance.now() };
      this.reads.push({ ...about, version, debits, credits });
    }
  }

  /** Null where the outcome is unknown, so that the call is to be repeated. 408: a stalled gateway found that the request took too long. */
  private async call({ tenant, key }: Customer, via: Via, operation: Operation, request: Record<string, unknown>): Promise<Seen | null> {
    const count = (name: string) => this.statuses.set(name, (this.statuses.get(name) ?? 0) + 1);
    try {
      const seen = await this.api.call({ via, tenant: { ...tenant, key }, operation, request }, AbortSignal.timeout(timeoutMs));
      count(seen.code ?? 'ok');
      return seen.status === 408 ? null : seen;
    } catch (error) {
      const code = error instanceof Failed ? error.code : 'none';
      count(code);
      if (!['unavailable', 'overloaded', 'none'].includes(code)) this.note(String(error));
      return null;
    }
  }

  /** Notes an answer that no fault explains. */
  note(what: string): void {
    if (this.wrong.length < 100) this.wrong.push(what);
  }

  private answered(tenantId: string): void {
    const now = performance.now();
    const before = this.lastAnswerAt.get(tenantId) ?? now;
    if (now - before > minSilenceMs) this.silences.push({ tenantId, from: before, to: now });
    this.lastAnswerAt.set(tenantId, now);
  }
}

function requestOf({ key: idempotency_key, kind, amount, reverses, hold }: Tried): [Operation, Record<string, unknown>] {
  if (kind === 'reversal') return ['reverse', { idempotency_key, transaction_id: reverses }];
  if (kind === 'capture') return ['capture', { idempotency_key, hold_id: hold?.id, amount: toDecimal(amount), final: hold?.isFinal }];
  const { code, currency } = sums[kind];
  const line = { account_code: code, amount: toDecimal(amount), side: 'credit', currency };
  if (kind === 'single') return ['single', { idempotency_key, ...line }];
  return ['double', { idempotency_key, entries: [{ ...line, account_code: 'SETTLEMENT-NGN', side: 'debit' }, line] }];
}
