// `npm run kafka`: Apache Kafka on this machine for `KAFKA_BROKERS=… npm start`, until it is interrupted.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { run, StartFailure } from '../../services/platform/lifetime.ts';
import { BadSetting, Settings } from '../../services/platform/settings.ts';
import { kafkaProblem, startBroker } from './broker.ts';
import { Children, endRecorded, describeEnding } from './children.ts';
import { root } from './plan.ts';
import { portProblem } from './ports.ts';
import { lockDirectory } from './processes.ts';

await run(async (lifetime) => {
  const settings = new Settings(process.env);
  // The controller uses the next one.
  const port = settings.integer('PORT', { min: 1, max: 65534, fallback: 9092 });
  const directory = join(resolve(root, settings.text('DATA_DIR', '.data')), 'kafka');
  mkdirSync(directory, { recursive: true });
  lifetime.add('lock', await lockDirectory(directory, 'npm run kafka'));
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
    // A signal to the whole group may end the child before this process has handled it.
    await pause(300);
    if (lifetime.isEnding) return;
    process.stderr.write(`kafka ended ${describeEnding(child, how)}\n`);
    await lifetime.end();
    process.exit(1);
  });
  say(`ready ${address}`);
});

/** Throws {@link BadSetting} where the port of Kafka, or the next one, of its controller, can't be used. */
async function checkPorts(port: number): Promise<void> {
  for (const each of [port, port + 1]) {
    // An earlier Kafka may be ending.
    const problem = await portProblem('127.0.0.1', each, 2_000);
    if (problem === undefined) continue;
    const reason = problem === 'EADDRINUSE' ? `127.0.0.1:${each} is in use` : `this machine can't listen on 127.0.0.1:${each} (${problem})`;
    throw new BadSetting('PORT', `can't be ${port}: ${reason}`);
  }
}
