// The steps that change a ledger: postings good and bad, reversals, repetitions, charts and accounts. Each is done by the model and by the house.
import { newId } from '../../services/platform/ids.ts';
import { minor, type Books, type Line, type Request, type Transaction } from './books.ts';
import { anotherType, change, open, setUp, takeChart } from './chart.ts';
import type { Rest } from './doors.ts';
import { difference, disagreement, type Expected } from './expectation.ts';
import type { Step } from './steps.ts';
import { Divergence, type Tenant, type World } from './world.ts';

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
    return account && account['is_group'] !== true && (account['currency'] ?? currency) === currency;
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
  if (!('refused' in expected)) tenant.posted.push({ path, body, ...(expected.data as { transaction: Transaction }) });
  if ('status' in expected && expected.status === 201) world.around.tally.postings++;
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
  if (!('refused' in expected)) tenant.posted.push({ path, body, ...(expected.data as { transaction: Transaction }), reverses: id });
  if ('status' in expected && expected.status === 201) world.around.tally.postings++;
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

// Thirteen digits are all that an amount may have.
const longest = (wanted: string, before: string) => (wanted.split('.')[0]!.length > 13 ? before : wanted);

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
  async batch(world, tenant, step) {
    const { books } = tenant;
    const before = books.log.length;
    const expected: Expected[] = [];
    const bodies: Body[] = [];
    const postings = (step['items'] as Body[]).map((item, place) => {
      const lines = (item['entries'] as Body[]).map(({ account, amount, side }) => {
        return { account_code: world.code(tenant, account, item['currency']), amount, side, currency: item['currency'] };
      });
      const sum = lines.reduce((all, { side, amount }) => all + (side === 'debit' ? minor(amount) : -minor(amount)), 0n);
      const last = {
        ...lines[0]!,
        side: sum > 0n ? 'credit' : 'debit',
        amount: `${(sum < 0n ? -sum : sum) / 100n}.${String((sum < 0n ? -sum : sum) % 100n).padStart(2, '0')}`,
      };
      if (lines.length > 1 && sum !== 0n && last.amount.length <= 16) lines.push(last);
      const repeats = place > 0 && item['again'] % 4 === 0;
      const body = repeats ? bodies[place - 1]! : { ...about(world, item), ...(lines.length === 1 ? lines[0] : { entries: lines }) };
      bodies.push(body);
      const by = { actor: 'model', request_id: world.next('r') };
      expected.push(books.post(requestOf(body), by));
      return { ...message(tenant, body), actor: by.actor, requestId: by.request_id };
    });
    await world.ask({ via: 'grpc', method: 'postTransactions', request: { postings } }, ({ code, data }) => {
      if (code !== undefined) return `the whole batch was refused as ${code}`;
      for (const [place, each] of expected.entries()) {
        const { transaction, refusal, replayed } = data.results[place];
        const { reason, field, tag, value } = refusal ?? {};
        const wrong = disagreement(each, { status: null, code: reason, field, tag, value, data: { transaction }, replayed });
        if (wrong !== null) return `item ${place}: ${wrong}`;
      }
      return data.results.length === expected.length ? null : `${data.results.length} results`;
    });
    for (const each of expected) {
      const { tally } = world.around;
      if ('refused' in each) tally.count(tally.refusals, each.refused[0]!.code);
      else if (each.status === 201) tally.postings++;
    }
    await world.agree(
      tenant,
      before,
      touchedBy(
        books,
        bodies.flatMap((body) => requestOf(body).entries),
      ),
      step.via,
    );
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
    const key = found?.body['idempotency_key'];
    if (key === undefined) return;
    const lines = ['debit', 'credit'].map((side) => ({ account_code: 'NO-SUCH', amount: step['amount'], side, currency: 'NGN' }));
    await post(world, tenant, { idempotency_key: key, entries: lines }, step.via);
  },
  async setUp(world, tenant, step) {
    const { books } = tenant;
    const before = books.log.length;
    const businessType = step['type'] as string;
    const rest = world.rest(tenant, 'POST', '/accounts/setup', { business_type: businessType });
    const { by, ...call } = step.via === 'rest' ? rest : world.grpc(tenant, 'setUpChart', { businessType });
    const known = setUp(books, businessType);
    await world.ask(call, (seen) => {
      if (known) return disagreement(known, seen);
      if (seen.code === 'account_code_taken') {
        const taken = books.accounts.get(seen.value as string);
        return taken && taken['system'] !== true ? null : `account code ${String(seen.value)} is not taken`;
      }
      const wrong = disagreement({ status: 201, data: { business_type: businessType } }, seen);
      return wrong ?? takeChart(books, businessType, seen.data.accounts, by);
    });
    await world.agree(tenant, before, [], step.via);
  },
  async open(world, tenant, step) {
    const { type, only, parent, allow, group, taken, contra } = step;
    const { books } = tenant;
    const before = books.log.length;
    const groups = [...books.accounts.values()].filter((each) => each['is_group'] === true && each['type'] === type);
    const all = [...books.accounts.keys()];
    const fitting = parent.odd < 3 ? all : groups.map((each) => each.account_code);
    const parent_code = parent.odd === 0 ? 'NO-SUCH' : parent.odd > 14 ? undefined : fitting[parent.at % Math.max(1, fitting.length)];
    const account_code = taken === 0 && all.length > 0 ? all[parent.at % all.length]! : world.next('By.hand:');
    const normal_balance = contra === 0 ? (anotherType(type) === 'liability' ? 'credit' : 'debit') : undefined;
    const given = { account_code, name: `Account ${account_code}`, type, currency: only, parent_code, normal_balance };
    const all_ = {
      ...given,
      allow_negative: allow,
      is_group: group === 0 ? true : undefined,
      metadata: group === 1 ? { of: ['me'] } : undefined,
    };
    const body = Object.fromEntries(Object.entries(all_).filter(([, value]) => value !== undefined)) as typeof given;
    const { by, ...call } =
      step.via === 'rest' ? world.rest(tenant, 'POST', '/accounts', body) : world.grpc(tenant, 'createAccount', inMessage(body));
    await world.ask(call, open(books, body, by));
    await world.agree(tenant, before, [], step.via);
  },
  async change(world, tenant, step) {
    const { books } = tenant;
    const before = books.log.length;
    const code = world.code(tenant, step['account']);
    const account = books.accounts.get(code);
    const wanted: Record<string, Body> = {
      name: { name: world.next('Name ') },
      description: { description: world.next('Words ') },
      metadata: { metadata: { n: world.next('m') } },
      allow: { allow_negative: true },
      deny: { allow_negative: false },
      close: { status: 'closed' },
      open: { status: 'active' },
      nothing: {},
      immutable: { currency: 'NGN' },
    };
    const version = step['version'] === 0 ? 77 : step['version'] === 1 ? account?.version : undefined;
    const body: Body = { ...wanted[step['what']], ...(version !== undefined && { version }) };
    if (step['what'] === 'immutable') {
      const refusal = { code: 'validation_failed', field: 'currency', tag: 'immutable' };
      await world.ask(world.rest(tenant, 'PATCH', `/accounts/code/${code}`, body), { refused: [refusal] });
      return;
    }
    const { by, ...call } =
      step.via === 'rest'
        ? world.rest(tenant, 'PATCH', `/accounts/code/${code}`, body)
        : world.grpc(tenant, 'updateAccount', { accountCode: code, ...inMessage(body) });
    const expected = change(books, code, body, by);
    const seen = await world.ask(call, expected);
    const wrong = seen.code === undefined ? difference({ account: books.accounts.get(code) }, seen.data) : null;
    if (wrong !== null) throw new Divergence(wrong);
    await world.agree(tenant, before, [], step.via);
  },
};

/** A body of an account as the messages have it. */
function inMessage(body: Body): Body {
  const fields = Object.entries(body).filter(([, value]) => value !== null);
  const named = Object.fromEntries(
    fields.map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]),
  );
  if ('metadata' in named) named['metadata'] = JSON.stringify(named['metadata']);
  if ('version' in named) named['version'] = BigInt(named['version'] as number);
  return named;
}
