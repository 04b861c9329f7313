// A plot: a figure with a summary, a cursor that arrow keys move, and the same figures as a table.
import { useEffect, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import UPlot from 'uplot';
import { words } from '../words.ts';
import { Button } from './button.tsx';
import { useIsDark } from './media.ts';
import { formatShort } from './money.ts';
import { Sheet } from './table.tsx';
import { formatDay } from './time.tsx';

/** One day, week or month. */
export interface Point {
  /** `2030-01-31`. */
  date: string;
  /** For the drawing only. */
  value: number;
  /** The value as people read it, exact. */
  text: string;
  /** What else belongs to the point, such as a count. */
  detail?: string;
}

interface PlotProps {
  title: string;
  /** What a reader who sees no plot should know. */
  summary: string;
  /** What a point's value is: the heading of the table's column. */
  measure: string;
  points: Point[];
  kind: 'line' | 'bars';
}

const height = 190;
const seconds = (date: string): number => Date.parse(`${date}T00:00:00Z`) / 1000;
const axisDay = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
const axisMonth = new Intl.DateTimeFormat(undefined, { month: 'short', year: '2-digit', timeZone: 'UTC' });

/** A plot over time. Left and right move from point to point, Home and End to the ends. */
export function Plot({ title, summary, measure, points, kind }: PlotProps): ReactElement {
  const [isTable, setTable] = useState(false);
  const [index, setIndex] = useState(points.length - 1);
  const shown = points[Math.min(index, points.length - 1)];
  return (
    <figure className="plot">
      <figcaption className="section-head">
        <span className="hint">{summary}</span>
        <Button kind="quiet" icon={isTable ? 'plot' : 'table'} onPress={() => setTable(!isTable)} isPressed={isTable}>
          {words.plot.table}
        </Button>
      </figcaption>
      {isTable ? (
        <div className="plot-table">
          <Sheet
            label={title}
            items={points.toReversed()}
            idOf={({ date }) => date}
            columns={[
              { id: 'date', label: words.plot.date, cell: ({ date }) => formatDay(date) },
              ...(points.some(({ detail }) => detail !== undefined)
                ? [{ id: 'detail', label: words.plot.detail, cell: ({ detail }: Point) => detail, isNumber: true, isOptional: true }]
                : []),
              { id: 'value', label: measure, cell: ({ text }) => text, isNumber: true },
            ]}
          />
        </div>
      ) : (
        <>
          <Canvas title={title} points={points} kind={kind} index={index} onMove={setIndex} />
          <p className="plot-value">
            {shown && (
              <>
                <span>{formatDay(shown.date)}</span> <strong>{shown.text}</strong> {shown.detail}
              </>
            )}
          </p>
        </>
      )}
    </figure>
  );
}

interface CanvasProps extends Pick<PlotProps, 'title' | 'points' | 'kind'> {
  index: number;
  onMove: (index: number) => void;
}

function Canvas({ title, points, kind, index, onMove }: CanvasProps): ReactElement {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(undefined);
  const move = useRef(onMove);
  const isDark = useIsDark();
  move.current = onMove;

  useEffect(() => {
    const element = place.current as HTMLDivElement;
    const data: UPlot.AlignedData = [points.map(({ date }) => seconds(date)), points.map(({ value }) => value)];
    const drawn = new UPlot(
      optionsOf(element, kind, points, (at) => move.current(at)),
      data,
      element,
    );
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
    };
  }, [points, kind, isDark]);

  const press = (event: KeyboardEvent): void => {
    const last = points.length - 1;
    const to = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last, PageUp: index - 7, PageDown: index + 7 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, to));
    onMove(next);
    const left = plot.current?.valToPos(seconds(points[next]?.date ?? ''), 'x') ?? 0;
    plot.current?.setCursor({ left, top: height / 2 }, false);
  };
  const point = points[index];
  return (
    <div
      ref={place}
      className="plot-canvas"
      // As a slider over time its value is read out whenever the cursor moves.
      role="slider"
      tabIndex={0}
      aria-label={title}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, points.length - 1)}
      aria-valuenow={Math.max(0, index)}
      aria-valuetext={point && `${formatDay(point.date)}: ${point.text} ${point.detail ?? ''}`}
      onKeyDown={press}
    />
  );
}

function optionsOf(element: HTMLElement, kind: 'line' | 'bars', points: Point[], onMove: (index: number) => void): UPlot.Options {
  const colour = (name: string): string => {
    // Resolves `light-dark()`, which a canvas can't.
    const probe = document.createElement('span');
    probe.style.color = `var(${name})`;
    element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
  const [accent, soft, line] = [colour('--accent'), colour('--soft'), colour('--line')];
  const days = points.length > 1 ? (seconds(points.at(-1)?.date ?? '') - seconds(points[0]?.date ?? '')) / 86_400 : 1;
  const axisFormat = days > 180 ? axisMonth : axisDay;
  const axis: UPlot.Axis = {
    stroke: soft,
    font: `11px ${getComputedStyle(element).fontFamily}`,
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height,
    tzDate: (at) => UPlot.tzDate(new Date(at * 1000), 'UTC'),
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7, fill: accent } },
    scales: {
      x: { range: (_plot, low, high) => withRoom(low, high, points, kind) },
      y: { range: (_plot, low, high) => rangeOf(low, high, kind) },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 70,
        size: 28,
        values: (_plot, ticks) => ticks.map((tick) => axisFormat.format(tick * 1000)),
      },
      { ...axis, size: 52, values: (_plot, ticks) => ticks.map(formatShort) },
    ],
    series: [
      {},
      {
        stroke: accent,
        width: kind === 'bars' ? 0 : 1.75,
        // A line's scale need not begin at zero, where an area would be a lie.
        fill: kind === 'bars' ? accent : 'transparent',
        points: { show: false },
        ...(kind === 'bars' && UPlot.paths.bars && { paths: UPlot.paths.bars({ size: [0.72, 26] }) }),
      },
    ],
    hooks: {
      setCursor: [({ cursor: { idx } }) => typeof idx === 'number' && onMove(idx)],
    },
  };
}

/** Half a step more at both ends, so that bars there are whole. */
function withRoom(low: number, high: number, points: Point[], kind: 'line' | 'bars'): [number, number] {
  const half = kind === 'bars' ? (high - low || 86_400) / Math.max(1, points.length - 1) / 2 : 0;
  return [low - half, high + half];
}

function rangeOf(low: number, high: number, kind: 'line' | 'bars'): [number, number] {
  if (kind === 'bars' || low === high) return [Math.min(0, low), Math.max(high, 1) * 1.06];
  const room = (high - low) * 0.08;
  return [low - room < 0 && low >= 0 ? 0 : low - room, high + room];
}
