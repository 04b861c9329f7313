// A user who logs in, lists his tenants and makes a key, again and again: what asks identity for more than the verification of keys.
import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, Cluster, RestOptions, Tenant } from '../cluster.ts';
import type { Chance } from './chance.ts';

/** Longer than the gateway itself takes for anything. */
const patienceMs = 12_000;

/** An owner at work. */
export class Member {
  /** What he was answered last that was no success, in words; empty: nothing yet. */
  refused = '';
  private readonly cluster: Cluster;
  private readonly tenant: Tenant;
  /** When the last round began that was answered from end to end, by `performance.now()`. */
  private answered = -Infinity;
  private token: string;
  private readonly ending = new AbortController();
  private readonly work: Promise<void>;

  /** Starts the owner of this tenant. */
  constructor(cluster: Cluster, tenant: Tenant, chance: Chance) {
    this.cluster = cluster;
    this.tenant = tenant;
    this.token = tenant.owner.token;
    this.work = this.run(chance);
  }

  /** Whether he has since begun to log in and then listed his tenants and made a key. */
  answeredSince(time: number): boolean {
    return this.answered > time;
  }

  /** Begins nothing more; resolves when what was begun is answered. */
  async end(): Promise<void> {
    this.ending.abort();
    await this.work;
  }

  private async run(chance: Chance): Promise<void> {
    while (!this.ending.signal.aborted) {
      const began = performance.now();
      if (await this.round()) this.answered = began;
      // Each login is a twentieth of a second's work of a core: with four owners who wait for half a second identity is busier than any other process.
      await pause(chance.whole(600, 1_800));
    }
  }

  // Whatever became of the one before the next is asked: where logins fail, the others would be out of the fault's reach.
  private async round(): Promise<boolean> {
    const { email, password } = this.tenant.owner;
    const login = await this.ask('POST', '/v1/auth/login', { body: { email, password } });
    if (login?.status === 200) this.token = login.body.data.token;
    const tenants = await this.ask('GET', '/v1/tenants', { key: this.token });
    const body = { name: 'of a member', scopes: ['balances:read'] };
    const made = await this.ask('POST', `/v1/tenants/${this.tenant.id}/api-keys`, { key: this.token, body });
    return login?.status === 200 && tenants?.status === 200 && made?.status === 201;
  }

  private async ask(method: string, path: string, options: RestOptions): Promise<Answer | null> {
    const told = (what: string) => (this.refused = `${method} ${path}: ${what}`);
    try {
      const answer = await this.cluster.rest(method, path, { ...options, signal: AbortSignal.timeout(patienceMs) });
      if (answer.status > 201) told(`${answer.status} ${JSON.stringify(answer.body)}`);
      return answer;
    } catch (error) {
      told(String(error));
      return null;
    }
  }
}
