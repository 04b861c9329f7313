// `npm run bench -- webhooks`: from a posting to the tenant's receiver, and how many deliveries a second. Postings go to the ledger by gRPC, one a
// call; the sustained windows hand events to the notifier as the ledger would, so that the ledger's own work is not in their figures.
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { pageStatement } from '../../services/notifier/deliveries.ts';
import { toUuid } from '../../services/platform/ids.ts';
import { queryPlanSettings } from '../../services/platform/query-plans.ts';
import { inTransaction, openPool } from '../../services/platform/postgres.ts';
import { median } from './figures.ts';
import type { Cluster } from './cluster.ts';
import type { Postings } from './poster.ts';
import { now } from './receiver.ts';
import { Usage, between } from './usage.ts';
import { WebhookLoad } from './webhook-load.ts';

const listed = 1_000_000;

/** One line of the result: what, its figure, and, where something was promised, whether it was reached. */
interface Line {
  what: string;
  figure: string;
  reached?: boolean;
}

/** Measures a cluster whose processes run. `brokers`: those of its Kafka; null: events go over gRPC. Resolves to a Markdown table. */
export async function measureWebhooks(
  cluster: Cluster,
  { brokers, seconds, rounds, say }: { brokers: string | null; seconds: number; rounds: number; say: (line: string) => void },
): Promise<string> {
  const bench = await Webhooks.open(cluster, brokers, seconds, say);
  try {
    await bench.toTheDoor();
    await bench.steady(rounds);
    for (const tenants of [1, 200]) await bench.sustained(tenants, rounds);
    await bench.statements();
    await bench.oneHangs();
    if (brokers === null) await bench.list();
    return bench.table();
  } finally {
    await bench.close();
  }
}

class Webhooks {
  private readonly lines: Line[] = [];
  private readonly cluster: Cluster;
  private readonly load: WebhookLoad;
  private readonly seconds: number;
  private readonly say: (line: string) => void;
  private readonly usage: Usage;

  private constructor(cluster: Cluster, load: WebhookLoad, seconds: number, say: (line: string) => void) {
    this.cluster = cluster;
    this.load = load;
    this.seconds = seconds;
    this.say = say;
    this.usage = new Usage(cluster.processes, cluster.postmaster);
  }

  static async open(cluster: Cluster, brokers: string | null, seconds: number, say: (line: string) => void): Promise<Webhooks> {
    const bench = new Webhooks(cluster, await WebhookLoad.open(cluster, brokers), seconds, say);
    // Compiles the hot paths.
    const tenants = await bench.load.tenants(4, '/hook');
    await bench.load.arrive(await bench.load.post(tenants, 200, 4));
    return bench;
  }

  async close(): Promise<void> {
    this.usage.end();
    await this.load.close();
  }

  table(): string {
    if (this.load.door.refused > 0) throw new Error(`${this.load.door.refused} deliveries had a wrong signature`);
    const mark = ({ reached }: Line) => (reached === undefined ? '' : reached ? '✓' : '✗');
    return ['| | | |', '|---|---|---|', ...this.lines.map((line) => `| ${mark(line)} | ${line.what} | ${line.figure} |`)].join('\n');
  }

  /** 20 postings/s of one tenant. */
  async toTheDoor(): Promise<void> {
    const postings = await this.load.post(await this.load.tenants(1, '/hook'), 20, Math.max(10, this.seconds));
    const { p50, p99 } = await this.load.arrive(postings);
    this.add('20 postings/s: the posting itself, p50 / p99', `${ms(postings.p50)} / ${ms(postings.p99)} ms`);
    this.add('20 postings/s: from its answer to the receiver, p50 / p99', `${ms(p50)} / ${ms(p99)} ms`);
    this.add('its p50 of the posting’s own ≤ 10 ×', `${ms(p50 / postings.p50)} ×`, p50 <= 10 * postings.p50);
  }

  /**
   * 500 postings/s of ten tenants, without and with webhooks, in turns: three for each round, as one moment in which the disk stands still is the
   * p99 of its window (311 ms, where others had 13), and of three windows two may have one.
   */
  async steady(rounds: number): Promise<void> {
    const rate = 500;
    const turns = 3 * rounds;
    const [without, subscribed] = [await this.load.tenants(10, null), await this.load.tenants(10, '/hook')];
    const taken: Record<'alone' | 'both' | 'ratio' | 'p50' | 'largest', number[]> = {
      alone: [],
      both: [],
      ratio: [],
      p50: [],
      largest: [],
    };
    for (let turn = 0; turn < turns; turn++) {
      // There and back: the machine may get slower meanwhile.
      const before = turn % 2 === 1 ? await this.measured(subscribed, rate) : undefined;
      const alone = await this.load.post(without, rate, this.seconds);
      const { both, p50, largest } = before ?? (await this.measured(subscribed, rate));
      taken.alone.push(alone.p99);
      taken.both.push(both.p99);
      taken.ratio.push(both.p99 / alone.p99);
      taken.p50.push(p50);
      taken.largest.push(largest);
    }
    const [ratio, lag] = [median(taken.ratio), median(taken.largest)];
    this.add('500 postings/s: p99 without / with webhooks', `${ms(median(taken.alone))} / ${ms(median(taken.both))} ms`);
    this.add('with of without ≤ 1.5 ×', `${ms(ratio)} ×`, ratio <= 1.5);
    this.add('500 postings/s: from the answer to the receiver, p50 / the longest', `${ms(median(taken.p50))} / ${ms(lag)} ms`);
    this.add('the longest < 1 s', `${ms(lag)} ms`, lag < 1000);
  }

  /** As many deliveries as go, against as many as undici sends to the same receiver with as many requests at a time, in turns. */
  async sustained(count: number, rounds: number): Promise<void> {
    const name = count === 1 ? '1 tenant' : `${count} tenants`;
    const concurrency = count === 1 ? 32 : 256;
    const taken: Record<'rate' | 'bare' | 'ratio' | 'notifier' | 'postgres' | 'load', number[]> = {
      rate: [],
      bare: [],
      ratio: [],
      notifier: [],
      postgres: [],
      load: [],
    };
    for (let round = 0; round < rounds; round++) {
      const bareBefore = await this.load.bare(concurrency, this.seconds);
      const feeding = await this.load.feed(count);
      await pause(2000);
      const [before, cpu, started] = [this.load.door.verified, this.usage.cpu(), now()];
      await pause(this.seconds * 1000);
      const delivered = this.load.door.verified - before;
      const rate = (1000 * delivered) / (now() - started);
      const used = between(cpu, this.usage.cpu());
      await feeding.end();
      // Before and after: the machine may get slower, or faster, meanwhile.
      const bare = (bareBefore + (await this.load.bare(concurrency, this.seconds))) / 2;
      taken.rate.push(rate);
      taken.bare.push(bare);
      taken.ratio.push(rate / bare);
      for (const process of ['notifier', 'postgres', 'load'] as const) taken[process].push((used[process] ?? 0) / delivered);
    }
    const ratio = median(taken.ratio);
    this.add(`Sustained, ${name}: deliveries/s / bare undici`, `${Math.round(median(taken.rate))} / ${Math.round(median(taken.bare))}`);
    this.add(`${name}, of the bare loop ≥ 20 %`, `${(100 * ratio).toFixed(1)} %`, ratio >= 0.2);
    const each = (process: 'notifier' | 'postgres' | 'load') => `${process} ${median(taken[process]).toFixed(0)} µs`;
    this.add(
      `${name}: CPU per delivery`,
      `${each('notifier')}, ${each('postgres')}, ${each('load')} (the receiver and who makes the events)`,
    );
  }

  /** Statements that PostgreSQL itself counts in its log, begin and commit among them. */
  async statements(): Promise<void> {
    const set = (change: string) => this.cluster.query('postgres', change);
    // One statement each: alter system runs in no transaction.
    for (const [setting, value] of [
      ['log_statement', 'all'],
      ['log_line_prefix', '%d '],
      ['log_parameter_max_length', '0'],
    ]) {
      await set(`alter system set ${setting} = '${value}'`);
    }
    await set('select pg_reload_conf()');
    await pause(500);
    const log = join(this.cluster.directory, 'logs', 'postgres.log');
    const [from, before] = [statSync(log).size, this.load.door.verified];
    const feeding = await this.load.feed(1);
    await pause(2000);
    await feeding.end();
    const text = readFileSync(log).subarray(from).toString();
    await set('alter system reset all');
    await set('select pg_reload_conf()');
    const counted = text.match(/^notifier LOG: {2}(execute|statement)/gm)?.length ?? 0;
    this.add('1 tenant: SQL statements per delivery', (counted / (this.load.door.verified - before)).toFixed(3));
  }

  /** 200 postings/s of 20 tenants, without and with one more whose receiver never answers: once, as it goes on hanging for a while. */
  async oneHangs(): Promise<void> {
    const [others, hanging] = [await this.load.tenants(20, '/hook'), await this.load.tenants(1, '/hang')];
    const alone = await this.load.arrive(await this.load.post(others, 200, this.seconds));
    // The first seconds bring it to its bound.
    const more = this.load.post(hanging, 50, this.seconds + 2);
    await pause(2000);
    const beside = await this.load.arrive(await this.load.post(others, 200, this.seconds));
    await more;
    this.add('200 postings/s of 20 tenants: to the receiver, p99 / while another’s hangs', `${ms(alone.p99)} / ${ms(beside.p99)} ms`);
    this.add('while another’s hangs ≤ 1.5 ×', `${ms(beside.p99 / alone.p99)} ×`, beside.p99 <= 1.5 * alone.p99);
  }

  /** The list of a tenant with a million deliveries. */
  async list(): Promise<void> {
    const [tenantId = ''] = await this.load.tenants(1, '/hook');
    const tenant = toUuid('tenant', tenantId)!;
    this.say(`  making ${listed.toLocaleString('en')} deliveries`);
    await this.cluster.query(
      'notifier',
      `insert into deliveries (tenant_id, id, event_id, event_type, test, status, attempts, by_hand, delivered_at, created_at, run_at)
       select '${tenant}', uuidv7(), uuidv7(), 'transaction.posted', false, 'delivered', 1, false, now(), now() - n * interval '1 second', now()
       from generate_series(1, ${listed}) as n`,
    );
    await this.cluster.query('notifier', 'vacuum (analyze) deliveries');
    const filter = { tenantId, eventType: 'transaction.posted', status: 'delivered', limit: 20 };
    const timed = async (more: object) => {
      const taken: number[] = [];
      for (let turn = 0; turn < 7; turn++) {
        const begun = performance.now();
        await this.load.notifier.listDeliveries({ ...filter, ...more });
        taken.push(performance.now() - begun);
      }
      return median(taken);
    };
    const few = await timed({ startMs: BigInt(Date.now() - 60_000) });
    const all = await timed({});
    this.add('A page of 20 and its total of a minute’s deliveries, of a million ≤ 50 ms', `${ms(few)} ms`, few <= 50);
    this.add('A page of 20 and its total of all of the million ≤ 500 ms', `${ms(all)} ms`, all <= 500);
    // As the service has it: by its role, under row-level security, with the plan that any values get.
    const pool = openPool(this.cluster.known.databases.notifier.serviceUrl, {
      name: 'plan',
      max: 1,
      logger: pino({ level: 'silent' }),
      settings: queryPlanSettings,
    });
    const plan = await inTransaction(pool, [tenant], async (client) => {
      await client.query(`prepare page (uuid, text[], text[], timestamptz, timestamptz, bigint, bigint) as ${pageStatement.text}`);
      const values = `'${tenant}', '{delivered}', '{transaction.posted}', '-infinity', 'infinity', 20, 0`;
      return (await client.query<{ 'QUERY PLAN': string }>(`explain analyze execute page (${values})`)).rows;
    }).finally(() => pool.end());
    this.say(plan.map((row) => `    ${row['QUERY PLAN']}`).join('\n'));
  }

  private async measured(tenants: string[], rate: number): Promise<{ both: Postings; p50: number; largest: number }> {
    const both = await this.load.post(tenants, rate, this.seconds);
    return { both, ...(await this.load.arrive(both)) };
  }

  private add(what: string, figure: string, reached?: boolean): void {
    this.lines.push({ what, figure, ...(reached !== undefined && { reached }) });
    this.say(`  ${what}: ${figure}${reached === false ? ' NOT REACHED' : ''}`);
  }
}

const ms = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
