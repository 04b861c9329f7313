// `npm run bench -- --only webhooks`: time from a posting's answer to its receiver, and deliveries per second.
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { Agent, request } from 'undici';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { bodySignature } from '../../services/notifier/webhook.ts';
import type { BenchCluster } from './cluster.ts';
import { median, percentile } from './figures.ts';
import { postingOf } from './posting.ts';
import { BenchReceiver, now, secret } from './receiver.ts';
import { postSteadily, type SteadyResult } from './steady.ts';
import { callerOf, makeTenants, subscribe, type TenantGroup } from './tenants.ts';
import { Usage, between } from './usage.ts';

/** One line of the result; `reached` where there is a bound. */
interface Line {
  what: string;
  figure: string;
  reached?: boolean;
}

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
    const [single, without, ten, many] = (await makeTenants(
      cluster,
      [1, 10, 10, 200].map((tenants, index) => ({ name: `hook-${index}`, tenants, accounts: 10 })),
    )) as [TenantGroup, TenantGroup, TenantGroup, TenantGroup];
    for (const { tenants } of [single, ten, many]) await subscribe(cluster, tenants, receiver);
    await bench.latency(single);
    await bench.interference(without, ten, rounds);
    await bench.sustained('1 tenant', single, 32, rounds);
    await bench.sustained('200 tenants', many, 256, rounds);
    if (receiver.wrong > 0) throw new Error(`${receiver.wrong} deliveries had a wrong signature`);
    return bench.table();
  } finally {
    bench.end();
    await receiver.close();
  }
}

class Webhooks {
  private readonly lines: Line[] = [];
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
    const mark = ({ reached }: Line) => (reached === undefined ? '' : reached ? '✓' : '✗');
    return ['| | Webhooks | |', '|---|---|---|', ...this.lines.map((line) => `| ${mark(line)} | ${line.what} | ${line.figure} |`)].join(
      '\n',
    );
  }

  /** 20 postings/s of one tenant. */
  async latency(group: TenantGroup): Promise<void> {
    const { p50, p99, delays } = await this.post(group, 20, Math.max(10, this.seconds));
    this.add('20 postings/s: the posting itself, p50 / p99', `${ms(p50)} / ${ms(p99)} ms`);
    this.add(
      '20 postings/s: from its answer to the receiver, p50 / p99',
      `${ms(percentile(delays, 50))} / ${ms(percentile(delays, 99))} ms`,
    );
  }

  /** 500 postings/s of ten tenants without and with webhooks, in turns. */
  async interference(without: TenantGroup, subscribed: TenantGroup, rounds: number): Promise<void> {
    const taken = { without: [] as number[], with: [] as number[], ratio: [] as number[], longest: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      // Alternating order, as the machine's speed may drift.
      const before = round % 2 === 1 ? await this.post(subscribed, 500, this.seconds) : undefined;
      const alone = await this.post(without, 500, this.seconds, false);
      const both = before ?? (await this.post(subscribed, 500, this.seconds));
      taken.without.push(alone.p99);
      taken.with.push(both.p99);
      taken.ratio.push(both.p99 / alone.p99);
      taken.longest.push(percentile(both.delays, 100));
    }
    const [ratio, longest] = [median(taken.ratio), median(taken.longest)];
    this.add('500 postings/s: p99 without / with webhooks', `${ms(median(taken.without))} / ${ms(median(taken.with))} ms`);
    this.add('with / without ≤ 1.5 ×', `${ms(ratio)} ×`, ratio <= 1.5);
    this.add('500 postings/s: longest time to the receiver < 1 s', `${ms(longest)} ms`, longest < 1000);
  }

  /** Deliveries per second with a backlog, against a bare undici loop with as many requests at a time. */
  async sustained(name: string, group: TenantGroup, concurrency: number, rounds: number): Promise<void> {
    const taken = { rate: [] as number[], bare: [] as number[], ratio: [] as number[], notifier: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      const bareBefore = await this.bare(concurrency);
      const feeding = this.feed(group);
      await pause(2000);
      const [before, cpu, started] = [this.receiver.verified, this.usage.cpu(), now()];
      await pause(this.seconds * 1000);
      const delivered = this.receiver.verified - before;
      const rate = (1000 * delivered) / (now() - started);
      const used = between(cpu, this.usage.cpu());
      await feeding.end();
      const bare = (bareBefore + (await this.bare(concurrency))) / 2;
      taken.rate.push(rate);
      taken.bare.push(bare);
      taken.ratio.push(rate / bare);
      taken.notifier.push((used['notifier'] ?? 0) / delivered);
    }
    const ratio = median(taken.ratio);
    this.add(`Sustained, ${name}: deliveries/s / bare undici`, `${Math.round(median(taken.rate))} / ${Math.round(median(taken.bare))}`);
    this.add(`${name}, of the bare loop ≥ 20 %`, `${(100 * ratio).toFixed(1)} %`, ratio >= 0.2);
    this.add(`${name}: CPU of the notifier per delivery`, `${median(taken.notifier).toFixed(0)} µs`);
  }

  private newSeries(): string {
    return `h${String(++this.windows).padStart(5, '0')}`;
  }

  /** Posts at a steady rate and waits for all deliveries; `delays`: from answer to receiver, milliseconds. */
  private async post(
    group: TenantGroup,
    perSecond: number,
    seconds: number,
    delivered = true,
  ): Promise<SteadyResult & { delays: number[] }> {
    const window = { group, perSecond, seconds, connections: 64, series: this.newSeries(), keepAnswers: delivered };
    const result = await postSteadily(this.cluster.url, window);
    if (result.failures > 0) throw new Error(`${result.failures} postings failed`);
    const { times } = this.receiver;
    await until(() => [...result.answers.keys()].every((key) => times.has(key)));
    // A delivery can arrive before the answer.
    return { ...result, delays: [...result.answers].map(([key, at]) => Math.max(0, times.get(key)! - at)) };
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

  /** Requests per second of a bare undici loop to the same receiver. */
  private async bare(concurrency: number): Promise<number> {
    const agent = new Agent();
    const body = JSON.stringify({ idempotency_key: 'bare', text: 'x'.repeat(900) });
    const headers = { 'content-type': 'application/json', 'x-webhook-signature': bodySignature(secret, body) };
    const before = this.receiver.verified;
    let sent = 0;
    const perSecond = async (milliseconds: number) => {
      const [started, already] = [now(), sent];
      const loop = async () => {
        while (now() < started + milliseconds) {
          const answer = await request(`${this.receiver.url}/hook`, { dispatcher: agent, method: 'POST', headers, body });
          await answer.body.dump();
          sent++;
        }
      };
      await Promise.all(Array.from({ length: concurrency }, loop));
      return (1000 * (sent - already)) / (now() - started);
    };
    await perSecond(500);
    const rate = await perSecond(this.seconds * 1000);
    await agent.close();
    await until(() => this.receiver.verified - before >= sent);
    return rate;
  }

  private add(what: string, figure: string, reached?: boolean): void {
    this.lines.push({ what, figure, ...(reached !== undefined && { reached }) });
    this.say(`  ${what}: ${figure}${reached === false ? ' NOT REACHED' : ''}`);
  }
}

async function until(isDone: () => boolean): Promise<void> {
  for (const end = now() + 60_000; !isDone(); await pause(10)) if (now() > end) throw new Error('deliveries are missing after 60 s');
}

const ms = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
