// The dashboards of Grafana as tests read them.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { text } from './sources.ts';

interface Query {
  expr: string;
  legendFormat: string;
  datasource: { uid: string };
}

/** A chart or a number. */
export interface Panel {
  id: number;
  type: string;
  title: string;
  description: string;
  datasource: { type: string; uid: string };
  fieldConfig: { defaults: { unit?: string } };
  gridPos: { x: number; y: number; w: number; h: number };
  targets: Query[];
}

/** A dashboard, without its headings. */
export interface Dashboard {
  uid: string;
  title: string;
  description: string;
  editable: boolean;
  panels: Panel[];
  variables: { name: string; type: string; query: string; datasource?: { uid: string } }[];
}

const directory = 'deploy/monitoring/dashboards';

export const dashboards = readdirSync(join(root, directory)).map((name): Dashboard => {
  const { templating, panels, ...rest } = JSON.parse(text(`${directory}/${name}`)) as Omit<Dashboard, 'variables'> & {
    templating: { list: Dashboard['variables'] };
  };
  return { ...rest, panels: panels.filter(({ type }) => type !== 'row'), variables: templating.list };
});

/** What a dashboard asks of Prometheus, its variables replaced: all values, and rates over `range`; and the labels of its legends. */
export function queriesOf({ panels, variables }: Dashboard, range = '5m'): { expr: string; labels: string[] }[] {
  const targets = panels.flatMap((panel) => panel.targets);
  const choices = variables.flatMap(({ query }) => {
    const [, expr, label] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
    return expr === undefined ? [] : [{ expr, legendFormat: `{{${label ?? ''}}}` }];
  });
  return [...targets, ...choices].map(({ expr, legendFormat }) => ({
    expr: expr.replaceAll(/\$__(rate_interval|range)/g, range).replaceAll(/\$\w+/g, '.*'),
    labels: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label),
  }));
}
