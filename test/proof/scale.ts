// `npm run proof -- scale`: whether a cluster with ten million entries is as fast as an empty one, also where it reads the past, and how much disk a
// posting takes.
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@connectrpc/connect';
import { LedgerService } from '../../proto/gen/ledger/v1/ledger_pb.js';
import { checkLedger } from '../bench/check.ts';
import type { BenchCluster } from '../bench/cluster.ts';
import { median } from '../bench/figures.ts';
import { load, type Loaded } from '../bench/load.ts';
import { postingOf } from '../bench/posting.ts';
import { describeMachine, table } from '../bench/report.ts';
import { callerOf, makeTenants, type TenantGroup } from '../bench/tenants.ts';
import { judge, withBenchCluster } from './load-state.ts';
import { seededRandom } from './seeded-random.ts';
import type { Task } from './task.ts';

const postings = 5_000_000;
const perCall = 1_000;
/** In flight; the ledger queues at most 8,000 postings, half per tenant. */
const callers = 3;
/** The largest tenant; half of its postings credit one account. */
const accounts = 1_000;
const otherTenants = 999;
/** The tenant with the largest chart. */
const chartAccounts = 9_999;
const chartPostings = 20_000;
/** One posting in so many counts on another day than it is recorded. */
const shiftedOneIn = 100;
const dayMs = 86_400_000;
/** What reads of the past may take, milliseconds. */
const mostPast = 20;
const mostTrialBalance = 1_000;
const rounds = 3;
const seconds = 5;

const kinds = ['posting', 'balance', 'past', 'page', 'history'] as const;
type Kind = (typeof kinds)[number];
type Samples = Record<Kind, Loaded[]>;

const titles: Record<Kind, string> = {
  posting: 'Posting over REST, 64 connections',
  balance: 'Balance read, 8 connections',
  past: 'Balance as of the middle of the filling, 8 connections',
  page: 'Newest page of transactions, 8 connections',
  history: 'Balance history of the hot account, 8 connections',
};

/** Fills a cluster as far as the minutes allow and compares it with an empty one. */
export async function prove({ seed, minutes, say }: Task): Promise<boolean> {
  const empty = await withBenchCluster({ kafka: false }, async (cluster) => {
    const [group] = await makeTenants(cluster, [{ name: 'empty', tenants: 1, accounts }]);
    // Pages must be full here, too.
    const middle = await fill(cluster, [group!], { seed, count: perCall, until: Infinity });
    return measure(cluster, group!, { before: perCall + accounts, asOf: middle.asOf });
  });
  return withBenchCluster({ kafka: false }, async (cluster) => {
    const groups = await makeTenants(cluster, [
      { name: 'large', tenants: 1, accounts },
      { name: 'other', tenants: otherTenants, accounts: 10 },
      { name: 'chart', tenants: 1, accounts: chartAccounts },
    ]);
    const [large, , chart] = groups as [TenantGroup, TenantGroup, TenantGroup];
    const began = performance.now();
    const until = began + minutes * 60_000;
    const ofChart = await fill(cluster, [chart], { seed, count: chartPostings, until, series: 'charted1' });
    const filled = await fill(cluster, groups.slice(0, 2), { seed, count: postings, until });
    say(`${filled.count.toLocaleString('en')} postings filled in, in ${Math.round((performance.now() - began) / 1000)} s`);
    await settle(cluster);
    const trialBalance = await readTrialBalance(cluster, chart, ofChart.asOf);
    const before = filled.count + ofChart.count + accounts + otherTenants * 10 + chartAccounts;
    const full = await measure(cluster, large, { before, asOf: filled.asOf });
    say(await describeMachine(cluster));
    for (const line of await footprint(cluster)) say(line);
    const { rows, missed } = compare(empty.samples, full.samples);
    say(`Trial balance of ${chartAccounts} accounts as of the past: ${Math.round(trialBalance)} ms, must be ≤ ${mostTrialBalance} ms`);
    if (trialBalance > mostTrialBalance) missed.push(`trial balance: ${Math.round(trialBalance)} ms`);
    const past = median(full.samples.past.map(({ p99 }) => p99));
    if (past > mostPast) missed.push(`${titles.past}: p99 is ${past.toFixed(1)} ms, must be ≤ ${mostPast} ms`);
    say(table(['', 'empty', 'full', 'full / empty', 'must be'], rows));
    return judge([...missed, ...empty.wrong, ...full.wrong], say);
  });
}

/** Milliseconds of a trial balance of all accounts, the median of five. */
async function readTrialBalance(cluster: BenchCluster, group: TenantGroup, asOf: string): Promise<number> {
  const { slug, key } = group.tenants[0]!;
  const took: number[] = [];
  for (let round = 0; round < 5; round++) {
    const began = performance.now();
    const { status, body } = await cluster.rest('GET', `/v1/tenants/${slug}/reports/trial-balance?as_of=${asOf}`, { key });
    took.push(performance.now() - began);
    if (status !== 200 || body.data.report.lines.length < chartAccounts) throw new Error(`the trial balance is answered with ${status}`);
  }
  return median(took);
}

/**
 * Posts in calls of 1,000 between random accounts, tenants by Zipf's law, until the count or the time is reached; resolves to the count, and to when
 * half of the count or of the time was reached.
 */
async function fill(
  cluster: BenchCluster,
  groups: TenantGroup[],
  { seed, count, until, series = 'filled-1' }: { seed: number; count: number; until: number; series?: string },
): Promise<{ count: number; asOf: string }> {
  const random = seededRandom(seed);
  const tenants = groups.flatMap((group) => group.tenants.map(({ id }) => ({ id, accounts: group.accounts })));
  const weights = tenants.map((_, rank) => 1 / (rank + 1));
  const total = weights.reduce((sum, each) => sum + each, 0);
  let sum = 0;
  const cumulated = weights.map((each) => (sum += each / total));
  const draw = () => {
    const drawn = random.whole(0, 2 ** 31) / 2 ** 31;
    return tenants[
      Math.max(
        0,
        cumulated.findIndex((each) => each >= drawn),
      )
    ]!;
  };
  let begun = 0;
  let filled = 0;
  let asOf = '';
  const middle = (performance.now() + until) / 2;
  const connections = Array.from({ length: callers }, () => callerOf(cluster, 'ledger'));
  await Promise.all(
    connections.map(async (connection) => {
      const ledger = createClient(LedgerService, connection);
      while (begun < count && performance.now() < until) {
        let left = Array.from({ length: perCall }, () => {
          const { id, accounts: customers } = draw();
          const from = random.whole(1, customers);
          const to = random.happens(0.5) ? 0 : 1 + (from % customers);
          const posting = postingOf(id, series, begun++, customers, { from, to, amount: '10.00' });
          const effectiveMs = BigInt(Date.now() - random.whole(1, 365) * dayMs);
          return random.whole(1, shiftedOneIn) === 1 ? { ...posting, effectiveMs } : posting;
        });
        for (let attempt = 0; left.length > 0; attempt++) {
          if (attempt === 20) throw new Error(`${left.length} postings are refused again and again`);
          const results = await ledger.postTransactions({ postings: left }, { timeoutMs: 60_000 }).then(
            (answer) => answer.results,
            () => [],
          );
          const before = left.length;
          left = left.filter((_, item) => results[item]?.outcome.case !== 'transaction');
          filled += before - left.length;
          if (left.length > 0) await pause(250);
        }
        if (asOf === '' && (filled >= count / 2 || performance.now() >= middle)) asOf = new Date().toISOString();
      }
    }),
  );
  for (const connection of connections) connection.close();
  return { count: filled, asOf };
}

/** Runs all windows in turns, then checks the ledger. */
async function measure(
  cluster: BenchCluster,
  group: TenantGroup,
  { before, asOf }: { before: number; asOf: string },
): Promise<{ samples: Samples; wrong: string[] }> {
  const samples: Samples = { posting: [], balance: [], past: [], page: [], history: [] };
  const posted: Loaded[] = [];
  for (let round = 0; round <= rounds; round++) {
    for (const kind of kinds) {
      const window = {
        kind,
        group,
        hot: kind === 'history',
        connections: kind === 'posting' ? 64 : 8,
        seconds,
        series: randomBytes(3).toString('hex'),
        asOf,
      };
      const loaded = await load(cluster.url, window);
      if (kind === 'posting') posted.push(loaded);
      // The first round warms up.
      if (round > 0) samples[kind].push(loaded);
      await pause(300);
    }
  }
  const { right, lines } = await checkLedger(cluster, before, posted);
  const failures = kinds.flatMap((kind) => samples[kind]).reduce((sum, each) => sum + each.failures, 0);
  return { samples, wrong: [...(right ? [] : lines), ...(failures > 0 ? [`${failures} requests failed`] : [])] };
}

function compare(empty: Samples, full: Samples): { rows: string[][]; missed: string[] } {
  const missed: string[] = [];
  const row = (kind: Kind, key: 'perSecond' | 'p50' | 'p99', unit: string, bound?: { least?: number; most?: number }) => {
    const [before, after] = [empty, full].map((samples) => median(samples[kind].map((each) => each[key]))) as [number, number];
    const ratio = after / before;
    const isReached = !bound || (ratio >= (bound.least ?? 0) && ratio <= (bound.most ?? Infinity));
    if (!isReached) missed.push(`${titles[kind]}, ${unit}: ${ratio.toFixed(2)} × of the empty cluster`);
    const limit = bound?.least === undefined ? (bound?.most === undefined ? '' : `≤ ${bound.most} ×`) : `≥ ${bound.least} ×`;
    return [`${titles[kind]}: ${unit}`, before.toFixed(1), after.toFixed(1), `${ratio.toFixed(2)} ×`, limit];
  };
  const rows = kinds.flatMap((kind) => [
    row(kind, 'perSecond', 'per second', kind === 'posting' ? { least: 0.75 } : undefined),
    row(kind, 'p50', 'p50, ms'),
    row(kind, 'p99', 'p99, ms', { most: 2 }),
  ]);
  return { rows, missed };
}

/** Bytes per posting of each table and index. */
async function footprint(cluster: BenchCluster): Promise<string[]> {
  const parts = await cluster.query<{ name: string; bytes: number }>(
    'ledger',
    `select relname as name, pg_total_relation_size(oid)::float8 as bytes from pg_class
     where relkind in ('r', 'i') and relnamespace = 'public'::regnamespace order by 2 desc limit 20`,
  );
  const [row] = await cluster.query<{ count: string }>('ledger', 'select count(*)::text as count from transactions');
  return [
    `Disk, of ${Number(row?.count).toLocaleString('en')} postings (tables with their indexes):`,
    table(
      ['table or index', 'MiB', 'bytes per posting'],
      parts.map(({ name, bytes }) => [name, (bytes / 2 ** 20).toFixed(1), (bytes / Number(row?.count)).toFixed(1)]),
    ),
  ];
}

/** Waits until PostgreSQL has finished what the filling left to do, three minutes at most. */
async function settle(cluster: BenchCluster): Promise<void> {
  await cluster.query('ledger', 'checkpoint');
  for (const until = performance.now() + 180_000; performance.now() < until; await pause(250)) {
    const rows = await cluster.query('ledger', `select from pg_stat_activity where query like 'autovacuum:%'`);
    if (rows.length === 0) return;
  }
}
