// The result of a run of faults, as a table and as complaints.
import type { Clients } from './clients.ts';
import type { FinalState } from './final-checks.ts';

/** One fault, or several at once, and what clients noticed. */
export interface Episode {
  name: string;
  /** Longest time without an answered posting of a tenant that it concerns, seconds. */
  silence: number;
  /** What that may be, seconds; without a limit, as long as the fault lasts. */
  limit?: number;
  /** The same of other tenants, if any. */
  silenceOfOthers?: number;
  limitOfOthers?: number;
  /** Largest delay of this process's event loop, seconds: on a busy machine limits cannot be judged. */
  late: number;
}

/** The result. */
export interface Verdict extends FinalState {
  episodes: Episode[];
  clients: Clients;
}

const maxLate = 0.25;

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
export function isProved(verdict: Verdict): boolean {
  const limited = verdict.episodes.filter(hasLimit);
  return complaints(verdict).length === 0 && (limited.length === 0 || limited.some(isJudged));
}

/** Everything that is wrong. */
export function complaints({ findings, clients, episodes }: Verdict): string[] {
  const slow = episodes.filter(isSlow);
  return [...findings, ...clients.wrong, ...slow.map((each) => `${each.name}: without an answer for ${silences(each)}`)];
}

/** Whether clients were without an answer for longer than may be, on a machine that was not too busy to tell. */
function isSlow(episode: Episode): boolean {
  return isJudged(episode) && isOverLimit(episode);
}

function isJudged({ late }: Episode): boolean {
  return late <= maxLate;
}

function hasLimit({ limit, limitOfOthers }: Episode): boolean {
  return limit !== undefined || limitOfOthers !== undefined;
}

function isOverLimit({ silence, limit = Infinity, silenceOfOthers = 0, limitOfOthers = Infinity, late }: Episode): boolean {
  return silence > limit + late || silenceOfOthers > limitOfOthers + late;
}

/** What nothing contradicts, with the limits that could not be judged. */
function success(episodes: Episode[]): string {
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
    const own = tried.filter((each) => each.during === name);
    const answered = own.filter(({ transactionId }) => transactionId !== undefined);
    const checked = [lost, doubled, eventsLost].map((keys) => during(name, keys));
    return [name, all.length, silences(worst), own.length, answered.length, ...checked];
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
    ...(wrong.length === 0 ? [success(episodes)] : wrong.map((line) => `WRONG: ${line}`)),
  ];
}
