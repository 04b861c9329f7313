// The rules of Prometheus and the pages that say what to do when they fire.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from '../../deploy/local/plan.ts';
import { text } from '../sources.ts';

/** An alert of deploy/monitoring/alerts.yaml. */
export interface AlertRule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
}

/** A recording rule. */
export interface RecordingRule {
  record: string;
  expr: string;
}

const rulesOf = <Rule>(name: string) =>
  (parse(text(`deploy/monitoring/${name}.yaml`)) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules);

export const alerts = rulesOf<AlertRule>('alerts');
export const recordings = rulesOf<RecordingRule>('recording');

const directory = 'gateway/docs/operate/alerts';
/** The name of an alert's page: `PostingsWait` is `postings-wait`. */
export const slugOf = (alert: string): string => alert.replace(/(?<!^)[A-Z]/g, '-$&').toLowerCase();
export const slugs = readdirSync(join(root, directory)).map((name) => name.replace(/\.md$/, ''));
export const pageOf = (alert: string): string => text(`${directory}/${slugOf(alert)}.md`);
/** The queries of a page, one a line. */
export const queriesOf = (page: string): string[] =>
  [...page.matchAll(/^```promql\n([\s\S]*?)^```$/gm)].flatMap(([, code = '']) => code.trimEnd().split('\n'));

/**
 * All rules, so that a fault of seconds is enough: each `for` and each window, but of rules that count, is seconds long, and each limit of two
 * digits or more is 3. What is compared, and with which labels, stays.
 */
export function hurriedRules(): object {
  const hurried = (expr: string) =>
    expr
      .replace(/\[\d+[mhd]\]/g, /^(sum\(increase|changes)\(.*> \d$/.test(expr) ? '[10m]' : '[5s]')
      .replace(/> \d{2,}( \* 86400)?$/, '> 3')
      .replace(/> 3 \* 86400$/, '> 45');
  const rules = [
    ...recordings.map(({ record, expr }) => ({ record, expr: hurried(expr) })),
    ...alerts.map(({ alert, expr, labels, for: lasting }) => ({ alert, expr: hurried(expr), labels, ...(lasting && { for: '1s' }) })),
  ];
  return { groups: [{ name: 'hurried', rules }] };
}
