// Holds in the model: made, captured in parts, voided and expired, written from the specification.
import type { LedgerModel } from './ledger-model.ts';
import { normalized, takePart } from './ledger-model.ts';
import { Learned, type Expected, type Refused } from './expectation.ts';
import { amountOf, decimal, fingerprint, minor, type By, type Hold, type Line, type Part, type Request } from './records.ts';

/** A request to hold; without `expires_in` (seconds) the hold never expires. */
export type HoldRequest = Omit<Request, 'kind' | 'transaction_id'> & { expires_in?: number };

/** A request to capture. */
export type CaptureRequest = Partial<Omit<Request, 'kind' | 'entries'>> & Part & { final?: boolean };

/** Makes a hold. */
export function hold(ledger: LedgerModel, request: HoldRequest, by: By): Expected {
  const { idempotency_key: key, expires_in } = request;
  const lines = request.entries.map((entry) => ({ ...entry, amount: decimal(minor(entry.amount)) }));
  const about = ledger.described(request);
  const asked = fingerprint([about, lines, expires_in ?? null]);
  const known = ledger.repeated(ledger.holds, key, asked);
  if (known) return known;
  const refused = ledger.misfits(lines);
  if (refused.length > 0) return { refused };
  const changes = ledger.changesOf({ lines: [], reserved: lines });
  const short = ledger.shortOf(changes, lines);
  if (short.length > 0) return { refused: short };
  const hold_id = new Learned('hold');
  const made: Hold = {
    ...{ hold_id, status: 'pending', idempotency_key: key ?? hold_id, ...about, ...amountOf(lines) },
    entries: lines.map((line) => ({
      ...{ account_id: ledger.accounts.get(line.account_code)!.id, account_code: line.account_code },
      ...{ side: line.side, currency: line.currency, amount: line.amount, captured: '0.00', remaining: line.amount },
    })),
    ...{ expires_at: expires_in === undefined ? null : new Learned('time'), captures: 0 },
    ...{ created_at: new Learned('time'), ended_at: null, sequence: ledger.log.length + 1 },
  };
  ledger.holds.push(made);
  ledger.asked.set(made, asked);
  ledger.write('hold.created', { ...made }, changes, by);
  return { status: 201, data: { hold: { ...made } } };
}

/** Captures all that is left of a hold, or a part. */
export function capture(ledger: LedgerModel, held: Hold | undefined, request: CaptureRequest, by: By): Expected {
  if (!held) return { refused: [{ code: 'hold_not_found' }] };
  const { idempotency_key: key, final = true } = request;
  const about = { kind: 'capture' as const, ...ledger.described(request), reverses: null, origin: { hold_id: held.hold_id } };
  const asked = fingerprint([about, normalized(request), final]);
  const known = ledger.repeated(ledger.transactions, key, asked);
  if (known) return known;
  if (held.status !== 'pending') return { refused: [ended(held)] };
  const before = held.entries.map(({ remaining }) => minor(remaining));
  const taken = takePart(held.entries.map(lineOf), before, request, 'hold_exceeded');
  if ('refused' in taken) return taken;
  const rest = before.map((units, index) => units - taken.amounts[index]!);
  const isOver = final || rest.every((units) => units === 0n);
  const released = held.entries.map((entry, index) => ({
    ...lineOf(entry),
    amount: decimal(isOver ? before[index]! : taken.amounts[index]!),
  }));
  const undo = ledger.mark();
  Object.assign(held, {
    entries: held.entries.map((entry, index) => ({
      ...entry,
      captured: decimal(minor(entry.captured) + taken.amounts[index]!),
      remaining: decimal(isOver ? 0n : rest[index]!),
    })),
    captures: held.captures + 1,
    ...(isOver && { status: 'captured', ended_at: new Learned('time') }),
  });
  const moved = { lines: taken.lines, released: released.filter(({ amount }) => minor(amount) > 0n) };
  const outcome = ledger.book(about, moved, { key, id: undefined }, by, asked);
  if ('refused' in outcome) {
    undo();
    return outcome;
  }
  ledger.log.at(-1)!.captured = { ...held };
  return { ...outcome, data: { ...(outcome.data as object), hold: { ...held } } };
}

/** Releases what is left of a hold. */
export function voidHold(ledger: LedgerModel, held: Hold | undefined, description: string | undefined, by: By): Expected {
  if (!held) return { refused: [{ code: 'hold_not_found' }] };
  if (held.status === 'voided') return { status: 200, replayed: true, data: { hold: { ...held } } };
  if (held.status !== 'pending') return { refused: [ended(held)] };
  end(ledger, held, 'voided', by, { void_description: description ?? '' });
  return { status: 200, data: { hold: { ...held } } };
}

/** What the cluster itself does once a hold is due. */
export function expire(ledger: LedgerModel, held: Hold): void {
  end(ledger, held, 'expired', { actor: 'ledger' } as By, {});
}

/** The refusal to change a hold that has ended. */
export function ended({ status }: Pick<Hold, 'status'>): Refused {
  return { code: 'hold_ended', tag: 'hold_ended', field: 'hold_id', value: status };
}

/** Newest first. */
export function holds(ledger: LedgerModel, filter: Record<string, unknown>): Hold[] {
  const fits = (held: Hold) =>
    Object.entries(filter).every(([name, value]) => {
      const own = name === 'account_code' || name === 'currency' ? held.entries.map((entry) => entry[name]) : [held[name as keyof Hold]];
      return own.some((each) => (each instanceof Learned ? each.known() : each) === value);
    });
  return ledger.holds.filter(fits).reverse();
}

function end(ledger: LedgerModel, held: Hold, status: 'voided' | 'expired', by: By, more: object): void {
  const released = held.entries.map((entry) => ({ ...lineOf(entry), amount: entry.remaining })).filter(({ amount }) => minor(amount) > 0n);
  const entries = held.entries.map((entry) => ({ ...entry, remaining: '0.00' }));
  Object.assign(held, { entries, status, ended_at: new Learned('time') });
  ledger.write(`hold.${status}`, { ...held, ...more }, ledger.changesOf({ lines: [], released }), by);
}

function lineOf({ account_code, amount, side, currency }: Line): Line {
  return { account_code, amount, side, currency, counter: false };
}
