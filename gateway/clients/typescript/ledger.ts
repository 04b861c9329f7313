// The client of the ledger: `new Ledger({ url, tenant, key })` has a method for every operation.
import { LedgerError, pause, send, type Credential, type Given, type Operation, type Transport } from './call.ts';
import { operations, type Resources } from './gen/resources.gen.ts';
import type { AccessKey, Job, Scope } from './gen/types.gen.ts';
import { listen, type ListenOptions, type StreamedEvent } from './listen.ts';
import { Listing } from './listing.ts';
import type { Delivery, DeliveryHeaders } from './webhooks.ts';

export { LedgerError, type CallOptions, type Credential } from './call.ts';
export type * from './gen/types.gen.ts';
export type { ListenOptions, StreamedEvent } from './listen.ts';
export { Listing } from './listing.ts';
export { fromMinor, sum, toMinor } from './money.ts';
export type { Delivery, DeliveryHeaders } from './webhooks.ts';

/** Where the ledger is, and who calls it. */
export interface LedgerOptions {
  /** `https://ledger.example.com`, with its path if it has one. Empty in a browser: the page's own server. */
  url: string;
  /** Slug of the tenant. Needed for all that belongs to one. */
  tenant?: string | undefined;
  /** An API key or access key, or a function that gets one. Without it, and with a `token`, an access key is got and renewed. */
  key?: Credential | undefined;
  /** The JWT of a login, or a function that gets one: for users, tenants, members and keys. */
  token?: Credential | undefined;
  /** Scopes of the access key; default: all of the role. */
  scopes?: Scope[];
  fetch?: typeof fetch;
  /** Attempts after the first, of what may be repeated. Default 3. */
  retries?: number;
  /** Of each attempt. Default 15,000. */
  timeoutMs?: number;
}

/** What the library adds to the generated methods. */
interface Additions {
  events: { listen: (options?: ListenOptions) => AsyncGenerator<StreamedEvent, void, undefined> };
  webhooks: { verify: (body: string | Uint8Array, headers: DeliveryHeaders, secret: string) => Promise<Delivery> };
  jobs: { wait: (jobId: string, options?: { signal?: AbortSignal }) => Promise<Job> };
}

type Methods = { readonly [Noun in keyof Resources]: Resources[Noun] & (Noun extends keyof Additions ? Additions[Noun] : unknown) };
type Method = (...given: unknown[]) => unknown;

// The methods come from the generated table, so that the class has them without writing each.
const WithMethods = class {
  protected readonly options: LedgerOptions;
  private readonly transport: Transport;
  private tenantId: Promise<string> | undefined;
  private access: Promise<AccessKey> | undefined;

  constructor(options: LedgerOptions) {
    this.options = options;
    const { url, key, token, fetch: fetched = globalThis.fetch, retries = 3, timeoutMs = 15_000 } = options;
    const ownKey = key ?? (token === undefined ? undefined : (expired: boolean) => this.accessKey(expired));
    this.transport = {
      ...{ url: url.replace(/\/+$/, ''), retries, timeoutMs },
      // A browser's `fetch` wants no other `this`.
      fetch: (input, init) => fetched(input, init),
      credential: (by) => (by === 'key' ? ownKey : token),
    };
    for (const [noun, verbs] of Object.entries(operations)) {
      const methods = Object.entries<Operation>(verbs).map(([verb, operation]) => [verb, this.method(operation)]);
      Object.assign(this, { [noun]: Object.fromEntries(methods) as object });
    }
    this.addMethods(this as unknown as Methods);
  }

  private method(operation: Operation): Method {
    const count = [...operation.path.matchAll(/\{(\w+)\}/g)].filter(([, name]) => name !== 'slug' && name !== 'tenant_id').length;
    const hasBody = operation.body !== undefined;
    return (...all) => {
      const parameters = all.slice(0, count) as string[];
      const body = hasBody ? all[count] : undefined;
      const given = (all[count + (hasBody ? 1 : 0)] ?? {}) as Given;
      const call = (position: Record<string, unknown> = {}): Promise<unknown> =>
        this.call(operation, parameters, body, { ...given, ...position });
      return operation.paging && (given['format'] ?? 'json') === 'json' ? new Listing(operation.paging, call) : call();
    };
  }

  private async call(operation: Operation, parameters: readonly string[], body: unknown, given: Given): Promise<unknown> {
    const first = operation.path.includes('{slug}')
      ? [this.slug()]
      : operation.path.includes('{tenant_id}')
        ? [await this.idOfTenant()]
        : [];
    const { response, json } = await send(this.transport, operation, [...first, ...parameters], body, given);
    if (json === undefined) return response;
    return operation.answer === 'json' ? json : (json as { data: unknown }).data;
  }

  private slug(): string {
    const { tenant } = this.options;
    if (tenant === undefined) throw new TypeError('this call needs a ledger with a tenant');
    return tenant;
  }

  private idOfTenant(): Promise<string> {
    const find = async (): Promise<string> => {
      const slug = this.slug();
      for await (const tenant of (this as unknown as Methods).tenants.list({ limit: 100 })) if (tenant.slug === slug) return tenant.id;
      throw new LedgerError(`you are no member of ${slug}`, { status: 404, code: 'tenant_not_found' });
    };
    this.tenantId ??= find().catch((error: unknown) => {
      this.tenantId = undefined;
      throw error;
    });
    return this.tenantId;
  }

  /** An access key of the login, shared by all calls until a minute before its end. */
  private async accessKey(expired: boolean): Promise<string> {
    const known = this.access;
    const kept = expired ? undefined : await known?.catch(() => undefined);
    if (kept && Date.parse(kept.expires_at) - Date.now() > 60_000) return kept.key;
    // Of calls that wait for the same one, the first replaces it.
    if (this.access === known) {
      const { scopes } = this.options;
      this.access = (this as unknown as Methods).keys.access(scopes ? { scopes } : {}).then(({ access }) => access);
    }
    return (await (this.access as Promise<AccessKey>)).key;
  }

  private addMethods(all: Methods): void {
    const { events, webhooks, jobs } = all;
    const additions: Additions = {
      events: { listen: (options) => listen((query) => events.stream(query), options) },
      webhooks: {
        verify: async (...given) => {
          const { verifyWebhook } = await import('./webhooks.ts');
          return verifyWebhook(...given);
        },
      },
      jobs: {
        wait: async (jobId, { signal } = {}) => {
          for (let ms = 100; ; ms = Math.min(ms * 2, 2_000)) {
            const { job } = await jobs.get(jobId, signal ? { signal } : {});
            if (job.status !== 'queued' && job.status !== 'running') return job;
            await pause(ms, signal);
          }
        },
      },
    };
    Object.assign(events, additions.events);
    Object.assign(webhooks, additions.webhooks);
    Object.assign(jobs, additions.jobs);
  }
} as unknown as new (options: LedgerOptions) => Methods & { readonly options: LedgerOptions };

/** The API of one tenant, or without a tenant that of users. Every method is an operation; see the types for what it takes. */
export class Ledger extends WithMethods {
  /** The same server and login for another tenant. A key belongs to one tenant: it is not taken along. */
  withTenant(tenant: string): Ledger {
    const { key: _key, ...rest } = this.options;
    return new Ledger({ ...rest, tenant });
  }
}
