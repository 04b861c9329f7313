// Batches of REST and commands of gRPC: many changes in one call, each by itself or all or none.
import fc from 'fast-check';
import { resultOf, type Seen } from '../ledger-api.ts';
import { disagreement, statusOf, type Expected, type Refused } from './expectation.ts';
import { capture, hold, voidHold, type HoldRequest } from './hold-model.ts';
import { idOf, linesOf, partOf, recentHold } from './hold-moves.ts';
import type { ModelRun, Pick, Step, Tenant } from './model-run.ts';
import {
  about,
  amount,
  currency,
  details,
  nat,
  pick,
  recentTransaction,
  requestOf,
  touchedBy,
  unknownTransaction,
  type Moves,
} from './posting-moves.ts';
import { minor, other, type By, type Line, type Transaction } from './records.ts';

type Body = Record<string, any>;

const item = fc.record({
  ...details,
  op: fc.constantFrom('single', 'double', 'double', 'hold', 'hold', 'capture', 'capture', 'void', 'reverse'),
  pair: fc.record({ from: pick, to: pick, amount, currency }),
  of: pick,
  part: fc.record({ of: fc.constantFrom('all', 'amount', 'entries'), at: nat, units: fc.constantFrom(1, 100) }),
  again: fc.nat({ max: 9 }),
});

/** An item's body; every one but a void has a key. */
function bodyOf(run: ModelRun, tenant: Tenant, { op, pair, of, part, ...rest }: Body): Body {
  const { ledger } = tenant;
  const named = { ...about(run, { ...rest, keyed: true }) };
  const entries = linesOf(run, tenant, [pair as Body]);
  const held = recentHold(tenant, of as Pick);
  switch (op as string) {
    case 'single':
      return { op, ...named, ...entries[0] };
    case 'capture':
      return {
        ...{ op, hold_id: idOf(held), ...named, final: (of as Pick).at % 2 === 0 },
        ...partOf(
          held?.entries ?? [],
          (held?.entries ?? []).map(({ remaining }) => minor(remaining)),
          part as { of: string; at: number; units: number },
        ),
      };
    case 'void':
      return { op, hold_id: idOf(held) };
    case 'reverse': {
      const transaction_id = recentTransaction(tenant, of as Pick) ?? unknownTransaction;
      const original = ledger.transactions.find((each) => each.transaction_id.known() === transaction_id);
      const lines = (original?.entries ?? []).map((entry) => ({ ...entry, side: other(entry.side) }));
      const left = ledger.left.get(original as Transaction) ?? lines.map((line) => minor(line.amount));
      return { op, transaction_id, ...named, ...partOf(lines, left, part as { of: string; at: number; units: number }) };
    }
    default:
      return { op, ...named, entries };
  }
}

function inModel({ ledger }: Tenant, { op, hold_id, transaction_id, ...body }: Body, by: By): Expected {
  const held = ledger.holds.find((each) => each.hold_id.value === hold_id);
  if (op === 'hold') return hold(ledger, body as HoldRequest, by);
  if (op === 'capture') return capture(ledger, held, body, by);
  if (op === 'void') return voidHold(ledger, held, undefined, by);
  if (op === 'reverse')
    return ledger.reverse(
      ledger.transactions.find((each) => each.transaction_id.value === transaction_id),
      body,
      by,
    );
  return ledger.post(requestOf(body), by);
}

/** The lines that an item may move or reserve. */
function touchedIn({ ledger }: Tenant, { entries, account_code, currency: of, hold_id, transaction_id }: Body): Line[] {
  if (hold_id !== undefined) return ledger.holds.find((each) => each.hold_id.value === hold_id)?.entries ?? [];
  if (transaction_id !== undefined) return ledger.transactions.find((each) => each.transaction_id.value === transaction_id)?.entries ?? [];
  return (entries as Line[] | undefined) ?? [{ account_code, currency: of, amount: '0', side: 'debit' }];
}

/** One result as the answer of its own route. REST: `{status, data | code, details, replayed}`. */
function seenOf(via: Step['via'], result: Body): Seen {
  if (via === 'grpc') return resultOf(result);
  const {
    status,
    code,
    details = {},
    data,
    replayed,
  } = result as { status: number; code?: string; details?: Body; data?: Body; replayed: boolean };
  return { status, code, ...details, data, replayed };
}

/** What an atomic call answers that one item failed. */
function whole(index: number, refused: Refused[]): Expected {
  const named = ({ field, ...rest }: Refused): Refused =>
    ({
      ...rest,
      // Its status is that of the item's own route.
      field: field === undefined ? (rest.code.endsWith('_not_found') ? undefined : `items[${index}]`) : `items[${index}].${field}`,
    }) as Refused;
  return { refused: refused.map(named) };
}

async function submit(run: ModelRun, tenant: Tenant, step: Step): Promise<void> {
  const { ledger } = tenant;
  const atomic = step['atomic'] as boolean;
  const items = (step['items'] as Body[]).reduce<Body[]>((all, each) => {
    const last = all.findLast((body) => body['idempotency_key'] !== undefined);
    return [...all, last && each['again'] === 0 ? last : bodyOf(run, tenant, each)];
  }, []);
  const before = ledger.log.length;
  const touched = touchedBy(
    ledger,
    items.flatMap((body) => touchedIn(tenant, body)),
  );
  const call = run.prepare(step, tenant, 'submit', { atomic, items });
  const undo = ledger.mark();
  const expected: Expected[] = [];
  for (const body of items) {
    expected.push(inModel(tenant, body, call.by));
    if (atomic && 'refused' in expected.at(-1)!) break;
  }
  const last = expected.at(-1)!;
  const fails = atomic && 'refused' in last;
  if (fails) undo();
  await run.send(call, (seen) => {
    if (fails && step.via === 'rest') return disagreement(whole(expected.length - 1, last.refused), seen);
    if (seen.code !== undefined) return `the whole batch was refused as ${seen.code}`;
    const results = seen.data.results as Body[];
    if (results.length !== items.length) return `${results.length} results`;
    if (fails) return disagreement(last, resultOf(results[expected.length - 1]!));
    const isReplay = expected.every((each) => 'replayed' in each && each.replayed);
    const status = atomic && !isReplay ? 201 : 200;
    if (seen.status !== null && seen.status !== status) return `answered ${seen.status}, expected ${status}`;
    const wrong = expected.map((each, place) => disagreement(each, seenOf(step.via, results[place]!)));
    const place = wrong.findIndex((each) => each !== null);
    return place < 0 ? null : `item ${place}: ${wrong[place]}`;
  });
  const { tally } = run.context;
  for (const [place, each] of expected.entries()) {
    if ('refused' in each) tally.refused(step.via === 'rest' ? statusOf(each.refused[0]!) : null, each.refused[0]!.code);
    else if (!fails && each.status === 201 && items[place]!['op'] !== 'hold') tally.postings++;
  }
  await run.compareLog(step, tenant, before, touched);
}

export const submitMoves: Moves = {
  submit: {
    weight: 7,
    own: { atomic: fc.boolean(), items: fc.array(item, { minLength: 1, maxLength: 6 }) },
    move: submit,
  },
};
