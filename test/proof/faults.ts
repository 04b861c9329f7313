// `npm run proof -- faults`: clients that never give up, a nemesis that breaks one part of the cluster after another, and what is there at the end.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { kafkaProblem } from '../../deploy/local/broker.ts';
import { toId } from '../../services/platform/ids.ts';
import { diskProblem } from '../disk.ts';
import { startCluster, type Cluster } from '../cluster.ts';
import { newTopic, ownKafka, type OwnKafka } from '../kafka.ts';
import { startReceiver, type Receiver } from '../notifier.ts';
import { currentRun } from '../run.ts';
import { startOwnPostgres, type OwnPostgres } from '../own-postgres.ts';
import { openChance, type Chance } from './chance.ts';
import { Clients, type Customer } from './clients.ts';
import { clockFaults, clockProblem, Clocks } from './clocks.ts';
import { diskFaults } from './full-disk.ts';
import { Member } from './member.ts';
import { faultsOf } from './nemesis.ts';
import { databaseClock, reckon } from './reckoning.ts';
import { replicas, type Fault, type Means, type Stage, type Suffering } from './stage.ts';
import { Misuse, type Task } from './task.ts';
import { described, held, report, type Episode, type Verdict } from './verdict.ts';
import { toKafka, Wires } from './wires.ts';

/** How a proof is run. */
export interface Trial extends Task {
  means: Means;
  /** `faults` are not what is chosen from, but each once and in this order, whatever the minutes. */
  inTurn?: boolean;
  /** Seconds that a process is stalled, least and most. */
  stallSeconds?: [number, number];
  /** Milliseconds that a client rests between two postings, at most. */
  restMs?: number;
}

const judged = ['kill ledger', 'stall ledger', 'kill postgres', 'hold a head'];
const severalAtOnce = 'several at once';
// After a fault all tenants post again, and their owners log in and make keys, within this time, or are stuck.
const recoverySeconds = 60;
// Further from this machine's clock than any receiver that checks it would take, seconds: https://www.standardwebhooks.com
const timestampTolerance = 300;

// Of the members' choices: beyond those of the clients, before those of the faults.
const ownStream = 500;

/** Runs a proof. Odd seeds relay over Kafka, where there is one. Throws {@link Misuse} for a fault that there is none of. */
export async function prove(task: Task): Promise<boolean> {
  const problem = kafkaProblem();
  const means = { kafka: task.seed % 2 === 1 && problem === null, disk: diskProblem() === null, clocks: clockProblem() === null };
  const lacking = missing();
  checkNames(task.faults ?? [], means, lacking);
  if (task.seed % 2 === 1 && problem !== null) task.say(`over gRPC, as ${problem}`);
  else task.say(`events travel over ${means.kafka ? 'Kafka' : 'gRPC'} (odd seeds: Kafka, even ones: gRPC)`);
  for (const [why, names] of Map.groupBy(lacking, ([, why]) => why)) {
    task.say(`skipped, as ${why}: ${names.map(([name]) => name).join(', ')}`);
  }
  const verdict = await tryFaults({ ...task, means });
  for (const line of report(verdict)) task.say(line);
  return held(verdict);
}

/** The faults that can't be had on this machine, each with the reason. */
function missing(): [name: string, why: string][] {
  const of = (faults: Fault[], why: string | null) => (why === null ? [] : faults.map(({ name }): [string, string] => [name, why]));
  return [...of(diskFaults, diskProblem()), ...of(clockFaults, clockProblem())];
}

function checkNames(asked: string[], means: Means, lacking: [name: string, why: string][]): void {
  const names = faultsOf(means).map(({ name }) => name);
  for (const name of asked.filter((each) => !names.includes(each))) {
    const why = lacking.find(([each]) => each === name)?.[1];
    if (why !== undefined) throw new Misuse(`--fault: there can be no ${name} here, as ${why}`);
    throw new Misuse(
      `--fault: there is no ${name}; over ${means.kafka ? 'Kafka (odd seeds)' : 'gRPC (even seeds)'} there are ${names.join(', ')}`,
    );
  }
}

/** Starts a cluster on a PostgreSQL of its own, breaks it, mends it and reckons. */
export async function tryFaults(trial: Trial): Promise<Verdict> {
  const undo: (() => Promise<unknown>)[] = [];
  const [outcome] = await Promise.allSettled([tryAll(trial, undo)]);
  // All of it: what can't be undone behind a cluster that is broken must not hide what broke it, nor leave the rest running.
  const undone: PromiseSettledResult<unknown>[] = [];
  for (const each of undo.reverse()) undone.push(...(await Promise.allSettled([each()])));
  for (const each of [outcome, ...undone]) if (each.status === 'rejected') throw each.reason;
  return (outcome as PromiseFulfilledResult<Verdict>).value;
}

async function tryAll(trial: Trial, undo: (() => Promise<unknown>)[]): Promise<Verdict> {
  const { stage, received, since, odd } = await setUp(trial, undo);
  const clients = new Clients(stage.cluster, stage.customers, trial.seed, 2, trial.restMs ?? 40);
  const members = stage.customers.map(
    ({ tenant }, number) => new Member(stage.cluster, tenant, openChance(trial.seed, ownStream + number)),
  );
  let episodes: Episode[];
  try {
    episodes = await new Nemesis(trial, stage, clients, members).run();
  } finally {
    await Promise.all([clients, ...members].map((each) => each.end()));
  }
  const reckoning = await reckon(stage.cluster, clients, received, since);
  return { episodes, clients, ...reckoning, findings: [...reckoning.findings, ...odd.slice(0, 10)] };
}

async function setUp(
  trial: Trial,
  undo: (() => Promise<unknown>)[],
): Promise<{ stage: Stage; received: Set<string>; since: Date; odd: string[] }> {
  const received = new Set<string>();
  const odd: string[] = [];
  const receiver: Receiver = await startReceiver(({ headers }, response) => {
    received.add(String(headers['x-webhook-id']));
    const off = Number(headers['webhook-timestamp']) - Date.now() / 1000;
    if (!(Math.abs(off) <= timestampTolerance)) odd.push(`a delivery came with a webhook-timestamp that is off by ${off.toFixed(0)} s`);
    receiver.received.length = 0;
    response.writeHead(204).end();
  });
  undo.push(() => receiver.close());
  const { means } = trial;
  const server: OwnPostgres = await startOwnPostgres({ ownDisk: means.disk });
  undo.push(() => server.end());
  const since = await databaseClock(server.adminUrl);
  const clocks = means.clocks ? new Clocks(join(currentRun().directory, `clocks-${randomBytes(4).toString('hex')}`)) : null;
  const wires = new Wires();
  undo.push(() => wires.close());
  let kafka: OwnKafka | null = null;
  if (means.kafka) {
    const broker = await ownKafka(undefined, (port) => wires.add(toKafka, port));
    undo.push(() => broker.stop());
    kafka = broker;
  }
  const events = kafka ? { KAFKA_BROKERS: kafka.address, KAFKA_TOPIC: newTopic(), KAFKA_PARTITIONS: '4' } : {};
  const told = clocks?.environment ?? {};
  const cluster: Cluster = await startCluster({
    ledgers: replicas.ledger,
    notifiers: replicas.notifier,
    server,
    between: (places) => wires.between(places, !means.kafka),
    // A delivery whose notifier is killed or stalled waits for the end of its lease, which is 15 s longer than an attempt may take.
    environment: {
      ...told,
      ledger: { ...told['ledger'], ...events },
      notifier: { ...told['notifier'], ...events, WEBHOOK_TIMEOUT: '5', WEBHOOK_RETRY_DELAYS: '1,2' },
    },
  });
  undo.push(() => cluster.stop());
  const customers: Customer[] = [];
  const person = await cluster.signUp();
  for (let count = 0; count < 4; count++) {
    const tenant = await cluster.tenant({ person });
    const key = await cluster.apiKey(tenant);
    const webhook = { url: receiver.url, events: ['transaction.posted', 'balance.updated'] };
    for (const [path, body] of [
      ['accounts/setup', { business_type: 'wallet' }],
      ['webhooks', webhook],
    ] as const) {
      const answer = await cluster.rest('POST', `/v1/tenants/${tenant.slug}/${path}`, { key, body });
      if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    customers.push({ tenant, key });
  }
  return {
    stage: { cluster, server, kafka, clocks, wires, customers, stallSeconds: trial.stallSeconds ?? [10, 40] },
    received,
    since,
    odd,
  };
}

/** Chooses faults, one or several at once, and measures what the clients see of them. */
class Nemesis {
  private readonly trial: Trial;
  private readonly stage: Stage;
  private readonly clients: Clients;
  private readonly members: Member[];
  private readonly faults: Fault[];
  private readonly chance: Chance;
  private readonly lateness = monitorEventLoopDelay({ resolution: 10 });
  private deck: Fault[] = [];
  private struck = 1_000;

  constructor(trial: Trial, stage: Stage, clients: Clients, members: Member[]) {
    this.trial = trial;
    this.stage = stage;
    this.clients = clients;
    this.members = members;
    this.faults = faultsOf(trial.means).filter(({ name }) => trial.faults?.includes(name) ?? true);
    this.chance = openChance(trial.seed);
  }

  async run(): Promise<Episode[]> {
    const until = performance.now() + this.trial.minutes * 60_000;
    const episodes: Episode[] = [];
    this.lateness.enable();
    try {
      await this.answered(performance.now());
      const calm = await this.episode('nothing', () => pause(4_000).then(() => ({})));
      episodes.push(calm);
      for (const faults of this.choices()) {
        // What was asked for is tried at least once.
        const { inTurn, faults: asked = [] } = this.trial;
        if (inTurn !== true && episodes.length > asked.length && performance.now() > until) break;
        const name = faults.map((fault) => fault.name).join(' + ');
        const episode = await this.episode(name, () => this.together(faults), calm);
        episodes.push(faults.length > 1 ? { ...episode, name: severalAtOnce } : episode);
      }
    } finally {
      this.lateness.disable();
    }
    return episodes;
  }

  private *choices(): Iterable<Fault[]> {
    const named = (names: string[]) => names.map((name) => this.faults.filter((fault) => fault.name === name));
    const { inTurn, faults } = this.trial;
    if (inTurn === true) {
      yield* named(faults ?? []);
      return;
    }
    // What was asked for, or has a limit, comes first, and alone, so that every run judges it.
    yield* named(this.chance.shuffled(faults ?? judged));
    for (;;) yield this.draw();
  }

  /** The next of a shuffled deck, and sometimes one or two more that can be there at once. */
  private draw(): Fault[] {
    const drawn: Fault[] = [];
    for (let more = this.chance.happens(0.35) ? this.chance.whole(2, 3) : 1; more > 0; more--) {
      if (this.deck.length === 0) this.deck = this.chance.shuffled(this.faults);
      const place = this.deck.findIndex(
        ({ target }) => drawn.length === 0 || (target !== null && drawn.every((each) => each.target !== target)),
      );
      if (place < 0 || drawn[0]?.target === null) break;
      drawn.push(...this.deck.splice(place, 1));
    }
    return drawn;
  }

  private async episode(name: string, run: () => Promise<Suffering>, calm?: Episode): Promise<Episode> {
    const { clients } = this;
    this.lateness.reset();
    clients.during = name.includes(' + ') ? severalAtOnce : name;
    const from = performance.now();
    const { tenants, limitSeconds, wrong = [] } = await run();
    clients.wrong.push(...wrong);
    const mended = performance.now();
    await this.answered(mended);
    const ids = tenants?.map((tenant) => toId('tenant', tenant));
    const others = clients.customers.map(({ tenant }) => tenant.id).filter((id) => ids?.includes(id) === false);
    const episode: Episode = {
      name,
      silence: clients.longestSilence(from, mended, ids),
      ...(limitSeconds !== undefined && { limit: limitSeconds }),
      ...(others.length > 0 && {
        silenceOfOthers: clients.longestSilence(from, mended, others),
        limitOfOthers: (calm?.silence ?? 0) + 1,
      }),
      late: this.lateness.max / 1e9,
    };
    this.trial.say(described(episode, (mended - from) / 1000));
    clients.during = 'nothing';
    // What is broken next finds a cluster at work.
    await pause(1_500);
    return episode;
  }

  private async together(faults: Fault[]): Promise<Suffering> {
    // Each with choices of its own, whichever of them is faster.
    const sufferings = await Promise.all(faults.map((fault) => fault.run(this.stage, openChance(this.trial.seed, ++this.struck))));
    return faults.length === 1 ? sufferings[0]! : { wrong: sufferings.flatMap(({ wrong = [] }) => wrong) };
  }

  /** Resolves when every tenant and its owner have been answered since. */
  private async answered(since: number): Promise<void> {
    for (;;) {
      const member = this.members.find((each) => !each.answeredSince(since));
      const posting = this.clients.allAnsweredSince(since);
      if (posting && !member) return;
      if (performance.now() - since > recoverySeconds * 1000) {
        const what = posting ? `login, tenants and new key (${member?.refused})` : 'posting';
        throw new Error(`a tenant has had no ${what} answered for ${recoverySeconds} s after everything was mended`);
      }
      await pause(10);
    }
  }
}
