// The tenants' webhook in the model: every event is delivered once, with the model's data.
import { bodySignature } from '../../../services/notifier/webhook.ts';
import { until } from '../../notifier.ts';
import { balanceOf } from './chart-model.ts';
import { difference } from './expectation.ts';
import { Divergence, type ModelRun, type Tenant } from './model-run.ts';
import type { Moves } from './posting-moves.ts';
import { decimal } from './records.ts';

const secret = 'the secret of every webhook here';
const types = ['transaction.posted', 'balance.updated', 'account.created', 'account.updated'];

export const deliveryMoves: Moves = {
  subscribe: {
    weight: 0.5,
    own: {},
    move: async (run, tenant) => {
      if (tenant.isSubscribed || tenant.ledger.log.length > 0) return;
      tenant.isSubscribed = true;
      const { cluster, hooks } = run.context;
      const body = { url: `${hooks}/${tenant.slug}`, events: types, secret };
      const { status } = await cluster.rest('POST', `/v1/tenants/${tenant.slug}/webhooks`, { key: tenant.key, body });
      if (status !== 201) throw new Divergence(`a webhook was answered ${status}`);
    },
  },
};

/** What must be delivered, by type, sequence and balance. */
function expectedOf({ ledger }: Tenant): Map<string, unknown> {
  const all = ledger.log.flatMap(({ type, data, changes }): [string, unknown][] => {
    const { sequence, transaction_id } = data;
    const updates = changes.map(({ account, currency, before, after }): [string, unknown] => {
      const previous_balance = decimal(ledger.net(account, before));
      const update = { ...balanceOf(ledger, account, currency, after), previous_balance, transaction_id, sequence };
      return [`balance.updated ${String(sequence)} ${account.account_code} ${currency}`, update];
    });
    return [[`${type} ${String(sequence)}`, data], ...updates];
  });
  return new Map(all);
}

/** Waits until everything has arrived, and compares it. Throws {@link Divergence}. */
export async function settle(run: ModelRun, tenant: Tenant): Promise<void> {
  if (!tenant.isSubscribed) return;
  const { tally } = run.context;
  const expected = expectedOf(tenant);
  const received = () => run.context.received.get(tenant.slug) ?? [];
  const end = Date.now() + 60_000;
  await until(() => Promise.resolve(received().length >= expected.size || Date.now() > end));
  for (const { headers, body } of received()) {
    const { type, data, tenant_id } = JSON.parse(body) as { type: string; data: any; tenant_id: string };
    const subject = `${type} ${data.sequence}${type === 'balance.updated' ? ` ${data.account_code} ${data.currency}` : ''}`;
    const isSigned = headers['x-webhook-signature'] === bodySignature(secret, body);
    if (!expected.has(subject) || tenant_id !== tenant.id || !isSigned) throw new Divergence(`an unexpected delivery: ${body}`);
    const wrong = difference(expected.get(subject), data, subject);
    if (wrong !== null) throw new Divergence(wrong);
    expected.delete(subject);
    tally.deliveries++;
  }
  const [missing] = expected.keys();
  if (missing !== undefined) throw new Divergence(`no delivery of ${missing}`);
}
