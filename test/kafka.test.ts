import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../deploy/local/plan.ts';
import { currentRun } from './run.ts';

/** What a run of tests says that need Kafka's own programs, where a broker is given and there is no Java. */
function runWithoutJava(more: NodeJS.ProcessEnv): { status: number | null; output: string } {
  const { adminUrl, directory } = currentRun();
  const tests = mkdtempSync(join(directory, 'without-java-'));
  // A file of which all is skipped is not listed.
  const body = `testWithJava('reads a topic', async () => {});\ntest('needs nothing', () => {});`;
  writeFileSync(join(tests, 'reads.test.ts'), `import { testWithJava } from '${root}/test/kafka.ts';\n${body}\n`);
  const env = {
    PATH: tests,
    NODE_OPTIONS: process.env['NODE_OPTIONS'],
    MIGRATION_DATABASE_URL: adminUrl,
    KAFKA_BROKERS: '127.0.0.1:9092',
    ...more,
  };
  const args = [join(root, 'node_modules/jest/bin/jest.js'), '--verbose', '--roots', tests];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' });
  return { status, output: stdout + stderr };
}

test("where a broker is given, what needs Kafka's own programs is skipped without Java, with the test's name and the reason", () => {
  const { status, output } = runWithoutJava({});
  expect(output).toMatch(/^tests that need Kafka's own programs are skipped: Java 17 is missing$/m);
  expect(output).toMatch(/^\s*○ skipped reads a topic$/m);
  expect(status).toBe(0);
});

test("with CI=true, where a broker is given, what needs Kafka's own programs fails without Java, and says why", () => {
  const { status, output } = runWithoutJava({ CI: 'true' });
  expect(output).toMatch(/^\s*✕ reads a topic/m);
  expect(output).toMatch(/^\s*Java 17 is missing$/m);
  expect(status).toBe(1);
});
