// `npm run kafka`: a real Apache Kafka on this machine for `KAFKA_BROKERS=… npm start`, until it is interrupted.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { run, StartFailure } from '../../services/platform/lifetime.ts';
import { Settings } from '../../services/platform/settings.ts';
import { kafkaProblem, startBroker } from './broker.ts';
import { Children, endRecorded } from './children.ts';
import { lockDirectory } from './lock.ts';
import { root } from './plan.ts';

await run(async (lifetime) => {
  const settings = new Settings(process.env);
  const problem = kafkaProblem();
  if (problem !== null) throw new StartFailure(`Kafka can't be started: ${problem}`);
  const directory = join(resolve(root, settings.text('DATA_DIR', '.data')), 'kafka');
  mkdirSync(directory, { recursive: true });
  lifetime.add('lock', lockDirectory(directory));
  const record = join(directory, 'processes.json');
  await endRecorded(record);
  const children = new Children(join(directory, 'logs'), record);
  lifetime.add('kafka', () => children.end());
  const port = settings.port('PORT', 9092);
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const { address, child } = await startBroker({ directory, port, controllerPort: port + 1, children, say });
  void child.ended.then(() => process.kill(process.pid, 'SIGTERM'));
  say(`ready ${address}`);
});
