// The steps that move money: postings, reversals and repetitions, each by the model and by the cluster.
import { newId } from '../../../services/platform/ids.ts';
import type { LedgerModel } from './ledger-model.ts';
import type { Rest } from '../api-clients.ts';
import { disagreement, type Expected } from './expectation.ts';
import { decimal, largestTotal, minor, other as opposite, type Line, type Request, type Side, type Transaction } from './records.ts';
import type { Step } from './steps.ts';
import type { Tenant, ModelRun } from './model-run.ts';

/** Executes a step. Throws {@link Divergence}. */
export type Move = (run: ModelRun, tenant: Tenant, step: Step) => Promise<void>;

type Body = Record<string, any>;

/** The optional fields of a posting. */
function about(run: ModelRun, { keyed, description, reference, metadata }: Body): Body {
  const fields = { description, reference, metadata, idempotency_key: keyed ? run.next('k') : undefined };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

const isSingle = (body: Body) => !('entries' in body);

function requestOf(body: Body): Request {
  const { account_code, amount, side, currency, entries = [{ account_code, amount, side, currency }], ...rest } = body;
  return { ...rest, kind: isSingle(body) ? 'single' : 'double', entries };
}

/** A posting's REST body as a gRPC message. */
function message(tenant: Tenant, body: Body): Body {
  const { entries, description, reference, metadata, idempotency_key } = requestOf(body);
  return {
    tenantId: tenant.id,
    entries: entries.map(({ account_code, ...rest }) => ({ accountCode: account_code, ...rest })),
    ...(idempotency_key !== undefined && { idempotencyKey: idempotency_key }),
    ...(description != null && { description }),
    ...(reference != null && { reference }),
    ...(metadata != null && { metadata: JSON.stringify(metadata) }),
    ...(body['transaction_id'] !== undefined && { transactionId: body['transaction_id'] }),
  };
}

function touchedBy(ledger: LedgerModel, lines: Line[]): [string, string][] {
  const balanceKeys = new Map(
    lines.map(({ account_code, currency }) => [`${account_code} ${currency}`, [account_code, currency] as [string, string]]),
  );
  const takes = ([code, currency]: [string, string]) => {
    const account = ledger.accounts.get(code);
    return account && !account.is_group && (account.currency ?? currency) === currency;
  };
  return [...balanceKeys.values()].filter(takes).slice(0, 4);
}

/** Posts in the model and over REST or gRPC, and compares. */
async function post(run: ModelRun, tenant: Tenant, { transaction_id, ...sent }: Body, via: Step['via']): Promise<void> {
  const body: Body = via === 'grpc' && transaction_id !== undefined ? { ...sent, transaction_id } : sent;
  const { ledger } = tenant;
  const before = ledger.log.length;
  const path = isSingle(body) ? '/transactions' : '/transactions/double-entry';
  const { by, ...call } =
    via === 'rest' ? keyedCall(run.rest(tenant, 'POST', path, body), before) : run.grpc(tenant, 'postTransaction', {});
  if (call.via === 'grpc') call.request = { posting: { ...message(tenant, body), actor: by.actor, requestId: by.request_id } };
  const request = requestOf(body);
  const expected = ledger.post(request, by);
  await run.call(call, expected);
  if (!('refused' in expected)) keep(run, tenant, body, expected);
  await run.compareLog(tenant, before, touchedBy(ledger, request.entries), via);
}

/** Puts the idempotency key into the body, the header, or both. */
function keyedCall<Keyed extends Rest>(call: Keyed, turn: number): Keyed {
  const { idempotency_key: key, ...rest } = call.body as Body;
  if (key === undefined || turn % 3 === 0) return call;
  const headers = { ...call.headers, 'idempotency-key': turn % 2 === 0 ? `"${key}"` : key };
  return { ...call, headers, body: turn % 3 === 1 ? rest : call.body };
}

async function reverse(run: ModelRun, tenant: Tenant, id: string, body: Body, via: Step['via']): Promise<void> {
  const { ledger } = tenant;
  const before = ledger.log.length;
  const path = `/transactions/${id}/reverse`;
  const rest = run.rest(tenant, 'POST', path, body);
  const named = {
    transactionId: id,
    ...(body['idempotency_key'] && { idempotencyKey: body['idempotency_key'] }),
    description: body['description'] ?? '',
  };
  const { by, ...call } = via === 'rest' ? rest : run.grpc(tenant, 'reverseTransaction', named);
  const original = ledger.transactions.find((each) => each.transaction_id.known() === id);
  const expected = ledger.reverse(original, body, by);
  await run.call(call, expected);
  if (!('refused' in expected)) keep(run, tenant, body, expected, id);
  await run.compareLog(tenant, before, touchedBy(ledger, original?.entries ?? []), via);
}

/** The same request written differently: formats of amounts, defaults and order of names do not matter. */
function reworded(body: Body, form: number): Body {
  const amount = (text: string) => (form === 1 ? `0${text}` : text.includes('.') ? text.padEnd(text.indexOf('.') + 3, '0') : `${text}.00`);
  const { entries, metadata, ...rest } = body;
  const backwards = metadata && Object.fromEntries(Object.entries(metadata as object).reverse());
  const again: Body = {
    ...rest,
    ...(entries && { entries: entries.map((each: Line) => ({ ...each, amount: longest(amount(each.amount), each.amount) })) }),
    ...('amount' in rest && { amount: longest(amount(rest['amount']), rest['amount']) }),
    ...(metadata !== undefined && { metadata: backwards }),
  };
  if (form === 2 && again['description'] == null) again['description'] = '';
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

// An amount has at most thirteen digits before the point.
const longest = (wanted: string, before: string) => (wanted.split('.')[0]!.length > 13 ? before : wanted);

/** The entries of a batch item, with one more that balances them where possible. */
function linesOf(run: ModelRun, tenant: Tenant, item: Body): Body {
  const lines = (item['entries'] as Body[]).map(({ account, amount, side }) => {
    return { account_code: run.code(tenant, account, item['currency']), amount, side, currency: item['currency'] };
  });
  if (lines.length === 1) return lines[0]!;
  const sum = lines.reduce((all, { side, amount }) => all + (side === 'debit' ? minor(amount) : -minor(amount)), 0n);
  const amount = decimal(sum < 0n ? -sum : sum);
  if (sum !== 0n && amount.length <= 16) lines.push({ ...lines[0]!, side: sum > 0n ? 'credit' : 'debit', amount });
  return { entries: lines };
}

/** Counts a posting and keeps it for repetition. */
function keep(run: ModelRun, tenant: Tenant, body: Body, answered: { status: number; data: unknown }, reverses?: string): void {
  const { transaction } = answered.data as { transaction: Transaction };
  tenant.posted.push({ body, transaction, ...(reverses !== undefined && { reverses }) });
  if (answered.status === 201) run.context.tally.postings++;
}

export const postingMoves: Record<string, Move> = {
  async double(run, tenant, step) {
    const { debit, credit, amount, currency, unbalanced } = step;
    const line = (pick: Body, side: string) => ({ account_code: run.code(tenant, pick as never, currency), amount, side, currency });
    const entries = [line(debit, 'debit'), line(credit, 'credit')];
    if (unbalanced === 0) entries[1]!.amount = '3.33';
    if (unbalanced === 1) entries[1]!.currency = currency === 'NGN' ? 'USD' : 'NGN';
    const own = step.via === 'grpc' && unbalanced > 9 ? { transaction_id: newId('txn') } : {};
    await post(run, tenant, { ...about(run, step), ...own, entries }, step.via);
  },
  async single(run, tenant, step) {
    const { amount, side, currency, account } = step;
    await post(run, tenant, { ...about(run, step), account_code: run.code(tenant, account, currency), amount, side, currency }, step.via);
  },
  async many(run, tenant, step) {
    const entries = (step['lines'] as Body[]).flatMap(({ from, to, amount, currency }) => [
      { account_code: run.code(tenant, to, currency), amount, side: 'debit', currency },
      { account_code: run.code(tenant, from, currency), amount, side: 'credit', currency },
    ]);
    await post(run, tenant, { ...about(run, step), entries }, step.via);
  },
  async batch(run, first, step) {
    const before = new Map(run.tenants.map((each) => [each, each.ledger.log.length]));
    const items: { tenant: Tenant; body: Body; expected: Expected }[] = [];
    const postings = (step['items'] as Body[]).map((item) => {
      const tenant = item['tenant'] === 0 ? first : run.tenants[item['tenant'] % run.tenants.length]!;
      const last = items.findLast((each) => each.tenant === tenant)?.body;
      // The same key twice in one call, with the same posting or another.
      const again = last?.['idempotency_key'] === undefined ? 9 : item['again'] % 10;
      const body = again < 2 ? last! : { ...about(run, item), ...linesOf(run, tenant, item) };
      if (again === 2) body['idempotency_key'] = last!['idempotency_key'];
      const by = { actor: 'model', request_id: run.next('r') };
      items.push({ tenant, body, expected: tenant.ledger.post(requestOf(body), by) });
      return { ...message(tenant, body), actor: by.actor, requestId: by.request_id };
    });
    await run.call({ via: 'grpc', method: 'postTransactions', request: { postings } }, ({ code, data }) => {
      if (code !== undefined) return `the whole batch was refused as ${code}`;
      for (const [index, { expected }] of items.entries()) {
        const { transaction, refusal, replayed } = data.results[index];
        const { reason, field, tag, value } = refusal ?? {};
        const wrong = disagreement(expected, { status: null, code: reason, field, tag, value, data: { transaction }, replayed });
        if (wrong !== null) return `item ${index}: ${wrong}`;
      }
      return data.results.length === items.length ? null : `${data.results.length} results`;
    });
    for (const { tenant, body, expected } of items) {
      const { tally } = run.context;
      if ('refused' in expected) tally.refused(null, expected.refused[0]!.code);
      else keep(run, tenant, body, expected);
    }
    for (const [tenant, own] of Map.groupBy(items, (each) => each.tenant)) {
      const lines = own.flatMap(({ body }) => requestOf(body).entries);
      await run.compareLog(tenant, before.get(tenant)!, touchedBy(tenant.ledger, lines), step.via);
    }
  },
  /** Inflates an account's totals to nearly the maximum, then posts twice: one still fits, the other does not. */
  async fill(run, tenant, step) {
    const { amount, spare } = step;
    const { ledger } = tenant;
    const balanceKeys = [...ledger.totals.keys()];
    const [full, currency] = balanceKeys[step['at'] % Math.max(1, balanceKeys.length)]?.split(' ') ?? [];
    if (full === undefined || currency === undefined) return;
    const other = run.code(tenant, step['other'], currency);
    const totals = ledger.totalsOf(full, currency);
    const larger: Side = totals.debit > totals.credit ? 'debit' : 'credit';
    const more = largestTotal - totals[larger] - minor(amount) + BigInt(spare);
    if (more < 0n) return;
    await run.context.inflate(tenant.id, ledger.accounts.get(full)!.id.known(), currency, more);
    ledger.totals.set(`${full} ${currency}`, { ...totals, debit: totals.debit + more, credit: totals.credit + more });
    for (const each of [amount, '0.01']) {
      const line = { account_code: full, amount: each, side: larger, currency };
      const entries = [line, { ...line, account_code: other, side: opposite(larger) }];
      await post(run, tenant, { ...about(run, step), entries }, step.via);
    }
  },
  async reverse(run, tenant, step) {
    const { at, odd } = step['transaction'];
    const { transactions } = tenant.ledger;
    const id =
      odd === 0
        ? 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8'
        : transactions.at(-1 - (at % Math.max(1, Math.min(20, transactions.length))))?.transaction_id.known();
    const { idempotency_key, description } = about(run, step);
    const body = Object.fromEntries(Object.entries({ idempotency_key, description }).filter(([, value]) => value !== undefined));
    if (id !== undefined) await reverse(run, tenant, id, body, step.via);
  },
  async again(run, tenant, step) {
    const found = tenant.posted[step['posting'] % Math.max(1, tenant.posted.length)];
    if (!found) return;
    if (found.reverses !== undefined) return reverse(run, tenant, found.reverses, found.body, step.via);
    const body = reworded(found.body, step['form']);
    // Without a key it is a new posting, unless it names the transaction's id.
    const id = found.transaction.transaction_id.known();
    const keyless = body['idempotency_key'] === undefined && step['form'] > 0;
    const named = !keyless ? {} : step.via === 'rest' || step['form'] === 1 ? { idempotency_key: id } : { transaction_id: id };
    await post(run, tenant, { ...body, ...named }, step.via);
  },
  async reuse(run, tenant, step) {
    const found = tenant.posted[step['posting'] % Math.max(1, tenant.posted.length)];
    if (found?.body['idempotency_key'] === undefined) return;
    const body = altered(found.body, found.reverses === undefined ? step['what'] : 'description', run.next('Other '));
    if (found.reverses !== undefined) await reverse(run, tenant, found.reverses, body, step.via);
    else await post(run, tenant, body, step.via);
  },
};
