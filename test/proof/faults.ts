// `npm run proof -- faults`: clients that never give up, a nemesis that breaks one part of the house after another, and what is there at the end.
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { kafkaProblem } from '../../deploy/local/broker.ts';
import { toId, toUuid } from '../../services/platform/ids.ts';
import { startHouse, type House } from '../house.ts';
import { newTopic, ownKafka, type OwnKafka } from '../kafka.ts';
import { startReceiver, type Receiver } from '../notifier.ts';
import { ownServer, type OwnServer } from '../server.ts';
import { openChance, type Chance } from './chance.ts';
import { Clients, type Customer } from './clients.ts';
import type { Task } from './main.ts';
import { faultsOf, type Fault, type Stage } from './nemesis.ts';
import { reckon } from './reckoning.ts';
import { complaints, described, report, type Episode, type Verdict } from './verdict.ts';
import { Wires } from './wires.ts';

/** How a proof is run. */
export interface Trial extends Task {
  /** Whether events travel over Kafka. */
  kafka: boolean;
  /** These faults, each once and one after another, instead of what the seed chooses for so many minutes. */
  faults?: string[];
  /** Seconds that a process is stalled, least and most. */
  stallSeconds?: [number, number];
}

const judged = ['kill ledger', 'stall ledger', 'kill postgres', 'hold a head'];
const severalAtOnce = 'several at once';
// After a fault all tenants post again within this time, or are stuck.
const recoverySeconds = 60;

/** Runs a proof. Odd seeds relay over Kafka, where there is one. */
export async function prove(task: Task): Promise<boolean> {
  const problem = kafkaProblem();
  const kafka = task.seed % 2 === 1 && problem === null;
  if (task.seed % 2 === 1 && problem !== null) task.say(`over gRPC, as ${problem}`);
  else task.say(`events travel over ${kafka ? 'Kafka' : 'gRPC'} (odd seeds: Kafka, even ones: gRPC)`);
  const verdict = await tryFaults({ ...task, kafka });
  for (const line of report(verdict)) task.say(line);
  return complaints(verdict).length === 0;
}

/** Starts a house on a PostgreSQL of its own, breaks it, mends it and reckons. */
export async function tryFaults(trial: Trial): Promise<Verdict> {
  const undo: (() => Promise<unknown>)[] = [];
  try {
    const { stage, customers, received } = await setUp(trial, undo);
    const clients = new Clients(stage.house, customers, trial.seed, 2);
    let episodes: Episode[];
    try {
      episodes = await new Nemesis(trial, stage, clients).run();
    } finally {
      await clients.end();
    }
    return { episodes, clients, ...(await reckon(stage.house, clients, received)) };
  } finally {
    for (const each of undo.reverse()) await each();
  }
}

async function setUp(
  trial: Trial,
  undo: (() => Promise<unknown>)[],
): Promise<{ stage: Stage; customers: Customer[]; received: Set<string> }> {
  const received = new Set<string>();
  const receiver: Receiver = await startReceiver(({ headers }, response) => {
    received.add(String(headers['x-webhook-id']));
    receiver.received.length = 0;
    response.writeHead(204).end();
  });
  undo.push(() => receiver.close());
  const server: OwnServer = await ownServer();
  undo.push(() => server.end());
  const wires = new Wires();
  undo.push(() => wires.close());
  let kafka: OwnKafka | null = null;
  if (trial.kafka) {
    const broker = await ownKafka(undefined, (port) => wires.add('clients to kafka', port));
    undo.push(() => broker.stop());
    kafka = broker;
  }
  const events = kafka ? { KAFKA_BROKERS: kafka.address, KAFKA_TOPIC: newTopic(), KAFKA_PARTITIONS: '4' } : {};
  const house: House = await startHouse({
    ledgers: 2,
    notifiers: 2,
    server,
    between: (places) => wires.between(places, !trial.kafka),
    // A delivery whose notifier is killed or stalled waits for the end of its lease, which is 15 s longer than an attempt may take.
    environment: { ledger: events, notifier: { ...events, WEBHOOK_TIMEOUT: '5', WEBHOOK_RETRY_DELAYS: '1,2' } },
  });
  undo.push(() => house.stop());
  const customers: Customer[] = [];
  const person = await house.signUp();
  for (let count = 0; count < 4; count++) {
    const tenant = await house.tenant({ person });
    const key = await house.apiKey(tenant);
    const webhook = { url: receiver.url, events: ['transaction.posted', 'balance.updated'] };
    for (const [path, body] of [
      ['accounts/setup', { business_type: 'wallet' }],
      ['webhooks', webhook],
    ] as const) {
      const answer = await house.rest('POST', `/v1/tenants/${tenant.slug}/${path}`, { key, body });
      if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    customers.push({ tenant, key });
  }
  const tenants = customers.map(({ tenant }) => toUuid('tenant', tenant.id)!);
  return { stage: { house, server, kafka, wires, tenants, stallSeconds: trial.stallSeconds ?? [10, 40] }, customers, received };
}

/** Chooses faults, one or several at once, and measures what the clients see of them. */
class Nemesis {
  private readonly trial: Trial;
  private readonly clients: Clients;
  private readonly faults: Fault[];
  private readonly chance: Chance;
  private readonly lateness = monitorEventLoopDelay({ resolution: 10 });
  private deck: Fault[] = [];
  private struck = 1_000;

  constructor(trial: Trial, stage: Stage, clients: Clients) {
    this.trial = trial;
    this.clients = clients;
    this.faults = faultsOf(stage);
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
        if (this.trial.faults === undefined && performance.now() > until) break;
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
    const asked = this.trial.faults?.map((name) => this.faults.filter((fault) => fault.name === name));
    if (asked) {
      yield* asked;
      return;
    }
    // What has a limit comes first, and alone, so that every run judges it.
    for (const name of this.chance.shuffled(judged)) yield this.faults.filter((fault) => fault.name === name);
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

  private async episode(name: string, run: () => ReturnType<Fault['run']>, calm?: Episode): Promise<Episode> {
    const { clients } = this;
    this.lateness.reset();
    clients.during = name.includes(' + ') ? severalAtOnce : name;
    const from = performance.now();
    const { tenants, limitSeconds } = await run();
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
    // What is broken next finds a house at work.
    await pause(1_500);
    return episode;
  }

  private async together(faults: Fault[]): ReturnType<Fault['run']> {
    // Each with choices of its own, whichever of them is faster.
    const sufferings = await Promise.all(faults.map((fault) => fault.run(openChance(this.trial.seed, ++this.struck))));
    return faults.length === 1 ? sufferings[0]! : {};
  }

  /** Resolves when every tenant has been answered since. */
  private async answered(since: number): Promise<void> {
    while (!this.clients.allAnsweredSince(since)) {
      if (performance.now() - since > recoverySeconds * 1000) {
        throw new Error(`a tenant has had no posting answered for ${recoverySeconds} s after everything was mended`);
      }
      await pause(10);
    }
  }
}
