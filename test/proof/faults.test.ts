// Short versions of the proof of faults: some of them, one after another, on one seed.
import { diskProblem } from '../disk.ts';
import { describeWithKafka, testWithJava } from '../kafka.ts';
import { clockProblem } from './clocks.ts';
import { prove, tryFaults } from './faults.ts';
import { complaints, isSlow } from './verdict.ts';

const means = { kafka: false, disk: false, clocks: false };

/** Tries faults in turn; nothing may be wrong. One over its limit is tried once more: parts of a busy machine stand still for other reasons, too. */
async function holds(faults: string[], more: Partial<typeof means>): Promise<void> {
  const slow = await tried(faults, more);
  if (slow.length > 0) expect({ slow: await tried(slow, more), before: slow }).toEqual({ slow: [], before: slow });
}

/** Tries faults in turn; answers those that are over their limit, and nothing else may be wrong. */
async function tried(faults: string[], more: Partial<typeof means>): Promise<string[]> {
  const said: string[] = [];
  const verdict = await tryFaults({
    seed: 5,
    minutes: 1,
    means: { ...means, ...more },
    faults,
    inTurn: true,
    stallSeconds: [2, 3],
    // Some forty postings a second meet every fault, and take a fifth less of the processors' time than those of the proof's own 40 ms.
    restMs: 400,
    say: (line) => said.push(line),
  });
  const { episodes, lost, doubled, eventsLost, transactions, clients } = verdict;
  const slow = episodes.filter(isSlow);
  const wrong = complaints({ ...verdict, episodes: episodes.filter((each) => !slow.includes(each)) });
  expect({ lost, doubled, eventsLost, wrong, said }).toEqual({
    lost: [],
    doubled: [],
    eventsLost: [],
    wrong: [],
    said,
  });
  // The first one is nothing, for comparison.
  expect(episodes).toHaveLength(faults.length + 1);
  expect(transactions).toBe(clients.tried.size);
  expect(transactions).toBeGreaterThan(50);
  return slow.map(({ name }) => name);
}

const disk = diskProblem() === null;

test('postings go on through killed, stalled and restarted parts, lost answers, cut connections and a full disk: none is lost or doubled, and every event arrives', async () => {
  const faults = [
    'kill ledger',
    'hold a head',
    'kill postgres',
    'stall notifier',
    'lose answers of gateway to ledger',
    'lose answers of ledger to postgres',
    'isolate identity to postgres',
    'fail over postgres',
  ];
  await holds(disk ? [...faults, 'fill disk', 'fill disk and log'] : faults, { disk });
}, 600_000);

if (!disk) test.skip('a full disk refuses postings until there is room again', () => undefined);

describeWithKafka('over Kafka', () => {
  const name = 'postings go on while Kafka is killed and started again: none is lost or doubled, and every event arrives';
  testWithJava(name, () => holds(['kill kafka'], { kafka: true }), 480_000);
});

test('a fault that there is none of is told with the names of all, before anything is started', async () => {
  const asked = prove({ seed: 2, minutes: 1, faults: ['kill ledger', 'kill kafka'], say: () => undefined });
  await expect(asked).rejects.toThrow(
    /^--fault: there is no kill kafka; over gRPC \(even seeds\) there are kill gateway, .*, rolling restart$/,
  );
});

for (const [what, problem] of [
  ['fill PostgreSQL’s disk', diskProblem()],
  ['set clocks', clockProblem()],
]) {
  if (problem !== null) process.stderr.write(`the tests that ${what} are skipped: ${problem}\n`);
}

(clockProblem() === null ? test : test.skip)(
  'wrong clocks are seen by nobody but who shows the gateway a token: no time, key or lease hangs on them',
  async () => {
    await holds(['set clock of ledger ahead', 'set clock of notifier back', 'set clock of identity ahead', 'set clock of gateway back'], {
      clocks: true,
    });
  },
  480_000,
);
