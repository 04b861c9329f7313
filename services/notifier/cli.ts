// The operator's commands for dead letters: `npm run notifier -- redrive` and `discard ID...`.
import { Registry } from 'prom-client';
import { validate as isUuid } from 'uuid';
import { StartFailure, run } from '../platform/lifetime.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import { Settings } from '../platform/settings.ts';
import { openLog, type Logger } from '../platform/telemetry.ts';
import { Consumer } from './consumer.ts';
import { discardDeadLetters } from './dead-letters.ts';
import { migrationNames } from './schema.ts';

const usage = `usage: redrive          try all dead letters again, and print which are left and why
       discard ID...    delete these dead letters`;

const print = (line: string) => process.stdout.write(`${line}\n`);
const printError = (line: string) => process.stderr.write(`${line}\n`);

/** True if none is left. */
async function redrive(pool: Pool, logger: Logger): Promise<boolean> {
  // A delivery worker of another process finds the deliveries.
  const consumer = new Consumer({ pool, logger, metrics: new Registry(), wake: () => undefined });
  const { redriven, left } = await consumer.redrive();
  for (const { id, reason } of left) printError(`${id}: ${reason}`);
  print(`${redriven} redriven, ${left.length} left`);
  return left.length === 0;
}

/** True if all of them existed. */
async function discard(pool: Pool, ids: string[]): Promise<boolean> {
  const discarded = await discardDeadLetters(pool, ids);
  for (const { id, source } of discarded) print(`${id}: ${source}`);
  const discardedIds = new Set(discarded.map(({ id }) => id));
  const missing = ids.filter((id) => !discardedIds.has(id));
  for (const id of missing) printError(`${id}: there is no such dead letter`);
  print(`${discarded.length} discarded`);
  return missing.length === 0;
}

// The work is done before the lines are printed, so a closed pipe, as with `| head`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  printError(`it is done, but the lines can't be written: ${error.message}`);
  process.exit(1);
});

await run(async (lifetime) => {
  const [, , command, ...args] = process.argv;
  if ([command, ...args].some((each) => each === '--help' || each === '-h')) {
    print(usage);
    process.exit();
  }
  const isValidCall = command === 'redrive' ? args.length === 0 : command === 'discard' && args.length > 0;
  if (!isValidCall) throw new StartFailure(usage);
  const invalidId = args.find((id) => !isUuid(id));
  if (invalidId !== undefined) throw new StartFailure(`${invalidId} is not a dead letter's id`);
  // As PostgreSQL writes them, and as parameters of statements must be.
  const ids = args.map((id) => id.toLowerCase());
  lifetime.hasUnfinishedWork = true;
  const settings = new Settings(process.env);
  const logger = openLog('notifier', 'silent');
  const pool = openPool(settings.databaseUrl('DATABASE_URL'), { name: 'notifier command', max: 2, logger });
  lifetime.add('pool', () => pool.end());
  await checkDatabase(pool, migrationNames);
  const done = command === 'redrive' ? await redrive(pool, logger) : await discard(pool, ids);
  await lifetime.end();
  process.exit(done ? 0 : 2);
});
