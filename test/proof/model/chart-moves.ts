// The steps that change a chart: set-up from a template, and accounts created, changed and closed.
import { anotherType, change, open, setUp, takeChart } from './chart-model.ts';
import { difference, disagreement } from './expectation.ts';
import type { Move } from './posting-moves.ts';
import { Divergence } from './model-run.ts';

type Body = Record<string, any>;

export const chartMoves: Record<string, Move> = {
  async setUp(run, tenant, step) {
    const { ledger } = tenant;
    const before = ledger.log.length;
    const businessType = step['type'] as string;
    const rest = run.rest(tenant, 'POST', '/accounts/setup', { business_type: businessType });
    const { by, ...call } = step.via === 'rest' ? rest : run.grpc(tenant, 'setUpChart', { businessType });
    const known = setUp(ledger, businessType);
    await run.call(call, (seen) => {
      if (known) return disagreement(known, seen);
      if (seen.code === 'account_code_taken') {
        const taken = ledger.accounts.get(seen.value as string);
        return taken && !taken['system'] ? null : `account code ${String(seen.value)} is not taken`;
      }
      const wrong = disagreement({ status: 201, data: { business_type: businessType } }, seen);
      return wrong ?? takeChart(ledger, businessType, seen.data.accounts, by);
    });
    await run.compareLog(tenant, before, [], step.via);
  },
  async open(run, tenant, step) {
    const { type, only, parent, allow, group, taken, contra } = step;
    const { ledger } = tenant;
    const before = ledger.log.length;
    const groups = [...ledger.accounts.values()].filter((each) => each.is_group && each.type === type);
    const all = [...ledger.accounts.keys()];
    const fitting = parent.odd < 5 ? all : groups.map((each) => each.account_code);
    const parent_code = parent.odd === 0 ? 'NO-SUCH' : parent.odd > 14 ? undefined : fitting[parent.at % Math.max(1, fitting.length)];
    const account_code = taken === 0 && all.length > 0 ? all[parent.at % all.length]! : run.next('By.hand:');
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
      step.via === 'rest' ? run.rest(tenant, 'POST', '/accounts', body) : run.grpc(tenant, 'createAccount', inMessage(body));
    await run.call(call, open(ledger, body, by));
    await run.compareLog(tenant, before, [], step.via);
  },
  async change(run, tenant, step) {
    const { ledger } = tenant;
    const before = ledger.log.length;
    const code = run.code(tenant, step['account']);
    const account = ledger.accounts.get(code);
    const groups = [...ledger.accounts.values()].filter((each) => each.is_group).map((each) => each.account_code);
    const wanted: Record<string, Body> = {
      name: { name: run.next('Name ') },
      description: { description: run.next('Words ') },
      metadata: { metadata: { n: run.next('m') } },
      allow: { allow_negative: true },
      deny: { allow_negative: false },
      move: { parent_code: groups[step['account'].at % Math.max(1, groups.length)] ?? 'NO-SUCH' },
      close: { status: 'closed' },
      open: { status: 'active' },
      nothing: {},
      immutable: { currency: 'NGN' },
    };
    const version = step['version'] === 0 ? 77 : step['version'] === 1 ? account?.version : undefined;
    const body: Body = { ...wanted[step['what']], ...(version !== undefined && { version }) };
    if (step['what'] === 'immutable') {
      const refusal = { code: 'validation_failed', field: 'currency', tag: 'immutable' };
      await run.call(run.rest(tenant, 'PATCH', `/accounts/code/${code}`, body), { refused: [refusal] });
      return;
    }
    const { by, ...call } =
      step.via === 'rest'
        ? run.rest(tenant, 'PATCH', `/accounts/code/${code}`, body)
        : run.grpc(tenant, 'updateAccount', { accountCode: code, ...inMessage(body) });
    const expected = change(ledger, code, body, by);
    const seen = await run.call(call, expected);
    const wrong = seen.code === undefined ? difference({ account: ledger.accounts.get(code) }, seen.data) : null;
    if (wrong !== null) throw new Divergence(wrong);
    await run.compareLog(tenant, before, [], step.via);
  },
};

/** An account's REST body as a gRPC request. */
function inMessage(body: Body): Body {
  const fields = Object.entries(body).filter(([, value]) => value !== null);
  const named = Object.fromEntries(
    fields.map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]),
  );
  if ('metadata' in named) named['metadata'] = JSON.stringify(named['metadata']);
  if ('version' in named) named['version'] = BigInt(named['version'] as number);
  return named;
}
