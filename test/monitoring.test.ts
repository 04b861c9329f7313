// The files of Prometheus and Grafana: what they scrape, and what the dashboards ask for.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from '../deploy/local/plan.ts';
import { dashboards, queriesOf } from './dashboards.ts';
import { processes } from './required-settings.ts';
import { currentRun } from './run.ts';
import { text } from './sources.ts';

type Document = Record<string, any>;

const monitoring = 'deploy/monitoring';
const compose = parse(text('deploy/compose.yaml'), { merge: true }) as Document;
const queries = dashboards.flatMap((each) => queriesOf(each).map(({ expr }) => expr));
const promtool = (...args: string[]) => spawnSync('promtool', args, { cwd: root, encoding: 'utf8' });
const testWithPromtool = promtool('--version').error === undefined ? test : test.skip;

test('Prometheus of the compose file scrapes every process on its operations port, and Grafana asks it', () => {
  const { scrape_configs: jobs } = parse(text(`${monitoring}/prometheus.yaml`)) as Document;
  const scraped = (jobs as Document[]).map((job) => [job['job_name'], job['static_configs'][0].targets]);
  expect(scraped).toEqual(processes.map((name) => [name, [`${name}:${String(compose['services'][name].environment.OPS_PORT)}`]]));
  const { datasources } = parse(text(`${monitoring}/grafana/datasources.yaml`)) as Document;
  expect(compose['services']).toHaveProperty(new URL(datasources[0].url as string).hostname);
  expect(datasources[0]).toMatchObject({ type: 'prometheus', isDefault: true });
  // Grafana reads all dashboards, and shows one of them first.
  const { environment, volumes } = compose['services'].grafana;
  const { options } = parse(text(`${monitoring}/grafana/dashboards.yaml`)).providers[0] as Document;
  expect(volumes).toContain(`./monitoring/dashboards:${options.path}:ro`);
  const home = environment.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH.replace(options.path, `${monitoring}/dashboards`) as string;
  expect(JSON.parse(text(home)).uid).toBe('ledger-overview');
});

test('every process sends its spans to the collector of the compose file, and that to Jaeger', () => {
  const { receivers, processors, exporters, service } = parse(text(`${monitoring}/collector.yaml`)) as Document;
  const { traces } = service.pipelines;
  for (const [named, known] of [
    [traces.receivers, receivers],
    [traces.processors, processors],
    [traces.exporters, exporters],
  ]) {
    expect(named).toEqual(Object.keys(known as object));
  }
  const [, port] = String(receivers.otlp.protocols.http.endpoint).split(':');
  for (const name of processes) {
    expect(compose['services'][name].environment.OTEL_EXPORTER_OTLP_ENDPOINT).toBe(`http://collector:${String(port)}`);
  }
  const jaeger = new URL(Object.values<Document>(exporters)[0]!['endpoint'] as string);
  // Where Jaeger takes spans over HTTP unless it is configured otherwise.
  expect([Object.keys(compose['services']), jaeger.port]).toEqual([expect.arrayContaining(['collector', jaeger.hostname]), '4318']);
});

// The rules of Grafana's dashboard-linter, where they are not about one job or one instance.
describe.each(dashboards)('$title', ({ uid, description, editable, panels, variables }) => {
  test('has an address of its own, is changed in its source only, and asks the chosen data source', () => {
    expect(dashboards.filter((each) => each.uid === uid)).toHaveLength(1);
    expect([editable, description]).toEqual([false, expect.stringMatching(/\.$/)]);
    expect(variables[0]).toMatchObject({ name: 'datasource', type: 'datasource', query: 'prometheus' });
    const asked = [...variables.slice(1), ...panels, ...panels.flatMap(({ targets }) => targets)].map(({ datasource }) => datasource?.uid);
    expect(new Set(asked)).toEqual(new Set(['$datasource']));
    const named = JSON.stringify(panels).matchAll(/\$(?!__)(\w+)/g);
    expect(new Set([...named].map(([, name]) => name))).toEqual(new Set(variables.map(({ name }) => name)));
  });

  test('has panels with a title, a sentence, a unit and legends, and none lies on another', () => {
    const wrong = panels.filter((panel) => {
      const legends = panel.targets.map(({ legendFormat }) => legendFormat);
      const isNamed = panel.title !== '' && panel.description.endsWith('.') && panel.fieldConfig.defaults.unit !== undefined;
      return !isNamed || legends.includes('') || new Set(legends).size < legends.length;
    });
    expect(wrong.map(({ title }) => title)).toEqual([]);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(Math.max(...panels.map(({ gridPos: { x, w } }) => x + w))).toBeLessThanOrEqual(24);
  });

  test('asks for the rates of counters, over the interval that Grafana chooses', () => {
    const exprs = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    const [counters, rates] = [
      /\b\w+_(?:total|bucket|sum|count)\b(?!\()/g,
      /(?:rate|increase)\(\w+_(?:total|bucket|sum|count)\b(?:\{[^}]*\})?\[\$__(?:rate_interval|range)\]\)/g,
    ];
    const wrong = exprs.filter((expr) => (expr.match(counters) ?? []).length !== (expr.match(rates) ?? []).length);
    expect(wrong).toEqual([]);
  });
});

test('the dashboards ask for metrics that the guide lists', () => {
  const listed = text('gateway/docs/reference/metrics.md');
  const asked = queries.flatMap((query) =>
    [...query.matchAll(/\b(?:http|grpc|postgres|gateway|identity|ledger|notifier|auditor)_\w+/g)].map(String),
  );
  expect(asked.length).toBeGreaterThanOrEqual(queries.length / 2);
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
