// `npm run bench`: measures a whole cluster against what PostgreSQL itself can do on this machine, in alternating windows, and checks the ledger.
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { beginRun, endRun } from '../run.ts';
import { Baseline } from './baseline.ts';
import { callPostings } from './calls.ts';
import { checkLedger } from './check.ts';
import { startBenchCluster, type BenchCluster } from './cluster.ts';
import { endLoad, load, type Loaded } from './load.ts';
import { measurePayments } from './payments.ts';
import { describeMachine, report, type Sample, type Samples } from './report.ts';
import { makeTenants, type TenantGroup } from './tenants.ts';
import { Usage, between } from './usage.ts';
import { measureWebhooks } from './webhooks.ts';

const parts = ['baseline', 'rest', 'grpc', 'reads', 'payments', 'webhooks'];
const usage = `npm run bench -- [--seconds N] [--rounds N] [--only PART] [--connections N] [--kafka]
  --seconds N     length of a window, default 5
  --rounds N      how often each window is measured; medians are printed, default 3
  --only PART     ${parts.join(', ')}; may be repeated, default all
  --connections N of the REST windows; may be repeated, default 1, 64 and 256
  --kafka         events travel over Kafka
The data lies in the temporary directory (TMPDIR).`;

interface Options {
  seconds: number;
  rounds: number;
  only: string[];
  connections: number[];
  kafka: boolean;
}

function readOptions(): Options {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    options: {
      seconds: { ...text, default: '5' },
      rounds: { ...text, default: '3' },
      only: { ...text, multiple: true, default: parts },
      connections: { ...text, multiple: true, default: ['1', '64', '256'] },
      kafka: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    say(usage);
    process.exit();
  }
  const [seconds = 0, rounds = 0, ...connections] = [values.seconds, values.rounds, ...values.connections].map(Number);
  if ([seconds, rounds, ...connections].some((each) => !Number.isInteger(each) || each < 1))
    throw new Error('numbers must be whole and at least 1');
  const unknown = values.only.find((each) => !parts.includes(each));
  if (unknown !== undefined) throw new Error(`--only must be one of ${parts.join(', ')}, not ${unknown}`);
  return { seconds, rounds, connections, only: values.only, kafka: values.kafka };
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

type Window = () => Promise<unknown>;

/** Runs windows one by one and keeps their samples. */
class Bench {
  readonly samples: Samples = new Map();
  /** Every window that posts, warm-up included. */
  readonly posted: Loaded[] = [];
  private readonly cluster: BenchCluster;
  private readonly options: Options;
  private readonly usage: Usage;
  private series = 0;

  constructor(cluster: BenchCluster, options: Options) {
    this.cluster = cluster;
    this.options = options;
    this.usage = new Usage(cluster);
  }

  async run(one: TenantGroup, hundred: TenantGroup): Promise<void> {
    const { only, rounds, seconds } = this.options;
    const baseline = only.includes('baseline') ? await Baseline.open() : undefined;
    say('warming up');
    for (const group of [one, hundred]) {
      this.posted.push(await load(this.cluster.url, { ...this.window(group, 64), seconds: Math.min(4, seconds) }));
      if (only.includes('grpc')) this.posted.push(await callPostings(this.cluster, { group, series: this.newSeries(), seconds: 2 }));
    }
    for (let round = 0; round < rounds; round++) {
      say(`round ${round + 1} of ${rounds}`);
      const windows = [
        ...(baseline ? [this.bareCommit(baseline)] : []),
        ...(only.includes('rest') ? this.rest(one, hundred) : []),
        ...(only.includes('grpc') ? [this.calls('calls one', one), this.calls('calls hundred', hundred)] : []),
        ...(only.includes('reads')
          ? [() => this.measure('reads', () => load(this.cluster.url, { ...this.window(one, 8), kind: 'balance' }))]
          : []),
        ...(baseline ? [1, 2, 4].map((connections) => this.batches(baseline, connections)) : []),
      ];
      // Alternating order, as the machine's speed may drift.
      for (const window of round % 2 === 0 ? windows : windows.reverse()) await window();
    }
    await baseline?.end();
  }

  memory(): ReturnType<Usage['memory']> {
    this.usage.end();
    return this.usage.memory();
  }

  private newSeries(): string {
    return `w${String(++this.series).padStart(5, '0')}`;
  }

  private window(group: TenantGroup, connections: number) {
    return { kind: 'posting', group, hot: false, connections, seconds: this.options.seconds, series: this.newSeries() } as const;
  }

  private rest(one: TenantGroup, hundred: TenantGroup): Window[] {
    const posting = (name: string, group: TenantGroup, connections: number) => async () => {
      const window = { ...this.window(group, connections), hot: name === 'hot' };
      this.posted.push(await this.measure(`${name} ${connections}`, () => load(this.cluster.url, window)));
    };
    return this.options.connections.flatMap((connections) => [
      posting('uniform', one, connections),
      ...(connections < 64 ? [] : [posting('hot', one, connections), posting('hundred', hundred, connections)]),
    ]);
  }

  private calls(name: string, group: TenantGroup): Window {
    return async () => {
      const call = () => callPostings(this.cluster, { group, series: this.newSeries(), seconds: this.options.seconds });
      this.posted.push(await this.measure(name, call));
    };
  }

  private batches(baseline: Baseline, connections: number): Window {
    return () =>
      this.measure(`baseline ${connections}`, async () => {
        const { postings, perSecond } = await baseline.measure(connections, Math.max(1, this.options.seconds * 0.6));
        return { requests: postings, perSecond, p50: 0, p99: 0, failures: 0, cutOff: 0 };
      });
  }

  private bareCommit(baseline: Baseline): Window {
    return () =>
      this.measure('bare commit', async () => {
        const { commits, ...latencies } = await baseline.bareCommit(Math.max(1, this.options.seconds * 0.4));
        return { requests: commits, failures: 0, cutOff: 0, ...latencies };
      });
  }

  private async measure(name: string, work: () => Promise<Loaded>): Promise<Loaded> {
    const before = this.usage.cpu();
    const loaded = await work();
    const used = Object.entries(between(before, this.usage.cpu()));
    const sample: Sample = { ...loaded, cpu: Object.fromEntries(used.map(([each, time]) => [each, time / loaded.requests])) };
    this.samples.set(name, [...(this.samples.get(name) ?? []), sample]);
    const latency = loaded.p50 > 0 ? `, p50 ${loaded.p50.toFixed(2)} ms, p99 ${loaded.p99.toFixed(2)} ms` : '';
    say(`  ${name}: ${Math.round(loaded.perSecond)}/s${latency}${loaded.failures > 0 ? `, ${loaded.failures} FAILED` : ''}`);
    // What was cut off ends before the next window.
    await pause(300);
    return loaded;
  }
}

async function main(): Promise<boolean> {
  let options: Options;
  try {
    options = readOptions();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}\n`);
    process.exit(2);
  }
  process.once('exit', endLoad);
  await beginRun({ sharedBuffers: '256MB' });
  try {
    say('starting the cluster');
    const cluster = await startBenchCluster({ kafka: options.kafka });
    try {
      const { seconds, rounds, only } = options;
      const tables: string[] = [];
      const posted: Loaded[] = [];
      let before = 0;
      if (only.some((part) => part !== 'webhooks' && part !== 'payments')) {
        say('making tenants and accounts');
        const plans = [
          { name: 'one', tenants: 1, accounts: 1000 },
          { name: 'hundred', tenants: 100, accounts: 10 },
        ];
        const [one, hundred] = await makeTenants(cluster, plans);
        const bench = new Bench(cluster, options);
        await bench.run(one!, hundred!);
        tables.push(report(bench.samples, bench.memory()));
        posted.push(...bench.posted);
        before += 2000;
      }
      if (only.includes('payments')) {
        say('payments');
        const figures = await measurePayments(cluster, { seconds, rounds, say });
        tables.push(figures.table);
        posted.push(...figures.windows);
        before += figures.before;
      }
      const check = await checkLedger(cluster, before, posted);
      if (before > 0) tables.push(check.lines.map((line) => `- ${line}`).join('\n'));
      if (only.includes('webhooks')) tables.push(await measureWebhooks(cluster, { seconds, rounds, say }));
      const medians = `Medians of ${rounds} rounds, ${seconds} s a window, in alternating order; events over ${options.kafka ? 'Kafka' : 'gRPC'}.`;
      say(['', await describeMachine(cluster), medians, '', tables.join('\n\n')].join('\n'));
      return check.right;
    } finally {
      await cluster.stop();
    }
  } finally {
    await endRun();
  }
}

main().then(
  (isRight) => process.exit(isRight ? 0 : 1),
  (error: unknown) => {
    process.stderr.write(`${(error as Error).stack ?? String(error)}\n`);
    process.exit(1);
  },
);
