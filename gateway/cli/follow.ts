// Where in the log to begin, and the events from there on.
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Event, Ledger } from '../clients/typescript/ledger.ts';
import { Failure } from './failure.ts';
import { whole } from './options.ts';
import type { Output } from './output.ts';

/** Options that say where to begin. */
export interface StartOptions {
  since?: number;
  after?: number;
}

/** Adds them. */
export function withStart(command: Command): Command {
  return command
    .addOption(
      new Option('--since <age>', 'begin with the events since then: 30s, 15m, 2h, 7d, or RFC 3339').argParser(timeOf).conflicts('after'),
    )
    .addOption(new Option('--after <sequence>', 'begin after this sequence; 0 is the whole log').argParser(whole));
}

/** The sequence after which the options begin; undefined: they say nothing. */
export async function startOf(ledger: Ledger, { since, after }: StartOptions): Promise<number | undefined> {
  if (since === undefined) return after;
  return sequenceBefore(ledger, since);
}

/** Reports a break of the stream; a credential that has ended ends the command. */
export function onBreakOf(output: Output): (reason: unknown) => void {
  return (reason) => {
    if (reason instanceof Failure) throw reason;
    output.note(`Reconnecting: ${(reason as Error).message}`);
  };
}

/** The sequence of the newest event; 0: there is none. The log has no gaps, so that halving finds it. */
export async function lastSequence(ledger: Ledger): Promise<number> {
  let [low, high] = [0, 1];
  while (await eventAfter(ledger, high - 1)) [low, high] = [high, high * 2];
  return halved(low, high, async (sequence) => (await eventAfter(ledger, sequence - 1)) === undefined);
}

/** Whether the log has an event of this sequence. */
export const hasEvent = async (ledger: Ledger, sequence: number): Promise<boolean> =>
  (await eventAfter(ledger, sequence - 1)) !== undefined;

/** The sequence of the last event before a time, Unix seconds. */
export async function sequenceBefore(ledger: Ledger, seconds: number): Promise<number> {
  const last = await lastSequence(ledger);
  return halved(0, last + 1, async (sequence) => ((await eventAfter(ledger, sequence - 1))?.created ?? seconds) >= seconds);
}

/** When an event was made, Unix seconds, from its id; a derived one has the time of its original. */
export function timeOfId(id: string): number {
  const digits = /^evt_([0-7][0-9a-hjkmnp-tv-z]{25})$/.exec(id)?.[1];
  if (digits === undefined) throw new Failure('usage', `${id} is no id of an event`);
  // TypeID: 26 digits of base 32 are 130 bits, two of them blank; the first 48 of a UUIDv7 are milliseconds.
  const bits = [...digits].reduce((value, digit) => value * 32n + BigInt('0123456789abcdefghjkmnpqrstvwxyz'.indexOf(digit)), 0n);
  return Math.floor(Number(bits >> 80n) / 1000);
}

async function eventAfter(ledger: Ledger, sequence: number): Promise<Event | undefined> {
  const { events } = await ledger.events.list({ after_sequence: sequence, limit: 1 });
  return events[0];
}

/** The largest sequence below the first for which it is true; `high` is such a one. */
async function halved(low: number, high: number, isBeyond: (sequence: number) => Promise<boolean>): Promise<number> {
  let [inside, beyond] = [low, high];
  while (beyond - inside > 1) {
    const middle = Math.floor((inside + beyond) / 2);
    if (await isBeyond(middle)) beyond = middle;
    else inside = middle;
  }
  return inside;
}

function timeOf(text: string): number {
  const [, count, unit] = /^(\d+)([smhd])$/.exec(text) ?? [];
  if (count !== undefined && unit !== undefined)
    return Math.floor(Date.now() / 1000) - Number(count) * { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's'];
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new InvalidArgumentError('It must be an age such as 2h, or a time such as 2030-01-31T12:00:00Z.');
  return Math.floor(time / 1000);
}
