// The files of Prometheus and Grafana: what they scrape, and what the dashboards ask for.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from '../deploy/local/plan.ts';
import { processes } from './required-settings.ts';
import { currentRun } from './run.ts';
import { text } from './sources.ts';

type Document = Record<string, any>;

const monitoring = 'deploy/monitoring';
const compose = parse(text('deploy/compose.yaml'), { merge: true }) as Document;
const dashboards = readdirSync(join(root, monitoring, 'dashboards')).map((name) => {
  return JSON.parse(text(`${monitoring}/dashboards/${name}`)) as Document;
});
const queries = dashboards.flatMap(({ panels }) =>
  (panels as Document[]).flatMap(({ targets }) => (targets as Document[]).map((target) => String(target['expr']))),
);
const promtool = (...args: string[]) => spawnSync('promtool', args, { cwd: root, encoding: 'utf8' });
const testWithPromtool = promtool('--version').error === undefined ? test : test.skip;

test('Prometheus of the compose file scrapes every process on its operations port, and Grafana asks it', () => {
  const { scrape_configs: jobs } = parse(text(`${monitoring}/prometheus.yaml`)) as Document;
  const scraped = (jobs as Document[]).map((job) => [job['job_name'], job['static_configs'][0].targets]);
  expect(scraped).toEqual(processes.map((name) => [name, [`${name}:${String(compose['services'][name].environment.OPS_PORT)}`]]));
  const { datasources } = parse(text(`${monitoring}/grafana/datasources.yaml`)) as Document;
  const uids = dashboards.flatMap(({ panels }) => (panels as Document[]).map((panel) => String(panel['datasource'].uid)));
  expect(new Set(uids)).toEqual(new Set([datasources[0].uid]));
  expect(compose['services']).toHaveProperty(new URL(datasources[0].url as string).hostname);
});

test('the dashboards ask for metrics that the guide lists', () => {
  const listed = text('gateway/docs/reference/metrics.md');
  const asked = queries.flatMap((query) =>
    [...query.matchAll(/\b(?:http|grpc|gateway|identity|ledger|notifier|auditor)_\w+/g)].map(String),
  );
  expect(asked.length).toBeGreaterThanOrEqual(queries.length);
  expect(asked.filter((name) => !listed.includes(`\`${name.replace(/_(bucket|sum|count)$/, '')}\``))).toEqual([]);
});

testWithPromtool('Prometheus reads its file, and understands the queries of the dashboards (promtool)', () => {
  const config = promtool('check', 'config', `${monitoring}/prometheus.yaml`);
  expect([config.status, config.stdout]).toEqual([0, expect.stringContaining('rules found')]);
  const rules = join(mkdtempSync(join(currentRun().directory, 'queries-')), 'rules.yaml');
  const groups = [{ name: 'queries', rules: queries.map((expr, index) => ({ record: `query:${index}`, expr })) }];
  writeFileSync(rules, JSON.stringify({ groups }));
  const checked = promtool('check', 'rules', rules);
  expect([checked.status, checked.stdout]).toEqual([0, expect.stringContaining(`${queries.length} rules found`)]);
});
