// `npm run bench`: starts the whole cluster on a PostgreSQL of its own, measures it against what PostgreSQL itself can do, checks the books and
// leaves nothing behind. The windows take turns, so that a machine that is slow for a while is slow for all of them.
import { setTimeout as pause } from 'node:timers/promises';
import { kafkaProblem } from '../../deploy/local/broker.ts';
import { StartFailure } from '../../services/platform/lifetime.ts';
import { prepareBooks, type AllBooks } from './books.ts';
import { callPostTransactions } from './calls.ts';
import { checkBooks } from './check.ts';
import { Cluster } from './cluster.ts';
import { endLoad, load, type Loaded } from './load.ts';
import { readOptions, usage, type Options } from './options.ts';
import { printProfile } from './profile.ts';
import { registerUsers } from './reads.ts';
import { describe, describeMachine, report, type Sample, type Samples } from './report.ts';
import { Usage, between } from './usage.ts';
import { measureWebhooks } from './webhooks.ts';
import { Yardstick } from './yardstick.ts';

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function options(): Options {
  if (process.argv.includes('--help')) {
    say(usage);
    process.exit();
  }
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}\n`);
    process.exit(2);
  }
}

const asked = options();
const { seconds, rounds, only } = asked;
const profiling = asked.profiles === undefined ? undefined : { directory: asked.profiles, processes: asked.profiled };
const newCluster = () => new Cluster({ parent: asked.data, ledgers: asked.ledgers, profiling, say });
let cluster = newCluster();
const state = { stopped: false };

async function measureAll(): Promise<boolean> {
  say('starting the cluster');
  await cluster.openServer();
  const serving = only.some((part) => part !== 'ceiling');
  if (serving) await cluster.openProcesses();
  say('making tenants and accounts');
  const books = serving ? await prepareBooks(cluster) : undefined;
  const yardstick = only.includes('ceiling') ? await Yardstick.open(cluster) : undefined;
  const meter = new Meter(new Usage(cluster.processes, cluster.postmaster));
  if (books) await warmUp(books, meter);
  for (let round = 0; round < rounds; round++) {
    say(`round ${round + 1} of ${rounds}`);
    // A bare commit beside one connection, which is compared with it, and the yardstick at the other end: what its batches leave for the disk to write
    // would be found in the p99 of one connection.
    const windows = [
      ...(yardstick ? [bareWindow(yardstick, meter)] : []),
      ...(books ? clusterWindows(books, meter) : []),
      ...(yardstick ? yardstickWindows(yardstick, meter) : []),
    ];
    // There and back: what comes late in one round comes early in the next.
    for (const window of round % 2 === 0 ? windows : windows.reverse()) await window();
  }
  await yardstick?.end();
  meter.usage.end();
  say(`\n${await describe(cluster, asked)}\n`);
  say(report(meter.samples, meter.usage.memory()));
  if (!books) return true;
  const check = await checkBooks(cluster, books.postings, meter.all);
  say(`\n${check.lines.map((line) => `- ${line}`).join('\n')}`);
  if (asked.verify) say(`- verify: ${(await cluster.command('verify', ['services/ledger/cli.ts', 'verify'])).trim()}`);
  return check.right;
}

/** The same over gRPC and, where there can be one, over Kafka. */
async function measureBothWays(): Promise<boolean> {
  const problem = kafkaProblem();
  const tables: string[] = [];
  for (const way of problem === null ? ['gRPC', 'Kafka'] : ['gRPC']) {
    if (way !== 'gRPC') {
      await cluster.end();
      cluster = newCluster();
    }
    say(`starting the cluster, events over ${way}`);
    await cluster.openServer();
    const brokers = way === 'Kafka' ? await cluster.openKafka() : null;
    await cluster.openProcesses();
    const table = await measureWebhooks(cluster, { brokers, seconds, rounds, say });
    tables.push(`${await describeMachine(cluster, 'load by one process')}\nEvents over ${way}; ${seconds} s a window.\n\n${table}`);
  }
  if (problem !== null) tables.push(`Not measured over Kafka: ${problem}.`);
  say(`\n${tables.join('\n\n')}`);
  return true;
}

/** Measures windows one by one and remembers them. */
class Meter {
  readonly usage: Usage;
  readonly samples: Samples = new Map();
  /** Of every window that posts, warm-up too. */
  readonly all: Loaded[] = [];
  private series = 0;

  constructor(processes: Usage) {
    this.usage = processes;
  }

  /** Six characters that no other window has. */
  newSeries(): string {
    return `w${String(++this.series).padStart(5, '0')}`;
  }

  async measure(name: string, work: () => Promise<Loaded>): Promise<Loaded> {
    const before = this.usage.cpu();
    const loaded = await work();
    const used = between(before, this.usage.cpu());
    const sample: Sample = {
      ...loaded,
      cpu: Object.fromEntries(Object.entries(used).map(([each, time]) => [each, time / loaded.requests])),
    };
    this.samples.set(name, [...(this.samples.get(name) ?? []), sample]);
    const latency = loaded.p50 > 0 ? `, p50 ${loaded.p50.toFixed(2)} ms, p99 ${loaded.p99.toFixed(2)} ms` : '';
    say(`  ${name}: ${Math.round(loaded.perSecond)}/s${latency}${loaded.failures > 0 ? `, ${loaded.failures} FAILED` : ''}`);
    // What was cut off at the end of a window is finished outside of the next one.
    await pause(300);
    return loaded;
  }
}

type Window = () => Promise<unknown>;

function yardstickWindows(yardstick: Yardstick, meter: Meter): Window[] {
  return [1, 2, 4].map((connections) => () => {
    return meter.measure(`yardstick ${connections}`, async () => {
      const { postings, perSecond } = await yardstick.measure(connections, Math.max(1, seconds * 0.6));
      return { requests: postings, perSecond, p50: 0, p99: 0, failures: 0, cutOff: 0 };
    });
  });
}

function bareWindow(yardstick: Yardstick, meter: Meter): Window {
  return () =>
    meter.measure('bare commit', async () => {
      const { commits, ...latencies } = await yardstick.bareCommit(Math.max(1, seconds * 0.4));
      return { requests: commits, failures: 0, cutOff: 0, ...latencies };
    });
}

function clusterWindows({ one, hundred }: AllBooks, meter: Meter): Window[] {
  const { url } = cluster;
  const posting = (name: string, connections: number, more: { books: typeof one; hot?: boolean }) => async () => {
    const window = { kind: 'posting', hot: false, connections, seconds, series: meter.newSeries(), ...more } as const;
    meter.all.push(await meter.measure(`${name} ${connections}`, () => load(url, window)));
  };
  const calls = (name: string, books: typeof one) => async () => {
    meter.all.push(await meter.measure(name, () => callPostTransactions(cluster, books, meter.newSeries(), seconds)));
  };
  const reads = (name: string, around: (window: Promise<Loaded>) => Promise<unknown>) => () => {
    return meter.measure(name, async () => {
      const window = load(url, { kind: 'balance', books: one, hot: false, connections: 8, seconds, series: meter.newSeries() });
      await around(window);
      return window;
    });
  };
  const rest = asked.connections.flatMap((connections) => {
    const uniform = posting('uniform', connections, { books: one });
    if (connections < 64) return [uniform];
    return [uniform, posting('hot', connections, { books: one, hot: true }), posting('hundred', connections, { books: hundred })];
  });
  const grpc = [calls('calls one', one), calls('calls hundred', hundred)];
  const registering = async (window: Promise<Loaded>) => {
    const { registered, failures } = await registerUsers(url, window);
    meter.samples.set('registered', [
      ...(meter.samples.get('registered') ?? []),
      { requests: registered, perSecond: registered / seconds, p50: 0, p99: 0, failures, cutOff: 0, cpu: {} },
    ]);
  };
  return [
    ...(only.includes('rest') ? rest : []),
    ...(only.includes('grpc') ? grpc : []),
    ...(only.includes('reads') ? [reads('reads idle', (window) => window), reads('reads busy', registering)] : []),
  ];
}

/** Compiles the hot paths and brings every account its first posting. */
async function warmUp({ one, hundred }: AllBooks, meter: Meter): Promise<void> {
  say('warming up');
  const window = { kind: 'posting', hot: false, connections: 64, seconds: Math.min(4, seconds) } as const;
  for (const books of [one, hundred]) {
    if (only.includes('rest')) meter.all.push(await load(cluster.url, { ...window, books, series: meter.newSeries() }));
    if (only.includes('grpc')) meter.all.push(await callPostTransactions(cluster, books, meter.newSeries(), 2));
  }
  if (only.includes('reads')) await load(cluster.url, { ...window, kind: 'balance', books: one, seconds: 2, series: meter.newSeries() });
  await pause(500);
}

/** Ends everything; true if nothing else has begun to. */
async function end(): Promise<boolean> {
  if (state.stopped) return false;
  state.stopped = true;
  endLoad();
  await cluster.end();
  return true;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => void end().then((mine) => mine && process.exit(130)));
}

let right = false;
try {
  right = await (asked.webhooks ? measureBothWays() : measureAll());
} catch (error) {
  // What fails while everything is being stopped fails because of that.
  const told = error instanceof StartFailure ? error.message : ((error as Error).stack ?? String(error));
  if (!state.stopped) process.stderr.write(`${told}\n`);
}
if (await end()) {
  if (profiling) for (const name of profiling.processes) say(printProfile(profiling.directory, name));
  process.exit(right ? 0 : 1);
}
