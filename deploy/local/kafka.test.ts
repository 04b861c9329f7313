import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describeWithKafka, testWithJava } from '../../test/kafka.ts';
import { newChildren, testPort } from '../../test/cluster.ts';
import { bareEnvironment, currentRun } from '../../test/run.ts';
import { startBroker } from './broker.ts';
import { endWithParent } from './children.ts';
import { root } from './plan.ts';
import { portProblem } from './ports.ts';
import { isRunning, lockDirectory, type Identity } from './processes.ts';

interface Attempt {
  directory: string;
  /** Resolves with the address of the `ready` line, rejects if the process ends before. */
  ready: Promise<string>;
  /** Its status and the lines of its standard error. */
  ended: Promise<{ status: number | null; errors: string[] }>;
  /** The broker, while it is running. */
  broker: () => Identity[];
  stop: () => void;
}

function start(port: number, data = mkdtempSync(join(currentRun().directory, 'start-kafka-'))): Attempt {
  const environment = { ...bareEnvironment, HOME: process.env['HOME'], DATA_DIR: data, PORT: String(port) };
  const [file = '', ...args] = endWithParent('SIGTERM', ['node', 'deploy/local/kafka.ts']);
  const child = spawn(file, args, { cwd: root, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, errors] = ['', ''];
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const ended: Attempt['ended'] = new Promise((resolve) => {
    child.once('close', (status) => resolve({ status, errors: errors.split('\n').filter((line) => line !== '') }));
  });
  const ready = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      const address = /^ready (.*)$/m.exec(out)?.[1];
      if (address !== undefined) resolve(address);
    });
    void ended.then(({ status }) => reject(new Error(`ended with ${String(status)}: ${out}${errors}`)));
  });
  ready.catch(() => undefined);
  const directory = join(data, 'kafka');
  const broker = () => (JSON.parse(readFileSync(join(directory, 'processes.json'), 'utf8')) as Identity[]).filter(isRunning);
  return { directory, ready, ended, broker, stop: () => child.kill() };
}

/** A port whose next one is free, too. */
async function pair(): Promise<number> {
  for (;;) {
    const port = await testPort();
    if ((await portProblem('127.0.0.1', port + 1)) === undefined) return port;
  }
}

async function listeningOn<Result>(port: number, work: () => Promise<Result>): Promise<Result> {
  const server = await new Promise<Server>((resolve) => {
    const opened: Server = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1', () => resolve(opened));
  });
  try {
    return await work();
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

describe('npm run kafka ends with 1 and one line', () => {
  test('where its port is in use', async () => {
    const port = await pair();
    const line = `PORT can't be ${port}: 127.0.0.1:${port} is in use`;
    expect(await listeningOn(port, () => start(port).ended)).toEqual({ status: 1, errors: [line] });
  });

  test("where its controller's port is in use", async () => {
    const port = await pair();
    const line = `PORT can't be ${port}: 127.0.0.1:${port + 1} is in use`;
    expect(await listeningOn(port + 1, () => start(port).ended)).toEqual({ status: 1, errors: [line] });
  });

  test('where no port follows its own', async () => {
    const errors = ['PORT must be a whole number from 1 to 65534, not "65535"'];
    expect(await start(65535).ended).toEqual({ status: 1, errors });
  });

  test('where its directory is in use', async () => {
    const data = mkdtempSync(join(currentRun().directory, 'start-kafka-'));
    const directory = join(data, 'kafka');
    mkdirSync(directory);
    const unlock = await lockDirectory(directory, 'npm run kafka');
    const errors = [`DATA_DIR: ${directory} is in use by another npm run kafka (process ${process.pid})`];
    expect(await start(await pair(), data).ended).toEqual({ status: 1, errors });
    unlock();
  });
});

describeWithKafka('npm run kafka', () => {
  testWithJava('reports that its broker has ended; a second broker on its port is not ready', async () => {
    const port = await pair();
    const kafka = start(port);
    try {
      expect(await kafka.ready).toBe(`127.0.0.1:${port}`);
      const children = newChildren();
      const directory = mkdtempSync(join(currentRun().directory, 'broker-'));
      const late = startBroker({ directory, port, controllerPort: await testPort(), children, say: () => undefined });
      await expect(late).rejects.toThrow(/^Kafka ended at its start \(status 1\): .*Address already in use$/);
      await children.end();
      const [broker] = kafka.broker();
      process.kill(broker!.pid, 'SIGKILL');
      expect(await kafka.ended).toEqual({ status: 1, errors: ['kafka ended (SIGKILL)'] });
      expect(kafka.broker()).toEqual([]);
    } finally {
      kafka.stop();
      await kafka.ended;
    }
  });
});
