// What a full cluster may be slower than an empty one, and what came of it.
import { median } from '../bench/figures.ts';
import type { Loaded } from '../bench/load.ts';

/** What the windows do. */
export const kinds = ['posting', 'balance', 'page', 'history'] as const;

export type Kind = (typeof kinds)[number];

/** The two clusters. */
export const sides = ['empty', 'full'] as const;

export type Side = (typeof sides)[number];

/** A window; CPU microseconds of a request in all processes. */
export interface Sample extends Pick<Loaded, 'perSecond' | 'p50' | 'p99' | 'failures'> {
  cpu: number;
}

/** All windows, in their order. */
export type Samples = Record<Kind, Record<Side, Sample[]>>;

/** One line of the table. */
export interface Mark {
  claim: string;
  /** Medians, and the full cluster's of the empty one's. */
  empty: number;
  full: number;
  ratio: number;
  /** What the ratio must be at least or at most; neither where it is only told. */
  least?: number;
  most?: number;
}

/** No windows yet. */
export function noSamples(): Samples {
  return Object.fromEntries(kinds.map((kind) => [kind, { empty: [], full: [] }])) as unknown as Samples;
}

const titles: Record<Kind, string> = {
  posting: 'Posting over REST, 64 connections',
  balance: 'Balance read, 8 connections',
  page: 'Newest page of transactions, 8 connections',
  history: 'Balance history of the hot account, 8 connections',
};

/** The marks of the windows: medians of each side's windows, compared. */
export function marksOf(samples: Samples): Mark[] {
  const mark = (kind: Kind, figure: Exclude<keyof Sample, 'failures'>, what: string, bound: { least?: number; most?: number }): Mark => {
    const [empty, full] = sides.map((side) => median(samples[kind][side].map((sample) => sample[figure]))) as [number, number];
    return { claim: `${titles[kind]}: ${what}`, empty, full, ratio: full / empty, ...bound };
  };
  return kinds.flatMap((kind) => [
    mark(kind, 'perSecond', 'per second', kind === 'posting' ? { least: 0.75 } : {}),
    mark(kind, 'p50', 'p50, ms', {}),
    mark(kind, 'p99', 'p99, ms', { most: 2 }),
    mark(kind, 'cpu', 'CPU of one, µs', {}),
  ]);
}

/** Whether a mark is reached; what was not measured reaches none. */
export function isReached({ ratio, least, most }: Mark): boolean {
  return (least === undefined || ratio >= least) && (most === undefined || ratio <= most);
}

/** The table. */
export function tableOf(marks: Mark[]): string[] {
  const rows = marks.map((mark) => {
    const { claim, empty, full, ratio, least, most } = mark;
    const bound = least === undefined ? (most === undefined ? '' : `≤ ${most} ×`) : `≥ ${least} ×`;
    return [claim, figure(empty), figure(full), `${bound && (isReached(mark) ? '✓ ' : '✗ ')}${ratio.toFixed(2)} ×`, bound];
  });
  const heads = ['', 'empty cluster', 'full cluster', 'full of empty', 'must be'];
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

function figure(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}
