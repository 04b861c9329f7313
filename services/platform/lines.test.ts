import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { root } from '../../deploy/local/plan.ts';
import { diskProblem, mountDisk } from '../../test/disk.ts';
import { currentRun } from '../../test/run.ts';

// Logs 1 KiB every 20 ms, says `on` on standard error every 50 lines, and ends with 7 on SIGTERM, or after so many lines.
const process20ms = `
  import { openLog } from './services/platform/telemetry.ts';
  const log = openLog('test', 'info');
  process.on('SIGTERM', () => process.exit(7));
  let line = 0;
  setInterval(() => {
    log.info({ line: ++line, filling: 'x'.repeat(1000) }, 'here');
    if (line % 50 === 0) process.stderr.write('on\\n');
    if (line === Number(process.argv[1])) process.exit(7);
  }, 20);`;
const args = (lines = 0) => ['--input-type=module', '--eval', process20ms, String(lines)];
const linesIn = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { line: number }).line);
const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

test('every line is written, in order, also those of the moment before the exit', () => {
  const { stdout, status } = spawnSync(process.execPath, args(77), { cwd: root, encoding: 'utf8' });
  expect(status).toBe(7);
  expect(linesIn(stdout)).toEqual(upTo(77));
});

test('every line is written, in order, also while all threads that could write for the process are at work', () => {
  const busy = `
    import { pbkdf2 } from 'node:crypto';
    import { openLog } from './services/platform/telemetry.ts';
    const log = openLog('test', 'info');
    for (let thread = 0; thread < 4; thread++) pbkdf2('', '', 300_000, 64, 'sha512', () => undefined);
    for (let line = 1; line <= 400; line++) log.info({ line, filling: 'x'.repeat(1000) }, 'here');
    process.exit(7);`;
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '--eval', busy], { cwd: root, encoding: 'utf8' });
  expect(status).toBe(7);
  expect(linesIn(stdout)).toEqual(upTo(400));
});

test('a process whose reader stops goes on, and all of it comes when the reader does', async () => {
  const stalled = `
    import { setImmediate } from 'node:timers/promises';
    import { openLog } from './services/platform/telemetry.ts';
    const log = openLog('test', 'info');
    for (let line = 1; line <= 1_000; line++) {
      log.info({ line, filling: 'x'.repeat(1000) }, 'here');
      await setImmediate();
    }
    process.stderr.write('on');
    process.on('SIGTERM', () => process.exit(7));
    setInterval(() => undefined, 1_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', stalled], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    await new Promise((resolve) => child.stderr.once('data', resolve));
    let text = '';
    for await (const chunk of child.stdout.setEncoding('utf8')) {
      text += chunk as string;
      if (text.endsWith('\n') && linesIn(text).length === 1_000) break;
    }
    expect(linesIn(text)).toEqual(upTo(1_000));
    child.kill('SIGTERM');
    expect(await ended).toBe(7);
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
});

test('lines that are lost because nobody reads are counted', async () => {
  const flood = `
    import { openLog, openMetrics } from './services/platform/telemetry.ts';
    const [log, metrics] = [openLog('test', 'info'), openMetrics('test')];
    const say = async () => process.stderr.write(/^log_lines_lost_total.*$/m.exec(await metrics.metrics())[0] + '\\n');
    await say();
    for (let line = 1; line <= 30; line++) log.info({ filling: 'x'.repeat(1 << 20) }, 'here');
    await say();
    setInterval(() => undefined, 1_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', flood], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    let said = '';
    for await (const chunk of child.stderr.setEncoding('utf8')) {
      said += chunk as string;
      if (said.split('\n').length === 3) break;
    }
    // One had been begun, and 16 MiB waited.
    expect(said).toBe('log_lines_lost_total{process="test"} 0\nlog_lines_lost_total{process="test"} 13\n');
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
});

test('a slow reader does not hold up the exit, and gets whole lines in order', async () => {
  const flood = `
    import { openLog } from './services/platform/telemetry.ts';
    const log = openLog('test', 'info');
    for (let line = 1; line <= 8_000; line++) {
      log.info({ line, filling: 'x'.repeat(1000) }, 'here');
      // What has been written by then fills the pipe, and what comes is under way.
      if (line === 4_000) await new Promise((done) => setTimeout(done, 200));
    }
    process.exit(7);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', flood], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let text = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    text += chunk as string;
    if (child.exitCode === null) await pause(50);
  }
  expect(await ended).toBe(7);
  const whole = linesIn(text.slice(0, text.lastIndexOf('\n')));
  expect(whole).toEqual(upTo(whole.length));
  expect(whole.length).toBeLessThan(8_000);
});

const full = existsSync('/dev/full') ? test : test.skip;
full('a process whose lines can’t be written goes on, and ends when it wants to', () => {
  const log = openSync('/dev/full', 'w');
  const { stderr, status } = spawnSync(process.execPath, args(150), {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', log, 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  closeSync(log);
  expect({ stderr, status }).toEqual({ stderr: 'on\non\non\n', status: 7 });
});

const mounted = diskProblem() === null ? test : test.skip;
mounted('what could not be written while the disk was full is written when there is room', async () => {
  const disk = mountDisk(join(mkdtempSync(join(currentRun().directory, 'lines-')), 'disk'));
  const file = join(disk.directory, 'log');
  const log = openSync(file, 'a');
  const child = spawn(process.execPath, args(), { cwd: root, stdio: ['ignore', log, 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  closeSync(log);
  try {
    let beats = 0;
    child.stderr?.on('data', () => beats++);
    const later = async () => {
      for (const before = beats; beats === before && child.exitCode === null;) await pause(20);
    };
    await later();
    disk.fill();
    await later();
    await later();
    disk.free();
    await later();
    child.kill('SIGTERM');
    expect(await ended).toBe(7);
    const lines = linesIn(readFileSync(file, 'utf8'));
    expect(lines).toEqual(upTo(lines.length));
    expect(lines.length).toBeGreaterThanOrEqual(200);
  } finally {
    child.kill('SIGKILL');
    await ended;
    disk.unmount();
  }
});
