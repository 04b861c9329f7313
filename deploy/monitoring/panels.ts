// The parts of which the dashboards are made: panels, rows, queries.
import type { Builder, Dataquery } from '@grafana/grafana-foundation-sdk/cog';
import {
  GraphGradientMode,
  StackingMode,
  LegendDisplayMode,
  LegendPlacement,
  VisibilityMode,
} from '@grafana/grafana-foundation-sdk/common';
import * as common from '@grafana/grafana-foundation-sdk/common';
import {
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
  type Dashboard,
  type Panel,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

/** PromQL, and the legend of its series. */
export type Query = [expr: string, legend: string];

/** A panel on its way. */
export type Part = Builder<Panel>;

// Of the Grafana in compose.yaml. Newer ones read it too.
const schemaVersion = 41;

const datasource = { type: 'prometheus', uid: '$datasource' };

function queries(all: Query[]): Builder<Dataquery>[] {
  return all.map(([expr, legend], index) =>
    new DataqueryBuilder()
      .expr(expr)
      .legendFormat(legend)
      .refId(String.fromCharCode('A'.charCodeAt(0) + index))
      .datasource(datasource),
  );
}

/** What a chart may have besides its queries. */
export interface ChartOptions {
  /** Areas on each other, for parts of a sum. */
  stacked?: boolean;
  /** Largest value of the axis. */
  max?: number;
}

/** A chart over time, a third of the width. */
export function chart(title: string, description: string, unit: string, all: Query[], { stacked, max }: ChartOptions = {}): Part {
  const panel = new TimeseriesBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .datasource(datasource)
    .targets(queries(all))
    .span(8)
    .height(8)
    .min(0)
    .lineWidth(1)
    .fillOpacity(stacked === true ? 40 : 8)
    .gradientMode(GraphGradientMode.None)
    .showPoints(VisibilityMode.Never)
    .legend(
      new common.VizLegendOptionsBuilder().displayMode(LegendDisplayMode.List).placement(LegendPlacement.Bottom).showLegend(true).calcs([]),
    )
    .tooltip(new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending));
  if (stacked === true) panel.stacking(new common.StackingConfigBuilder().mode(StackingMode.Normal).group('A'));
  return max === undefined ? panel : panel.max(max);
}

/** One number, an eighth of the width. It turns red at `redFrom`, or below `redBelow`. */
export function stat(
  title: string,
  description: string,
  unit: string,
  expr: string,
  limit: { redFrom?: number; redBelow?: number } = {},
): Part {
  const { redFrom, redBelow } = limit;
  const steps = [
    { value: null, color: redBelow === undefined ? 'green' : 'red' },
    ...(redFrom === undefined ? [] : [{ value: redFrom, color: 'red' }]),
    ...(redBelow === undefined ? [] : [{ value: redBelow, color: 'green' }]),
  ];
  return new StatBuilder()
    .title(title)
    .description(description)
    .unit(unit)
    .datasource(datasource)
    .targets(queries([[expr, title]]))
    .span(6)
    .height(4)
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps))
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).fields('').values(false));
}

/** Per second: the sum of a counter's rates, by these labels. */
export function rate(counter: string, ...by: string[]): string {
  const sum = by.length === 0 ? 'sum' : `sum by (${by.join(', ')})`;
  return `${sum} (rate(${counter}[$__rate_interval]))`;
}

/** A quantile of a histogram, by these labels. */
export function quantile(of: number, histogram: string, ...by: string[]): string {
  const [, name = '', selector = ''] = /^(\w+)(\{.*\})?$/.exec(histogram) ?? [];
  return `histogram_quantile(${of}, ${rate(`${name}_bucket${selector}`, 'le', ...by)})`;
}

/** The halves and the slowest hundredth of a histogram. */
export function quantiles(histogram: string): Query[] {
  return [0.5, 0.95, 0.99].map((of) => [quantile(of, histogram), `${of * 100} %`]);
}

/** What a dashboard has in addition to its panels. */
export interface Board {
  uid: string;
  title: string;
  description: string;
  /** Panels under the headings of their rows. */
  rows: Record<string, Part[]>;
  /** Variables by name: the values of a label of a metric. */
  variables?: Record<string, string>;
}

/* eslint-disable @typescript-eslint/no-deprecated -- Grafana 12 loads no files of the newer form */
/** Builds a dashboard. */
export function dashboard({ uid, title, description, rows, variables = {} }: Board): Dashboard {
  const board = new DashboardBuilder(title)
    .uid(uid)
    .description(description)
    .tags(['ledger'])
    .refresh('30s')
    .time({ from: 'now-3h', to: 'now' })
    .timezone('browser')
    .tooltip(DashboardCursorSync.Crosshair)
    .readonly()
    .link(new DashboardLinkBuilder('Ledger').type(DashboardLinkType.Dashboards).tags(['ledger']).keepTime(true).includeVars(true))
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'));
  for (const [name, query] of Object.entries(variables)) {
    board.withVariable(
      new QueryVariableBuilder(name)
        .label(name)
        .query(`label_values(${query}, ${name})`)
        .datasource(datasource)
        .refresh(VariableRefresh.OnTimeRangeChanged)
        .multi(true)
        .includeAll(true)
        .allValue('.*'),
    );
  }
  for (const [heading, parts] of Object.entries(rows)) {
    board.withRow(new RowBuilder(heading));
    for (const part of parts) board.withPanel(part);
  }
  const built = board.build();
  // Grafana numbers panels when it saves them: in a file they have to be numbered.
  return { ...built, schemaVersion, panels: (built.panels ?? []).map((panel, index) => ({ ...panel, id: index + 1 })) };
}
