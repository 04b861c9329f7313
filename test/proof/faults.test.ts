// A minute's version of the proof of faults: some of them, one after another, on one seed.
import { tryFaults } from './faults.ts';
import { complaints } from './verdict.ts';

test('postings go on through killed, stalled and restarted parts and cut connections: none is lost or doubled, and every event arrives', async () => {
  const said: string[] = [];
  const verdict = await tryFaults({
    seed: 5,
    minutes: 1,
    kafka: false,
    faults: ['kill ledger', 'hold a head', 'kill postgres', 'stall notifier', 'cut gateway to ledger'],
    stallSeconds: [2, 3],
    say: (line) => said.push(line),
  });
  const { episodes, lost, doubled, eventsLost, transactions, clients } = verdict;
  expect({ lost, doubled, eventsLost, wrong: complaints(verdict), said }).toEqual({
    lost: [],
    doubled: [],
    eventsLost: [],
    wrong: [],
    said,
  });
  // The first one is nothing, for comparison.
  expect(episodes).toHaveLength(6);
  expect(transactions).toBe(clients.tried.size);
  expect(transactions).toBeGreaterThan(50);
}, 240_000);
