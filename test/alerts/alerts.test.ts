// The alerts: each has a page that says what to do, asks for what exists, fires when it should and not otherwise.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { root } from '../../deploy/local/plan.ts';
import { currentRun } from '../run.ts';
import { text } from '../sources.ts';
import { cases, type AlertCase } from './cases.ts';
import { alerts, pageOf, queriesOf, recordings, slugOf, slugs, type AlertRule } from './rules.ts';

const names = alerts.map(({ alert }) => alert);
const promtool = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: root, encoding: 'utf8' });
  return [status, stdout + stderr];
};
const testWithPromtool = spawnSync('promtool', ['--version']).error === undefined ? test : test.skip;
const written = (content: unknown) => {
  const file = join(mkdtempSync(join(currentRun().directory, 'alerts-')), 'rules.yaml');
  writeFileSync(file, stringify(content));
  return file;
};

test('each alert has a page that the runbook lists, with its severity and summary, and nothing else has', () => {
  expect(slugs.sort()).toEqual(names.map(slugOf).sort());
  const rows = [...text('gateway/docs/operate/runbook.md').matchAll(/^\| \[(\w+)\]\(alerts\/(.*)\.md\) \| `(\w+)` \| (.*) \|$/gm)];
  expect(rows.map((row) => row.slice(1)).sort()).toEqual(
    alerts.map(({ alert, labels, annotations }) => [alert, slugOf(alert), labels.severity, annotations.summary]).sort(),
  );
  for (const { alert, annotations } of alerts)
    expect(annotations.runbook_url).toBe(`{{ $externalLabels.ledger_url }}/docs/guide/operate/alerts/${slugOf(alert)}`);
});

test('each page says what its alert means, for whom, what to look at, what to do and when it is over', () => {
  const headings = ['What it means', 'Who is affected', 'What to look at', 'What to do', 'When it is over'];
  for (const { alert, labels, annotations } of alerts) {
    const page = pageOf(alert);
    const severity = labels.severity === 'page' ? '`page`: now' : '`ticket`: today';
    expect(page.split('\n').slice(0, 3)).toEqual([`# ${alert}`, '', `**${annotations.summary}.** (${severity})`]);
    expect([...page.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)).toEqual(headings);
    expect(page.trimEnd().split('\n').length).toBeLessThanOrEqual(40);
    expect(queriesOf(page).length).toBeGreaterThan(0);
  }
});

test('rules and pages ask only for metrics that exist, and quote lines of the log that are written', () => {
  const listed = text('gateway/docs/reference/metrics.md');
  const recorded = recordings.map(({ record }) => record);
  const expressions = [...alerts, ...recordings].map(({ expr }) => expr).concat(names.flatMap((alert) => queriesOf(pageOf(alert))));
  const asked = expressions.flatMap(
    (expr) => expr.match(/\b(?:http|grpc|gateway|identity|ledger|notifier|auditor|postgres|tls|dependency)_\w+/g) ?? [],
  );
  const known = (name: string) => listed.includes(`\`${name}\``) || listed.includes(`\`${name.replace(/_(bucket|sum|count)$/, '')}\``);
  expect([...new Set(asked)].filter((name) => !known(name))).toEqual([]);
  const used = expressions.flatMap((expr) => expr.match(/\b(?:rest|ledger):[\w:]+/g) ?? []);
  expect(used.filter((name) => !recorded.includes(name))).toEqual([]);
  const sources = ['gateway', 'services']
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`))
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => text(name));
  const quoted = names.flatMap((alert) => [...pageOf(alert).matchAll(/log has (?:a line )?`([^`]+)`|and `(rejecting requests)`/g)]);
  const lines = quoted.map(([, line, other]) => line ?? other ?? '');
  expect(lines.length).toBeGreaterThan(10);
  expect(lines.filter((line) => !sources.some((source) => source.includes(line)))).toEqual([]);
});

testWithPromtool('Prometheus reads the rules, and the queries of the pages (promtool)', () => {
  const queries = names.flatMap((alert) => queriesOf(pageOf(alert)));
  const asked = written({ groups: [{ name: 'queries', rules: queries.map((expr, index) => ({ record: `query:${index}`, expr })) }] });
  const files = ['deploy/monitoring/recording.yaml', 'deploy/monitoring/alerts.yaml', asked];
  const all = promtool('check', 'rules', '--lint=all', '--lint-fatal', ...files);
  expect(all).toEqual([0, expect.stringContaining(`${queries.length} rules found`)]);
});

testWithPromtool('each alert fires on its case, and stays silent on its other one (promtool)', () => {
  expect(Object.keys(cases).sort()).toEqual([...names].sort());
  const url = 'https://ledger.example.com';
  const testOf = ({ alert, labels, annotations }: AlertRule, { at = '20m', ...each }: AlertCase, kind: 'raised' | 'quiet') => ({
    name: `${alert} is ${kind}`,
    interval: '1m',
    external_labels: { ledger_url: url },
    input_series: Object.entries(each[kind]).map(([series, values]) => ({ series, values })),
    alert_rule_test: [
      {
        alertname: alert,
        eval_time: at,
        exp_alerts:
          kind === 'quiet'
            ? []
            : [
                {
                  exp_labels: { ...labels, ...each.labels },
                  exp_annotations: {
                    ...annotations,
                    runbook_url: annotations.runbook_url.replace('{{ $externalLabels.ledger_url }}', url),
                  },
                },
              ],
      },
    ],
  });
  const tests = alerts.flatMap((rule) => {
    const each = cases[rule.alert] as AlertCase;
    return [testOf(rule, each, 'raised'), testOf(rule, each, 'quiet')];
  });
  const rule_files = ['recording', 'alerts'].map((name) => join(root, `deploy/monitoring/${name}.yaml`));
  expect(promtool('test', 'rules', written({ rule_files, evaluation_interval: '1m', tests }))).toEqual([
    0,
    expect.stringContaining('SUCCESS'),
  ]);
});
