// `npm run proof -- scale`: whether a cluster with ten million entries is as fast as an empty one beside it, what a posting takes on the disk,
// and whether the books of both are right.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { writeAtomically } from '../../deploy/local/children.ts';
import { toId } from '../../services/platform/ids.ts';
import { makeBooks, type Books } from '../bench/books.ts';
import { checkBooks } from '../bench/check.ts';
import { Cluster } from '../bench/cluster.ts';
import { endLoad, loadTool } from '../bench/load.ts';
import { wallet } from '../bench/posting.ts';
import { describeMachine } from '../bench/report.ts';
import { currentRun } from '../run.ts';
import { fill, wronglyFilled, type Filled, type Plan } from './filling.ts';
import { footprint, idleIndexes } from './footprint.ts';
import { isReached, kinds, marksOf, sides, tableOf, type Samples, type Side } from './marks.ts';
import type { Task } from './task.ts';
import { takeTurns, type Lengths, type Measured } from './turns.ts';

/** How large the full cluster is to be, and how it is compared. */
export interface Size extends Lengths {
  /** Postings of two entries each. */
  postings: number;
  /** Items of one call. */
  perCall: number;
  tenants: number;
  /** Customers of the largest tenant, which the windows post to; the others have ten each. */
  accounts: number;
}

/** What came of it: everything to print, and what of it is wrong. */
export interface Outcome {
  lines: string[];
  wrong: string[];
}

const wholeSize: Size = { postings: 5_000_000, perCall: 1000, tenants: 1000, accounts: 1000, warmUp: 3, rounds: 3, seconds: 5 };
// A page of transactions and of a history is full in the empty cluster, too; else it would read less.
const postingsOfEmpty = 1000;
const settledWithinSeconds = 180;

/** Fills a cluster as far as the minutes allow, compares it with an empty one, and says what came of it. */
export async function prove(task: Task): Promise<boolean> {
  const { lines, wrong } = await tryScale(task, wholeSize);
  for (const line of lines) task.say(line);
  return wrong.length === 0;
}

/** Starts both clusters, fills one, measures in turns and checks the books. What is in the directory `data` is gone on with. */
export async function tryScale({ seed, minutes, data, say }: Task, size: Size): Promise<Outcome> {
  const clusters: Cluster[] = [];
  try {
    say('starting the full cluster and filling it');
    const full = await openFilled(clusters, seed, size, data);
    const filled = await fill(full.cluster, full.plan, { minutes, say });
    say('starting the empty cluster');
    const empty = await openFilled(clusters, seed, { ...size, tenants: 1, postings: Math.min(size.postings, postingsOfEmpty) });
    await fill(empty.cluster, empty.plan, { minutes: Infinity, say });
    const wrongly = await wronglyFilled(full.cluster, full.plan, filled.postings);
    const sized = [await describeFilled(full, filled, size), await describeEmpty(empty.cluster)];
    for (const line of sized) say(line);
    for (const cluster of clusters) await settle(cluster, say);
    const compared = await compare({ empty, full }, size, say);
    return {
      lines: ['', await describeMachine(full.cluster, `load by ${loadTool}`), ...sized, '', ...compared.lines, ...said(wrongly)],
      wrong: [...wrongly, ...compared.wrong],
    };
  } finally {
    endLoad();
    for (const cluster of clusters.reverse()) await cluster.end();
  }
}

function said(wrongly: string[]): string[] {
  return wrongly.length > 0
    ? wrongly.map((line) => `- filling: WRONG: ${line}`)
    : ['- filling: right: each tenant holds what the seed drew'];
}

/** Takes the windows in turns, then looks at disk and books of the full cluster, and at the books of the empty one. */
async function compare(clusters: Record<Side, Measured>, lengths: Lengths, say: (line: string) => void): Promise<Outcome> {
  const before = { empty: await transactions(clusters.empty.cluster), full: await transactions(clusters.full.cluster) };
  const { samples, posted } = await takeTurns(clusters, { ...lengths, say });
  say('checking the books');
  const checks = [];
  for (const side of sides) checks.push({ side, ...(await checkBooks(clusters[side].cluster, before[side], posted[side])) });
  const marks = marksOf(samples);
  const idle = await idleIndexes(clusters.full.cluster);
  return {
    lines: [
      `Medians of ${lengths.rounds} windows of ${lengths.seconds} s in each cluster, in turns.`,
      '',
      ...tableOf(marks),
      '',
      ...(await footprint(clusters.full.cluster)),
      '',
      `Indexes that keep nothing unique and that no query has used: ${idle.join(', ') || 'none'}`,
      '',
      ...checks.flatMap(({ side, lines }) => lines.map((line) => `- ${side} cluster: ${line}`)),
    ],
    wrong: [
      ...marks.filter((mark) => !isReached(mark)).map(({ claim }) => `${claim}: missed`),
      ...checks.filter(({ right }) => !right).map(({ side }) => `the books of the ${side} cluster are wrong`),
      ...failed(samples),
    ],
  };
}

function failed(samples: Samples): string[] {
  return kinds.flatMap((kind) =>
    sides.flatMap((side) => {
      const failures = samples[kind][side].reduce((sum, each) => sum + each.failures, 0);
      return failures === 0 ? [] : [`${failures} requests failed: ${kind}, ${side} cluster`];
    }),
  );
}

/** A cluster, what it is filled with, and the tenant that the windows use. */
export interface Filling extends Measured {
  plan: Plan;
}

/** Opens a cluster with its tenants, those of the directory where there is one; `clusters`: what must be ended. */
export async function openFilled(clusters: Cluster[], seed: number, size: Size, data?: string): Promise<Filling> {
  const kept = data === undefined ? undefined : keptBooks(data, seed);
  const cluster = new Cluster({ parent: currentRun().directory, kept: data, ledgers: 1, profiling: undefined, say: () => undefined });
  clusters.push(cluster);
  await cluster.openServer();
  await cluster.openProcesses();
  const all = kept ?? (await newBooks(cluster, seed, size));
  const tenants = all.flatMap(({ tenants: some, accounts }) => some.map(({ id }) => ({ id, accounts })));
  return { cluster, books: all[0]!, plan: { seed, postings: size.postings, perCall: Math.min(size.perCall, size.postings), tenants } };
}

const booksFile = 'scale.json';

/** The books that an earlier run has left in the directory. Throws where it had another seed. */
function keptBooks(directory: string, seed: number): Books[] | undefined {
  const file = join(directory, booksFile);
  if (!existsSync(file)) return undefined;
  const kept = JSON.parse(readFileSync(file, 'utf8')) as { seed: number; books: Books[] };
  if (kept.seed !== seed) throw new Error(`${directory} was filled with --seed ${kept.seed}`);
  return kept.books;
}

/** Makes the tenants, and notes them in the cluster's directory only when they are whole. */
async function newBooks(cluster: Cluster, seed: number, { tenants, accounts }: Size): Promise<Books[]> {
  // Who was interrupted before has left tenants of other names.
  const name = `scale-${Date.now().toString(36)}`;
  const others = tenants > 1 ? [{ name: `${name}-other`, tenants: tenants - 1, accounts: 10 }] : [];
  const books = await makeBooks(cluster, [{ name, tenants: 1, accounts }, ...others]);
  writeAtomically(join(cluster.directory, booksFile), JSON.stringify({ seed, books }));
  return books;
}

async function describeFilled({ cluster, books }: Filling, filled: Filled, { postings }: Size): Promise<string> {
  const { before, postings: reached, replayed, seconds } = filled;
  const database = cluster.known.databases.ledger.name;
  const [counts, hot] = await Promise.all([
    cluster.query<{ tenants: string; largest: string }>(
      database,
      `select count(*)::text as tenants, max(count)::text as largest from (select count(*) from transactions group by tenant_id) as each`,
    ),
    cluster.query<{ tenant: string; code: string; version: string }>(
      database,
      `select a.tenant_id as tenant, a.code, b.version::text from balances b join accounts a on a.tenant_id = b.tenant_id and a.id = b.account_id
       order by b.version desc limit 1`,
    ),
  ]);
  const { tenant = '', code = '', version = '' } = hot[0] ?? {};
  // The windows read the history of this one.
  if (toId('tenant', tenant) !== books.tenants[0]?.id || code !== wallet(0)) throw new Error(`the hot account is ${code} of ${tenant}`);
  const thousands = (number: number | string | undefined) => Number(number).toLocaleString('en');
  const rate = `${thousands(reached - before)} of them in ${Math.round(seconds)} s by this run (${thousands(replayed)} sent again)`;
  return (
    `The full cluster: ${thousands(reached)} of ${thousands(postings)} postings filled in, ${thousands(2 * reached)} entries, over ` +
    `${thousands(counts[0]?.tenants)} tenants; ${rate}. The largest tenant holds ${thousands(counts[0]?.largest)} transactions, ` +
    `its hot account ${thousands(version)} entries.`
  );
}

async function describeEmpty(cluster: Cluster): Promise<string> {
  return `The empty cluster: ${(await transactions(cluster)).toLocaleString('en')} postings of one tenant, deposits among them.`;
}

async function transactions(cluster: Cluster): Promise<number> {
  const rows = await cluster.query<{ count: string }>(cluster.known.databases.ledger.name, 'select count(*)::text from transactions');
  return Number(rows[0]?.count);
}

/** What the filling has left for PostgreSQL to do is done before anything is measured, for as long as that takes at most. */
async function settle(cluster: Cluster, say: (line: string) => void): Promise<void> {
  await cluster.query('postgres', 'checkpoint');
  const until = performance.now() + settledWithinSeconds * 1000;
  for (;;) {
    const rows = await cluster.query<{ query: string }>('postgres', `select query from pg_stat_activity where query like 'autovacuum:%'`);
    if (rows.length === 0) return;
    if (performance.now() > until) {
      say(`the windows begin while PostgreSQL is still at ${rows.map(({ query }) => query).join(', ')}`);
      return;
    }
    await pause(250);
  }
}
