// One sequence's world: the tenants as the model knows them, the calls that were made, and the checks that follow every change.
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Books } from './books.ts';
import { balance } from './chart.ts';
import { Failed, type Call, type Doors, type Grpc, type Made, type Rest } from './doors.ts';
import { Learned, difference, disagreement, type Expected, type Seen } from './expectation.ts';
import { Hook, type Receiver } from './hook.ts';
import type { By, Transaction } from './records.ts';
import type { Pick, Step } from './steps.ts';

/** An API key as the model knows it. */
export interface Key {
  id: string;
  text: string;
  scopes: string[];
  /** When its revocation was answered, milliseconds. */
  revokedAt?: number;
  /** It was rotated. */
  expires?: boolean;
}

/** A tenant as the model knows it. */
export interface Tenant {
  id: string;
  slug: string;
  /** The first has every scope. */
  keys: [Key, ...Key[]];
  books: Books;
  hook: Hook;
  /** Every request to post that was answered, to be sent again. */
  posted: { body: Record<string, any>; transaction: Transaction; reverses?: string }[];
  lastHash: string;
  lastCreated: number;
}

/** The model and the cluster have said different things. */
export class Divergence extends Error {}

/** A change was answered 503, or too late: whether it was made is not known. */
export class GivenUp extends Divergence {}

/** What is counted over all sequences. */
export class Tally {
  steps = 0;
  calls = 0;
  postings = 0;
  deliveries = 0;
  /** Sequences that were run again for a {@link GivenUp}. */
  givenUp = 0;
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

export interface Surroundings {
  doors: Doors;
  receiver: Receiver;
  tally: Tally;
  /** Everybody's: who owns the tenants. */
  owner: { token: string; id: string; email: string };
  /** Makes a tenant's model. */
  newBooks: () => Books;
  /** Adds this to both the debits and the credits of a balance, minor units: a past that no sequence could post its way to. */
  swell: (tenantId: string, accountId: string, currency: string, units: bigint) => Promise<void>;
  /** Resolves when the tenant's log up to this place has been handed to the notifier. */
  consumed: (tenantId: string, sequence: number) => Promise<void>;
}

const everyScope = ['accounts:read', 'accounts:write', 'balances:read', 'transactions:read', 'transactions:write', 'webhooks:manage'];
/** A read that is unavailable for longer is no answer, milliseconds. */
const patienceMs = 60_000;
let worlds = 0;

export class World {
  readonly around: Surroundings;
  readonly made: Made[] = [];
  readonly tenants: Tenant[] = [];
  /** What follows a step is left out of its script. */
  readonly checks = new Set<Made>();
  readonly name = `m${process.pid.toString(36)}-${Date.now().toString(36)}-${(worlds++).toString(36)}`;
  private turn = 0;

  constructor(around: Surroundings) {
    this.around = around;
  }

  /** A name that no other call of this world has. */
  next(prefix: string): string {
    return `${prefix}${(this.turn++).toString(36)}`;
  }

  tenant(step: Step): Tenant {
    return this.tenants[step.tenant % this.tenants.length]!;
  }

  /** Calls and holds the answer against what is expected. */
  async ask(call: Call, expected: Expected | ((seen: Seen) => string | null)): Promise<Seen> {
    const { tally } = this.around;
    tally.calls++;
    const seen = await this.answered(call).catch((error: unknown) => {
      const why = `no answer: ${String(error)}`;
      throw error instanceof Failed && error.code === 'unavailable' ? new GivenUp(why) : new Divergence(why);
    });
    const wrong = typeof expected === 'function' ? expected(seen) : disagreement(expected, seen);
    if (wrong !== null) throw new Divergence(wrong);
    if (seen.code !== undefined) tally.refused(seen.status, seen.code);
    return seen;
  }

  // A machine that stands still for seconds has reads given up, which are as good the next time.
  private async answered(call: Call): Promise<Seen> {
    const isRead = call.via === 'rest' ? call.method === 'GET' : /^(get|list)/.test(call.method);
    for (const until = performance.now() + patienceMs; ; await pause(500)) {
      try {
        return await this.around.doors.call(call, this.made);
      } catch (error) {
        const isLater = error instanceof Failed && error.code === 'unavailable' && isRead && performance.now() < until;
        if (!isLater) throw error;
      }
    }
  }

  /** A call of REST with a tenant's first key, or another token; `path` is below the tenant's slug. */
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
    const { token } = this.around.owner;
    const slug = `${this.name}-${this.tenants.length}`;
    const body = { name: 'Model', slug, business_type: 'other' };
    const about = { id: new Learned('tenant'), ...body, description: null, status: 'active', created_at: new Learned('time') };
    const call = (path: string, sent: unknown): Rest => ({ via: 'rest', method: 'POST', path, token, body: sent });
    await this.ask(call('/v1/tenants', body), { status: 201, data: { tenant: about } });
    const id = about.id.known();
    const key = await this.newKey(id, everyScope);
    const books = this.around.newBooks();
    const hook = new Hook(`${this.around.receiver.url}/${slug}`);
    const tenant: Tenant = { id, slug, keys: [key], books, hook, posted: [], lastHash: '0'.repeat(64), lastCreated: 0 };
    this.tenants.push(tenant);
    return tenant;
  }

  async newKey(tenantId: string, scopes: string[]): Promise<Key> {
    const { token } = this.around.owner;
    const told = { id: new Learned('key'), name: 'model', scopes, description: null, key: new Learned('text') };
    const path = `/v1/tenants/${tenantId}/api-keys`;
    const body = { name: 'model', scopes: [...scopes, scopes[0]] };
    await this.ask({ via: 'rest', method: 'POST', path, token, body }, { status: 201, data: { api_key: told } });
    return { id: told.id.known(), text: told.key.known(), scopes };
  }

  /** An account's code: mostly one that takes postings in this currency, the same few again and again; sometimes any, or none's. */
  code({ books }: Tenant, { at, odd }: Pick, currency?: string): string {
    const all = [...books.accounts.values()];
    if (odd === 0 || all.length === 0) return 'NO-SUCH';
    if (odd === 1) return all[at % all.length]!.account_code;
    const strange = all.filter((each) => (odd === 2 ? each.status === 'closed' : odd === 3 && each.system));
    if (strange.length > 0) return strange[at % strange.length]!.account_code;
    const holds = all.filter((each) => !each.is_group && (currency === undefined || (each.currency ?? currency) === currency));
    const open = holds.filter((each) => each.status === 'active');
    const [kept, free] = [open.filter((each) => !each.allow_negative), open.filter((each) => each.allow_negative)];
    const few = [...kept.slice(-5), ...free.slice(0, 4), ...free.slice(-5)];
    return few[at % few.length]?.account_code ?? 'NO-SUCH';
  }

  /** Holds the log against the model's: what is new there, and nothing else; then the balances of these accounts. */
  async agree(tenant: Tenant, before: number, touched: [code: string, currency: string][], via: Step['via']): Promise<void> {
    const first = this.made.length;
    let from = before;
    do {
      const call = via === 'rest' ? this.rest(tenant, 'GET', `/events?limit=100&after_sequence=${from}`) : this.eventsCall(tenant, from);
      const seen = await this.ask(call, ({ code }) => (code === undefined ? null : `refused as ${code}`));
      const page = tenant.books.log.slice(from, from + 100);
      for (const [place, event] of (seen.data.events as any[]).entries()) this.follows(tenant, event, from + place);
      const wrong = difference(
        page.map(({ changes: _, ...event }, place) => ({ ...event, sequence: from + place + 1 })),
        seen.data.events,
        'events',
      );
      if (wrong !== null) throw new Divergence(`the log: ${wrong}`);
      from += page.length;
    } while (from < tenant.books.log.length);
    for (const [code, currency] of touched) {
      const expected = balance(tenant.books, code, currency);
      const rest = () => this.rest(tenant, 'GET', `/accounts/code/${code}/balance?currency=${currency}`);
      await this.ask(via === 'rest' ? rest() : this.grpc(tenant, 'getBalance', { accountCode: code, currency }), expected);
    }
    for (const made of this.made.slice(first)) this.checks.add(made);
  }

  private eventsCall(tenant: Tenant, after: number): Grpc {
    return this.grpc(tenant, 'listEvents', { afterSequence: BigInt(after), limit: 100 });
  }

  private follows(tenant: Tenant, event: any, place: number): void {
    if (place < tenant.books.log.length && event.previous_hash !== tenant.lastHash) {
      throw new Divergence(`event ${place + 1} names ${event.previous_hash} as the one before, which had ${tenant.lastHash}`);
    }
    const created = event.created ?? Math.floor(Date.parse(event.created_at) / 1000);
    if (!(created >= tenant.lastCreated)) throw new Divergence(`event ${place + 1} was created before the one in front of it`);
    tenant.lastHash = event.hash;
    tenant.lastCreated = created;
  }

  /** Walks the pages of a list and holds all of it against what is expected. */
  async pages(call: (cursor: string) => Call, name: string, expected: unknown[], limit: number): Promise<void> {
    let cursor = '';
    for (let from = 0; from === 0 || cursor !== ''; from += limit) {
      const seen = await this.ask(call(cursor), { status: 200, data: { [name]: expected.slice(from, from + limit) } });
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
