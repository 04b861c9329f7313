// Some seconds of the proofs that measure a whole cluster, on one cluster: that they see every process, lose nothing and tell growth from none.
import { Cluster } from '../bench/cluster.ts';
import type { Loaded } from '../bench/load.ts';
import { usageIsKnown } from '../bench/usage.ts';
import * as growth from './growth.ts';
import * as idling from './idle.ts';
import * as street from './neighbour.ts';
import { soak } from './soak.ts';

const loaded: Loaded = { requests: 100, perSecond: 10, p50: 1, p99: 10, failures: 0, cutOff: 0 };
const ours = ['identity', 'ledger', 'notifier', 'gateway'];
const said: string[] = [];
const say = (line: string) => said.push(line);

describe('a cluster that runs', () => {
  const cluster = new Cluster({ parent: undefined, ledgers: 1, profiling: undefined, say });
  const measured = usageIsKnown ? test : test.skip;

  beforeAll(async () => {
    await cluster.openServer();
    await cluster.openProcesses();
  }, 120_000);
  afterAll(() => cluster.end(), 60_000);

  measured(
    'is measured while it idles, every process of it',
    async () => {
      const idled = await idling.idle(cluster, 'gRPC', { seed: 1, seconds: 2, settleSeconds: 0 });
      expect(Object.keys(idled.shares).sort()).toEqual([...ours, 'postgres'].sort());
      expect(Object.values(idled.shares).every((share) => share >= 0 && share < 8)).toBe(true);
      expect(idled.postings).toBeGreaterThan(0);
    },
    120_000,
  );

  test('answers a slow tenant alone and beside a busy one, three times each', async () => {
    const taken = await street.neighbours(cluster, { seed: 1, seconds: 1, say });
    expect(taken).toHaveLength(3);
    const failures = taken.flatMap((round) => Object.values(round as unknown as Record<string, Loaded>)).map((each) => each.failures);
    expect(failures).toEqual(Array.from({ length: 9 }, () => 0));
    expect(taken.map(({ alone, beside }) => [alone.requests, beside.requests])).toEqual(Array.from({ length: 3 }, () => [10, 10]));
    expect(taken.every(({ busy }) => busy.requests > 0)).toBe(true);
  }, 120_000);

  measured(
    'takes steady load: nothing fails, every delivery arrives, the books balance, every process is looked at',
    async () => {
      const soaked = await soak(cluster, { seed: 1, seconds: 6, highestSeconds: 1, say });
      const { posted, expected, delivered, refused, booksRight, lines, drainedAfter, readings, perSecond } = soaked;
      expect({ failures: posted.failures, refused, booksRight, lines }).toEqual({ failures: 0, refused: 0, booksRight: true, lines });
      expect(posted.requests).toBe(6 * perSecond);
      expect(delivered).toBe(expected);
      expect(expected).toBeGreaterThanOrEqual(Math.floor(posted.requests / 10));
      expect(drainedAfter).not.toBeNull();
      expect(readings.length).toBeGreaterThan(1);
      for (const { memory } of readings) {
        expect(Object.keys(memory).sort()).toEqual([...ours, 'postgres'].sort());
        expect(Object.values(memory).every((held) => held > 0)).toBe(true);
      }
      for (const name of ours) expect(growth.report(soaked).join('\n')).toContain(`| ${name}, MiB |`);
    },
    120_000,
  );
});

describe('judged from readings', () => {
  const readings = (ledger: (place: number) => number, lag: (place: number) => number = () => 0): growth.Reading[] =>
    Array.from({ length: 80 }, (_, place) => ({ memory: { ledger: ledger(place), gateway: 100 }, lag: lag(place) }));
  const soaked = (changes: Partial<growth.Soaked>): growth.Soaked => ({
    highest: loaded,
    perSecond: 50,
    posted: loaded,
    readings: readings(() => 100),
    drainedAfter: 1,
    expected: 10,
    delivered: 10,
    refused: 0,
    booksRight: true,
    lines: [],
    ...changes,
  });

  test('the medians of the quarters are those of a quarter of the readings each', () => {
    expect(
      growth.quarters(
        readings((place) => place),
        ({ memory }) => memory['ledger'] ?? 0,
      ),
    ).toEqual([9.5, 29.5, 49.5, 69.5]);
    expect(growth.quarters([], ({ lag }) => lag)).toEqual([0, 0, 0, 0]);
  });

  test('memory that grows fails, memory that grew in the first quarter or peaks for a moment does not', () => {
    expect(growth.complaints(soaked({}))).toEqual([]);
    expect(growth.complaints(soaked({ readings: readings((place) => (place < 20 ? place : 100)) }))).toEqual([]);
    expect(growth.complaints(soaked({ readings: readings((place) => (place === 70 ? 900 : 100)) }))).toEqual([]);
    expect(growth.complaints(soaked({ readings: readings((place) => 100 + place) }))).toEqual(['ledger holds 170 MiB after 130 MiB']);
  });

  test('a lag that grows fails, one that goes up and down within a second of postings does not', () => {
    expect(
      growth.complaints(
        soaked({
          readings: readings(
            () => 100,
            (place) => (place * 13) % 50,
          ),
        }),
      ),
    ).toEqual([]);
    expect(
      growth.complaints(
        soaked({
          readings: readings(
            () => 100,
            (place) => place * 2,
          ),
        }),
      ),
    ).toEqual(['the relay is 139 events behind after 59']);
  });

  test('whatever else may not be fails', () => {
    const wrong = { drainedAfter: null, posted: { ...loaded, failures: 2 }, delivered: 9, refused: 1, booksRight: false };
    expect(growth.complaints(soaked(wrong))).toEqual([
      'the relay has not caught up after the last posting',
      '2 of 100 requests failed',
      '9 of 10 deliveries have arrived',
      '1 deliveries had a wrong signature',
      'the books are not right',
    ]);
    expect(growth.report(soaked(wrong)).at(-1)).toBe('WRONG: the books are not right');
  });

  test('a process of ours at or above its mark fails, PostgreSQL and Kafka are only shown', () => {
    const shares = { gateway: 0.001, identity: 0.001, notifier: 0.001, ledger: 0.03, postgres: 0.5, kafka: 0.5 };
    const idled = { seconds: 10, shares, postings: 1 };
    expect(idling.complaints([{ way: 'gRPC', ...idled }])).toEqual(['ledger, events over gRPC: 3.00 % of a core']);
    expect(idling.complaints([{ way: 'Kafka', ...idled }])).toEqual([]);
    expect(idling.report([{ way: 'Kafka', ...idled }])).toContain('everything held');
  });

  test('what was not seen has not held', () => {
    const complaints = idling.complaints([{ way: 'Kafka', seconds: 10, shares: { ledger: NaN }, postings: 1 }]);
    expect(complaints.map((each) => each.split(',')[0])).toEqual(['gateway', 'identity', 'ledger', 'notifier']);
    expect(growth.complaints(soaked({ readings: [] }))).toEqual(['0 readings are too few to tell what grows']);
    const [first, ...others] = readings(() => 100) as [growth.Reading, ...growth.Reading[]];
    expect(growth.complaints(soaked({ readings: [...others, { ...first, memory: { ledger: 100 } }] }))).toEqual([
      'gateway was not there all the time',
    ]);
  });

  test('the slow tenant’s p99 counts as the medians of its windows, and any failed request fails', () => {
    const round = (alone: number, beside: number): street.Round => ({
      alone: { ...loaded, p99: alone },
      beside: { ...loaded, p99: beside },
      busy: loaded,
    });
    const taken = [round(10, 20), round(5, 30), round(500, 900)];
    expect(street.ratio(taken)).toBe(3);
    expect(street.complaints(taken)).toEqual([]);
    expect(street.complaints([round(10, 31)])).toEqual(['the slow tenant’s p99 is 3.10 × that alone']);
    expect(street.complaints([{ ...round(10, 10), busy: { ...loaded, failures: 1 } }])).toEqual(['busy: 1 of 100 requests failed']);
    expect(street.report(taken).join('\n')).toContain('3.00 × (limit 3)');
  });
});
