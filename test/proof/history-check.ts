// Checks the recorded calls of concurrent clients against the log: one effect per answer, in real-time order, and monotonic reads.
import { isDeepStrictEqual } from 'node:util';
import { decimal, minor } from './model/records.ts';

/** An entry, as sent and as answered. */
export interface Sent {
  account_code: string;
  amount: string;
  side: string;
  currency: string;
}

/** One request of one client. Times are those of one clock, milliseconds. */
export interface Op {
  client: number;
  kind: 'post' | 'reverse' | 'balance' | 'transaction' | 'events' | 'transactions';
  start: number;
  /** Null: without an answer, or with one that leaves the outcome unknown. */
  end: number | null;
  /** The error, unless the client hung up itself. */
  failed?: string;
  /** Of a posting or reversal: a unique text, repeated when it is sent again. */
  name?: string;
  key?: string;
  /** Of a posting: its entries, or the one of a single entry. */
  sent?: Sent[];
  /** Of a reversal or read: its transaction, account and currency, or sequence. */
  about?: { transaction?: string; account?: string; currency?: string; after?: number };
  /** The refusal's code, or undefined. */
  code?: string | undefined;
  /** The account that a refusal names. */
  named?: string;
  replayed?: boolean;
  data?: any;
}

/** An event of the log as `GET /events` shows it. */
export interface LogEvent {
  sequence: number;
  type: string;
  hash: string;
  previous_hash: string;
  data: any;
}

/** One tenant's history. */
export interface History {
  ops: Op[];
  log: LogEvent[];
  /** By `code currency`, as read at the end. */
  balances: Map<string, { debits: string; credits: string; version: number }>;
}

interface State {
  debits: bigint;
  credits: bigint;
  net: bigint;
}

interface Effect {
  event: LogEvent;
  /** When it was first sent, and when it was first answered. */
  asked: number;
  answered: number;
}

/** What is wrong with a history, one line each. */
export function historyFaults({ ops, log, balances }: History): string[] {
  const faults: string[] = [];
  const fault = (what: string, op?: Op) => faults.push(op ? `${what}: ${JSON.stringify(op).slice(0, 600)}` : what);
  chainMustHold(log, fault);

  const asked = Map.groupBy(
    ops.filter(({ name }) => name !== undefined),
    ({ name }) => name!,
  );
  const posted = log.filter(({ type }) => type === 'transaction.posted');
  const effects = new Map<string, Effect>();
  const reversals = new Map<string, Effect>();
  const keys = new Map<string, Effect>();
  for (const event of posted) {
    const { description, reverses, transaction_id, idempotency_key } = event.data;
    const requests = asked.get(description) ?? [];
    if (requests.length === 0) fault(`no client sent event ${event.sequence}`);
    if (effects.has(description))
      fault(`${description} was posted twice, as ${effects.get(description)!.event.sequence} and ${event.sequence}`);
    const ends = requests.filter(({ data }) => data?.transaction_id === transaction_id).map(({ end }) => end ?? Infinity);
    const effect = { event, asked: Math.min(...requests.map(({ start }) => start)), answered: Math.min(Infinity, ...ends) };
    effects.set(description, effect);
    keys.set(idempotency_key, effect);
    if (reverses !== null) {
      if (reversals.has(reverses)) fault(`${reverses} was reversed twice`);
      reversals.set(reverses, effect);
    }
  }
  orderMustBeReal([...effects.values()], fault);
  const ids = new Map([...effects.values()].map((effect) => [effect.event.data.transaction_id as string, effect]));
  for (const [name, requests] of asked) answersMustFit(name, requests, effects.get(name), { keys, reversals, ids }, fault);

  const places = statesOf(log, fault);
  for (const [place, { debits, credits, version }] of balances) {
    const last = places.get(place);
    const state = last?.states.at(-1);
    if (version !== (last?.effects.length ?? 0)) fault(`${place} ends at version ${version}, the log says ${last?.effects.length ?? 0}`);
    else if (state && (state.debits !== minor(debits) || state.credits !== minor(credits)))
      fault(`${place} ends otherwise than the log says`);
  }
  const byEvent = new Map(posted.map((event) => [event.sequence, effects.get(event.data.description)!]));
  const within = (place: string, op: Op): [least: number, most: number] => {
    const all = (places.get(place)?.effects ?? []).map((sequence) => byEvent.get(sequence)!);
    const most = all.findIndex((effect) => effect.asked > op.end!);
    return [all.findLastIndex((effect) => effect.answered < op.start) + 1, most < 0 ? all.length : most];
  };
  for (const op of ops) {
    if (op.failed !== undefined) fault(`${op.failed} instead of an answer`, op);
    if (op.code === 'internal') fault('the cluster has failed', op);
    // It had no effect.
    if (op.end === null || op.code === 'internal' || op.code === 'overloaded') continue;
    if (op.kind === 'balance') {
      const place = `${op.about!.account} ${op.about!.currency}`;
      const { version, debits, credits } = op.data;
      const [least, most] = within(place, op);
      const state = places.get(place)?.states[version] ?? (version === 0 ? { debits: 0n, credits: 0n } : undefined);
      if (version < least) fault(`a balance of version ${version} is read when ${least} had been answered`, op);
      if (version > most) fault(`a balance of version ${version} is read before it was asked for`, op);
      if (state?.debits !== minor(debits) || state.credits !== minor(credits)) fault('a balance that never was', op);
    } else if (op.code === 'insufficient_funds') {
      const { data: { lowered = {} } = {}, named = '' } = op;
      const [account, currency, amount] = [named, lowered.currency, lowered.amount];
      const place = places.get(`${account} ${currency}`);
      const [least, most] = within(`${account} ${currency}`, op);
      if (amount === undefined) {
        fault('refused for funds that it does not take', op);
        continue;
      }
      const states = (place?.states ?? [{ net: 0n }]).slice(least, most + 1);
      if (!states.some(({ net }) => net < minor(amount))) fault('refused for funds that were there all the time', op);
    } else if (op.kind === 'events') eventsMustFit(op, log, effects, fault);
    else if (op.kind === 'transactions') listMustFit(op, posted, effects, fault);
    else if (op.kind === 'transaction') {
      const effect = reversals.get(op.about!.transaction!);
      const reversed = op.data?.reversed_by ?? null;
      if (op.code !== undefined) fault('a transaction that had been answered is not found', op);
      else if (effect && effect.answered < op.start && reversed === null) fault('a reversal that had been answered is not seen', op);
      else if (reversed !== null && reversed !== effect?.event.data.transaction_id) fault('reversed by another', op);
    }
  }
  readsMustNotGoBack(ops, fault);
  return faults;
}

type Report = (what: string, op?: Op) => unknown;

function chainMustHold(log: LogEvent[], fault: Report): void {
  let before = '0'.repeat(64);
  for (const [place, { sequence, hash, previous_hash }] of log.entries()) {
    if (sequence !== place + 1) fault(`the log has ${sequence} in the place of ${place + 1}`);
    if (previous_hash !== before) fault(`the chain breaks at ${sequence}`);
    before = hash;
  }
}

/** A posting that was answered before another was sent comes first in the log. */
function orderMustBeReal(effects: Effect[], fault: Report): void {
  let earliest = Infinity;
  for (const { event, asked, answered } of [...effects].sort((one, two) => two.event.sequence - one.event.sequence)) {
    if (earliest < asked) fault(`${event.sequence} was asked for after one behind it had been answered`);
    earliest = Math.min(earliest, answered);
  }
}

/** The answers to one request, however often sent, match its one effect. */
function answersMustFit(
  name: string,
  requests: Op[],
  effect: Effect | undefined,
  { keys, reversals, ids }: Record<'keys' | 'reversals' | 'ids', Map<string, Effect>>,
  fault: Report,
): void {
  const answered = requests.filter(({ end, code }) => end !== null && code === undefined);
  if (answered.length > 0 && !effect) fault(`${name} was answered and is not in the log`);
  if (effect && requests.every(({ end, code }) => end !== null && code !== undefined)) fault(`${name} was refused and posted`);
  if (answered.filter(({ replayed }) => !replayed).length > 1) fault(`${name} was answered as new twice`);
  for (const op of answered) {
    const { transaction_id, sequence } = op.data;
    if (effect && (transaction_id !== effect.event.data.transaction_id || sequence !== effect.event.sequence))
      fault(`another effect than ${effect.event.sequence}`, op);
    if (effect && !isDeepStrictEqual(op.data.entries.map(entryAfter), effect.event.data.lines.map(entryAfter)))
      fault(`answered other entries than those of ${effect.event.sequence}`, op);
  }
  for (const op of effect ? requests : []) {
    const { lines, idempotency_key } = effect!.event.data;
    const original = op.kind === 'reverse' ? ids.get(op.about!.transaction!)?.event.data.lines : undefined;
    const mustBe: Sent[] = op.sent ?? original?.map((line: Sent) => ({ ...line, side: line.side === 'debit' ? 'credit' : 'debit' })) ?? [];
    const mayBe = op.sent?.length === 1 ? lines.filter(({ counter }: { counter: boolean }) => !counter) : lines;
    if (!isDeepStrictEqual(mayBe.map(entryOf).sort(), mustBe.map(entryOf).sort()))
      fault(`posted as ${effect!.event.sequence} with other entries`, op);
    if (op.key !== undefined && op.key !== idempotency_key) fault(`posted as ${effect!.event.sequence} under another key`, op);
    const isRule = op.end !== null && op.code !== undefined && op.code !== 'overloaded' && op.code !== 'internal';
    if (isRule && effect!.answered < op.start) fault('refused after it had been posted', op);
  }
  for (const op of requests) {
    const cause =
      op.code === 'idempotency_key_reused'
        ? keys.get(op.key!)
        : op.code === 'already_reversed'
          ? reversals.get(op.about!.transaction!)
          : undefined;
    const namesOther = op.code === 'idempotency_key_reused' || op.code === 'already_reversed';
    if (namesOther && !(cause && cause.asked < op.end!)) fault('refused for something that had not happened', op);
  }
}

function entryOf({ account_code, amount, side, currency }: Sent): string {
  return `${side} ${account_code} ${minor(amount)} ${currency}`;
}

function entryAfter(entry: Sent & { balance_after: string }): string {
  return `${entryOf(entry)}, ${entry.balance_after} after it`;
}

/** Every balance after each posting. Nothing is below zero that may not be, and every currency sums to zero. */
function statesOf(log: LogEvent[], fault: Report): Map<string, { states: State[]; effects: number[] }> {
  const accounts = new Map<string, any>();
  const places = new Map<string, { states: State[]; effects: number[] }>();
  for (const { type, data, sequence } of log) {
    if (type !== 'transaction.posted') {
      accounts.set(data.account_code, data);
      continue;
    }
    const changed = new Map<string, State>();
    const sums = new Map<string, bigint>();
    for (const { account_code, currency, side, amount, balance_after } of data.lines) {
      const place = `${account_code} ${currency}`;
      const before = changed.get(place) ?? places.get(place)?.states.at(-1) ?? { debits: 0n, credits: 0n, net: 0n };
      const units = minor(amount);
      const debits = before.debits + (side === 'debit' ? units : 0n);
      const credits = before.credits + (side === 'credit' ? units : 0n);
      const net = accounts.get(account_code)?.normal_balance === 'debit' ? debits - credits : credits - debits;
      changed.set(place, { debits, credits, net });
      if (balance_after !== decimal(net)) fault(`event ${sequence} leaves ${place} at ${balance_after}, not ${decimal(net)}`);
      sums.set(currency, (sums.get(currency) ?? 0n) + (side === 'debit' ? units : -units));
    }
    for (const [currency, sum] of sums) if (sum !== 0n) fault(`event ${sequence} does not balance in ${currency}`);
    for (const [place, state] of changed) {
      const all = places.get(place) ?? { states: [{ debits: 0n, credits: 0n, net: 0n }], effects: [] };
      places.set(place, all);
      const account = accounts.get(place.split(' ')[0]!);
      if (!account) fault(`event ${sequence} posts to ${place}, which is not in the log before`);
      if (account?.allow_negative === false && state.net < 0n && state.net < all.states.at(-1)!.net)
        fault(`${place} is below zero after ${sequence}`);
      all.states.push(state);
      all.effects.push(sequence);
    }
  }
  return places;
}

/** The last sequence that had been answered before a request began. */
function answeredBefore(effects: Map<string, Effect>, op: Op): number {
  let last = 0;
  for (const { event, answered } of effects.values()) if (answered < op.start && event.sequence > last) last = event.sequence;
  return last;
}

function eventsMustFit(op: Op, log: LogEvent[], effects: Map<string, Effect>, fault: Report): void {
  const { after = 0 } = op.about!;
  const { events, limit } = op.data as { events: LogEvent[]; limit: number };
  if (events.some(({ sequence, hash }, place) => sequence !== after + place + 1 || log[sequence - 1]?.hash !== hash))
    fault('a page that is not the log', op);
  if (events.length < limit && after + events.length < answeredBefore(effects, op))
    fault('an event that had been answered is not in the log', op);
}

function listMustFit(op: Op, posted: LogEvent[], effects: Map<string, Effect>, fault: Report): void {
  const listed = op.data as { transaction_id: string; sequence: number }[];
  const newest = posted.findLastIndex(({ sequence }) => sequence === listed[0]?.sequence);
  const same = listed.every(({ transaction_id }, place) => posted[newest - place]?.data.transaction_id === transaction_id);
  if (!same) fault('a list that is not the log', op);
  if ((listed[0]?.sequence ?? 0) < answeredBefore(effects, op)) fault('a transaction that had been answered is not listed', op);
}

/** A read that begins after another has ended sees at least as much. */
function readsMustNotGoBack(ops: Op[], fault: Report): void {
  const seen = (op: Op): [what: string, how: number] | null => {
    if (op.end === null || op.code !== undefined) return null;
    if (op.kind === 'balance') return [`${op.about!.account} ${op.about!.currency}`, op.data.version];
    if (op.kind === 'transactions') return ['list', op.data[0]?.sequence ?? 0];
    return op.kind === 'events' && op.data.events.length < op.data.limit
      ? ['log', op.about!.after! + (op.data.events as unknown[]).length]
      : null;
  };
  const reads = ops.flatMap((op) => {
    const what = seen(op);
    return what ? [{ op, what: what[0], how: what[1] }] : [];
  });
  for (const group of Map.groupBy(reads, ({ what }) => what).values()) {
    const byEnd = [...group].sort((one, two) => one.op.end! - two.op.end!);
    let [next, most] = [0, 0];
    for (const { op, how } of [...group].sort((one, two) => one.op.start - two.op.start)) {
      for (; byEnd[next] && byEnd[next]!.op.end! < op.start; next++) most = Math.max(most, byEnd[next]!.how);
      if (how < most) fault(`a read goes back from ${most} to ${how}`, op);
    }
  }
}
