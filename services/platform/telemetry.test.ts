import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { root } from '../../deploy/local/plan.ts';

/** Runs a process that logs so many lines of 1 KiB, one every millisecond, and exits with 7. */
function logLines(lines: number, stdout: 'pipe' | number) {
  const script = `
    import { setTimeout as pause } from 'node:timers/promises';
    import { openLog } from './services/platform/telemetry.ts';
    const log = openLog('test', 'info');
    for (let line = 1; line <= ${lines}; line++) {
      log.info({ line, filling: 'x'.repeat(1000) }, 'here');
      await pause(1);
    }
    process.exit(7);`;
  return spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', stdout, 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
}

test('every line is written, in order, up to the moment of the exit', () => {
  const { stdout, status } = logLines(77, 'pipe');
  expect(status).toBe(7);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { line: number }).line)).toEqual(Array.from({ length: 77 }, (_, index) => index + 1));
});

const full = existsSync('/dev/full') ? test : test.skip;
full('a process goes on while its log can’t be written, and exits with its own status', () => {
  const log = openSync('/dev/full', 'w');
  const { stderr, status } = logLines(300, log);
  closeSync(log);
  expect({ stderr, status }).toEqual({ stderr: '', status: 7 });
});
