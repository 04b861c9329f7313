import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { currentRun } from '../../test/run.ts';
import { Children } from './children.ts';

function open(): { children: Children; logs: string } {
  const directory = mkdtempSync(join(currentRun().directory, 'children-'));
  const logs = join(directory, 'logs');
  return { children: new Children(logs, join(directory, 'processes.json')), logs };
}

test.each([
  ['FATAL:  could not resize shared memory', 'FATAL:  could not resize shared memory', 'LOG:  database system is shut down'],
  ['Error: no port', 'Error: no port', '    at listen (node:net)', 'Node.js v24.0.0'],
  ['refused', 'refused', '{"level":30,"ms'],
  ['', ''],
])('the last message is %j', async (message, ...lines) => {
  const { children } = open();
  const child = children.start({ name: 'printer', command: 'printf', args: ['%s\n', ...lines] });
  await child.ended;
  expect(child.lastMessage()).toBe(message);
  await children.end();
});

test('a command that does not exist ends with 127, and says so', async () => {
  const { children } = open();
  const child = children.start({ name: 'missing', command: 'sleep', args: ['600'], cwd: '/nowhere' });
  expect(await child.ended).toEqual({ code: 127, signal: null });
  expect(child.lastMessage()).toMatch(/ENOENT/);
  await children.end();
});

test('children end also where their record can’t be written', async () => {
  const { children, logs } = open();
  const child = children.start({ name: 'sleeper', command: 'sleep', args: ['600'] });
  // As on a full disk.
  mkdirSync(join(logs, '..', 'processes.json.new'));
  await children.end();
  expect(child.running()).toBe(false);
});
