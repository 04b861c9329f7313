// The operator's commands: `npm run notifier -- redrive` tries what lies among the dead letters again.
import { Registry } from 'prom-client';
import { StartFailure, run } from '../platform/lifetime.ts';
import { checkRoleAndSchema, openPool, waitForDatabase } from '../platform/postgres.ts';
import { Settings } from '../platform/settings.ts';
import { openLog } from '../platform/telemetry.ts';
import { Consumer } from './consumer.ts';
import { migrationNames } from './schema.ts';

await run(async (lifetime) => {
  const [, , command] = process.argv;
  if (command !== 'redrive') throw new StartFailure(`unknown command ${command ?? ''}: there is redrive`);
  const settings = new Settings(process.env);
  const logger = openLog('notifier', 'silent');
  const pool = openPool(settings.databaseUrl('DATABASE_URL'), { name: 'notifier redrive', max: 2, logger });
  lifetime.add('pool', () => pool.end());
  await waitForDatabase(pool);
  await checkRoleAndSchema(pool, migrationNames);
  // Whoever claims next, in another process, finds the deliveries.
  const consumer = new Consumer({ pool, logger, metrics: new Registry(), wake: () => undefined });
  const { redriven, left } = await consumer.redrive();
  await lifetime.end();
  for (const { id, reason } of left) process.stderr.write(`${id}: ${reason}\n`);
  process.stdout.write(`${redriven} redriven, ${left.length} left\n`);
  process.exit(left.length === 0 ? 0 : 2);
});
