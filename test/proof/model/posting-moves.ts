// The steps that move money: postings, reversals and repetitions. Each has its weight, its random parameters, and what it does.
import fc from 'fast-check';
import { newId } from '../../../services/platform/ids.ts';
import type { Operation } from '../ledger-api.ts';
import { disagreement, type Expected } from './expectation.ts';
import type { LedgerModel } from './ledger-model.ts';
import type { ModelRun, Move, Pick, Step, Tenant } from './model-run.ts';
import { decimal, minor, type Line, type Request, type Transaction } from './records.ts';

type Body = Record<string, any>;

/** How often a step is drawn, its parameters, and what it does. */
export type Moves = Record<string, { weight: number; own: Record<string, fc.Arbitrary<unknown>>; move: Move }>;

export const nat = fc.nat({ max: 999 });
export const pick: fc.Arbitrary<Pick> = fc.record({ at: nat, odd: fc.nat({ max: 19 }) });
export const currency = fc.constantFrom('NGN', 'NGN', 'USD', 'EUR', 'GBP');
export const unknownTransaction = 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8';
export const amount = fc.constantFrom('1.00', '0.01', '5.5', '10', '10.00', '250.75', '9999999999999.99');
const side = fc.constantFrom('debit' as const, 'credit' as const);
export const details = {
  keyed: fc.constantFrom(true, true, false),
  description: fc.constantFrom(undefined, null, '', 'Déposit 🏦'),
  reference: fc.constantFrom(undefined, null, 'INV-1', 'INV-2'),
  metadata: fc.constantFrom(undefined, null, {}, { b: 1, a: { d: [1, 2], c: null } }, { order: 'x' }),
};
const item = {
  ...details,
  tenant: fc.constantFrom(0, 0, 1, 2),
  entries: fc.array(fc.record({ account: pick, amount, side }), { minLength: 1, maxLength: 3 }),
  currency,
  again: fc.nat({ max: 9 }),
};

/** The optional fields of a posting. */
export function about(run: ModelRun, { keyed, description, reference, metadata }: Body): Body {
  const fields = { description, reference, metadata, idempotency_key: keyed ? run.next('k') : undefined };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

const operationOf = (body: Body): Operation => ('entries' in body ? 'double' : 'single');

export function requestOf(body: Body): Request {
  const { account_code, amount, side, currency, entries = [{ account_code, amount, side, currency }], ...rest } = body;
  return { ...rest, kind: operationOf(body), entries } as Request;
}

/** The balances that these lines concern, four at most. */
export function touchedBy(ledger: LedgerModel, lines: Line[]): [string, string][] {
  const all = new Map(
    lines.map(({ account_code, currency }) => [`${account_code} ${currency}`, [account_code, currency] as [string, string]]),
  );
  const takes = ([code, currency]: [string, string]) => {
    const account = ledger.accounts.get(code);
    return account && !account.is_group && (account.currency ?? currency) === currency;
  };
  return [...all.values()].filter(takes).slice(0, 4);
}

/** Over gRPC alone a client may choose the transaction's id. */
async function post(run: ModelRun, tenant: Tenant, { transaction_id, ...rest }: Body, step: Step): Promise<void> {
  const body = step.via === 'grpc' && transaction_id !== undefined ? { ...rest, transaction_id } : rest;
  const request = requestOf(body);
  const touched = touchedBy(tenant.ledger, request.entries);
  const expected = await run.change(step, tenant, [operationOf(body), body], (by) => tenant.ledger.post(request, by), touched);
  keep(run, tenant, operationOf(body), body, expected);
}

async function reverse(run: ModelRun, tenant: Tenant, body: Body, step: Step, operation: Operation = 'reverse'): Promise<void> {
  const { ledger } = tenant;
  const original = ledger.transactions.find((each) => each.transaction_id.known() === body['transaction_id']);
  const touched = touchedBy(ledger, original?.entries ?? []);
  const expected = await run.change(step, tenant, [operation, body], (by) => ledger.reverse(original, body, by), touched);
  keep(run, tenant, operation, body, expected);
}

/** Counts a posting and keeps it for repetition. */
export function keep(run: ModelRun, tenant: Tenant, operation: Operation, body: Body, expected: Expected): void {
  if ('refused' in expected) return;
  tenant.posted.push({ operation, body, transaction: (expected.data as { transaction: Transaction }).transaction });
  if (expected.status === 201) run.context.tally.postings++;
}

/** The same request written differently: formats of amounts, defaults and order of names do not matter. */
function reworded(body: Body, form: number): Body {
  const amountOf = (text: string) => {
    const wanted = form === 1 ? `0${text}` : text.includes('.') ? text.padEnd(text.indexOf('.') + 3, '0') : `${text}.00`;
    // At most thirteen digits before the point.
    return wanted.split('.')[0]!.length > 13 ? text : wanted;
  };
  const again: Body = { ...body };
  if (again['amount']) again['amount'] = amountOf(again['amount'] as string);
  if (again['entries']) again['entries'] = again['entries'].map((each: Line) => ({ ...each, amount: amountOf(each.amount) }));
  if (again['metadata']) again['metadata'] = Object.fromEntries(Object.entries(again['metadata'] as object).reverse());
  if (form === 2) again['description'] ??= '';
  if (form === 3) for (const name of ['description', 'reference', 'metadata']) again[name] ??= null;
  return again;
}

/** The request with one field changed, of the first entry if it has it. `fresh`: a text that no other request has. */
function altered(body: Body, what: string, fresh: string): Body {
  const alter = (before: Body): Body => {
    const others: Body = {
      ...{ description: fresh, reference: fresh, metadata: { fresh }, amount: '77.77', account_code: 'NO-SUCH' },
      ...{ side: before['side'] === 'debit' ? 'credit' : 'debit', currency: before['currency'] === 'EUR' ? 'USD' : 'EUR' },
    };
    return { ...before, [what]: others[what] };
  };
  const [first, ...rest] = (body['entries'] ?? []) as Body[];
  return first && what in first ? { ...body, entries: [alter(first), ...rest] } : alter(body);
}

/** The entries of a batch item, with one more that balances them where possible. */
function linesOf(run: ModelRun, tenant: Tenant, { entries, currency }: Body): Body {
  const lines = (entries as Body[]).map(({ account, amount, side }) => {
    return { account_code: run.code(tenant, account as Pick, currency as string), amount, side, currency };
  });
  if (lines.length === 1) return lines[0]!;
  const sum = lines.reduce((all, { side, amount }) => all + (side === 'debit' ? minor(amount) : -minor(amount)), 0n);
  const rest = decimal(sum < 0n ? -sum : sum);
  if (sum !== 0n && rest.length <= 16) lines.push({ ...lines[0]!, side: sum > 0n ? 'credit' : 'debit', amount: rest });
  return { entries: lines };
}

/** Postings of several tenants in one call; some repeat the one before, or use its key for another posting. */
async function batch(run: ModelRun, first: Tenant, step: Step): Promise<void> {
  const before = new Map(run.tenants.map((each) => [each, each.ledger.log.length]));
  const items = (step['items'] as Body[]).reduce<{ tenant: Tenant; body: Body }[]>((all, each) => {
    const tenant = each['tenant'] === 0 ? first : run.tenants[each['tenant'] % run.tenants.length]!;
    const last = all.findLast((other) => other.tenant === tenant && other.body['idempotency_key'] !== undefined)?.body;
    const fresh = { ...about(run, each), ...linesOf(run, tenant, each) };
    const body =
      last && each['again'] < 2 ? last : last && each['again'] === 2 ? { ...fresh, idempotency_key: last['idempotency_key'] } : fresh;
    return [...all, { tenant, body }];
  }, []);
  const calls = items.map(({ tenant, body }) => run.prepare({ ...step, via: 'grpc' }, tenant, operationOf(body), body));
  const expected = items.map(({ tenant, body }, place) => tenant.ledger.post(requestOf(body), calls[place]!.by));
  await run.send(run.prepare({ ...step, via: 'grpc' }, first, 'batch', { postings: calls }), ({ code, data }) => {
    if (code !== undefined) return `the whole batch was refused as ${code}`;
    if (data.results.length !== items.length) return `${data.results.length} results`;
    const wrong = expected.map((each, place) => {
      const { transaction, refusal, replayed } = data.results[place];
      const { reason, field, tag, value } = refusal ?? {};
      return disagreement(each, { status: null, code: reason, field, tag, value, data: { transaction }, replayed });
    });
    const place = wrong.findIndex((each) => each !== null);
    return place < 0 ? null : `item ${place}: ${wrong[place]}`;
  });
  for (const [place, { tenant, body }] of items.entries()) {
    const outcome = expected[place]!;
    if ('refused' in outcome) run.context.tally.refused(null, outcome.refused[0]!.code);
    else keep(run, tenant, operationOf(body), body, outcome);
  }
  for (const [tenant, own] of Map.groupBy(items, (each) => each.tenant)) {
    const lines = own.flatMap(({ body }) => requestOf(body).entries);
    await run.compareLog(step, tenant, before.get(tenant)!, touchedBy(tenant.ledger, lines));
  }
}

/** The id of one of the newest transactions, or one that no transaction has. */
export function recentTransaction({ ledger }: Tenant, { at, odd }: Pick): string | undefined {
  const recent = ledger.transactions.slice(-20);
  return odd === 0 ? unknownTransaction : recent[at % Math.max(1, recent.length)]?.transaction_id.known();
}

const chosen = (tenant: Tenant, at: number) => tenant.posted[at % Math.max(1, tenant.posted.length)];

export const postingMoves: Moves = {
  double: {
    weight: 16,
    own: { ...details, debit: pick, credit: pick, amount, currency, unbalanced: fc.nat({ max: 19 }) },
    move: async (run, tenant, step) => {
      const { debit, credit, amount, currency, unbalanced } = step;
      const line = (account: Pick, side: string) => ({ account_code: run.code(tenant, account, currency), amount, side, currency });
      const entries = [line(debit, 'debit'), line(credit, 'credit')];
      if (unbalanced === 0) entries[1]!.amount = '3.33';
      if (unbalanced === 1) entries[1]!.currency = currency === 'NGN' ? 'USD' : 'NGN';
      const own = unbalanced > 9 ? { transaction_id: newId('txn') } : {};
      await post(run, tenant, { ...about(run, step), ...own, entries }, step);
    },
  },
  single: {
    weight: 8,
    own: { ...details, account: pick, amount, side, currency },
    move: async (run, tenant, step) => {
      const { amount, side, currency, account } = step;
      await post(run, tenant, { ...about(run, step), account_code: run.code(tenant, account, currency), amount, side, currency }, step);
    },
  },
  many: {
    weight: 6,
    own: { ...details, lines: fc.array(fc.record({ from: pick, to: pick, amount, currency }), { minLength: 2, maxLength: 4 }) },
    move: async (run, tenant, step) => {
      const entries = (step['lines'] as Body[]).flatMap(({ from, to, amount, currency }) => [
        { account_code: run.code(tenant, to, currency), amount, side: 'debit', currency },
        { account_code: run.code(tenant, from, currency), amount, side: 'credit', currency },
      ]);
      await post(run, tenant, { ...about(run, step), entries }, step);
    },
  },
  batch: { weight: 4, own: { items: fc.array(fc.record(item), { minLength: 1, maxLength: 6 }) }, move: batch },
  reverse: {
    weight: 7,
    own: { ...details, transaction: pick },
    move: async (run, tenant, step) => {
      const transaction_id = recentTransaction(tenant, step['transaction'] as Pick);
      const { reference: _, metadata: __, ...own } = about(run, step);
      if (transaction_id !== undefined) await reverse(run, tenant, { ...own, transaction_id }, step);
    },
  },
  again: {
    weight: 7,
    own: { posting: nat, form: fc.nat({ max: 3 }) },
    move: async (run, tenant, step) => {
      const found = chosen(tenant, step['posting']);
      if (!found) return;
      if (found.operation === 'reverse' || found.operation === 'refund') return reverse(run, tenant, found.body, step, found.operation);
      const body = reworded(found.body, step['form']);
      // Without a key it is a new posting, unless it names the transaction's id.
      const id = found.transaction.transaction_id.known();
      const isKeyless = body['idempotency_key'] === undefined && step['form'] > 0;
      const named = step.via === 'grpc' && step['form'] > 1 ? { transaction_id: id } : { idempotency_key: id };
      await post(run, tenant, { ...body, ...(isKeyless && named) }, step);
    },
  },
  reuse: {
    weight: 4,
    own: { posting: nat, what: fc.constantFrom('description', 'reference', 'metadata', 'amount', 'account_code', 'side', 'currency') },
    move: async (run, tenant, step) => {
      const found = chosen(tenant, step['posting']);
      if (found?.body['idempotency_key'] === undefined) return;
      const isReversal = found.operation === 'reverse' || found.operation === 'refund';
      const body = altered(found.body, isReversal ? 'description' : step['what'], run.next('Other '));
      await (isReversal ? reverse(run, tenant, body, step, found.operation) : post(run, tenant, body, step));
    },
  },
};
