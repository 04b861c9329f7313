// The Kafka that the tests of a run share: the one of `KAFKA_BROKERS`, or a real one that the first test that asks for it starts.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { kafkaProblem, startBroker } from '../deploy/local/broker.ts';
import { Children } from '../deploy/local/children.ts';
import { withClient } from '../deploy/local/databases.ts';
import { testPort } from './house.ts';
import { currentRun } from './run.ts';

/** As `describe`, for tests that need Kafka: skipped, with one line, where there can be none; with `CI=true` that is a failure. */
export function describeWithKafka(name: string, tests: () => void): void {
  const problem = process.env['KAFKA_BROKERS'] === undefined ? kafkaProblem() : null;
  if (problem === null) describe(name, tests);
  else if (process.env['CI'] === 'true') {
    describe(name, () => {
      test('needs Kafka', () => {
        throw new Error(problem);
      });
    });
  } else {
    tell(`tests that need Kafka are skipped: ${problem}`);
    describe.skip(name, tests);
  }
}

/** Once a run. */
function tell(line: string): void {
  try {
    writeFileSync(join(currentRun().directory, 'told'), line, { flag: 'wx' });
    process.stderr.write(`${line}\n`);
  } catch {
    // Another file's tests have said it.
  }
}

/** For `KAFKA_BROKERS`. */
export async function kafkaBrokers(): Promise<string> {
  const given = process.env['KAFKA_BROKERS'];
  if (given !== undefined) return given;
  const { adminUrl, directory, prefix } = currentRun();
  const file = join(directory, 'kafka.address');
  return withClient(adminUrl, async (client) => {
    // Two workers may ask for it at once. The lock ends with the connection.
    await client.query('select pg_advisory_lock(hashtext($1))', [`${prefix}kafka`]);
    try {
      return readFileSync(file, 'utf8');
    } catch {
      const { address } = await ownKafka(join(directory, 'kafka'));
      writeFileSync(file, address);
      return address;
    }
  });
}

/** A broker of a test's own, to be stopped and started; it ends with the run. */
export async function ownKafka(
  directory = join(currentRun().directory, `kafka-${randomBytes(4).toString('hex')}`),
): Promise<{ address: string; stop: () => Promise<void>; start: () => Promise<void> }> {
  mkdirSync(directory, { recursive: true });
  const children = new Children(join(directory, 'logs'), join(directory, 'processes.json'));
  const options = { directory: join(directory, 'broker'), port: await testPort(), controllerPort: await testPort(), children };
  const launch = () => startBroker({ ...options, say: (line) => process.stderr.write(`${line}\n`) });
  let { address, child } = await launch();
  return {
    address,
    stop: async () => {
      await child.end();
    },
    start: async () => {
      ({ address, child } = await launch());
    },
  };
}

/** A topic that no other test has. */
export function newTopic(): string {
  return `test.${randomBytes(6).toString('hex')}`;
}
