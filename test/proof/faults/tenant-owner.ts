// A tenant's owner that logs in, lists tenants and makes a key, again and again: calls of identity that no cache answers.
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, Cluster, RestOptions, Tenant } from '../../cluster.ts';
import type { SeededRandom } from '../seeded-random.ts';

/** Longer than the gateway's own deadlines. */
const timeoutMs = 12_000;

/** An owner at work until `end`. */
export class TenantOwner {
  /** The last call that did not succeed; empty: none yet. */
  lastFailure = '';
  private readonly cluster: Cluster;
  private readonly tenant: Tenant;
  /** Start of the last round in which all three calls succeeded, by `performance.now()`. */
  private succeeded = -Infinity;
  private token: string;
  private readonly ending = new AbortController();
  private readonly work: Promise<void>;

  constructor(cluster: Cluster, tenant: Tenant, random: SeededRandom) {
    this.cluster = cluster;
    this.tenant = tenant;
    this.token = tenant.owner.token;
    this.work = this.run(random);
  }

  /** Whether a whole round began and succeeded after this time. */
  succeededSince(time: number): boolean {
    return this.succeeded > time;
  }

  /** Begins nothing more; resolves when the round that is under way ends. */
  async end(): Promise<void> {
    this.ending.abort();
    await this.work;
  }

  private async run(random: SeededRandom): Promise<void> {
    while (!this.ending.signal.aborted) {
      const began = performance.now();
      if (await this.round()) this.succeeded = began;
      // A login costs 50 ms of a core: more often, identity would be the busiest process.
      await pause(random.whole(600, 1_800));
    }
  }

  private async round(): Promise<boolean> {
    const { email, password } = this.tenant.owner;
    const login = await this.call('POST', '/v1/auth/login', { body: { email, password } });
    if (login?.status === 200) this.token = login.body.data.token;
    const tenants = await this.call('GET', '/v1/tenants', { key: this.token });
    const body = { name: 'of an owner', scopes: ['balances:read'] };
    const made = await this.call('POST', `/v1/tenants/${this.tenant.id}/api-keys`, { key: this.token, body });
    return login?.status === 200 && tenants?.status === 200 && made?.status === 201;
  }

  private async call(method: string, path: string, options: RestOptions): Promise<Answer | null> {
    try {
      const answer = await this.cluster.rest(method, path, { ...options, signal: AbortSignal.timeout(timeoutMs) });
      if (answer.status > 201) this.lastFailure = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`;
      return answer;
    } catch (error) {
      this.lastFailure = `${method} ${path}: ${String(error)}`;
      return null;
    }
  }
}
