// When a proof of faults may say that everything held.
import { held, report, type Episode, type Verdict } from './verdict.ts';

function verdictOf(...episodes: (Omit<Episode, 'name'> & { name?: string })[]): Verdict {
  const clients = { tried: new Map(), statuses: new Map(), wrong: [] } as unknown as Verdict['clients'];
  const reckoned = { lost: [], doubled: [], eventsLost: [], quietAfter: 0, events: 0, transactions: 0, findings: [] };
  return { ...reckoned, clients, episodes: episodes.map((each) => ({ name: 'a fault', ...each })) };
}

const [prompt, late] = [0.01, 0.3];
const toldOf = (verdict: Verdict) => [held(verdict), report(verdict).at(-1)];
const unjudged = 'nothing is wrong, but no limit was judged';

test('everything held where a limit was judged', () => {
  expect(toldOf(verdictOf({ silence: 9, limit: 5, late }, { silence: 1, limit: 5, late: prompt }))).toEqual([true, 'everything held']);
});

test('where every limit fell to a busy machine, nothing held', () => {
  expect(toldOf(verdictOf({ silence: 9, limit: 5, late }, { silence: 1, late: prompt }))).toEqual([false, unjudged]);
});

test('faults without a limit may be tried alone, and that no limit was judged is said', () => {
  expect(toldOf(verdictOf({ silence: 1, late: prompt }))).toEqual([true, unjudged]);
});

test('a fault whose limit was never judged is named', () => {
  const verdict = verdictOf({ silence: 1, limit: 5, late: prompt }, { name: 'another', silence: 1, limit: 5, late });
  expect(toldOf(verdict)).toEqual([true, 'nothing is wrong; the limits of these were not judged: another']);
});
