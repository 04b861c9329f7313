// The operator's commands on the relay: status, replay, and what becomes of its dead letters.
import type { Command } from 'commander';
import type pg from 'pg';
import { toId } from '../../platform/ids.ts';
import { BadArgument, addCommand, countArgument, tenantArgument, timeArgument, type Output } from '../../platform/operator-program.ts';
import { pluralize } from '../audit/findings.ts';
import { changeDeadLetters } from '../outbox/dead-letters.ts';
import { relayStatus, replay, tenantsWithLog, type ReplayFrom } from '../outbox/replay.ts';
import type { LedgerAction } from './ledger-action.ts';

const exampleTenant = 'tenant_01jd1zq5v8e6n9w2k4m7p3r5t8';

/** Adds the commands. */
export function addRelayCommands(program: Command, onLedger: LedgerAction): void {
  const relay = program.command('relay').description('How far events are published, and publishing them again.').helpCommand(false);
  addStatus(relay, onLedger);
  addReplay(relay, onLedger);
  for (const change of ['redrive', 'discard'] as const) addDeadLetterCommand(program, onLedger, change);
}

function addStatus(relay: Command, onLedger: LedgerAction): void {
  const command = addCommand(relay, 'status', {
    description: 'Print the tenants with events that are not published yet, the oldest first, and count dead letters, which are wrong.',
    examples: ['ledger relay status', `ledger relay status --tenant ${exampleTenant} --json`],
  })
    .option('--tenant <id>', 'this tenant, also when nothing waits', tenantArgument)
    .option('--limit <count>', 'print so many tenants', countArgument, 20);
  onLedger<{ tenant?: string; limit: number }>(command, async (client, { options, output }) => {
    const { tenants, ...totals } = await relayStatus(client, options);
    for (const { tenant, published, head, waitingSeconds, deadLetters } of tenants) {
      const waits = waitingSeconds === null ? 'nothing waits' : `the next event waits since ${waitingSeconds.toFixed(1)} s`;
      const letters = deadLetters === 0 ? '' : `, ${pluralize(deadLetters, 'dead letter')}`;
      const item = { tenant: toId('tenant', tenant), published, head, waiting_seconds: waitingSeconds, dead_letters: deadLetters };
      output.print({ type: 'tenant', ...item }, `${item.tenant} published ${published} of ${head}: ${waits}${letters}`);
    }
    const { waitingTenants, waitingEvents, deadLetters } = totals;
    const item = { waiting_tenants: waitingTenants, waiting_events: waitingEvents, dead_letters: deadLetters };
    const text = `${pluralize(waitingEvents, 'event')} of ${pluralize(waitingTenants, 'tenant')} not published, ${pluralize(deadLetters, 'dead letter')}`;
    output.print({ type: 'summary', ...item }, text);
    return deadLetters === 0;
  });
}

interface ReplayOptions {
  tenant?: string;
  all?: true;
  from?: number;
  since?: number;
}

function addReplay(relay: Command, onLedger: LedgerAction): void {
  const command = addCommand(relay, 'replay', {
    description:
      'Publish events again, under the same ids and in the same order: the ledger that runs begins within two seconds. Postings wait for milliseconds.\n\nThe notifier skips the events that it has consumed. It takes those that it lacks, as after a restore, and makes their deliveries. Other consumers of the topic see the events twice.',
    examples: [`ledger relay replay --tenant ${exampleTenant} --from 120`, 'ledger relay replay --all --since 2030-01-31T12:00:00Z'],
  })
    .option('--tenant <id>', 'of this tenant', tenantArgument)
    .option('--all', 'of every tenant')
    .option('--from <sequence>', 'from this sequence on', countArgument)
    .option('--since <time>', 'from the first event on that was recorded then or later', timeArgument);
  onLedger<ReplayOptions>(command, async (client, { options: { tenant, all, from, since }, output }) => {
    if ((tenant === undefined) === (all === undefined)) throw new BadArgument('one of --tenant and --all is needed');
    if ((from === undefined) === (since === undefined)) throw new BadArgument('one of --from and --since is needed');
    const start = from === undefined ? { sinceMs: since ?? 0 } : { sequence: from };
    return tenant === undefined ? replayAll(client, start, output) : replayOne(client, tenant, start, output);
  });
}

async function replayOne(client: pg.Client, tenant: string, start: ReplayFrom, output: Output): Promise<boolean> {
  const { events, problem } = await replayTenant(client, tenant, start, output);
  if (problem !== null) output.print({ type: 'finding', tenant: toId('tenant', tenant), message: problem }, problem);
  else end(output, events > 0 ? 1 : 0, events);
  return problem === null;
}

async function replayAll(client: pg.Client, start: ReplayFrom, output: Output): Promise<boolean> {
  const all = await tenantsWithLog(client);
  let [tenants, events] = [0, 0];
  for (const [index, tenant] of all.entries()) {
    const replayed = await replayTenant(client, tenant, start, output);
    events += replayed.events;
    if (replayed.events > 0) tenants += 1;
    output.progress(index + 1, all.length, 'tenants');
  }
  end(output, tenants, events);
  return true;
}

async function replayTenant(client: pg.Client, tenant: string, start: ReplayFrom, output: Output) {
  const replayed = await replay(client, tenant, start);
  if ('problem' in replayed) return { events: 0, problem: replayed.problem };
  const { from, through } = replayed;
  const id = toId('tenant', tenant);
  output.print({ type: 'replay', tenant: id, from: Number(from), through: Number(through) }, `${id} from ${from} through ${through}`);
  return { events: Number(through - from) + 1, problem: null };
}

function end(output: Output, tenants: number, events: number): void {
  const text = `${pluralize(events, 'event')} of ${pluralize(tenants, 'tenant')}: the ledger that runs publishes ${events === 1 ? 'it' : 'them'} again`;
  output.print({ type: 'summary', tenants, events }, text);
}

const deadLetterCommands = {
  redrive: { description: 'Publish the events again that were rejected when they were published.', what: 'due' },
  discard: { description: 'Give up the events that were rejected: they stay in the log, and no webhook gets them.', what: 'discarded' },
};

function addDeadLetterCommand(program: Command, onLedger: LedgerAction, change: keyof typeof deadLetterCommands): void {
  const { description, what } = deadLetterCommands[change];
  const examples = [`ledger ${change}`, `ledger ${change} --tenant ${exampleTenant} --json`];
  const command = addCommand(program, change, { description, examples }).option('--tenant <id>', 'only this tenant', tenantArgument);
  onLedger<{ tenant?: string }>(command, async (client, { options: { tenant }, output }) => {
    const letters = await changeDeadLetters(client, change, tenant);
    for (const letter of letters) {
      const { tenant: id, sequence, part, event_type: type, reason } = letter;
      output.print({ type: 'dead_letter', ...letter }, `${id} ${sequence}.${part} ${type}: ${reason}`);
    }
    const { length } = letters;
    const after = change === 'redrive' ? `: the ledger that runs publishes ${length === 1 ? 'it' : 'them'}` : '';
    output.print({ type: 'summary', dead_letters: length }, `${pluralize(length, 'dead letter')} ${what}${after}`);
    return true;
  });
}
