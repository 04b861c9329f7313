// The version of package.json: in the changelog, and shown by every process, the API's document and the health checks.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, services } from '../deploy/local/plan.ts';
import { processes } from './rolling.ts';
import { sharedCluster } from './shared-cluster.ts';
import type { Cluster } from './cluster.ts';

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

let cluster: Cluster;
beforeAll(async () => {
  cluster = await sharedCluster();
});
afterAll(() => cluster.stop());

test('is that of the newest part of the changelog', () => {
  const changelog = readFileSync(join(root, 'gateway/docs/reference/changelog.md'), 'utf8');
  expect(/^## (\d.*)$/m.exec(changelog)?.[1]).toBe(version);
});

test('is shown by health checks, metrics and the OpenAPI document', async () => {
  for (const name of processes) {
    expect([name, await (await fetch(`${cluster.opsUrl(name)}/healthz`)).json()]).toEqual([name, { status: 'ok', version }]);
    const metrics = await (await fetch(`${cluster.opsUrl(name)}/metrics`)).text();
    expect(metrics).toMatch(new RegExp(`^build_info\\{version="${version}",node="\\d+\\.\\d+\\.\\d+",process="${name}"\\} 1$`, 'm'));
  }
  expect((await cluster.rest('GET', '/healthz')).body).toEqual({ status: 'ok', version });
  expect((await cluster.rest('GET', '/openapi.json')).body.info.version).toBe(version);
});

test.each(services)("is shown by the operator's commands of %s", (service) => {
  const { stdout, status } = spawnSync(process.execPath, [`services/${service}/cli.ts`, '--version'], { cwd: root, encoding: 'utf8' });
  expect([stdout, status]).toEqual([`${version}\n`, 0]);
});
