// `npm run kafka`: a real Apache Kafka on this machine for `KAFKA_BROKERS=… npm start`, until it is interrupted.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { run, StartFailure } from '../../services/platform/lifetime.ts';
import { BadSetting, Settings } from '../../services/platform/settings.ts';
import { kafkaProblem, startBroker } from './broker.ts';
import { Children, endRecorded, ending } from './children.ts';
import { lockDirectory } from './lock.ts';
import { root } from './plan.ts';
import { lastingPortProblem } from './ports.ts';

await run(async (lifetime) => {
  const settings = new Settings(process.env);
  // The controller takes the next one.
  const port = settings.integer('PORT', { min: 1, max: 65534, fallback: 9092 });
  const directory = join(resolve(root, settings.text('DATA_DIR', '.data')), 'kafka');
  mkdirSync(directory, { recursive: true });
  lifetime.add('lock', lockDirectory(directory, 'npm run kafka'));
  const record = join(directory, 'processes.json');
  await endRecorded(record);
  await checkPorts(port);
  const problem = kafkaProblem();
  if (problem !== null) throw new StartFailure(`Kafka can't be started: ${problem}`);
  const children = new Children(join(directory, 'logs'), record);
  lifetime.add('kafka', () => children.end());
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const { address, child } = await startBroker({ directory, port, controllerPort: port + 1, children, say });
  void child.ended.then(async (how) => {
    // A signal to every process at once may end the child before this one has noticed it.
    await pause(300);
    if (lifetime.isEnding) return;
    process.stderr.write(`kafka ended ${ending(child, how)}\n`);
    await lifetime.end();
    process.exit(1);
  });
  say(`ready ${address}`);
});

/** Throws {@link BadSetting} where Kafka can't listen on its port, or its controller on the next one. */
async function checkPorts(port: number): Promise<void> {
  for (const [own, whose] of [
    [port, ''],
    [port + 1, ", the port of Kafka's controller"],
  ] as const) {
    // Another Kafka may be ending this moment.
    const problem = await lastingPortProblem('127.0.0.1', own);
    if (problem === undefined) continue;
    const place = `127.0.0.1:${own}${whose}`;
    const why =
      problem === 'EADDRINUSE'
        ? `another program listens on ${place}, or a connection from there has just ended`
        : `this machine can't listen on ${place} (${problem})`;
    throw new BadSetting('PORT', `can't be ${port}: ${why}`);
  }
}
