// Injects faults, one or several at once, and measures how long clients go without an answer.
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { toId } from '../../../services/platform/ids.ts';
import { seededRandom, type SeededRandom } from '../seeded-random.ts';
import type { Task } from '../task.ts';
import type { Clients } from './clients.ts';
import { faultsOf } from './fault-list.ts';
import type { TenantOwner } from './tenant-owner.ts';
import type { Fault, Impact, Setup, TestBench } from './test-bench.ts';
import { described, type Episode } from './verdict.ts';

/** How a proof runs. */
export interface Plan extends Task {
  setup: Setup;
  /** Runs each of `faults` once, in this order, whatever the minutes. */
  inOrder?: boolean;
  /** Seconds that a process is stalled, least and most. */
  stallSeconds?: [number, number];
  /** Longest pause of a client between two postings, milliseconds. */
  pauseMs?: number;
}

/** These have limits or matter most: every run injects them, each alone. */
const always = ['kill ledger', 'stall ledger', 'kill postgres', 'lock a head'];
const severalAtOnce = 'several at once';
/** So many seconds after the repair every tenant must post again and every owner log in. */
const recoverySeconds = 60;

/** One run of faults against a test bench. */
export class FaultInjector {
  private readonly plan: Plan;
  private readonly bench: TestBench;
  private readonly clients: Clients;
  private readonly owners: TenantOwner[];
  private readonly faults: Fault[];
  private readonly random: SeededRandom;
  private readonly lateness = monitorEventLoopDelay({ resolution: 10 });
  private deck: Fault[] = [];
  private injected = 1_000;

  constructor(plan: Plan, bench: TestBench, clients: Clients, owners: TenantOwner[]) {
    this.plan = plan;
    this.bench = bench;
    this.clients = clients;
    this.owners = owners;
    this.faults = faultsOf(plan.setup).filter(({ name }) => plan.faults?.includes(name) ?? true);
    this.random = seededRandom(plan.seed);
  }

  /** Injects faults until the time is over. The first episode is without a fault, for comparison. */
  async run(): Promise<Episode[]> {
    const until = performance.now() + this.plan.minutes * 60_000;
    const episodes: Episode[] = [];
    this.lateness.enable();
    try {
      await this.recovered(performance.now());
      // At first without a pause, so that clients of one tenant race.
      await this.episode('nothing', () => pause(3_000).then(() => ({})));
      this.clients.pauseMs = this.plan.pauseMs ?? 40;
      const calm = await this.episode('nothing', () => pause(3_000).then(() => ({})));
      episodes.push(calm);
      for (const faults of this.choices()) {
        const { inOrder, faults: named = [] } = this.plan;
        if (inOrder !== true && episodes.length > named.length && performance.now() > until) break;
        const name = faults.map((fault) => fault.name).join(' + ');
        const episode = await this.episode(name, () => this.inject(faults), calm);
        episodes.push(faults.length > 1 ? { ...episode, name: severalAtOnce } : episode);
      }
    } finally {
      this.lateness.disable();
    }
    return episodes;
  }

  private *choices(): Iterable<Fault[]> {
    const named = (names: string[]) => names.map((name) => this.faults.filter((fault) => fault.name === name));
    const { inOrder, faults } = this.plan;
    if (inOrder === true) {
      yield* named(faults ?? []);
      return;
    }
    yield* named(this.random.shuffled(faults ?? always));
    for (;;) yield this.draw();
  }

  /** The next of a shuffled deck, sometimes with one or two more that can be combined with it. */
  private draw(): Fault[] {
    const drawn: Fault[] = [];
    for (let more = this.random.happens(0.35) ? this.random.whole(2, 3) : 1; more > 0; more--) {
      if (this.deck.length === 0) this.deck = this.random.shuffled(this.faults);
      const index = this.deck.findIndex(
        ({ target }) => drawn.length === 0 || (target !== null && drawn.every((each) => each.target !== target)),
      );
      if (index < 0 || drawn[0]?.target === null) break;
      drawn.push(...this.deck.splice(index, 1));
    }
    return drawn;
  }

  private async episode(name: string, run: () => Promise<Impact>, calm?: Episode): Promise<Episode> {
    const { clients } = this;
    this.lateness.reset();
    clients.during = name.includes(' + ') ? severalAtOnce : name;
    const from = performance.now();
    const { tenants, limitSeconds, wrong = [] } = await run();
    clients.wrong.push(...wrong);
    const repaired = performance.now();
    await this.recovered(repaired);
    const ids = tenants?.map((tenant) => toId('tenant', tenant));
    const others = clients.customers.map(({ tenant }) => tenant.id).filter((id) => ids?.includes(id) === false);
    const episode: Episode = {
      name,
      silence: clients.longestSilence(from, repaired, ids),
      ...(limitSeconds !== undefined && { limit: limitSeconds }),
      ...(others.length > 0 && {
        silenceOfOthers: clients.longestSilence(from, repaired, others),
        limitOfOthers: (calm?.silence ?? 0) + 1,
      }),
      late: this.lateness.max / 1e9,
    };
    this.plan.say(described(episode, (repaired - from) / 1000));
    clients.during = 'nothing';
    // The next fault meets a cluster under load.
    await pause(1_500);
    return episode;
  }

  private async inject(faults: Fault[]): Promise<Impact> {
    // A stream each, so that their choices do not depend on which is faster.
    const impacts = await Promise.all(faults.map((fault) => fault.run(this.bench, seededRandom(this.plan.seed, ++this.injected))));
    return faults.length === 1 ? impacts[0]! : { wrong: impacts.flatMap(({ wrong = [] }) => wrong) };
  }

  /** Resolves when every tenant's posting and every owner's calls have succeeded since. */
  private async recovered(since: number): Promise<void> {
    for (;;) {
      const owner = this.owners.find((each) => !each.succeededSince(since));
      const posting = this.clients.allAnsweredSince(since);
      if (posting && !owner) return;
      if (performance.now() - since > recoverySeconds * 1000) {
        const what = posting ? `login, tenants and new key (${owner?.lastFailure})` : 'posting';
        throw new Error(`a tenant has had no ${what} answered for ${recoverySeconds} s after the repair`);
      }
      await pause(10);
    }
  }
}
