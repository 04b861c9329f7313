// What came of a proof of faults, in words and as a table.
import type { Clients } from './clients.ts';
import type { Reckoning } from './reckoning.ts';

/** Faults that were there at once, and what the clients saw of them. */
export interface Episode {
  /** The fault's name, or what several are called. */
  name: string;
  /** Seconds without any answered posting of a tenant that it was about, the longest. */
  silence: number;
  /** Seconds that it might have been; where it is not said, as long as the fault lasts. */
  limit?: number;
  /** The same of the tenants that it was not about, where there are any. */
  silenceOfOthers?: number;
  limitOfOthers?: number;
  /** Seconds that this process waited for its turn at most: on a machine busy with other things limits mean nothing. */
  late: number;
}

/** What came of it. */
export interface Verdict extends Reckoning {
  episodes: Episode[];
  clients: Clients;
}

// Where this process, which is mostly idle, waited longer for its turn, others had to wait, too.
const lateAtMost = 0.25;

/** One line about an episode that lasted so many seconds. */
export function described(episode: Episode, seconds: number): string {
  const { name, late } = episode;
  const lateness = `this process late by ${(late * 1000).toFixed(0)} ms`;
  return `${name}: ${seconds.toFixed(1)} s, longest without an answer ${silences(episode)}, ${lateness}`;
}

/** `0.20 (limit 5.0)`, and the same of other tenants. */
function silences({ silence, limit, silenceOfOthers, limitOfOthers }: Episode): string {
  const limited = (most?: number) => (most === undefined ? '' : ` (limit ${most.toFixed(1)})`);
  const others = silenceOfOthers === undefined ? '' : `, other tenants ${silenceOfOthers.toFixed(2)}${limited(limitOfOthers)}`;
  return `${silence.toFixed(2)}${limited(limit)}${others}`;
}

/** Whether nothing is wrong and, where there were limits, at least one could be judged. */
export function held(verdict: Verdict): boolean {
  const limited = verdict.episodes.filter(hasLimit);
  return complaints(verdict).length === 0 && (limited.length === 0 || limited.some(isJudged));
}

/** Everything that is wrong. */
export function complaints({ findings, clients, episodes }: Verdict): string[] {
  const slow = episodes.filter(isSlow);
  return [...findings, ...clients.wrong, ...slow.map((each) => `${each.name}: without an answer for ${silences(each)}`)];
}

/** Whether clients were without an answer for longer than may be, on a machine that was not too busy to tell. */
export function isSlow(episode: Episode): boolean {
  return isJudged(episode) && isOverLimit(episode);
}

function isJudged({ late }: Episode): boolean {
  return late <= lateAtMost;
}

function hasLimit({ limit, limitOfOthers }: Episode): boolean {
  return limit !== undefined || limitOfOthers !== undefined;
}

function isOverLimit({ silence, limit = Infinity, silenceOfOthers = 0, limitOfOthers = Infinity, late }: Episode): boolean {
  return silence > limit + late || silenceOfOthers > limitOfOthers + late;
}

/** Where nothing is wrong: which limits that may not be said of. */
function praise(episodes: Episode[]): string {
  const limited = episodes.filter(hasLimit);
  if (!limited.some(isJudged)) return 'nothing is wrong, but no limit was judged';
  const unjudged = [...Map.groupBy(limited, ({ name }) => name)].flatMap(([name, all]) => (all.some(isJudged) ? [] : [name]));
  return unjudged.length === 0 ? 'everything held' : `nothing is wrong; the limits of these were not judged: ${unjudged.join(', ')}`;
}

/** The table, and what is wrong. */
export function report(verdict: Verdict): string[] {
  const { episodes, clients, lost, doubled, eventsLost, quietAfter, events, transactions } = verdict;
  const tried = [...clients.tried.values()];
  const during = (name: string, keys: string[]) => keys.filter((key) => clients.tried.get(key)?.during === name).length;
  const rows = [...Map.groupBy(episodes, ({ name }) => name)].map(([name, all]) => {
    const longest = all.reduce((most, each) => (each.silence > most.silence ? each : most));
    const ofOthers = all.flatMap(({ silenceOfOthers }) => silenceOfOthers ?? []);
    const worst = ofOthers.length === 0 ? longest : { ...longest, silenceOfOthers: Math.max(...ofOthers) };
    const mine = tried.filter((each) => each.during === name);
    const answered = mine.filter(({ transactionId }) => transactionId !== undefined);
    const reckoned = [lost, doubled, eventsLost].map((keys) => during(name, keys));
    return [name, all.length, silences(worst), mine.length, answered.length, ...reckoned];
  });
  const heads = ['fault', 'times', 'longest without an answer, s', 'postings tried', 'answered', 'lost', 'doubled', 'events lost'];
  const busy = episodes.filter((each) => !isJudged(each)).length;
  const answers = [...clients.statuses].sort().map(([status, count]) => `${count} × ${status}`);
  const wrong = complaints(verdict);
  return [
    '',
    ...[heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`),
    '',
    `${tried.length} postings tried, ${transactions} transactions, ${lost.length} lost, ${doubled.length} doubled`,
    `${events} events, ${eventsLost.length} lost; all were delivered ${quietAfter.toFixed(1)} s after the last posting`,
    `answers: ${answers.join(', ')}`,
    ...(busy > 0 ? [`the machine was too busy to judge limits in ${busy} of ${episodes.length} cases`] : []),
    ...(wrong.length === 0 ? [praise(episodes)] : wrong.map((line) => `WRONG: ${line}`)),
  ];
}
