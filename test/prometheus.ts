// A real Prometheus that scrapes a test's cluster, where there is one (`.ci/tools prometheus`).
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newChildren, testPort } from './cluster.ts';
import { until } from './polling.ts';
import { currentRun } from './run.ts';

/** Whether there is one. */
export const hasPrometheus = spawnSync('prometheus', ['--version']).error === undefined;

/** `test`, or a skipped one where there is no Prometheus. */
export const testWithPrometheus = hasPrometheus ? test : test.skip;

/** A series of an answer. */
export interface Sample {
  metric: Record<string, string>;
  value: [time: number, value: string];
}

/** A running Prometheus. */
export interface Prometheus {
  /** Evaluates PromQL now. */
  query(expr: string): Promise<Sample[]>;
  stop(): Promise<unknown>;
}

/** Starts it, and waits until it has scraped every target once. `targets`: `http://host:port` by job; `rules`: evaluated every second. */
export async function startPrometheus(targets: Record<string, string>, rules?: object): Promise<Prometheus> {
  const directory = mkdtempSync(join(currentRun().directory, 'prometheus-'));
  mkdirSync(join(directory, 'data'));
  const jobs = Object.entries(targets).map(([job, url]) => ({ job_name: job, static_configs: [{ targets: [new URL(url).host] }] }));
  const config = join(directory, 'prometheus.yaml');
  const rulesFile = join(directory, 'rules.yaml');
  if (rules) writeFileSync(rulesFile, JSON.stringify(rules));
  const global = { scrape_interval: '1s', evaluation_interval: '1s' };
  writeFileSync(config, JSON.stringify({ global, scrape_configs: jobs, rule_files: rules ? [rulesFile] : [] }));
  const address = `127.0.0.1:${await testPort()}`;
  const children = newChildren();
  const args = [`--config.file=${config}`, `--storage.tsdb.path=${join(directory, 'data')}`, `--web.listen-address=${address}`];
  children.start({ name: 'prometheus', command: 'prometheus', args, cwd: directory, env: { PATH: process.env['PATH'] } });
  const query = async (expr: string): Promise<Sample[]> => {
    const answer = await fetch(`http://${address}/api/v1/query`, { method: 'POST', body: new URLSearchParams({ query: expr }) });
    const { data, error } = (await answer.json()) as { data?: { result: Sample[] }; error?: string };
    if (!data) throw new Error(`${expr}: ${String(error)}`);
    return data.result;
  };
  const scraped = async () => (await query('up == 1').catch(() => [])).length;
  await until(scraped, (count) => count === jobs.length);
  return { query, stop: () => children.end() };
}
