// `doctor`: whether this machine can use the ledger, and whether the ledger's log holds together.
import type { Command } from 'commander';
import { Ledger, LedgerError, type Event } from '../clients/typescript/ledger.ts';
import { withCommonOptions, withExamples, type Context } from './context.ts';
import { exitCodes, Failure } from './failure.ts';
import { lastSequence } from './follow.ts';
import { apiVersion } from './operations.ts';
import { type CommonOptions, type Session } from './session.ts';

interface Check {
  check: string;
  /** `unknown`: it could not be tried. */
  result: 'good' | 'bad' | 'unknown';
  detail: string;
}

type Outcome = Omit<Check, 'check'>;

const good = (detail: string): Outcome => ({ result: 'good', detail });
const bad = (detail: string): Outcome => ({ result: 'bad', detail });
const unknown = (detail: string): Outcome => ({ result: 'unknown', detail });

const checkedEvents = 1_000;
const allowedSkewMs = 5_000;

/** Adds the command. */
export function addDoctor(program: Command, context: Context): void {
  const doctor = program
    .command('doctor')
    .helpGroup('Session:')
    .summary("Check that this machine can use the ledger, and the log's hash chain.")
    .description(`Check reach, clock, versions, readiness, credential, webhook, and the hash chain of the last ${checkedEvents} events.`)
    .option('--webhook', 'also send a test delivery to the webhook');
  withExamples(withCommonOptions(doctor), 'ledger doctor', 'ledger doctor --webhook --json');
  doctor.action((options: CommonOptions & { webhook?: boolean }) => run(options, context));
}

async function run(options: CommonOptions & { webhook?: boolean }, context: Context): Promise<void> {
  const session = context.session(options);
  const output = context.output(options);
  const found: Check[] = [];
  const check = async (name: string, probe: () => Promise<Outcome>) => {
    const outcome = await probe().catch((error: unknown) => outcomeOf(error));
    const { result, detail } = outcome;
    found.push({ check: name, ...outcome });
    const mark = { good: output.paint('green', 'ok  '), bad: output.paint('red', 'BAD '), unknown: output.paint('yellow', '?   ') }[result];
    if (output.format === 'table') output.text(`${mark} ${name.padEnd(11)} ${detail}\n`);
    else output.items([{ check: name, result, detail }]);
    return result === 'good';
  };
  if (!(await check('reach', () => reach(session)))) throw new Failure('unavailable', `${session.url} can't be reached`);
  await check('clock', () => clock(session));
  await check('versions', () => versions(session));
  await check('ready', () => readiness(session));
  if (await check('credential', () => credential(session))) {
    await check('webhook', () => webhook(session, options.webhook === true));
    await check('hash chain', () => hashChain(session));
  }
  const wrong = found.filter(({ result }) => result === 'bad').map(({ check: name }) => name);
  if (wrong.length > 0) throw new Failure(wrong.includes('credential') ? 'credential' : 'refused', `not good: ${wrong.join(', ')}`);
}

function outcomeOf(error: unknown): Outcome {
  if (error instanceof Failure) return error.exitCode === exitCodes.usage ? unknown(error.message) : bad(error.message);
  if (error instanceof LedgerError)
    return error.status === 403 ? unknown(`no scope for this: ${error.message}`) : bad(`${error.message} (${error.code})`);
  throw error;
}

async function reach({ url }: Session): Promise<Outcome> {
  const began = performance.now();
  await new Ledger({ url, retries: 0 }).service.health();
  return good(`${url} in ${Math.round(performance.now() - began)} ms`);
}

async function clock({ url }: Session): Promise<Outcome> {
  const dates: string[] = [];
  const began = Date.now();
  await new Ledger({ url }).service.health({ onResponse: ({ headers }) => dates.push(headers.get('date') ?? '') });
  const date = dates[0] ?? '';
  if (date === '') return unknown('the server sends no date');
  // The header has whole seconds, cut off.
  const [early, late] = [Date.parse(date) - Date.now(), Date.parse(date) + 1_000 - began];
  const skewMs = early > 0 ? early : Math.min(0, late);
  return Math.abs(skewMs) <= allowedSkewMs
    ? good('this clock and the server’s agree')
    : bad(
        `this clock is ${Math.round(Math.abs(skewMs) / 1000)} s ${skewMs > 0 ? 'behind' : 'ahead'}: signatures of webhooks would be refused`,
      );
}

async function versions({ url }: Session): Promise<Outcome> {
  const document = (await new Ledger({ url }).service.document()) as { info?: { version?: string } };
  const server = document.info?.version ?? 'unknown';
  const isSame = server.split('.')[0] === apiVersion.split('.')[0];
  return (isSame ? good : bad)(`API ${server}, this program ${apiVersion}`);
}

async function readiness({ url }: Session): Promise<Outcome> {
  const { status } = (await new Ledger({ url, retries: 0 }).service.readiness()) as { status?: string };
  return good(status ?? 'ready');
}

async function credential(session: Session): Promise<Outcome> {
  const access = await session.access();
  await session.ledger.events.list({ limit: 1 }).page();
  const what = access ? `login, role’s scopes until ${access.expires_at}: ${access.scopes.join(' ')}` : 'API key';
  return good(`tenant ${session.tenant}, ${what}`);
}

async function webhook({ ledger }: Session, test: boolean): Promise<Outcome> {
  let config;
  try {
    config = (await ledger.webhooks.get()).webhook_config;
  } catch (error) {
    if (error instanceof LedgerError && error.status === 404) return unknown('none is configured');
    throw error;
  }
  const where = `${config.url}, ${config.events.length} types${config.enabled ? '' : ', disabled'}`;
  if (!test) return good(`${where}; --webhook tests it`);
  await ledger.webhooks.test({});
  return good(`${where}; the test was delivered`);
}

async function hashChain({ ledger }: Session): Promise<Outcome> {
  const last = await lastSequence(ledger);
  const first = Math.max(0, last - checkedEvents);
  let [before, count]: [Event | undefined, number] = [undefined, 0];
  for await (const event of ledger.events.list({ after_sequence: first, limit: 100 })) {
    const fault = faultOf(event, before, first);
    if (fault !== undefined) return bad(`at sequence ${event.sequence}: ${fault}`);
    before = event;
    count += 1;
    if (event.sequence >= last) break;
  }
  if (count < last - first) return bad(`${last - first} events are due after ${first}, ${count} came`);
  return good(before ? `${count} events up to ${last}, head ${before.hash}` : 'the log is empty');
}

function faultOf({ sequence, previous_hash: previous, hash }: Event, before: Event | undefined, first: number): string | undefined {
  if (sequence !== (before?.sequence ?? first) + 1) return `${(before?.sequence ?? first) + 1} is missing`;
  if (!/^[0-9a-f]{64}$/.test(hash)) return 'it has no hash';
  const expected = before?.hash ?? (first === 0 ? '0'.repeat(64) : previous);
  return previous === expected ? undefined : 'its previous hash is not that of the event before';
}
