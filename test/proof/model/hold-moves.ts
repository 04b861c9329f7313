// The steps on holds, and reversals of parts: each has its weight, its random parameters, and what it does.
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import type { Expected } from './expectation.ts';
import { capture, ended, expire, hold, holds, voidHold, type CaptureRequest, type HoldRequest } from './hold-model.ts';
import { Divergence, Unavailable, type ModelRun, type Pick, type Step, type Tenant } from './model-run.ts';
import { about, amount, currency, details, keep, nat, pick, recentTransaction, touchedBy, type Moves } from './posting-moves.ts';
import { decimal, minor, other, type Hold, type Line, type Part, type Transaction } from './records.ts';

type Body = Record<string, any>;

const unknownHold = 'hold_01jd1zq5v8e6n9w2k4m7p3r5t8';
const part = fc.record({
  of: fc.constantFrom('all', 'all', 'amount', 'amount', 'entries', 'entries', 'too much', 'other'),
  at: nat,
  units: fc.constantFrom(1, 100, 250),
});
/** Longer than the cluster takes to write that a hold has expired. */
const maxExpiryMs = 20_000;

/** One of the newest holds, or none. */
export function recentHold({ ledger }: Tenant, { at, odd }: Pick): Hold | undefined {
  const recent = ledger.holds.slice(-20);
  const pending = recent.filter(({ status }) => status === 'pending');
  const some = odd > 3 && pending.length > 0 ? pending : recent;
  return odd === 0 ? undefined : some[at % Math.max(1, some.length)];
}

/** The id of a hold, or one that no hold has. */
export const idOf = (held: Hold | undefined): string => held?.hold_id.known() ?? unknownHold;

/** A part of lines of which so much is left: valid, or in one of several ways not. */
export function partOf(lines: Line[], left: bigint[], { of, at, units }: { of: string; at: number; units: number }): Part {
  if (of === 'all' || lines.length === 0) return {};
  if (of === 'amount') return { amount: decimal(BigInt(units)) };
  const currencyOf = lines[at % lines.length]!.currency;
  const [debit, credit] = (['debit', 'credit'] as const).map((side) =>
    lines.findIndex((line) => line.side === side && line.currency === currencyOf),
  );
  const pair = [lines[debit!], lines[credit!]].flatMap((line) => line ?? []);
  const most = [left[debit!], left[credit!]].reduce<bigint>(
    (least, each) => (each !== undefined && each < least ? each : least),
    BigInt(units),
  );
  const taken = of === 'too much' || most === 0n ? 1_000_000_000_000_000n - 1n : most;
  const entries = pair.map(({ account_code, side, currency: own }) => ({ account_code, side, currency: own, amount: decimal(taken) }));
  // Neither has a line on the other side of both accounts, unless by chance.
  return { entries: of === 'other' ? entries.map((entry) => ({ ...entry, side: other(entry.side) })) : entries };
}

/** The lines of a new hold. */
export function linesOf(run: ModelRun, tenant: Tenant, pairs: Body[]): Line[] {
  return pairs.flatMap(({ from, to, amount: each, currency: of }) => [
    { account_code: run.code(tenant, from as Pick, of as string), amount: each as string, side: 'debit' as const, currency: of as string },
    { account_code: run.code(tenant, to as Pick, of as string), amount: each as string, side: 'credit' as const, currency: of as string },
  ]);
}

async function make(run: ModelRun, tenant: Tenant, body: Body & { entries: Line[] }, step: Step): Promise<Expected> {
  const touched = touchedBy(tenant.ledger, body.entries);
  const expected = await run.change(step, tenant, ['hold', body], (by) => hold(tenant.ledger, body as HoldRequest, by), touched);
  if (!('refused' in expected)) tenant.held.push({ operation: 'hold', body });
  return expected;
}

async function take(run: ModelRun, tenant: Tenant, { hold_id, ...body }: Body, step: Step): Promise<void> {
  const held = tenant.ledger.holds.find((each) => each.hold_id.known() === hold_id);
  const touched = touchedBy(tenant.ledger, held?.entries ?? []);
  const request = { ...body, hold_id };
  const expected = await run.change(
    step,
    tenant,
    ['capture', request],
    (by) => capture(tenant.ledger, held, body as CaptureRequest, by),
    touched,
  );
  if ('refused' in expected) return;
  tenant.held.push({ operation: 'capture', body: request });
  if (expected.status === 201) run.context.tally.postings++;
}

/** Waits until the clock is past a hold's end. */
async function untilDue(held: Hold): Promise<void> {
  await pause(Math.max(0, Date.parse(held.expires_at!.known()) + 20 - Date.now()));
}

/** Waits until the cluster has written that a hold has expired. */
async function untilExpired(run: ModelRun, tenant: Tenant, held: Hold): Promise<void> {
  for (const end = Date.now() + maxExpiryMs; ; await pause(100)) {
    const call = run.prepare({ do: 'held', via: 'rest', tenant: 0 }, tenant, 'held', { hold_id: held.hold_id.known() });
    const seen = await run.context.api.call(call).catch((error: unknown) => {
      throw new Unavailable(`no answer: ${String(error)}`);
    });
    if (seen.data?.hold?.status === 'expired') return;
    if (Date.now() > end) throw new Divergence(`${call.request['hold_id']} has not expired ${maxExpiryMs / 1000} s after it was due`);
  }
}

const pairs = (most: number) => fc.array(fc.record({ from: pick, to: pick, amount, currency }), { minLength: 1, maxLength: most });

export const holdMoves: Moves = {
  hold: {
    weight: 10,
    own: { ...details, pairs: pairs(2), unbalanced: fc.nat({ max: 19 }) },
    move: async (run, tenant, step) => {
      const entries = linesOf(run, tenant, step['pairs'] as Body[]);
      if (step['unbalanced'] === 0) entries[1]!.amount = '3.33';
      await make(run, tenant, { ...about(run, step), entries, ...(step['unbalanced'] > 9 && { expires_in: 34_560_000 }) }, step);
    },
  },
  capture: {
    weight: 10,
    own: { ...details, hold: pick, part, final: fc.constantFrom(undefined, true, false, false) },
    move: async (run, tenant, step) => {
      const held = recentHold(tenant, step['hold'] as Pick);
      const left = (held?.entries ?? []).map(({ remaining }) => minor(remaining));
      const own = {
        ...partOf(held?.entries ?? [], left, step['part']),
        ...(step['final'] !== undefined && { final: step['final'] as boolean }),
      };
      await take(run, tenant, { hold_id: idOf(held), ...about(run, step), ...own }, step);
    },
  },
  void: {
    weight: 4,
    own: { hold: pick, description: fc.constantFrom(undefined, 'Cancelled') },
    move: async (run, tenant, step) => {
      const held = recentHold(tenant, step['hold'] as Pick);
      const description = step['description'] as string | undefined;
      const request = { hold_id: idOf(held), ...(description !== undefined && { description }) };
      const touched = touchedBy(tenant.ledger, held?.entries ?? []);
      await run.change(step, tenant, ['void', request], (by) => voidHold(tenant.ledger, held, description, by), touched);
    },
  },
  expire: {
    weight: 1,
    own: { ...details, pairs: pairs(1), then: fc.constantFrom('nothing', 'capture', 'void', 'spend', 'spend') },
    move: async (run, tenant, step) => {
      const { ledger } = tenant;
      const entries = linesOf(run, tenant, step['pairs'] as Body[]);
      const made = await make(run, tenant, { ...about(run, step), entries, expires_in: 1 }, step);
      const held = ledger.holds.at(-1);
      if ('refused' in made || made.status !== 201 || !held) return;
      await untilDue(held);
      const then = step['then'] as string;
      if (then === 'capture' || then === 'void') {
        // It is refused, whether or not the event is written.
        await run.read(step, tenant, then, { hold_id: idOf(held) }, { refused: [ended({ status: 'expired' })] });
      }
      const before = ledger.log.length;
      const spending = then === 'spend' && spends(tenant, entries) ? run.prepare(step, tenant, 'double', { entries }) : null;
      expire(ledger, held);
      if (spending) {
        const expected = ledger.post({ kind: 'double', entries }, spending.by);
        await run.send(spending, expected);
        keep(run, tenant, 'double', { entries }, expected);
      }
      await untilExpired(run, tenant, held);
      await run.compareLog(step, tenant, before, touchedBy(ledger, entries));
    },
  },
  refund: {
    weight: 8,
    own: { ...details, transaction: pick, part },
    move: async (run, tenant, step) => {
      const { ledger } = tenant;
      const transaction_id = recentTransaction(tenant, step['transaction'] as Pick);
      if (transaction_id === undefined) return;
      const original = ledger.transactions.find((each) => each.transaction_id.known() === transaction_id);
      const lines = (original?.entries ?? []).map((entry) => ({ ...entry, side: other(entry.side) }));
      const left = ledger.left.get(original as Transaction) ?? lines.map((line) => minor(line.amount));
      const body = { transaction_id, ...about(run, step), ...partOf(lines, left, step['part']) };
      const touched = touchedBy(ledger, lines);
      const expected = await run.change(step, tenant, ['refund', body], (by) => ledger.reverse(original, body, by), touched);
      keep(run, tenant, 'refund', body, expected);
    },
  },
  holdAgain: {
    weight: 4,
    own: { at: nat, isSame: fc.boolean() },
    move: async (run, tenant, step) => {
      const found = tenant.held[step['at'] % Math.max(1, tenant.held.length)];
      if (found?.body['idempotency_key'] === undefined) return;
      const body = step['isSame'] ? found.body : { ...found.body, description: run.next('Other ') };
      await (found.operation === 'hold' ? make(run, tenant, body as Body & { entries: Line[] }, step) : take(run, tenant, body, step));
    },
  },
  holds: {
    weight: 3,
    own: {
      filter: fc.constantFrom('none', 'one', 'status', 'account_code', 'currency', 'reference', 'idempotency_key'),
      at: nat,
      limit: fc.constantFrom(2, 10),
    },
    move: async (run, tenant, step) => {
      const { ledger } = tenant;
      const { filter, at, limit } = step;
      const some = ledger.holds[at % Math.max(1, ledger.holds.length)];
      if (filter === 'one') {
        const expected = some ? { status: 200, data: { hold: some } } : { refused: [{ code: 'hold_not_found' }] };
        return run.read(step, tenant, 'held', { hold_id: idOf(some) }, expected);
      }
      const { account_code, currency: of } = some?.entries[0] ?? {};
      const values: Body = {
        status: some?.status,
        account_code,
        currency: of,
        reference: some?.reference,
        idempotency_key: some?.idempotency_key,
      };
      const value = values[filter as string] as unknown;
      const wanted = typeof value === 'string' ? { [filter as string]: value } : {};
      await run.pages(step, tenant, ['holds', { ...wanted, limit }], 'holds', holds(ledger, wanted));
    },
  },
};

/** Whether a posting of these lines needs what a hold that is due still reserves. */
function spends({ ledger }: Tenant, entries: Line[]): boolean {
  const undo = ledger.mark();
  const outcome = ledger.post({ kind: 'double', entries }, { actor: '', request_id: '' });
  undo();
  return 'refused' in outcome && outcome.refused.every(({ code }) => code === 'insufficient_funds');
}
