// A short run of the proof of faults: one seed, each fault once.
import { injectFaults } from './faults.ts';
import { complaints } from './verdict.ts';

test('postings survive killed processes and lost answers: none is lost or doubled, and every event arrives', async () => {
  const faults = ['kill gateway', 'kill ledger', 'lose answers of ledger to postgres', 'kill notifier', 'kill postgres'];
  const lines: string[] = [];
  const verdict = await injectFaults({
    ...{ seed: 5, minutes: 1, faults, inOrder: true, stallSeconds: [2, 3], pauseMs: 400, say: (line) => lines.push(line) },
    setup: { kafka: false, disk: false },
  });
  const { episodes, lost, doubled, eventsLost, transactions, clients } = verdict;
  // How long clients wait says little on a busy machine; `npm run proof -- faults` checks it.
  const wrong = complaints({ ...verdict, episodes: [] });
  expect({ lost, doubled, eventsLost, wrong, lines }).toEqual({ lost: [], doubled: [], eventsLost: [], wrong: [], lines });
  expect(episodes).toHaveLength(faults.length + 1);
  expect(transactions).toBe([...clients.tried.values()].filter(({ isRefused }) => isRefused !== true).length);
  expect(clients.holds.length).toBeGreaterThan(10);
  expect(transactions).toBeGreaterThan(50);
}, 300_000);
