// `npm run bench -- --only webhooks`: time from a posting's answer to its receiver, and deliveries per second.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import type { BenchCluster } from './cluster.ts';
import { median, percentile } from './figures.ts';
import { postingOf } from './posting.ts';
import { BenchReceiver, now } from './receiver.ts';
import { table } from './report.ts';
import { postSteadily } from './steady.ts';
import { callerOf, makeTenants, subscribe, type TenantGroup } from './tenants.ts';
import { Usage, between } from './usage.ts';

/** Deliveries that are kept waiting in the sustained windows. */
const backlog = 4_000;

/** Measures a running cluster; resolves to a Markdown table. */
export async function measureWebhooks(
  cluster: BenchCluster,
  { seconds, rounds, say }: { seconds: number; rounds: number; say: (line: string) => void },
): Promise<string> {
  const receiver = await BenchReceiver.open();
  const bench = new Webhooks(cluster, receiver, seconds, say);
  try {
    const [single, many] = (await makeTenants(
      cluster,
      [1, 200].map((tenants) => ({ name: `hook-${tenants}`, tenants, accounts: 10 })),
    )) as [TenantGroup, TenantGroup];
    for (const { tenants } of [single, many]) await subscribe(cluster, tenants, receiver);
    await bench.latency(single);
    await bench.sustained('1 tenant', single, rounds);
    await bench.sustained('200 tenants', many, rounds);
    if (receiver.wrong > 0) throw new Error(`${receiver.wrong} deliveries had a wrong signature`);
    return bench.table();
  } finally {
    bench.end();
    await receiver.close();
  }
}

class Webhooks {
  private readonly lines: string[][] = [];
  private readonly cluster: BenchCluster;
  private readonly receiver: BenchReceiver;
  private readonly seconds: number;
  private readonly say: (line: string) => void;
  private readonly usage: Usage;
  private windows = 0;

  constructor(cluster: BenchCluster, receiver: BenchReceiver, seconds: number, say: (line: string) => void) {
    this.cluster = cluster;
    this.receiver = receiver;
    this.seconds = seconds;
    this.say = say;
    this.usage = new Usage(cluster);
  }

  end(): void {
    this.usage.end();
  }

  table(): string {
    return table(['Webhooks', ''], this.lines);
  }

  /** 20 postings/s of one tenant. */
  async latency(group: TenantGroup): Promise<void> {
    const window = {
      group,
      perSecond: 20,
      seconds: Math.max(10, this.seconds),
      connections: 64,
      series: this.newSeries(),
      keepAnswers: true,
    };
    const { failures, answers, p50, p99 } = await postSteadily(this.cluster.url, window);
    if (failures > 0) throw new Error(`${failures} postings failed`);
    const { times } = this.receiver;
    await until(() => [...answers.keys()].every((key) => times.has(key)));
    // A delivery can arrive before the answer.
    const delays = [...answers].map(([key, at]) => Math.max(0, times.get(key)! - at));
    this.add('20 postings/s: the posting itself, p50 / p99', `${ms(p50)} / ${ms(p99)} ms`);
    const [half, most] = [50, 99].map((percent) => ms(percentile(delays, percent)));
    this.add('20 postings/s: from its answer to the receiver, p50 / p99', `${half} / ${most} ms`);
  }

  /** Deliveries per second with a backlog. */
  async sustained(name: string, group: TenantGroup, rounds: number): Promise<void> {
    const taken = { rate: [] as number[], notifier: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      const feeding = this.feed(group);
      await pause(2000);
      const [before, cpu, started] = [this.receiver.verified, this.usage.cpu(), now()];
      await pause(this.seconds * 1000);
      const delivered = this.receiver.verified - before;
      taken.rate.push((1000 * delivered) / (now() - started));
      taken.notifier.push((between(cpu, this.usage.cpu())['notifier'] ?? 0) / delivered);
      await feeding.end();
    }
    this.add(`Sustained, ${name}: deliveries/s`, String(Math.round(median(taken.rate))));
    this.add(`${name}: CPU of the notifier per delivery`, `${median(taken.notifier).toFixed(0)} µs`);
  }

  private newSeries(): string {
    return `h${String(++this.windows).padStart(5, '0')}`;
  }

  /** Keeps a backlog of deliveries; `end` resolves when all are delivered. */
  private feed(group: TenantGroup): { end: () => Promise<void> } {
    const caller = callerOf(this.cluster, 'ledger');
    const ledger = createClient(LedgerService, caller);
    const [before, series] = [this.receiver.verified, this.newSeries()];
    let [posted, isOver] = [0, false];
    const loop = async () => {
      while (!isOver) {
        if (posted - (this.receiver.verified - before) > backlog) {
          await pause(5);
          continue;
        }
        const postings = Array.from({ length: 50 }, () => {
          const { id } = group.tenants[++posted % group.tenants.length]!;
          return postingOf(id, `${series}-1`, posted, group.accounts);
        });
        const { results } = await ledger.postTransactions({ postings });
        if (results.some(({ outcome }) => outcome.case !== 'transaction')) throw new Error('a posting was refused');
      }
    };
    const looping = Promise.all([loop(), loop(), loop()]);
    looping.catch(() => undefined);
    const end = async () => {
      isOver = true;
      await looping;
      caller.close();
      await until(() => this.receiver.verified - before >= posted);
    };
    return { end };
  }

  private add(what: string, figure: string): void {
    this.lines.push([what, figure]);
    this.say(`  ${what}: ${figure}`);
  }
}

async function until(isDone: () => boolean): Promise<void> {
  for (const end = now() + 60_000; !isDone(); await pause(10)) if (now() > end) throw new Error('deliveries are missing after 60 s');
}

const ms = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
