// The steps that change a chart: set up from a template, accounts opened, changed and closed.
import { anotherType, change, open, setUp, takeChart } from './chart.ts';
import { difference, disagreement } from './expectation.ts';
import type { Move } from './ledger-moves.ts';
import { Divergence } from './world.ts';

type Body = Record<string, any>;

export const chartMoves: Record<string, Move> = {
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
        return taken && !taken['system'] ? null : `account code ${String(seen.value)} is not taken`;
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
    const groups = [...books.accounts.values()].filter((each) => each.is_group && each.type === type);
    const all = [...books.accounts.keys()];
    const fitting = parent.odd < 5 ? all : groups.map((each) => each.account_code);
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
