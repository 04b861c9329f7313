import { mkdirSync, mkdtempSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { currentRun } from '../../test/run.ts';
import { Children, endRecorded } from './children.ts';

function open(trimMs?: number): { children: Children; logs: string } {
  const directory = mkdtempSync(join(currentRun().directory, 'children-'));
  const logs = join(directory, 'logs');
  return { children: new Children(logs, join(directory, 'processes.json'), trimMs), logs };
}

test('a log that is too long is cut, also where there can be no copy of it', async () => {
  const { children, logs } = open(10);
  try {
    children.start({ name: 'sleeper', command: 'sleep', args: ['600'] });
    const log = join(logs, 'sleeper.log');
    // Where a directory stands nothing can be copied to.
    mkdirSync(`${log}.1`);
    truncateSync(log, 65 * 1024 * 1024);
    while (statSync(log).size > 0) await pause(10);
  } finally {
    await children.end();
  }
});

test('the last words of a child whose last line was cut off are those of the line before', async () => {
  const { children } = open();
  const child = children.start({ name: 'speaker', command: 'printf', args: ['{"level":50,"msg":"no room"}\\n{"level":50,"ms'] });
  await child.ended;
  expect(child.lastWords()).toBe('no room');
});

test.each([
  ['FATAL:  could not resize shared memory', 'FATAL:  could not resize shared memory', 'LOG:  database system is shut down'],
  ['LOG:  database system is shut down', 'FATAL:  the database system is starting up', 'LOG:  database system is shut down'],
  [
    'LOG:  database system is shut down',
    'LOG:  database system is ready to accept connections',
    'FATAL:  database "x" does not exist',
    'LOG:  database system is shut down',
  ],
  [
    'FATAL:  could not write to file',
    'LOG:  database system is ready to accept connections',
    'FATAL:  could not write to file',
    'LOG:  startup process (PID 1) exited with exit code 1',
    'LOG:  database system is shut down',
  ],
  ['FATAL:  no room', 'FATAL:  no room', 'PANIC:  cannot abort transaction 1', 'child process exited with exit code 1'],
])('the last words are %j', async (words, ...lines) => {
  const { children } = open();
  const child = children.start({ name: 'speaker', command: 'printf', args: ['%s\n', ...lines] });
  await child.ended;
  expect(child.lastWords()).toBe(words);
});

test.each(['', '{', '{}', 'null', '[null]', '["text"]'])('a record of processes that is %j names none', async (text) => {
  const record = join(mkdtempSync(join(currentRun().directory, 'record-')), 'processes.json');
  writeFileSync(record, text);
  expect(await endRecorded(record)).toEqual([]);
});

test('children end also where their record can not be written', async () => {
  const { children, logs } = open();
  const child = children.start({ name: 'sleeper', command: 'sleep', args: ['600'] });
  // As on a full disk.
  mkdirSync(join(logs, '..', 'processes.json.new'));
  await children.end();
  expect(child.running()).toBe(false);
});
