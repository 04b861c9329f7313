// One run of a sequence: the tenants in the model, the calls that were made, and the checks after every change.
import { setTimeout as pause } from 'node:timers/promises';
import { idOfKeyText } from '../../../services/identity/credentials.ts';
import type { Cluster, Person } from '../../cluster.ts';
import { Failed, grpcActor, isRead, type Call, type LedgerApi, type Operation, type Seen } from '../ledger-api.ts';
import type { Received } from '../../notifier.ts';
import { balance } from './chart-model.ts';
import { disagreement, type Expected } from './expectation.ts';
import type { LedgerModel } from './ledger-model.ts';
import type { By, Transaction } from './records.ts';

/** Chooses an account or transaction: an index among those that exist, or an unfit one where `odd` is small. */
export interface Pick {
  at: number;
  /** 0 to 19. */
  odd: number;
}

/** One step; `do` names it, the rest are its parameters. */
export type Step = { do: string; via: Call['via']; tenant: number } & Record<string, any>;

/** Executes a step. Throws {@link Divergence}. */
export type Move = (run: ModelRun, tenant: Tenant, step: Step) => Promise<void>;

/** A tenant as the model knows it. */
export interface Tenant {
  id: string;
  slug: string;
  key: string;
  ledger: LedgerModel;
  /** Every answered posting, for repetition. */
  posted: { operation: Operation; body: Record<string, any>; transaction: Transaction }[];
  /** Every answered hold and capture, likewise. */
  held: { operation: Operation; body: Record<string, any> }[];
  /** All its events are delivered. */
  isSubscribed: boolean;
  lastHash: string;
  lastCreated: number;
}

/** The cluster's answer is not the model's. */
export class Divergence extends Error {}

/** A change was answered 503 or too late, so its outcome is unknown. */
export class Unavailable extends Divergence {}

/** Counts over all sequences. */
export class Tally {
  steps = 0;
  calls = 0;
  postings = 0;
  deliveries = 0;
  /** Sequences that were run again for a {@link Unavailable}. */
  repeated = 0;
  readonly kinds = new Map<string, number>();
  /** By status, or `gRPC`, and code. */
  readonly refusals = new Map<string, number>();

  count(of: Map<string, number>, name: string): void {
    of.set(name, (of.get(name) ?? 0) + 1);
  }

  /** Counts a refusal; one of gRPC has no status. */
  refused(status: number | null, code: string): void {
    this.count(this.refusals, `${status ?? 'gRPC'} ${code}`);
  }
}

/** What all runs share. */
export interface RunContext {
  cluster: Cluster;
  api: LedgerApi;
  /** Webhooks of tenants lead to `hooks`/slug; what has arrived there, by slug. */
  hooks: string;
  received: Map<string, Received[]>;
  tally: Tally;
  /** The owner of all tenants. */
  owner: Person;
  /** Makes a tenant's model. */
  newLedger: () => LedgerModel;
}

/** An unavailable read is repeated for so long. */
const readRetryMs = 60_000;

export class ModelRun {
  readonly context: RunContext;
  /** The calls of the steps with their answers. */
  readonly made: { call: Call; answer: Seen | string }[] = [];
  readonly tenants: Tenant[] = [];
  private turn = 0;

  constructor(context: RunContext) {
    this.context = context;
  }

  /** A name that no other call of this run has. */
  next(prefix: string): string {
    return `${prefix}${(this.turn++).toString(36)}`;
  }

  async newTenant(): Promise<Tenant> {
    const { cluster, owner, newLedger } = this.context;
    const made = await cluster.tenant({ person: owner, businessType: 'other' });
    const about = { id: made.id, slug: made.slug, key: await cluster.apiKey(made) };
    const tenant = { ...about, ledger: newLedger(), posted: [], held: [], isSubscribed: false, lastHash: '0'.repeat(64), lastCreated: 0 };
    this.tenants.push(tenant);
    return tenant;
  }

  prepare({ via }: Step, tenant: Tenant, operation: Operation, request: Record<string, unknown>): Call & { by: By } {
    const requestId = this.next('r');
    const actor = via === 'rest' ? idOfKeyText(tenant.key)! : grpcActor;
    return { via, tenant, operation, request, requestId, by: { actor, request_id: requestId } };
  }

  /** Calls and compares the answer with what is expected. */
  async send(call: Call, expected: Expected | ((seen: Seen) => string | null)): Promise<Seen> {
    const { tally } = this.context;
    tally.calls++;
    const seen = await this.answered(call).catch((error: unknown) => {
      this.made.push({ call, answer: String(error) });
      const why = `no answer: ${String(error)}`;
      throw error instanceof Failed && error.code === 'unavailable' ? new Unavailable(why) : new Divergence(why);
    });
    this.made.push({ call, answer: seen });
    const wrong = typeof expected === 'function' ? expected(seen) : disagreement(expected, seen);
    if (wrong !== null) throw new Divergence(wrong);
    if (seen.code !== undefined) tally.refused(seen.status, seen.code);
    return seen;
  }

  // On a machine that stands still for seconds a read can be repeated.
  private async answered(call: Call): Promise<Seen> {
    for (const until = performance.now() + readRetryMs; ; await pause(500)) {
      try {
        return await this.context.api.call(call);
      } catch (error) {
        const isLater = error instanceof Failed && error.code === 'unavailable' && isRead(call) && performance.now() < until;
        if (!isLater) throw error;
      }
    }
  }

  /** Changes the model and the cluster, then compares answer, log, and the balances of these accounts. Resolves to what was expected. */
  async change<Outcome extends Expected | ((seen: Seen) => string | null)>(
    step: Step,
    tenant: Tenant,
    [operation, request]: [operation: Operation, request: Record<string, unknown>],
    inModel: (by: By) => Outcome,
    touched: [code: string, currency: string][] = [],
  ): Promise<Outcome> {
    const before = tenant.ledger.log.length;
    const call = this.prepare(step, tenant, operation, request);
    const expected = inModel(call.by);
    await this.send(call, expected);
    await this.compareLog(step, tenant, before, touched);
    return expected;
  }

  /** Reads and compares. */
  async read(step: Step, tenant: Tenant, operation: Operation, request: Record<string, unknown>, expected: Expected): Promise<void> {
    await this.send(this.prepare(step, tenant, operation, request), expected);
  }

  /** Reads all pages of a list and compares them with what is expected. */
  async pages(
    step: Step,
    tenant: Tenant,
    [operation, request]: [operation: Operation, request: Record<string, unknown> & { limit: number }],
    name: string,
    expected: unknown[],
  ): Promise<void> {
    const { limit } = request;
    let cursor: string | null = null;
    for (let from = 0; from === 0 || cursor !== null; from += limit) {
      const call = this.prepare(step, tenant, operation, { ...request, ...(cursor !== null && { cursor }) });
      const has_more = from + limit < expected.length;
      const page = { [name]: expected.slice(from, from + limit), pagination: { has_more } };
      const { next_cursor } = (await this.send(call, { status: 200, data: page })).data.pagination;
      if ((next_cursor !== null) !== has_more)
        throw new Divergence(`${name}: cursor ${next_cursor} after ${from + limit} of ${expected.length}`);
      cursor = next_cursor;
    }
  }

  /** An account's code: mostly one of few that accept this currency; sometimes any, or an unknown one. */
  code({ ledger }: Tenant, { at, odd }: Pick, currency?: string): string {
    const all = [...ledger.accounts.values()];
    if (odd === 0 || all.length === 0) return 'NO-SUCH';
    if (odd === 1) return all[at % all.length]!.account_code;
    const unfit = all.filter((each) => (odd === 2 ? each.status === 'closed' : odd === 3 && each.system));
    if (unfit.length > 0) return unfit[at % unfit.length]!.account_code;
    const holds = all.filter((each) => !each.is_group && (currency === undefined || (each.currency ?? currency) === currency));
    const open = holds.filter((each) => each.status === 'active');
    const [kept, free] = [open.filter((each) => !each.allow_negative), open.filter((each) => each.allow_negative)];
    const few = [...kept.slice(-5), ...free.slice(0, 4), ...free.slice(-5)];
    return few[at % few.length]?.account_code ?? 'NO-SUCH';
  }

  /** Compares the new events of the log with the model's, then the balances of these accounts. */
  async compareLog(step: Step, tenant: Tenant, before: number, touched: [code: string, currency: string][]): Promise<void> {
    const { log } = tenant.ledger;
    const steps = this.made.length;
    let from = before;
    do {
      const call = this.prepare(step, tenant, 'events', { after_sequence: from, limit: 100 });
      const page = log
        .slice(from, from + 100)
        .map(({ changes: _, captured: __, ...event }, index) => ({ ...event, sequence: from + index + 1 }));
      const seen = await this.send(call, { status: 200, data: { events: page } });
      for (const event of seen.data.events as any[]) this.follows(tenant, event);
      from += page.length;
    } while (from < log.length);
    for (const [account_code, currency] of touched) {
      await this.read(step, tenant, 'balance', { account_code, currency }, balance(tenant.ledger, account_code, currency));
    }
    this.made.length = steps;
  }

  private follows(tenant: Tenant, { sequence, previous_hash, hash, created_at, ...event }: any): void {
    const created = event.created ?? Math.floor(Date.parse(created_at as string) / 1000);
    if (previous_hash !== tenant.lastHash)
      throw new Divergence(`event ${sequence} has previous_hash ${previous_hash}, and its predecessor's hash is ${tenant.lastHash}`);
    if (!(created >= tenant.lastCreated)) throw new Divergence(`event ${sequence} was created before its predecessor`);
    [tenant.lastHash, tenant.lastCreated] = [hash, created];
  }
}

/** A call and its answer in one line. */
export function printed({ call: { via, tenant, operation, request }, answer }: ModelRun['made'][number]): string {
  const json = (value: unknown) => JSON.stringify(value, (name, each: unknown) => (name === 'tenant' ? (each as Tenant).slug : each));
  return `${via} ${tenant.slug} ${operation} ${json(request)} -> ${json(answer).slice(0, 500)}`;
}
