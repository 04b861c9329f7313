// What a soak has found: what grew, and everything else that may not be. The first quarter is not judged: caches fill there, code is compiled.
import { median } from '../bench/figures.ts';
import type { Loaded } from '../bench/load.ts';
import { table } from '../bench/report.ts';

/** What was seen at one moment. */
export interface Reading {
  /** MiB, by process. */
  memory: Record<string, number>;
  /** Events that were not published. */
  lag: number;
}

/** What came of a soak. */
export interface Soaked {
  highest: Loaded;
  /** Postings a second that were asked for. */
  perSecond: number;
  posted: Loaded;
  readings: Reading[];
  /** Seconds from the last answer until everything was published; null: it was not. */
  drainedAfter: number | null;
  /** Postings of the tenant with the webhook, and how many of them were delivered. */
  expected: number;
  delivered: number;
  /** Deliveries with a wrong signature. */
  refused: number;
  booksRight: boolean;
  /** What the check of the books said. */
  lines: string[];
}

/** The last quarter's memory of the second one's, at most. */
const memoryMark = 1.1;

/**
 * Events that the lag may be above the second quarter's, in seconds of postings: so long the events of tenants without a webhook are gathered
 * before they are passed over, and the lag goes up and down by as much.
 */
const lagAllowanceSeconds = 1;

/** The median of a figure in each quarter of the readings, the first one first. */
export function quarters(readings: Reading[], figure: (reading: Reading) => number): number[] {
  const edge = (quarter: number) => Math.floor((readings.length * quarter) / 4);
  return [0, 1, 2, 3].map((quarter) => median(readings.slice(edge(quarter), edge(quarter + 1)).map(figure)));
}

/** Everything that makes the proof fail. */
export function complaints(soaked: Soaked): string[] {
  const { readings, posted, drainedAfter, expected, delivered, refused, booksRight, perSecond } = soaked;
  const wrong: string[] = [];
  // Two for each quarter.
  if (readings.length < 8) wrong.push(`${readings.length} readings are too few to tell what grows`);
  for (const name of processesOf(readings)) {
    if (readings.some(({ memory }) => memory[name] === undefined)) wrong.push(`${name} was not there all the time`);
    const [, second = 0, , last = 0] = quarters(readings, ({ memory }) => memory[name] ?? 0);
    if (last > memoryMark * second) wrong.push(`${name} holds ${last.toFixed(0)} MiB after ${second.toFixed(0)} MiB`);
  }
  const [, second = 0, , last = 0] = quarters(readings, ({ lag }) => lag);
  if (last > second + lagAllowanceSeconds * perSecond) wrong.push(`the relay is ${last} events behind after ${second}`);
  if (drainedAfter === null) wrong.push('the relay has not caught up after the last posting');
  if (posted.failures > 0) wrong.push(`${posted.failures} of ${posted.requests} requests failed`);
  if (delivered !== expected) wrong.push(`${delivered} of ${expected} deliveries have arrived`);
  if (refused > 0) wrong.push(`${refused} deliveries had a wrong signature`);
  if (!booksRight) wrong.push('the books are not right');
  return wrong;
}

/** The tables, and what is wrong. */
export function report(soaked: Soaked): string[] {
  const { readings, highest, posted, perSecond, drainedAfter, expected, delivered, lines } = soaked;
  const row = (title: string, medians: number[], limit: string, ratio: string) => [
    title,
    ...medians.map((each) => each.toFixed(0)),
    ratio,
    limit,
  ];
  const held = processesOf(readings).map((name) => {
    const medians = quarters(readings, ({ memory }) => memory[name] ?? 0);
    return row(`${name}, MiB`, medians, `${memoryMark} ×`, `${((medians[3] ?? 0) / (medians[1] ?? 0)).toFixed(2)} ×`);
  });
  const lags = quarters(readings, ({ lag }) => lag);
  const more = (lags[3] ?? 0) - (lags[1] ?? 0);
  const behind = row('relay lag, events', lags, `+${lagAllowanceSeconds * perSecond}`, `${more < 0 ? '' : '+'}${more.toFixed(0)}`);
  const wrong = complaints(soaked);
  const number = (value: number) => Math.round(value).toLocaleString('en');
  return [
    '',
    table(['medians of each quarter', '1st', '2nd', '3rd', '4th', '4th of 2nd', 'limit'], [...held, behind]),
    '',
    `${number(posted.requests)} postings at ${number(perSecond)}/s, half of the highest rate (${number(highest.perSecond)}/s): ` +
      `p50 ${posted.p50.toFixed(1)} ms, p99 ${posted.p99.toFixed(1)} ms, ${posted.failures} failed; ${readings.length} readings`,
    'memory: resident, of PostgreSQL what its processes hold of their own; lag: what the relay has not published',
    `everything was published ${drainedAfter === null ? 'NEVER' : `${drainedAfter.toFixed(1)} s`} after the last posting; ` +
      `${number(delivered)} of ${number(expected)} deliveries arrived`,
    ...lines,
    ...(wrong.length === 0 ? ['everything held'] : wrong.map((line) => `WRONG: ${line}`)),
  ];
}

function processesOf(readings: Reading[]): string[] {
  return [...new Set(readings.flatMap(({ memory }) => Object.keys(memory)))];
}
