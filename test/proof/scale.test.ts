// A small version of the proof of scale: a filling that is cut off and gone on with, and a whole run; and the parts that decide.
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster } from '../bench/cluster.ts';
import { currentRun } from '../run.ts';
import { openChance } from './chance.ts';
import { callers, fill, postingsOf, wronglyFilled } from './filling.ts';
import { isReached, kinds, marksOf, noSamples, tableOf, type Sample } from './marks.ts';
import { openFilled, tryScale, type Size } from './scale.ts';
import { Zipf } from './zipf.ts';

const size: Size = { postings: 10_000, perCall: 50, tenants: 8, accounts: 20, warmUp: 0, rounds: 1, seconds: 1 };

test('a filling that was cut off is gone on with by a later run, nothing is doubled, and the report has every line', async () => {
  const data = mkdtempSync(join(currentRun().directory, 'scale-'));
  const say = () => undefined;
  const clusters: Cluster[] = [];
  const { cluster, plan } = await openFilled(clusters, 3, size, data);
  try {
    // Cut off in the middle of calls, whose outcome nobody knows then.
    const cut = new AbortController();
    const filling = fill(cluster, plan, { minutes: 5, signal: cut.signal, say });
    while (Number((await cluster.query<{ count: string }>('ledger', 'select count(*)::text from transactions'))[0]?.count) < 600) continue;
    cut.abort();
    await expect(filling).rejects.toThrow('abort');
    // Out of time at once: only what was left half done is filled up.
    const soon = await fill(cluster, plan, { minutes: 1e-9, say });
    expect(soon.before).toBeGreaterThan(0);
    expect(soon.postings).toBeLessThan(size.postings);
    expect(soon.postings % size.perCall).toBe(0);
    expect(soon.replayed).toBeGreaterThan(0);
    expect(await wronglyFilled(cluster, plan, soon.postings)).toEqual([]);
    expect(await wronglyFilled(cluster, plan, soon.postings - size.perCall)).toEqual([]);
    // Whole as it is: the last calls are sent again, and have no effect.
    const again = await fill(cluster, plan, { minutes: 1e-9, say });
    expect(again.replayed).toBe(callers * size.perCall);
    expect(again.postings).toBe(Math.min(size.postings, soon.postings + callers * size.perCall));
    expect(await wronglyFilled(cluster, plan, again.postings)).toEqual([]);
  } finally {
    await cluster.end();
  }
  await expect(tryScale({ seed: 4, minutes: 5, data, say }, size)).rejects.toThrow('--seed 3');
  const { lines, wrong } = await tryScale({ seed: 3, minutes: 5, data, say }, size);
  // How fast it was says nothing here.
  expect(wrong.filter((line) => !line.endsWith('missed'))).toEqual([]);
  const report = lines.join('\n');
  expect(report).toMatch(/The full cluster: 10,000 of 10,000 postings filled in, 20,000 entries, over 8 tenants; .* in \d+ s by this run/);
  expect(report).toMatch(/The empty cluster: 1,020 postings of one tenant/);
  for (const title of ['Posting over REST', 'Balance read', 'Newest page', 'Balance history']) {
    for (const figure of ['per second', 'p50, ms', 'p99, ms', 'CPU of one, µs']) {
      expect(report).toMatch(new RegExp(`^\\| ${title}[^|]*: ${figure} \\| [\\d.,]+ \\| [\\d.,]+ \\| .*[\\d.]+ × \\|`, 'm'));
    }
  }
  for (const part of ['`log`', '`entries`', '– index `entries_pkey`', '`transactions`', '`balances`', 'all, of [\\d,]+ postings']) {
    expect(report).toMatch(new RegExp(`^\\| ${part} \\| [\\d.]+ \\| [\\d.]+ \\|$`, 'm'));
  }
  expect(report).toMatch(/^Indexes that keep nothing unique and that no query has used: .*transactions_reference/m);
  for (const side of ['empty', 'full']) {
    for (const check of ['conservation', 'count', 'failed requests']) expect(report).toContain(`- ${side} cluster: ${check}: right`);
  }
  expect(report).toContain('- filling: right');
}, 300_000);

test('Zipf: the second of many is drawn half as often as the first, the tenth a tenth as often, and the last is drawn, too', () => {
  const [zipf, chance] = [new Zipf(1000), openChance(1)];
  const drawn = Array.from({ length: 1000 }, () => 0);
  for (let count = 0; count < 400_000; count++) drawn[zipf.draw(chance)]!++;
  const first = drawn[0]!;
  expect(first / 400_000).toBeCloseTo(1 / 7.485, 2);
  expect(drawn[1]! / first).toBeCloseTo(1 / 2, 1);
  expect(drawn[9]! / first).toBeCloseTo(1 / 10, 1);
  expect(zipf.rankOf(0)).toBe(0);
  expect(zipf.rankOf(1 - 2 ** -32)).toBe(999);
  expect(new Zipf(1).rankOf(0.99)).toBe(0);
});

test('the postings of a call follow from the seed, each between two accounts of one tenant', () => {
  const plan = { seed: 9, postings: 400, perCall: 200, tenants: [1, 2, 3].map((id) => ({ id: `tenant_${id}`, accounts: 2 })) };
  const shares = new Zipf(3);
  expect(postingsOf(plan, 1, shares)).toEqual(postingsOf(plan, 1, shares));
  expect(postingsOf({ ...plan, seed: 10 }, 1, shares)).not.toEqual(postingsOf(plan, 1, shares));
  const both = [0, 1].flatMap((call) => postingsOf(plan, call, shares));
  expect(new Set(both.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(400);
  expect(both.every(({ entries }) => entries?.[0]?.accountCode !== entries?.[1]?.accountCode)).toBe(true);
  expect(new Set(both.map(({ tenantId }) => tenantId)).size).toBe(3);
  const merchants = both.filter(({ entries }) => entries?.[1]?.accountCode === 'WALLET-0000').length;
  expect(merchants).toBeGreaterThan(150);
  expect(merchants).toBeLessThan(250);
});

describe('the marks', () => {
  const sample = (perSecond: number, p99: number): Sample => ({ perSecond, p50: 1, p99, failures: 0, cpu: 100 });

  function marks(full: Sample[]) {
    const samples = noSamples();
    for (const kind of kinds) samples[kind] = { empty: [sample(1000, 10), sample(4000, 20), sample(900, 9)], full };
    return marksOf(samples);
  }

  test('medians are compared, so that one slow window of three decides nothing', () => {
    const reached = marks([sample(750, 20), sample(1, 900), sample(800, 5)]);
    expect(reached.every(isReached)).toBe(true);
    expect(reached[0]).toMatchObject({ empty: 1000, full: 750, ratio: 0.75, least: 0.75 });
    expect(tableOf(reached)[2]).toBe('| Posting over REST, 64 connections: per second | 1,000 | 750 | ✓ 0.75 × | ≥ 0.75 × |');
  });

  test('throughput below three quarters and a p99 above twice the empty cluster’s are missed, and nothing else is judged', () => {
    const missed = marks([sample(749, 20.1), sample(749, 20.1), sample(749, 20.1)]).filter((mark) => !isReached(mark));
    expect(missed.map(({ claim }) => claim.replace(/,.*:/, ':'))).toEqual([
      'Posting over REST: per second',
      'Posting over REST: p99, ms',
      'Balance read: p99, ms',
      'Newest page of transactions: p99, ms',
      'Balance history of the hot account: p99, ms',
    ]);
    expect(tableOf(missed)[2]).toContain('✗ 0.75 ×');
  });

  test('what was not measured is missed', () => {
    expect(marksOf(noSamples()).filter((mark) => !isReached(mark))).toHaveLength(5);
  });
});
