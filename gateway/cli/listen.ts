// `listen`: forwards events to a receiver, signed, from where it was. It loses none: the position moves after the receiver has taken an event.
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Option, type Command } from 'commander';
import type { ListenOptions, StreamedEvent } from '../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import { bodyOf, deliver, type Receipt } from './delivery.ts';
import { eventTypes } from './event-lines.ts';
import { Failure } from './failure.ts';
import { hasEvent, lastSequence, onBreakOf, sequenceBefore, startOf, timeOfId, withStart, type StartOptions } from './follow.ts';
import { httpUrl } from './options.ts';
import type { Output } from './output.ts';
import { type CommonOptions, type Session } from './session.ts';

interface ListenCommandOptions extends CommonOptions, StartOptions {
  forwardTo?: string;
  type?: ListenOptions['types'];
  resend?: string;
  printSecret?: boolean;
}

/** What has been delivered: all before a sequence, and these of it. Several events can share one. */
interface Position {
  sequence: number;
  delivered: string[];
}

/** What one run of the command delivers with. */
interface Forwarding {
  url: string;
  secret: string;
  tenantId: string | null;
  output: Output;
  ended: AbortSignal;
}

// As the service's three attempts, without its minutes.
const errorPausesMs = [1_000, 2_000];
const [shortestPauseMs, longestPauseMs] = [250, 10_000];

/** Adds the command. */
export function addListen(program: Command, context: Context): void {
  const listen = program
    .command('listen')
    .helpGroup('Events:')
    .summary('Forward events to a receiver on this machine, as signed webhooks.')
    .description(
      [
        'Forward events to a receiver on this machine, as webhooks: same body, same signatures, with a secret of its own (--print-secret).',
        'The position is kept in the config folder: a later run goes on after the last event that the receiver took, so an event can come twice and none is lost.',
        'A receiver that is away is waited for. One that answers with an error gets the event three times; then it is reported, and --resend sends it again.',
      ].join('\n\n'),
    )
    .option('--forward-to <url>', 'address of the receiver')
    .addOption(new Option('--type <types...>', 'only these; balance.updated and hold.captured come only if named').choices(eventTypes))
    .option('--resend <event id>', 'send this event once more, and end')
    .option('--print-secret', 'print the secret of the signatures, and end');
  withExamples(
    withCommonOptions(withStart(listen)),
    'ledger listen --forward-to http://localhost:4242/hook',
    'ledger listen --forward-to http://localhost:4242/hook --since 2h --type transaction.posted',
    'ledger listen --forward-to http://localhost:4242/hook --resend evt_01jd1zq5v8e6n9w2k4m7p3r5t8',
    'export WEBHOOK_SECRET=$(ledger listen --print-secret)',
  );
  listen.action((options: ListenCommandOptions) => run(options, context));
}

async function run(options: ListenCommandOptions, context: Context): Promise<void> {
  const output = context.output(options);
  const secret = secretOf(context);
  if (options.printSecret) return output.text(`${secret}\n`);
  if (options.forwardTo === undefined) throw new Failure('usage', 'no receiver is given', 'Give --forward-to http://localhost:4242/hook');
  const session = context.session(options);
  const url = httpUrl(options.forwardTo, '--forward-to');
  const ended = context.untilInterrupted();
  const forwarding = { url, secret, tenantId: await tenantIdOf(session), output, ended };
  if (options.resend !== undefined) return resend(options.resend, session, forwarding);
  const { ledger, tenant } = session;
  const file = positionFile(session, url, options.type);
  const kept = context.folder.readJson(file) as Position | undefined;
  const start = await startOf(ledger, options);
  // A deployment that began anew, or from a backup: nothing would come until its log is as long.
  if (start === undefined && kept && kept.sequence > 1 && !(await hasEvent(ledger, kept.sequence - 1)))
    throw new Failure(
      'refused',
      `the log of ${tenant} ends before sequence ${kept.sequence - 1}, which was delivered: it is another log`,
      'Say where to begin: --after 0 sends the whole log.',
    );
  let position = start === undefined && kept ? kept : { sequence: (start ?? (await lastSequence(ledger))) + 1, delivered: [] };
  context.folder.writeJson(file, position);
  output.note(`Forwarding events of ${tenant} after sequence ${position.sequence - 1} to ${url}. Secret: ledger listen --print-secret`);
  const types = options.type && { types: options.type };
  for await (const event of ledger.events.listen({ after: position.sequence - 1, signal: ended, onBreak: onBreakOf(output), ...types })) {
    if (event.sequence === position.sequence && position.delivered.includes(event.id)) continue;
    if (!(await forward(event, forwarding))) return;
    const before = event.sequence === position.sequence ? position.delivered : [];
    position = { sequence: event.sequence, delivered: [...before, event.id] };
    context.folder.writeJson(file, position);
  }
}

/** Delivers an event; false: the command was ended before. */
async function forward(event: StreamedEvent, forwarding: Forwarding): Promise<boolean> {
  const { url, secret, tenantId, output, ended } = forwarding;
  const body = bodyOf(event, tenantId);
  let [waitMs, errors] = [shortestPauseMs, 0];
  for (let attempt = 1; ; attempt += 1) {
    const receipt = await deliver(url, event, body, secret, attempt);
    report(event, attempt, receipt, output);
    if (receipt.status >= 200 && receipt.status <= 299) return true;
    const pauseMs = receipt.status === 0 ? waitMs : errorPausesMs[errors++];
    if (pauseMs === undefined) {
      output.note(`${event.id} was not taken: --resend ${event.id} sends it again.`);
      return true;
    }
    waitMs = Math.min(waitMs * 2, longestPauseMs);
    await pause(pauseMs, undefined, { signal: ended }).catch(() => undefined);
    if (ended.aborted) return false;
  }
}

function report({ id, type, sequence }: StreamedEvent, attempt: number, { status, reason, durationMs }: Receipt, output: Output): void {
  if (output.format !== 'table') return output.items([{ sequence, id, type, attempt, status, reason, duration_ms: durationMs }]);
  const outcome = status === 0 ? `no answer (${reason})` : `${status}`;
  const colored = output.paint(status >= 200 && status <= 299 ? 'green' : 'red', outcome);
  output.text(`${new Date().toISOString()}  ${String(sequence).padStart(8)}  ${type}  ${id}  → ${colored}  ${durationMs} ms\n`);
}

async function resend(id: string, { ledger }: Session, forwarding: Forwarding): Promise<void> {
  const seconds = timeOfId(id);
  // An id is made just before its event is written.
  const after = await sequenceBefore(ledger, seconds - 60);
  const ended = new AbortController();
  const last = await lastSequence(ledger);
  const types = eventTypes as NonNullable<ListenOptions['types']>;
  for await (const event of last > after
    ? ledger.events.listen({ after, types, signal: ended.signal, onBreak: onBreakOf(forwarding.output) })
    : []) {
    if (event.id === id) {
      ended.abort();
      const receipt = await deliver(forwarding.url, event, bodyOf(event, forwarding.tenantId), forwarding.secret, 1);
      report(event, 1, receipt, forwarding.output);
      if (receipt.status >= 200 && receipt.status <= 299) return;
      throw new Failure(
        receipt.status === 0 ? 'unavailable' : 'refused',
        `the receiver did not take it: ${receipt.status || receipt.reason}`,
      );
    }
    if (event.sequence >= last || event.created > seconds + 60) break;
  }
  throw new Failure('notFound', `there is no event ${id}`);
}

/** The same in each run, so that a receiver can keep it. */
function secretOf({ folder }: Context): string {
  const kept = folder.readJson('listen-secret.json') as { secret: string } | undefined;
  if (kept) return kept.secret;
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  folder.writeJson('listen-secret.json', { secret });
  return secret;
}

function positionFile({ url, tenant }: Session, target: string, types: string[] | undefined): string {
  const name = JSON.stringify([url, tenant, target, types ?? null]);
  return `listen-${createHash('sha256').update(name).digest('hex').slice(0, 16)}.json`;
}

// An API key does not know the id of its tenant.
async function tenantIdOf(session: Session): Promise<string | null> {
  if (session.hasOwnKey) return null;
  const { tenant } = session;
  return (await session.tenants()).find(({ slug }) => slug === tenant)?.id ?? null;
}
