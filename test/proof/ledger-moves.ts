// The steps that move money: postings good and bad, reversals, repetitions. Each is done by the model and by the cluster.
import { newId } from '../../services/platform/ids.ts';
import type { Books } from './books.ts';
import type { Rest } from './doors.ts';
import { disagreement, type Expected } from './expectation.ts';
import { decimal, largestTotal, minor, other as opposite, type Line, type Request, type Side, type Transaction } from './records.ts';
import type { Step } from './steps.ts';
import type { Tenant, World } from './world.ts';

/** Does a step in a world. Throws {@link Divergence}. */
export type Move = (world: World, tenant: Tenant, step: Step) => Promise<void>;

type Body = Record<string, any>;

/** What is sent beside the entries. */
function about(world: World, { keyed, description, reference, metadata }: Body): Body {
  const said = { description, reference, metadata, idempotency_key: keyed ? world.next('k') : undefined };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
}

const isSingle = (body: Body) => !('entries' in body);

function requestOf(body: Body): Request {
  const { account_code, amount, side, currency, entries = [{ account_code, amount, side, currency }], ...rest } = body;
  return { ...rest, kind: isSingle(body) ? 'single' : 'double', entries };
}

/** A posting as the messages have it. */
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

function touchedBy(books: Books, lines: Line[]): [string, string][] {
  const places = new Map(
    lines.map(({ account_code, currency }) => [`${account_code} ${currency}`, [account_code, currency] as [string, string]]),
  );
  const takes = ([code, currency]: [string, string]) => {
    const account = books.accounts.get(code);
    return account && !account.is_group && (account.currency ?? currency) === currency;
  };
  return [...places.values()].filter(takes).slice(0, 4);
}

/** Sends one posting, by the model and by one of the doors. */
async function post(world: World, tenant: Tenant, { transaction_id, ...sent }: Body, via: Step['via']): Promise<void> {
  const body: Body = via === 'grpc' && transaction_id !== undefined ? { ...sent, transaction_id } : sent;
  const { books } = tenant;
  const before = books.log.length;
  const path = isSingle(body) ? '/transactions' : '/transactions/double-entry';
  const { by, ...call } =
    via === 'rest' ? keyedCall(world.rest(tenant, 'POST', path, body), before) : world.grpc(tenant, 'postTransaction', {});
  if (call.via === 'grpc') call.request = { posting: { ...message(tenant, body), actor: by.actor, requestId: by.request_id } };
  const request = requestOf(body);
  const expected = books.post(request, by);
  await world.ask(call, expected);
  if (!('refused' in expected)) keep(world, tenant, body, expected);
  await world.agree(tenant, before, touchedBy(books, request.entries), via);
}

/** The key in the body, in the header instead, or in both. */
function keyedCall<Keyed extends Rest>(call: Keyed, turn: number): Keyed {
  const { idempotency_key: key, ...rest } = call.body as Body;
  if (key === undefined || turn % 3 === 0) return call;
  const headers = { ...call.headers, 'idempotency-key': turn % 2 === 0 ? `"${key}"` : key };
  return { ...call, headers, body: turn % 3 === 1 ? rest : call.body };
}

async function reverse(world: World, tenant: Tenant, id: string, body: Body, via: Step['via']): Promise<void> {
  const { books } = tenant;
  const before = books.log.length;
  const path = `/transactions/${id}/reverse`;
  const rest = world.rest(tenant, 'POST', path, body);
  const named = {
    transactionId: id,
    ...(body['idempotency_key'] && { idempotencyKey: body['idempotency_key'] }),
    description: body['description'] ?? '',
  };
  const { by, ...call } = via === 'rest' ? rest : world.grpc(tenant, 'reverseTransaction', named);
  const original = books.transactions.find((each) => each.transaction_id.known() === id);
  const expected = books.reverse(original, body, by);
  await world.ask(call, expected);
  if (!('refused' in expected)) keep(world, tenant, body, expected, id);
  await world.agree(tenant, before, touchedBy(books, original?.entries ?? []), via);
}

/** The same request in other words: amounts, defaults and the order of names do not matter. */
function reworded(body: Body, form: number): Body {
  const amount = (text: string) => (form === 1 ? `0${text}` : text.includes('.') ? text.padEnd(text.indexOf('.') + 3, '0') : `${text}.00`);
  const { entries, metadata, ...rest } = body;
  const backwards = metadata && Object.fromEntries(Object.entries(metadata as object).reverse());
  const again: Body = {
    ...rest,
    ...(entries && { entries: entries.map((each: Line) => ({ ...each, amount: longest(amount(each.amount), each.amount) })) }),
    ...('amount' in rest && { amount: longest(amount(rest['amount']), rest['amount']) }),
    ...(metadata !== undefined && { metadata: backwards }),
    nonsense: 1,
  };
  if (form === 2 && again['description'] == null) again['description'] = '';
  if (form === 3) for (const name of ['description', 'reference', 'metadata']) again[name] ??= null;
  return again;
}

/** The request with one thing changed, of the first entry where it is an entry's. `fresh`: a text that no other request has. */
function altered(body: Body, what: string, fresh: string): Body {
  const alter = (said: Body): Body => {
    const others: Body = {
      ...{ description: fresh, reference: fresh, metadata: { fresh }, amount: '77.77', account_code: 'NO-SUCH' },
      ...{ side: said['side'] === 'debit' ? 'credit' : 'debit', currency: said['currency'] === 'EUR' ? 'USD' : 'EUR' },
    };
    return { ...said, [what]: others[what] };
  };
  const [first, ...rest] = (body['entries'] ?? []) as Body[];
  return first && what in first ? { ...body, entries: [alter(first), ...rest] } : alter(body);
}

// Thirteen digits are all that an amount may have.
const longest = (wanted: string, before: string) => (wanted.split('.')[0]!.length > 13 ? before : wanted);

/** Lines of a batch's item, with one more that balances them where it can. */
function linesOf(world: World, tenant: Tenant, item: Body): Body {
  const lines = (item['entries'] as Body[]).map(({ account, amount, side }) => {
    return { account_code: world.code(tenant, account, item['currency']), amount, side, currency: item['currency'] };
  });
  if (lines.length === 1) return lines[0]!;
  const sum = lines.reduce((all, { side, amount }) => all + (side === 'debit' ? minor(amount) : -minor(amount)), 0n);
  const amount = decimal(sum < 0n ? -sum : sum);
  if (sum !== 0n && amount.length <= 16) lines.push({ ...lines[0]!, side: sum > 0n ? 'credit' : 'debit', amount });
  return { entries: lines };
}

/** Counts a posting that was answered, and keeps it to be sent again. */
function keep(world: World, tenant: Tenant, body: Body, answered: { status: number; data: unknown }, reverses?: string): void {
  const { transaction } = answered.data as { transaction: Transaction };
  tenant.posted.push({ body, transaction, ...(reverses !== undefined && { reverses }) });
  if (answered.status === 201) world.around.tally.postings++;
}

export const ledgerMoves: Record<string, Move> = {
  async double(world, tenant, step) {
    const { debit, credit, amount, currency, unbalanced } = step;
    const line = (pick: Body, side: string) => ({ account_code: world.code(tenant, pick as never, currency), amount, side, currency });
    const entries = [line(debit, 'debit'), line(credit, 'credit')];
    if (unbalanced === 0) entries[1]!.amount = '3.33';
    if (unbalanced === 1) entries[1]!.currency = currency === 'NGN' ? 'USD' : 'NGN';
    const own = step.via === 'grpc' && unbalanced > 9 ? { transaction_id: newId('txn') } : {};
    await post(world, tenant, { ...about(world, step), ...own, entries }, step.via);
  },
  async single(world, tenant, step) {
    const { amount, side, currency, account } = step;
    await post(
      world,
      tenant,
      { ...about(world, step), account_code: world.code(tenant, account, currency), amount, side, currency },
      step.via,
    );
  },
  async many(world, tenant, step) {
    const entries = (step['lines'] as Body[]).flatMap(({ from, to, amount, currency }) => [
      { account_code: world.code(tenant, to, currency), amount, side: 'debit', currency },
      { account_code: world.code(tenant, from, currency), amount, side: 'credit', currency },
    ]);
    await post(world, tenant, { ...about(world, step), entries }, step.via);
  },
  async batch(world, first, step) {
    const before = new Map(world.tenants.map((each) => [each, each.books.log.length]));
    const items: { tenant: Tenant; body: Body; expected: Expected }[] = [];
    const postings = (step['items'] as Body[]).map((item) => {
      const tenant = item['tenant'] === 0 ? first : world.tenants[item['tenant'] % world.tenants.length]!;
      const last = items.findLast((each) => each.tenant === tenant)?.body;
      // The same key in the same call: the same posting again, or another one.
      const again = last?.['idempotency_key'] === undefined ? 9 : item['again'] % 10;
      const body = again < 2 ? last! : { ...about(world, item), ...linesOf(world, tenant, item) };
      if (again === 2) body['idempotency_key'] = last!['idempotency_key'];
      const by = { actor: 'model', request_id: world.next('r') };
      items.push({ tenant, body, expected: tenant.books.post(requestOf(body), by) });
      return { ...message(tenant, body), actor: by.actor, requestId: by.request_id };
    });
    await world.ask({ via: 'grpc', method: 'postTransactions', request: { postings } }, ({ code, data }) => {
      if (code !== undefined) return `the whole batch was refused as ${code}`;
      for (const [place, { expected }] of items.entries()) {
        const { transaction, refusal, replayed } = data.results[place];
        const { reason, field, tag, value } = refusal ?? {};
        const wrong = disagreement(expected, { status: null, code: reason, field, tag, value, data: { transaction }, replayed });
        if (wrong !== null) return `item ${place}: ${wrong}`;
      }
      return data.results.length === items.length ? null : `${data.results.length} results`;
    });
    for (const { tenant, body, expected } of items) {
      const { tally } = world.around;
      if ('refused' in expected) tally.refused(null, expected.refused[0]!.code);
      else keep(world, tenant, body, expected);
    }
    for (const [tenant, own] of Map.groupBy(items, (each) => each.tenant)) {
      const lines = own.flatMap(({ body }) => requestOf(body).entries);
      await world.agree(tenant, before.get(tenant)!, touchedBy(tenant.books, lines), step.via);
    }
  },
  /** An account's totals nearly as large as they may be, then two postings: one fits to the last minor unit, the other does not. */
  async fill(world, tenant, step) {
    const { amount, spare } = step;
    const { books } = tenant;
    const places = [...books.totals.keys()];
    const [full, currency] = places[step['at'] % Math.max(1, places.length)]?.split(' ') ?? [];
    if (full === undefined || currency === undefined) return;
    const other = world.code(tenant, step['other'], currency);
    const totals = books.totalsOf(full, currency);
    const larger: Side = totals.debit > totals.credit ? 'debit' : 'credit';
    const more = largestTotal - totals[larger] - minor(amount) + BigInt(spare);
    if (more < 0n) return;
    await world.around.swell(tenant.id, books.accounts.get(full)!.id.known(), currency, more);
    books.totals.set(`${full} ${currency}`, { ...totals, debit: totals.debit + more, credit: totals.credit + more });
    for (const each of [amount, '0.01']) {
      const line = { account_code: full, amount: each, side: larger, currency };
      const entries = [line, { ...line, account_code: other, side: opposite(larger) }];
      await post(world, tenant, { ...about(world, step), entries }, step.via);
    }
  },
  async reverse(world, tenant, step) {
    const { at, odd } = step['transaction'];
    const { transactions } = tenant.books;
    const id =
      odd === 0
        ? 'txn_01jd1zq5v8e6n9w2k4m7p3r5t8'
        : transactions.at(-1 - (at % Math.max(1, Math.min(20, transactions.length))))?.transaction_id.known();
    const { idempotency_key, description } = about(world, step);
    const body = Object.fromEntries(Object.entries({ idempotency_key, description }).filter(([, value]) => value !== undefined));
    if (id !== undefined) await reverse(world, tenant, id, body, step.via);
  },
  async again(world, tenant, step) {
    const found = tenant.posted[step['posting'] % Math.max(1, tenant.posted.length)];
    if (!found) return;
    if (found.reverses !== undefined) return reverse(world, tenant, found.reverses, found.body, step.via);
    const body = reworded(found.body, step['form']);
    // Without a key it is another posting, unless it names the one that it was.
    const id = found.transaction.transaction_id.known();
    const keyless = body['idempotency_key'] === undefined && step['form'] > 0;
    const named = !keyless ? {} : step.via === 'rest' || step['form'] === 1 ? { idempotency_key: id } : { transaction_id: id };
    await post(world, tenant, { ...body, ...named }, step.via);
  },
  async reuse(world, tenant, step) {
    const found = tenant.posted[step['posting'] % Math.max(1, tenant.posted.length)];
    if (found?.body['idempotency_key'] === undefined) return;
    const body = altered(found.body, found.reverses === undefined ? step['what'] : 'description', world.next('Other '));
    if (found.reverses !== undefined) await reverse(world, tenant, found.reverses, body, step.via);
    else await post(world, tenant, body, step.via);
  },
};
