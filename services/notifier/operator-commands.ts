// The operator's commands on deliveries and dead letters: due, dead, redrive, discard.
import { Argument, InvalidArgumentError, type Command } from 'commander';
import { Registry } from 'prom-client';
import { validate as isUuid } from 'uuid';
import {
  addCommand,
  countArgument,
  setAction,
  tenantArgument,
  type Given,
  type Interruption,
  type Output,
} from '../platform/operator-program.ts';
import { openPool, type Pool } from '../platform/postgres.ts';
import { checkDatabase } from '../platform/postgres-start.ts';
import type { Settings } from '../platform/settings.ts';
import { openLog, type Logger } from '../platform/telemetry.ts';
import { Consumer } from './consumer.ts';
import { discardDeadLetters, readDeadLetters } from './dead-letters.ts';
import { readDueTenants } from './due-tenants.ts';
import { migrationNames } from './schema.ts';

type Work<Options> = (pool: Pool, given: Given<Options>) => Promise<boolean>;
type NotifierAction = <Options>(command: Command, work: Work<Options>) => void;

const logger: Logger = openLog('notifier', 'silent');

/** Adds the commands, on the database of `DATABASE_URL`. A signal ends a command after the statement under way. */
export function addNotifierCommands(program: Command, settings: Settings, interruption: Interruption): void {
  const onNotifier: NotifierAction = (command, work) =>
    setAction(command, async (given) => {
      const pool = openPool(settings.databaseUrl('DATABASE_URL'), { name: 'notifier command', max: 2, logger });
      const end = () => (pool.ending ? Promise.resolve() : pool.end());
      interruption.interrupt = () => void end();
      try {
        await checkDatabase(pool, migrationNames);
        return await work(pool, given as Parameters<typeof work>[1]);
      } finally {
        await end();
      }
    });
  addDue(program, onNotifier);
  addDead(program, onNotifier);
  addRedrive(program, onNotifier);
  addDiscard(program, onNotifier);
}

function addDue(program: Command, onNotifier: NotifierAction): void {
  const command = addCommand(program, 'due', {
    description: 'Print the tenants whose deliveries wait, the one that has been due the longest first. Only reads.',
    examples: ['notifier due', 'notifier due --tenant tenant_01jd1zq5v8e6n9w2k4m7p3r5t8 --json'],
  })
    .option('--tenant <id>', 'only this tenant', tenantArgument)
    .option('--limit <count>', 'print so many tenants', countArgument, 20);
  onNotifier<{ tenant?: string; limit: number }>(command, async (pool, { options, output }) => {
    const { tenants, waiting, due } = await readDueTenants(pool, options);
    for (const { tenant, pending, dueSeconds, enabled } of tenants) {
      const when = dueSeconds >= 0 ? `due since ${dueSeconds.toFixed(0)} s` : `due in ${(-dueSeconds).toFixed(0)} s`;
      const webhook = enabled === true ? '' : enabled === null ? ', no webhook' : ', the webhook is disabled';
      output.print(
        { type: 'tenant', tenant, pending, due_seconds: dueSeconds, enabled },
        `${tenant} ${pending} pending, ${when}${webhook}`,
      );
    }
    output.print(
      { type: 'summary', waiting_tenants: waiting, due_tenants: due },
      `${waiting} tenants with deliveries that wait, ${due} due`,
    );
    return true;
  });
}

function addDead(program: Command, onNotifier: NotifierAction): void {
  const command = addCommand(program, 'dead', {
    description: 'Print the dead letters, the oldest first: messages that no delivery could be made of. Only reads. Any is wrong.',
    examples: ['notifier dead', 'notifier dead --limit 1000 --json'],
  }).option('--limit <count>', 'print so many', countArgument, 20);
  onNotifier<{ limit: number }>(command, async (pool, { options: { limit }, output }) => {
    const { deadLetters, total } = await readDeadLetters(pool, limit);
    for (const letter of deadLetters) {
      const { id, source, reason, received_at: receivedAt } = letter;
      output.print({ type: 'dead_letter', ...letter }, `${id} ${receivedAt} ${source}: ${reason}`);
    }
    output.print({ type: 'summary', dead_letters: total }, `${total} dead letters`);
    return total === 0;
  });
}

function addRedrive(program: Command, onNotifier: NotifierAction): void {
  const command = addCommand(program, 'redrive', {
    description: 'Try dead letters again, all or those that are named, and print which are left and why.',
    examples: ['notifier redrive', 'notifier redrive 01939d2c-5a4e-7c11-9d0b-3b6f1f0e8a55'],
  }).addArgument(new Argument('[id...]', 'dead letters').argParser(letterIds));
  onNotifier(command, async (pool, { operands, output }) => {
    // A delivery worker of another process finds the deliveries.
    const consumer = new Consumer({ pool, logger, metrics: new Registry(), wake: () => undefined });
    const { redriven, left } = await consumer.redrive(operands.length === 0 ? undefined : lowerCase(operands));
    printLeft(output, left);
    output.print({ type: 'summary', redriven, left: left.length }, `${redriven} redriven, ${left.length} left`);
    return left.length === 0;
  });
}

function addDiscard(program: Command, onNotifier: NotifierAction): void {
  const command = addCommand(program, 'discard', {
    description: 'Delete the dead letters that are named.',
    examples: ['notifier discard 01939d2c-5a4e-7c11-9d0b-3b6f1f0e8a55'],
  }).addArgument(new Argument('<id...>', 'dead letters').argParser(letterIds));
  onNotifier(command, async (pool, { operands, output }) => {
    const ids = lowerCase(operands);
    const discarded = await discardDeadLetters(pool, ids);
    for (const letter of discarded) output.print({ type: 'dead_letter', ...letter }, `${letter.id}: ${letter.source}`);
    const discardedIds = new Set(discarded.map(({ id }) => id));
    const missing = ids.filter((id) => !discardedIds.has(id)).map((id) => ({ id, reason: 'there is no such dead letter' }));
    printLeft(output, missing);
    output.print({ type: 'summary', discarded: discarded.length, missing: missing.length }, `${discarded.length} discarded`);
    return missing.length === 0;
  });
}

function printLeft(output: Output, left: { id: string; reason: string }[]): void {
  for (const { id, reason } of left) output.print({ type: 'finding', id, message: reason }, `${id}: ${reason}`, { aside: true });
}

function letterIds(id: string, before: string[] = []): string[] {
  if (!isUuid(id)) throw new InvalidArgumentError("It is not a dead letter's id.");
  return [...before, id];
}

// As PostgreSQL writes them, and as parameters of statements must be.
const lowerCase = (ids: string[]) => ids.map((id) => id.toLowerCase());
