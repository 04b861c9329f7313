// One run of a sequence: the tenants in the model, the calls that were made, and the checks after every change.
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { LedgerModel } from './ledger-model.ts';
import { balance } from './chart-model.ts';
import { Failed, type Call, type ApiClients, type Grpc, type Recorded, type Rest } from '../api-clients.ts';
import { Learned, difference, disagreement, type Expected, type Seen } from './expectation.ts';
import { WebhookModel, type Receiver } from './webhook-model.ts';
import type { By, Transaction } from './records.ts';
import type { Pick, Step } from './steps.ts';

/** An API key as the model knows it. */
export interface Key {
  id: string;
  text: string;
  scopes: string[];
  /** When its revocation was answered, epoch milliseconds. */
  revokedAt?: number;
  /** It was rotated and expires. */
  expires?: boolean;
}

/** A tenant as the model knows it. */
export interface Tenant {
  id: string;
  slug: string;
  /** The first has every scope. */
  keys: [Key, ...Key[]];
  ledger: LedgerModel;
  webhook: WebhookModel;
  /** Every answered posting, for repetition. */
  posted: { body: Record<string, any>; transaction: Transaction; reverses?: string }[];
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
  clients: ApiClients;
  receiver: Receiver;
  tally: Tally;
  /** The owner of all tenants. */
  owner: { token: string; id: string; email: string };
  /** Makes a tenant's model. */
  newLedger: () => LedgerModel;
  /** Adds so many minor units to both debits and credits of a balance, to reach limits that no sequence could. */
  inflate: (tenantId: string, accountId: string, currency: string, units: bigint) => Promise<void>;
  /** Resolves when the tenant's events up to this sequence have been published. */
  published: (tenantId: string, sequence: number) => Promise<void>;
}

const everyScope = ['accounts:read', 'accounts:write', 'balances:read', 'transactions:read', 'transactions:write', 'webhooks:manage'];
/** An unavailable read is repeated for so long. */
const readRetryMs = 60_000;
let runs = 0;

export class ModelRun {
  readonly context: RunContext;
  readonly made: Recorded[] = [];
  readonly tenants: Tenant[] = [];
  /** Calls that only compare; they are not part of the steps. */
  readonly checks = new Set<Recorded>();
  readonly name = `m${process.pid.toString(36)}-${Date.now().toString(36)}-${(runs++).toString(36)}`;
  private turn = 0;

  constructor(context: RunContext) {
    this.context = context;
  }

  /** A name that no other call of this run has. */
  next(prefix: string): string {
    return `${prefix}${(this.turn++).toString(36)}`;
  }

  tenant(step: Step): Tenant {
    return this.tenants[step.tenant % this.tenants.length]!;
  }

  /** Calls and compares the answer with what is expected. */
  async call(call: Call, expected: Expected | ((seen: Seen) => string | null)): Promise<Seen> {
    const { tally } = this.context;
    tally.calls++;
    const seen = await this.answered(call).catch((error: unknown) => {
      const why = `no answer: ${String(error)}`;
      throw error instanceof Failed && error.code === 'unavailable' ? new Unavailable(why) : new Divergence(why);
    });
    const wrong = typeof expected === 'function' ? expected(seen) : disagreement(expected, seen);
    if (wrong !== null) throw new Divergence(wrong);
    if (seen.code !== undefined) tally.refused(seen.status, seen.code);
    return seen;
  }

  // On a machine that stands still for seconds a read can be repeated.
  private async answered(call: Call): Promise<Seen> {
    const isRead = call.via === 'rest' ? call.method === 'GET' : /^(get|list)/.test(call.method);
    for (const until = performance.now() + readRetryMs; ; await pause(500)) {
      try {
        return await this.context.clients.call(call, this.made);
      } catch (error) {
        const isLater = error instanceof Failed && error.code === 'unavailable' && isRead && performance.now() < until;
        if (!isLater) throw error;
      }
    }
  }

  /** A REST call with the tenant's first key or another token; `path` is below the tenant's slug. */
  rest(tenant: Tenant, method: string, path: string, body?: unknown, token = tenant.keys[0].text): Rest & { by: By } {
    const request_id = this.next('r');
    const call: Rest = { via: 'rest', method, path: `/v1/tenants/${tenant.slug}${path}`, token, headers: { 'x-request-id': request_id } };
    return { ...call, ...(body !== undefined && { body }), by: { actor: tenant.keys[0].id, request_id } };
  }

  grpc(tenant: Tenant, method: Grpc['method'], request: Record<string, unknown>): Grpc & { by: By } {
    const by = { actor: 'model', request_id: this.next('r') };
    return { via: 'grpc', method, request: { tenantId: tenant.id, actor: by.actor, requestId: by.request_id, ...request }, by };
  }

  async newTenant(): Promise<Tenant> {
    const { token } = this.context.owner;
    const slug = `${this.name}-${this.tenants.length}`;
    const body = { name: 'Model', slug, business_type: 'other' };
    const about = { id: new Learned('tenant'), ...body, description: null, status: 'active', created_at: new Learned('time') };
    const call = (path: string, sent: unknown): Rest => ({ via: 'rest', method: 'POST', path, token, body: sent });
    await this.call(call('/v1/tenants', body), { status: 201, data: { tenant: about } });
    const id = about.id.known();
    const key = await this.newKey(id, everyScope);
    const ledger = this.context.newLedger();
    const webhook = new WebhookModel(`${this.context.receiver.url}/${slug}`);
    const tenant: Tenant = { id, slug, keys: [key], ledger, webhook, posted: [], lastHash: '0'.repeat(64), lastCreated: 0 };
    this.tenants.push(tenant);
    return tenant;
  }

  async newKey(tenantId: string, scopes: string[]): Promise<Key> {
    const { token } = this.context.owner;
    const shown = { id: new Learned('key'), name: 'model', scopes, description: null, key: new Learned('text') };
    const path = `/v1/tenants/${tenantId}/api-keys`;
    const body = { name: 'model', scopes: [...scopes, scopes[0]] };
    await this.call({ via: 'rest', method: 'POST', path, token, body }, { status: 201, data: { api_key: shown } });
    return { id: shown.id.known(), text: shown.key.known(), scopes };
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
  async compareLog(tenant: Tenant, before: number, touched: [code: string, currency: string][], via: Step['via']): Promise<void> {
    const first = this.made.length;
    let from = before;
    do {
      const call = via === 'rest' ? this.rest(tenant, 'GET', `/events?limit=100&after_sequence=${from}`) : this.eventsCall(tenant, from);
      const seen = await this.call(call, ({ code }) => (code === undefined ? null : `refused as ${code}`));
      const page = tenant.ledger.log.slice(from, from + 100);
      for (const [index, event] of (seen.data.events as any[]).entries()) this.follows(tenant, event, from + index);
      const wrong = difference(
        page.map(({ changes: _, ...event }, index) => ({ ...event, sequence: from + index + 1 })),
        seen.data.events,
        'events',
      );
      if (wrong !== null) throw new Divergence(`the log: ${wrong}`);
      from += page.length;
    } while (from < tenant.ledger.log.length);
    for (const [code, currency] of touched) {
      const expected = balance(tenant.ledger, code, currency);
      const rest = () => this.rest(tenant, 'GET', `/accounts/code/${code}/balance?currency=${currency}`);
      await this.call(via === 'rest' ? rest() : this.grpc(tenant, 'getBalance', { accountCode: code, currency }), expected);
    }
    for (const made of this.made.slice(first)) this.checks.add(made);
  }

  private eventsCall(tenant: Tenant, after: number): Grpc {
    return this.grpc(tenant, 'listEvents', { afterSequence: BigInt(after), limit: 100 });
  }

  private follows(tenant: Tenant, event: any, index: number): void {
    if (index < tenant.ledger.log.length && event.previous_hash !== tenant.lastHash) {
      throw new Divergence(`event ${index + 1} has previous_hash ${event.previous_hash}, and its predecessor's hash is ${tenant.lastHash}`);
    }
    const created = event.created ?? Math.floor(Date.parse(event.created_at) / 1000);
    if (!(created >= tenant.lastCreated)) throw new Divergence(`event ${index + 1} was created before its predecessor`);
    tenant.lastHash = event.hash;
    tenant.lastCreated = created;
  }

  /** Reads all pages of a list and compares them with what is expected. */
  async pages(call: (cursor: string) => Call, name: string, expected: unknown[], limit: number): Promise<void> {
    let cursor = '';
    for (let from = 0; from === 0 || cursor !== ''; from += limit) {
      const seen = await this.call(call(cursor), { status: 200, data: { [name]: expected.slice(from, from + limit) } });
      const next = (seen.status === null ? seen.data.next_cursor || null : seen.data.pagination.next_cursor) as string | null;
      const more = from + limit < expected.length;
      if ((next !== null) !== more)
        throw new Divergence(`${name}: ${more ? 'no' : 'a'} cursor after ${from + limit} of ${expected.length}`);
      const page = { limit, has_more: more };
      if (seen.status !== null && !isDeepStrictEqual({ ...seen.data.pagination, next_cursor: 0 }, { ...page, next_cursor: 0 })) {
        throw new Divergence(`${name}: pagination is ${JSON.stringify(seen.data.pagination)}`);
      }
      cursor = next ?? '';
    }
  }
}
