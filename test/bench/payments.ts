// `npm run bench -- --only payments`: holds, atomic calls, imports and limits, each in turns with the plain postings that it compares with.
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { Pool } from 'undici';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { callPostings } from './calls.ts';
import type { BenchCluster } from './cluster.ts';
import { median, percentile } from './figures.ts';
import type { Loaded } from './load.ts';
import { bodyOf, currency, wallet } from './posting.ts';
import { table } from './report.ts';
import { callerOf, makeTenants, type Tenant, type TenantGroup } from './tenants.ts';
import { Usage, between } from './usage.ts';

const connections = 64;
const accounts = 1_000;
const importLines = 100_000;

/** What was measured. */
export interface PaymentFigures {
  /** In Markdown. */
  table: string;
  /** Transactions before the windows. */
  before: number;
  windows: Loaded[];
}

/** Measures a running cluster. */
export async function measurePayments(
  cluster: BenchCluster,
  { seconds, rounds, say }: { seconds: number; rounds: number; say: (line: string) => void },
): Promise<PaymentFigures> {
  const plans = ['plain', 'held', 'limited'].map((name) => ({ name: `pay-${name}`, tenants: 1, accounts }));
  const [plain, held, limited] = (await makeTenants(cluster, plans)) as [TenantGroup, TenantGroup, TenantGroup];
  await limit(cluster, limited.tenants[0]!);
  const bench = new Payments(cluster, seconds, say);
  try {
    for (let round = 0; round < rounds; round++) {
      const windows = [
        () => bench.rest('plain', plain),
        () => bench.rest('held', held),
        () => bench.rest('limited', limited),
        () => bench.calls('calls of 100', plain, { items: 100 }),
        () => bench.calls('atomic of 100', plain, { items: 100, atomic: true }),
        () => bench.calls('calls of 250', plain, { items: 250 }),
        () => bench.import(plain),
      ];
      for (const window of round % 2 === 0 ? windows : windows.reverse()) await window();
    }
    return { table: bench.table(), before: plans.length * accounts, windows: bench.windows };
  } finally {
    await bench.end();
  }
}

/** A floor, a ceiling and a daily limit for every wallet, which no posting reaches. */
async function limit(cluster: BenchCluster, { id: tenantId }: Tenant): Promise<void> {
  const caller = callerOf(cluster, 'ledger');
  const ledger = createClient(LedgerService, caller);
  const by = { actor: 'benchmark', requestId: 'benchmark' };
  try {
    const limits = { limits: [{ currency, minAvailable: '0.00', maxBalance: '9999999999.00' }] };
    for (let customer = 1; customer <= accounts; customer++) {
      await ledger.updateAccount({ tenantId, accountCode: wallet(customer), limits, ...by });
    }
    const window = { calendar: 'day', time_zone: 'Africa/Lagos' };
    const rule = { account_code: 'CUSTOMER-WALLETS', applies: 'each', currency, side: 'debit', max_amount: '9999999999.00', window };
    await ledger.putDefinition({ tenantId, kind: 'limit', record: JSON.stringify(rule), ...by });
  } finally {
    caller.close();
  }
}

const rows: [name: string, title: string, comparedWith: string][] = [
  ['plain', `REST, postings, ${connections} connections`, ''],
  ['held', `REST, a hold and its capture in turns, ${connections} connections`, 'plain'],
  ['limited', `REST, postings with floor, ceiling and daily limit on every account, ${connections} connections`, 'plain'],
  ['calls of 100', 'gRPC `PostTransactions` of 100', ''],
  ['atomic of 100', 'gRPC `Submit` of 100, atomic', 'calls of 100'],
  ['calls of 250', 'gRPC `PostTransactions` of 250', ''],
  ['import', `REST, import of ${importLines.toLocaleString('en')} lines, one connection`, 'calls of 250'],
];

interface Sample {
  /** Requests or lines. */
  perSecond: number;
  p50: number;
  p99: number;
  /** Microseconds of all processes per request or line. */
  cpu: number;
}

class Payments {
  /** Of each, what it has posted. */
  readonly windows: Loaded[] = [];
  private readonly samples = new Map<string, Sample[]>();
  private readonly cluster: BenchCluster;
  private readonly seconds: number;
  private readonly say: (line: string) => void;
  private readonly usage: Usage;
  private readonly pool: Pool;
  private series = 0;

  constructor(cluster: BenchCluster, seconds: number, say: (line: string) => void) {
    this.cluster = cluster;
    this.seconds = seconds;
    this.say = say;
    this.usage = new Usage(cluster);
    this.pool = new Pool(cluster.url, { connections, pipelining: 1, headersTimeout: 60_000, bodyTimeout: 60_000 });
  }

  async end(): Promise<void> {
    this.usage.end();
    await this.pool.close();
  }

  table(): string {
    const of = (name: string, key: keyof Sample) => median((this.samples.get(name) ?? []).map((sample) => sample[key]));
    const ms = (value: number) => (value === 0 ? '' : value.toFixed(value < 10 ? 2 : 1));
    const lines = rows.map(([name, title, other]) => {
      const share = other === '' ? '' : `${((100 * of(name, 'perSecond')) / of(other, 'perSecond')).toFixed(0)} %`;
      return [
        title,
        Math.round(of(name, 'perSecond')).toLocaleString('en'),
        share,
        ms(of(name, 'p50')),
        ms(of(name, 'p99')),
        of(name, 'cpu').toFixed(0),
      ];
    });
    return table(['Payments', 'per second', 'of the plain row', 'p50 ms', 'p99 ms', 'CPU µs'], lines);
  }

  /** Requests from so many connections, each one after another. */
  rest(name: string, group: TenantGroup): Promise<void> {
    return this.measure(name, async () => {
      const { slug, key } = group.tenants[0]!;
      const [series, until] = [this.newSeries(), performance.now() + this.seconds * 1000];
      const latencies: number[] = [];
      let [number, posted, failures] = [0, 0, 0];
      const send = async (path: string, body: string): Promise<any> => {
        const began = performance.now();
        const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
        const answer = await this.pool.request({ method: 'POST', path: `/v1/tenants/${slug}${path}`, headers, body });
        const text = await answer.body.text();
        latencies.push(performance.now() - began);
        if (answer.statusCode === 201) return JSON.parse(text);
        failures++;
        return null;
      };
      const began = performance.now();
      const turn = async () => {
        const own = ++number;
        const body = bodyOf(series, own, accounts);
        if (name !== 'held') return (await send('/transactions/double-entry', body)) !== null;
        const held = await send('/holds', body);
        const capture = `{"idempotency_key":"bench-${series}-${own}"}`;
        return held !== null && (await send(`/holds/${held.data.hold.hold_id}/capture`, capture)) !== null;
      };
      await Promise.all(
        Array.from({ length: connections }, async () => {
          while (performance.now() < until) if (await turn()) posted++;
        }),
      );
      const perSecond = (1000 * latencies.length) / (performance.now() - began);
      const [p50, p99] = [percentile(latencies, 50), percentile(latencies, 99)];
      return { done: latencies.length, loaded: { requests: posted + failures, perSecond, p50, p99, failures, cutOff: failures } };
    });
  }

  calls(name: string, group: TenantGroup, how: { items: number; atomic?: boolean }): Promise<void> {
    return this.measure(name, async () => {
      const loaded = await callPostings(this.cluster, { group, series: this.newSeries(), seconds: this.seconds, ...how });
      return { done: loaded.requests, loaded };
    });
  }

  /** One file of lines; fewer where windows are short. */
  import(group: TenantGroup): Promise<void> {
    return this.measure('import', async () => {
      const { slug, key } = group.tenants[0]!;
      const [series, lines] = [this.newSeries(), Math.min(importLines, 20_000 * this.seconds)];
      const file = function* () {
        for (let number = 1; number <= lines; number++) yield `{"op":"double",${bodyOf(series, number, accounts).slice(1)}\n`;
      };
      const began = performance.now();
      const answer = await this.pool.request({
        method: 'POST',
        path: `/v1/tenants/${slug}/transactions/import`,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-ndjson' },
        body: Readable.from(file()),
      });
      const last = (await answer.body.text()).trimEnd().split('\n').at(-1) ?? '';
      const { done, posted = 0 } = JSON.parse(last) as { done?: boolean; posted?: number };
      if (done !== true) throw new Error(`an import has ended with ${last}`);
      const perSecond = (1000 * lines) / (performance.now() - began);
      return { done: lines, loaded: { requests: lines, perSecond, p50: 0, p99: 0, failures: lines - posted, cutOff: 0 } };
    });
  }

  private async measure(name: string, work: () => Promise<{ done: number; loaded: Loaded }>): Promise<void> {
    const before = this.usage.cpu();
    const { done, loaded } = await work();
    const used = Object.values(between(before, this.usage.cpu())).reduce((sum, time) => sum + time, 0);
    const { perSecond, p50, p99, failures } = loaded;
    this.windows.push(loaded);
    this.samples.set(name, [...(this.samples.get(name) ?? []), { perSecond, p50, p99, cpu: used / done }]);
    this.say(`  ${name}: ${Math.round(perSecond)}/s${failures > 0 ? `, ${failures} FAILED` : ''}`);
    await pause(300);
  }

  private newSeries(): string {
    return `p${String(++this.series).padStart(5, '0')}`;
  }
}
